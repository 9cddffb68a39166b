/* metrics_merge.c: metrics of all ranks from those of each: see metrics_merge in metrics.h. */
#include "train/metrics.h"

#include "base/error.h"
#include "base/memory.h"
#include "dist/comm.h"

#include <string.h>

/* What ranks tell each other first. */
struct outline {
    int64_t status;
    uint64_t batches, scores;
};

/* Gathers `count` items of `size` bytes of every rank, where `most` is the largest count; the result has `most` per rank. NULL: failed. */
static void *gather_items(pst_comm *comm, const void *items, size_t count, size_t most, size_t size, pst_status *st, pst_error *reterr)
{
    char *mine = mem_array(most + 1, size), *all = mem_array(most * pst_comm_size(comm) + 1, size);
    if (!mine || !all)
        *st = fail_memory(reterr, "evaluating"); /* the other ranks wait: the caller ends the job */
    if (*st == PST_OK && count)
        memcpy(mine, items, count * size);
    if (*st == PST_OK)
        *st = pst_comm_gather(comm, mine, most * size, all, reterr);
    mem_free(mine);
    if (*st < 0) {
        mem_free(all);
        all = NULL;
    }
    return all;
}

static pst_status merge_sums(struct metrics *m, pst_comm *comm, const struct outline *o, size_t most, pst_error *reterr)
{
    pst_status st = PST_OK;
    unsigned ranks = pst_comm_size(comm);
    struct metrics_sums *all = gather_items(comm, m->batches, m->batch_count, most, sizeof(*all), &st, reterr);
    if (!all)
        return st;
    m->sums = (struct metrics_sums){0};
    for (size_t j = 0; j < most; j++)
        for (unsigned r = 0; r < ranks; r++)
            if (j < o[r].batches)
                metrics_add_sums(&m->sums, &all[r * most + j]);
    mem_free(all);
    return PST_OK;
}

static pst_status merge_confusion(struct metrics *m, pst_comm *comm, pst_error *reterr)
{
    pst_status st = PST_OK;
    size_t count = m->classes * m->classes;
    uint64_t *all = gather_items(comm, m->confusion, count, count, sizeof(*all), &st, reterr);
    for (size_t i = 0; all && i < count; i++) {
        m->confusion[i] = 0;
        for (unsigned r = 0; r < pst_comm_size(comm); r++)
            m->confusion[i] += all[r * count + i];
    }
    mem_free(all);
    return st;
}

static pst_status merge_spreads(struct metrics *m, pst_comm *comm, pst_error *reterr)
{
    pst_status st = PST_OK;
    struct spread *all = gather_items(comm, m->spreads, m->spread_count, m->spread_count, sizeof(*all), &st, reterr);
    for (size_t k = 0; all && k < m->spread_count; k++) {
        m->spreads[k] = (struct spread){0};
        for (unsigned r = 0; r < pst_comm_size(comm); r++) {
            const struct spread *s = &all[r * m->spread_count + k];
            m->spreads[k].sum += s->sum;
            m->spreads[k].squares += s->squares;
            m->spreads[k].errors += s->errors;
        }
    }
    mem_free(all);
    return st;
}

/* Their order does not matter: they are sorted. */
static pst_status merge_scores(struct metrics *m, pst_comm *comm, const struct outline *o, size_t most, pst_error *reterr)
{
    pst_status st = PST_OK;
    size_t count = 0;
    struct score *all = gather_items(comm, m->scores, m->score_count, most, sizeof(*all), &st, reterr);
    if (!all)
        return st;
    for (unsigned r = 0; r < pst_comm_size(comm); r++) {
        memmove(all + count, all + r * most, o[r].scores * sizeof(*all));
        count += o[r].scores;
    }
    mem_free(m->scores);
    m->scores = all;
    m->score_count = m->score_capacity = count;
    return PST_OK;
}

pst_status metrics_merge(struct metrics *m, pst_comm *comm, pst_status status, pst_error *reterr)
{
    struct outline mine = {.status = status, .batches = m->batch_count, .scores = m->score_count};
    unsigned ranks = pst_comm_size(comm);
    size_t batches = 0, scores = 0;
    struct outline *o = mem_array(ranks, sizeof(*o));
    pst_status st = o ? PST_OK : fail_memory(reterr, "evaluating");
    if (st == PST_OK)
        st = pst_comm_gather(comm, &mine, sizeof(mine), o, reterr);
    for (unsigned r = 0; st == PST_OK && r < ranks; r++) {
        batches = o[r].batches > batches ? (size_t)o[r].batches : batches;
        scores = o[r].scores > scores ? (size_t)o[r].scores : scores;
        if (o[r].status < 0)
            st = status < 0 ? status : pst_fail(reterr, (pst_status)o[r].status, "the evaluation of rank %u has ended", r);
    }
    if (st == PST_OK)
        st = merge_sums(m, comm, o, batches, reterr);
    if (st == PST_OK && m->confusion)
        st = merge_confusion(m, comm, reterr);
    if (st == PST_OK && m->spread_count)
        st = merge_spreads(m, comm, reterr);
    if (st == PST_OK && m->width)
        st = merge_scores(m, comm, o, scores, reterr);
    mem_free(o);
    return st;
}
