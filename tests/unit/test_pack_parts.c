/* test_pack_parts.c: the parts of pack that are functions of their input alone. */
#include "harness.h"

#include "base/memory.h"
#include "base/random.h"
#include "io/file.h"
#include "io/names.h"
#include "io/parse_number.h"
#include "pack/pack_plan.h"
#include "pack/shard_out.h"
#include "pack/sources/file_window.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void integers(void)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"+7", true, 7},
        {" 12\t", true, 12},
        {"007", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"1 2", false, 0},
        {"1.0", false, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999999", false, 0},
        {"0x10", false, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value = 0;
        bool ok = number_int(cases[i].text, strlen(cases[i].text), &value);
        CHECK_MSG(ok == cases[i].ok && value == cases[i].value, "\"%s\" is %" PRId64, cases[i].text, value);
    }
}

static void floats(void)
{
    static const char *const bad[] = {"",      ".",   "-",       "e5", "1e",  "1e+",   "1.2.3",
                                      "0x1p3", "1,5", "infinit", "1f", "--1", "nan(1)"};
    static const char *const good[] = {"1",
                                       "-1.5",
                                       ".5",
                                       "5.",
                                       "1e3",
                                       "1E-3",
                                       "+2.5e+1",
                                       "123456789012345678901234567890",
                                       "1e400",
                                       "-1e-400",
                                       "0.1",
                                       "3.1415926535897932384626433832795",
                                       "9007199254740993",
                                       "4.9e-324",
                                       "1.7976931348623157e308"};
    double value;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_MSG(!number_float(bad[i], strlen(bad[i]), &value), "\"%s\" is taken", bad[i]);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        bool ok = number_float(good[i], strlen(good[i]), &value);
        CHECK_MSG(ok && value == strtod(good[i], NULL), "\"%s\" is %.17g", good[i], value);
    }
    CHECK(number_float("-inf", 4, &value) && isinf(value) && value < 0);
    CHECK(number_float("NaN", 3, &value) && isnan(value));
    CHECK(number_missing("", 0) && number_missing(" na ", 4) && number_missing("NULL", 4) && !number_missing("0", 1));
    /* Against the C library, on numbers of every form. */
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        int digits = (int)random_below(&r, 18);
        snprintf(text, sizeof(text), "%.*e", digits,
                 random_between(&r, -1000, 1000) * pow(10, (double)random_below(&r, 80) - 40));
        bool ok = number_float(text, strlen(text), &value);
        if (!CHECK_MSG(ok && value == strtod(text, NULL), "\"%s\" is %.17g", text, value))
            return;
    }
}

static void names_are_numbered(void)
{
    struct names n = {0};
    struct arena arena;
    char name[16];
    arena_init(&arena);
    for (int i = 0; i < 20000; i++) {
        int length = snprintf(name, sizeof(name), "%d", (i * 7919) % 1000);
        REQUIRE(names_add(&n, &arena, name, (size_t)length) == 0);
    }
    CHECK_MSG(n.count < 4000, "%zu names are kept of 1000", n.count);
    names_number(&n);
    CHECK_INT(n.count, 1000);
    for (size_t i = 1; i < n.count; i++)
        CHECK(strcmp(n.names[i - 1], n.names[i]) < 0);
    CHECK_INT(names_find(&n, "0", 1), 0);
    CHECK_STR(n.names[names_find(&n, "42x", 2)], "42");
    CHECK_INT(names_find(&n, "42x", 3), -1);
    names_finish(&n);
    arena_finish(&arena);
}

static void notes_come_back(void)
{
    struct shard_facts facts = {12, 3456, 2, 98765, {12, 6, 10, 1, 200, 3, 400}}, got;
    struct text skips = {0}, note = {0};
    struct pack_report *report;
    pst_error e;
    note_add_skip(&skips, "a key\nwith a break", "why: 1 2");
    note_add_skip(&skips, "", "");
    note_write(&note, &facts, &skips);
    REQUIRE_OK(note_read(note.data, note.length, &got, &e), &e);
    CHECK(memcmp(&facts, &got, sizeof(got)) == 0);
    REQUIRE_OK(pack_report_create(&report, &e), &e);
    REQUIRE_OK(note_tell(&note, report, &e), &e);
    CHECK_INT(report->public.skips, 2);
    CHECK_STR(report->public.skip[0].key, "a key\nwith a break");
    CHECK_STR(report->public.skip[0].why, "why: 1 2");
    CHECK_STR(report->public.skip[1].key, "");
    pack_report_destroy(report);
    /* Cut anywhere, or with any byte changed, it is refused or read within bounds. */
    for (size_t n = 0; n < note.length; n++) {
        char *cut = malloc(n + 1);
        memcpy(cut, note.data, n);
        if (note_read(cut, n, &got, &e) == PST_OK) /* behind the facts, or behind a whole skip */
            CHECK(cut[n - 1] == '\n');
        free(cut);
        for (int bit = 0; bit < 8; bit++) {
            note.data[n] ^= (char)(1 << bit);
            note_read(note.data, note.length, &got, &e);
            note.data[n] ^= (char)(1 << bit);
        }
    }
    text_finish(&skips);
    text_finish(&note);
}

/* ---- A source that consists of numbers alone ---- */

static const char *number_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    (void)s;
    snprintf(buffer, PACK_KEY_BYTES, "item %" PRIu64, i);
    return buffer;
}

static void plans_deal_everything(void)
{
    static const struct pack_source_class numbers = {.name = "numbers", .key = number_key};
    static const uint64_t counts[] = {1, 2, 7, 100, 1001};
    pst_error e;
    for (int variant = 0; variant < 8; variant++) {
        for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
            struct pack_config c;
            struct pack_plan p = {0};
            pst_pack_options o = {.size = sizeof(o), .shuffle = variant & 1, .seed = 9, .augment = variant & 2 ? 2 : 0};
            o.split = variant & 4 ? "a=0.5,b=0.3,c=0.2" : NULL;
            REQUIRE_OK(pack_config_init(&c, "out", &o, &e), &e);
            struct pack_source s = {.class = &numbers, .config = &c, .count = counts[k]};
            REQUIRE_OK(pack_plan_init(&p, &s, &e), &e);
            for (size_t i = 0; i < p.split_count; i++)
                pack_plan_divide(&p, i, 5);
            uint8_t *seen = calloc(1, p.units);
            uint64_t smallest = UINT64_MAX, largest = 0, total = 0;
            for (size_t shard = 0; shard < p.shard_count; shard++) {
                uint64_t begin, end;
                size_t split = pack_plan_shard(&p, shard, &begin, &end);
                CHECK(begin < end && end <= p.splits[split].count);
                for (uint64_t at = begin; at < end; at++)
                    seen[pack_plan_unit(&p, split, at)]++;
                total += end - begin;
                if (p.split_count == 1) {
                    smallest = end - begin < smallest ? end - begin : smallest;
                    largest = end - begin > largest ? end - begin : largest;
                }
            }
            CHECK_INT(total, p.units);
            CHECK(p.split_count > 1 || largest - smallest <= 1);
            for (uint64_t i = 0; i < p.units; i++)
                CHECK_INT(seen[i], 1);
            free(seen);
            pack_plan_finish(&p);
            pack_config_finish(&c);
        }
    }
}

static void windows_show_the_file(void)
{
    enum { SIZE = 700001 };
    uint8_t *want = malloc(SIZE);
    struct random r;
    struct file_window w = {0};
    pst_error e;
    int fd;
    random_init(&r, 3, 0, 0, 0);
    for (size_t i = 0; i < SIZE; i++)
        want[i] = (uint8_t)random_u64(&r);
    test_write_file(test_path("bytes"), want, SIZE);
    REQUIRE_OK(file_open_read(&fd, test_path("bytes"), &e), &e);
    uint64_t offset = 0;
    for (int i = 0; i < 3000; i++) {
        const uint8_t *got;
        size_t available, length = (size_t)random_below(&r, i % 50 == 0 ? 400000 : 500);
        offset = i % 20 == 0 ? random_below(&r, SIZE + 1) : offset + random_below(&r, 300);
        offset = offset > SIZE ? SIZE : offset;
        REQUIRE_OK(file_window_get(&w, fd, "bytes", SIZE, offset, length, &got, &available, &e), &e);
        size_t least = length < SIZE - offset ? length : (size_t)(SIZE - offset);
        CHECK(available >= least && available <= SIZE - offset && memcmp(got, want + offset, available) == 0);
    }
    const uint8_t *got;
    size_t available;
    CHECK_STATUS(file_window_get(&w, fd, "bytes", SIZE + 10, SIZE - 1, 8, &got, &available, &e), PST_ESTALE, &e);
    file_window_finish(&w);
    file_close(fd);
    free(want);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){
                         {"integers", integers},
                         {"floats", floats},
                         {"names are numbered", names_are_numbered},
                         {"notes come back", notes_come_back},
                         {"plans deal everything", plans_deal_everything},
                         {"windows show the file", windows_show_the_file},
                         {NULL, NULL},
                     });
}
