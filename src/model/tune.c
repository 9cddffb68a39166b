/* tune.c: see tune.h. In round k every convolution runs by its k-th candidate, so that there are as many rounds as the shape with the most
 * candidates has; the fastest pass of each block counts, forward and backward together. */
#include "model/tune.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/kernel_table.h"

#include <math.h>

#define PASSES     5
#define CANDIDATES 8
#define GAIN       0.97 /* another kernel than the usual one takes at most this share of its time */

/* One shape of convolution, and what its candidates took. */
struct trial {
    struct kernel_key key;
    const struct conv_kernel *usual;
    unsigned blocks; /* of this shape */
    unsigned rivals;
    double seconds[CANDIDATES]; /* of all blocks of this shape */
};

struct tuning {
    const struct graph *graph;
    const struct tune_options *options;
    struct kernel_table usual;
    struct trial *trials;
    float *params, *grads, *input, *dout;
};

static pst_status make_step(const struct tuning *t, const struct kernel_table *kernels, struct step **ret, pst_error *reterr)
{
    struct step_options o = {.batch = t->options->batch,
                             .threads = t->options->threads,
                             .training = true,
                             .logits = true,
                             .features = t->options->features,
                             .store = t->options->store,
                             .kernels = kernels};
    return step_create(ret, t->graph, &o, reterr);
}

static void fill(float *values, size_t count, uint64_t seed, float size)
{
    struct random r;
    random_init(&r, seed, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        values[i] = size * (float)(random_unit(&r) - 0.5);
}

static pst_status prepare(struct tuning *t, pst_error *reterr)
{
    struct step *s = NULL;
    pst_status st = make_step(t, NULL, &s, reterr);
    if (st < 0)
        return st;
    size_t in = t->options->batch * shape_values(&t->graph->input), out = t->options->batch * shape_values(step_out_shape(s));
    bool ok = step_kernels(s, &t->usual);
    step_destroy(s);
    t->trials = mem_array(t->usual.count + 1, sizeof(*t->trials));
    t->params = mem_large((t->graph->values + 1) * sizeof(float));
    t->grads = mem_large((t->graph->values + 1) * sizeof(float));
    t->input = mem_large(in * sizeof(float));
    t->dout = mem_large(out * sizeof(float));
    if (!ok || !t->trials || !t->params || !t->grads || !t->input || !t->dout)
        return fail_memory(reterr, "tuning kernels");
    fill(t->input, in, 1, 2);
    fill(t->dout, out, 2, 0.01F);
    for (size_t i = 0; i < t->usual.count; i++) {
        struct trial *x = &t->trials[i];
        x->key = t->usual.list[i].key;
        x->usual = t->usual.list[i].kernel;
        while (x->rivals < CANDIDATES && conv_kernel_rival(x->rivals, &x->key.shape, t->options->features))
            x->rivals++;
    }
    return PST_OK;
}

static const struct conv_kernel *rival(const struct tuning *t, const struct trial *x, unsigned k)
{
    return conv_kernel_rival(k < x->rivals ? k : 0, &x->key.shape, t->options->features);
}

static pst_status run_passes(struct tuning *t, struct step *s, pst_error *reterr)
{
    unsigned passes = t->options->passes ? t->options->passes : PASSES;
    const void *out;
    pst_status st = PST_OK;
    graph_init_params(t->graph, 1, t->params);
    for (unsigned i = 0; st == PST_OK && i <= passes; i++) {
        if (i == 1) /* the first one warms up */
            step_measure(s, true);
        st = step_forward(s, t->input, PST_DTYPE_F32, t->options->batch, t->params, true, &out, reterr);
        if (st == PST_OK)
            step_backward(s, t->dout, t->grads);
    }
    return st;
}

/* Candidate number `k` of every shape. */
static pst_status run_round(struct tuning *t, unsigned k, pst_error *reterr)
{
    struct kernel_table table = {0};
    struct step *s = NULL;
    bool ok = true;
    for (size_t i = 0; ok && i < t->usual.count; i++)
        ok = kernel_table_set(&table, &t->trials[i].key, rival(t, &t->trials[i], k));
    pst_status st = ok ? make_step(t, &table, &s, reterr) : fail_memory(reterr, "tuning kernels");
    if (st == PST_OK)
        st = run_passes(t, s, reterr);
    for (size_t b = 0; st == PST_OK && b < step_block_count(s); b++) {
        struct kernel_entry e;
        struct step_block_times times = step_block_times(s, b);
        for (size_t i = 0; step_block_kernel(s, b, &e) && i < t->usual.count; i++)
            if (kernel_key_same(&e.key, &t->trials[i].key) && k < t->trials[i].rivals) {
                t->trials[i].seconds[k] += 1e-9 * (double)(times.forward.best + times.backward.best);
                t->trials[i].blocks += k == 0;
            }
    }
    step_destroy(s);
    kernel_table_finish(&table);
    return st;
}

static void put_choice(const struct tuning *t, const struct trial *x, struct text *to)
{
    struct kernel_entry best = {x->key, x->usual};
    double least = INFINITY;
    for (unsigned k = 0; k < x->rivals; k++)
        if (rival(t, x, k) == x->usual)
            least = x->seconds[k] * GAIN;
    for (unsigned k = 0; k < x->rivals; k++)
        if (x->seconds[k] < least) {
            least = x->seconds[k];
            best.kernel = rival(t, x, k);
        }
    kernel_entry_print(&best, to);
    text_addf(to, "  # ");
    for (unsigned k = 0; k < x->rivals; k++)
        text_addf(to, "%s%s %.3f ms", k ? "; " : "", rival(t, x, k)->name, 1e3 * x->seconds[k] / (x->blocks ? x->blocks : 1));
    text_add(to, "\n");
}

pst_status tune_kernels(const struct graph *g, const struct tune_options *o, struct text *to, pst_error *reterr)
{
    struct tuning t = {.graph = g, .options = o};
    unsigned rounds = 0;
    pst_status st = prepare(&t, reterr);
    for (size_t i = 0; st == PST_OK && i < t.usual.count; i++)
        rounds = t.trials[i].rivals > rounds ? t.trials[i].rivals : rounds;
    for (unsigned k = 0; st == PST_OK && k < rounds; k++) {
        st = run_round(&t, k, reterr);
        if (st == PST_OK && o->progress && o->progress(o->user, k + 1, rounds))
            st = pst_fail(reterr, PST_ECANCELLED, "tuning was stopped");
    }
    for (size_t i = 0; st == PST_OK && i < t.usual.count; i++)
        put_choice(&t, &t.trials[i], to);
    if (st == PST_OK && to->failed)
        st = fail_memory(reterr, "tuning kernels");
    kernel_table_finish(&t.usual);
    mem_free(t.trials);
    mem_free(t.params);
    mem_free(t.grads);
    mem_free(t.input);
    mem_free(t.dout);
    return st;
}
