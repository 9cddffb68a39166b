/* pipeline.c: the public face: building, planning, starting, the next batch, seeking, the end.
 *
 * One thread at a time is the consumer: it plans, starts, takes batches and seeks. Cancel and statistics may come from any
 * thread at any time. */
#include "flow/pipeline.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/options.h"
#include "io/stop.h"

#include <string.h>

#define KEPT_BATCHES 2 /* free ones, until the crew says how many */

/* ---- Building ---- */

pst_status pst_pipeline_create(pst_pipeline **ret, const pst_pipeline_options *options, pst_error *reterr)
{
    pst_pipeline_options o = {0};
    pst_policy policy = {0};
    pst_status st = options_take(&o, sizeof(o), options, reterr);
    if (st < 0)
        return st;
    if (o.rank >= (o.world ? o.world : 1))
        return pst_fail(reterr, PST_EINVAL, "rank %u of %u; ranks are numbered from 0", o.rank, o.world ? o.world : 1);
    if (o.hosts > 1 && (o.world ? o.world : 1) % o.hosts != 0)
        return pst_fail(reterr, PST_EINVAL, "%u ranks on %u hosts; every host must have as many ranks", o.world ? o.world : 1, o.hosts);
    if ((unsigned)o.uneven > PST_UNEVEN_ALLOW)
        return pst_fail(reterr, PST_EINVAL, "options.uneven is %d; expected pad, drop or allow", (int)o.uneven);
    pst_pipeline *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory(reterr, "creating a pipeline");
    ring_init(&p->ring);
    pthread_mutex_init(&p->judging, NULL);
    p->options = o;
    p->options.bad = NULL; /* the caller's text; the account has what it says */
    p->cache_dir = o.cache_dir ? mem_strdup(o.cache_dir) : NULL;
    p->options.cache_dir = p->cache_dir;
    p->monitor_dir = o.monitor ? mem_strdup(o.monitor) : NULL;
    p->options.monitor = p->monitor_dir;
    st = (o.cache_dir && !p->cache_dir) || (o.monitor && !p->monitor_dir) ? fail_memory(reterr, "creating a pipeline") : PST_OK;
    if (st == PST_OK && o.bad)
        st = pst_policy_parse(&policy, o.bad, reterr);
    if (st == PST_OK)
        st = damage_account_init(&p->damage, &policy, reterr);
    if (st < 0) {
        pst_pipeline_destroy(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

pst_status pst_pipeline_parse(pst_pipeline **ret, const char *text, const pst_pipeline_options *options, pst_error *reterr)
{
    pst_pipeline *p = NULL;
    pst_status st = pst_pipeline_create(&p, options, reterr);
    if (st < 0)
        return st;
    st = chain_parse(&p->chain, text, reterr);
    if (st < 0) {
        pst_pipeline_destroy(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

static pst_status check_open(const pst_pipeline *p, pst_error *reterr)
{
    return p->plan ? pst_fail(reterr, PST_EINVAL, "the pipeline is planned already; add operations before plan, start or next")
                   : PST_OK;
}

pst_status pst_pipeline_add(pst_pipeline *p, const char *op, const char *args, pst_error *reterr)
{
    pst_status st = check_open(p, reterr);
    return st < 0 ? st : chain_add(&p->chain, op, args, reterr);
}

pst_status pst_pipeline_add_op(pst_pipeline *p, const pst_op_class *op, const void *config, pst_error *reterr)
{
    pst_status st = check_open(p, reterr);
    return st < 0 ? st : chain_add_class(&p->chain, op, config, reterr);
}

pst_status pst_pipeline_add_pipelines(pst_pipeline *p, const char *op, const char *args, pst_pipeline *const *branches,
                                      size_t count, pst_error *reterr)
{
    pst_status st = check_open(p, reterr);
    void *parts = p->parts;
    struct chain **chains = mem_array(count, sizeof(*chains));
    if (st == PST_OK && (!chains || mem_grow(&parts, &p->part_capacity, p->part_count + count, sizeof(*p->parts)) < 0))
        st = fail_memory(reterr, "adding pipelines");
    p->parts = parts;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        chains[i] = &branches[i]->chain;
        st = check_open(branches[i], reterr);
    }
    if (st == PST_OK)
        st = chain_add_join(&p->chain, op, args, chains, count, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++)
        p->parts[p->part_count++] = branches[i];
    mem_free(chains);
    return st;
}

pst_status pipeline_add_source(pst_pipeline *p, const struct source_class *source, const void *config, pst_error *reterr)
{
    pst_status st = pst_pipeline_add_op(p, &source->op, config, reterr);
    if (st == PST_OK)
        p->chain.nodes[p->chain.count - 1].kind = PST_OP_SOURCE;
    return st;
}

/* Copies everything but the data. */
static pst_status copy_arrays(struct arena *a, const char *const *names, const pst_tensor *arrays, size_t count,
                              struct arrays_config *ret, pst_error *reterr)
{
    const char **own_names = arena_alloc(a, (count + 1) * sizeof(*own_names));
    pst_tensor *own_arrays = arena_alloc(a, (count + 1) * sizeof(*own_arrays));
    bool whole = own_names && own_arrays;
    for (size_t i = 0; i < count && whole; i++) {
        own_names[i] = names[i] ? arena_strndup(a, names[i], SIZE_MAX) : "";
        own_arrays[i] = arrays[i];
        whole = own_names[i] != NULL;
    }
    if (!whole)
        return fail_memory(reterr, "adding arrays");
    *ret = (struct arrays_config){.names = own_names, .arrays = own_arrays, .count = count};
    return PST_OK;
}

pst_status pst_pipeline_add_arrays(pst_pipeline *p, const char *const *names, const pst_tensor *arrays, size_t count,
                                   pst_error *reterr)
{
    struct arrays_config config;
    if (count > PST_MAX_FIELDS)
        return pst_fail(reterr, PST_EINVAL, "%zu arrays; an element has at most %d fields", count, PST_MAX_FIELDS);
    pst_status st = copy_arrays(&p->names, names, arrays, count, &config, reterr);
    return st < 0 ? st : pipeline_add_source(p, &source_arrays, &config, reterr);
}

static const char *const *copy_texts(struct arena *a, const char *const *texts, size_t count)
{
    const char **own = count < SIZE_MAX / sizeof(*own) ? arena_alloc(a, (count + 1) * sizeof(*own)) : NULL;
    for (size_t i = 0; own && i < count; i++) {
        own[i] = arena_strndup(a, texts[i], SIZE_MAX);
        if (!own[i])
            return NULL;
    }
    return own;
}

static pst_status check_texts(const char *const *texts, size_t count, const char *what, pst_error *reterr)
{
    for (size_t i = 0; i < count; i++)
        if (!texts[i] || !*texts[i])
            return pst_fail_at(reterr, PST_EINVAL, NULL, i, PST_NOWHERE, "files: the list has no %s here", what);
    return PST_OK;
}

pst_status pst_pipeline_add_files(pst_pipeline *p, const char *const *paths, const char *const *labels, size_t count,
                                  pst_error *reterr)
{
    pst_status st = check_open(p, reterr);
    if (st == PST_OK)
        st = check_texts(paths, count, "path", reterr);
    if (st == PST_OK && labels)
        st = check_texts(labels, count, "label", reterr);
    if (st < 0)
        return st;
    struct files_config config = {.list = "the program's list", .root = "", .count = count};
    config.paths = copy_texts(&p->names, paths, count);
    config.labels = labels ? copy_texts(&p->names, labels, count) : NULL;
    if (!config.paths || (labels && !config.labels))
        return pst_fail(reterr, PST_ENOMEM, "adding files: out of memory for %zu paths", count);
    return pipeline_add_source(p, &source_files, &config, reterr);
}

pst_status pst_pipeline_add_generator(pst_pipeline *p, const pst_generator *generator, pst_error *reterr)
{
    pst_generator own = {0};
    pst_status st = options_take(&own, sizeof(own), generator, reterr);
    if (st < 0)
        return st;
    generator = &own;
    if (generator->spec.count == 0 || generator->spec.count > PST_MAX_FIELDS || !generator->open || !generator->next)
        return pst_fail(reterr, PST_EINVAL, "a generator needs 1 to %d fields, open and next", PST_MAX_FIELDS);
    pst_field *fields = arena_alloc(&p->names, own.spec.count * sizeof(*fields));
    if (!fields)
        return fail_memory(reterr, "adding a generator");
    memcpy(fields, own.spec.field, own.spec.count * sizeof(*fields));
    own.spec = (pst_spec){.count = own.spec.count, .field = fields};
    return pipeline_add_source(p, &source_generator, &own, reterr);
}

/* ---- Planning and starting ---- */

pst_status pst_pipeline_keep(pst_pipeline *p, pst_keep_fn choose, const void *user, size_t size, pst_error *reterr)
{
    pst_status st = check_open(p, reterr);
    if (st < 0)
        return st;
    void *own = arena_alloc(&p->names, size ? size : 1);
    if (!own)
        return fail_memory(reterr, "choosing fields");
    if (size)
        memcpy(own, user, size);
    p->choice = (struct field_choice){.choose = choose, .user = own};
    return PST_OK;
}

/* Everything that statistics may look at appears at once. */
static void publish_plan(pst_pipeline *p, struct pipeline_plan *plan, struct batch_pool *pool, struct cell *cells,
                         struct access *access)
{
    pthread_mutex_lock(&p->ring.lock);
    p->plan = plan;
    p->pool = pool;
    p->cells = cells;
    p->access = access;
    tune_init(&p->tuner, plan, &p->options, cpu_cores());
    pthread_mutex_unlock(&p->ring.lock);
}

/* Ends waits for pipes and long searches: in the plan when the pipeline is cancelled, later also when the workers stop. */
static bool is_stopped(void *user)
{
    const pst_pipeline *p = user;
    return atomic_load_explicit(&p->cancelled, memory_order_relaxed) ||
           atomic_load_explicit(&p->ring.stopped, memory_order_relaxed);
}

pst_status pst_pipeline_plan(pst_pipeline *p, pst_error *reterr)
{
    struct pipeline_plan *plan;
    struct batch_pool *pool = NULL;
    struct access *access = NULL;
    if (p->plan)
        return PST_OK;
    struct file_stop before = stop_set_thread((struct file_stop){is_stopped, p});
    pst_status st = pipeline_plan_create(&plan, &p->chain, &p->options, &p->choice, (struct file_stop){is_stopped, p}, &p->damage, reterr);
    stop_set_thread(before);
    if (st < 0)
        return st;
    st = batch_pool_create(&pool, &plan->program.layout, reterr);
    if (st == PST_OK)
        st = access_create(&access, plan->slots - plan->threads, reterr);
    struct cell *cells = st < 0 ? NULL : mem_aligned(plan->threads * sizeof(*cells));
    if (!cells) {
        access_destroy(access);
        batch_pool_close(pool);
        pipeline_plan_destroy(plan);
        return st < 0 ? st : fail_memory(reterr, "planning");
    }
    memset((void *)cells, 0, plan->threads * sizeof(*cells));
    batch_pool_keep(pool, KEPT_BATCHES);
    publish_plan(p, plan, pool, cells, access);
    return PST_OK;
}

static void publish_crew(pst_pipeline *p, struct crew *crew)
{
    pthread_mutex_lock(&p->ring.lock);
    p->crew = crew;
    pthread_mutex_unlock(&p->ring.lock);
}

static void apply_tuning(pst_pipeline *p)
{
    ring_tune(&p->ring, p->tuner.depth, p->tuner.workers);
    batch_pool_keep(p->pool, p->tuner.depth + 2);
    if (p->crew)
        crew_share(p->crew, p->tuner.workers);
}

static pst_status start_crew(pst_pipeline *p, pst_error *reterr)
{
    struct crew *crew;
    struct crew_order order = {.ring = &p->ring,
                               .plan = p->plan,
                               .pool = p->pool,
                               .cells = p->cells,
                               .trace = p->trace,
                               .seed = p->options.seed,
                               .once = p->once,
                               .tolerant = p->damage.policy.skip,
                               .epoch = p->epoch,
                               .next = p->next,
                               .sharing = p->tuner.workers};
    pst_status st = ring_reset(&p->ring, p->tuner.most_depth, reterr);
    if (st < 0)
        return st;
    apply_tuning(p);
    if (atomic_load(&p->cancelled)) /* cancelled between the reset and here: cancelling stops the ring, and it stays stopped */
        ring_stop(&p->ring);
    st = crew_start(&crew, &order, reterr);
    if (st == PST_OK)
        publish_crew(p, crew);
    return st;
}

/* The text of the chain, for those who look at the monitor; mem_free it. */
static char *chain_words(const struct chain *c)
{
    struct text t = {0};
    for (size_t i = 0; i < c->count; i++) {
        char *node = node_text(&c->nodes[i]);
        text_addf(&t, "%s%s", i ? " | " : "", node ? node : c->nodes[i].op->name);
        mem_free(node);
    }
    return t.data ? t.data : mem_strdup("");
}

/* The trace and the monitor live until the pipeline ends. */
static pst_status start_watching(pst_pipeline *p, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (p->options.trace && !p->trace)
        st = trace_create(&p->trace, p->plan->threads, p->options.trace, reterr);
    if (st == PST_OK && p->options.monitor && !p->monitor) {
        char *text = chain_words(&p->chain);
        st = text ? monitor_start(&p->monitor, p, p->options.monitor, text, reterr) : fail_memory(reterr, "starting");
        mem_free(text);
    }
    return st;
}

pst_status pst_pipeline_start(pst_pipeline *p, pst_error *reterr)
{
    pst_status st = pst_pipeline_plan(p, reterr);
    if (st < 0 || p->crew)
        return st;
    if (atomic_load(&p->cancelled))
        return pst_fail(reterr, PST_ECANCELLED, "the pipeline was cancelled");
    if (!p->borrows_chain)
        st = start_watching(p, reterr);
    return st < 0 ? st : start_crew(p, reterr);
}

static void stop_crew(pst_pipeline *p)
{
    struct crew *crew = p->crew;
    publish_crew(p, NULL);
    crew_stop(crew);
}

/* ---- Running ---- */

/* `time`: the present one. */
static void tune(pst_pipeline *p, uint64_t time)
{
    if (time - p->tuner.last.now_ns < TUNE_INTERVAL_NS)
        return;
    struct tune_sample now = {.now_ns = time, .consumer_wait_ns = cell_get(&p->delivery.wait_ns)};
    for (unsigned i = 0; i < p->plan->threads; i++) {
        now.worker_wait_ns += cell_get(&p->cells[i].wait_ns);
        now.worker_busy_ns += cell_get(&p->cells[i].busy_ns);
        now.probed_ns += cell_get(&p->cells[i].probed_ns);
        now.blocked_ns += cell_get(&p->cells[i].blocked_ns);
    }
    now.batch_bytes = batch_pool_mean(p->pool);
    pthread_mutex_lock(&p->ring.lock); /* statistics read the reasons */
    bool changed = tune_update(&p->tuner, &now);
    pthread_mutex_unlock(&p->ring.lock);
    if (changed)
        apply_tuning(p);
}

static pst_status fail_for_good(pst_pipeline *p, pst_status st, const pst_error *error, pst_error *reterr)
{
    p->failed = st;
    p->failure = *error;
    if (reterr)
        *reterr = *error;
    return st;
}

/* The entry whose turn it is, once it is ready; NULL: stopped. */
static struct entry *peek(pst_pipeline *p, size_t *ret_ready)
{
    uint64_t waited;
    struct entry *e = ring_peek(&p->ring, &waited, ret_ready);
    cell_add(&p->delivery.wait_ns, waited);
    return e;
}

pst_status pst_pipeline_next(pst_pipeline *p, pst_batch **ret, pst_error *reterr)
{
    pst_error error = {0};
    pst_status st = PST_OK;
    if (p->failed < 0)
        return fail_for_good(p, p->failed, &p->failure, reterr);
    if (!p->crew)
        st = pst_pipeline_start(p, reterr);
    if (st < 0)
        return st;
    uint64_t popped = 0;
    for (bool again = true; again;) {
        size_t ready;
        uint64_t asked = p->trace ? clock_ns() : 0;
        struct entry *e = peek(p, &ready);
        cell_add(&p->delivery.calls, 1);
        cell_add(&p->delivery.ready, ready);
        if (!e)
            return pst_fail(reterr, PST_ECANCELLED, "the pipeline was cancelled");
        uint64_t batch = TRACE_BATCH(e->epoch, e->after);
        st = pipeline_deliver(p, e, ret, &again, &error);
        if (st < 0)
            return fail_for_good(p, st, &error, reterr);
        popped = ring_pop(&p->ring);
        if (p->trace && st == PST_OK)
            trace_taken(p->trace, asked, batch, ready);
    }
    tune(p, popped);
    return st;
}

/* `next` would pass over the entry that is ready, and wait for another. A failure is left to it. */
static bool pass_over(pst_pipeline *p)
{
    size_t ready;
    bool again = false;
    pst_batch *none;
    pst_error error = {0};
    struct entry *e = peek(p, &ready);
    if (!e || !pipeline_batch_is_empty(p, e))
        return false;
    cell_add(&p->delivery.calls, 1);
    cell_add(&p->delivery.ready, ready);
    pst_status st = pipeline_deliver(p, e, &none, &again, &error);
    if (st < 0)
        return fail_for_good(p, st, &error, NULL), false;
    ring_pop(&p->ring);
    return again;
}

pst_status pst_pipeline_wait(pst_pipeline *p, double seconds, pst_error *reterr)
{
    pst_status st = p->failed < 0 || p->crew ? PST_OK : pst_pipeline_start(p, reterr);
    if (st < 0 || p->failed < 0)
        return st;
    uint64_t now = clock_ns(), most = RING_NO_DEADLINE - now - 1;
    uint64_t span = seconds >= (double)most * 1e-9 ? most : seconds > 0 ? (uint64_t)(seconds * 1e9) : 0;
    bool ready;
    do
        ready = ring_wait(&p->ring, now + span);
    while (ready && pass_over(p));
    return ready ? PST_OK : PST_TIMEOUT;
}

void pst_pipeline_cancel(pst_pipeline *p)
{
    atomic_store(&p->cancelled, true);
    ring_stop(&p->ring);
}

pst_status pst_pipeline_halt(pst_pipeline *p, double seconds)
{
    ring_stop(&p->ring);
    double milliseconds = seconds > 0 ? seconds * 1e3 : 0;
    return !p->crew || crew_wait(p->crew, milliseconds < UINT32_MAX ? (uint32_t)milliseconds : UINT32_MAX) ? PST_OK
                                                                                                           : PST_TIMEOUT;
}

pst_pipeline *pst_pipeline_destroy(pst_pipeline *p)
{
    if (!p)
        return NULL;
    monitor_stop(p->monitor);
    stop_crew(p);
    access_destroy(p->access);
    trace_destroy(p->trace);
    batch_pool_close(p->pool);
    pipeline_plan_destroy(p->plan);
    if (!p->borrows_chain)
        chain_finish(&p->chain);
    for (size_t i = 0; i < p->part_count; i++)
        pst_pipeline_destroy(p->parts[i]);
    mem_free(p->parts);
    arena_finish(&p->names);
    path_list_finish(&p->class_names);
    damage_account_finish(&p->damage);
    ring_finish(&p->ring);
    pthread_mutex_destroy(&p->judging);
    mem_free((void *)p->cells);
    mem_free(p->cache_dir);
    mem_free(p->monitor_dir);
    mem_free(p);
    return NULL;
}

/* ---- Resume ---- */

pst_status pst_pipeline_tell(pst_pipeline *p, pst_cursor *ret, pst_error *reterr)
{
    pst_status st = pst_pipeline_plan(p, reterr);
    if (st < 0)
        return st;
    pst_cursor_set(
        ret, &(pst_position){.fingerprint = p->plan->fingerprint, .seed = p->options.seed, .epoch = p->epoch, .next = p->next});
    return PST_OK;
}

pst_status pst_pipeline_seek(pst_pipeline *p, const pst_cursor *cursor, pst_error *reterr)
{
    pst_position at;
    pst_status st = pst_pipeline_plan(p, reterr);
    if (st == PST_OK)
        st = pst_cursor_get(cursor, &at, reterr);
    if (st == PST_OK)
        st = cursor_check(p->plan, p->options.seed, &at, reterr);
    if (st < 0)
        return st;
    stop_crew(p);
    p->epoch = at.epoch;
    p->next = at.next;
    p->failed = PST_OK;
    return PST_OK;
}

/* ---- What it is ---- */

const pst_spec *pst_pipeline_spec(pst_pipeline *p)
{
    return p->plan ? &p->plan->batch : NULL;
}

pst_status pst_pipeline_class_names(pst_pipeline *p, const char *const **ret, size_t *ret_count, pst_error *reterr)
{
    pst_status st = pst_pipeline_plan(p, reterr);
    if (st < 0)
        return st;
    const struct pipeline_plan *plan = p->plan;
    if (!p->has_class_names && plan->source_class->class_names) {
        struct path_list names = {0};
        st = plan->source_class->class_names(plan->source, &names, reterr);
        if (st < 0) {
            path_list_finish(&names);
            return st;
        }
        p->class_names = names;
        p->has_class_names = true;
    }
    *ret = (const char *const *)p->class_names.paths;
    *ret_count = p->class_names.count;
    return PST_OK;
}

uint64_t pst_pipeline_length(const pst_pipeline *p)
{
    uint64_t steps = p->plan ? feed_steps(&p->plan->order, &p->plan->split, 0) : ORDER_UNKNOWN;
    return steps >= ORDER_UNKNOWN ? PST_NOWHERE : steps;
}

bool pst_pipeline_endless(const pst_pipeline *p)
{
    return p->plan && feed_steps(&p->plan->order, &p->plan->split, 0) == ORDER_ENDLESS;
}

bool pst_pipeline_streams(const pst_pipeline *p)
{
    return p->plan && plan_streams(p->plan);
}

bool pst_pipeline_batched(const pst_pipeline *p)
{
    return p->plan && p->plan->batched;
}

uint64_t pst_pipeline_batch_size(const pst_pipeline *p)
{
    return p->plan ? p->plan->order.steps[p->plan->order.batch].size : 0;
}

const pst_damage_log *pst_pipeline_damage(const pst_pipeline *p)
{
    return p->damage.log;
}
