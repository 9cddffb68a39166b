/* test_image_facets.c: an operation that declares its work on levels or on pixels joins the fused pass by that alone, and gives
 * the bits that it gives by itself. The operations here are the test's own. */
#include "harness.h"
#include "image_samples.h"
#include "ops/op_table.h"
#include "unit/image_rig.h"

static const pst_field encoded = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1};

struct config {
    struct image_field field;
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    pst_field *f;
    return image_field_plan(config, in, true, ret_out, &f, reterr);
}

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

/* ---- Levels: brighter by a number that is drawn ---- */

static const struct op_decl brighter;

static pst_status brighter_levels(const void *config, pst_ctx *ctx, uint32_t channels, uint8_t (*ret)[256], pst_error *reterr)
{
    unsigned more = 1 + (unsigned)(pst_random(ctx) % 99);
    (void)config;
    (void)reterr;
    for (uint32_t c = 0; c < channels; c++)
        for (unsigned v = 0; v < 256; v++)
            ret[c][v] = (uint8_t)(v + more + c > 255 ? 255 : v + more + c);
    return PST_OK;
}

static pst_status brighter_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                               pst_error *reterr)
{
    (void)worker;
    return image_op_run(&brighter, config, ctx, in, out, reterr);
}

static const struct image_facet brighter_facet = {.levels = brighter_levels};
static const struct op_decl brighter = {
    .op = {.size = sizeof(pst_op_class),
           .name = "brighter",
           .params = params,
           .config_size = sizeof(struct config),
           .plan = plan,
           .run = brighter_run,
           .flags = PST_OP_RANDOM},
    .kind = PST_OP_SAMPLE,
    .image = &brighter_facet,
};

/* ---- Rows: the channels of a pixel mixed with a share that is drawn; an image of one channel is refused ---- */

static const struct op_decl mixed;

static pst_status mixed_begin(const void *config, pst_ctx *ctx, uint32_t channels, void *state, pst_error *reterr)
{
    (void)config;
    *(unsigned *)state = (unsigned)(pst_random(ctx) % 257);
    return channels > 1 ? PST_OK : pst_fail(reterr, PST_ETYPE, "there is nothing to mix in one channel");
}

static void mixed_row(const void *config, const void *state, uint8_t *pixels, uint32_t width, uint32_t channels)
{
    unsigned share = *(const unsigned *)state;
    (void)config;
    for (uint32_t x = 0; x < width; x++, pixels += channels) {
        unsigned sum = 0;
        for (uint32_t c = 0; c < channels; c++)
            sum += pixels[c];
        for (uint32_t c = 0; c < channels; c++)
            pixels[c] = (uint8_t)((pixels[c] * (256 - share) + sum / channels * share) / 256);
    }
}

static pst_status mixed_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                            pst_error *reterr)
{
    (void)worker;
    return image_op_run(&mixed, config, ctx, in, out, reterr);
}

static const struct image_facet mixed_facet = {.row_begin = mixed_begin, .row_state = sizeof(unsigned), .row = mixed_row};
static const struct op_decl mixed = {
    .op = {.size = sizeof(pst_op_class),
           .name = "mixed",
           .params = params,
           .config_size = sizeof(struct config),
           .plan = plan,
           .run = mixed_run,
           .flags = PST_OP_RANDOM},
    .kind = PST_OP_SAMPLE,
    .image = &mixed_facet,
    .cause = PST_CAUSE_MISSING, /* one that no other operation here has */
};

static const struct op_decl *const own[] = {&brighter, &mixed, NULL};

/* ---- Images ---- */

#define IMAGES 6
static pst_bytes images[IMAGES];

static void make_images(void)
{
    static const uint32_t sizes[][2] = {{61, 47}, {40, 90}, {7, 5}};
    for (size_t i = 0; i < IMAGES; i++) {
        pst_image image = sample_image(sizes[i % 3][0], sizes[i % 3][1], i == 3 ? 1 : 3, i);
        size_t length;
        uint8_t *data = encode_image(&image, i < 4 ? PST_IMAGE_JPEG : i == 4 ? PST_IMAGE_YUV420 : PST_IMAGE_BMP, &length);
        images[i] = (pst_bytes){data, length};
        pst_image_finish(&image);
    }
}

static void free_images(void)
{
    for (size_t i = 0; i < IMAGES; i++)
        free((void *)images[i].data);
}

static struct rig_result run_image(struct image_rig *rig, size_t i, uint64_t epoch)
{
    pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &images[i]};
    return image_rig_run(rig, &in, epoch, i);
}

/* ---- The tests ---- */

static const struct {
    const char *text;
    size_t steps; /* as few as possible */
} chains[] = {
    {"decode | brighter", 1},
    {"decode | mixed | flip | brighter", 1},
    {"decode | brighter | brighter | crop 1 1 3 4", 1},
    {"decode | resize 31x22 | brighter | mixed | normalize imagenet | layout nchw", 1},
    {"decode | center_crop 64 | brighter | flip", 1}, /* padding is made brighter */
    {"decode | brighter | center_crop 64", 2},        /* …and is not */
    {"decode | random_crop 5 padding=3 | mixed | brighter | cast bf16", 1},
    {"decode | brighter | resize 20", 2},
    {"decode | brighter | layout nchw", 1},
    {"decode quality=fast | random_resized_crop 24 | mixed | layout nchw", 1},
    {"decode quality=fast | random_resized_crop 24 | flip | brighter | normalize | cast f16", 1},
    {"decode quality=fast | random_crop 5 | brighter | resize 16 | brighter", 2},
    {"decode channels=0 | mixed | crop 0 0 5 5", 1},
    {"decode channels=1 | brighter | layout nchw", 1},
    {"decode channels=4 | mixed | brighter", 1},
};

static void test_same_bits(void)
{
    size_t good = 0;
    for (size_t c = 0; c < sizeof(chains) / sizeof(chains[0]); c++) {
        const pst_spec in = {.count = 1, .field = &encoded};
        const char *text = chains[c].text;
        struct image_rig plain, fused;
        pst_error error;
        REQUIRE_OK(image_rig_init(&plain, text, &in, false, &error), &error);
        REQUIRE_OK(image_rig_init(&fused, text, &in, true, &error), &error);
        CHECK_MSG(fused.count == chains[c].steps, "%s: %zu steps, expected %zu", text, fused.count, chains[c].steps);
        for (size_t i = 0; i < 2 * IMAGES; i++) {
            struct rig_result a = run_image(&plain, i % IMAGES, i), b = run_image(&fused, i % IMAGES, i);
            CHECK_MSG(same_result(&a, &b), "%s of image %zu: %s one by one, %s together", text, i, pst_status_name(a.status),
                      pst_status_name(b.status));
            good += a.status == PST_OK;
        }
        image_rig_finish(&plain);
        image_rig_finish(&fused);
    }
    CHECK_MSG(good > 140, "only %zu images", good);
}

/* Whatever a pass computes, each operation's refusals are its own. */
static void test_cause(void)
{
    const pst_spec in = {.count = 1, .field = &encoded};
    struct image_rig rig;
    pst_error error;
    REQUIRE_OK(image_rig_init(&rig, "decode channels=0 | random_crop 6 | mixed", &in, true, &error), &error);
    CHECK_INT(rig.count, 1);
    struct rig_result small = run_image(&rig, 2, 0);
    CHECK_STATUS(small.status, PST_ETYPE, &small.error);
    CHECK_INT(rig.ctx.cause, PST_CAUSE_VALUE);
    CHECK_STR(small.error.op, "random_crop");
    struct rig_result gray = run_image(&rig, 3, 0);
    CHECK_STATUS(gray.status, PST_ETYPE, &gray.error);
    CHECK_INT(rig.ctx.cause, PST_CAUSE_MISSING);
    CHECK_STR(gray.error.op, "mixed");
    images[0].length -= 40;
    struct rig_result cut = run_image(&rig, 0, 0);
    images[0].length += 40;
    CHECK_STATUS(cut.status, PST_ECORRUPT, &cut.error);
    CHECK_INT(rig.ctx.cause, PST_CAUSE_IMAGE);
    CHECK_STR(cut.error.op, "decode");
    image_rig_finish(&rig);
}

/* Every declaration in the table is one that the engine can carry out. */
static void test_declarations(void)
{
    for (const struct op_entry *e = op_table; e->op; e++) {
        const struct op_decl *d = e->decl;
        if (!d)
            continue;
        const char *name = e->op->name;
        const struct image_facet *f = d->image;
        CHECK_MSG(e->op == &d->op && op_decl_of(e->op) == d, "%s is found by its class", name);
        /* A step of the order that also computes something works on samples: it needs the number of the element. */
        bool structural = d->resource || d->join || d->cut || d->filter || d->resample || (d->order && !d->op.run);
        CHECK_MSG((d->kind == PST_OP_SAMPLE) == !structural, "%s: its kind and its facets differ", name);
        CHECK_MSG(d->kind != PST_OP_SAMPLE || d->op.plan, "%s has no plan", name);
        CHECK_MSG(!d->resource || (!d->order && d->resource->amount), "%s: a resource has an amount and no order", name);
        if (!f)
            continue;
        int kinds = f->decodes + !!f->geometry + !!f->levels + !!f->row + !!f->factors + !!f->casts + !!f->splits;
        CHECK_MSG(kinds == 1, "%s has %d kinds of image work", name, kinds);
        CHECK_MSG(f->geometry || !(f->resizes || f->pads || f->needs_pixels || f->cuts_at_random), "%s: no geometry", name);
        CHECK_MSG(!f->cuts_at_random || d->op.flags & PST_OP_RANDOM, "%s cuts at random and is not declared random", name);
        CHECK_MSG(e->op->config_size >= sizeof(struct image_field), "%s has no field", name);
    }
}

static const struct test tests[] = {
    {"work on levels and pixels, fused and not", test_same_bits},
    {"refusals name the operation and its cause", test_cause},
    {"declarations make sense", test_declarations},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    rig_own = own;
    make_images();
    int result = test_main(argc, argv, tests);
    free_images();
    return result;
}
