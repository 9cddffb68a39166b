/* test_repair.c: what is sound in a damaged shard ends up in its repaired copy, and nothing else. */
#include "inspect_fixture.h"

/* Repairs `path` and compares every record of the copy with the original's, less those in `lost`. */
static void check_repair(const char *path, const char *original, pst_compression compression, uint64_t want_kept)
{
    char out[400];
    snprintf(out, sizeof(out), "%s.clean", path);
    unlink(out);
    pst_error e = {0};
    pst_repair_report report = {.size = sizeof(report)};
    pst_damage_log *log;
    REQUIRE_OK(pst_damage_log_create(&log, &(pst_policy){.skip = true}, &e), &e);
    pst_writer_options quick = {.size = sizeof(quick), .no_sync = true};
    REQUIRE_OK(pst_repair(path, out, &quick, log, NULL, NULL, &report, &e), &e);
    CHECK_INT(report.kept, want_kept);
    CHECK_INT(report.lost_records, pst_damage_log_total(log));
    pst_damage_log_destroy(log);

    pst_reader *a, *b;
    pst_record x, y;
    REQUIRE_OK(pst_reader_open(&a, original, NULL, &e), &e);
    REQUIRE_OK(pst_reader_open(&b, out, NULL, &e), &e);
    CHECK_INT(pst_reader_compression(b), compression);
    uint64_t kept = 0, bytes = 0;
    while (pst_reader_next(b, &y, &e) == PST_OK) {
        pst_status st;
        do
            st = pst_reader_next(a, &x, &e);
        while (st == PST_OK && (x.length != y.length || memcmp(x.data, y.data, x.length)));
        CHECK_STATUS(st, PST_OK, &e);
        kept++;
        bytes += y.length;
    }
    CHECK_INT(kept, want_kept);
    CHECK_INT(bytes, report.kept_bytes);
    pst_reader_close(a);
    pst_reader_close(b);

    pst_inspection *n = inspect(out, (pst_inspect_options){.verify = true});
    REQUIRE(n != NULL);
    CHECK_INT(pst_damage_log_total(n->damage), 0);
    CHECK_INT(n->records, want_kept);
    pst_inspection_destroy(n);
}

static void test_repair(void)
{
    char whole[400], path[400];
    pst_error e = {0};
    snprintf(whole, sizeof(whole), "%s/whole.tfrecord", folder("repair"));
    snprintf(path, sizeof(path), "%s/hurt.tfrecord", test_path("repair"));
    write_items(whole, 0, 20, false, PST_COMPRESSION_NONE, true);
    size_t length;
    uint8_t *bytes = test_read_file(whole, &length);
    test_write_file(path, bytes, length);
    check_repair(path, whole, PST_COMPRESSION_NONE, 20);
    for (size_t at = 3; at < length; at += 13) { /* header, data, footer: each costs one record */
        bytes[at] ^= 4;
        test_write_file(path, bytes, length);
        check_repair(path, whole, PST_COMPRESSION_NONE, 19);
        bytes[at] ^= 4;
    }
    test_write_file(path, bytes, length - 5);
    check_repair(path, whole, PST_COMPRESSION_NONE, 19);
    free(bytes);

    pst_repair_report report = {.size = sizeof(report)};
    CHECK_STATUS(pst_repair(path, whole, NULL, NULL, NULL, NULL, &report, &e), PST_EEXIST, &e);
    pst_writer_options options = {.size = sizeof(options), .overwrite = true, .compression = PST_COMPRESSION_ZSTD};
    REQUIRE_OK(pst_repair(path, path, &options, NULL, NULL, NULL, &report, &e), &e); /* in place */
    CHECK_INT(report.kept, 19);
    CHECK(report.lost_records == 1 && report.lost_bytes > 0);
    check_repair(path, whole, PST_COMPRESSION_ZSTD, 19);

    write_items(path, 0, 20, false, PST_COMPRESSION_GZIP, true);
    bytes = test_read_file(path, &length);
    test_write_file(path, bytes, length - length / 8);
    free(bytes);
    pst_damage_log *strict;
    REQUIRE_OK(pst_damage_log_create(&strict, NULL, &e), &e);
    char out[500];
    snprintf(out, sizeof(out), "%s.strict", path);
    CHECK_STATUS(pst_repair(path, out, NULL, strict, NULL, NULL, &report, &e), PST_ECORRUPT, &e);
    CHECK(access(out, F_OK) != 0);
    pst_damage_log_destroy(strict);
    snprintf(out, sizeof(out), "%s.gz", path);
    REQUIRE_OK(pst_repair(path, out, NULL, NULL, NULL, NULL, &report, &e), &e);
    CHECK(report.kept >= 10 && report.kept < 20);
}

static const struct test tests[] = {
    {"repair", test_repair},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
