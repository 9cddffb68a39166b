/* test_index.c: the index file, whole and hostile; where it is looked for, made and kept. */
#include "shard_fixture.h"

#include "base/hash.h"
#include "base/memory.h"
#include "record/index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static void check_open(const char *path, const pst_shard_options *options, pst_index_place place, bool built)
{
    pst_shard *s;
    pst_error error;
    REQUIRE_OK(pst_shard_open(&s, path, options, &error), &error);
    CHECK_STR(pst_index_place_name(pst_shard_index_place(s)), pst_index_place_name(place));
    CHECK_INT(pst_shard_index_built(s), built);
    CHECK_STR(pst_shard_path(s), path);
    check_records(s);
    pst_shard_close(s);
}

static void test_places(void)
{
    char folder[320];
    snprintf(folder, sizeof(folder), "%s/cache/deep", test_folder());
    pst_shard_options cached = {.size = sizeof(cached), .cache_dir = folder};
    pst_shard_options unusable = {.size = sizeof(unusable), .cache_dir = "/proc/no/such/folder"};
    char path[64];
    uint64_t live = mem_live();

    write_fixture(test_path("a"));
    check_open(test_path("a"), &no_write, PST_INDEX_MEMORY, true);
    CHECK(access(test_path("a.pidx"), F_OK) < 0);
    check_open(test_path("a"), NULL, PST_INDEX_SIDECAR, true);
    check_open(test_path("a"), NULL, PST_INDEX_SIDECAR, false);

    /* A name whose folder takes no files, even from root. */
    write_fixture(test_path("readonly"));
    int fd = open(test_path("readonly"), O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    check_open(path, NULL, PST_INDEX_MEMORY, true);
    check_open(path, &unusable, PST_INDEX_MEMORY, true);
    check_open(path, &cached, PST_INDEX_CACHE, true);
    check_open(path, &cached, PST_INDEX_CACHE, false);
    /* The cached index belongs to the file, by whatever name. */
    check_open(test_path("readonly"), &cached, PST_INDEX_CACHE, false);
    close(fd);
    CHECK_INT(mem_live(), live);
}

/* A file that has no record in it, say one named by mistake, gets no index beside it. */
static void test_no_shard(void)
{
    static const char text[] = "root:x:0:0: this is a text of more than sixteen bytes\n";
    const pst_policy policy = {.skip = true};
    pst_shard_options options = {.size = sizeof(options)};
    pst_shard *s;
    pst_error error;

    test_write_file(test_path("text"), text, sizeof(text));
    REQUIRE_OK(pst_damage_log_create(&options.damage, &policy, &error), &error);
    REQUIRE_OK(pst_shard_open(&s, test_path("text"), &options, &error), &error);
    CHECK_INT(pst_shard_count(s), 0);
    CHECK_STR(pst_index_place_name(pst_shard_index_place(s)), pst_index_place_name(PST_INDEX_MEMORY));
    CHECK(access(test_path("text.pidx"), F_OK) < 0);
    pst_shard_close(s);
    pst_damage_log_destroy(options.damage);
}

static void test_cache_names(void)
{
    static const size_t one[] = {37, 0, 120, 1, 300}, two[] = {1, 2};
    char name[256], folder[320], path[64];
    pst_error error;
    pst_shard_options cached = {.size = sizeof(cached), .cache_dir = folder};
    pst_writer_options w = {.size = sizeof(w), .no_sync = true, .no_index = true};
    snprintf(folder, sizeof(folder), "%s/names", test_folder());

    /* Shards of one name in two folders. */
    REQUIRE(mkdir(test_path("one"), 0755) == 0 && mkdir(test_path("two"), 0755) == 0);
    REQUIRE_OK(fixture_write(test_path("one/same"), one, 5, &w, &error), &error);
    REQUIRE_OK(fixture_write(test_path("two/same"), two, 2, &w, &error), &error);
    for (int i = 0; i < 4; i++) {
        pst_shard *s;
        int fd = open(test_path(i % 2 ? "two/same" : "one/same"), O_RDONLY | O_CLOEXEC);
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        REQUIRE_OK(pst_shard_open(&s, path, &cached, &error), &error);
        CHECK_INT(pst_shard_count(s), i % 2 ? 2 : 5);
        CHECK_INT(pst_shard_index_built(s), i < 2);
        pst_shard_close(s);
        close(fd);
    }

    /* A name so long that NAME.pidx is none. */
    memset(name, 'n', sizeof(name));
    name[252] = '\0';
    write_fixture(test_path(name));
    check_open(test_path(name), &cached, PST_INDEX_CACHE, true);
    check_open(test_path(name), &cached, PST_INDEX_CACHE, false);
}

static void test_stale(void)
{
    /* Another size; the same size, other records. */
    static const size_t others[][FIXTURE_RECORDS] = {{37, 0, 120, 1, 301}, {36, 1, 120, 1, 300}};
    pst_error error;
    pst_writer_options w = {.size = sizeof(w), .no_sync = true, .overwrite = true, .no_index = true};
    pst_index_report report = {.size = sizeof(report)};
    for (size_t k = 0; k < 2; k++) {
        write_fixture(test_path("s"));
        REQUIRE_OK(pst_index_make(test_path("s"), NULL, false, false, &report, &error), &error);
        CHECK(report.written);
        REQUIRE_OK(fixture_write(test_path("s"), others[k], FIXTURE_RECORDS, &w, &error), &error);
        CHECK_STATUS(pst_index_make(test_path("s"), NULL, false, true, &report, &error), PST_ESTALE, &error);
        pst_shard *s;
        REQUIRE_OK(pst_shard_open(&s, test_path("s"), NULL, &error), &error);
        CHECK(pst_shard_index_built(s));
        for (uint64_t i = 0; i < FIXTURE_RECORDS; i++) {
            uint64_t offset, length;
            pst_shard_locate(s, i, &offset, &length);
            CHECK_INT(length, others[k][i]);
        }
        pst_shard_close(s);
        REQUIRE_OK(pst_index_make(test_path("s"), NULL, false, true, &report, &error), &error);
        CHECK(!report.written && report.records == 5 && report.place == PST_INDEX_SIDECAR);
    }
}

/* A file larger than its samples: one byte elsewhere does not change its fingerprint, so the record's own framing must
 * tell; any change of size or of a sample does change it. */
static void test_fingerprint(void)
{
    size_t length = 1000000;
    uint8_t *bytes = malloc(length + 1);
    uint64_t size, a, b;
    pst_error error;
    fixture_fill(bytes, length + 1, 1);
    test_write_file(test_path("fp"), bytes, length);
    int fd = open(test_path("fp"), O_RDWR | O_CLOEXEC);
    REQUIRE_OK(index_fingerprint(fd, "fp", &size, &a, &error), &error);
    CHECK_INT(size, length);
    static const struct {
        off_t at;
        bool sampled;
    } places[] = {{0, true}, {4095, true}, {4096, false}, {500000, false}, {66393, true}, {66392, false}, {999999, true}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint8_t flipped = bytes[places[i].at] ^ 1;
        REQUIRE(pwrite(fd, &flipped, 1, places[i].at) == 1);
        REQUIRE_OK(index_fingerprint(fd, "fp", &size, &b, &error), &error);
        CHECK_MSG((a != b) == places[i].sampled, "byte %lld", (long long)places[i].at);
        REQUIRE(pwrite(fd, &bytes[places[i].at], 1, places[i].at) == 1);
    }
    int odd = open("/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC); /* reads less than its size */
    if (odd >= 0)
        CHECK_STATUS(index_fingerprint(odd, "short", &size, &b, &error), PST_ESTALE, &error);
    close(odd);
    REQUIRE(ftruncate(fd, 999999) == 0);
    REQUIRE_OK(index_fingerprint(fd, "fp", &size, &b, &error), &error);
    CHECK(a != b);
    close(fd);
    free(bytes);
}

/* ---- The file format ---- */

#define NOTE "skipped: 3"

/* An index of the fixture as bytes; free() it. */
static uint8_t *index_bytes(size_t *ret_length)
{
    struct fixture f = fixture_make();
    struct index_entry entries[FIXTURE_RECORDS];
    pst_error error;
    for (size_t i = 0; i < FIXTURE_RECORDS; i++)
        entries[i] = (struct index_entry){f.offsets[i], fixture_lengths[i]};
    struct index x = {.entries = entries,
                      .count = FIXTURE_RECORDS,
                      .shard_bytes = f.length,
                      .fingerprint = 77,
                      .note = NOTE,
                      .note_length = strlen(NOTE)};
    CHECK_STATUS(index_publish(test_path("x"), &x, false, &error), PST_OK, &error);
    free(f.bytes);
    return test_read_file(test_path("x"), ret_length);
}

static bool same_index(const struct index *x)
{
    struct fixture f = fixture_make();
    bool same = x->count == FIXTURE_RECORDS && x->shard_bytes == f.length && x->fingerprint == 77 && x->gaps == 0;
    for (size_t i = 0; same && i < FIXTURE_RECORDS; i++)
        same = x->entries[i].offset == f.offsets[i] && x->entries[i].length == fixture_lengths[i];
    free(f.bytes);
    return same && x->note_length == strlen(NOTE) && memcmp(x->note, NOTE, x->note_length) == 0;
}

static void test_layout(void)
{
    size_t length;
    uint8_t *b = index_bytes(&length);
    REQUIRE(length == 64 + 2 * 32 + FIXTURE_RECORDS * 16 + strlen(NOTE));
    CHECK(memcmp(b, "PSTIDX1\n", 8) == 0);
    CHECK(le32(b + 8) == 1 && le32(b + 12) == 64 && le32(b + 16) == 2 && le32(b + 20) == 0);
    CHECK(le64(b + 24) == FIXTURE_RECORDS && le64(b + 40) == 77 && le64(b + 48) == length);
    CHECK(memcmp(b + 64, "RECS\0\0\0\0", 8) == 0 && le64(b + 72) == 128 && le64(b + 80) == FIXTURE_RECORDS * 16);
    CHECK(memcmp(b + 96, "NOTE\0\0\0\0", 8) == 0 && le64(b + 104) == 128 + FIXTURE_RECORDS * 16);
    CHECK(le64(b + 88) == hash_bytes(b + 128, FIXTURE_RECORDS * 16, 0));
    CHECK(le64(b + 56) == hash_bytes(b + 64, 64, hash_bytes(b, 56, 0)));
    struct index x = {0};
    pst_error error;
    REQUIRE_OK(index_open(&x, test_path("x"), &error), &error);
    CHECK(same_index(&x));
    CHECK_INT(index_next(&x, 0), 53);
    CHECK_INT(index_next(&x, 52), 53);
    CHECK_INT(index_next(&x, 53), 69);
    CHECK_INT(index_next(&x, UINT64_MAX), x.shard_bytes);
    index_finish(&x);
    struct index_entry late[] = {{40, 4}, {60, 4}}; /* after damage at the beginning */
    CHECK_INT(index_next(&(struct index){.entries = late, .count = 2, .shard_bytes = 80}, 0), 40);
    free(b);
}

/* The version of an object in a store, kept with the index of a large shard. */
static void test_version(void)
{
    const struct index_entry all = {0, ((uint64_t)9 << 20) - 16};
    struct index made = {.entries = &all, .count = 1, .shard_bytes = (uint64_t)9 << 20, .fingerprint = 5}, x = {0};
    pst_error error;
    index_set_version(&made, "0123abcd-2");
    REQUIRE_OK(index_publish(test_path("v"), &made, false, &error), &error);
    REQUIRE_OK(index_open(&x, test_path("v"), &error), &error);
    CHECK(index_is_of_version(&x, "0123abcd-2", made.shard_bytes));
    CHECK(!index_is_of_version(&x, "0123abcd-3", made.shard_bytes) && !index_is_of_version(&x, "0123abcd", made.shard_bytes));
    CHECK(!index_is_of_version(&x, "0123abcd-2", made.shard_bytes + 1) && !index_is_of_version(&x, "", made.shard_bytes));
    index_set_version(&x, ""); /* written again without it */
    REQUIRE_OK(index_publish(test_path("w"), &x, false, &error), &error);
    index_finish(&x);
    REQUIRE_OK(index_open(&x, test_path("w"), &error), &error);
    CHECK(!x.version && x.lines == 1 && !index_is_of_version(&x, "", made.shard_bytes));
    index_finish(&x);
    made.shard_bytes = (uint64_t)8 << 20; /* a shard that one request brings needs none */
    index_set_version(&made, "0123abcd-2");
    CHECK(!made.version);
}

static void test_hostile_bits(void)
{
    size_t length;
    uint8_t *bytes = index_bytes(&length);
    uint64_t live = mem_live();
    for (size_t at = 0; at < length * 8; at++) {
        struct index x = {0};
        pst_error error;
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        test_write_file(test_path("h"), bytes, length);
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        pst_status st = index_open(&x, test_path("h"), &error);
        CHECK_MSG(st == PST_ECORRUPT || (st == PST_OK && same_index(&x)), "bit %zu: %s", at, pst_status_name(st));
        index_finish(&x);
    }
    for (size_t n = 0; n < length; n++) {
        struct index x = {0};
        test_write_file(test_path("h"), bytes, n);
        CHECK_INT(index_open(&x, test_path("h"), NULL), PST_ECORRUPT);
    }
    CHECK_INT(mem_live(), live);
    free(bytes);
}

/* The same damage seen through pst_shard_open: the records are always all there. */
static void test_hostile_sidecar(void)
{
    size_t length;
    write_fixture(test_path("v"));
    check_open(test_path("v"), NULL, PST_INDEX_SIDECAR, true);
    uint8_t *bytes = test_read_file(test_path("v.pidx"), &length);
    for (size_t at = 0; at < length * 8; at += 3) {
        pst_shard *s;
        pst_error error;
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        test_write_file(test_path("v.pidx"), bytes, length);
        bytes[at / 8] ^= (uint8_t)(1u << at % 8);
        REQUIRE_OK(pst_shard_open(&s, test_path("v"), &no_write, &error), &error);
        CHECK(pst_shard_index_built(s));
        check_records(s);
        pst_shard_close(s);
    }
    free(bytes);
    check_open(test_path("v"), NULL, PST_INDEX_SIDECAR, true);
}

/* Makes checksums right again, as someone would who means harm. */
static void forge(uint8_t *b, size_t length)
{
    size_t table = 64 + (size_t)le32(b + 16) * 32;
    if (table > length)
        return;
    for (uint8_t *line = b + 64; line < b + table; line += 32) {
        uint64_t offset = le64(line + 8), bytes = le64(line + 16);
        if (offset <= length && bytes <= length - offset)
            put_le64(line + 24, hash_bytes(b + offset, (size_t)bytes, 0));
    }
    put_le64(b + 56, hash_bytes(b + 64, table - 64, hash_bytes(b, 56, 0)));
}

static void test_forged(void)
{
    static const struct {
        const char *what;
        size_t at;
        uint64_t value;
        pst_status want;
    } forgeries[] = {
        {"nothing", 40, 77, PST_OK},
        {"version 2", 8, UINT64_C(64) << 32 | 2, PST_OK},
        {"version 0", 8, UINT64_C(64) << 32, PST_ECORRUPT},
        {"small header", 8, UINT64_C(32) << 32 | 1, PST_ECORRUPT},
        {"huge header", 8, UINT64_C(0xffffffff) << 32 | 1, PST_ECORRUPT},
        {"no sections", 16, 0, PST_ECORRUPT},
        {"many sections", 16, 5, PST_ECORRUPT},
        {"endless sections", 16, 0xffffffff, PST_ECORRUPT},
        {"one record more", 24, FIXTURE_RECORDS + 1, PST_ECORRUPT},
        {"one record less", 24, FIXTURE_RECORDS - 1, PST_ECORRUPT},
        {"records overflow", 24, UINT64_C(1) << 60 | FIXTURE_RECORDS, PST_ECORRUPT},
        {"shorter shard", 32, 300, PST_ECORRUPT},
        {"longer file", 48, 1 << 20, PST_ECORRUPT},
        {"section before the table", 72, 64, PST_ECORRUPT},
        {"section far out", 72, UINT64_C(1) << 40, PST_ECORRUPT},
        {"section overflows", 72, UINT64_MAX - 79, PST_ECORRUPT},
        {"section off its alignment", 72, 129, PST_ECORRUPT},
        {"section too long", 80, UINT64_MAX, PST_ECORRUPT},
        {"section of half an entry", 80, 72, PST_ECORRUPT},
        {"two sections of a kind", 96, 0x53434552, PST_ECORRUPT},
        {"unknown section", 96, 0x41525458, PST_OK},
        {"record of endless length", 128 + 8, UINT64_MAX, PST_ECORRUPT},
        {"record whose end overflows", 128 + 8, UINT64_MAX - 15, PST_ECORRUPT},
        {"overlapping record", 128 + 16, 52, PST_ECORRUPT},
        {"record behind the shard", 128 + 64, 1 << 20, PST_ECORRUPT},
        {"record with no room for its frame", 128 + 64, 530, PST_ECORRUPT},
    };
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        size_t length;
        uint8_t *bytes = index_bytes(&length);
        struct index x = {0};
        put_le64(bytes + forgeries[i].at, forgeries[i].value);
        forge(bytes, length);
        test_write_file(test_path("forged"), bytes, length);
        pst_status st = index_open(&x, test_path("forged"), NULL);
        CHECK_MSG(st == forgeries[i].want, "%s: %s", forgeries[i].what, pst_status_name(st));
        index_finish(&x);
        free(bytes);
    }
}

/* What an index says of itself, and what was found. */
static void test_forged_messages(void)
{
    static const struct {
        size_t at;
        uint64_t value;
        const char *want;
    } rows[] = {{112, sizeof(NOTE), "the end of a section"},
                {96, 0x53434552, "the number of sections of one kind is 2"},
                {24, FIXTURE_RECORDS + 1, "the number of entries is "}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t length;
        uint8_t *bytes = index_bytes(&length);
        struct index x = {0};
        pst_error error = {0};
        char want[96];
        snprintf(want, sizeof(want), i == 2 ? "%s%d" : "%s", rows[i].want, FIXTURE_RECORDS);
        put_le64(bytes + rows[i].at, rows[i].value);
        forge(bytes, length);
        test_write_file(test_path("forged"), bytes, length);
        CHECK_STATUS(index_open(&x, test_path("forged"), &error), PST_ECORRUPT, &error);
        CHECK_MSG(strstr(error.message, want), "expected %s, found %s", want, error.message);
        free(bytes);
    }
}

/* One section more than the file has room for: refused by the number, before the table is read. */
static void test_forged_table(void)
{
    pst_error error;
    struct index x = {0};
    size_t length;
    uint8_t *bytes = index_bytes(&length);
    put_le32(bytes + 16, (uint32_t)((length - 64) / 32 + 1));
    test_write_file(test_path("table"), bytes, length);
    CHECK_STATUS(index_open(&x, test_path("table"), &error), PST_ECORRUPT, &error);
    CHECK_MSG(strstr(error.message, "the number of sections"), "%s", error.message);
    free(bytes);
}

/* An index whose gap is none: made again. */
static void test_healed_gap(void)
{
    pst_error error;
    pst_shard *s;
    size_t length;
    write_fixture(test_path("heal"));
    check_open(test_path("heal"), NULL, PST_INDEX_SIDECAR, true);
    uint8_t *bytes = test_read_file(test_path("heal.pidx"), &length);
    uint8_t *recs = bytes + le64(bytes + 72);
    put_le64(recs + 16 * 4, le64(recs + 16 * 4) + 1); /* in front of it there is a gap, and in that a sound header */
    put_le64(recs + 16 * 4 + 8, 299);
    forge(bytes, length);
    test_write_file(test_path("heal.pidx"), bytes, length);
    free(bytes);
    REQUIRE_OK(pst_shard_open(&s, test_path("heal"), NULL, &error), &error);
    CHECK(pst_shard_index_built(s) && pst_shard_count(s) == FIXTURE_RECORDS);
    pst_shard_close(s);
    check_open(test_path("heal"), NULL, PST_INDEX_SIDECAR, false);
}

/* The check compares every record, the first one too. */
static void test_lying_first_record(void)
{
    pst_error error;
    pst_index_report report = {.size = sizeof(report)};
    size_t length;
    write_fixture(test_path("first"));
    check_open(test_path("first"), NULL, PST_INDEX_SIDECAR, true);
    uint8_t *bytes = test_read_file(test_path("first.pidx"), &length);
    uint8_t *recs = bytes + le64(bytes + 72);
    put_le64(recs + 8, le64(recs + 8) - 1);
    forge(bytes, length);
    test_write_file(test_path("first.pidx"), bytes, length);
    free(bytes);
    CHECK_STATUS(pst_index_make(test_path("first"), NULL, false, true, &report, &error), PST_ESTALE, &error);
    CHECK_INT(error.record, 0);
}

/* A forged index of the right shard: found out when a record is read, and by the check. */
static void test_lying_index(void)
{
    pst_error error;
    pst_shard *s;
    pst_index_report report = {.size = sizeof(report)};
    uint8_t data[512];
    size_t length;
    write_fixture(test_path("lie"));
    check_open(test_path("lie"), NULL, PST_INDEX_SIDECAR, true);
    uint8_t *bytes = test_read_file(test_path("lie.pidx"), &length);
    uint8_t *recs = bytes + le64(bytes + 72);
    put_le64(recs + 16 * 2 + 8, 119); /* one byte shorter than it is */
    put_le64(recs + 16 * 3 + 8, le64(recs + 16 * 3 + 8) + 1); /* …one longer, up to the next */
    put_le64(recs + 16 * 4, le64(recs + 16 * 4) + 1);
    put_le64(recs + 16 * 4 + 8, 299);
    forge(bytes, length);
    test_write_file(test_path("lie.pidx"), bytes, length);
    free(bytes);
    pst_damage_log *log = fixture_log("skip");
    pst_shard_options options = {.size = sizeof(options), .damage = log};
    REQUIRE_OK(pst_shard_open(&s, test_path("lie"), &options, &error), &error);
    CHECK(!pst_shard_index_built(s));
    CHECK_STATUS(pst_shard_read(s, 2, data, sizeof(data), &length, &error), PST_ESTALE, &error);
    CHECK_STATUS(pst_shard_read(s, 4, data, sizeof(data), &length, &error), PST_ECORRUPT, &error);
    CHECK_STATUS(pst_shard_read(s, 3, data, sizeof(data), &length, &error), PST_ESTALE, &error);
    CHECK_STATUS(pst_shard_read(s, 1, data, sizeof(data), &length, &error), PST_OK, &error);
    pst_shard_close(s);
    CHECK_STATUS(pst_index_make(test_path("lie"), &options, false, true, &report, &error), PST_ESTALE, &error);
    CHECK_INT(error.record, 2);
    pst_damage_log_destroy(log);
    REQUIRE_OK(pst_index_make(test_path("lie"), NULL, true, false, &report, &error), &error);
    CHECK(report.written && report.records == FIXTURE_RECORDS);
    CHECK_STR(report.path, test_path("lie.pidx"));
    check_open(test_path("lie"), NULL, PST_INDEX_SIDECAR, false);
}

/* ---- Text indexes ---- */

static const char good_text[] = "0 53\n53 16\n69 136\n205 17\n222 316\n";

static void test_text(void)
{
    static const struct {
        const char *text;
        pst_status want;
    } texts[] = {
        {good_text, PST_OK},
        {"0 53\r\n53 16\r\n69\t136 \n\n205   17\n222 316", PST_OK},
        {"", PST_ESTALE},
        {"0 53\n", PST_ESTALE},                                 /* ends early */
        {"0 53\n53 16\n69 136\n205 17\n222 317\n", PST_ESTALE}, /* reaches out of the shard */
        {"0 53\n53 16\n70 135\n205 17\n222 316\n", PST_ESTALE}, /* a hole */
        {"0 53\n53 15\n68 137\n205 17\n222 316\n", PST_ESTALE}, /* smaller than a frame */
        {"0 53\n53 16\n69 136\n69 136\n205 17\n222 316\n", PST_ESTALE},
        {"0 53\n53\n", PST_ECORRUPT},
        {"0 53 7\n", PST_ECORRUPT},
        {"0,53\n", PST_ECORRUPT},
        {"-1 53\n", PST_ECORRUPT},
        {"0 18446744073709551669\n", PST_ECORRUPT}, /* 2^64 + 53 */
        {"0 99999999999999999999999\n", PST_ECORRUPT},
        {"0x0 53\n", PST_ECORRUPT},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct index x = {0};
        test_write_file(test_path("t.idx"), texts[i].text, strlen(texts[i].text));
        pst_status st = index_open_text(&x, test_path("t.idx"), 538, NULL);
        CHECK_MSG(st == texts[i].want, "text %zu: %s", i, pst_status_name(st));
        if (st == PST_OK)
            CHECK(x.count == 5 && x.entries[2].offset == 69 && x.entries[2].length == 120);
        index_finish(&x);
    }
    static const char zero[] = "0 53\n\0\n";
    struct index x = {0};
    test_write_file(test_path("t.idx"), zero, sizeof(zero));
    CHECK_INT(index_open_text(&x, test_path("t.idx"), 538, NULL), PST_ECORRUPT);
}

static void test_text_places(void)
{
    static const char *const names[] = {"t.tfrecord.idx", "t.tfrecord.index", "t.idx", "t.index"};
    /* They cover the shard, but are of another one. */
    static const char *const others[] = {"0 54\n54 16\n70 136\n206 17\n223 315\n", "0 538\n"};
    write_fixture(test_path("t.tfrecord"));
    for (size_t i = 0; i < 4; i++) {
        test_write_file(test_path(names[i]), good_text, strlen(good_text));
        check_open(test_path("t.tfrecord"), NULL, PST_INDEX_TEXT, false);
        for (size_t k = 0; k < 2; k++) {
            test_write_file(test_path(names[i]), others[k], strlen(others[k]));
            check_open(test_path("t.tfrecord"), &no_write, PST_INDEX_MEMORY, true);
        }
        unlink(test_path(names[i]));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"places", test_places},
        {"names in the cache", test_cache_names},
        {"no index beside what is no shard", test_no_shard},
        {"stale index", test_stale},
        {"fingerprint", test_fingerprint},
        {"layout", test_layout},
        {"version of an object", test_version},
        {"every bit of an index flipped, cut at every byte", test_hostile_bits},
        {"hostile sidecar", test_hostile_sidecar},
        {"forged indexes", test_forged},
        {"a gap that holds a sound record", test_healed_gap},
        {"an index that lies", test_lying_index},
        {"the check compares the first record", test_lying_first_record},
        {"forged: messages", test_forged_messages},
        {"a table longer than the file", test_forged_table},
        {"text index", test_text},
        {"text index beside the shard", test_text_places},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
