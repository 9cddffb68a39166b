/* cmd_index.c: `penstock index`: makes, remakes or checks the indexes of shards, several shards at a time; then, where it is
 * asked for, the entropy indexes of their JPEGs. */
#include "cli/command.h"
#include "base/secret.h"
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
#include <sys/stat.h>
#include <time.h>

struct config {
    const char *cache;
    uint64_t workers;
    bool entropy, check, rebuild, json, quiet;
};

struct shard {
    const char *path;
    pst_status status; /* PST_ECANCELLED until a worker has processed it */
    pst_index_report report;
    pst_entropy_report entropy;
    uint64_t seen; /* records whose JPEGs were scanned; under lock */
    pst_error error;
    struct job *job;
};

/* The shards and the threads that process them. */
struct job {
    const struct config *config;
    void (*step)(struct shard *s); /* applied to each shard */
    pst_progress progress;         /* under lock */
    size_t workers;
    unsigned each; /* threads within a shard */
    pst_shard_options options;
    struct shard *shards;
    size_t count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t next, done; /* under lock */
};

/* ---- Working ---- */

/* A pst_stop_fn. */
static bool is_interrupted(void *user)
{
    (void)user;
    return interrupt_requested();
}

/* Creates or checks the index by one scan over the record lengths. */
static void make_index(struct shard *s)
{
    struct job *job = s->job;

    s->status = pst_index_make(s->path, &job->options, job->config->rebuild, job->config->check, &s->report, &s->error);
    pthread_mutex_lock(&job->lock);
    job->progress.done++;
    job->progress.bytes += s->status == PST_OK ? s->report.bytes : 0;
    pthread_mutex_unlock(&job->lock);
}

/* A pst_progress_fn, called by the threads that process the shards. */
static int see_progress(void *user, const pst_progress *now)
{
    struct shard *s = user;
    struct job *job = s->job;

    pthread_mutex_lock(&job->lock);
    job->progress.done += now->done - s->seen;
    s->seen = now->done;
    pthread_mutex_unlock(&job->lock);
    return interrupt_requested();
}

/* Creates the entropy index by one pass over the JPEGs. */
static void make_entropy(struct shard *s)
{
    struct job *job = s->job;
    pst_progress all = {.done = s->report.records};

    if (s->status != PST_OK)
        return;
    s->status = PST_ECANCELLED;
    s->status =
        pst_index_entropy(s->path, &job->options, job->config->rebuild, job->each, see_progress, s, &s->entropy, &s->error);
    if (s->status == PST_OK)
        see_progress(s, &all);
}

static void *work(void *user)
{
    struct job *job = user;

    pthread_mutex_lock(&job->lock);
    while (job->next < job->count && !interrupt_requested()) {
        struct shard *s = &job->shards[job->next++];

        pthread_mutex_unlock(&job->lock);
        job->step(s);
        pthread_mutex_lock(&job->lock);
        job->done++;
        pthread_cond_signal(&job->changed);
    }
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* If there are fewer shards than workers, several workers share a shard. */
static void share_workers(struct job *job)
{
    cpu_set_t mine;
    size_t workers = (size_t)job->config->workers;

    if (workers == 0)
        workers = sched_getaffinity(0, sizeof(mine), &mine) == 0 ? (size_t)CPU_COUNT(&mine) : 1;
    job->workers = workers < job->count ? workers : job->count;
    job->each = (unsigned)(workers / job->workers);
}

/* Shows progress until all shards are done or the user interrupts. */
static void watch(struct job *job, struct progress *progress)
{
    pthread_mutex_lock(&job->lock);
    while (job->done < job->count && !interrupt_requested()) {
        pst_progress now = job->progress;
        size_t done = job->done;
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
        if (job->done == done)
            pthread_cond_timedwait(&job->changed, &job->lock, &until);
    }
    pthread_mutex_unlock(&job->lock);
}

/* Runs one step on all shards, on the workers. */
static void do_all(struct job *job, void (*step)(struct shard *s), const char *stage, const char *unit, uint64_t total)
{
    struct progress progress;
    size_t started = 0;
    pthread_t *threads = calloc(job->workers, sizeof(*threads));

    job->step = step;
    job->next = job->done = 0;
    job->progress = (pst_progress){.stage = stage, .total = total};
    progress_start(&progress, unit, job->config->quiet, job->config->json);
    while (threads && started < job->workers && pthread_create(&threads[started], NULL, work, job) == 0)
        started++;
    if (started)
        watch(job, &progress);
    else
        work(job); /* no thread could be created: this thread does all the work */
    progress_finish(&progress);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
}

static void index_all(struct job *job)
{
    uint64_t records = 0;

    share_workers(job);
    do_all(job, make_index, job->config->check ? "checking" : "indexing", "shards", job->count);
    if (!job->config->entropy || interrupt_requested())
        return;
    for (size_t i = 0; i < job->count; i++)
        records += job->shards[i].status == PST_OK ? job->shards[i].report.records : 0;
    do_all(job, make_entropy, "scanning JPEGs", "records", records);
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
        fputs("not stored: the shard has no records", stdout);
        break;
    }
}

/* "…; entropy index of 950 of 1,000 JPEGs: 45,600 points, 510 kB (0.5 %)" */
static void put_entropy(const pst_entropy_report *e)
{
    char jpegs[AMOUNT_SIZE], indexed[AMOUNT_SIZE], points[AMOUNT_SIZE], bytes[AMOUNT_SIZE];
    const struct {
        uint64_t count;
        const char *why;
    } without[] = {{e->small, "too small to need it"},
                   {e->foreign, "left to libjpeg-turbo (progressive, CMYK, \342\200\246)"},
                   {e->damaged, "damaged"}};
    const char *between = "; without: ";

    if (e->jpegs == 0) {
        printf("; no JPEGs");
        return;
    }
    printf("; entropy index %sof %s of %s %s: %s points, %s (%.1f %%)", e->written ? "written, " : "",
           amount_count(indexed, e->indexed), amount_count(jpegs, e->jpegs), plural(e->jpegs, "JPEG", "JPEGs"),
           amount_count(points, e->points), amount_bytes(bytes, (double)e->bytes),
           100 * (double)e->bytes / (double)e->jpeg_bytes);
    for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
        if (without[i].count == 0)
            continue;
        printf("%s%s %s", between, amount_count(jpegs, without[i].count), without[i].why);
        between = ", ";
    }
    if (e->bad_records)
        printf("; %s damaged %s not searched", amount_count(jpegs, e->bad_records),
               plural(e->bad_records, "record", "records"));
}

/* A pipe or a device has no index either, but naming one is probably a mistake. */
static bool is_compressed(const struct shard *s)
{
    struct stat info;

    return s->status == PST_EUNSUPPORTED && stat(s->path, &info) == 0 && S_ISREG(info.st_mode);
}

static void put_shard(const struct shard *s, const struct config *c)
{
    char records[AMOUNT_SIZE], bytes[AMOUNT_SIZE];
    const char *state = c->check ? "index is correct, " : s->report.written ? "index written, " : "index is up to date, ";

    put_clean_string(stdout, s->path);
    if (s->status == PST_EUNSUPPORTED) {
        puts(": compressed, has no index");
        return;
    }
    printf(": %s %s, %s, %s", amount_count(records, s->report.records), plural(s->report.records, "record", "records"),
           amount_bytes(bytes, (double)s->report.bytes), state);
    put_place(&s->report);
    if (c->entropy)
        put_entropy(&s->entropy);
    putchar('\n');
}

static void put_entropy_json(struct json *j, const pst_entropy_report *e)
{
    json_begin_object(j, "entropy");
    json_uint(j, "jpegs", e->jpegs);
    json_uint(j, "jpeg_bytes", e->jpeg_bytes);
    json_uint(j, "indexed", e->indexed);
    json_uint(j, "points", e->points);
    json_uint(j, "bytes", e->bytes);
    json_uint(j, "small", e->small);
    json_uint(j, "foreign", e->foreign);
    json_uint(j, "damaged", e->damaged);
    json_uint(j, "bad_records", e->bad_records);
    json_bool(j, "written", e->written);
    json_end_object(j);
}

static void put_shard_json(struct json *j, const struct shard *s, bool entropy)
{
    json_begin_object(j, NULL);
    json_shown(j, "path", s->path);
    json_string(j, "status", s->status == PST_OK ? "ok" : pst_status_name(s->status));
    if (s->status == PST_OK) {
        json_uint(j, "records", s->report.records);
        json_uint(j, "bytes", s->report.bytes);
        json_string(j, "place", pst_index_place_name(s->report.place));
        json_string(j, "index", s->report.path[0] ? s->report.path : NULL);
        json_bool(j, "written", s->report.written);
        if (entropy)
            put_entropy_json(j, &s->entropy);
    } else if (s->status != PST_ECANCELLED) {
        json_error(j, "error", &s->error);
    }
    json_end_object(j);
}

static void put_json(const struct job *job)
{
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    json_string(&j, "command", "index");
    json_begin_array(&j, "shards");
    for (size_t i = 0; i < job->count; i++)
        put_shard_json(&j, &job->shards[i], job->config->entropy);
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

static void add_entropy(pst_entropy_report *sum, const pst_entropy_report *e)
{
    sum->jpegs += e->jpegs;
    sum->jpeg_bytes += e->jpeg_bytes;
    sum->indexed += e->indexed;
    sum->points += e->points;
    sum->bytes += e->bytes;
    sum->small += e->small;
    sum->foreign += e->foreign;
    sum->damaged += e->damaged;
    sum->bad_records += e->bad_records;
}

/* Prints the totals if there are several shards. */
static void put_total(const struct job *job)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE];
    uint64_t records = 0, bytes = 0;
    pst_entropy_report entropy = {.size = sizeof(entropy)};
    size_t fine = 0, written = 0;

    for (size_t i = 0; i < job->count; i++) {
        const struct shard *s = &job->shards[i];

        fine += s->status == PST_OK;
        records += s->status == PST_OK ? s->report.records : 0;
        bytes += s->status == PST_OK ? s->report.bytes : 0;
        written += s->status == PST_OK && s->report.written;
        if (s->status == PST_OK)
            add_entropy(&entropy, &s->entropy);
    }
    printf("%zu of %zu shards: %s records, %s, ", fine, job->count, amount_count(a, records), amount_bytes(b, (double)bytes));
    if (job->config->check)
        printf("indexes are correct");
    else
        printf("%zu %s written", written, plural(written, "index", "indexes"));
    if (job->config->entropy)
        put_entropy(&entropy);
    putchar('\n');
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
        bool fine = s->status == PST_OK || is_compressed(s);

        left += s->status == PST_ECANCELLED;
        if (fine && !c->json && !c->quiet)
            put_shard(s, c);
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
                      .options = {.size = sizeof(job.options), .stop = is_interrupted},
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .changed = PTHREAD_COND_INITIALIZER};
    int code = EXIT_FAILED;

    if (c->check && c->rebuild)
        return say_usage(&command_index, "--check and --rebuild exclude each other");
    if (c->check && c->entropy)
        return say_usage(&command_index, "--check and --entropy exclude each other; --check includes entropy indexes");
    if (pst_shards_find(&paths, &found, operands, count, &error) < 0)
        return say_failure(&command_index, &error, c->json);
    job.options.cache_dir = c->cache ? c->cache : default_cache_folder(cache, sizeof(cache));
    job.count = found;
    job.shards = calloc(found, sizeof(*job.shards));
    if (job.shards) {
        for (size_t i = 0; i < found; i++)
            job.shards[i] = (struct shard){.path = paths[i],
                                           .status = PST_ECANCELLED,
                                           .job = &job,
                                           .report = {.size = sizeof(pst_index_report)},
                                           .entropy = {.size = sizeof(pst_entropy_report)}};
        index_all(&job);
        code = report(&job);
    } else {
        say_error("out of memory");
    }
    free(job.shards);
    pst_free(paths);
    return code;
}

static const struct option options[] = {
    {"--entropy", .kind = OPTION_FLAG, INTO(struct config, entropy),
     .doc = "also store entropy indexes: places inside JPEGs where decoding can start, so that crops decode faster"},
    {"--check", .kind = OPTION_FLAG, INTO(struct config, check),
     .doc = "write nothing; compare each index with its shard, record by record, and each entropy index with its JPEGs"},
    {"--rebuild", .kind = OPTION_FLAG, INTO(struct config, rebuild),
     .doc = "create all indexes again, even those that are up to date"},
    {"--cache", .metavar = "FOLDER", .kind = OPTION_STRING, INTO(struct config, cache), .completion = COMPLETE_FOLDERS,
     .doc = "folder for the indexes of shards in read-only folders", .absent = "$XDG_CACHE_HOME/penstock or ~/.cache/penstock"},
    {"--workers", 'j', "N", OPTION_UINT, INTO(struct config, workers), .min = 1, .max = 1024, .doc = "number of threads",
     .absent = "one per core"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "print errors only"},
    {0},
};

static const struct example examples[] = {
    {"create indexes that are missing or out of date", "penstock index shards/"},
    {"make crops of JPEGs decode faster", "penstock index --entropy shards/"},
    {"compare every index with its shard", "penstock index --check shards/"},
    {0},
};

const struct command command_index = {
    .name = "index",
    .summary = "create or check the indexes of shards",
    .usage = "PATH...",
    .doc =
        "Creates the index of every shard whose index is missing or out of date. An index lists the position of each record, "
        "so that records can be read in any order; one scan over the lengths of the records creates it. A PATH is a "
        "shard, a folder of shards, or a pattern.\n\n"
        "The index of X is X.pidx beside it, or a file in the cache folder if the folder of X is read-only. A "
        "compressed shard has no index: it can only be read from beginning to end.\n\n"
        "With --entropy, the command also scans the JPEGs in the records: those in the bytes features of Examples, and records "
        "that are JPEGs. For each JPEG the index stores the places where decoding can start, one per 16 blocks of pixels, "
        "in about 1 % of the JPEG's size. A pipeline that crops images then skips the data outside the crop. Pixels and "
        "shards do not change. Shards that already have an entropy index are not scanned again.\n\n"
        "Exits with 3 if a length is damaged or --check finds a wrong index. To check the content of the records, use "
        "penstock inspect --verify.",
    .options = options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
