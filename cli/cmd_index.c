/* cmd_index.c: `penstock index`: makes, remakes or checks the indexes of shards, several shards at a time. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/say.h"
#include <limits.h>
#include <penstock/inspect.h>
#include <penstock/record.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct config {
    const char *cache;
    uint64_t workers;
    bool check, rebuild, json, quiet;
};

struct shard {
    const char *path;
    pst_status status; /* PST_ECANCELLED until somebody has looked at it */
    pst_index_report report;
    pst_error error;
};

/* The shards, and the threads that take one after another. */
struct job {
    const struct config *config;
    pst_shard_options options;
    struct shard *shards;
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next, done; /* under lock */
    uint64_t bytes;    /* under lock: of the shards done */
};

/* ---- Working ---- */

static void *work(void *user)
{
    struct job *job = user;

    pthread_mutex_lock(&job->lock);
    while (job->next < job->count && !interrupt_requested()) {
        struct shard *s = &job->shards[job->next++];

        pthread_mutex_unlock(&job->lock);
        s->status = pst_index_make(s->path, &job->options, job->config->rebuild, job->config->check, &s->report, &s->error);
        pthread_mutex_lock(&job->lock);
        job->done++;
        job->bytes += s->status == PST_OK ? s->report.bytes : 0;
        pthread_cond_signal(&job->changed);
    }
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

static size_t worker_count(const struct job *job)
{
    cpu_set_t mine;
    size_t workers = (size_t)job->config->workers;

    if (workers == 0)
        workers = sched_getaffinity(0, sizeof(mine), &mine) == 0 ? (size_t)CPU_COUNT(&mine) : 1;
    return workers < job->count ? workers : job->count;
}

/* Shows how far the workers are until all shards are done, or until an interruption: each worker finishes its shard. */
static void watch(struct job *job, struct progress *progress)
{
    pthread_mutex_lock(&job->lock);
    while (job->done < job->count && !interrupt_requested()) {
        pst_progress now = {
            .stage = job->config->check ? "checking" : "indexing", .done = job->done, .total = job->count, .bytes = job->bytes};
        struct timespec until;

        pthread_mutex_unlock(&job->lock);
        progress_report(progress, &now);
        pthread_mutex_lock(&job->lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100 * 1000 * 1000;
        if (until.tv_nsec >= 1000 * 1000 * 1000) {
            until.tv_nsec -= 1000 * 1000 * 1000;
            until.tv_sec++;
        }
        if (job->done == now.done)
            pthread_cond_timedwait(&job->changed, &job->lock, &until);
    }
    pthread_mutex_unlock(&job->lock);
}

static void index_all(struct job *job)
{
    struct progress progress;
    size_t wanted = worker_count(job), started = 0;
    pthread_t *threads = calloc(wanted, sizeof(*threads));

    progress_start(&progress, "shards", job->config->quiet, job->config->json);
    while (threads && started < wanted && pthread_create(&threads[started], NULL, work, job) == 0)
        started++;
    if (started)
        watch(job, &progress);
    else
        work(job); /* no thread to be had: this one does it all */
    progress_finish(&progress);
    if (interrupt_requested() && started)
        say_note("finishing the shards at hand; Ctrl-C again stops at once");
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

/* ---- Reporting ---- */

static void put_place(const pst_index_report *r)
{
    switch (r->place) {
    case PST_INDEX_SIDECAR:
        fputs("beside it", stdout);
        break;
    case PST_INDEX_CACHE:
        fputs("in the cache: ", stdout);
        put_clean_string(stdout, r->path);
        break;
    case PST_INDEX_TEXT:
        fputs("the text index ", stdout);
        put_clean_string(stdout, r->path);
        break;
    case PST_INDEX_MEMORY:
        fputs("but kept nowhere: its folder is read-only and there is no cache folder", stdout);
        break;
    }
}

static void put_shard(const struct shard *s, bool check)
{
    char records[AMOUNT_SIZE], bytes[AMOUNT_SIZE];
    const char *state = check ? "index is right, " : s->report.written ? "index written, " : "index is up to date, ";

    put_clean_string(stdout, s->path);
    if (s->status == PST_EUNSUPPORTED) {
        puts(": compressed, has no index");
        return;
    }
    printf(": %s %s, %s, %s", amount_count(records, s->report.records), plural(s->report.records, "record", "records"),
           amount_bytes(bytes, (double)s->report.bytes), state);
    put_place(&s->report);
    putchar('\n');
}

static void put_shard_json(struct json *j, const struct shard *s)
{
    json_begin_object(j, NULL);
    json_string(j, "path", s->path);
    json_string(j, "status", s->status == PST_OK ? "ok" : pst_status_name(s->status));
    if (s->status == PST_OK) {
        json_uint(j, "records", s->report.records);
        json_uint(j, "bytes", s->report.bytes);
        json_string(j, "place", pst_index_place_name(s->report.place));
        json_string(j, "index", s->report.path[0] ? s->report.path : NULL);
        json_bool(j, "written", s->report.written);
    } else if (s->status != PST_ECANCELLED) {
        json_error(j, "error", &s->error);
    }
    json_end_object(j);
}

static void put_json(const struct job *job)
{
    struct json j = {.out = stdout};

    json_begin_object(&j, NULL);
    json_string(&j, "command", "index");
    json_begin_array(&j, "shards");
    for (size_t i = 0; i < job->count; i++)
        put_shard_json(&j, &job->shards[i]);
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

/* Of several shards: the sum. */
static void put_total(const struct job *job)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE];
    uint64_t records = 0, bytes = 0;
    size_t fine = 0, written = 0;

    for (size_t i = 0; i < job->count; i++) {
        const struct shard *s = &job->shards[i];

        fine += s->status == PST_OK;
        records += s->status == PST_OK ? s->report.records : 0;
        bytes += s->status == PST_OK ? s->report.bytes : 0;
        written += s->status == PST_OK && s->report.written;
    }
    printf("%zu of %zu shards: %s records, %s, ", fine, job->count, amount_count(a, records), amount_bytes(b, (double)bytes));
    if (job->config->check)
        puts("indexes are right");
    else
        printf("%zu %s written\n", written, plural(written, "index", "indexes"));
}

/* Returns the worst exit code of all shards. */
static int report(const struct job *job)
{
    const struct config *c = job->config;
    size_t left = 0;
    int worst = EXIT_DONE;

    if (c->json)
        put_json(job);
    for (size_t i = 0; i < job->count; i++) {
        const struct shard *s = &job->shards[i];
        bool fine = s->status == PST_OK || s->status == PST_EUNSUPPORTED;

        left += s->status == PST_ECANCELLED;
        if (fine && !c->json && !c->quiet)
            put_shard(s, c->check);
        else if (!fine && s->status != PST_ECANCELLED)
            worst = exit_worse(worst, say_failure(&command_index, &s->error, false));
    }
    if (job->count > 1 && !c->json && !c->quiet)
        put_total(job);
    if (!left)
        return worst;
    say_note("interrupted; %zu of %zu shards are left", left, job->count);
    return interrupt_exit_code();
}

/* ---- The command ---- */

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    char cache[PATH_MAX];
    char **paths = NULL;
    size_t found = 0;
    pst_error error;
    struct job job = {.config = c,
                      .options = {.size = sizeof(job.options)},
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    int code = EXIT_FAILED;

    if (c->check && c->rebuild)
        return say_usage(&command_index, "--check and --rebuild exclude each other");
    if (pst_shards_find(&paths, &found, operands, count, &error) < 0)
        return say_failure(&command_index, &error, c->json);
    job.options.cache_dir = c->cache ? c->cache : default_cache_folder(cache, sizeof(cache));
    job.count = found;
    job.shards = calloc(found, sizeof(*job.shards));
    if (job.shards) {
        for (size_t i = 0; i < found; i++)
            job.shards[i] = (struct shard){.path = paths[i], .status = PST_ECANCELLED};
        index_all(&job);
        code = report(&job);
    } else {
        say_error("out of memory");
    }
    free(job.shards);
    pst_shards_free(paths, found);
    return code;
}

static const struct option options[] = {
    {"--check", .kind = OPTION_FLAG, INTO(struct config, check),
     .doc = "write nothing: compare each index with its shard, record by record"},
    {"--rebuild", .kind = OPTION_FLAG, INTO(struct config, rebuild),
     .doc = "make the indexes anew, even where they look right"},
    {"--cache", .metavar = "FOLDER", .kind = OPTION_STRING, INTO(struct config, cache), .completion = COMPLETE_FOLDERS,
     .doc = "where indexes of shards in read-only folders go", .absent = "$XDG_CACHE_HOME/penstock or ~/.cache/penstock"},
    {"--workers", 'j', "N", OPTION_UINT, INTO(struct config, workers), .min = 1, .max = 1024,
     .doc = "shards that are read at a time", .absent = "one a core"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "errors only"},
    {0},
};

static const struct example examples[] = {
    {"make whatever indexes are missing or out of date", "penstock index shards/"},
    {"compare every index with its shard", "penstock index --check shards/"},
    {0},
};

const struct command command_index = {
    .name = "index",
    .summary = "make or check the indexes of shards",
    .usage = "PATH...",
    .doc = "Makes the index of every shard that has none or one of other content. An index lists where each record lies, so "
           "that records can be read in any order; it is made by one scan over the lengths of the records. A PATH is a "
           "shard, a folder of shards, or a pattern.\n\n"
           "The index of X is X.pidx beside it, or a file in the cache folder where X lies in a read-only folder. A "
           "compressed shard has no index: it can only be read from front to back.\n\n"
           "Exits with 3 when a length is damaged, or when --check finds an index that is wrong. The content of the records "
           "is not looked at; penstock inspect --verify does that.",
    .options = options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
