/* test_inspect_damage.c: what an inspection says of shards that are damaged, in every way there is. */
#include "inspect_fixture.h"

#include "record/frame.h"

static void test_damage(void)
{
    const char *at = make_pictures("damage", PST_COMPRESSION_NONE);
    char path[400];
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-00000-of-00002", at);
    pst_shard *s;
    pst_error e = {0};
    uint64_t offset, length;
    REQUIRE_OK(pst_shard_open(&s, path, NULL, &e), &e);
    pst_shard_locate(s, 7, &offset, &length);
    pst_shard_close(s);
    flip(path, (size_t)offset + FRAME_HEADER + 40);

    for (int verify = 0; verify < 2; verify++) {
        pst_inspection *n = inspect(at, (pst_inspect_options){.verify = verify});
        REQUIRE(n != NULL);
        REQUIRE(pst_damage_log_places(n->damage) == 1);
        pst_damage d = pst_damage_log_place(n->damage, 0);
        CHECK(d.cause == PST_CAUSE_DATA_CRC && d.record == 7 && d.offset == offset);
        CHECK_STR(d.path, path);
        CHECK(n->shard[0].damaged == 1 && n->shard[1].damaged == 0);
        CHECK_INT(n->records, RECORDS - 1);
        CHECK_INT(n->parsed, RECORDS - 1);
        pst_inspection_destroy(n);
    }
    CHECK(truncate(path, (off_t)offset + 100) == 0); /* inside the same record */
    for (int verify = 0; verify < 2; verify++) {
        pst_inspection *n = inspect(at, (pst_inspect_options){.verify = verify});
        REQUIRE(n != NULL);
        CHECK_INT(pst_damage_log_count(n->damage, PST_CAUSE_TRUNCATED), 1);
        CHECK_INT(n->records, 7 + RECORDS - 25);
        pst_inspection_destroy(n);
    }
}

/* Every byte changed, and every length cut to: the damage is found, and costs at most its record. */
static void test_every_byte(void)
{
    const char *at = folder("bytes");
    char path[400];
    size_t length, ends[4] = {0};
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    for (size_t i = 0; i < 3; i++) {
        write_items(path, 0, i + 1, false, PST_COMPRESSION_NONE, true);
        free(test_read_file(path, &ends[i + 1]));
    }
    uint8_t *bytes = test_read_file(path, &length);
    for (size_t k = 0; k < 2 * length; k++) {
        size_t kept = k < length ? length : k - length, whole = 0;
        if (k < length)
            bytes[k] ^= (uint8_t)(1u << k % 8);
        test_write_file(path, bytes, kept);
        pst_inspection *n = inspect(at, (pst_inspect_options){.verify = true, .workers = 1});
        REQUIRE(n != NULL);
        while (whole < 3 && ends[whole + 1] <= kept)
            whole++;
        CHECK_INT(n->records, k < length ? 2 : whole);
        CHECK_INT(pst_damage_log_total(n->damage), k < length || kept != ends[whole]);
        pst_inspection_destroy(n);
        if (k < length)
            bytes[k] ^= (uint8_t)(1u << k % 8);
    }
    free(bytes);
}

/* Right CRCs around a picture that is cut short, one that is none, and a record that is no Example. */
static void test_damaged_content(void)
{
    const char *at = folder("content");
    char path[400];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    pst_error e;
    pst_builder *b;
    pst_bytes records[5];
    REQUIRE_OK(pst_builder_create(&b, &e), &e);
    pst_bytes picture = item_picture(0);
    for (size_t i = 0; i < 5; i++) {
        pst_bytes value = picture, out;
        value.length -= i == 1 ? picture.length / 3 : 0;
        value = i == 2 ? (pst_bytes){(const uint8_t *)"no picture", 10} : value;
        pst_builder_reset(b);
        pst_builder_add_bytes(b, "image", &value, 1, &e);
        REQUIRE_OK(pst_builder_finish(b, &out, &e), &e);
        uint8_t *copy = malloc(out.length);
        memcpy(copy, out.data, out.length);
        records[i] = (pst_bytes){copy, i == 3 ? out.length - 20 : out.length};
    }
    write_records(path, records, 5);
    for (size_t i = 0; i < 5; i++)
        free((void *)(uintptr_t)records[i].data);
    pst_free((void *)(uintptr_t)picture.data);
    pst_builder_destroy(b);

    for (int verify = 0; verify < 2; verify++) {
        pst_inspection *n = inspect(at, (pst_inspect_options){.verify = verify});
        REQUIRE(n != NULL);
        CHECK_INT(pst_damage_log_count(n->damage, PST_CAUSE_IMAGE), verify ? 2 : 1);
        CHECK_INT(pst_damage_log_count(n->damage, PST_CAUSE_EXAMPLE), 1);
        CHECK_INT(n->records, 5);
        CHECK_INT(n->parsed, 4);
        CHECK_INT(n->images.count, 3);
        pst_inspection_destroy(n);
    }
}

/* More damage than a log keeps places: the counts stay right. */
static void test_much_damage(void)
{
    const char *at = folder("much");
    char path[400];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    pst_bytes records[1600];
    for (size_t i = 0; i < 1600; i++) /* a feature of one number; from the 400th record on, a message that is cut short */
        records[i] = i < 400 ? (pst_bytes){(const uint8_t *)"\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07", 14}
                             : (pst_bytes){(const uint8_t *)"\x0a\x7f", 2};
    write_records(path, records, 1600);
    pst_inspection *n = inspect(at, (pst_inspect_options){.verify = true});
    REQUIRE(n != NULL);
    CHECK_INT(n->content, PST_CONTENT_EXAMPLES);
    CHECK_INT(n->parsed, 400);
    CHECK_INT(pst_damage_log_count(n->damage, PST_CAUSE_EXAMPLE), 1200);
    CHECK_INT(pst_damage_log_places(n->damage), 1000);
    CHECK_INT(n->shard[0].damaged, 1200);
    pst_inspection_destroy(n);
}

/* Noise in files and in records. */
static void test_noise(void)
{
    const char *at = folder("noise");
    char path[400];
    uint64_t state = 7;
    uint8_t noise[64][64];
    pst_bytes records[64];
    for (size_t i = 0; i < 64; i++) {
        for (size_t k = 0; k < 64; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            noise[i][k] = (uint8_t)(state >> 56);
        }
        records[i] = (pst_bytes){noise[i], i};
    }
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    write_records(path, records, 64);
    snprintf(path, sizeof(path), "%s/b.tfrecord", at);
    test_write_file(path, noise, sizeof(noise));
    snprintf(path, sizeof(path), "%s/c.tfrecord", at);
    test_write_file(path, "", 0);
    for (int verify = 0; verify < 2; verify++) {
        pst_inspection *n = inspect(at, (pst_inspect_options){.verify = verify});
        REQUIRE(n != NULL);
        CHECK_INT(n->content, PST_CONTENT_OTHER);
        CHECK_INT(n->records, 64);
        CHECK_INT(n->features, 0);
        CHECK_STR(n->schema, "");
        CHECK(n->shard[1].damaged >= 1 && n->shard[1].records == 0 && n->shard[2].records == 0 && n->shard[2].damaged == 0);
        pst_inspection_destroy(n);
    }
    pst_inspection *n = inspect(path, (pst_inspect_options){0});
    REQUIRE(n != NULL);
    CHECK_INT(n->content, PST_CONTENT_EMPTY);
    pst_inspection_destroy(n);
}

static const struct test tests[] = {
    {"damage", test_damage},
    {"every byte changed, every length", test_every_byte},
    {"damaged content", test_damaged_content},
    {"more damage than places", test_much_damage},
    {"noise", test_noise},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
