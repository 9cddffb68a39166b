/* test_inspect.c: surveys of shards with known content: figures; the same for any number of workers; nothing
 * lost when memory, storage or threads fail. */
#include "inspect_fixture.h"

#include "base/fault.h"
#include "base/memory.h"
#include "inspect/spread.h"
#include "record/find.h"

#include <math.h>

/* ---- Finding shards ---- */

static void test_names(void)
{
    static const char *const shards[] = {"a.tfrecord",
                                         "a.tfrecords",
                                         "a.tfrec",
                                         "a.tfrecord.gz",
                                         "a.tfrec.zst",
                                         "x.zlib.tfrecord.zlib",
                                         "s-train.tfrecord-00000-of-00016",
                                         "s-train.tfrecord-00000-of-00016.gz",
                                         "train-00001-of-01024",
                                         "events.out.tfevents.1700000000.host",
                                         "events.out.tfevents.1.host.0.v2"};
    static const char *const others[] = {"a.txt",
                                         ".a.tfrecord",
                                         "a.tfrecord.pidx",
                                         "a.tfrecord-00000-of-00016.pidx",
                                         "tfrecord",
                                         ".tfrecord",
                                         "a.tfrecord-0-of-1",
                                         "a.array_record-00000-of-00001",
                                         "a.tfrecord.gz.part",
                                         "dataset_info.json",
                                         "-00000-of-00001x",
                                         "a.parquet-00000-of-00001",
                                         ""};
    for (size_t i = 0; i < sizeof(shards) / sizeof(shards[0]); i++)
        CHECK_MSG(find_is_shard(shards[i]), "%s is a shard", shards[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        CHECK_MSG(!find_is_shard(others[i]), "%s is no shard", others[i]);
}

static void expect_found(const char *pattern, const char *const *want, size_t count)
{
    char **found = NULL;
    size_t n = 0;
    pst_error e = {0};
    const char *paths[] = {pattern};
    if (!CHECK_STATUS(pst_shards_find(&found, &n, paths, 1, &e), PST_OK, &e))
        return;
    CHECK_INT(n, count);
    for (size_t i = 0; i < n && i < count; i++)
        CHECK_MSG(strlen(found[i]) >= strlen(want[i]) && strcmp(found[i] + strlen(found[i]) - strlen(want[i]), want[i]) == 0,
                  "%s: found %s, expected %s", pattern, found[i], want[i]);
    pst_free(found);
}

static void test_find(void)
{
    char at[400];
    snprintf(at, sizeof(at), "%s", folder("find"));
    folder("find/empty");
    folder("find/set");
    folder("find/set/1.0.0");
    folder("find/both");
    folder("find/both/below");
    static const char *const files[] = {"set/1.0.0/b.tfrecord",
                                        "set/1.0.0/a.tfrecord",
                                        "set/1.0.0/a.tfrecord.pidx",
                                        "set/1.0.0/labels.txt",
                                        "set/1.0.0/.hidden.tfrecord",
                                        "both/x.tfrecord",
                                        "both/odd",
                                        "both/below/y.tfrecord",
                                        "both/labels.txt"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", at, files[i]);
        test_write_file(path, "", 0);
    }
    char path[600];
    snprintf(path, sizeof(path), "%s/set", at);
    expect_found(path, (const char *const[]){"1.0.0/a.tfrecord", "1.0.0/b.tfrecord"}, 2);
    snprintf(path, sizeof(path), "%s/both/", at);
    expect_found(path, (const char *const[]){"both/x.tfrecord"}, 1);
    snprintf(path, sizeof(path), "%s/both/*", at); /* the folder brings its own, labels.txt stays out */
    expect_found(path, (const char *const[]){"both/below/y.tfrecord", "both/odd", "both/x.tfrecord"}, 3);
    snprintf(path, sizeof(path), "%s/both/labels.txt", at);
    expect_found(path, (const char *const[]){"labels.txt"}, 1);

    char **found;
    size_t n;
    pst_error e = {0};
    snprintf(path, sizeof(path), "%s/set/1.0.0/a.tfrecord", at);
    const char *twice[] = {path, path};
    REQUIRE_OK(pst_shards_find(&found, &n, twice, 2, &e), &e);
    CHECK_INT(n, 1);
    pst_free(found);
    snprintf(path, sizeof(path), "%s/empty", at);
    const char *one[] = {path};
    CHECK_STATUS(pst_shards_find(&found, &n, one, 1, &e), PST_ENOTFOUND, &e);
    snprintf(path, sizeof(path), "%s/nothing-*", at);
    CHECK_STATUS(pst_shards_find(&found, &n, one, 1, &e), PST_ENOTFOUND, &e);
    CHECK_MSG(strstr(e.path, "nothing-*") || strstr(e.message, "nothing-*"), "the pattern is named: %s", e.message);
    CHECK_STATUS(pst_shards_find(&found, &n, NULL, 0, &e), PST_EINVAL, &e);
}

static void test_find_files(void)
{
    static const char *const files[] = {"b/2.png", "b/1.jpg", "a.txt", ".hidden"}, *const want[] = {"a.txt", "a.txt", "b/1.jpg", "b/2.png"};
    char at[400], one[600], none[600], pattern[600], mark;
    snprintf(at, sizeof(at), "%s", folder("files"));
    folder("files/b");
    folder("files/none");
    for (size_t i = 0; i < 4; i++) {
        snprintf(one, sizeof(one), "%s/%s", at, files[i]);
        test_write_file(one, "", 0);
    }
    snprintf(one, sizeof(one), "%s/a.txt", at);
    snprintf(none, sizeof(none), "%s/none", at);
    snprintf(pattern, sizeof(pattern), "%s/nothing-*", at);
    const char *paths[] = {one, at}, *empty[] = {one, none}, *missing[] = {one, pattern};
    char **const unwritten = (char **)(void *)&mark, **found = unwritten;
    size_t count = 77;
    pst_error e = {0};
    CHECK_STATUS(pst_files_find(&found, &count, NULL, 0, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_files_find(&found, &count, empty, 2, &e), PST_ENOTFOUND, &e);
    CHECK_STR(e.path, none);
    CHECK_STATUS(pst_files_find(&found, &count, missing, 2, &e), PST_ENOTFOUND, &e);
    CHECK_MSG(strstr(e.path, "nothing-*") || strstr(e.message, "nothing-*"), "the pattern is named: %s", e.message);
    CHECK(found == unwritten && count == 77);

    pst_status st = PST_ENOMEM;
    uint64_t n = 0, before = mem_live();
    for (; st != PST_OK && n < 1000; n++) {
        test_fault_arm(FAULT_MEMORY, n, false);
        st = pst_files_find(&found, &count, paths, 2, &e);
        test_fault_clear();
        if (st != PST_OK)
            REQUIRE(CHECK_STATUS(st, PST_ENOMEM, &e) && found == unwritten && count == 77 && mem_live() == before);
    }
    REQUIRE_OK(st, &e);
    CHECK(n > 5);
    CHECK_INT(count, 4);
    for (size_t i = 0; i < count && i < 4; i++) {
        snprintf(pattern, sizeof(pattern), "%s/%s", at, want[i]);
        CHECK_STR(found[i], pattern);
    }
    CHECK(found[count] == NULL);
    pst_free(found);
    CHECK_INT(mem_live(), before);
}

static void test_spread(void)
{
    static const uint64_t totals[] = {1, 2, 7, 100, 1281167, UINT64_C(1) << 40, UINT64_MAX};
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        for (uint64_t wanted = 1; wanted <= 1000; wanted = wanted * 3 + 1) {
            struct spread s = spread_make(totals[i], wanted);
            CHECK_INT(s.count, wanted < totals[i] ? wanted : totals[i]);
            for (uint64_t k = 0; k < s.count; k++) {
                CHECK(spread_at(&s, k) >= spread_part(&s, k) && spread_at(&s, k) < spread_part(&s, k + 1));
                CHECK_INT(spread_first(&s, spread_at(&s, k)), k);
                CHECK_INT(spread_first(&s, spread_at(&s, k) + 1), k + 1);
            }
            CHECK(s.count == totals[i] || spread_part(&s, s.count) == totals[i]);
        }
    }
    struct spread s = spread_make(100000, 10000); /* ten records a part: a fixed step would see one of ten classes */
    uint64_t seen[10] = {0};
    for (uint64_t k = 0; k < s.count; k++)
        seen[spread_at(&s, k) % 10]++;
    for (size_t i = 0; i < 10; i++)
        CHECK(seen[i] > 850 && seen[i] < 1150);
}

/* ---- Figures ---- */

static void check_features(const pst_inspection *n)
{
    const pst_inspect_feature *f = feature(n, "score");
    double sum = 0;
    for (size_t i = 0; i < RECORDS; i++)
        sum += (double)((float)i / 7) - 1.5 + (double)((float)(i * i) * 0.01f);
    REQUIRE(f != NULL);
    CHECK_INT(f->kind, PST_FLOAT);
    CHECK_INT(f->layout, PST_FIXED);
    CHECK_INT(f->present, RECORDS);
    CHECK_INT(f->min_count, 3);
    CHECK_INT(f->max_count, 3);
    CHECK(f->min == -1.5 && f->max == (double)(39 * 39 * 0.01f) && fabs(f->mean - sum / (RECORDS * 3)) < 1e-9);
    f = feature(n, "tags");
    REQUIRE(f != NULL);
    CHECK(f->kind == PST_BYTES && f->layout == PST_VARIABLE && f->text && !f->image);
    CHECK(f->min_count == 0 && f->max_count == 2 && f->min_bytes == 3 && f->max_bytes == 5 && isnan(f->mean));
    CHECK_STR(f->preview, "\"red\"");
    f = feature(n, "rare");
    REQUIRE(f != NULL);
    CHECK(f->layout == PST_VARIABLE && f->present == 4);
    f = feature(n, "image");
    REQUIRE(f != NULL);
    CHECK(f->image && !f->text && f->layout == PST_FIXED);
    CHECK_STR(n->schema, "image:bytes key:bytes label:int64 rare:float[*] score:float[3] tags:bytes[*]");
}

static void check_images(const pst_inspect_images *m)
{
    CHECK_INT(m->count, RECORDS);
    CHECK_INT(m->by_format[PST_IMAGE_JPEG], RECORDS / 2);
    CHECK_INT(m->by_format[PST_IMAGE_PNG], RECORDS / 2);
    CHECK_INT(m->by_channels[3], RECORDS);
    CHECK(m->min_width == 16 && m->max_width == 20 && m->min_height == 12 && m->max_height == 14);
    CHECK(m->mean_width == 18 && m->mean_height > 12.9 && m->mean_height < 13 && m->mean_bytes > 50);
}

static void check_survey(const pst_inspection *n, pst_compression compression)
{
    CHECK_INT(n->content, PST_CONTENT_EXAMPLES);
    CHECK_INT(n->records, RECORDS);
    CHECK_INT(n->parsed, RECORDS);
    CHECK_INT(n->shards, 2);
    CHECK_INT(n->shard[0].records, 25);
    CHECK_INT(n->shard[1].records, RECORDS - 25);
    CHECK_INT(n->shard[0].compression, compression);
    CHECK(n->bytes == n->shard[0].bytes + n->shard[1].bytes && n->bytes > 0);
    CHECK(n->fingerprint != 0 && n->shard[0].fingerprint != n->shard[1].fingerprint);
    CHECK_INT(n->features, 6);
    check_features(n);
    check_images(&n->images);
    CHECK_STR(n->image_feature, "image");
    CHECK_STR(n->label_feature, "label");
    CHECK_INT(n->classes, 4);
    for (size_t i = 0; i < n->classes; i++)
        CHECK(n->class_[i].label == (int64_t)i && n->class_[i].records == RECORDS / 4);
    CHECK_INT(pst_damage_log_total(n->damage), 0);
}

static void test_figures(void)
{
    static const pst_compression kinds[] = {PST_COMPRESSION_NONE, PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB,
                                            PST_COMPRESSION_ZSTD};
    uint64_t plain = 0;
    for (size_t k = 0; k < 4; k++) {
        const char *at = make_pictures(pst_compression_name(kinds[k]), kinds[k]);
        for (int verify = 0; verify < 2; verify++) {
            pst_inspection *n = inspect(at, (pst_inspect_options){.verify = verify});
            REQUIRE(n != NULL);
            check_survey(n, kinds[k]);
            CHECK(n->shard[0].indexed == (kinds[k] == PST_COMPRESSION_NONE));
            plain = k == 0 ? n->fingerprint : plain;
            CHECK((n->fingerprint == plain) == (k == 0));
            pst_inspection_destroy(n);
        }
    }
}

/* Floats of other values behind a missing index: built once, found the next time. */
static void test_index(void)
{
    const char *at = folder("index");
    char path[400];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    write_items(path, 0, 10, false, PST_COMPRESSION_NONE, true);
    for (int round = 0; round < 2; round++) {
        pst_inspection *n = inspect(at, (pst_inspect_options){0});
        REQUIRE(n != NULL);
        CHECK(n->shard[0].indexed && n->shard[0].index_place == PST_INDEX_SIDECAR && n->shard[0].index_built == (round == 0));
        CHECK(n->image_feature == NULL && n->images.count == 0);
        pst_inspection_destroy(n);
    }
}

static void test_sample(void)
{
    const char *at = folder("sample");
    char path[400];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%zu.tfrecord", at, i);
        write_items(path, i * 2000, 2000 + i, false, PST_COMPRESSION_NONE, false);
    }
    pst_inspection *n = inspect(at, (pst_inspect_options){.sample = 100});
    REQUIRE(n != NULL);
    CHECK_INT(n->records, 6003);
    CHECK_INT(n->parsed, 100);
    CHECK_INT(feature(n, "key")->present, 100);
    uint64_t sum = 0;
    for (size_t i = 0; i < n->classes; i++)
        sum += n->class_[i].records;
    CHECK_INT(sum, 100);
    CHECK(fabs(feature(n, "score")->max / ((double)6000 * 6000 * 0.01) - 1) < 0.05); /* from the last shard too */
    pst_inspection_destroy(n);

    n = inspect(at, (pst_inspect_options){.sample = UINT64_MAX});
    REQUIRE(n != NULL);
    CHECK_INT(n->parsed, 6003);
    pst_inspection_destroy(n);

    snprintf(path, sizeof(path), "%s/3.tfrecord.gz", at); /* one compressed shard: everything is read */
    write_items(path, 0, 10, false, PST_COMPRESSION_GZIP, false);
    n = inspect(at, (pst_inspect_options){.sample = 100});
    REQUIRE(n != NULL);
    CHECK_INT(n->parsed, 6013);
    pst_inspection_destroy(n);
}

static void test_labels(void)
{
    const char *at = make_pictures("labels", PST_COMPRESSION_NONE);
    char path[400];
    snprintf(path, sizeof(path), "%s/labels.txt", at);
    test_write_file(path, "cat\r\ndog\n\x1b[31mred\n", 18);
    pst_inspection *n = inspect(at, (pst_inspect_options){0});
    REQUIRE(n != NULL && n->classes == 4);
    CHECK_STR(n->class_[0].name, "cat");
    CHECK_STR(n->class_[1].name, "dog");
    CHECK_STR(n->class_[2].name, "\\x1b[31mred");
    CHECK_STR(n->class_[3].name, "");
    pst_inspection_destroy(n);

    n = inspect(at, (pst_inspect_options){.label_feature = "key"});
    REQUIRE(n != NULL && n->classes == RECORDS);
    CHECK_STR(n->label_feature, "key");
    CHECK_STR(n->class_[7].name, "item-0007");
    CHECK_INT(n->class_[7].label, 7);
    pst_inspection_destroy(n);

    pst_error e = {0};
    const char *both[] = {at, make_pictures("labels2", PST_COMPRESSION_NONE)};
    snprintf(path, sizeof(path), "%s/labels.txt", both[1]);
    test_write_file(path, "cat\ndog\n\x1b[31mred\n", 17); /* the same but for the end of a line: these agree */
    for (int agree = 1; agree >= 0; agree--) {
        REQUIRE_OK(pst_inspect(both, 2, NULL, &n, &e), &e);
        CHECK_INT(n->classes, 4);
        CHECK_STR(n->class_[0].name, agree ? "cat" : "");
        pst_inspection_destroy(n);
        test_write_file(path, "dog\ncat\n", 8);
    }

    pst_inspect_options options = {.size = sizeof(options), .label_feature = "score"};
    CHECK_STATUS(pst_inspect(&at, 1, &options, &n, &e), PST_EINVAL, &e);
    options.label_feature = "lable";
    CHECK_STATUS(pst_inspect(&at, 1, &options, &n, &e), PST_EINVAL, &e);
    options.label_feature = NULL;
    options.image_feature = "label";
    CHECK_STATUS(pst_inspect(&at, 1, &options, &n, &e), PST_EINVAL, &e);
}

/* One feature with two kinds, NaN, an empty list, names that are not text, and raw pixels. */
static void test_odd_examples(void)
{
    const char *at = folder("odd");
    char path[400];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    pst_error e;
    pst_builder *b;
    pst_bytes records[3];
    uint8_t *copies[3];
    REQUIRE_OK(pst_builder_create(&b, &e), &e);
    uint8_t pixels[4 * 3 * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < 3; i++) {
        float numbers[] = {NAN, 1, INFINITY};
        int64_t whole = INT64_MIN, width = 4, height = 3, channels = 3;
        pst_bytes raw = {pixels, sizeof(pixels)};
        pst_builder_reset(b);
        if (i == 2) /* pixels that could be text, were it not said what they are */
            memset(pixels, 'a', sizeof(pixels));
        if (i == 0)
            pst_builder_add_floats(b, "mixed", numbers, 3, &e);
        else
            pst_builder_add_int64s(b, "mixed", &whole, i - 1, &e);
        pst_builder_add_int64s(b, "bad\x01\n\xe2\x80\xae", &whole, 1, &e);
        pst_builder_add_bytes(b, "picture", &raw, 1, &e);
        pst_builder_add_int64s(b, "picture/width", &width, 1, &e);
        pst_builder_add_int64s(b, "picture/height", &height, 1, &e);
        if (i == 2)
            pst_builder_add_int64s(b, "picture/channels", &channels, 1, &e);
        REQUIRE_OK(pst_builder_finish(b, &records[i], &e), &e);
        copies[i] = malloc(records[i].length);
        memcpy(copies[i], records[i].data, records[i].length);
        records[i].data = copies[i];
    }
    write_records(path, records, 3);
    pst_builder_destroy(b);
    for (size_t i = 0; i < 3; i++)
        free(copies[i]);

    pst_inspection *n = inspect(at, (pst_inspect_options){.verify = true});
    REQUIRE(n != NULL);
    CHECK_INT(n->features, 7);
    CHECK_STR(n->feature[0].name, "bad\\x01\\n\\u202e");
    CHECK_STR(n->feature[1].name, "mixed");
    CHECK_INT(n->feature[1].kind, PST_FLOAT);
    CHECK(n->feature[1].nonfinite == 2 && n->feature[1].min == 1 && n->feature[1].max == 1);
    CHECK_STR(n->feature[2].name, "mixed");
    CHECK_INT(n->feature[2].kind, PST_INT64);
    CHECK(n->feature[2].present == 2 && n->feature[2].min_count == 0 && n->feature[2].min == (double)INT64_MIN);
    CHECK_STR(n->schema, "");
    CHECK_STR(n->image_feature, "picture");
    CHECK_INT(n->images.by_format[PST_IMAGE_RAW], 3);
    CHECK(n->images.min_width == 4 && n->images.max_height == 3 && n->images.by_channels[3] == 3);
    CHECK_INT(pst_damage_log_total(n->damage), 0);
    pst_inspection_destroy(n);
}

static void test_too_many(void)
{
    const char *at = folder("many");
    char path[400], name[32];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    pst_error e;
    pst_builder *b;
    pst_writer *w;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true};
    REQUIRE_OK(pst_writer_open(&w, path, &options, &e), &e);
    REQUIRE_OK(pst_builder_create(&b, &e), &e);
    for (size_t i = 0; i < 12; i++) { /* 12,000 names, and as many labels as fit into one record beyond the limit */
        int64_t *labels = malloc(10000 * sizeof(*labels));
        pst_bytes out;
        pst_builder_reset(b);
        for (size_t k = 0; k < 1000; k++) {
            snprintf(name, sizeof(name), "f%zu-%zu", i, k);
            pst_builder_add_int64s(b, name, (const int64_t[]){1}, 1, &e);
        }
        for (size_t k = 0; k < 10000; k++)
            labels[k] = (int64_t)(i * 10000 + k);
        pst_builder_add_int64s(b, "label", labels, 10000, &e);
        REQUIRE_OK(pst_builder_finish(b, &out, &e), &e);
        REQUIRE_OK(pst_writer_write(w, out.data, out.length, &e), &e);
        free(labels);
    }
    REQUIRE_OK(pst_writer_commit(w, &e), &e);
    pst_writer_close(w);
    pst_builder_destroy(b);
    pst_inspection *n = inspect(at, (pst_inspect_options){0});
    REQUIRE(n != NULL);
    CHECK_INT(n->features, 10000);
    CHECK(n->features_cut && n->classes_cut && n->classes == 0);
    pst_inspection_destroy(n);
}

/* ---- The number of workers does not show ---- */

static bool same_places(const pst_damage_log *a, const pst_damage_log *b)
{
    bool same = pst_damage_log_places(a) == pst_damage_log_places(b);
    for (size_t i = 0; same && i < pst_damage_log_places(a); i++) {
        pst_damage x = pst_damage_log_place(a, i), y = pst_damage_log_place(b, i);
        same = x.cause == y.cause && x.record == y.record && x.offset == y.offset && x.bytes == y.bytes &&
               strcmp(x.path, y.path) == 0;
    }
    for (int c = 0; c < PST_CAUSES; c++)
        same &= pst_damage_log_count(a, (pst_cause)c) == pst_damage_log_count(b, (pst_cause)c);
    return same;
}

static bool same_bits(double a, double b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

static void check_same(const pst_inspection *a, const pst_inspection *b)
{
    CHECK(a->content == b->content && a->records == b->records && a->bytes == b->bytes && a->parsed == b->parsed);
    CHECK(a->fingerprint == b->fingerprint && a->shards == b->shards && a->features == b->features && a->classes == b->classes);
    CHECK(memcmp(&a->images, &b->images, sizeof(a->images)) == 0);
    CHECK_STR(a->schema, b->schema);
    for (size_t i = 0; i < a->shards; i++)
        CHECK(a->shard[i].records == b->shard[i].records && a->shard[i].damaged == b->shard[i].damaged);
    for (size_t i = 0; i < a->features; i++) {
        const pst_inspect_feature *x = &a->feature[i], *y = &b->feature[i];
        CHECK_STR(x->name, y->name);
        CHECK_STR(x->preview, y->preview);
        CHECK(x->present == y->present && same_bits(x->mean, y->mean) && same_bits(x->min, y->min) &&
              same_bits(x->max, y->max));
    }
    for (size_t i = 0; i < a->classes; i++)
        CHECK(a->class_[i].label == b->class_[i].label && a->class_[i].records == b->class_[i].records);
    CHECK(same_places(a->damage, b->damage));
}

static void test_workers(void)
{
    const char *at = folder("workers");
    char path[400];
    for (size_t i = 0; i < 7; i++) {
        snprintf(path, sizeof(path), "%s/%zu.tfrecord", at, i);
        write_items(path, i * 1000, i == 3 ? 5000 : 300, i == 1, PST_COMPRESSION_NONE, true);
        if (i % 2)
            flip(path, 20011 + i * 977);
    }
    for (int verify = 0; verify < 2; verify++) {
        pst_inspect_options options = {.sample = verify ? 0 : 4001, .verify = verify, .workers = 1};
        pst_inspection *one = inspect(at, options);
        REQUIRE(one != NULL);
        CHECK(one->records > 6790 && pst_damage_log_total(one->damage) >= (verify ? 3 : 0));
        for (size_t w = 0; w < 3; w++) {
            options.workers = (const unsigned[]){2, 3, 8}[w];
            pst_inspection *more = inspect(at, options);
            REQUIRE(more != NULL);
            check_same(one, more);
            pst_inspection_destroy(more);
        }
        pst_inspection_destroy(one);
    }
}

/* ---- When the system says no ---- */

static int cancel(void *user, const pst_progress *progress)
{
    (void)progress;
    return ++*(int *)user >= 1;
}

static void test_cancel(void)
{
    const char *at = make_pictures("cancel", PST_COMPRESSION_NONE);
    pst_inspection *n = NULL;
    pst_error e = {0};
    int calls = 0;
    pst_inspect_options options = {.size = sizeof(options), .progress = cancel, .user = &calls};
    CHECK_STATUS(pst_inspect(&at, 1, &options, &n, &e), PST_ECANCELLED, &e);
    CHECK(calls >= 1 && n == NULL);
}

static void ignore_line(void *user, const char *line)
{
    (void)user, (void)line;
}

/* Everything this room does to one small folder. */
static pst_status do_all(const char *at, const char *shard, bool verify, pst_error *e)
{
    pst_inspection *n = NULL;
    pst_inspect_options options = {.size = sizeof(options), .verify = verify, .workers = 2};
    pst_writer_options writing = {.size = sizeof(writing), .overwrite = true, .no_sync = true};
    pst_status st = pst_inspect(&at, 1, &options, &n, e);
    if (st == PST_OK && n->image_feature)
        st = pst_inspect_sheet(n, test_path("fault.png"), 2, 32, e);
    pst_inspection_destroy(n);
    if (st == PST_OK)
        st = pst_inspect_head(shard, 2, ignore_line, NULL, e);
    if (st == PST_OK)
        st = pst_repair(shard, test_path("fault.out"), &writing, NULL, NULL, NULL, NULL, e);
    return st;
}

static void fail_everything(const char *at, const char *shard, enum fault_kind kind, uint64_t step)
{
    pst_error e;
    for (int verify = 0; verify < 2; verify++) {
        for (int forever = 0; forever < 2; forever++) {
            pst_status st = PST_EIO;
            bool reached = true;
            for (uint64_t n = 0; reached && n < 20000; n += step) {
                uint64_t live = mem_live();
                e = (pst_error){0};
                test_fault_arm((int)kind, n, forever);
                st = do_all(at, shard, verify, &e);
                reached = test_fault_calls() > n;
                test_fault_clear();
                CHECK_MSG(mem_live() == live, "fault %llu leaks", (unsigned long long)n);
                CHECK_MSG(st == PST_OK || e.status == st, "fault %llu: %s without its error", (unsigned long long)n,
                          pst_status_name(st));
                CHECK_MSG(st == PST_OK || e.message[0], "fault %llu: no message", (unsigned long long)n);
                CHECK_MSG(kind != FAULT_MEMORY || !forever || !reached || st < 0, "fault %llu was not noticed",
                          (unsigned long long)n);
            }
            CHECK_STATUS(st, PST_OK, &e); /* the last run met no fault */
        }
    }
}

static void test_faults(void)
{
    const char *at = folder("faults");
    char path[400], labels[500];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    write_items(path, 0, 3, true, PST_COMPRESSION_NONE, false);
    snprintf(labels, sizeof(labels), "%s/labels.txt", at);
    test_write_file(labels, "a\nb\n", 4);
    fail_everything(at, path, FAULT_MEMORY, 1);
    fail_everything(at, path, FAULT_THREAD, 1);
    fail_everything(at, path, FAULT_IO, 1);
}

static const struct test tests[] = {
    {"names of shards", test_names},
    {"finding shards", test_find},
    {"finding files", test_find_files},
    {"spreading a sample", test_spread},
    {"figures: plain and compressed, read and verified", test_figures},
    {"an index is made once", test_index},
    {"sampling", test_sample},
    {"labels", test_labels},
    {"odd examples", test_odd_examples},
    {"too many features and classes", test_too_many},
    {"any number of workers", test_workers},
    {"cancelling", test_cancel},
    {"faults", test_faults},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
