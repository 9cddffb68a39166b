/* read_shards.c: see read_shards.h.
 *
 * Three rounds: every uncompressed shard is opened, which creates its index if there is none and gives its length; a first
 * look reads a few records; then tasks read. A task is a whole shard, from beginning to end (compressed ones, event files,
 * everything when verifying), or a run of sampled records by number. Tasks are cut by the data alone, and what they find is
 * merged in their order, so sums of fractions come out the same for any number of workers. */
#include "inspect/read_shards.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "inspect/fetch.h"
#include "inspect/spread.h"
#include "io/file.h"
#include "record/find.h"
#include "record/index_find.h"
#include "record/shard.h"

#include <pthread.h>
#include <stdatomic.h>

#define RECORDS_A_TASK 1024u
#define KEPT_OPEN      256u /* shards between the rounds: descriptors are few */
#define KEPT_IN_MEMORY 512u /* with those whose index is nowhere else: opening one again would scan it again */
#define METER_EVERY    64u

struct task {
    size_t shard;
    uint64_t first, last; /* of the sample, for shards read by number */
};

struct state { /* of one shard, beside its public part */
    bool by_number;
    uint64_t first;       /* number of its first record among those of all shards read by number */
    pst_shard *kept;      /* still open; NULL: the task that reads it opens it again */
    struct findings scan; /* the damage that its index left out, or that is in its index */
};

struct survey {
    const pst_inspect_options *options;
    pst_inspect_shard *shards;
    struct state *states;
    size_t count;
    atomic_uint kept;
    const struct choice *choice;
    struct spread sample;
    uint64_t expected; /* records to read; 0: unknown */
    struct task *tasks;
    size_t task_count, task_capacity;

    pthread_mutex_t lock;
    struct findings **done; /* under lock: what finished tasks found, until it is their turn */
    size_t merged;          /* under lock: tasks before this one are in `all` */
    struct findings *all;   /* under lock */
};

/* ---- First round: opening ---- */

static pst_status identify(pst_inspect_shard *shard, pst_error *reterr)
{
    int fd;
    struct file_info info;
    pst_status st = file_open_read(&fd, shard->path, reterr);
    if (st < 0)
        return st;
    st = file_fstat(fd, shard->path, &info, reterr);
    if (st == PST_OK && !info.is_regular)
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, shard->path, PST_NOWHERE, PST_NOWHERE,
                         "not a regular file: shards are read several times; store it in a file first");
    if (st == PST_OK)
        st = index_fingerprint(fd, shard->path, &shard->bytes, &shard->fingerprint, reterr);
    file_close(fd);
    return st;
}

static int ask_meter(void *meter, const pst_progress *now)
{
    (void)now;
    return meter_add(meter, 0, 0, NULL) < 0;
}

/* Counts wrong sections of the index as damage, naming the first record whose stored entropy points differ. */
static pst_status check_sections(struct survey *s, size_t i, const struct found_index *found, const struct shard_file *file,
                                 struct meter *meter, pst_error *reterr)
{
    uint64_t most = s->options->max_record_bytes;
    pst_shard_options options = {.size = sizeof(options), .max_record_bytes = most ? most : PST_MAX_RECORD_BYTES};
    pst_record record = {.record = PST_NOWHERE, .offset = PST_NOWHERE};
    pst_error why = {0};
    pst_status st = index_check_sections(&found->index, found->path, &why);
    if (st == PST_OK) /* many shards are checked side by side */
        st = entropy_check(found, file, &options, s->count == 1 ? s->options->workers : 1, ask_meter, meter, &why);
    if (st == PST_ESTALE && why.record < found->index.count) {
        record.record = why.record;
        record.offset = found->index.entries[why.record].offset;
    } else if (st < 0 && st != PST_ECORRUPT) {
        if (reterr)
            *reterr = why;
        return st;
    }
    return st < 0 ? findings_add_damage(&s->states[i].scan, PST_CAUSE_INDEX, s->shards[i].path, &record, why.message, reterr)
                  : PST_OK;
}

/* Finds and checks an index that exists already, for shards that are read without it. */
static pst_status look_for_index(struct survey *s, size_t i, struct meter *meter, pst_error *reterr)
{
    pst_inspect_shard *shard = &s->shards[i];
    pst_shard_options options = {.size = sizeof(options), .cache_dir = s->options->cache_dir};
    struct shard_file file = {0};
    struct found_index found = {0};
    pst_status st = PST_OK;
    if (shard_file_open(&file, shard->path, NULL) == PST_OK && index_find(&found, &file, &options, NULL) == PST_OK) {
        shard->indexed = true;
        shard->index_place = found.place;
        shard->entropy = found.index.jpegs != NULL;
        shard->records = found.index.count; /* for the progress, until they are counted */
        if (found.path && found.place != PST_INDEX_TEXT)
            st = check_sections(s, i, &found, &file, meter, reterr);
    }
    found_index_finish(&found);
    shard_file_close(&file);
    return st;
}

static pst_status open_by_number(struct survey *s, size_t i, pst_error *reterr)
{
    pst_inspect_shard *shard = &s->shards[i];
    struct state *state = &s->states[i];
    pst_status st = findings_need_log(&state->scan, reterr);
    if (st < 0)
        return st;
    pst_shard_options options = {.size = sizeof(options),
                                 .cache_dir = s->options->cache_dir,
                                 .max_record_bytes = s->options->max_record_bytes,
                                 .damage = state->scan.damage};
    pst_shard *open;
    st = pst_shard_open(&open, shard->path, &options, reterr);
    if (st < 0)
        return st;
    state->by_number = true;
    shard->compression = PST_COMPRESSION_NONE;
    shard->records = pst_shard_count(open);
    shard->indexed = true;
    shard->index_place = pst_shard_index_place(open);
    shard->index_built = pst_shard_index_built(open);
    shard->entropy = shard_index(open)->jpegs != NULL;
    if (atomic_fetch_add(&s->kept, 1) < (shard->index_place == PST_INDEX_MEMORY ? KEPT_IN_MEMORY : KEPT_OPEN))
        state->kept = open;
    else
        pst_shard_close(open);
    return PST_OK;
}

static pst_status open_one(void *user, size_t i, struct meter *meter, pst_error *reterr)
{
    struct survey *s = user;
    pst_inspect_shard *shard = &s->shards[i];
    pst_status st = identify(shard, reterr);
    if (st < 0)
        return st;
    if (s->options->verify) {
        st = look_for_index(s, i, meter, reterr);
    } else if (!find_is_event_file(file_base(shard->path))) { /* those grow: an index would be stale by tomorrow */
        st = open_by_number(s, i, reterr);
        if (st == PST_EUNSUPPORTED)
            st = PST_OK; /* compressed */
    }
    return st < 0 ? st : meter_add(meter, shard->records, shard->bytes, reterr);
}

/* ---- Second round: tasks ---- */

static pst_status add_task(struct survey *s, struct task task, pst_error *reterr)
{
    if (mem_grow((void **)&s->tasks, &s->task_capacity, s->task_count + 1, sizeof(*s->tasks)))
        return fail_memory(reterr, "allocating a plan of %zu tasks", s->task_count + 1);
    s->tasks[s->task_count++] = task;
    return PST_OK;
}

/* Compressed shards must be read whole to be counted; where there are any, the others are read whole as well, or the
 * figures would lean to one side. */
static pst_status plan(struct survey *s, pst_error *reterr)
{
    uint64_t total = 0, others = 0;
    bool whole = false, known = true;
    for (size_t i = 0; i < s->count; i++) {
        s->states[i].first = total;
        *(s->states[i].by_number ? &total : &others) += s->shards[i].records;
        whole |= !s->states[i].by_number;
        known &= s->shards[i].indexed;
    }
    s->sample = spread_make(total, whole ? UINT64_MAX : s->options->sample);
    s->expected = known ? s->sample.count + others : 0;
    pst_status st = PST_OK;
    for (size_t i = 0; i < s->count && st == PST_OK; i++) {
        uint64_t at = 0, end = 0;
        if (s->states[i].by_number) {
            at = spread_first(&s->sample, s->states[i].first);
            end = spread_first(&s->sample, s->states[i].first + s->shards[i].records);
        }
        do { /* every shard has a task: its scan's damage must come up in order */
            uint64_t last = end - at > RECORDS_A_TASK ? at + RECORDS_A_TASK : end;
            st = add_task(s, (struct task){i, at, last}, reterr);
            at = last;
        } while (at < end && st == PST_OK);
    }
    s->done = mem_array(s->task_count ? s->task_count : 1, sizeof(*s->done));
    if (st == PST_OK && !s->done)
        st = fail_memory(reterr, "allocating the results of %zu tasks", s->task_count);
    return st;
}

/* ---- Third round: reading ---- */

struct reading {
    struct survey *s;
    const struct task *task;
    struct findings *found;
    struct walker *walker;
    struct meter *meter;
    uint64_t records, bytes; /* not yet reported to the meter */
};

static pst_status take(struct reading *r, const pst_record *record, pst_error *reterr)
{
    r->bytes += record->length;
    if (++r->records == METER_EVERY) {
        pst_status st = meter_add(r->meter, r->records, r->bytes, reterr);
        r->records = r->bytes = 0;
        if (st < 0)
            return st;
    }
    return findings_take(r->found, r->s->choice, r->walker, r->s->shards[r->task->shard].path, record, reterr);
}

static pst_status read_by_number(struct reading *r, pst_error *reterr)
{
    struct survey *s = r->s;
    pst_inspect_shard *shard = &s->shards[r->task->shard];
    struct state *state = &s->states[r->task->shard];
    struct fetch fetch = {0};
    pst_status st = PST_OK;
    if (state->kept)
        fetch_borrow(&fetch, state->kept, s->options->max_record_bytes);
    else if (r->task->first < r->task->last)
        st = fetch_open(&fetch, shard->path, s->options->cache_dir, s->options->max_record_bytes, reterr);
    for (uint64_t k = r->task->first; k < r->task->last && st == PST_OK; k++) {
        pst_record record;
        pst_error why;
        st = fetch_record(&fetch, spread_at(&s->sample, k) - state->first, &record, &why);
        if (st == PST_OK)
            st = take(r, &record, reterr);
        else if (st == PST_ECORRUPT || st == PST_ELIMIT)
            st = findings_add_damage(r->found, st == PST_ELIMIT ? PST_CAUSE_TOO_LARGE : PST_CAUSE_DATA_CRC, shard->path,
                                     &record, why.message, reterr);
        else if (reterr)
            *reterr = why;
    }
    fetch_finish(&fetch);
    return st;
}

static pst_status read_through(struct reading *r, pst_error *reterr)
{
    struct survey *s = r->s;
    pst_inspect_shard *shard = &s->shards[r->task->shard];
    pst_reader_options options = {.size = sizeof(options), .max_record_bytes = s->options->max_record_bytes};
    pst_reader *reader = NULL;
    pst_status st = findings_need_log(r->found, reterr);
    options.damage = r->found->damage;
    if (st == PST_OK)
        st = pst_reader_open(&reader, shard->path, &options, reterr);
    if (st == PST_OK)
        shard->compression = pst_reader_compression(reader);
    while (st == PST_OK) {
        pst_record record;
        st = pst_reader_next(reader, &record, reterr);
        if (st == PST_OK)
            st = take(r, &record, reterr);
    }
    pst_reader_close(reader);
    shard->records = r->found->records;
    return st == PST_END ? PST_OK : st;
}

/* An index lists records whose data may be damaged: damaged ones are subtracted from the shard's count. */
static void count_damage(pst_inspect_shard *shard, const struct findings *f, bool listed)
{
    if (!f->damage)
        return;
    shard->damaged += pst_damage_log_total(f->damage);
    if (listed)
        shard->records -=
            pst_damage_log_count(f->damage, PST_CAUSE_DATA_CRC) + pst_damage_log_count(f->damage, PST_CAUSE_TOO_LARGE);
}

/* Puts in what the next tasks in line have found. Called under lock. */
static pst_status merge_ready(struct survey *s, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (; s->merged < s->task_count && s->done[s->merged] && st == PST_OK; s->merged++) {
        size_t i = s->tasks[s->merged].shard;
        struct findings *parts[] = {&s->states[i].scan, s->done[s->merged]}; /* the scan is empty from its second time on */
        for (unsigned k = 0; k < 2 && st == PST_OK; k++) {
            count_damage(&s->shards[i], parts[k], k == 1 && s->states[i].by_number);
            st = findings_merge(s->all, parts[k], reterr);
        }
        findings_finish(s->done[s->merged]);
        mem_free(s->done[s->merged]);
        s->done[s->merged] = NULL;
    }
    return st;
}

static pst_status read_one(void *user, size_t i, struct meter *meter, pst_error *reterr)
{
    struct survey *s = user;
    struct reading r = {.s = s, .task = &s->tasks[i], .meter = meter};
    pst_status st = walker_create(&r.walker, reterr);
    if (st < 0)
        return st;
    r.found = mem_zalloc(sizeof(*r.found));
    if (!r.found)
        st = fail_memory(reterr, "allocating the findings of a task");
    else
        st = s->states[r.task->shard].by_number ? read_by_number(&r, reterr) : read_through(&r, reterr);
    walker_destroy(r.walker);
    if (st == PST_OK)
        st = meter_add(meter, r.records, r.bytes, reterr);
    if (st == PST_OK) {
        pthread_mutex_lock(&s->lock);
        s->done[i] = r.found;
        st = merge_ready(s, reterr);
        pthread_mutex_unlock(&s->lock);
    } else if (r.found) {
        findings_finish(r.found);
        mem_free(r.found);
    }
    return st;
}

/* ---- All of it ---- */

static pst_status look_first(struct survey *s, struct choice *ret, pst_error *reterr)
{
    const char **paths = mem_array(s->count ? s->count : 1, sizeof(*paths));
    if (!paths)
        return fail_memory(reterr, "allocating %zu paths", s->count);
    for (size_t i = 0; i < s->count; i++)
        paths[i] = s->shards[i].path;
    pst_status st = take_first_look(ret, paths, s->count, s->options, reterr);
    mem_free(paths);
    return st;
}

static void survey_finish(struct survey *s)
{
    for (size_t i = 0; s->states && i < s->count; i++) {
        pst_shard_close(s->states[i].kept);
        findings_finish(&s->states[i].scan);
    }
    for (size_t i = 0; s->done && i < s->task_count; i++) {
        if (s->done[i])
            findings_finish(s->done[i]);
        mem_free(s->done[i]);
    }
    mem_free(s->states);
    mem_free(s->done);
    mem_free(s->tasks);
    pthread_mutex_destroy(&s->lock);
}

pst_status survey(pst_inspect_shard *shards, size_t count, const pst_inspect_options *options, struct choice *ret_choice,
                  struct findings *ret_findings, pst_error *reterr)
{
    struct survey s = {.options = options,
                       .shards = shards,
                       .count = count,
                       .choice = ret_choice,
                       .lock = PTHREAD_MUTEX_INITIALIZER,
                       .all = ret_findings};
    struct parallel run = {
        .workers = options->workers, .user = &s, .progress = options->progress, .progress_user = options->user};
    pst_status st = PST_OK;
    s.states = mem_array(count ? count : 1, sizeof(*s.states));
    if (!s.states)
        st = fail_memory(reterr, "allocating %zu shards", count);
    if (st == PST_OK) {
        run.tasks = count;
        run.run = open_one;
        run.stage = "opening";
        st = parallel_run(&run, reterr);
    }
    if (st == PST_OK)
        st = look_first(&s, ret_choice, reterr);
    if (st == PST_OK)
        st = plan(&s, reterr);
    if (st == PST_OK) {
        run.tasks = s.task_count;
        run.run = read_one;
        run.stage = options->verify ? "verifying" : "reading";
        run.total = s.expected;
        st = parallel_run(&run, reterr);
    }
    survey_finish(&s);
    return st;
}
