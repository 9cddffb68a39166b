/* test_measures.c: what an examination measures agrees with itself: storage in short examinations and where it cannot be measured, waits and rates,
 * ranges and values, images and checksums, sweeps. */
#include "base/json_read.h"
#include "base/memory.h"
#include "doctor/setups.h"
#include "harness.h"
#include "io/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define TMPFS 0x01021994

struct answer {
    pst_doctor *doctor;
    struct json_document json;
};

static char text[1500];
#define TEXT(...) (snprintf(text, sizeof(text), __VA_ARGS__), text)

static struct answer examine(const char *pipeline, pst_doctor_options o)
{
    struct answer a = {0};
    pst_error error = {0};
    o.size = sizeof(o);
    o.customs = &setup_customs;
    o.temp_dir = o.cache_dir = test_folder();
    o.seconds = o.seconds > 0 ? o.seconds : 1;
    CHECK_STATUS(pst_doctor_run(&a.doctor, pipeline, &o, &error), PST_OK, &error);
    if (!a.doctor || json_parse(&a.json, pst_doctor_json(a.doctor), strlen(pst_doctor_json(a.doctor)), &error) < 0)
        abort();
    return a;
}

static void finish(struct answer *a)
{
    json_finish(&a->json);
    pst_doctor_destroy(a->doctor);
}

static size_t member(const struct answer *a, const char *object, const char *name)
{
    return json_find(&a->json, json_find(&a->json, 0, object), name);
}

/* NaN: null, or absent. */
static double number(const struct answer *a, const char *object, const char *name)
{
    double v;
    return json_get_number(&a->json, member(a, object, name), &v) ? v : NAN;
}

static bool truth(const struct answer *a, const char *object, const char *name)
{
    bool v = false;
    CHECK(json_get_bool(&a->json, member(a, object, name), &v));
    return v;
}

/* ---- Storage ---- */

static int open_fresh(const char *path, size_t length)
{
    void *zeros = calloc(1, length);
    test_write_file(path, zeros, length);
    free(zeros);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && fsync(fd) == 0);
    return fd;
}

static bool has_memory_folder(void)
{
    struct statfs s;
    return statfs("/dev/shm", &s) == 0 && s.f_type == TMPFS && access("/dev/shm", W_OK) == 0;
}

static void test_dropping(void)
{
    char path[64];
    int fd = open_fresh(test_path("drop"), 100000);
    bool here = file_is_in_memory(fd);
    CHECK_INT(file_drop(fd, 5000, 20000), !here);
    close(fd);
    CHECK(!file_drop(-1, 0, 10));
    CHECK(!file_is_in_memory(-1));
    if (!has_memory_folder())
        return;
    snprintf(path, sizeof(path), "/dev/shm/penstock-test-%ld", (long)getpid());
    fd = open_fresh(path, 100000);
    CHECK(file_is_in_memory(fd) && !file_drop(fd, 0, 4096));
    close(fd);
    unlink(path);
}

static bool keeps_in_memory(const char *path)
{
    int fd = open(path, O_RDONLY);
    bool memory = file_is_in_memory(fd);
    close(fd);
    return memory;
}

/* However short: the rate of storage is known, and storage is not faster than the page cache. */
static void test_cold_reads(void)
{
    setup_shard(test_path("cold.tfrecord"), 200, 64, 20000, PST_COMPRESSION_NONE);
    sync();
    struct answer a = examine(TEXT("tfrecord %s | shuffle | batch 8", test_path("cold.tfrecord")),
                              (pst_doctor_options){.memory = 1 << 20, .samples = 1000000, .seconds = 0.5});
    double random = number(&a, "limits", "storage_random_cold_bytes_per_s"), files = number(&a, "limits", "storage_sequential_cold_bytes_per_s");
    bool known = truth(&a, "limits", "storage_cold_known");
    CHECK(known || keeps_in_memory(test_path("cold.tfrecord")));
    CHECK_INT(known, random > 0 && files > 0);
    CHECK_INT(truth(&a, "now", "upper_bound"), !known);
    if (known) {
        double rate = number(&a, "now", "pipeline_samples_per_s"), deep = number(&a, "limits", "storage_random_cold_deep_bytes_per_s");
        CHECK(random <= number(&a, "limits", "storage_random_warm_bytes_per_s") && files <= number(&a, "limits", "storage_sequential_warm_bytes_per_s"));
        CHECK_MSG(rate * number(&a, "data", "bytes_per_sample") <= 1.01 * fmax(random, deep), "%g samples/s", rate);
    }
    finish(&a);
}

/* Files that are in memory say nothing about the storage of the real data. */
static void test_unknown_storage(void)
{
    char path[64];
    pst_verdict v = {.size = sizeof(v)};
    if (!has_memory_folder())
        return;
    snprintf(path, sizeof(path), "/dev/shm/penstock-test-%ld.tfrecord", (long)getpid());
    setup_shard(path, 64, 32, 20000, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("tfrecord %s | shuffle | batch 8", path), (pst_doctor_options){.memory = 1 << 20, .samples = 1000000});
    pst_doctor_verdict(a.doctor, &v);
    CHECK(!truth(&a, "limits", "storage_cold_known") && truth(&a, "now", "upper_bound"));
    CHECK(isnan(number(&a, "limits", "storage_random_cold_bytes_per_s")) && number(&a, "limits", "storage_random_warm_bytes_per_s") > 0);
    CHECK_MSG(strcmp(v.cause, "page-cache") != 0 && strstr(v.sentence, "is not known") && !strstr(v.sentence, "nothing is wrong"), "%s: %s", v.cause, v.sentence);
    CHECK(strstr(pst_doctor_answer(a.doctor), "could not be read past the page cache"));
    finish(&a);
    a = examine(text, (pst_doctor_options){0}); /* it fits: memory is all that is asked for */
    CHECK(!truth(&a, "now", "upper_bound"));
    finish(&a);
    unlink(path);
    unlink(strcat(path, ".pidx"));
}

/* ---- Waits and ranges ---- */

/* A batch takes as long as the consumer waits and computes. */
static void test_waits(void)
{
    struct answer a = examine("source 900 | batch 64", (pst_doctor_options){.step_ms = 1});
    double rate = number(&a, "now", "samples_per_s"), wait = number(&a, "step", "wait_ms"), compute = number(&a, "step", "compute_ms"),
           share = number(&a, "verdict", "wait_share"), ms = 64e3 / rate;
    CHECK_MSG(fabs(wait + compute - ms) < 1e-6 * ms, "%g and %g ms, %g per batch", wait, compute, ms);
    CHECK_MSG(fabs(wait / ms - share) < 1e-6, "%g of %g ms, share %g", wait, ms, share);
    CHECK_MSG(share > 0.8, "the source takes 57 ms per batch, the step one: it waits %g of the time", share);
    char *cache = json_get_string(&a.json, member(&a, "data", "cache")); /* nobody knows how much the source has */
    CHECK_MSG(isnan(number(&a, "data", "bytes")) && cache && strstr(cache, "is not known"), "%s", cache ? cache : "nothing");
    mem_free(cache);
    finish(&a);
}

static void test_ranges(void)
{
    setup_shard(test_path("ranges.tfrecord"), 100, 32, 0, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("tfrecord %s | shuffle | example | decode | resize 24 | flip | batch 16", test_path("ranges.tfrecord")), (pst_doctor_options){0});
    size_t list = json_find(&a.json, 0, "stages"), item = list + 1, seen = 0;
    for (size_t i = 0; i < a.json.items[list].count; i++, item = a.json.items[item].next) {
        double low, high, us;
        if (!json_get_number(&a.json, json_find(&a.json, item, "low"), &low) || !json_get_number(&a.json, json_find(&a.json, item, "high"), &high) ||
            !json_get_number(&a.json, json_find(&a.json, item, "us_per_sample"), &us))
            continue;
        CHECK_MSG(low <= us && us <= high, "%g is outside of %g to %g", us, low, high);
        seen++;
    }
    CHECK(seen >= 4);
    finish(&a);
}

/* A prediction and its range are rates of pipeline and step together. */
static void test_ranges_of_predictions(void)
{
    setup_shard(test_path("predicted.tfrecord"), 100, 200, 0, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("tfrecord %s | shuffle | example | decode | resize 16 | batch 8", test_path("predicted.tfrecord")),
                              (pst_doctor_options){.step_rate = 50, .seconds = 2});
    size_t list = json_find(&a.json, 0, "remedies"), item = list + 1, seen = 0;
    for (size_t i = 0; i < a.json.items[list].count; i++, item = a.json.items[item].next) {
        size_t predicted = json_find(&a.json, item, "predicted");
        double low, high, rate;
        if (!json_get_number(&a.json, json_find(&a.json, predicted, "low"), &low) || !json_get_number(&a.json, json_find(&a.json, predicted, "high"), &high) ||
            !json_get_number(&a.json, json_find(&a.json, predicted, "samples_per_s"), &rate))
            continue;
        CHECK_MSG(low <= 1.001 * rate && rate <= 1.001 * high && high < 100, "%g samples/s, %g to %g", rate, low, high);
        seen++;
    }
    CHECK(seen >= 1);
    finish(&a);
}

/* ---- Commands ---- */

/* A command with `part`; NULL: there is none. */
static const char *find_command(const struct answer *a, const char *part)
{
    pst_remedy r = {.size = sizeof(r)};
    for (size_t i = 0; pst_doctor_remedy_at(a->doctor, i, &r); i++)
        if (r.command && strstr(r.command, part))
            return r.command;
    return NULL;
}

/* Ranks learn their numbers from what starts them; words of the tool stay; there is no command for operations of a program. */
static void test_commands(void)
{
    static const char *const words[] = {"--plugin", "my ops.so", NULL};
    pst_pipeline_options p = {.size = sizeof(p), .seed = 3, .rank = 1, .world = 2};
    pst_doctor_options o = {.pipeline = &p, .model = "flatten | dense 2", .command_words = words};
    setup_shard(test_path("commands.tfrecord"), 64, 16, 0, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("tfrecord %s | shuffle | example | decode | resize 16 | normalize 0..1 | batch 8", test_path("commands.tfrecord")), o);
    const char *ranks = find_command(&a, "mpirun");
    CHECK_MSG(ranks && strstr(ranks, "--seed 3 --plugin 'my ops.so'") && !strstr(ranks, "--world") && !strstr(ranks, "--rank"), "%s", ranks ? ranks : "none");
    finish(&a);
    a = examine(TEXT("tfrecord %s | shuffle | example | decode | resize 16 | normalize 0..1 | burn 20 | batch 8", test_path("commands.tfrecord")), o);
    CHECK(!find_command(&a, "penstock train") && !find_command(&a, "penstock compress"));
    finish(&a);
}

/* ---- Images and records ---- */

static bool has_stage(const struct answer *a, const char *name)
{
    size_t list = json_find(&a->json, 0, "stages"), item = list + 1;
    bool found = false;
    for (size_t i = 0; i < a->json.items[list].count; i++, item = a->json.items[item].next) {
        char *s = json_get_string(&a->json, json_find(&a->json, item, "name"));
        double us = 0;
        found |= s && strcmp(s, name) == 0 && json_get_number(&a->json, json_find(&a->json, item, "us_per_sample"), &us) && us > 0;
        mem_free(s);
    }
    return found;
}

static void test_images_and_checksums(void)
{
    pst_pipeline_options p = {.size = sizeof(p), .no_verify = true};
    setup_shard(test_path("payload.tfrecord"), 40, 200, 0, PST_COMPRESSION_NONE);
    TEXT("tfrecord %s | shuffle | example | decode | batch 4", test_path("payload.tfrecord"));
    struct answer a = examine(text, (pst_doctor_options){0});
    double rate = number(&a, "limits", "decode_megapixels_per_s"), share = number(&a, "limits", "decode_entropy_share");
    CHECK_MSG(rate > 0.1 && rate < 1e5, "%g megapixels/s", rate);
    CHECK_MSG(share > 0.01 && share <= 1, "the entropy part is %g", share);
    CHECK(has_stage(&a, "checksum"));
    CHECK(strstr(pst_doctor_answer(a.doctor), "checksum"));
    finish(&a);
    a = examine(text, (pst_doctor_options){.pipeline = &p});
    CHECK(!has_stage(&a, "checksum"));
    finish(&a);
    setup_images(test_path("png"), 12, 40, true);
    a = examine(TEXT("folder %s | decode | batch 4", test_path("png")), (pst_doctor_options){0});
    CHECK(number(&a, "limits", "decode_megapixels_per_s") > 0 && isnan(number(&a, "limits", "decode_entropy_share")) && !has_stage(&a, "checksum"));
    finish(&a);
}

/* ---- Data of several kinds, and data that is kept ---- */

/* Files and records in one pipeline: they make no sample together. */
static void test_mixed_sources(void)
{
    char files[500], shards[500];
    snprintf(files, sizeof(files), "%s", test_path("mixed"));
    snprintf(shards, sizeof(shards), "%s", test_path("mixed.tfrecord"));
    setup_images(files, 12, 32, false);
    setup_shard(shards, 24, 32, 0, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("concatenate (folder %s | select image | rename image record) (tfrecord %s) | batch 4", files, shards), (pst_doctor_options){0});
    CHECK_MSG(number(&a, "data", "sampled") > 24, "%g", number(&a, "data", "sampled"));
    finish(&a);
    a = examine(TEXT("concatenate (tfrecord %s) (folder %s | select image | rename image record) | batch 4", shards, files), (pst_doctor_options){0});
    CHECK(number(&a, "now", "samples_per_s") > 0);
    finish(&a);
}

static uint64_t folder_bytes(const char *folder)
{
    uint64_t bytes = 0;
    char path[1200];
    struct dirent *e;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d))) {
        struct stat s;
        snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || lstat(path, &s) < 0)
            continue;
        bytes += S_ISDIR(s.st_mode) ? folder_bytes(path) : (uint64_t)s.st_size;
    }
    if (d)
        closedir(d);
    return bytes;
}

static void fill(const char *pipeline)
{
    pst_pipeline *p = NULL;
    pst_batch *b = NULL;
    pst_error error = {0};
    CHECK_STATUS(pst_pipeline_parse(&p, pipeline, NULL, &error), PST_OK, &error);
    CHECK_STATUS(pst_pipeline_next(p, &b, &error), PST_OK, &error);
    pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

/* An examination tries changes, but keeps nothing more in the folder of a snapshot. */
static void test_snapshot_stays(void)
{
    char shards[500], kept[500];
    snprintf(shards, sizeof(shards), "%s", test_path("kept.tfrecord"));
    snprintf(kept, sizeof(kept), "%s", test_path("kept"));
    setup_shard(shards, 64, 64, 0, PST_COMPRESSION_NONE);
    static const char *const chains[] = {"tfrecord %s | example | decode | resize 32 | normalize 0..1 | snapshot %s | shuffle | batch 16",
                                         "tfrecord %s | snapshot %s | shuffle | example | decode | resize 32 | batch 16"};
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
        snprintf(text, sizeof(text), i ? chains[1] : chains[0], shards, kept);
        fill(text);
        uint64_t before = folder_bytes(kept);
        struct answer a = examine(text, (pst_doctor_options){.verify = true});
        CHECK(before > 0);
        CHECK_INT(folder_bytes(kept), before);
        finish(&a);
    }
}

/* ---- Sweeps ---- */

/* The points of the sweep: the largest and the smallest rate; the number of points with an epoch time. */
static size_t sweep_of(const struct answer *a, double *ret_least, double *ret_most, char **ret_basis)
{
    size_t sweep = json_find(&a->json, 0, "sweeps") + 1, list = json_find(&a->json, sweep, "points"), item = list + 1, epochs = 0;
    *ret_least = INFINITY;
    *ret_most = 0;
    for (size_t i = 0; i < a->json.items[list].count; i++, item = a->json.items[item].next) {
        double rate = NAN, epoch = NAN;
        CHECK(json_get_number(&a->json, json_find(&a->json, item, "samples_per_s"), &rate));
        epochs += json_get_number(&a->json, json_find(&a->json, item, "epoch_seconds"), &epoch) && epoch > 0;
        *ret_least = fmin(*ret_least, rate);
        *ret_most = fmax(*ret_most, rate);
    }
    *ret_basis = json_get_string(&a->json, json_find(&a->json, sweep, "basis"));
    return epochs;
}

/* The time of a step is known for one size only: the sweep of sizes shows the pipeline, far above the rate of that step. */
static void test_sweep_of_batches(void)
{
    double least, most;
    char *basis;
    struct answer a = examine("range 100000 | batch 64", (pst_doctor_options){.step_ms = 20, .sweep = PST_SWEEP_BATCH});
    CHECK_INT(sweep_of(&a, &least, &most, &basis), 7);
    CHECK_MSG(most > 1.2 * least && most > 10 * 3200, "%g to %g samples/s", least, most);
    CHECK_MSG(basis && strstr(basis, "is not known"), "%s", basis);
    CHECK(strstr(pst_doctor_answer(a.doctor), "per epoch  #"));
    CHECK(strstr(pst_doctor_answer(a.doctor), "\nRemedies     by gain for the effort\n"));
    mem_free(basis);
    finish(&a);
    a = examine("range 100000 | batch 64", (pst_doctor_options){.step_rate = 3200, .sweep = PST_SWEEP_BATCH});
    sweep_of(&a, &least, &most, &basis);
    CHECK_MSG(most <= 3200 * 1.001, "%g samples/s", most);
    CHECK_MSG(basis && strstr(basis, "computed"), "%s", basis);
    mem_free(basis);
    finish(&a);
}

/* Sizes that do not fit into the RAM budget have no rate; the others do. */
static void test_sweep_beyond_memory(void)
{
    double least, most;
    char *basis;
    pst_pipeline_options p = {.size = sizeof(p), .ram = (uint64_t)4 << 20};
    setup_shard(test_path("tight.tfrecord"), 64, 96, 0, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("tfrecord %s | example | decode | resize 96 | normalize 0..1 | batch 4", test_path("tight.tfrecord")),
                              (pst_doctor_options){.pipeline = &p, .sweep = PST_SWEEP_BATCH});
    size_t points = sweep_of(&a, &least, &most, &basis);
    CHECK_MSG(points >= 1 && points < 7 && least > 0, "%zu points from %g samples/s on", points, least);
    mem_free(basis);
    finish(&a);
}

/* Storage that limits the rate limits it in a sweep, too. */
static void test_sweep_of_cold_data(void)
{
    double least, most;
    char *basis;
    setup_shard(test_path("frozen.tfrecord"), 200, 64, 20000, PST_COMPRESSION_NONE);
    sync();
    struct answer a = examine(TEXT("tfrecord %s | shuffle | batch 8", test_path("frozen.tfrecord")),
                              (pst_doctor_options){.memory = 1 << 20, .samples = 1000000, .sweep = PST_SWEEP_WORKERS});
    bool known = truth(&a, "limits", "storage_cold_known");
    double rate = number(&a, "limits", "storage_random_cold_deep_bytes_per_s") / number(&a, "data", "bytes_per_sample");
    sweep_of(&a, &least, &most, &basis);
    CHECK_MSG(basis && strstr(basis, known ? "bounded by the storage" : "of data in memory"), "%s", basis);
    if (known) {
        size_t sweep = json_find(&a.json, 0, "sweeps") + 1;
        bool measured = true;
        CHECK(json_get_bool(&a.json, json_find(&a.json, sweep, "measured"), &measured) && !measured);
        CHECK_MSG(most <= 1.01 * fmax(rate, number(&a, "limits", "storage_random_cold_bytes_per_s") / number(&a, "data", "bytes_per_sample")), "%g samples/s", most);
    }
    mem_free(basis);
    finish(&a);
}

/* With a model, the step runs at each size. */
static void test_sweep_of_a_model(void)
{
    double least, most;
    char *basis;
    setup_shard(test_path("sweep.tfrecord"), 600, 16, 0, PST_COMPRESSION_NONE);
    struct answer a = examine(TEXT("tfrecord %s | shuffle | example | decode | resize 16 | normalize 0..1 | batch 8", test_path("sweep.tfrecord")),
                              (pst_doctor_options){.model = "conv 8 3 relu | globalavgpool | dense 2", .sweep = PST_SWEEP_BATCH});
    sweep_of(&a, &least, &most, &basis);
    double step = 8e3 / number(&a, "step", "ms"); /* the rate of the smallest batches; larger ones are computed faster */
    CHECK_MSG(least > 0 && least < 3 * step && most < 100 * step, "%g to %g samples/s; steps of 8 give %g", least, most, step);
    CHECK_MSG(basis && strstr(basis, "steps of the model"), "%s", basis);
    mem_free(basis);
    finish(&a);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"files dropped from the page cache", test_dropping},
                                        {"cold reads in short examinations", test_cold_reads},
                                        {"storage that cannot be measured", test_unknown_storage},
                                        {"waiting and computing make a batch", test_waits},
                                        {"ranges hold their values", test_ranges},
                                        {"ranges of predictions", test_ranges_of_predictions},
                                        {"commands that can run", test_commands},
                                        {"images and checksums", test_images_and_checksums},
                                        {"files and records in one pipeline", test_mixed_sources},
                                        {"a snapshot stays as it is", test_snapshot_stays},
                                        {"a sweep of batches", test_sweep_of_batches},
                                        {"a sweep beyond the RAM budget", test_sweep_beyond_memory},
                                        {"a sweep of cold data", test_sweep_of_cold_data},
                                        {"a sweep with a model", test_sweep_of_a_model},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
