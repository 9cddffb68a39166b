/* test_setups.c: set-ups whose flaw is known: the verdict names it, and the first remedy removes it. The planted costs are an order of magnitude
 * above the others, so that a busy machine does not change the answer. */
#include "base/fault.h"
#include "base/memory.h"
#include "doctor/setups.h"
#include "harness.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct wanted {
    const char *cause, *also; /* `also`: a second flaw of the set-up, which may be named instead; NULL: none */
    const char *first[3]; /* any of these is right */
};

/* Whether the answer is the wanted one; `last`: if not, that is a failure. */
static bool is_answered(const char *text, const pst_doctor_options *o, const struct wanted *w, bool last)
{
    pst_doctor *d = NULL;
    pst_error error = {0};
    pst_verdict v = {.size = sizeof(v)};
    pst_remedy r = {.size = sizeof(r), .id = "none", .available = true};
    pst_status st = pst_doctor_run(&d, text, o, &error);
    CHECK_MSG(st == PST_OK, "%s: %s", text, error.message);
    if (st < 0)
        return true; /* a failure is not repeated */
    pst_doctor_verdict(d, &v);
    bool known = pst_doctor_remedy_at(d, 0, &r), right = !w->first[0], caused = strcmp(v.cause, w->cause) == 0 || (w->also && strcmp(v.cause, w->also) == 0);
    for (size_t i = 0; i < 3 && w->first[i]; i++)
        right |= known && strcmp(r.id, w->first[i]) == 0;
    bool answered = caused && right;
    if (answered || last) {
        CHECK_MSG(caused, "%s: the cause is %s, expected %s\n%s", text, v.cause, w->cause, pst_doctor_answer(d));
        CHECK_MSG(right, "%s: the first remedy is %s, expected %s\n%s", text, r.id, w->first[0], pst_doctor_answer(d));
        CHECK_MSG(!w->first[0] || !known || !isfinite(r.predicted) || r.gain >= 1, "the remedy brings %g", r.gain);
    }
    if (!answered && !last)
        printf("# %s: %s and %s, expected %s and %s: examined again, for longer\n", text, v.cause, r.id, w->cause, w->first[0] ? w->first[0] : "any");
    pst_doctor_destroy(d);
    return answered;
}

/* Seconds of an examination. Other programs may take the processor in the middle of one: a wrong answer repeats itself, also in longer ones. */
static const double lengths[] = {2, 5, 12, 30};
#define EXAMINATIONS (sizeof(lengths) / sizeof(lengths[0]))

/* PENSTOCK_PATIENCE makes them longer from the beginning. */
static double seconds_of(size_t i)
{
    const char *patience = getenv("PENSTOCK_PATIENCE");
    return lengths[i] * (patience ? atof(patience) : 1);
}

static bool storage_is_known(const char *pipeline)
{
    pst_doctor *d = NULL;
    pst_error error = {0};
    pst_doctor_options o = {.size = sizeof(o), .seconds = 0.5, .temp_dir = test_folder(), .cache_dir = test_folder()};
    CHECK_STATUS(pst_doctor_run(&d, pipeline, &o, &error), PST_OK, &error);
    bool known = d && strstr(pst_doctor_json(d), "\"storage_cold_known\": true");
    pst_doctor_destroy(d);
    return known;
}

static void examine(const char *text, pst_doctor_options o, struct wanted w)
{
    uint64_t live = mem_live();
    bool answered = false;
    o.size = sizeof(o);
    o.customs = &setup_customs;
    o.temp_dir = o.cache_dir = test_folder();
    for (size_t i = 0; i < EXAMINATIONS && !answered; i++) {
        o.seconds = seconds_of(i);
        answered = is_answered(text, &o, &w, i + 1 == EXAMINATIONS);
    }
    CHECK_INT(mem_live(), live);
}

static char text[1500];
#define TEXT(...) (snprintf(text, sizeof(text), __VA_ARGS__), text)

static void test_small_files(void)
{
    setup_images(test_path("tiny"), 600, 8, true);
    examine(TEXT("folder %s | shuffle | decode | batch 64", test_path("tiny")), (pst_doctor_options){0},
            (struct wanted){"many-small-files", .first = {"pack"}});
}

static void test_large_images(void)
{
    setup_images(test_path("large"), 10, 800, false);
    examine(TEXT("folder %s | shuffle | decode | resize 64 | batch 8", test_path("large")), (pst_doctor_options){0},
            (struct wanted){"large-images", .first = {"resize-offline"}});
}

static void test_large_images_in_shards(void)
{
    setup_shard(test_path("large.tfrecord"), 24, 700, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | random_resized_crop 32 | batch 8", test_path("large.tfrecord")),
            (pst_doctor_options){0}, (struct wanted){"large-images", .first = {"resize-offline"}});
}

static void test_compressed_stream(void)
{
    setup_floats(test_path("floats.tfrecord.gz"), 1500, 2000, PST_COMPRESSION_GZIP);
    examine(TEXT("tfrecord %s | example | batch 64", test_path("floats.tfrecord.gz")), (pst_doctor_options){0},
            (struct wanted){"compressed-stream", .first = {"reshard"}});
}

static void test_one_worker(void)
{
    pst_pipeline_options p = {.size = sizeof(p), .workers = 1};
    setup_shard(test_path("shard.tfrecord"), 200, 64, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | batch 32", test_path("shard.tfrecord")), (pst_doctor_options){.pipeline = &p},
            (struct wanted){"single-worker", .first = {"more-workers"}});
}

static void test_tiny_batches(void)
{
    setup_floats(test_path("small.tfrecord"), 3000, 8, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | batch 1", test_path("small.tfrecord")), (pst_doctor_options){0},
            (struct wanted){"tiny-batch", .first = {"larger-batch"}});
}

/* Two batches fit: while one worker decodes the large image of a batch, the other has nothing to do. */
static void test_little_memory(void)
{
    pst_pipeline_options p = {.size = sizeof(p), .ram = 3500000};
    setup_lumps(test_path("ram.tfrecord"), 64, 16, 500);
    examine(TEXT("tfrecord %s | example image:bytes | decode | random_crop 16 | batch 8", test_path("ram.tfrecord")),
            (pst_doctor_options){.pipeline = &p}, (struct wanted){"ram-limit", .first = {"prefetch"}});
}

/* The same with one batch ahead, as the user asks. */
static void test_no_prefetch(void)
{
    pst_pipeline_options p = {.size = sizeof(p), .prefetch = 1};
    setup_lumps(test_path("ahead.tfrecord"), 64, 16, 500);
    examine(TEXT("tfrecord %s | example image:bytes | decode | random_crop 16 | batch 8", test_path("ahead.tfrecord")),
            (pst_doctor_options){.pipeline = &p}, (struct wanted){"no-prefetch", .first = {"prefetch"}});
}

/* Small records that memory delivers at once, and a data set that is a hundred thousand times as large as it. */
static void test_page_cache(void)
{
    setup_floats(test_path("pages.tfrecord"), 4000, 64, PST_COMPRESSION_NONE);
    sync();
    TEXT("tfrecord %s | shuffle | batch 64", test_path("pages.tfrecord"));
    if (!storage_is_known(text)) {
        printf("# %s: its storage cannot be measured\n", test_folder());
        return;
    }
    examine(text, (pst_doctor_options){.memory = 1 << 20, .samples = 1000000000}, (struct wanted){"page-cache", .first = {"faster-storage", "cache-disk"}});
}

/* The cache of the user holds a tenth of the samples. */
static void test_small_cache(void)
{
    setup_shard(test_path("cached.tfrecord"), 200, 200, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | example | decode | resize 32 | cache 60000 | shuffle | batch 16", test_path("cached.tfrecord")),
            (pst_doctor_options){0}, (struct wanted){"ram-limit", .first = {"cache-ram"}});
}

static void test_early_floats(void)
{
    setup_shard(test_path("early.tfrecord"), 60, 240, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | normalize 0..1 | resize 200 | batch 16", test_path("early.tfrecord")), (pst_doctor_options){0},
            (struct wanted){"early-floats", .first = {"reorder"}});
}

static void test_large_pngs(void)
{
    setup_images(test_path("png"), 12, 500, true);
    examine(TEXT("folder %s | shuffle | decode | resize 32 | flip | batch 8", test_path("png")), (pst_doctor_options){0},
            (struct wanted){"large-images", .first = {"resize-offline"}});
}

/* A stream is shuffled after decode: the buffer holds pixels. */
static void test_shuffle_after_decode(void)
{
    setup_shard(test_path("stream.tfrecord.gz"), 300, 200, 0, PST_COMPRESSION_GZIP);
    examine(TEXT("tfrecord %s | example | decode | resize 320 | shuffle 250 | batch 16", test_path("stream.tfrecord.gz")), (pst_doctor_options){0},
            (struct wanted){"shuffle-after-decode", "compressed-stream", .first = {"reorder", "reshard"}});
}

/* Nine of ten samples are copies, which are left out after both branches have decoded them. */
static void test_late_choice(void)
{
    char both[2][300];
    for (int i = 0; i < 2; i++) {
        snprintf(both[i], sizeof(both[i]), "%s", test_path(i ? "copies-b.tfrecord" : "copies-a.tfrecord"));
        setup_copies(both[i], 200, 160, 20);
    }
    examine(TEXT("concatenate (tfrecord %s | example | decode | resize 64) (tfrecord %s | example | decode | resize 64) | unique label | batch 4", both[0],
                 both[1]), (pst_doctor_options){0}, (struct wanted){"late-filter", .first = {"reorder"}});
}

/* Whether smaller models bring something, predicted and measured, and machines are counted; `last`: if not, that is a failure. */
static bool are_tried(const pst_doctor *d, bool last)
{
    pst_remedy r = {.size = sizeof(r)};
    unsigned right = 0;
    for (size_t i = 0; pst_doctor_remedy_at(d, i, &r); i++) {
        bool compress = strcmp(r.id, "compress") == 0, student = strcmp(r.id, "smaller-model") == 0;
        right += (compress || student) && r.available && r.gain > 1 && r.gain < 20 && r.measured > 0;
        right += strcmp(r.id, "more-machines") == 0 && r.gain > 10 && strstr(r.title, "100,000 samples/s") != NULL;
    }
    right += strstr(pst_doctor_json(d), "\"int8_samples_per_s\"") != NULL;
    if (last)
        CHECK_MSG(right == 4, "%u of 4 are right\n%s", right, pst_doctor_answer(d));
    return right == 4;
}

/* A model that computes far more than its data costs. */
static void test_smaller_models(void)
{
    pst_doctor_options o = {.size = sizeof(o), .verify = true, .temp_dir = test_folder(), .cache_dir = test_folder(), .wish_rate = 1e5, .link_rate = 1e9,
                            .model = "conv 48 3 relu | conv 48 3 relu | conv 48 3 relu | globalavgpool | dense 2"};
    uint64_t live = mem_live();
    bool tried = false;
    setup_shard(test_path("shrink.tfrecord"), 60, 24, 0, PST_COMPRESSION_NONE);
    TEXT("tfrecord %s | shuffle | example | decode | resize 24 | normalize 0..1 | batch 8", test_path("shrink.tfrecord"));
    for (size_t i = 0; i < EXAMINATIONS && !tried; i++) {
        pst_doctor *d = NULL;
        pst_error error = {0};
        o.seconds = seconds_of(i);
        REQUIRE_OK(pst_doctor_run(&d, text, &o, &error), &error);
        tried = are_tried(d, i + 1 == EXAMINATIONS);
        pst_doctor_destroy(d);
    }
    CHECK_INT(mem_live(), live);
}

/* Reads all elements once: seconds, or CPU seconds of the process, for each of them. */
static double seconds_each(const char *pipeline, bool cpu)
{
    pst_pipeline *p = NULL;
    pst_error error = {0};
    struct timespec begin, end;
    uint64_t count = 0;
    pst_status st = pst_pipeline_parse(&p, pipeline, NULL, &error);
    clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &begin);
    while (st == PST_OK) {
        pst_batch *b = NULL;
        st = pst_pipeline_next(p, &b, &error);
        count += st == PST_OK ? pst_batch_size(b) : 0;
        pst_batch_unref(b);
    }
    clock_gettime(cpu ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &end);
    pst_pipeline_destroy(p);
    CHECK_STATUS(st, PST_END, &error);
    return ((double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec)) / (double)(count ? count : 1);
}

/* A compressed stream that is not the limit, but all of it is read before the first batch of each epoch. */
static void test_shuffle_buffer(void)
{
    static const unsigned sides[] = {32, 48, 64, 80, 96, 128, 160, 192, 256};
    double cores = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cores = CPU_COUNT(&set);
    setup_shard(test_path("buffer.tfrecord.gz"), 1500, 48, 2000, PST_COMPRESSION_GZIP);
    TEXT("tfrecord %s | batch 64", test_path("buffer.tfrecord.gz"));
    double read = seconds_each(text, true);
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) { /* enough other work that reading is not the limit, and yet a good part of it */
        TEXT("tfrecord %s | shuffle 2000 | example image:bytes | decode | resize %u | batch 64", test_path("buffer.tfrecord.gz"), sides[i]);
        if (seconds_each(text, true) > 2.2 * cores * read)
            break;
    }
    examine(text, (pst_doctor_options){0}, (struct wanted){"shuffle-buffer", .first = {"reshard"}});
}

/* An array of rows, as NumPy stores it. */
static void write_array(const char *path, const char *kind, bool columns, const char *shape, size_t bytes)
{
    uint8_t *data = calloc(1, 128 + bytes);
    CHECK(data != NULL);
    memset(data, ' ', 128);
    memcpy(data, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf((char *)data + 10, 118, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }", kind, columns ? "True" : "False", shape);
    data[10 + n] = ' ';
    data[127] = '\n';
    test_write_file(path, data, 128 + bytes);
    free(data);
}

/* Batches of 48 MiB: each value goes to memory and comes back. */
static void test_large_batch(void)
{
    write_array(test_path("image.npy"), "|u1", false, "2048, 64, 64, 3", (size_t)2048 * 64 * 64 * 3);
    examine(TEXT("npy %s | shuffle | normalize 0..1 | batch 1024", test_path("image.npy")), (pst_doctor_options){0},
            (struct wanted){"large-batch", .first = {"smaller-batch"}});
}

/* An array whose columns lie together: each row is gathered value by value. */
static void test_columns_apart(void)
{
    write_array(test_path("columns.npy"), "<f4", true, "4000, 1500", sizeof(float) * 4000 * 1500);
    examine(TEXT("npy %s | shuffle | batch 32", test_path("columns.npy")), (pst_doctor_options){0}, (struct wanted){"slow-format", .first = {"pack"}});
}

/* A compressed table: one thread unpacks it. */
static void test_compressed_table(void)
{
    FILE *f = fopen(test_path("table.csv"), "we");
    CHECK(f != NULL);
    for (unsigned i = 0, seed = 1; i < 12000; i++)
        for (unsigned k = 0; k < 40; k++)
            fprintf(f, "%u%c", (seed = seed * 1664525u + 1013904223u) >> 8, k < 39 ? ',' : '\n');
    fclose(f);
    TEXT("gzip -1 -f %s", test_path("table.csv"));
    CHECK(system(text) == 0);
    examine(TEXT("csv %s header=false | shuffle 1000 | batch 64", test_path("table.csv.gz")), (pst_doctor_options){0},
            (struct wanted){"compressed-stream", .first = {"pack"}});
}

static void test_slow_consumer(void)
{
    examine("range 100000 | batch 64", (pst_doctor_options){.step_ms = 50}, (struct wanted){"consumer", .first = {"faster-step"}});
}

static void test_heavy_operation(void)
{
    setup_shard(test_path("heavy.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | burn 1500 | batch 32", test_path("heavy.tfrecord")), (pst_doctor_options){0},
            (struct wanted){"heavy-augmentation", .first = {"cache-ram"}});
}

/* Whether storing results is the answer, and the pipeline that --apply writes still computes the operation; `last`: if not, that is a failure. */
static bool is_stored(pst_doctor *d, const char *end, bool last)
{
    pst_error error = {0};
    pst_verdict v = {.size = sizeof(v)};
    pst_remedy r = {.size = sizeof(r), .id = "none"};
    pst_doctor_verdict(d, &v);
    bool known = pst_doctor_remedy_at(d, 0, &r), right = known && strcmp(v.cause, "heavy-augmentation") == 0 && strcmp(r.id, "offline-augment") == 0 && r.gain > 1.5;
    if (!right && last)
        CHECK_MSG(false, "%s and %s\n%s", v.cause, r.id, pst_doctor_answer(d));
    if (right) {
        size_t length;
        const char *path = test_path("applied.pst");
        CHECK_STATUS(pst_doctor_apply(d, r.id, path, NULL, NULL, &error), PST_OK, &error);
        char *written = (char *)test_read_file(path, &length);
        CHECK_MSG(length > strlen(end) && memcmp(written + length - strlen(end), end, strlen(end)) == 0, "written: %.*s", (int)length, written);
        free(written);
        CHECK(strstr(pst_doctor_json(d), "4 times per sample") && !strstr(pst_doctor_json(d), "--augment"));
    }
    return right;
}

/* A cache would repeat its first results. */
static void test_heavy_random_operation(void)
{
    pst_doctor_options o = {.size = sizeof(o), .customs = &setup_customs, .temp_dir = test_folder(), .cache_dir = test_folder()};
    uint64_t live = mem_live();
    bool stored = false;
    setup_shard(test_path("noise.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    TEXT("tfrecord %s | shuffle seed=3 | example | decode | resize 24 | noise 1500 | batch 32", test_path("noise.tfrecord"));
    for (size_t i = 0; i < EXAMINATIONS && !stored; i++) {
        pst_doctor *d = NULL;
        pst_error error = {0};
        o.seconds = seconds_of(i);
        REQUIRE_OK(pst_doctor_run(&d, text, &o, &error), &error);
        stored = is_stored(d, "noise.tfrecord | example | decode | resize 24 | repeat 4 | noise 1500 | snapshot noise-augmented | shuffle seed=3 | batch 32\n",
                           i + 1 == EXAMINATIONS);
        pst_doctor_destroy(d);
    }
    CHECK_INT(mem_live(), live);
}

static void test_parallel_function(void)
{
    setup_shard(test_path("cv2.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | cv2 1500 | batch 32", test_path("cv2.tfrecord")), (pst_doctor_options){0},
            (struct wanted){"heavy-augmentation", .first = {"cache-ram"}});
}

static void test_python_function(void)
{
    setup_shard(test_path("python.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | python 1500 | batch 32", test_path("python.tfrecord")),
            (pst_doctor_options){0}, (struct wanted){"python-function", .first = {"native-op", "processes"}});
}

static void test_sleeping_function(void)
{
    setup_shard(test_path("sleepy.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | sleepy 4000 | batch 32", test_path("sleepy.tfrecord")),
            (pst_doctor_options){0}, (struct wanted){"python-function", .first = {"native-op", "processes"}});
}

static void test_lock(void)
{
    setup_shard(test_path("locked.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    pst_pipeline_options p = {.size = sizeof(p), .workers = 4};
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | locked 1500 | batch 32", test_path("locked.tfrecord")),
            (pst_doctor_options){.pipeline = &p}, (struct wanted){"lock-contention", .first = {"processes"}});
}

static void test_slow_source(void)
{
    examine("source 3000 | batch 16", (pst_doctor_options){0}, (struct wanted){"slow-storage", .first = {"faster-storage", "cache-ram"}});
}

static void test_unused_fields(void)
{
    setup_shard(test_path("extra.tfrecord"), 60, 16, 400000, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example \"image:bytes label:int64 extra:bytes\" | decode | resize 16 | batch 16", test_path("extra.tfrecord")),
            (pst_doctor_options){0}, (struct wanted){"unused-fields", .first = {"select-fields"}});
}

static void test_heavy_model(void)
{
    setup_shard(test_path("model.tfrecord"), 100, 24, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | normalize 0..1 | batch 8", test_path("model.tfrecord")),
            (pst_doctor_options){.model = "conv 64 3 relu | conv 64 3 relu | conv 64 3 relu | flatten | dense 2"},
            (struct wanted){"heavy-model", .first = {"separable-convolutions", "faster-step", "smaller-model"}});
}

static void test_healthy(void)
{
    setup_shard(test_path("good.tfrecord"), 300, 64, 0, PST_COMPRESSION_NONE);
    examine(TEXT("tfrecord %s | shuffle | example | decode | resize 64 | flip | normalize 0..1 | batch 64", test_path("good.tfrecord")),
            (pst_doctor_options){0}, (struct wanted){"none", .first = {NULL}});
}

static int stop_after_fault(void *user, const pst_progress *progress)
{
    (void)progress;
    return test_fault_calls() > *(const uint64_t *)user;
}

/* A failed allocation is PST_ENOMEM, or the remedy that needed it is left out; nothing is leaked. Few of the many places are tried: each takes a
 * whole examination, but for the first ones, where it is stopped soon after the failure. */
static void test_faults(void)
{
    static const uint64_t places[] = {0, 5, 20, 40, 80, 130, 200, 300, 700};
    setup_images(test_path("faults"), 12, 40, false);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        pst_doctor *d = NULL;
        pst_error error = {0};
        bool whole = places[i] >= 300;
        pst_doctor_options o = {.size = sizeof(o), .seconds = 1, .temp_dir = test_folder(), .cache_dir = test_folder(),
                                .progress = whole ? NULL : stop_after_fault, .user = (void *)(uintptr_t)&places[i]};
        uint64_t live = mem_live();
        test_fault_arm(FAULT_MEMORY, places[i], false);
        pst_status st = pst_doctor_run(&d, TEXT("folder %s | shuffle | decode | resize 16 | batch 8", test_path("faults")), &o, &error);
        test_fault_clear();
        CHECK_MSG(st == PST_OK || st == PST_ENOMEM || (st == PST_ECANCELLED && !whole), "allocation %llu: %s: %s", (unsigned long long)places[i], pst_status_name(st), error.message);
        pst_doctor_destroy(d);
        CHECK_INT(mem_live(), live);
    }
}

static void test_seconds_out_of_range(void)
{
    static const double wrong[] = {-1, 0.4, 1e-300, 1.1e5, 1e300, INFINITY, NAN};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pst_doctor *d = NULL;
        pst_error error = {0};
        pst_doctor_options o = {.size = sizeof(o), .seconds = wrong[i], .temp_dir = test_folder()};
        CHECK_STATUS(pst_doctor_run(&d, "range 10 | batch 2", &o, &error), PST_EINVAL, &error);
    }
}

/* What a very short examination found out about the machine is not kept for later ones. */
static void test_short_ones_keep_nothing(void)
{
    pst_doctor *d = NULL;
    pst_error error = {0};
    CHECK(mkdir(test_path("kept"), 0700) == 0);
    pst_doctor_options o = {.size = sizeof(o), .seconds = 0.5, .temp_dir = test_folder(), .cache_dir = test_path("kept")};
    REQUIRE_OK(pst_doctor_run(&d, "range 1000 | batch 20", &o, &error), &error);
    pst_doctor_destroy(d);
    CHECK(access(test_path("kept/doctor-limits.json"), F_OK) < 0);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"thousands of tiny files", test_small_files},
                                        {"photos ten times larger than needed", test_large_images},
                                        {"large images in shards", test_large_images_in_shards},
                                        {"one gzip TFRecord", test_compressed_stream},
                                        {"one worker", test_one_worker},
                                        {"tiny batches of small records", test_tiny_batches},
                                        {"a RAM budget that starves the ring", test_little_memory},
                                        {"one batch ahead", test_no_prefetch},
                                        {"data that do not fit into memory", test_page_cache},
                                        {"a cache that is too small", test_small_cache},
                                        {"floats before resizing", test_early_floats},
                                        {"PNGs far too large", test_large_pngs},
                                        {"shuffle buffer after decode", test_shuffle_after_decode},
                                        {"a stream that fills a shuffle buffer first", test_shuffle_buffer},
                                        {"batches too large for the cache", test_large_batch},
                                        {"an array with its columns apart", test_columns_apart},
                                        {"a compressed table", test_compressed_table},
                                        {"a slow consumer", test_slow_consumer},
                                        {"a heavy operation in C", test_heavy_operation},
                                        {"a heavy random operation in C", test_heavy_random_operation},
                                        {"a heavy function that computes in parallel", test_parallel_function},
                                        {"a Python function that holds the lock", test_python_function},
                                        {"a Python function that sleeps", test_sleeping_function},
                                        {"workers that wait for a lock", test_lock},
                                        {"a slow source", test_slow_source},
                                        {"fields that are not used", test_unused_fields},
                                        {"a heavy model", test_heavy_model},
                                        {"smaller models and more machines", test_smaller_models},
                                        {"a tree that decodes what it leaves out", test_late_choice},
                                        {"a healthy set-up", test_healthy},
                                        {"allocations may fail", test_faults},
                                        {"seconds out of range", test_seconds_out_of_range},
                                        {"short examinations keep nothing", test_short_ones_keep_nothing},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
