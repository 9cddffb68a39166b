/* cmd_bench.c: `penstock bench`: runs a pipeline as fast as it goes, or as fast as a training step of a given length takes
 * batches, and measures. */
#include "cli/bench.h"
#include "cli/clock.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/live.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/watch.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>

#define DEFAULT_SECONDS 10
#define MOST_HELD       64

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    uint64_t epochs, warmup, hold;
    double seconds, step_ms;
    bool verbose, json, quiet;
    bool epochs_given, seconds_given, warmup_given;
};

/* Limits of a run; 0: no such limit. */
struct limits {
    uint64_t epochs;
    double seconds;
};

static struct limits limits_of(const struct config *c)
{
    struct limits l = {.epochs = c->epochs, .seconds = c->seconds};

    if (!c->epochs_given && !c->seconds_given)
        l = (struct limits){.epochs = 1, .seconds = DEFAULT_SECONDS};
    return l;
}

static struct bench_moment moment(pst_pipeline *pipeline)
{
    struct bench_moment m = {.stats.size = sizeof(m.stats)};

    pst_pipeline_stats(pipeline, &m.stats, NULL); /* the size is right: it cannot fail */
    m.time = now_seconds();
    return m;
}

/* Sleeps: a training step on an accelerator does not use the CPU either. */
static void be_busy(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * fmod(seconds, 1))};

    while (nanosleep(&t, &t) != 0 && errno == EINTR && !interrupt_requested())
        ;
}

/* The batches that the consumer keeps; when it is full, the oldest is released. */
struct shelf {
    pst_batch *batch[MOST_HELD];
    size_t places, next;
};

static void shelve(struct shelf *s, pst_batch *batch)
{
    pst_batch *oldest = batch;

    if (s->places > 0) {
        oldest = s->batch[s->next];
        s->batch[s->next] = batch;
        s->next = (s->next + 1) % s->places;
    }
    pst_batch_unref(oldest);
}

static void clear_shelf(struct shelf *s)
{
    for (size_t i = 0; i < s->places; i++)
        s->batch[i] = pst_batch_unref(s->batch[i]);
}

/* Takes batches until a limit is reached. PST_OK: the result is complete. */
static pst_status consume(const struct config *c, pst_pipeline *pipeline, struct shelf *shelf, struct bench_result *r,
                          double opened, pst_error *error)
{
    struct limits limits = limits_of(c);
    uint64_t batches = 0, at_epoch = 0;

    for (;;) {
        pst_batch *batch = NULL;
        pst_status status = pst_pipeline_next(pipeline, &batch, error);

        if (status < 0 && !(status == PST_ECANCELLED && interrupt_requested()))
            return status;
        if (status < 0 || interrupt_requested()) {
            pst_batch_unref(batch);
            r->end = BENCH_INTERRUPTED;
            return PST_OK;
        }
        if (status == PST_END) {
            r->epochs++;
            if (r->epochs == limits.epochs || batches == at_epoch) /* an empty epoch: no more data */
                return PST_OK;
            at_epoch = batches;
            continue;
        }
        if (batches++ == 0)
            r->first_batch = now_seconds() - opened;
        if (batches == r->warmup)
            r->begin = moment(pipeline);
        if (limits.seconds > 0 && now_seconds() - r->start.time >= limits.seconds) {
            pst_batch_unref(batch);
            r->end = BENCH_SECONDS;
            return PST_OK;
        }
        if (r->step > 0)
            be_busy(r->step);
        shelve(shelf, batch);
    }
}

/* Where nothing follows the warm-up, it is what can be measured. Without being asked for, so too where it took longer than all
 * that followed: the batches that are ready then say nothing about the pipeline's rate. */
static void forget_warmup(const struct config *c, struct bench_result *r)
{
    bool nothing = r->finish.stats.batches <= r->warmup;
    bool little = r->finish.time - r->begin.time < r->begin.time - r->start.time;

    if (nothing || (little && !c->warmup_given)) {
        r->begin = r->start;
        r->warmup = 0;
    }
}

static pst_status measure(const struct config *c, pst_pipeline *pipeline, struct bench_result *r, pst_error *error)
{
    double opened = now_seconds();
    pst_status status = pst_pipeline_start(pipeline, error);
    struct shelf shelf = {.places = (size_t)c->hold};
    struct rusage usage;

    if (status < 0)
        return status;
    r->start = r->begin = moment(pipeline);
    status = consume(c, pipeline, &shelf, r, opened, error);
    r->finish = moment(pipeline);
    forget_warmup(c, r);
    clear_shelf(&shelf);
    r->damage = pst_pipeline_damage(pipeline);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        r->peak_rss = (uint64_t)usage.ru_maxrss * 1024;
    return status;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct bench_result result = {.first_batch = -1, .step = 1e-3 * c->step_ms, .warmup = c->warmup_given ? c->warmup : 1};
    struct watch watch;
    struct live live;
    pst_pipeline *pipeline = NULL;
    pst_error error;
    pst_status status;
    char *text;
    int code = pipeline_open(&pipeline, &command_bench, &c->pipeline, operands, count, c->json);

    if (code != EXIT_DONE)
        return code;
    live_start(&live, pipeline, c->quiet, c->json);
    watch_start(&watch, pipeline, live_look, &live);
    status = measure(c, pipeline, &result, &error);
    watch_stop(&watch);
    live_finish(&live);
    text = pipeline_text(operands, count);
    result.pipeline = text ? text : "";
    if (status < 0)
        code = say_failure(&command_bench, &error, c->json);
    else if (c->json)
        put_bench_json(&result);
    else
        put_bench(&result, c->verbose);
    if (code == EXIT_DONE)
        code = pipeline_save_trace(pipeline, &command_bench, &c->pipeline, c->json);
    if (code == EXIT_DONE && result.end == BENCH_INTERRUPTED)
        code = interrupt_exit_code();
    free(text);
    pst_pipeline_destroy(pipeline);
    return code;
}

static const struct option options[] = {
    {"--epochs", 'e', "N", OPTION_UINT, INTO(struct config, epochs), .given = offsetof(struct config, epochs_given), .min = 1,
     .doc = "stop after N epochs", .absent = "1 epoch, up to 10 seconds; with --seconds, no limit", .group = "What to measure"},
    {"--seconds", 's', "S", OPTION_FLOAT, INTO(struct config, seconds), .given = offsetof(struct config, seconds_given),
     .min = 0.001, .max = 1e9, .doc = "stop after S seconds; repeat the data as often as needed",
     .absent = "10, if --epochs is not given"},
    {"--warmup", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, warmup),
     .given = offsetof(struct config, warmup_given),
     .doc = "batches before the measurement starts; the time to the first batch is reported separately",
     .absent = "1, or 0 if the run is very short"},
    {"--simulate-step", .metavar = "MS", .kind = OPTION_FLOAT, INTO(struct config, step_ms), .min = 0.001, .max = 1e7,
     .doc =
         "simulate training on an accelerator: the consumer is busy for MS milliseconds per batch. The result is rated by the "
         "share of time that the consumer waits for data: below 5% consumer-bound, up to 20% balanced, above 20% input-bound",
     .absent = "the consumer takes batches as fast as possible"},
    {"--hold", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, hold), .max = MOST_HELD,
     .doc = "the consumer keeps its last N batches while it requests the next one; a Python loop keeps 1",
     .absent = "0, each batch is released at once"},
    {"--verbose", 'v', .kind = OPTION_FLAG, INTO(struct config, verbose),
     .doc = "also print the reasons for the number of workers and of prefetched batches, and the damaged records",
     .group = "What to show"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "no live view; print the result only"},
    {"--trace", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, pipeline.trace), .completion = COMPLETE_FILES,
     .doc = "write what each worker and the consumer did when, for ui.perfetto.dev or chrome://tracing", .absent = "none is written"},
    {0},
};

static const struct example examples[] = {
    {"measure a typical image pipeline",
     "penstock bench \"folder photos/ | shuffle | decode | resize 224 | flip | normalize imagenet | batch 32\""},
    {"check whether it keeps up with an accelerator that needs 45 ms per batch",
     "penstock bench \"tfrecord shards/ | shuffle | example | decode | random_resized_crop 224 | flip | batch 64\" "
     "--simulate-step 45"},
    {"measure a second epoch from the cache",
     "penstock bench \"tfrecord shards/ | example | cache | shuffle | batch 64\" --epochs 2 -v"},
    {"look at the work of every thread in Perfetto", "penstock bench @train.pst --seconds 2 --trace trace.json"},
    {"run for 30 seconds and print JSON", "penstock bench @train.pst --seconds 30 --json"},
    {0},
};

const struct command command_bench = {
    .name = "bench",
    .summary = "measure how fast a pipeline runs and where the time is spent",
    .doc = "Runs the pipeline and reports samples, batches and bytes per second, the time to the first batch, the share of the "
           "workers' time per stage, how busy workers and consumer were, and memory. On a terminal, progress is shown live. "
           "Ctrl-C ends the run early and reports the measurements so far.\n\n" PIPELINE_DOC,
    PIPELINE_COMMAND,
    .options = options,
    .examples = examples,
    .config_size = sizeof(struct config),
    .run = run,
};
