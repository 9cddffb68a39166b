/* test_ops.c: the operations on elements that are neither sources nor images: what they plan, what they compute, what they
 * refuse; and what every operation may ask of its context. */
#include "harness.h"
#include "unit/op_rig.h"

#include "base/fault.h"
#include "ops/image/image_op.h"
#include "ops/op_list.h"
#include "ops/op_table.h"

#include <inttypes.h>

/* What `text` makes of fields: the new ones, each with what becomes of it: = of input i, or ! when it is computed. */
static void plans(const char *text, const char *fields, const char *want, int line)
{
    struct rig r;
    pst_error error;
    pst_spec in = rig_spec(fields);
    char got[1024] = "", spec[512];
    pst_status st = rig_plan(&r, text, &in, &error);
    if (st < 0) {
        snprintf(got, sizeof(got), "%s: %s", pst_status_name(st), error.message);
    } else {
        size_t n = (size_t)snprintf(got, sizeof(got), "%s /", pst_spec_text(&r.node->out, spec, sizeof(spec)));
        for (size_t i = 0; i < r.node->out.count; i++) {
            int alias = r.node->out.field[i].alias;
            n += (size_t)(alias < 0 ? snprintf(got + n, sizeof(got) - n, " !")
                                    : snprintf(got + n, sizeof(got) - n, " =%d", alias));
        }
        uint64_t reads = 0;
        for (size_t i = 0; i < in.count; i++)
            reads |= (uint64_t)pst_spec_reads(&r.node->out, i) << i;
        snprintf(got + n, sizeof(got) - n, " reads %" PRIx64, reads);
    }
    test_report(strcmp(got, want) == 0, __FILE__, line, "%s of %s gives\n%s\nexpected\n%s", text, fields, got, want);
    rig_finish(&r);
}

#define PLANS(text, fields, want) plans(text, fields, want, __LINE__)

/* ---- Shared ---- */

static void test_dtypes(void)
{
    static const char *const names[] = {"none",    "bytes",    "uint8",   "int32",  "int64",
                                        "float16", "bfloat16", "float32", "float64"};
    static const size_t sizes[] = {0, sizeof(pst_bytes), 1, 4, 8, 2, 2, 4, 8};
    for (int i = PST_DTYPE_NONE; i <= PST_DTYPE_F64; i++) {
        CHECK_STR(pst_dtype_name((pst_dtype)i), names[i]);
        CHECK_INT(pst_dtype_size((pst_dtype)i), sizes[i]);
    }
    CHECK_STR(pst_dtype_name((pst_dtype)99), "none");
    CHECK_INT(pst_dtype_size((pst_dtype)99), 0);
}

static void test_spec(void)
{
    pst_spec spec = rig_spec("image:u8[?,?,3] label:i64 x:f32[32] raw:bytes"), out, none = {0};
    char text[128];
    CHECK_STR(pst_spec_text(&spec, text, sizeof(text)), "image: uint8 [?,?,3], label: int64, x: float32 [32], raw: bytes");
    CHECK_STR(pst_spec_text(&none, text, sizeof(text)), "");
    CHECK(pst_spec_text(&spec, NULL, 0) == NULL);
    for (size_t size = 1; size <= 60; size++) {
        memset(text, '#', sizeof(text));
        pst_spec_text(&spec, text, size);
        CHECK(memchr(text, '\0', size) && text[size] == '#');
    }
    CHECK_STR(pst_spec_text(&spec, text, 50), "image: uint8 [?,?,3], label: int64\xe2\x80\xa6");
    pst_field fields[] = {{.name = "a\nb", .dtype = PST_DTYPE_U8}, {.name = "\x1b[31m\x7f"}, {.name = "\xc2\x9b\xc3\xa4"}};
    const pst_spec odd = {.count = 3, .field = fields};
    CHECK_STR(pst_spec_text(&odd, text, sizeof(text)), "a\\nb: uint8, \\x1b[31m\\x7f: none, \\x9b\xc3\xa4: none");
    memset(fields[0].name, '\x01', PST_NAME_SIZE); /* as long as can be, and no end */
    CHECK_INT(strlen(pst_spec_text(&odd, (char[400]){0}, 400)),
              4 * PST_NAME_SIZE + strlen(": uint8, \\x1b[31m\\x7f: none, \\x9bxx: none"));
    CHECK_INT(pst_spec_find(&spec, "label"), 1);
    CHECK_INT(pst_spec_find(&spec, "labe"), -1);
    CHECK_INT(pst_spec_find(&none, ""), -1);
    struct arena memory;
    pst_error error;
    arena_init(&memory);
    REQUIRE_OK(spec_init(&out, &memory, spec.count, &error), &error);
    pst_spec_read(&out, 2);
    CHECK(pst_spec_reads(&out, 2) && !pst_spec_reads(&out, 1) && !pst_spec_reads(&spec, 2) && spec_reads_valid(&out));
    pst_spec_pass(&spec, &out);
    CHECK(out.count == 4 && !pst_spec_reads(&out, 2) && out.field[3].alias == 3 && strcmp(out.field[2].name, "x") == 0);
    pst_spec_write(&out, 2)->dtype = PST_DTYPE_F64;
    CHECK(out.field[2].alias == -1 && out.field[2].dtype == PST_DTYPE_F64 && spec.field[2].dtype == PST_DTYPE_F32);
    while (out.count < PST_MAX_FIELDS)
        REQUIRE_OK(pst_spec_keep(&out, &spec, out.count % 4, &error), &error);
    CHECK(out.field[0].alias == 0 && out.field[PST_MAX_FIELDS - 1].alias == (PST_MAX_FIELDS - 1) % 4);
    CHECK_STATUS(pst_spec_add(&out, &spec.field[0], &error), PST_ELIMIT, &error);
    CHECK_STATUS(pst_spec_add(&spec, &spec.field[0], &error), PST_EINVAL, &error);
    pst_spec_read(&out, 4);
    CHECK(!spec_reads_valid(&out) && !pst_spec_reads(&out, 4));
    arena_finish(&memory);
}

/* Draws depend on seed, epoch, sample and operation, and on nothing else. */
static void test_random(void)
{
    pst_ctx ctx = {.seed = 11, .epoch = 22, .sample = 33};
    struct random r;
    random_init(&r, 11, 22, 33, 4);
    ctx_enter(&ctx, 4);
    uint64_t first = pst_random(&ctx);
    CHECK(first == random_u64(&r));
    CHECK(pst_random_unit(&ctx) == random_unit(&r));
    CHECK(random_below(ctx_random(&ctx), 1000) == random_below(&r, 1000));
    ctx_enter(&ctx, 5);
    CHECK(pst_random(&ctx) != first);
    ctx_enter(&ctx, 4);
    CHECK(pst_random(&ctx) == first);
    ctx.sample = 34;
    ctx_enter(&ctx, 4);
    CHECK(pst_random(&ctx) != first);
    ctx.sample = 33;
    ctx.epoch = 23;
    ctx_enter(&ctx, 4);
    CHECK(pst_random(&ctx) != first);
}

static void test_scratch(void)
{
    pst_ctx ctx = {0};
    arena_init(&ctx.scratch);
    for (size_t i = 0; i < 100; i++) {
        uint8_t *p = pst_scratch(&ctx, i * 37);
        REQUIRE(p && (uintptr_t)p % 64 == 0);
        memset(p, 0xff, i * 37);
    }
    CHECK(pst_scratch(&ctx, SIZE_MAX) == NULL);
    CHECK(pst_scratch(&ctx, SIZE_MAX - 40) == NULL);
    arena_finish(&ctx.scratch);
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK(pst_scratch(&ctx, 1) == NULL);
    test_fault_clear();
}

static void test_kinds(void)
{
    static const pst_op_class own = {.size = sizeof(pst_op_class), .name = "own"};
    CHECK_INT(pst_op_kind_of(&op_shuffle.op), PST_OP_ORDER);
    CHECK_INT(pst_op_kind_of(&op_batch.op), PST_OP_BATCHING);
    CHECK_INT(pst_op_kind_of(&op_example.op), PST_OP_SAMPLE);
    CHECK_INT(pst_op_kind_of(&own), PST_OP_SAMPLE);
    CHECK(op_decl_of(&op_example.op) == &op_example && op_decl_of(&source_range.op) == NULL && op_decl_of(&own) == NULL);
    for (size_t i = 0; pst_op_at(i); i++) /* sources, order, elements, batching */
        CHECK(i == 0 || pst_op_kind_of(pst_op_at(i)) >= pst_op_kind_of(pst_op_at(i - 1)));
}

static const pst_param *param_of(const pst_op_class *op, const char *name)
{
    const pst_param *p = op->params;
    while (p && p->name && strcmp(p->name, name) != 0)
        p++;
    return p && p->name ? p : NULL;
}

/* An operation's steady counterpart takes its arguments. */
static void check_steady(const pst_op_class *op)
{
    const pst_op_class *steady = op->steady ? pst_op_find(op->steady) : NULL;
    CHECK_MSG(!op->steady || (steady && !(steady->flags & PST_OP_RANDOM)), "%s", op->name);
    for (const pst_param *p = steady ? steady->params : NULL; p && p->name; p++)
        CHECK_MSG(p->fallback || param_of(op, p->name), "%s has no %s", op->name, p->name);
}

static void check_image_flags(const struct op_decl *decl)
{
    const struct image_facet *f = decl->image;
    uint32_t flags = decl->op.flags;
    bool cuts = f->geometry && (f->cuts_at_random || param_of(&decl->op, "size")) && !(flags & PST_OP_SIZES);
    CHECK_MSG(flags & PST_OP_ONE_FIELD, "%s", decl->op.name);
    CHECK_MSG(!(flags & PST_OP_DECODES) == !f->decodes, "%s", decl->op.name);
    CHECK_MSG(!(flags & PST_OP_SIZES) == !f->resizes, "%s", decl->op.name);
    CHECK_MSG(!cuts || flags & PST_OP_CUTS, "%s", decl->op.name);
    CHECK_MSG(!(flags & PST_OP_CONVERTS) == !(f->factors || f->casts || f->splits), "%s", decl->op.name);
}

/* Doctor and predict ask what operations do: every one has to say it. */
static void test_flags(void)
{
    static const char *const several[] = {"stack", "enumerate", "expr", NULL}; /* they make a field from others */
    for (const struct op_entry *e = op_table; e->op; e++) {
        const pst_op_class *op = e->op;
        bool of_several = false, random_alone = (op->flags & ~(uint32_t)PST_OP_RANDOM) == 0;
        for (size_t i = 0; several[i]; i++)
            of_several |= strcmp(several[i], op->name) == 0;
        if (pst_op_kind_of(op) != PST_OP_SAMPLE) {
            CHECK_MSG(random_alone && !op->steady, "%s", op->name);
            continue;
        }
        bool told = of_several || !op->run || op->flags & (PST_OP_ONE_FIELD | PST_OP_PARSES);
        CHECK_MSG(told, "what does %s change? PST_OP_ONE_FIELD, or several of this test", op->name);
        const pst_param *field = param_of(op, "field");
        CHECK_MSG(!(op->flags & PST_OP_ONE_FIELD) || (field && field->fallback), "%s", op->name);
        check_steady(op);
        if (e->decl->image)
            check_image_flags(e->decl);
    }
}

/* ---- select, drop, rename ---- */

static void test_select(void)
{
    PLANS("select label image", "image:u8[?,?,3] label:i64 x:f32", "label: int64, image: uint8 [?,?,3] / =1 =0 reads 0");
    PLANS("select x", "x:f32", "x: float32 / =0 reads 0");
    PLANS("select x x", "x:f32", "PST_EINVAL: field x is selected twice");
    PLANS("select imge", "image:u8 label:i64", "PST_ENOTFOUND: there is no field imge; did you mean image?");
    PLANS("select speed", "image:u8 label:i64", "PST_ENOTFOUND: there is no field speed; available fields: image, label");
    PLANS("select ''", "image:u8", "PST_ENOTFOUND: there is no field ; available fields: image");
    PLANS("select none",
          "a123456789a123456789a123456789a123456789a123456789:u8 b123456789b123456789b123456789b123456789b123456789:u8 "
          "c123456789c123456789c123456789c123456789c123456789:u8",
          "PST_ENOTFOUND: there is no field none; available fields: a123456789a123456789a123456789a123456789a123456789, "
          "b123456789b123456789b123456789b123456789b123456789, \xe2\x80\xa6");
}

static void test_drop(void)
{
    PLANS("drop label", "image:u8 label:i64 x:f32", "image: uint8, x: float32 / =0 =2 reads 0");
    PLANS("drop label label image", "image:u8 label:i64 x:f32", "x: float32 / =2 reads 0");
    PLANS("drop x image", "image:u8 x:i64", "PST_EINVAL: every field is dropped; at least one has to stay");
    PLANS("drop lable", "image:u8 label:i64", "PST_ENOTFOUND: there is no field lable; did you mean label?");
}

static void test_rename(void)
{
    PLANS("rename image/encoded image", "image/encoded:bytes label:i64", "image: bytes, label: int64 / =0 =1 reads 0");
    PLANS("rename label label", "label:i64", "label: int64 / =0 reads 0");
    PLANS("rename a label", "a:u8 label:i64", "PST_EINVAL: there is a field label already; drop or rename it first");
    PLANS("rename b c", "a:u8", "PST_ENOTFOUND: there is no field b; available fields: a");
    PLANS("rename a ''", "a:u8", "PST_EINVAL: a field's name has 1 to 63 bytes; \"\" is not valid");
    PLANS("rename a x123456789x123456789x123456789x123456789x123456789x123456789x123", "a:u8",
          "PST_EINVAL: a field's name has 1 to 63 bytes; \"x123456789x123456789x123456789x123456789x123456789x123456789x123\" "
          "is not valid");
    PLANS("rename a x123456789x123456789x123456789x123456789x123456789x123456789x12", "a:u8",
          "x123456789x123456789x123456789x123456789x123456789x123456789x12: uint8 / =0 reads 0");
}

/* ---- one_hot ---- */

static void test_one_hot_plan(void)
{
    PLANS("one_hot 10", "image:u8[2] label:i64", "image: uint8 [2], label: float32 [10] / =0 ! reads 2");
    PLANS("one_hot 3 field=y", "y:u8[?,2]", "y: float32 [?,2,3] / ! reads 1");
    PLANS("one_hot 3", "label:f32", "PST_ETYPE: field label has float32; expected class numbers: uint8, int32 or int64");
    PLANS("one_hot 3", "label:bytes", "PST_ETYPE: field label has bytes; expected class numbers: uint8, int32 or int64");
    PLANS("one_hot 3", "lable:i64", "PST_ENOTFOUND: there is no field label; did you mean lable?");
    PLANS("one_hot 3", "label:i64[1,1,1,1,1,1,1,1]",
          "PST_ETYPE: field label has 8 dimensions already, one_hot would add another");
}

static void test_one_hot(void)
{
    static const float want[2][4] = {{0, 0, 0, 1}, {1, 0, 0, 0}};
    uint8_t u8[] = {3, 0};
    int32_t i32[] = {3, 0};
    int64_t i64[] = {3, 0};
    const struct {
        const char *fixed, *varying;
        void *data;
        pst_dtype dtype;
    } kinds[] = {{"label:u8[2]", "label:u8[?]", u8, PST_DTYPE_U8},
                 {"label:i32[2]", "label:i32[?]", i32, PST_DTYPE_I32},
                 {"label:i64[2]", "label:i64[?]", i64, PST_DTYPE_I64}};
    for (size_t i = 0; i < 6; i++) {
        struct rig r;
        pst_error error;
        pst_spec in = rig_spec(i % 2 ? kinds[i / 2].varying : kinds[i / 2].fixed);
        pst_tensor label = {.dtype = kinds[i / 2].dtype, .rank = 1, .shape = {2}, .data = kinds[i / 2].data};
        REQUIRE_OK(rig_plan(&r, "one_hot 4", &in, &error), &error);
        for (int again = 0; again < 2; again++) {
            REQUIRE_OK(rig_run(&r, &label, &error), &error);
            CHECK(r.out[0].rank == 2 && r.out[0].shape[0] == 2 && r.out[0].shape[1] == 4);
            CHECK(i % 2 || r.out[0].data == r.given[0]);
            CHECK(memcmp(r.out[0].data, want, sizeof(want)) == 0);
        }
        rig_finish(&r);
    }
}

static void test_one_hot_refuses(void)
{
    static const int64_t wrong[] = {-1, 4, INT64_MIN, INT64_MAX};
    pst_spec in = rig_spec("label:i64");
    struct rig r;
    pst_error error;
    REQUIRE_OK(rig_plan(&r, "one_hot 4", &in, &error), &error);
    for (size_t i = 0; i < 4; i++) {
        pst_tensor label = {.dtype = PST_DTYPE_I64, .data = (void *)&wrong[i]};
        CHECK_STATUS(rig_run(&r, &label, &error), PST_ETYPE, &error);
        if (i == 1)
            CHECK_STR(error.message, "label is 4; expected a class from 0 to 3 (classes=4)");
    }
    rig_finish(&r);
    in = rig_spec("label:i64[?]"); /* a shape that lies */
    REQUIRE_OK(rig_plan(&r, "one_hot 16777216", &in, &error), &error);
    pst_tensor many = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {UINT64_C(1) << 40}, .data = NULL};
    CHECK_STATUS(rig_run(&r, &many, &error), PST_ELIMIT, &error);
    rig_finish(&r);
}

/* ---- cast ---- */

static void test_cast_plan(void)
{
    PLANS("cast f16", "image:u8[2,2,3] label:i64", "image: float16 [2,2,3], label: int64 / ! =1 reads 1");
    PLANS("cast i32 label", "image:u8 label:i64[?,3]", "image: uint8, label: int32 [?,3] / =0 ! reads 2");
    PLANS("cast u8", "image:u8[4]", "image: uint8 [4] / =0 reads 0");
    PLANS("cast f32", "image:bytes",
          "PST_ETYPE: field image has bytes; expected numbers (of an encoded image: decode it first)");
    PLANS("cast f32", "picture:u8", "PST_ENOTFOUND: there is no field image; available fields: picture");
}

static void test_cast_run(void)
{
    int64_t values[] = {-1, 0, 3, 300};
    uint8_t want[] = {0, 0, 3, 255};
    for (int varying = 0; varying < 2; varying++) {
        struct rig r;
        pst_error error;
        pst_spec in = rig_spec(varying ? "x:i64[2,?]" : "x:i64[2,2]");
        REQUIRE_OK(rig_plan(&r, "cast u8 x", &in, &error), &error);
        pst_tensor x = {.dtype = PST_DTYPE_I64, .rank = 2, .shape = {2, 2}, .data = values};
        REQUIRE_OK(rig_run(&r, &x, &error), &error);
        CHECK(r.out[0].dtype == PST_DTYPE_U8 && r.out[0].rank == 2 && r.out[0].shape[1] == 2);
        CHECK(memcmp(r.out[0].data, want, sizeof(want)) == 0);
        CHECK(varying || r.out[0].data == r.given[0]);
        x.shape[1] = varying ? 0 : 2;
        REQUIRE_OK(rig_run(&r, &x, &error), &error);
        CHECK_INT(r.out[0].shape[1], varying ? 0 : 2);
        rig_finish(&r);
    }
}

/* ---- stack ---- */

static void test_stack_plan(void)
{
    PLANS("stack a c name=v", "a:f32 b:bytes c:f32[2,2]", "v: float32 [5], b: bytes / ! =1 reads 5");
    PLANS("stack c a", "a:f32 b:bytes c:i64", "features: float32 [2], b: bytes / ! =1 reads 5");
    PLANS("stack a b", "a:i64 b:i64", "features: int64 [2] / ! reads 3");
    PLANS("stack a b", "a:i64 b:f64", "features: float64 [2] / ! reads 3");
    PLANS("stack a b dtype=f16 name=a", "a:i64 b:f64", "a: float16 [2] / ! reads 3");
    PLANS("stack a a", "a:f32", "PST_EINVAL: field a is stacked twice");
    PLANS("stack a b", "a:f32 b:bytes", "PST_ETYPE: field b has bytes; expected numbers");
    PLANS("stack a b", "a:f32 b:f32[?]", "PST_ETYPE: field b varies in shape; a vector has a fixed number of values");
    PLANS("stack a name=b", "a:f32 b:f32", "PST_EINVAL: there is a field b already; choose another name (name=)");
    PLANS("stack a name=''", "a:f32", "PST_EINVAL: the name of the vector has 0 bytes; expected 1 to 63");
}

/* numpy.concatenate([x, [n], y]).astype(numpy.float32): the integer is 2^24 + 1, which float32 rounds to even. */
static void test_stack_run(void)
{
    pst_spec in = rig_spec("n:i64 x:f32[2] y:u8[2]");
    struct rig r;
    pst_error error;
    int64_t n = 16777217;
    float x[] = {0.5f, -2.25f};
    uint8_t y[] = {0, 255};
    static const float want[] = {0.5f, -2.25f, 16777216.0f, 0.0f, 255.0f};
    pst_tensor tensors[] = {{.dtype = PST_DTYPE_I64, .data = &n},
                            {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {2}, .data = x},
                            {.dtype = PST_DTYPE_U8, .rank = 1, .shape = {2}, .data = y}};
    REQUIRE_OK(rig_plan(&r, "stack x n y", &in, &error), &error);
    REQUIRE_OK(rig_run(&r, tensors, &error), &error);
    CHECK(memcmp(r.out[0].data, want, sizeof(want)) == 0 && r.out[0].data == r.given[0]);
    rig_finish(&r);
}

/* ---- example ---- */

static struct {
    uint8_t data[512];
    size_t length;
} records[8];

/* An Example with `count` floats in x, a label unless it is negative, some tags and a box a tag. */
static pst_bytes make_record(size_t slot, size_t floats, int64_t label, size_t tags)
{
    static const pst_bytes names[] = {{(const uint8_t *)"cat", 3}, {(const uint8_t *)"", 0}, {(const uint8_t *)"dog", 3}};
    float x[64], boxes[12];
    pst_builder *b;
    pst_bytes built;
    pst_error error;
    for (size_t i = 0; i < 64; i++)
        x[i] = (float)i / 4 - 3;
    for (size_t i = 0; i < 12; i++)
        boxes[i] = (float)i;
    if (pst_builder_create(&b, &error) < 0 || pst_builder_add_floats(b, "x", x, floats, &error) < 0 ||
        (label >= 0 && pst_builder_add_int64s(b, "label", &label, 1, &error) < 0) ||
        pst_builder_add_bytes(b, "tags", names, tags, &error) < 0 ||
        pst_builder_add_floats(b, "boxes", boxes, tags * 4, &error) < 0 || pst_builder_finish(b, &built, &error) < 0 ||
        built.length > sizeof(records[slot].data))
        abort();
    memcpy(records[slot].data, built.data, built.length);
    records[slot].length = built.length;
    pst_builder_destroy(b);
    return (pst_bytes){records[slot].data, built.length};
}

static void test_example_plan(void)
{
    PLANS("example \"image:bytes label:int64 x:float[32] m:float[2,3] tags:bytes[*] boxes:float[*,4]\"", "record:bytes",
          "image: bytes, label: int64, x: float32 [32], m: float32 [2,3], tags: bytes [?], boxes: float32 [?,4] / ! ! ! ! ! ! "
          "reads 1");
    PLANS("example label:int64 field=raw", "id:i64 raw:bytes more:f32[2]",
          "label: int64, id: int64, more: float32 [2] / ! =0 =2 reads 2");
    PLANS("example label:int64", "raw:bytes", "PST_ENOTFOUND: there is no field record; available fields: raw");
    PLANS("example label:int64", "record:u8[?]",
          "PST_ETYPE: field record has uint8 of 1 dimensions; expected a serialized Example: bytes");
    PLANS("example label:int64", "record:bytes[3]",
          "PST_ETYPE: field record has bytes of 1 dimensions; expected a serialized Example: bytes");
    PLANS("example", "record:bytes",
          "PST_EINVAL: there are no records to infer a schema from; give one, as in schema=\"image:bytes label:int64\"");
    PLANS("example ' '", "record:bytes", "PST_EINVAL: the schema has no features");
    PLANS("example label:in64", "record:bytes",
          "PST_EINVAL: schema text, position 7: 'in64', expected the kind: bytes, float or int64; did you mean int64?");
    PLANS("example label:int64", "label:i64 record:bytes",
          "PST_EINVAL: feature label: there is a field of that name already; drop or rename it first");
    PLANS("example x:float[*,1,1,1,1,1,1,1,1]", "record:bytes",
          "PST_EUNSUPPORTED: feature x: a field has at most 8 dimensions");
    PLANS("example x123456789x123456789x123456789x123456789x123456789x123456789x1234:float", "record:bytes",
          "PST_EUNSUPPORTED: feature x123456789x123456789x123456789x123456789x123456789x123456789x123\xe2\x80\xa6: a field's "
          "name has at most 63 bytes");
}

/* What the operation delivers is what the parser delivers. */
static void check_against_parser(const struct rig *r, const char *schema_text, pst_bytes record)
{
    pst_schema *schema;
    pst_parser *parser;
    pst_value values[8];
    pst_error error;
    REQUIRE_OK(pst_schema_parse(&schema, schema_text, &error), &error);
    REQUIRE_OK(pst_parser_create(&parser, schema, NULL, &error), &error);
    REQUIRE_OK(pst_parser_parse(parser, record.data, record.length, values, &error), &error);
    for (size_t i = 0; i < pst_schema_count(schema); i++) {
        const pst_tensor *t = &r->out[i];
        size_t count = 1;
        for (uint32_t d = 0; d < t->rank; d++)
            count *= t->shape[d];
        CHECK_INT(count, values[i].count);
        CHECK((uintptr_t)t->data % (t->dtype == PST_DTYPE_F32 ? 4 : 8) == 0);
        if (t->dtype != PST_DTYPE_BYTES && count)
            CHECK(memcmp(t->data, values[i].data, count * pst_dtype_size(t->dtype)) == 0);
        for (size_t v = 0; t->dtype == PST_DTYPE_BYTES && v < count; v++) {
            const pst_bytes *got = (const pst_bytes *)t->data + v, *want = (const pst_bytes *)values[i].data + v;
            CHECK(got->length == want->length && memcmp(got->data, want->data, want->length) == 0);
        }
    }
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
}

static void test_example_run(void)
{
    static const char schema[] = "label:int64=7 x:float[2,4] tags:bytes[*] boxes:float[*,4] none:float[*] w:float[3]=1.5";
    char text[256];
    pst_spec in = rig_spec("id:i64 record:bytes");
    struct rig r;
    pst_error error;
    snprintf(text, sizeof(text), "example \"%s\"", schema);
    REQUIRE_OK(rig_plan(&r, text, &in, &error), &error);
    for (size_t shift = 0; shift < 8; shift++) { /* whatever the floats are aligned to */
        uint8_t moved[600];
        int64_t id = 99;
        for (size_t tags = 0; tags < 4; tags++) {
            pst_bytes record = make_record(0, 8, tags == 2 ? -1 : 5, tags);
            memcpy(moved + shift, record.data, record.length);
            record.data = moved + shift;
            pst_tensor tensors[] = {{.dtype = PST_DTYPE_I64, .data = &id}, {.dtype = PST_DTYPE_BYTES, .data = &record}};
            REQUIRE_OK(rig_run(&r, tensors, &error), &error);
            check_against_parser(&r, schema, record);
            CHECK_INT(*(int64_t *)r.out[0].data, tags == 2 ? 7 : 5);
            CHECK(r.out[0].data == r.given[0] && r.out[1].data == r.given[1]);
            CHECK(r.out[3].rank == 2 && r.out[3].shape[0] == tags && r.out[3].shape[1] == 4);
            CHECK(r.out[4].shape[0] == 0 && r.out[4].data);
            CHECK(((float *)r.out[5].data)[2] == 1.5f && r.out[6].data == &id);
            arena_reset(&r.ctx.scratch);
        }
    }
    rig_finish(&r);
}

static void test_example_refuses(void)
{
    pst_spec in = rig_spec("record:bytes");
    struct rig r;
    pst_error error;
    REQUIRE_OK(rig_plan(&r, "example 'label:int64 x:float[8]'", &in, &error), &error);
    const struct {
        pst_bytes record;
        pst_status status;
    } bad[] = {{make_record(0, 7, 1, 0), PST_ETYPE},
               {make_record(1, 8, -1, 0), PST_ENOTFOUND},
               {{(const uint8_t *)"\xff\xff", 2}, PST_ECORRUPT},
               {make_record(2, 8, 1, 0), PST_OK}};
    for (size_t i = 0; i < 4; i++) {
        pst_tensor t = {.dtype = PST_DTYPE_BYTES, .data = (void *)&bad[i].record};
        CHECK_STATUS(rig_run(&r, &t, &error), bad[i].status, &error);
    }
    rig_finish(&r);
}

/* Features that nobody looks at are not even parsed. */
static void test_example_need(void)
{
    pst_spec in = rig_spec("record:bytes");
    struct rig r;
    pst_error error;
    pst_bytes record = make_record(0, 7, 3, 1); /* x has not its eight values */
    pst_tensor t = {.dtype = PST_DTYPE_BYTES, .data = &record};
    REQUIRE_OK(rig_plan(&r, "example 'x:float[8] label:int64 missing:bytes tags:bytes[*]'", &in, &error), &error);
    op_decl_of(r.node->op)->need(r.node->config, (const bool[]){false, true, false, true});
    REQUIRE_OK(rig_run(&r, &t, &error), &error);
    CHECK_INT(*(int64_t *)r.out[1].data, 3);
    CHECK(r.out[3].shape[0] == 1 && ((pst_bytes *)r.out[3].data)->length == 3);
    CHECK(*(float *)r.out[0].data == 0);
    rig_finish(&r);
    REQUIRE_OK(rig_plan(&r, "example 'x:float[8] label:int64'", &in, &error), &error);
    CHECK_STATUS(rig_run(&r, &t, &error), PST_ETYPE, &error);
    rig_finish(&r);
}

static pst_status infer(struct rig *r, const pst_bytes *list, size_t count, pst_error *reterr)
{
    pst_spec in = rig_spec("record:bytes"), out;
    pst_status st = rig_plan(r, "example", &in, reterr);
    if (st != PST_EINVAL)
        return st < 0 ? st : PST_EINVAL;
    st = op_decl_of(r->node->op)->schema->infer(r->node->config, r->node->strings, list, count, reterr);
    if (st < 0)
        return st;
    st = spec_init(&out, &r->specs, in.count, reterr);
    if (st == PST_OK)
        st = r->node->op->plan(r->node->config, &in, &out, reterr);
    if (st == PST_OK)
        r->node->out = out;
    return st;
}

static void test_example_infer(void)
{
    struct rig r;
    pst_error error;
    pst_bytes list[] = {
        make_record(0, 8, 1, 0), make_record(1, 8, 2, 2), {(const uint8_t *)"\xff", 1}, make_record(2, 8, 3, 1)};
    REQUIRE_OK(infer(&r, list, 4, &error), &error);
    char *text = node_text(r.node);
    CHECK_STR(text, "example schema=\"boxes:float[*] label:int64 tags:bytes[*] x:float[8]\"");
    mem_free(text);
    pst_tensor t = {.dtype = PST_DTYPE_BYTES, .data = &list[3]};
    REQUIRE_OK(rig_run(&r, &t, &error), &error);
    CHECK_INT(*(int64_t *)r.out[1].data, 3);
    pst_bytes other = make_record(3, 9, 1, 0); /* none like it was among the samples */
    t.data = &other;
    CHECK_STATUS(rig_run(&r, &t, &error), PST_ETYPE, &error);
    CHECK_MSG(strstr(error.message, "; the schema was inferred from 3 records: give schema=") != NULL, "%s", error.message);
    CHECK_STATUS(rig_run(&r, &t, NULL), PST_ETYPE, NULL);
    rig_finish(&r);

    CHECK_STATUS(infer(&r, &list[2], 1, &error), PST_ECORRUPT, &error); /* not one that could be read */
    rig_finish(&r);
    pst_bytes empty = {(const uint8_t *)"", 0};
    CHECK_STATUS(infer(&r, &empty, 1, &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "no schema can be inferred: the Examples have no features");
    rig_finish(&r);
}

/* Names that take more room than the first try has. */
static void test_example_infer_long(void)
{
    static uint8_t data[8192];
    struct rig r;
    pst_error error;
    pst_builder *b;
    pst_bytes record;
    float one = 1;
    REQUIRE_OK(pst_builder_create(&b, &error), &error);
    for (int i = 0; i < 32; i++) {
        char name[64];
        snprintf(name, sizeof(name), "a long name with blanks that has to be quoted, number %d", i);
        REQUIRE_OK(pst_builder_add_floats(b, name, &one, 1, &error), &error);
    }
    REQUIRE_OK(pst_builder_finish(b, &record, &error), &error);
    REQUIRE(record.length < sizeof(data));
    REQUIRE_OK(infer(&r, &record, 1, &error), &error);
    CHECK_INT(r.node->out.count, 32);
    rig_finish(&r);
    pst_builder_destroy(b);
}

/* ---- Faults ---- */

static void run_all(const pst_bytes *list, size_t count, pst_error *reterr, pst_status *ret)
{
    static const char *const texts[] = {"example 'x:float[8] tags:bytes[*] label:int64=1'", "cast f16 x", "one_hot 9 y"};
    static const char *const fields[] = {"record:bytes", "x:f32[?]", "y:i64[?]"};
    float x[3] = {1, 2, 3};
    int64_t y[3] = {1, 2, 3};
    pst_tensor in[] = {{.dtype = PST_DTYPE_BYTES, .data = (void *)list},
                       {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {3}, .data = x},
                       {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {3}, .data = y}};
    struct rig r;
    *ret = PST_OK;
    for (size_t i = 0; i < 3 && *ret == PST_OK; i++) {
        pst_spec spec = rig_spec(fields[i]);
        *ret = rig_plan(&r, texts[i], &spec, reterr);
        if (*ret == PST_OK)
            *ret = rig_run(&r, &in[i], reterr);
        rig_finish(&r);
    }
    if (*ret == PST_OK) {
        *ret = infer(&r, list, count, reterr);
        rig_finish(&r);
    }
}

static void test_memory_faults(void)
{
    pst_bytes list[] = {make_record(0, 8, 1, 2), make_record(1, 8, 2, 1)};
    uint64_t before = mem_live();
    for (uint64_t n = 0;; n++) {
        pst_error error = {0};
        pst_status st;
        test_fault_arm(FAULT_MEMORY, n, n % 2);
        run_all(list, 2, &error, &st);
        bool done = test_fault_calls() <= n;
        test_fault_clear();
        REQUIRE(mem_live() == before);
        if (done) {
            CHECK_STATUS(st, PST_OK, &error);
            break;
        }
        CHECK_STATUS(st, PST_ENOMEM, &error);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"dtypes", test_dtypes},
        {"spec", test_spec},
        {"random", test_random},
        {"scratch", test_scratch},
        {"kinds", test_kinds},
    {"flags", test_flags},
        {"select", test_select},
        {"drop", test_drop},
        {"rename", test_rename},
        {"one_hot_plan", test_one_hot_plan},
        {"one_hot", test_one_hot},
        {"one_hot_refuses", test_one_hot_refuses},
        {"cast_plan", test_cast_plan},
        {"cast_run", test_cast_run},
        {"stack_plan", test_stack_plan},
    {"stack_run", test_stack_run},
    {"example_plan", test_example_plan},
        {"example_run", test_example_run},
        {"example_refuses", test_example_refuses},
        {"example_need", test_example_need},
        {"example_infer", test_example_infer},
        {"example_infer_long", test_example_infer_long},
        {"memory_faults", test_memory_faults},
        {0},
    };
    return test_main(argc, argv, tests);
}
