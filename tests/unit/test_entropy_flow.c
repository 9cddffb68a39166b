/* test_entropy_flow.c: pipelines with entropy indexes that are stored, collected, of other data or damaged: nobody can tell
 * from the pixels, and the statistics say which it was. */
#include "entropy_fixture.h"
#include "flow_harness.h"

#include "record/index.h"

#include <sys/stat.h>
#include <unistd.h>

#define CROP "| shuffle | example \"image:bytes label:int64\" | decode quality="

static const char *const sources[] = {"plain", "indexed", "stale", "spoilt"};
static const char *const chains[] = {
    "exact | random_resized_crop 48 | flip | batch 5",
    "fast | random_resized_crop 48 | flip | batch 5",
    "exact | random_crop 40 | batch 4",
    "fast | resize 64 | center_crop 48 | normalize | batch 8",
};

/* Flips a bit of every so many-th byte from `at` on. */
static void spoil(const char *path, size_t at, size_t step)
{
    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    for (size_t i = at; i < length; i += step)
        bytes[i] ^= 16;
    test_write_file(path, bytes, length);
    free(bytes);
}

/* The same shard four times: without an index, with one, with one whose entries speak of other JPEGs, and with one that is
 * damaged throughout. */
static void make_shards(void)
{
    pst_entropy_report r = {.size = sizeof(r)};
    pst_error e;
    REQUIRE(chdir(test_folder()) == 0);
    for (size_t i = 0; i < 4; i++) {
        char path[64], index[80];
        mkdir(sources[i], 0755);
        snprintf(path, sizeof(path), "%s/a.tfrecord", sources[i]);
        snprintf(index, sizeof(index), "%s.pidx", path);
        photo_shard(path, 12, 0);
        if (i == 0)
            continue;
        REQUIRE_OK(pst_index_entropy(path, NULL, false, 1, NULL, NULL, &r, &e), &e);
        CHECK_INT(r.indexed, 12);
        if (i == 1)
            continue;
        struct index x = {0};
        REQUIRE_OK(index_open(&x, index, &e), &e);
        uint64_t at = (uint64_t)((const uint8_t *)x.jpegs - x.file);
        index_finish(&x);
        if (i == 2) { /* sound, and wrong: the hash of each is another's */
            size_t length;
            uint8_t *bytes = test_read_file(index, &length);
            struct entropy_entry *entries = (struct entropy_entry *)(void *)(bytes + at + 64);
            for (size_t k = 0; k < 12; k++) {
                entries[k].hash++;
                entry_seal(&entries[k],
                           (const struct jpeg_point *)(const void *)(bytes + at + 64 + 12 * 48) + entries[k].first);
            }
            test_write_file(index, bytes, length);
            free(bytes);
        } else {
            spoil(index, (size_t)at + 64 + 12 * 48 + 5, 20);
        }
    }
}

static void chain_text(char *text, size_t size, const char *source, const char *chain)
{
    snprintf(text, size, "tfrecord %s " CROP "%s", source, chain);
}

/* With the index, without it, with a wrong one, by any number of workers, in every epoch. */
static void test_pixels(void)
{
    for (size_t c = 0; c < sizeof(chains) / sizeof(*chains); c++) {
        struct trace want = {0};
        for (size_t s = 0; s < 4; s++) {
            static const unsigned workers[] = {1, 2, 3, 8};
            char text[256];
            chain_text(text, sizeof(text), sources[s], chains[c]);
            const struct chain_case one = {.name = text, .text = text};
            for (size_t w = 0; w < 4; w++) {
                struct trace t = traced(&one, (pst_pipeline_options){.workers = workers[w]});
                if (want.count == 0)
                    want = t;
                CHECK_MSG(t.count > 4 && same(&want, &t), "%s: %u workers differ", text, workers[w]);
            }
        }
    }
}

static pst_stats run_stats(const char *text, int epochs)
{
    const struct chain_case one = {.name = text, .text = text};
    pst_stats s = {.size = sizeof(s)};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&one, (pst_pipeline_options){.workers = 2});
    if (!p)
        return s;
    CHECK_MSG(run_on(p, &t, epochs, 99, &e) >= 0, "%s", e.message);
    CHECK_STATUS(pst_pipeline_stats(p, &s, &e), PST_OK, &e);
    pst_pipeline_destroy(p);
    return s;
}

static void test_statistics(void)
{
    static const struct {
        const char *source;
        uint64_t stored, stale; /* of 12 */
    } want[] = {{"plain", 0, 0}, {"indexed", 12, 0}, {"stale", 0, 12}, {"spoilt", 0, 12}};
    char text[256];
    for (size_t i = 0; i < 4; i++) {
        chain_text(text, sizeof(text), want[i].source, chains[0]);
        pst_stats s = run_stats(text, 3);
        CHECK_INT(s.entropy_stored, want[i].stored);
        CHECK_INT(s.entropy_stale, want[i].stale);
        CHECK_INT(s.entropy_made, i == 0 ? 12 : 0); /* what has a section is not made again */
        CHECK(s.ram_used <= s.ram_planned);
    }
    CHECK_INT(run_stats("tfrecord plain | batch 3", 2).entropy_made, 0);
}

/* Elements of a cache, of files, of a repeated epoch. */
static void test_other_sources(void)
{
    char path[64];
    mkdir("files", 0755);
    mkdir("files/a", 0755);
    for (uint32_t i = 0; i < 5; i++) {
        pst_bytes image = photo(i);
        snprintf(path, sizeof(path), "files/a/%u.jpg", i);
        test_write_file(path, image.data, image.length);
        photo_free(image);
    }
    CHECK_INT(run_stats("folder files | decode | random_resized_crop 40 | batch 2", 3).entropy_made, 5);
    CHECK_INT(run_stats("folder files | shuffle | repeat 3 | decode | random_resized_crop 40 | batch 2", 1).entropy_made, 5);
    CHECK_INT(run_stats("folder files | cache | decode | random_resized_crop 40 | batch 2", 3).entropy_made, 5);
    CHECK_INT(run_stats("tfrecord indexed | example \"image:bytes\" | cache | decode | random_resized_crop 40 | batch 2", 2)
                  .entropy_stored,
              12);
    static const struct chain_case cases[] = {
        {"files", .text = "folder files | shuffle | decode | random_resized_crop 40 | batch 2"},
        {"repeat", .text = "folder files | shuffle | repeat 2 | decode quality=exact | random_resized_crop 40 | batch 2"},
        {"cache",
         .text = "tfrecord plain | shuffle | example \"image:bytes\" | cache | decode | random_resized_crop 40 | batch 3"},
        {.name = NULL}};
    harness_workers(cases);
}

static void test_faults(void)
{
    static const struct chain_case cases[] = {
        {"indexed", .text = "tfrecord indexed | take 4 | example \"image:bytes\" | decode | random_resized_crop 24 | batch 2"},
        {"made", .text = "tfrecord plain | take 4 | example \"image:bytes\" | decode | random_resized_crop 24 | batch 2"},
        {.name = NULL}};
    harness_faults(cases, FAULT_MEMORY);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"shards", make_shards}, /* for those below */
                                        {"pixels", test_pixels},
                                        {"statistics", test_statistics},
                                        {"other_sources", test_other_sources},
                                        {"faults", test_faults},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
