/* test_batch.c: the engine's memory: elements as blocks, spills, batches with gaps, the pool, the cache. */
#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/thread.h"
#include "flow/batch.h"
#include "flow/batch_memory.h"
#include "flow/element.h"
#include "flow/element_cache.h"
#include "harness.h"
#include "source/source.h"

#include <stdlib.h>
#include <string.h>

static pst_field field(const char *name, pst_dtype dtype, uint32_t rank, uint64_t a, uint64_t b)
{
    pst_field f = {.dtype = dtype, .rank = rank, .shape = {a, b}, .alias = -1};
    strcpy(f.name, name);
    return f;
}

static pst_spec all_kinds(void)
{
    static pst_field fields[5];
    fields[0] = field("id", PST_DTYPE_I64, 0, 0, 0);
    fields[1] = field("text", PST_DTYPE_BYTES, 0, 0, 0);
    fields[2] = field("words", PST_DTYPE_BYTES, 1, PST_ANY, 0);
    fields[3] = field("rows", PST_DTYPE_F32, 2, PST_ANY, 3);
    fields[4] = field("image", PST_DTYPE_U8, 2, PST_ANY, PST_ANY);
    return (pst_spec){.count = 5, .field = fields};
}

/* The fields whose bit is set, in memory that the next call overwrites. */
static struct field_list *listed(uint64_t bits)
{
    static uint16_t numbers[64];
    static struct field_list list;
    list = (struct field_list){.number = numbers};
    for (uint16_t f = 0; f < 64; f++)
        if (bits >> f & 1)
            numbers[list.count++] = f;
    return &list;
}

/* Element `i`, in memory that the next call overwrites. */
static void make(const pst_spec *spec, uint64_t i, pst_tensor *t)
{
    static int64_t id;
    static pst_bytes text, words[4];
    static float rows[12];
    static uint8_t image[64], letters[] = "abcdefghijklmnopqrstuvwxyz";
    for (size_t f = 0; f < spec->count; f++)
        t[f] = field_tensor(&spec->field[f]);
    id = (int64_t)i;
    text = (pst_bytes){letters + i % 3, i % 9};
    for (size_t k = 0; k < 4; k++)
        words[k] = (pst_bytes){letters + k, (i + k) % 5};
    for (size_t k = 0; k < 12; k++)
        rows[k] = (float)(i * 100 + k);
    memset(image, (int)i, sizeof(image));
    t[0].data = &id, t[1].data = &text, t[2].data = words, t[3].data = rows, t[4].data = image;
    t[2].shape[0] = i % 5;
    t[3].shape[0] = i % 4;
    t[4].shape[0] = 2, t[4].shape[1] = 3;
}

static bool same_bytes(const pst_bytes *a, const pst_bytes *b)
{
    return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

static bool same_tensor(const pst_tensor *a, const pst_tensor *b)
{
    if (a->rank != b->rank || !shape_equal(a->rank, a->shape, b->shape))
        return false;
    size_t bytes = shape_bytes(a->dtype, a->rank, a->shape);
    if (a->dtype != PST_DTYPE_BYTES)
        return bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
    for (size_t i = 0; i < bytes / sizeof(pst_bytes); i++)
        if (!same_bytes((const pst_bytes *)a->data + i, (const pst_bytes *)b->data + i))
            return false;
    return true;
}

static void test_elements(void)
{
    pst_spec spec = all_kinds();
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t fields = i < 32 ? i : 31;
        pst_tensor t[5], back[5];
        make(&spec, i, t);
        size_t size = element_size(&spec, listed(fields), t);
        uint8_t *block = aligned_alloc(16, (size + 31) & ~(size_t)15);
        REQUIRE(block);
        memset(block, 0xa5, (size + 31) & ~(size_t)15);
        element_pack(block, &spec, listed(fields), t);
        CHECK_INT(block[size], 0xa5); /* not one byte more */
        for (size_t f = 0; f < 5; f++)
            back[f] = field_tensor(&spec.field[f]);
        element_view(block, &spec, listed(fields), back);
        for (size_t f = 0; f < 5; f++)
            CHECK_MSG(fields >> f & 1 ? same_tensor(&t[f], &back[f]) : !back[f].data, "element %d, field %zu", (int)i, f);
        free(block);
    }
    pst_tensor huge[5];
    make(&spec, 1, huge);
    huge[4].shape[0] = UINT64_MAX / 2;
    CHECK(element_size(&spec, listed(31), huge) == SIZE_MAX);
    huge[4].shape[0] = huge[4].shape[1] = UINT64_C(1) << 33;
    CHECK(element_size(&spec, listed(31), huge) == SIZE_MAX);
    char text[SHAPE_TEXT_SIZE];
    CHECK_STR(shape_text(2, spec.field[3].shape, text, sizeof(text)), "[?,3]");
    CHECK_STR(shape_text(0, NULL, text, sizeof(text)), "[]");
}

static void test_spill(void)
{
    struct batch_memory s = {0};
    struct random r;
    uint64_t live = mem_live();
    for (int round = 0; round < 50; round++) {
        size_t asked = 0;
        random_init(&r, 1, 0, (uint64_t)round, 0);
        for (int i = 0; i < 300; i++) {
            size_t size = 500 + (size_t)random_below(&r, i % 50 == 0 ? 50000 : 500),
                   alignment = (size_t)1 << random_below(&r, 7);
            uint8_t *p = batch_memory_alloc(&s, size, alignment);
            REQUIRE(p && (uintptr_t)p % alignment == 0);
            memset(p, i, size);
            asked += size;
        }
        if (round > 10) { /* it has settled, and does not hold much more than it must */
            CHECK_INT(mem_live(), live + 1);
            CHECK_MSG(s.bytes < 2 * asked, "%zu bytes for %zu", s.bytes, asked);
        }
        batch_memory_reset(&s);
    }
    CHECK(!batch_memory_alloc(&s, SIZE_MAX - 10, 1));
    batch_memory_finish(&s);
    CHECK_INT(mem_live(), live);
}

static bool element_is(const pst_batch *b, size_t at, uint64_t i, const pst_spec *spec)
{
    pst_tensor t[5];
    make(spec, i, t);
    const pst_tensor *words = pst_batch_get(b, "words"), *rows = pst_batch_get(b, "rows"), *image = pst_batch_get(b, "image");
    bool same = ((int64_t *)pst_batch_get(b, "id")->data)[at] == (int64_t)i;
    same &= same_bytes((const pst_bytes *)pst_batch_get(b, "text")->data + at, t[1].data);
    same &= words->row_splits[at + 1] - words->row_splits[at] == (int64_t)t[2].shape[0];
    for (size_t k = 0; same && k < t[2].shape[0]; k++)
        same &= same_bytes((const pst_bytes *)words->data + words->row_splits[at] + k, (const pst_bytes *)t[2].data + k);
    same &= rows->row_splits[at + 1] - rows->row_splits[at] == (int64_t)t[3].shape[0];
    same &= t[3].shape[0] == 0 || memcmp((float *)rows->data + 3 * rows->row_splits[at], t[3].data, t[3].shape[0] * 12) == 0;
    return same && memcmp((uint8_t *)image->data + 6 * at, t[4].data, 6) == 0;
}

/* A slice begins with the memory that another one needed; one huge element changes little. */
static void test_usual_size(void)
{
    _Atomic size_t usual = 0;
    struct batch_memory first = {.usual = &usual}, second = {.usual = &usual}, third = {.usual = &usual};
    uint64_t live = mem_live();
    for (int i = 0; i < 100; i++)
        REQUIRE(batch_memory_alloc(&first, 10000, 1));
    CHECK(mem_live() > live + 1);
    batch_memory_reset(&first);
    live = mem_live();
    for (int i = 0; i < 100; i++)
        REQUIRE(batch_memory_alloc(&second, 10000, 1));
    CHECK_INT(mem_live(), live + 1);
    CHECK_MSG(second.bytes < 2000000, "%zu bytes", second.bytes);
    REQUIRE(batch_memory_alloc(&second, (size_t)64 << 20, 1));
    batch_memory_reset(&second);
    CHECK(batch_memory_alloc(&third, 1, 1) && third.bytes < 3000000);
    batch_memory_finish(&first);
    batch_memory_finish(&second);
    batch_memory_finish(&third);
}

/* Every subset of eight elements is left out in turn. */
static void test_gaps(void)
{
    pst_spec spec = all_kinds();
    struct batch_layout layout;
    struct batch_pool *pool;
    pst_batch *b;
    pst_error e;
    uint64_t live = mem_live();
    REQUIRE_OK(batch_layout_init(&layout, &spec, 8, NULL, &e), &e);
    REQUIRE_OK(batch_pool_create(&pool, &layout, &e), &e);
    batch_layout_finish(&layout); /* the pool has its own */
    batch_pool_keep(pool, 2);
    for (unsigned left_out = 0; left_out < 256; left_out++) {
        size_t out = 0, at = 0;
        REQUIRE_OK(batch_pool_take(pool, &b, &e), &e);
        for (size_t i = 0; i < 8; i++) {
            pst_tensor t[5];
            make(&spec, 10 * left_out + i, t);
            for (size_t f = 0; f < 5; f++)
                CHECK_STATUS(batch_put(b, i / 3, f, i, &t[f], &e), PST_OK, &e);
            if (left_out >> i & 1) {
                batch_leave_out(b, i);
                out++;
            }
        }
        REQUIRE_OK(batch_finish(b, 8, out, &at, &e), &e);
        CHECK_INT(pst_batch_size(b), 8 - out);
        at = 0;
        for (size_t i = 0; i < 8; i++)
            if (!(left_out >> i & 1))
                CHECK_MSG(element_is(b, at++, 10 * left_out + i, &spec), "%x without %zu", left_out, i);
        pst_batch_unref(b);
    }
    CHECK(batch_pool_bytes(pool) > 0);
    batch_pool_close(pool);
    CHECK_INT(mem_live(), live);
}

/* A pool of batches of these fields, and one of them. */
static pst_batch *open_pool(struct batch_pool **ret, const pst_spec *spec, size_t capacity)
{
    struct batch_layout layout = {0};
    pst_batch *b = NULL;
    pst_error e;
    pst_status st = batch_layout_init(&layout, spec, capacity, NULL, &e);
    if (st == PST_OK)
        st = batch_pool_create(ret, &layout, &e);
    batch_layout_finish(&layout); /* the pool has its own */
    if (st == PST_OK)
        st = batch_pool_take(*ret, &b, &e);
    CHECK_STATUS(st, PST_OK, &e);
    return b;
}

/* Bytes that a source has read into the memory of their slice stay where they are; those of another slice, and others, are copied. */
static void test_bytes_in_place(void)
{
    pst_field text = field("text", PST_DTYPE_BYTES, 0, 0, 0);
    struct batch_pool *pool = NULL;
    pst_batch *b = open_pool(&pool, &(pst_spec){.count = 1, .field = &text}, 4);
    pst_error e;
    size_t at = 0;
    REQUIRE(b);
    uint8_t *mine = batch_memory_alloc(&b->memory[0], 5000, 1), *other = batch_memory_alloc(&b->memory[1], 7, 1);
    REQUIRE(mine && other);
    memset(mine, 'a', 5000);
    memset(other, 'b', 7);
    pst_bytes values[3] = {{mine + 12, 4984}, {other, 7}, {(const uint8_t *)"cc", 2}};
    for (size_t i = 0; i < 3; i++) {
        pst_tensor t = field_tensor(&text);
        t.data = &values[i];
        CHECK_STATUS(batch_put(b, 0, 0, i, &t, &e), PST_OK, &e);
    }
    CHECK(!batch_memory_has(&b->memory[0], mine + 12, (size_t)1 << 20) && !batch_memory_has(&b->memory[2], mine, 1));
    REQUIRE_OK(batch_finish(b, 3, 0, &at, &e), &e);
    const pst_bytes *found = pst_batch_get(b, "text")->data;
    CHECK(found[0].data == mine + 12 && found[1].data != other && found[2].data != values[2].data);
    for (size_t i = 0; i < 3; i++)
        CHECK(same_bytes(&found[i], &values[i]));
    pst_batch_unref(b);
    batch_pool_close(pool);
}

static void test_disagreement(void)
{
    pst_spec spec = all_kinds();
    struct batch_pool *pool = NULL;
    pst_batch *b = open_pool(&pool, &spec, 4);
    pst_error e;
    size_t at = 0;
    REQUIRE(b);
    for (size_t i = 0; i < 4; i++) {
        pst_tensor t[5];
        make(&spec, i, t);
        t[4].shape[0] = i == 0 ? 5 : i == 3 ? 4 : 2; /* the first one is left out; the last one differs */
        for (size_t f = 0; f < 5; f++)
            CHECK_STATUS(batch_put(b, 0, f, i, &t[f], &e), PST_OK, &e);
    }
    batch_leave_out(b, 0);
    CHECK_STATUS(batch_finish(b, 4, 1, &at, &e), PST_ETYPE, &e);
    CHECK_INT(at, 3); /* where it was, not where it went */
    pst_batch_unref(b);
    batch_pool_close(pool);
}

static void test_limits(void)
{
    pst_error e;
    struct batch_layout l;
    pst_field x = field("x", PST_DTYPE_F32, 2, UINT64_C(1) << 40, UINT64_C(1) << 20);
    const pst_spec spec = {.count = 1, .field = &x};
    CHECK_STATUS(batch_layout_init(&l, &spec, 64, NULL, &e), PST_ELIMIT, &e);
    batch_layout_finish(&l);
    x.shape[0] = UINT64_C(1) << 62;
    CHECK_STATUS(batch_layout_init(&l, &spec, 64, NULL, &e), PST_ELIMIT, &e);
    batch_layout_finish(&l);
    x = (pst_field){.name = "x", .dtype = PST_DTYPE_U8, .rank = PST_MAX_RANK};
    CHECK_STATUS(batch_layout_init(&l, &spec, 1, NULL, &e), PST_EINVAL, &e);
    batch_layout_finish(&l);
}

/* ---- The cache ---- */

static void test_cache(void)
{
    pst_spec spec = all_kinds();
    struct cache *c;
    pst_error e;
    uint64_t live = mem_live(), hits = 0;
    REQUIRE_OK(cache_create(&c, 1000, 40000, 2, &e), &e);
    CHECK_INT(cache_bytes(c), 1000 * sizeof(void *)); /* the table counts */
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < 1000; i++) {
            pst_tensor t[5], back[5];
            void *block = cache_find(c, i);
            make(&spec, i, t);
            if (!block) {
                CHECK_MSG(pass == 0 || i > 100, "element %d was evicted", (int)i);
                cache_keep(c, (unsigned)(i % 2), i, &spec, listed(31), t, NULL);
                continue;
            }
            hits++;
            for (size_t f = 0; f < 5; f++)
                back[f] = field_tensor(&spec.field[f]);
            element_view(block, &spec, listed(31), back);
            for (size_t f = 0; f < 5; f++)
                CHECK_MSG(same_tensor(&t[f], &back[f]), "element %d, field %zu", (int)i, f);
        }
    CHECK(hits > 50 && hits < 900);
    CHECK_INT(cache_elements(c), hits);
    CHECK(cache_bytes(c) <= 40000);
    CHECK(!cache_find(c, 99999));
    cache_destroy(c);
    CHECK_INT(mem_live(), live);
}

/* Memory that could not be had is not counted as used. */
static void test_cache_without_memory(void)
{
    pst_spec spec = all_kinds();
    struct cache *c;
    pst_error e;
    pst_tensor t[5];
    REQUIRE_OK(cache_create(&c, 10, 1 << 20, 1, &e), &e);
    make(&spec, 3, t);
    for (int i = 0; i < 3; i++) {
        test_fault_arm(FAULT_MEMORY, 0, true);
        cache_keep(c, 0, 3, &spec, listed(31), t, NULL);
        test_fault_clear();
        CHECK_INT(cache_bytes(c), 10 * sizeof(void *));
        CHECK(!cache_find(c, 3));
    }
    cache_keep(c, 0, 3, &spec, listed(31), t, NULL);
    CHECK(cache_find(c, 3));
    cache_destroy(c);
}

/* The length of a stream is not known, so that its table has a place for more elements than come: those that never come take no memory. */
static void test_cache_of_a_stream(void)
{
    pst_spec spec = all_kinds();
    struct cache *c;
    pst_error e;
    pst_tensor t[5];
    struct cache_tag tag = {0};
    REQUIRE_OK(cache_create(&c, SOURCE_STREAM, UINT64_C(256) << 20, 1, &e), &e);
    CHECK_INT(cache_bytes(c), 0);
    make(&spec, 3, t);
    test_fault_arm(FAULT_MEMORY, 0, true);
    cache_keep(c, 0, 3, &spec, listed(31), t, &tag);
    test_fault_clear();
    CHECK_INT(cache_bytes(c), 0);
    cache_keep(c, 0, 3, &spec, listed(31), t, &tag);
    uint64_t first = cache_bytes(c);
    CHECK_MSG(first > sizeof(void *) && first < 2 << 20, "%llu bytes for one element", (unsigned long long)first);
    cache_keep(c, 0, 4, &spec, listed(31), t, &tag);
    CHECK_INT(cache_bytes(c), first + sizeof(void *));
    cache_destroy(c);
}

static void test_cache_tags(void)
{
    pst_spec spec = all_kinds();
    struct cache *c;
    pst_error e;
    pst_tensor t[5];
    REQUIRE_OK(cache_create(&c, SOURCE_STREAM, 1 << 20, 1, &e), &e);
    make(&spec, 3, t);
    cache_keep(c, 0, 3, &spec, listed(31), t, &(struct cache_tag){12345, {"a.tfrecord", 3, 60}});
    REQUIRE(cache_find(c, 3));
    CHECK_INT(cache_tag_of(cache_find(c, 3)).size, 12345);
    CHECK_STR(cache_tag_of(cache_find(c, 3)).place.path, "a.tfrecord");
    CHECK_INT(cache_tag_of(cache_find(c, 3)).place.offset, 60);
    cache_destroy(c);
}

static struct cache *shared;

static void keep_all(void *user, unsigned worker)
{
    static const pst_field number = {.name = "n", .dtype = PST_DTYPE_I64, .alias = -1};
    uint16_t first = 0;
    const pst_spec spec = {.count = 1, .field = &number};
    const struct field_list all = {.number = &first, .count = 1};
    int *wrong = user;
    for (int64_t i = 0; i < 20000; i++) {
        int64_t value = i * 7;
        pst_tensor t = field_tensor(&number);
        void *block = cache_find(shared, (uint64_t)i);
        if (block) {
            element_view(block, &spec, &all, &t);
            wrong[worker] += *(int64_t *)t.data != value;
            continue;
        }
        t.data = &value;
        cache_keep(shared, worker, (uint64_t)i, &spec, &all, &t, NULL);
    }
}

static void test_cache_together(void)
{
    struct thread_group *g;
    pst_error e;
    int wrong[4] = {0};
    REQUIRE_OK(cache_create(&shared, 20000, 1 << 22, 4, &e), &e);
    REQUIRE_OK(thread_group_start(&g, 4, "cache", keep_all, wrong, &e), &e);
    thread_group_join(g);
    CHECK_INT(wrong[0] + wrong[1] + wrong[2] + wrong[3], 0);
    CHECK_INT(cache_elements(shared), 20000);
    shared = cache_destroy(shared);
}

static const struct test tests[] = {
    {"elements as blocks", test_elements},
    {"a spill settles on one block", test_spill},
    {"gaps are closed", test_gaps},
    {"slices begin with the usual size", test_usual_size},
    {"bytes that are there already", test_bytes_in_place},
    {"elements that do not agree", test_disagreement},
    {"what no batch can hold", test_limits},
    {"a cache keeps what fits", test_cache},
    {"a cache without memory", test_cache_without_memory},
    {"the cache of a stream", test_cache_of_a_stream},
    {"a cache remembers what a stream's element was", test_cache_tags},
    {"workers share a cache", test_cache_together},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
