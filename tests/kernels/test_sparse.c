/* test_sparse.c: the sparse kernels against plain sums in double: random shapes, zeros, tails, bias, additions, clamps; the same bits on every
 * instruction set and wherever a pixel lies. `--bench` times them beside the dense kernels on the shapes of usual models instead. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/random.h"
#include "harness.h"
#include "levels.h"
#include "model/kernels/conv.h"
#include "model/kernels/sparse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GUARD 16 /* floats */

static void *allocate_aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!p)
        abort();
    return p;
}

struct task {
    struct sparse_job job;
    float *kernel, *in, *bias, *add;
};

static float *random_floats(struct random *r, size_t count)
{
    float *p = allocate(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        p[i] = (float)random_between(r, -1, 1);
    return p;
}

static struct task task_make(struct random *r, size_t pixels, size_t ci, size_t co, double zeros)
{
    struct task t = {.job = {.pixels = pixels, .ci = ci, .co = co, .low = random_below(r, 2) ? 0 : -INFINITY, .high = random_below(r, 2) ? 6 : INFINITY}};
    t.kernel = random_floats(r, ci * co);
    for (size_t i = 0; i < ci * co; i++)
        t.kernel[i] = random_between(r, 0, 1) < zeros ? 0 : t.kernel[i];
    t.job.in = t.in = random_floats(r, pixels * ci);
    t.job.bias = t.bias = random_below(r, 3) ? random_floats(r, co) : NULL;
    t.job.add = t.add = random_below(r, 3) == 0 ? random_floats(r, pixels * co) : NULL;
    return t;
}

static void task_free(struct task *t)
{
    free(t->kernel), free(t->in), free(t->bias), free(t->add);
}

/* The result between canaries. */
static float *run(const struct task *t, const struct sparse_kernel *k)
{
    struct sparse_job j = t->job;
    size_t count = sparse_count(t->kernel, j.ci, j.co);
    struct sparse_term *terms = allocate((count + 1) * sizeof(*terms));
    uint32_t *first = allocate((j.co + 1) * sizeof(*first));
    void *scratch = allocate_aligned(k->scratch_bytes(j.ci, j.co));
    float *out = allocate((j.pixels * j.co + 2 * GUARD) * sizeof(float));
    memset(out, CANARY, (j.pixels * j.co + 2 * GUARD) * sizeof(float));
    sparse_pack(t->kernel, j.ci, j.co, k->block(j.ci), terms, first);
    j.terms = terms;
    j.first = first;
    j.out = out + GUARD;
    k->conv(&j, scratch);
    free(terms), free(first), free(scratch);
    return out;
}

static void check_values(const struct task *t, const float *got)
{
    const struct sparse_job *j = &t->job;
    for (size_t p = 0; p < j->pixels; p++)
        for (size_t o = 0; o < j->co; o++) {
            double want = t->bias ? (double)t->bias[o] : 0;
            for (size_t i = 0; i < j->ci; i++)
                want += (double)t->in[p * j->ci + i] * (double)t->kernel[i * j->co + o];
            want += t->add ? (double)t->add[p * j->co + o] : 0;
            want = fmin(fmax(want, (double)j->low), (double)j->high);
            CHECK_MSG(fabs((double)got[GUARD + p * j->co + o] - want) < 1e-5 * (1 + (double)j->ci), "%zu pixels, %zu to %zu channels: pixel %zu, channel %zu is %g, want %g",
                      j->pixels, j->ci, j->co, p, o, (double)got[GUARD + p * j->co + o], want);
        }
    for (size_t i = 0; i < GUARD * sizeof(float); i++)
        CHECK(((const unsigned char *)got)[i] == (unsigned char)CANARY && ((const unsigned char *)(got + GUARD + j->pixels * j->co))[i] == (unsigned char)CANARY);
}

/* A pixel alone has the same bits. */
static void check_place(const struct task *t, const struct sparse_kernel *k, const float *whole, struct random *r)
{
    size_t p = random_below(r, t->job.pixels), co = t->job.co;
    struct task one = *t;
    one.job.pixels = 1;
    one.job.in += p * t->job.ci;
    one.job.add = t->add ? t->add + p * co : NULL;
    float *got = run(&one, k);
    CHECK(memcmp(got + GUARD, whole + GUARD + p * co, co * sizeof(float)) == 0);
    free(got);
}

static void test_shapes(void)
{
    static const double shares[] = {0, .5, .75, .9, 1};
    const unsigned narrow = cpu_features() & ~(unsigned)CPU_AVX512;
    struct random r;
    random_init(&r, 31, 0, 0, 0);
    for (int i = 0; i < 60 && sparse_kernel(cpu_features()); i++) {
        size_t ci = 1 + random_below(&r, i % 10 ? 70 : 1100), co = 8 * (1 + random_below(&r, 9));
        struct task t = task_make(&r, 1 + random_below(&r, 150), ci, co, shares[i % 5]);
        float *got = run(&t, sparse_kernel(cpu_features())), *other = run(&t, sparse_kernel(narrow));
        check_values(&t, got);
        CHECK(memcmp(got, other, (t.job.pixels * co + 2 * GUARD) * sizeof(float)) == 0);
        check_place(&t, sparse_kernel(cpu_features()), got, &r);
        free(got), free(other);
        task_free(&t);
    }
}

/* Without vectors there is none; odd numbers of channels are left to the dense kernels. */
static void test_takes(void)
{
    CHECK(!sparse_kernel(0));
    if (sparse_kernel(cpu_features()))
        CHECK(sparse_kernel(cpu_features())->takes(3, 16) && !sparse_kernel(cpu_features())->takes(16, 10));
}

/* ---- Bench ---- */

static double best_of(void (*call)(void *), void *user)
{
    uint64_t best = UINT64_MAX, begin = clock_ns();
    for (int i = 0; i < 2000 && (i < 20 || clock_ns() - begin < 60000000); i++) {
        uint64_t start = clock_ns();
        call(user);
        uint64_t took = clock_ns() - start;
        best = took < best ? took : best;
    }
    return (double)best / 1e3;
}

struct sparse_call {
    struct sparse_job job;
    void *scratch;
    const struct sparse_kernel *kernel;
};

static void call_sparse(void *user)
{
    struct sparse_call *c = user;
    c->kernel->conv(&c->job, c->scratch);
}

struct dense_call {
    struct conv_job job;
    void *scratch;
    const struct conv_kernel *kernel;
};

static void call_dense(void *user)
{
    struct dense_call *c = user;
    c->kernel->conv(&c->job, c->scratch);
}

static double bench_dense(const struct task *t, float *out)
{
    const struct sparse_job *s = &t->job;
    struct conv_shape shape = {.size = 1, .stride = 1, .ci = s->ci, .co = s->co};
    struct dense_call c = {.kernel = conv_kernel_find(&shape, cpu_features())};
    float *weights = allocate_aligned(c.kernel->weights_bytes(&shape));
    struct conv_strides in = {s->pixels * s->ci, s->pixels * s->ci, s->ci}, to = {s->pixels * s->co, s->pixels * s->co, s->co};
    c.kernel->weights(&shape, t->kernel, weights);
    c.scratch = allocate_aligned((c.kernel->conv_scratch_bytes ? c.kernel->conv_scratch_bytes : c.kernel->scratch_bytes)(&shape));
    c.job = (struct conv_job){.shape = shape, .images = 1, .h = 1, .w = s->pixels, .in = {.data = s->in, .strides = in, .h = 1, .w = s->pixels},
                              .weights = weights, .epilogue = CONV_CLAMP, .out = out, .out_strides = to, .bias = s->bias, .low = s->low, .high = s->high};
    double us = best_of(call_dense, &c);
    free(weights), free(c.scratch);
    return us;
}

static double bench_sparse(const struct task *t, float *out)
{
    struct sparse_call c = {.job = t->job, .kernel = sparse_kernel(cpu_features())};
    struct sparse_job *j = &c.job;
    struct sparse_term *terms = allocate((sparse_count(t->kernel, j->ci, j->co) + 1) * sizeof(*terms));
    uint32_t *first = allocate((j->co + 1) * sizeof(*first));
    c.scratch = allocate_aligned(c.kernel->scratch_bytes(j->ci, j->co));
    sparse_pack(t->kernel, j->ci, j->co, c.kernel->block(j->ci), terms, first);
    j->terms = terms;
    j->first = first;
    j->out = out;
    double us = best_of(call_sparse, &c);
    free(terms), free(first), free(c.scratch);
    return us;
}

/* Layers of MobileNetV1 × 0.5 on 96 × 96 and a dense layer, at batch 1 and 16: the dense kernel's microseconds, and how many times faster the sparse one is. */
static int bench(void)
{
    static const struct {
        size_t pixels, ci, co;
    } rows[] = {{2304, 16, 32}, {576, 64, 64}, {144, 128, 128}, {36, 256, 256}, {9, 512, 512}, {1, 512, 512}};
    static const double shares[] = {.5, .75, .9, .95};
    if (!sparse_kernel(cpu_features()))
        return 1;
    printf("pixels   channels    dense us  zeros: 50 %%   75 %%   90 %%   95 %%\n");
    for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
        size_t pixels = rows[i / 2].pixels * (i % 2 ? 16 : 1);
        printf("%6zu  %3zu to %3zu", pixels, rows[i / 2].ci, rows[i / 2].co);
        for (size_t k = 0; k < 4; k++) {
            struct random r;
            random_init(&r, 1, 0, 0, 0);
            struct task t = task_make(&r, pixels, rows[i / 2].ci, rows[i / 2].co, shares[k]);
            float *out = allocate(pixels * rows[i / 2].co * sizeof(float));
            t.job.add = NULL;
            double dense = bench_dense(&t, out), sparse = bench_sparse(&t, out);
            if (k == 0)
                printf("  %9.1f       ", dense);
            printf(" %6.2f", dense / sparse);
            free(out);
            task_free(&t);
        }
        printf("\n");
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"random shapes", test_shapes}, {"which shapes", test_takes}, {0}};
    return argc > 1 && strcmp(argv[1], "--bench") == 0 ? bench() : test_main(argc, argv, tests);
}
