/* profile.c: see profile.h. */
#include "train/profile.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/publish.h"
#include "report/trace_writer.h"
#include "train/trainer.h"

#include <string.h>

#define MOST_SPANS 200000

void profile_finish(struct profile *p)
{
    mem_free(p->spans);
    mem_free(p->seen);
    *p = (struct profile){0};
}

/* Blocks run one after the other: their times since the last step are laid side by side within their pass. */
static void keep_blocks(struct profile *p, struct step *s, struct profile_span *to, const uint64_t marks[PARTS + 1])
{
    for (size_t pass = 0; pass < 2; pass++) {
        uint64_t at = marks[pass ? PART_BACKWARD : PART_FORWARD] - p->began;
        for (size_t k = 0; k < p->blocks; k++) {
            size_t block = pass ? p->blocks - 1 - k : k;
            struct step_block_times t = step_block_times(s, block);
            uint64_t total = pass ? t.backward.total : t.forward.total, *seen = &p->seen[pass * p->blocks + block];
            to[pass * p->blocks + block] = (struct profile_span){at, total - *seen};
            at += total - *seen;
            *seen = total;
        }
    }
}

void profile_step(struct profile *p, struct step *s, const uint64_t marks[PARTS + 1], size_t samples)
{
    struct profile_span *to = p->kept < p->room ? p->spans + p->kept * (PARTS + 2 * p->blocks) : NULL;
    for (size_t i = 0; i < PARTS; i++) {
        p->sum[i] += marks[i + 1] - marks[i];
        if (to)
            to[i] = (struct profile_span){marks[i] - p->began, marks[i + 1] - marks[i]};
    }
    if (to) {
        keep_blocks(p, s, to + PARTS, marks);
        p->kept++;
    }
    p->steps++;
    p->samples += samples;
}

pst_status pst_trainer_measure(pst_trainer *t, bool on, pst_error *reterr)
{
    struct profile *p = &t->profile;
    step_measure(t->step, on);
    if (!on) {
        p->on = false;
        return PST_OK;
    }
    profile_finish(p);
    p->blocks = step_block_count(t->step);
    p->room = MOST_SPANS / (PARTS + 2 * p->blocks);
    p->spans = mem_array(p->room * (PARTS + 2 * p->blocks) + 1, sizeof(*p->spans));
    p->seen = mem_array(2 * p->blocks + 1, sizeof(*p->seen));
    if (!p->spans || !p->seen) {
        profile_finish(p);
        return fail_memory(reterr, "measuring");
    }
    p->on = true;
    p->began = clock_ns();
    return PST_OK;
}

bool pst_trainer_stats(const pst_trainer *t, pst_train_stats *ret)
{
    const struct profile *p = &t->profile;
    double each = p->steps ? 1e-9 / (double)p->steps : 0;
    if (result_check(ret, NULL) < 0 || p->steps == 0)
        return false;
    pst_train_stats found = {.steps = p->steps,
                             .samples = (double)p->samples / (double)p->steps,
                             .forward = each * (double)p->sum[PART_FORWARD],
                             .loss = each * (double)p->sum[PART_LOSS],
                             .backward = each * (double)p->sum[PART_BACKWARD],
                             .update = each * (double)p->sum[PART_UPDATE]};
    result_give(ret, &found, sizeof(found));
    return true;
}

/* Bytes that the nodes of a block read and write at least: inputs, results, parameters, and in the backward pass their gradients. */
static void count_bytes(const struct graph *g, size_t first, size_t count, double samples, pst_layer_stats *ret)
{
    const struct graph_node *a = &g->nodes[first], *z = &g->nodes[first + count - 1];
    double in = 0, out = (double)shape_values(&z->out) * samples, params = 0;
    for (size_t i = 0; i < a->inputs; i++)
        in += (double)shape_values(&a->in[i]) * samples;
    for (size_t n = first; n < first + count; n++)
        for (size_t i = 0; i < g->nodes[n].params; i++)
            params += (double)g->params[g->nodes[n].first_param + i].count;
    ret->forward_bytes = (uint64_t)(sizeof(float) * (in + out + params));
    ret->backward_bytes = (uint64_t)(sizeof(float) * (in + out + (first ? in : 0) + 2 * params));
}

bool pst_trainer_stats_at(const pst_trainer *t, size_t i, pst_layer_stats *ret)
{
    const struct profile *p = &t->profile;
    if (result_check(ret, NULL) < 0 || p->steps == 0 || i >= step_block_count(t->step))
        return false;
    size_t first = 0;
    for (size_t k = 0; k < i; k++)
        first += step_block_times(t->step, k).nodes;
    struct step_block_times b = step_block_times(t->step, i);
    double each = 1e-9 / (double)p->steps, samples = (double)p->samples / (double)p->steps;
    pst_layer_stats found = {.layer = b.layer,
                             .layers = b.nodes,
                             .implementation = b.kind,
                             .why = b.why,
                             .forward = each * (double)b.forward.total,
                             .backward = each * (double)b.backward.total,
                             .forward_flops = (uint64_t)((double)b.flops * samples),
                             .backward_flops = (uint64_t)((double)b.flops * samples * (first ? 2 : 1))};
    count_bytes(t->model->graph, first, b.nodes, samples, &found);
    result_give(ret, &found, sizeof(found));
    return true;
}

pst_status pst_trainer_write_trace(const pst_trainer *t, const char *path, pst_error *reterr)
{
    static const char *const parts[PARTS] = {"forward", "loss", "backward", "update"};
    const struct profile *p = &t->profile;
    struct text text = {0};
    struct trace_writer trace;
    if (p->kept == 0)
        return pst_fail(reterr, PST_EINVAL, "no step has been measured");
    trace_begin(&trace, &text, 1, "penstock train");
    trace_track(&trace, 1, "step");
    trace_track(&trace, 2, "layers");
    for (size_t s = 0; s < p->kept; s++) {
        const struct profile_span *spans = p->spans + s * (PARTS + 2 * p->blocks);
        for (size_t i = 0; i < PARTS; i++)
            trace_span(&trace, 1, "step", parts[i], 1e-3 * (double)spans[i].begin, 1e-3 * (double)spans[i].length, TRACE_NO_BATCH);
        for (size_t i = 0; i < 2 * p->blocks; i++)
            trace_span(&trace, 2, i < p->blocks ? "forward" : "backward", step_block_times(t->step, i % p->blocks).layer,
                       1e-3 * (double)spans[PARTS + i].begin, 1e-3 * (double)spans[PARTS + i].length, TRACE_NO_BATCH);
    }
    trace_end(&trace);
    pst_status st = text.failed ? fail_memory(reterr, "writing the trace") : publish_bytes(path, text.data, text.length, true, false, reterr);
    text_finish(&text);
    return st;
}
