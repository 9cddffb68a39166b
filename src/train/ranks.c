/* ranks.c: see ranks.h. */
#include "train/ranks.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "train/checkpoint.h"

#include <inttypes.h>
#include <string.h>

#define BUCKET ((size_t)1 << 18) /* values */

/* ---- Making ---- */

/* Cuts the gradients into buckets, each a range that is final after so many announcements. */
static pst_status make_buckets(struct ranks *r, pst_trainer *t, pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    size_t *order = mem_array(g->param_count + 1, sizeof(*order));
    bool *final = mem_array(g->param_count + 1, sizeof(*final));
    size_t top = g->param_count, end = g->values;
    r->buckets = mem_array(g->param_count + g->values / BUCKET + 2, sizeof(*r->buckets));
    pst_status st = order && final && r->buckets ? PST_OK : fail_memory(reterr, "making the trainer");
    if (st == PST_OK)
        step_gradient_order(t->step, order);
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++) {
        final[order[i]] = true;
        while (top > 0 && final[top - 1])
            top--;
        size_t begin = top < g->param_count ? g->params[top].offset : g->values;
        if (end - begin < BUCKET && i + 1 < g->param_count)
            continue;
        for (begin = i + 1 == g->param_count ? 0 : begin; end > begin;) { /* a large parameter has several buckets: their updates follow their sums */
            size_t count = end - begin < 2 * BUCKET ? end - begin : BUCKET;
            end -= count;
            r->buckets[r->bucket_count++] = (struct bucket){.offset = end, .count = count, .after = i + 1};
        }
    }
    mem_free(order);
    mem_free(final);
    return st;
}

static pst_status make_memory(struct ranks *r, pst_trainer *t, pst_error *reterr)
{
    size_t values = t->model->graph->values * sizeof(float) + 64;
    r->statistic_count = step_statistic_count(t->step);
    size_t statistics = r->statistic_count * r->each;
    r->record_bytes = sizeof(struct rank_record) + r->each * sizeof(struct batch_record);
    r->mine = mem_zalloc(r->record_bytes);
    r->all = mem_array(r->size, r->record_bytes);
    r->statistics = mem_array(statistics + 1, sizeof(double));
    r->all_statistics = mem_array(statistics * r->size + 1, sizeof(double));
    if (!r->mine || !r->all || !r->statistics || !r->all_statistics)
        return fail_memory(reterr, "making the trainer");
    if (!r->exact || r->each == 1)
        return PST_OK;
    size_t count = r->each % 2 ? r->each : r->each / 2;
    r->kept = mem_array(count, sizeof(*r->kept));
    r->list = mem_array(count, sizeof(*r->list));
    for (size_t i = 0; r->kept && i < count; i++) {
        r->kept[i] = mem_large(values);
        if (!r->kept[i])
            break;
        memset(r->kept[i], 0, values);
        r->kept_count++;
    }
    return r->list && r->kept_count == count
               ? PST_OK
               : pst_fail(reterr, PST_ENOMEM, "exact ranks keep the gradients of %zu batches, %zu MB each: out of memory; use more ranks, or "
                                              "smaller --accumulate", count, values >> 20);
}

static void on_gradient(void *user, size_t p);

/* ---- Batch normalisation over all ranks ---- */

/* A failure shows in the next wait. */
static void share_sums(void *user, double *sums, size_t count, double *rows)
{
    pst_trainer *t = user;
    struct ranks *r = t->ranks;
    if (count + 1 > r->share_count)
        return;
    r->share_mine[0] = *rows;
    memcpy(r->share_mine + 1, sums, count * sizeof(*sums));
    if (pst_comm_gather(r->comm, r->share_mine, (count + 1) * sizeof(*sums), r->share_all, NULL) < 0)
        return;
    memset(sums, 0, count * sizeof(*sums));
    *rows = 0;
    for (unsigned k = 0; k < r->size; k++) {
        const double *from = r->share_all + k * (count + 1);
        *rows += from[0];
        for (size_t i = 0; i < count; i++)
            sums[i] += from[1 + i];
    }
}

static pst_status make_shared_norm(struct ranks *r, pst_trainer *t, pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    if (!t->options.sync_norm || r->size == 1)
        return PST_OK;
    if (r->exact)
        return pst_fail(reterr, PST_EINVAL, "statistics over all ranks depend on their number: choose exact ranks or sync_norm");
    r->share_count = 3;
    for (size_t p = 0; p < g->param_count; p++)
        if (g->params[p].layer.fixed && 2 * g->params[p].count + 1 > r->share_count)
            r->share_count = 2 * g->params[p].count + 1;
    r->share_mine = mem_array(r->share_count, sizeof(double));
    r->share_all = mem_array(r->share_count * r->size, sizeof(double));
    if (!r->share_mine || !r->share_all)
        return fail_memory(reterr, "making the trainer");
    step_share_sums(t->step, share_sums, t);
    return PST_OK;
}

pst_status ranks_create(struct ranks **ret, pst_trainer *t, pst_comm *comm, pst_error *reterr)
{
    struct ranks *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory(reterr, "making the trainer");
    r->exact = t->options.exact_ranks;
    r->each = t->options.accumulate;
    r->number = t->options.gradients == PST_GRADIENTS_FLOAT16 ? COMM_F16 : COMM_F32;
    pst_status st = comm ? PST_OK : comm_create(&r->comm, NULL, NULL, NULL, reterr);
    r->own = !comm;
    r->comm = comm ? comm : r->comm;
    size_t leaves = r->each;
    for (; leaves && leaves % 2 == 0; leaves /= 2)
        ;
    if (st == PST_OK && r->exact && leaves > COMM_MOST_LEAVES)
        st = pst_fail(reterr, PST_EINVAL, "exact ranks with %u batches per rank and update: the odd factor %zu of that number is above %d; use a "
                                          "power of two", r->each, leaves, COMM_MOST_LEAVES);
    if (st == PST_OK) {
        r->rank = pst_comm_rank(r->comm);
        r->size = pst_comm_size(r->comm);
        st = make_buckets(r, t, reterr);
    }
    if (st == PST_OK)
        st = make_memory(r, t, reterr);
    if (st == PST_OK)
        st = make_shared_norm(r, t, reterr);
    if (st < 0) {
        ranks_destroy(r);
        return st;
    }
    step_on_gradient(t->step, on_gradient, t);
    *ret = r;
    return PST_OK;
}

struct ranks *ranks_destroy(struct ranks *r)
{
    if (!r)
        return NULL;
    if (r->own)
        pst_comm_close(r->comm);
    for (size_t i = 0; i < r->kept_count; i++)
        mem_free(r->kept[i]);
    mem_free(r->kept);
    mem_free(r->list);
    mem_free(r->buckets);
    mem_free(r->mine);
    mem_free(r->all);
    mem_free(r->statistics);
    mem_free(r->all_statistics);
    mem_free(r->share_mine);
    mem_free(r->share_all);
    mem_free(r);
    return NULL;
}

size_t ranks_bytes(const struct ranks *r, const pst_trainer *t)
{
    return r->kept_count * t->model->graph->values * sizeof(float) + r->statistic_count * r->each * (r->size + 1) * sizeof(double);
}

/* ---- Records ---- */

static const struct rank_record *record_of(const struct ranks *r, unsigned rank)
{
    return (const struct rank_record *)((const char *)r->all + rank * r->record_bytes);
}

const struct batch_record *ranks_batch(const struct ranks *r, uint64_t i)
{
    unsigned rank = (unsigned)(i % r->size);
    return i < r->batches && i / r->size < record_of(r, rank)->batches ? &record_of(r, rank)->batch[i / r->size] : NULL;
}

/* Whether the update happens: called when the records of all ranks are there. */
static bool judge(void *user)
{
    struct ranks *r = user;
    r->batches = r->samples = 0;
    r->stopped = false;
    for (unsigned k = 0; k < r->size; k++) {
        const struct rank_record *x = record_of(r, k);
        r->batches += x->batches;
        r->stopped |= x->stops;
        for (uint32_t b = 0; b < x->batches; b++)
            r->samples += x->batch[b].samples;
    }
    r->ended = r->batches < (uint64_t)r->size * r->each;
    r->goes = !r->stopped && r->samples > 0;
    return r->goes;
}

static void post_records(struct ranks *r, uint32_t batches)
{
    r->mine->batches = batches;
    r->mine->stops = r->stops;
    comm_post_gather(r->comm, r->mine, r->record_bytes, r->all, judge, r);
    comm_post_gather(r->comm, r->statistics, r->statistic_count * r->each * sizeof(double), r->all_statistics, NULL, NULL);
    r->records_posting = comm_posted(r->comm);
}

/* ---- Gradients ---- */

/* Which kept gradients a batch goes to, and whether it is the first there. */
static float *keep_of(const struct ranks *r, uint64_t batch, bool *ret_first)
{
    *ret_first = batch < r->kept_count;
    return r->kept[*ret_first ? batch : batch - r->kept_count];
}

static void take_range(float weight, const float *g, float *to, bool first, size_t count)
{
    if (first && weight == 1)
        memcpy(to, g, count * sizeof(float));
    else
        for (size_t i = 0; i < count; i++)
            to[i] = first ? weight * g[i] : to[i] + weight * g[i];
}

/* Posts the sum of a bucket whose last gradients are in `t->grads`; `absent`: there are none. */
static void post_bucket(pst_trainer *t, struct bucket *b, bool absent)
{
    struct ranks *r = t->ranks;
    float *g = t->grads + b->offset, *sum = optimizer_state(t->optimizer, 3);
    float *leaves[COMM_MOST_LEAVES];
    size_t count = 1;
    if (r->each == 1) {
        if (absent)
            memset(g, 0, b->count * sizeof(float));
        else if (r->weight != 1)
            take_range(r->weight, g, g, true, b->count);
        leaves[0] = g;
    } else if (!r->exact) {
        if (!absent)
            take_range(r->weight, g, sum + b->offset, t->accumulated == 0, b->count);
        else if (t->accumulated == 0)
            memset(sum + b->offset, 0, b->count * sizeof(float));
        leaves[0] = sum + b->offset;
    } else {
        bool first;
        float *to = absent ? NULL : keep_of(r, r->each - 1, &first);
        if (to)
            take_range(r->weight, g, to + b->offset, first, b->count);
        for (size_t i = 0; i < r->kept_count; i++)
            r->list[i] = r->kept[i] + b->offset;
        count = comm_halve_leaves(r->list, r->kept_count, b->count);
        memcpy(leaves, r->list, count * sizeof(*leaves));
    }
    comm_post_sum(r->comm, leaves, count, leaves[0], b->count, r->number);
    b->posting = comm_posted(r->comm);
}

pst_status ranks_wait_bucket(pst_trainer *t, size_t i, pst_error *reterr)
{
    return comm_wait_for(t->ranks->comm, t->ranks->buckets[i].posting, reterr);
}

/* Called by the backward pass: posts the buckets that are final. */
static void on_gradient(void *user, size_t p)
{
    pst_trainer *t = user;
    struct ranks *r = t->ranks;
    (void)p;
    if (!r || !r->last)
        return;
    r->announced++;
    for (; r->posted < r->bucket_count && r->buckets[r->posted].after <= r->announced; r->posted++)
        post_bucket(t, &r->buckets[r->posted], false);
}

struct keep_job {
    pst_trainer *t;
    float *to;
    bool first;
};

static void keep_part(void *user, unsigned worker)
{
    const struct keep_job *j = user;
    size_t values = j->t->model->graph->values, threads = team_size(step_team(j->t->step));
    size_t begin = values * worker / threads, end = values * (worker + 1) / threads;
    take_range(j->t->ranks->weight, j->t->grads + begin, j->to + begin, j->first, end - begin);
}

/* A batch that is missing counts as gradients of 0: they are added, as another rank would send them. */
static void keep_zeros(pst_trainer *t, uint64_t batch)
{
    bool first;
    float *to = keep_of(t->ranks, batch, &first);
    for (size_t i = 0; i < t->model->graph->values; i++)
        to[i] = first ? 0 : to[i] + 0.0f;
}

/* ---- Batches ---- */

void ranks_begin_batch(pst_trainer *t)
{
    struct ranks *r = t->ranks;
    step_set_passes(t->step, (t->steps * r->each + t->accumulated) * r->size + r->rank);
    step_keep_statistics(t->step, r->statistic_count ? r->statistics + t->accumulated * r->statistic_count : NULL);
}

void ranks_record(pst_trainer *t, const struct batch_record *batch)
{
    struct ranks *r = t->ranks;
    r->mine->batch[t->accumulated] = *batch;
    r->weight = (float)((double)batch->samples / (double)t->options.batch);
    if (r->share_mine && r->weight != 1) { /* sums over all ranks need gradients that count by samples from the beginning */
        for (size_t i = 0; i < batch->samples * t->width; i++)
            t->dout[i] *= r->weight;
        r->weight = 1;
    }
    r->last = t->accumulated + 1 == r->each;
    r->announced = r->posted = 0;
    if (r->last)
        post_records(r, r->each);
}

/* Everything was posted: waits for the records, and updates the moving statistics in the order of the batches. An update that is left
 * out has no sums to wait for. */
static pst_status finish(pst_trainer *t, float **ret_grads, double *ret_scale, pst_error *reterr)
{
    struct ranks *r = t->ranks;
    pst_status st = comm_wait_for(r->comm, r->records_posting, reterr);
    t->accumulated = t->accumulated_samples = 0;
    r->last = false;
    if (st < 0 || !r->goes)
        return st < 0 ? st : comm_wait(r->comm, reterr);
    for (uint64_t i = 0; i < r->batches; i++)
        if (ranks_batch(r, i) && r->statistic_count && (!r->share_mine || i % r->size == 0)) /* shared ones are the same on all ranks */
            step_apply_statistics(t->step, r->all_statistics + ((i % r->size) * r->each + i / r->size) * r->statistic_count, t->params);
    *ret_grads = r->each == 1 ? t->grads : r->exact ? r->kept[0] : optimizer_state(t->optimizer, 3);
    *ret_scale = (double)t->options.batch / (double)r->samples;
    return PST_OK;
}

pst_status ranks_end_batch(pst_trainer *t, float **ret_grads, double *ret_scale, pst_error *reterr)
{
    struct ranks *r = t->ranks;
    *ret_grads = NULL;
    if (r->last) {
        for (; r->posted < r->bucket_count; r->posted++) /* parameters of nodes that do not run have no announcement */
            post_bucket(t, &r->buckets[r->posted], false);
        return finish(t, ret_grads, ret_scale, reterr);
    }
    struct keep_job j = {.t = t, .first = t->accumulated == 0};
    j.to = r->exact ? keep_of(r, t->accumulated, &j.first) : optimizer_state(t->optimizer, 3);
    team_run(step_team(t->step), keep_part, &j);
    t->accumulated++;
    return PST_OK;
}

pst_status ranks_flush(pst_trainer *t, float **ret_grads, double *ret_scale, pst_error *reterr)
{
    struct ranks *r = t->ranks;
    *ret_grads = NULL;
    post_records(r, (uint32_t)t->accumulated);
    pst_status st = comm_wait(r->comm, reterr);
    for (uint64_t i = t->accumulated; st == PST_OK && r->goes && r->kept && i < r->each; i++)
        keep_zeros(t, i);
    for (size_t i = 0; st == PST_OK && r->goes && i < r->bucket_count; i++)
        post_bucket(t, &r->buckets[i], true);
    return st < 0 ? st : finish(t, ret_grads, ret_scale, reterr);
}

/* ---- The same trainer on every rank ---- */

static uint64_t options_hash(const pst_trainer *t, uint64_t pipeline, uint64_t teacher)
{
    const pst_train_options *o = &t->options;
    double numbers[] = {(double)o->batch, (double)o->seed, o->loss, o->label_smoothing, o->optimizer, o->rate, o->momentum, o->beta1, o->beta2,
                        o->epsilon, o->weight_decay, o->clip_norm, o->clip_value, o->ema, o->schedule, (double)o->warmup_steps,
                        (double)o->total_steps, (double)o->schedule_every, o->gamma, o->min_rate, o->plateau_patience, o->accumulate, o->mixed,
                        o->exact_ranks, o->gradients, o->sync_norm, o->temperature, o->alpha, o->feature_weight, (double)o->feature_count,
                        (double)o->class_count};
    uint64_t hash = hash_bytes(numbers, sizeof(numbers), hash_combine(pipeline, teacher));
    for (size_t k = 0; k < o->feature_count; k++) /* where each tap is */
        for (size_t i = 0; i < t->tapped->count; i++)
            if (t->tapped->nodes[i].config == (const void *)&t->taps[k])
                hash = hash_combine(hash, i);
    if (t->class_weights)
        hash = hash_bytes(t->class_weights, o->class_count * sizeof(*t->class_weights), hash);
    return hash_combine(hash_bytes(t->model->text, strlen(t->model->text), hash), prune_hash(t->prune));
}

pst_status ranks_compare(pst_trainer *t, uint64_t pipeline, uint64_t teacher, pst_error *reterr)
{
    struct ranks *r = t->ranks;
    if (r->size == 1)
        return PST_OK;
    uint64_t mine[2] = {options_hash(t, pipeline, teacher), pipeline}, *all = mem_array(2 * (size_t)r->size, sizeof(*all));
    if (!all)
        return fail_memory(reterr, "comparing the ranks");
    pst_status st = pst_comm_gather(r->comm, mine, sizeof(mine), all, reterr);
    for (unsigned k = 1; st == PST_OK && k < r->size; k++)
        if (all[2 * k] != all[0])
            st = pst_fail(reterr, PST_EINVAL, "rank %u trains with %s than rank 0: start all ranks with the same command", k,
                          all[2 * k + 1] != all[1] ? "other data" : "other options");
    mem_free(all);
    return st;
}

pst_status ranks_share(pst_trainer *t, struct run_state *state, pst_error *reterr)
{
    struct ranks *r = t->ranks;
    size_t bytes = t->model->graph->values * sizeof(float);
    struct {
        uint64_t steps;
        struct schedule_state schedule;
        struct loss_scale scale;
    } place = {t->steps, t->schedule, t->scale};
    if (r->size == 1)
        return PST_OK;
    pst_status st = pst_comm_broadcast(r->comm, &place, sizeof(place), 0, reterr);
    if (st == PST_OK)
        st = pst_comm_broadcast(r->comm, t->params, bytes, 0, reterr);
    for (size_t i = 0; st == PST_OK && i < 3; i++)
        if (optimizer_state(t->optimizer, i))
            st = pst_comm_broadcast(r->comm, optimizer_state(t->optimizer, i), bytes, 0, reterr);
    for (size_t i = 0; st == PST_OK && t->prune && i < t->model->graph->param_count; i++)
        if (prune_mask(t->prune, i))
            st = pst_comm_broadcast(r->comm, (uint8_t *)(uintptr_t)prune_mask(t->prune, i), (t->model->graph->params[i].count + 7) / 8, 0, reterr);
    if (st == PST_OK && state)
        st = pst_comm_broadcast(r->comm, state, sizeof(*state), 0, reterr);
    if (st == PST_OK) {
        t->steps = place.steps;
        t->schedule = place.schedule;
        t->scale = place.scale;
    }
    return st;
}
