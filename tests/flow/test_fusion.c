/* test_fusion.c: image operations in the engine, fused and one by one: the same bits, the same damage of the same causes.
 *
 * Which operations there are, and how they are written, comes from the table: one with an image facet that does not join a
 * pass fails here. */
#include "base/hash.h"
#include "harness.h"
#include "ops/op_table.h"

#include <penstock/example.h>
#include <penstock/image.h>
#include <penstock/pipeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Data ---- */

#define IMAGES 12

static void must(pst_status st, const pst_error *e)
{
    if (st >= 0)
        return;
    printf("# making test data: %s\n", e->message);
    abort();
}

/* Small ones, which crops of examples refuse; large ones; gray ones; the fifth is cut off. */
static void add_image(pst_writer *w, pst_builder *b, unsigned number)
{
    static const uint32_t sizes[][2] = {{20, 17}, {301, 262}, {230, 240}, {28, 300}, {33, 36}};
    const uint32_t *size = sizes[number % 5];
    uint32_t channels = number % 4 == 3 ? 1 : 3;
    pst_encode_options options = {.size = sizeof(options)};
    pst_image image;
    pst_bytes record;
    pst_error e;
    uint8_t *bytes;
    size_t length;
    must(pst_image_create(&image, size[0], size[1], channels, &e), &e);
    for (uint32_t y = 0; y < size[1]; y++)
        for (uint32_t x = 0; x < size[0] * channels; x++)
            image.pixels[y * image.stride + x] = (uint8_t)(x * 7 + y * 11 + number * 29 + (x / 9 + y / 7) % 2 * 120);
    must(pst_image_encode(&bytes, &length, &image, PST_IMAGE_JPEG, &options, &e), &e);
    pst_bytes field = {bytes, number == 4 ? length / 3 : length};
    pst_builder_reset(b);
    must(pst_builder_add_bytes(b, "image", &field, 1, &e), &e);
    must(pst_builder_finish(b, &record, &e), &e);
    must(pst_writer_write(w, record.data, record.length, &e), &e);
    pst_free(bytes);
    pst_image_finish(&image);
}

static void make_data(void)
{
    pst_writer_options options = {.size = sizeof(options), .no_sync = true};
    pst_writer *w;
    pst_builder *b;
    pst_error e;
    must(pst_writer_open(&w, "mixed.tfrecord", &options, &e), &e);
    must(pst_builder_create(&b, &e), &e);
    for (unsigned i = 0; i < IMAGES; i++)
        add_image(w, b, i);
    must(pst_writer_commit(w, &e), &e);
    pst_builder_destroy(b);
    pst_writer_close(w);
}

/* ---- What a chain delivers ---- */

struct outcome {
    uint64_t digest; /* of the elements that came */
    size_t elements;
    uint64_t causes[PST_CAUSES];
    uint64_t places; /* of the damage, with its causes */
    char plan[4096];
};

static uint64_t digest(const pst_batch *b, uint64_t h)
{
    for (size_t i = 0; i < pst_batch_fields(b); i++) {
        const pst_tensor *t = pst_batch_at(b, i);
        size_t bytes = pst_dtype_size(t->dtype);
        for (uint32_t d = 0; d < t->rank; d++)
            bytes *= (size_t)t->shape[d];
        h = hash_combine(h, hash_bytes(t->shape, t->rank * sizeof(*t->shape), t->dtype));
        h = hash_combine(h, hash_bytes(t->data, bytes, 0));
    }
    return h;
}

static void note_damage(const pst_damage_log *log, struct outcome *ret)
{
    for (int c = 0; c < PST_CAUSES; c++)
        ret->causes[c] = pst_damage_log_count(log, (pst_cause)c);
    for (size_t i = 0; i < pst_damage_log_places(log); i++) {
        pst_damage at = pst_damage_log_place(log, i);
        ret->places = hash_combine(ret->places, at.record * PST_CAUSES + (uint64_t)at.cause);
    }
}

/* `operations`: behind "decode", or a whole chain. Elements come one by one: their shapes differ. */
static struct outcome outcome_of(const char *text, bool no_fuse)
{
    pst_pipeline_options o = {.size = sizeof(o), .seed = 5, .ram = 64 << 20, .workers = 2, .no_fuse = no_fuse, .bad = "skip"};
    struct outcome r = {0};
    pst_pipeline *p = NULL;
    pst_batch *b = NULL;
    pst_error e = {0};
    char *plan = NULL;
    if (!CHECK_MSG(pst_pipeline_parse(&p, text, &o, &e) == PST_OK, "%s: %s", text, e.message))
        return r;
    CHECK_MSG(pst_pipeline_describe(p, false, &plan, &e) == PST_OK, "%s: %s", text, e.message);
    snprintf(r.plan, sizeof(r.plan), "%s", plan ? plan : "");
    pst_free(plan);
    for (int epochs = 0; epochs < 2;) {
        pst_status st = pst_pipeline_next(p, &b, &e);
        if (!CHECK_MSG(st >= 0, "%s: %s", text, e.message))
            break;
        epochs += st == PST_END;
        if (st == PST_END)
            continue;
        r.digest = digest(b, r.digest);
        r.elements += pst_batch_size(b);
        b = pst_batch_unref(b);
    }
    note_damage(pst_pipeline_damage(p), &r);
    pst_pipeline_destroy(p);
    return r;
}

static struct outcome check_chain(const char *text)
{
    struct outcome fused = outcome_of(text, false), single = outcome_of(text, true);
    CHECK_MSG(fused.elements == single.elements && fused.digest == single.digest, "%s: %zu elements fused, %zu one by one%s",
              text, fused.elements, single.elements, fused.elements == single.elements ? ", of other bits" : "");
    for (int c = 0; c < PST_CAUSES; c++)
        CHECK_MSG(fused.causes[c] == single.causes[c], "%s: damage \"%s\" %d times fused, %d times one by one", text,
                  pst_cause_name((pst_cause)c), (int)fused.causes[c], (int)single.causes[c]);
    CHECK_MSG(fused.places == single.places, "%s: damage of other records or causes", text);
    return fused;
}

/* ---- The tests ---- */

/* The operation as its example has it: "crop 16 0 224 224". */
static void stage_of(const pst_op_class *op, char *stage, size_t size)
{
    const char *at = op->example;
    size_t name = strlen(op->name);
    while (at && !(strncmp(at, op->name, name) == 0 && (at[name] == ' ' || at[name] == '\0'))) {
        at = strchr(at, '|');
        at = at ? at + 2 : NULL;
    }
    snprintf(stage, size, "%.*s", at ? (int)strcspn(at, "|") : 0, at ? at : "");
    CHECK_MSG(at != NULL, "the example of %s does not have it", op->name);
}

static void test_every_facet(void)
{
    size_t found = 0;
    for (const struct op_entry *entry = op_table; entry->op; entry++) {
        char stage[128], text[256], joined[64];
        const char *name = entry->op->name;
        if (!op_image(entry->decl))
            continue;
        found++;
        stage_of(entry->op, stage, sizeof(stage));
        bool first = strncmp(name, "decode", 6) == 0;
        snprintf(text, sizeof(text),
                 first ? "tfrecord mixed.tfrecord | example | %s | flip" : "tfrecord mixed.tfrecord | example | decode | %s",
                 stage);
        snprintf(joined, sizeof(joined), first ? "%s+flip" : "decode+%s", name);
        struct outcome r = check_chain(text);
        CHECK_MSG(strstr(r.plan, joined) != NULL, "%s: %s is not in its plan:\n%s", text, joined, r.plan);
        CHECK_INT(r.causes[PST_CAUSE_IMAGE], 1);
    }
    CHECK(found >= 10);
}

/* What an operation refuses is a value that it refuses; what does not decode is an image that does not. */
static void test_causes(void)
{
    static const char *const chains[] = {
        "decode | random_crop 32 | flip",
        "decode | random_crop 200 | resize 9 | normalize",
        "decode quality=fast | random_crop 200 | resize 9 | normalize",
        "decode | crop 16 0 224 224 | cast f16",
        "decode channels=0 | normalize imagenet | layout nchw",
        "decode channels=0 | normalize imagenet | crop 5 0 60 70",
        "decode channels=0 | crop 5 0 60 70 | normalize imagenet",
        "decode max_pixels=2000 | flip | random_crop 200",
    };
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "tfrecord mixed.tfrecord | example | %s", chains[i]);
        struct outcome r = check_chain(text);
        CHECK_MSG(r.causes[PST_CAUSE_VALUE] > 0 && r.causes[PST_CAUSE_IMAGE] > 0, "%s: %d refused, %d do not decode", text,
                  (int)r.causes[PST_CAUSE_VALUE], (int)r.causes[PST_CAUSE_IMAGE]);
    }
}

/* Zeros that pad an image are zeros of the operation that adds them, not levels for the next one to scale. */
static void test_late_padding(void)
{
    static const char *const chains[] = {
        "decode | normalize imagenet | center_crop 310",
        "decode | normalize -1..1 | random_crop 20 padding=9 | layout nchw",
        "decode | cast f32 | center_crop 310 | flip",
        "decode | cast f32 | normalize imagenet | center_crop 100",
        "decode | center_crop 310 | cast f32 | resize 40 | normalize | flip",
        "decode | center_crop 310 | normalize imagenet | center_crop 100",
    };
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "tfrecord mixed.tfrecord | example | %s", chains[i]);
        CHECK_INT(check_chain(text).elements, 2 * (IMAGES - 1));
    }
}

static const struct test tests[] = {
    {"every operation with an image facet joins a pass", test_every_facet},
    {"damage has the same causes fused and not", test_causes},
    {"padding behind values is zero", test_late_padding},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (chdir(test_folder()) != 0)
        return 1;
    make_data();
    return test_main(argc, argv, tests);
}
