/* test_flow_damage.c: how damage that is tolerated is counted: each record once, however often and by how many workers it is
 * read, and judged in the order of the samples. */
#include "flow/damage_judge.h"
#include "flow_chains.h"
#include "source_shards.h"

static const unsigned crews[] = {1, 2, 3, 8};
#define CREWS (sizeof(crews) / sizeof(crews[0]))

/* ---- Where a budget is spent ---- */

struct outcome {
    pst_status status;
    size_t steps; /* until then, ends of epochs too */
    uint64_t counted;
    uint64_t record; /* that was too much */
};

static struct outcome outcome_of(const struct chain_case *c, const char *bad, unsigned workers, unsigned prefetch)
{
    pst_pipeline *p = NULL;
    pst_error e = {0};
    struct trace t = {0};
    pst_pipeline_options o = {
        .size = sizeof(o), .seed = 42, .workers = workers, .prefetch = prefetch, .ram = 64 << 20, .bad = bad};
    if (!CHECK_STATUS(chain_build(c, &o, &p, &e), PST_OK, &e))
        return (struct outcome){0};
    struct outcome r = {.status = run_on(p, &t, 3, 3000, &e)};
    r.steps = t.count;
    r.counted = pst_damage_log_total(pst_pipeline_damage(p));
    r.record = r.status < 0 ? e.record : 0;
    pst_pipeline_destroy(p);
    return r;
}

/* The same for every number of workers, and what is expected. */
static void check_outcome(const struct chain_case *c, const char *bad, struct outcome want)
{
    for (size_t w = 0; w < CREWS; w++)
        for (unsigned prefetch = 1; prefetch < 20; prefetch += 6) {
            struct outcome got = outcome_of(c, bad, crews[w], prefetch);
            CHECK_MSG(got.status == want.status && got.steps == want.steps && got.counted == want.counted &&
                          got.record == want.record,
                      "%s, %u workers, prefetch %u: %s after %zu steps, %d counted, record %d", c->name, crews[w], prefetch,
                      pst_status_name(got.status), got.steps, (int)got.counted, (int)got.record);
        }
}

/* Of 100 samples the source loses 30, 61 and 92, the operation 16, 33, 50, 67 and 84. */
static pst_status twice_damaged(pst_pipeline *p, bool stream, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100, .corrupt = 31, .stream = stream}, e));
    TRY(add_bulk(p, 17, 1, e));
    return add_batch(p, 10, false, e);
}

static pst_status damaged_stream(pst_pipeline *p, pst_error *e)
{
    return twice_damaged(p, true, e);
}

static pst_status damaged_index(pst_pipeline *p, pst_error *e)
{
    return twice_damaged(p, false, e);
}

static void test_records(void)
{
    static const struct chain_case stream = {"stream", .build = damaged_stream}, index = {"index", .build = damaged_index};
    const char *skip = "skip", *five = "skip:5";
    check_outcome(&stream, skip, (struct outcome){PST_END, 3 * 11, 8, 0}); /* the second epoch is no news */
    check_outcome(&index, skip, (struct outcome){PST_END, 3 * 11, 8, 0});
    check_outcome(&stream, five, (struct outcome){PST_ECORRUPT, 6, 6, 67}); /* 16 30 33 50 61 67 */
    check_outcome(&index, five, (struct outcome){PST_ECORRUPT, 6, 6, 67});
    check_outcome(&stream, NULL, (struct outcome){PST_ECORRUPT, 1, 1, 16});
    check_outcome(&index, NULL, (struct outcome){PST_ECORRUPT, 1, 1, 16});
}

/* Every 100th of 2000 is damaged. */
static pst_status little_damage(pst_pipeline *p, bool stream, int64_t take, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 2000, .corrupt = 100, .stream = stream}, e));
    TRY(add_count(p, &op_take.op, take, e));
    return add_batch(p, 50, false, e);
}

static pst_status little_in_a_stream(pst_pipeline *p, pst_error *e)
{
    return little_damage(p, true, -1, e);
}

static pst_status little_in_an_index(pst_pipeline *p, pst_error *e)
{
    return little_damage(p, false, -1, e);
}

static pst_status little_taken(pst_pipeline *p, pst_error *e)
{
    return little_damage(p, false, 1000, e);
}

/* Each record counts once in what the share is a share of: not again when it is delivered, not again in the next epoch. */
static void test_share(void)
{
    static const struct chain_case stream = {"stream", .build = little_in_a_stream},
                                   index = {"index", .build = little_in_an_index}, taken = {"taken", .build = little_taken};
    const char *enough = "skip:1%", *less = "skip:0.99%";
    check_outcome(&index, enough, (struct outcome){PST_END, 3 * 41, 20, 0});
    check_outcome(&index, less, (struct outcome){PST_ECORRUPT, 39, 20, 1999}); /* 20 of 2000 */
    check_outcome(&taken, enough, (struct outcome){PST_END, 3 * 21, 10, 0});
    check_outcome(&taken, less, (struct outcome){PST_ECORRUPT, 19, 10, 999}); /* 10 of 1000 */
    check_outcome(&stream, enough, (struct outcome){PST_END, 3 * 41, 20, 0});
    check_outcome(&stream, less, (struct outcome){PST_ECORRUPT, 19, 10, 999}); /* of 1009 that were read for 20 batches */
}

/* Whoever seeks after a budget was spent meets the same end. */
static void test_spent_for_good(void)
{
    pst_pipeline *p = NULL;
    pst_error e;
    pst_cursor start;
    pst_pipeline_options o = {.size = sizeof(o), .workers = 2, .bad = "skip:5"};
    for (int stream = 0; stream < 2; stream++) {
        REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
        REQUIRE_OK(twice_damaged(p, stream, &e), &e);
        REQUIRE_OK(pst_pipeline_tell(p, &start, &e), &e);
        for (int round = 0; round < 3; round++) {
            struct trace t = {0};
            CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ECORRUPT, &e);
            CHECK_INT(t.count, round == 0 ? 6 : 1);
            CHECK_INT(pst_damage_log_total(pst_pipeline_damage(p)), 6);
            REQUIRE_OK(pst_pipeline_seek(p, &start, &e), &e);
        }
        p = pst_pipeline_destroy(p);
    }
}

/* The report has every damage once, in the order of the samples, with its cause, its place and who found it. */
static void test_report_of_damage(void)
{
    static const uint64_t records[] = {16, 30, 33, 50, 61, 67, 84, 92};
    for (int stream = 0; stream < 2; stream++)
        for (size_t w = 0; w < CREWS; w++) {
            pst_pipeline *p = NULL;
            pst_error e;
            struct trace t = {0};
            pst_pipeline_options o = {.size = sizeof(o), .workers = crews[w], .prefetch = 3, .bad = "skip"};
            REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
            REQUIRE_OK(twice_damaged(p, stream, &e), &e);
            run_sound(p, &t, 2, 100, stream ? "stream" : "index");
            const pst_damage_log *log = pst_pipeline_damage(p);
            CHECK_INT(pst_damage_log_places(log), 8);
            for (size_t i = 0; i < 8; i++) {
                pst_damage d = pst_damage_log_place(log, i);
                bool of_source = records[i] % 31 == 30;
                CHECK_INT(d.record, records[i]);
                CHECK_INT(d.offset, records[i] * 100);
                CHECK_STR(d.path, of_source || stream ? "samples.bin" : "ids.bin"); /* `bulk` reads the id alone */
                CHECK_STR(d.op, of_source ? "samples" : "bulk");
                CHECK_INT(d.cause, of_source ? PST_CAUSE_DATA_CRC : PST_CAUSE_VALUE);
            }
            pst_pipeline_destroy(p);
        }
}

/* Damage that is not tolerated is on record once, however often a consumer seeks back to it. */
static void test_error_counts_once(void)
{
    for (int stream = 0; stream < 2; stream++)
        for (int of_source = 0; of_source < 2; of_source++) {
            pst_pipeline *p = NULL;
            pst_error e = {0};
            pst_cursor start;
            pst_pipeline_options o = {.size = sizeof(o), .workers = 3};
            REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
            REQUIRE_OK(add_samples(p, (struct sample_config){.count = 50, .corrupt = of_source ? 31 : 0, .stream = stream}, &e),
                       &e);
            REQUIRE_OK(add_bulk(p, of_source ? 0 : 31, 1, &e), &e);
            REQUIRE_OK(add_batch(p, 10, false, &e), &e);
            REQUIRE_OK(pst_pipeline_tell(p, &start, &e), &e);
            for (int round = 0; round < 3; round++) {
                struct trace t = {0};
                CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ECORRUPT, &e);
                CHECK_INT(t.count, 3);
                CHECK_INT(e.record, 30);
                CHECK_STR(e.op, of_source ? "samples" : "bulk");
                CHECK_INT(pst_damage_log_total(pst_pipeline_damage(p)), 1);
                REQUIRE_OK(pst_pipeline_seek(p, &start, &e), &e);
            }
            pst_pipeline_destroy(p);
        }
}

/* ---- Shards ---- */

#define SMALL 1000

/* A shard of small records, every `nth` of them damaged; packed if `gzip`. */
static void write_damaged(const char *path, size_t nth, bool gzip)
{
    pst_error e;
    size_t lengths[SMALL], length = 0;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .overwrite = true};
    for (size_t i = 0; i < SMALL; i++)
        lengths[i] = 8;
    if (!CHECK_STATUS(fixture_write(path, lengths, SMALL, &options, &e), PST_OK, &e))
        return;
    uint8_t *bytes = test_read_file(path, &length);
    for (size_t i = nth - 1; i < SMALL; i += nth)
        bytes[24 * i + 12] ^= 1;
    if (gzip)
        fixture_compress(path, bytes, length, PST_COMPRESSION_GZIP);
    else
        test_write_file(path, bytes, length);
    free(bytes);
}

/* Opening a shard does not count its records a second time. */
static void test_shards(void)
{
    for (int gzip = 0; gzip < 2; gzip++) {
        char text[512];
        const char *path = test_path(gzip ? "few.tfrecord.gz" : "few.tfrecord");
        snprintf(text, sizeof(text), "tfrecord %s | batch 100", path);
        const struct chain_case c = {path, .text = text};
        write_damaged(path, 100, gzip);
        check_outcome(&c, "skip:1%", (struct outcome){PST_END, 3 * 11, 10, 0});
        write_damaged(path, 90, gzip); /* 11 */
        check_outcome(&c, "skip:1%", (struct outcome){PST_ECORRUPT, 9, 11, 989});
        check_outcome(&c, "skip:1.1%", (struct outcome){PST_END, 3 * 11, 11, 0});
    }
}

/* Stretches of a shard that hold no record are found while it is opened, and count in the plan, once. */
static void test_gaps(void)
{
    static const struct {
        const char *policy;
        pst_status status;
        uint64_t counted;
        const char *message;
    } runs[] = {{"skip", PST_OK, 2, ""},
                {"skip:2", PST_OK, 2, ""},
                {"skip:1", PST_ECORRUPT, 2, "2 damaged records, the policy allows 1; the last: length crc"},
                {"error", PST_ECORRUPT, 1, "length crc: "}};
    size_t length;
    pst_error e;
    write_damaged(test_path("gaps.tfrecord"), SMALL, false); /* the last record's data too */
    uint8_t *bytes = test_read_file(test_path("gaps.tfrecord"), &length);
    bytes[24 * 20] ^= 1; /* lengths */
    bytes[24 * 50] ^= 1;
    test_write_file(test_path("gaps.tfrecord"), bytes, length);
    free(bytes);
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        char text[512];
        pst_pipeline *p = NULL;
        pst_pipeline_options o = {.size = sizeof(o), .workers = 2, .bad = runs[i].policy};
        snprintf(text, sizeof(text), "tfrecord %s | take 900 | batch 100", test_path("gaps.tfrecord"));
        REQUIRE_OK(pst_pipeline_parse(&p, text, &o, &e), &e);
        const pst_damage_log *log = pst_pipeline_damage(p);
        for (int round = 0; round < 2; round++) { /* planning again counts nothing again */
            e = (pst_error){0};
            CHECK_STATUS(pst_pipeline_plan(p, &e), runs[i].status, &e);
            CHECK_INT(pst_damage_log_count(log, PST_CAUSE_LENGTH_CRC), runs[i].counted);
            CHECK(runs[i].status == PST_OK || strcmp(e.op, "tfrecord") == 0);
            CHECK_MSG(round > 0 || strstr(e.message, runs[i].message) == e.message, "%s: %s", runs[i].policy, e.message);
        }
        for (size_t k = 0; k < runs[i].counted; k++) {
            pst_damage d = pst_damage_log_place(log, k);
            CHECK_INT(d.record, k ? 50 : 20);
            CHECK_INT(d.offset, k ? 24 * 50 : 24 * 20);
            CHECK_INT(d.bytes, 24);
            CHECK_STR(d.op, "tfrecord");
        }
        if (runs[i].status == PST_OK) {
            struct trace t = {0};
            run_sound(p, &t, 2, 100, text);
            CHECK_INT(t.count, 2 * 10);
            CHECK_INT(pst_damage_log_total(log), 2);
            CHECK_INT(pst_damage_log_records(log), 902);
        }
        pst_pipeline_destroy(p);
    }
}

/* A schema is inferred from the first records of a stream; what is damaged among them is told by the run, once. */
static void test_inference(void)
{
    pst_error e;
    char text[512];
    size_t length = 0;
    const char *path = test_path("examples.tfrecord.gz");
    uint8_t bytes[40 * 64];
    for (int i = 0; i < 40; i++) { /* an Example with the feature x: int64 */
        static const uint8_t example[] = {10, 12, 10, 10, 10, 1, 'x', 18, 5, 26, 3, 10, 1, 7};
        frame_put_header(bytes + length, sizeof(example));
        memcpy(bytes + length + FRAME_HEADER, example, sizeof(example));
        frame_put_footer(bytes + length + FRAME_HEADER + sizeof(example), example, sizeof(example));
        bytes[length + FRAME_HEADER + 3] ^= i == 5;
        length += sizeof(example) + FRAME_BYTES;
    }
    fixture_compress(path, bytes, length, PST_COMPRESSION_GZIP);
    snprintf(text, sizeof(text), "tfrecord %s | example | batch 10", path);
    const struct chain_case c = {"inferred", .text = text};
    check_outcome(&c, "skip:1", (struct outcome){PST_END, 3 * 5, 1, 0});
    check_outcome(&c, NULL, (struct outcome){PST_ECORRUPT, 0, 1, 5});
    pst_pipeline *p = NULL;
    pst_pipeline_options o = {.size = sizeof(o)};
    REQUIRE_OK(pst_pipeline_parse(&p, text, &o, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_OK, &e);
    CHECK_INT(pst_damage_log_total(pst_pipeline_damage(p)), 0);
    pst_pipeline_destroy(p);
}

static void test_known(void)
{
    struct damage_known k = {0};
    bool is_new;
    for (uint64_t round = 0; round < 2; round++)
        for (uint64_t i = 0; i < 5000; i++) {
            REQUIRE(damage_known_add(&k, i * i * 7919, &is_new) == PST_OK);
            CHECK_INT(is_new, round == 0);
        }
    CHECK_INT(k.count, 4999);
    damage_known_finish(&k);
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK_INT(damage_known_add(&k, 0, &is_new), PST_OK);
    CHECK_INT(damage_known_add(&k, 1, &is_new), PST_ENOMEM);
    test_fault_clear();
    damage_known_finish(&k);
}

static const struct test tests[] = {
    {"a budget of records", test_records},
    {"a budget that is a share", test_share},
    {"a spent budget stays spent", test_spent_for_good},
    {"the report", test_report_of_damage},
    {"an error counts once", test_error_counts_once},
    {"shards count once", test_shards},
    {"gaps of shards", test_gaps},
    {"inferring a schema counts nothing", test_inference},
    {"what is known", test_known},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
