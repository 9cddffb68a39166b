/* test_wino4.c: every level of the Winograd kernels against a direct convolution in double precision; `--bench` times them
 * instead, on one core, and prints their error.
 *
 * Tensors have random gaps between pixels, rows and images, filled with a pattern that no kernel may change; they end where
 * their memory ends, so that a sanitizer catches an access beyond. Errors are root mean squares over those of the exact
 * result. The largest seen: forward and data gradient 1.2e-6, weight gradient 1.4e-6. */
#include "base/clock.h"
#include "levels.h"
#include "wino4_rig.h"

#define FORWARD_TOLERANCE  2e-6
#define GRADIENT_TOLERANCE 5e-6

/* ---- Forward ---- */

static void check_raw(const char *level, const struct wino4_kernels *k, struct random *r, const struct problem *p,
                      const struct bench_memory *m)
{
    struct tensor out = tensor_make(r, p->images, p->h, p->w, p->co);
    struct conv_job c = forward_of(p, m->weights);
    float *shift = random_floats(r, p->co);
    double *sums = allocate(2 * p->co * sizeof(double));
    for (size_t i = 0; i < 2 * p->co; i++)
        sums[i] = 1; /* sums are added to */
    bool shifted = random_below(r, 2), summed = random_below(r, 4);
    c.out = out.data;
    c.out_strides = out.strides;
    c.shift = shifted ? shift : NULL;
    c.sum = summed ? sums : NULL;
    c.sum2 = summed ? sums + p->co : NULL;
    k->conv(&c, m->scratch);
    check_error(error_of(&out, p->z), FORWARD_TOLERANCE, &worst_forward, level, "raw", p);
    CHECK(gaps_kept(&out));
    for (size_t o = 0; summed && o < p->co; o++) {
        double sum = 1, sum2 = 1, size = 1;
        for (size_t n = 0; n < p->images; n++)
            for (size_t y = 0; y < p->h; y++)
                for (size_t x = 0; x < p->w; x++) {
                    double v = (double)at(&out, n, y, x)[o] - (shifted ? (double)shift[o] : 0);
                    sum += v;
                    sum2 += v * v;
                    size += fabs(v);
                }
        check_sum(level, "sum", sums[o], sum, size);
        check_sum(level, "sum of squares", sums[p->co + o], sum2, sum2);
    }
    free(sums);
    free(shift);
    free(out.data);
}

static double clamped(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static void check_clamp(const char *level, const struct wino4_kernels *k, struct random *r, const struct problem *p,
                        const struct bench_memory *m)
{
    struct tensor out = tensor_make(r, p->images, p->h, p->w, p->co);
    struct conv_job c = forward_of(p, m->weights);
    float *bias = random_floats(r, p->co);
    struct error e = {0, 0};
    c.epilogue = CONV_CLAMP;
    c.out = out.data;
    c.out_strides = out.strides;
    c.bias = random_below(r, 4) ? bias : NULL;
    c.low = random_below(r, 4) ? 0 : -INFINITY;
    c.high = random_below(r, 2) ? 1 : INFINITY;
    k->conv(&c, m->scratch);
    const double *z = p->z;
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = 0; y < p->h; y++)
            for (size_t x = 0; x < p->w; x++)
                for (size_t o = 0; o < p->co; o++, z++) {
                    double want = clamped(*z + (c.bias ? (double)bias[o] : 0), (double)c.low, (double)c.high);
                    error_add(&e, (double)at(&out, n, y, x)[o], want);
                    e.reference += *z * *z - want * want; /* clamping may leave little */
                }
    check_error(error_rms(&e), FORWARD_TOLERANCE, &worst_forward, level, "clamp", p);
    CHECK(gaps_kept(&out));
    free(bias);
    free(out.data);
}

/* Pooled values; the argmax must name a value as large as the maximum, but for rounding. */
static void check_pool(const char *level, const struct wino4_kernels *k, struct random *r, const struct problem *p,
                       const struct bench_memory *m)
{
    struct tensor out = tensor_make(r, p->images, p->h / 2, p->w / 2, p->co);
    struct conv_job c = forward_of(p, m->weights);
    float *bias = random_floats(r, p->co);
    uint8_t *argmax = allocate(out.size + 64);
    struct error e = {0, 0};
    bool right = true;
    memset(argmax, CANARY, out.size + 64);
    c.epilogue = CONV_POOL;
    c.out = out.data;
    c.out_strides = c.argmax_strides = out.strides;
    c.argmax = random_below(r, 4) ? argmax : NULL;
    c.bias = bias;
    c.low = random_below(r, 4) ? 0 : -INFINITY;
    c.high = random_below(r, 2) ? 2 : INFINITY;
    k->conv(&c, m->scratch);
    double scale = 0, squares = 0;
    size_t count = p->images * p->h * p->w * p->co;
    for (size_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs(p->z[i]));
        squares += p->z[i] * p->z[i];
    }
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = 0; y < p->h / 2; y++)
            for (size_t x = 0; x < p->w / 2; x++)
                for (size_t o = 0; o < p->co; o++) {
                    double v[4], best = -INFINITY, slack = 1e-5 * (scale + 1);
                    for (size_t i = 0; i < 4; i++) {
                        v[i] = p->z[((n * p->h + 2 * y + i / 2) * p->w + 2 * x + i % 2) * p->co + o] + (double)bias[o];
                        best = fmax(best, v[i]);
                    }
                    double want = clamped(best, (double)c.low, (double)c.high);
                    error_add(&e, (double)at(&out, n, y, x)[o], want);
                    e.reference += squares / (double)count - want * want; /* maxima may be few and small */
                    uint8_t got = argmax[n * out.strides.image + y * out.strides.row + x * out.strides.pixel + o];
                    if (c.argmax && got == 255)
                        right &= best <= (double)c.low + slack || best >= (double)c.high - slack;
                    else if (c.argmax)
                        right &= got < 4 && v[got & 3] >= best - slack && best > (double)c.low - slack &&
                                 best < (double)c.high + slack;
                }
    check_error(error_rms(&e), FORWARD_TOLERANCE, &worst_forward, level, "pool", p);
    CHECK_MSG(right, "%s: wrong argmax: %zu × %zu × %zu to %zu", level, p->h, p->w, p->ci, p->co);
    CHECK(gaps_kept(&out));
    for (size_t n = 0; n < out.images; n++)
        for (size_t y = 0; y < out.h; y++)
            for (size_t x = 0; x < out.w; x++)
                memset(argmax + n * out.strides.image + y * out.strides.row + x * out.strides.pixel, CANARY, p->co);
    bool kept = true;
    for (size_t i = 0; i < out.size + 64; i++)
        kept &= argmax[i] == CANARY;
    CHECK_MSG(kept, "%s: bytes between the argmax changed", level);
    free(argmax);
    free(bias);
    free(out.data);
}

/* ---- Backward ---- */

static void check_back(const char *level, const struct wino4_kernels *k, struct random *r, const struct problem *p,
                       const struct bench_memory *m)
{
    struct tensor out = tensor_make(r, p->images, p->ih, p->iw, p->ci),
                  add = tensor_random(r, true, p->images, p->ih, p->iw, p->ci);
    struct tensor mask = tensor_random(r, true, p->images, p->ih, p->iw, p->ci);
    struct tensor z = tensor_random(r, true, p->images, p->ih, p->iw, p->ci);
    struct conv_job c = back_of(p, m->back);
    float *shift = random_floats(r, p->ci);
    double *sums = calloc(2 * p->ci, sizeof(double)), *exact = allocate(p->ci * sizeof(double) * 3);
    struct error e = {0, 0};
    c.out = out.data;
    c.out_strides = out.strides;
    c.low = 0;
    c.high = random_below(r, 2) ? 1 : INFINITY;
    c.shift = random_below(r, 2) ? shift : NULL;
    if (random_below(r, 2)) {
        c.add = (struct conv_numbers){add.data, add.strides};
        if (random_below(r, 2)) { /* in place */
            tensor_copy(&out, &add);
            c.add = (struct conv_numbers){out.data, out.strides};
        }
    }
    if (random_below(r, 4))
        c.mask = (struct conv_extra){mask.data, mask.strides};
    if (random_below(r, 4)) {
        c.z = (struct conv_numbers){z.data, z.strides};
        c.sum = sums;
        c.sum2 = sums + p->ci;
    }
    k->conv(&c, m->scratch);
    memset(exact, 0, p->ci * sizeof(double) * 3);
    const double *dx = p->dx;
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = 0; y < p->ih; y++)
            for (size_t x = 0; x < p->iw; x++)
                for (size_t i = 0; i < p->ci; i++, dx++) {
                    float at_mask = at(&mask, n, y, x)[i];
                    bool alive = !c.mask.data || (at_mask > c.low && at_mask < c.high);
                    double want = alive ? *dx + (c.add.data ? (double)at(&add, n, y, x)[i] : 0) : 0;
                    double got = (double)at(&out, n, y, x)[i];
                    double product = got * ((double)at(&z, n, y, x)[i] - (c.shift ? (double)shift[i] : 0));
                    error_add(&e, got, want);
                    exact[i] += got;
                    exact[p->ci + i] += product;
                    exact[2 * p->ci + i] += fabs(got) + fabs(product);
                }
    check_error(error_rms(&e), FORWARD_TOLERANCE, &worst_forward, level, "data gradient", p);
    CHECK(gaps_kept(&out));
    for (size_t i = 0; c.sum && i < p->ci; i++) {
        check_sum(level, "sum of gradients", sums[i], exact[i], exact[2 * p->ci + i]);
        check_sum(level, "sum of gradient · z", sums[p->ci + i], exact[p->ci + i], exact[2 * p->ci + i]);
    }
    free(out.data);
    free(add.data);
    free(mask.data);
    free(z.data);
    free(shift);
    free(sums);
    free(exact);
}

/* In one call, or image by image. */
static double run_weight_gradient(const struct wino4_kernels *k, const struct problem *p, const struct bench_memory *m,
                                  bool parts)
{
    struct wino4_weight_gradient g = gradient_of(p, m->transformed);
    float *dw = allocate(9 * p->ci * p->co * sizeof(float));
    struct error e = {0, 0};
    if (parts) {
        g.images = 1;
        for (size_t n = 0; n < p->images; n++, g.accumulate = true) {
            g.in.data = at(&p->x, n, 0, 0);
            g.gradient.data = at(&p->dz, n, 0, 0);
            k->weight_gradient(&g, m->scratch);
        }
    } else {
        k->weight_gradient(&g, m->scratch);
    }
    size_t panels = (p->co + 15) / 16;
    k->weight_gradient_finish(m->transformed, p->ci, p->co, 0, panels / 2, dw);
    k->weight_gradient_finish(m->transformed, p->ci, p->co, panels / 2, panels - panels / 2, dw);
    for (size_t i = 0; i < 9 * p->ci * p->co; i++)
        error_add(&e, (double)dw[i], p->dw[i]);
    free(dw);
    return error_rms(&e);
}

/* ---- Tests ---- */

static void check_problem(struct random *r, const struct problem *p)
{
    for (size_t i = 0; i < LEVELS; i++) {
        if (!runs_here(&levels[i]))
            continue;
        struct wino4_kernels k;
        wino4_kernels_init(&k, levels[i].features);
        struct bench_memory m = memory_make(&k, p);
        check_raw(levels[i].name, &k, r, p, &m);
        check_clamp(levels[i].name, &k, r, p, &m);
        check_pool(levels[i].name, &k, r, p, &m);
        check_back(levels[i].name, &k, r, p, &m);
        check_error(run_weight_gradient(&k, p, &m, random_below(r, 2)), GRADIENT_TOLERANCE, &worst_gradient, levels[i].name,
                    "weight gradient", p);
        CHECK_MSG(memory_free(&m), "%s: canary after weights or scratch changed", levels[i].name);
    }
}

static void test_random_shapes(void)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (int round = 0; round < 150; round++) {
        size_t side = round % 3 ? 12 : 40, channels = round % 5 ? 40 : 70, pad = random_below(&r, 3);
        size_t h = 1 + random_below(&r, side), w = 1 + random_below(&r, side);
        if (pad == 2 && (h < 3 || w < 3)) /* the input would be empty */
            pad = 1;
        struct problem p = problem_make(&r, true, 1 + random_below(&r, 3), h, w, 1 + random_below(&r, channels),
                                        1 + random_below(&r, channels), pad);
        check_problem(&r, &p);
        problem_free(&p);
    }
    printf("# largest errors: forward %.2e, weight gradient %.2e\n", worst_forward, worst_gradient);
}

/* The instantiated numbers of channels, dense tensors and such with gaps. */
static void test_usual_channels(void)
{
    static const size_t channels[] = {8, 16, 32, 48, 64, 128, 144};
    struct random r;
    random_init(&r, 2, 0, 0, 0);
    for (size_t i = 0; i < sizeof(channels) / sizeof(channels[0]); i++)
        for (size_t k = 0; k < 4; k++) {
            size_t h = 1 + random_below(&r, 20), w = k == 3 ? 37 : 1 + random_below(&r, 20);
            struct problem p = problem_make(&r, k == 2, 1 + random_below(&r, 6), h, w, channels[i],
                                            channels[random_below(&r, sizeof(channels) / sizeof(channels[0]))], k % 2);
            check_problem(&r, &p);
            problem_free(&p);
        }
    printf("# largest errors: forward %.2e, weight gradient %.2e\n", worst_forward, worst_gradient);
}

/* Rows of an image in several calls give the same bits as the image in one, and a padded strip the same as an unpadded one. */
static void test_parts(void)
{
    struct random r;
    random_init(&r, 3, 0, 0, 0);
    struct problem p = problem_make(&r, false, 1, 24, 20, 32, 32, 1);
    struct tensor whole = tensor_make(NULL, 1, 24, 20, 32), parts = tensor_make(NULL, 1, 24, 20, 32);
    struct tensor strip = tensor_make(NULL, 1, 26, 22, 32);
    memset(strip.data, 0, strip.size * sizeof(float));
    for (size_t y = 0; y < 24; y++)
        memcpy(at(&strip, 0, y + 1, 1), at(&p.x, 0, y, 0), 20 * 32 * sizeof(float));
    for (size_t i = 0; i < LEVELS; i++) {
        if (!runs_here(&levels[i]))
            continue;
        struct wino4_kernels k;
        wino4_kernels_init(&k, levels[i].features);
        struct bench_memory m = memory_make(&k, &p);
        struct conv_job c = forward_of(&p, m.weights);
        c.out = whole.data;
        c.out_strides = whole.strides;
        k.conv(&c, m.scratch);
        c.in = (struct conv_source){strip.data, strip.strides, 10, 22, 0, 0};
        c.h = 8;
        for (size_t y = 0; y < 24; y += 8) {
            c.in.data = at(&strip, 0, y, 0);
            c.out = at(&parts, 0, y, 0);
            k.conv(&c, m.scratch);
        }
        CHECK_MSG(memcmp(whole.data, parts.data, whole.size * sizeof(float)) == 0, "%s: parts differ from the whole",
                  levels[i].name);
        memory_free(&m);
    }
    free(whole.data);
    free(parts.data);
    free(strip.data);
    problem_free(&p);
}

/* Results of one level: what its kernels write for a problem, with sums, pooling and gradients. */
struct results {
    struct tensor raw, pooled, back;
    double *sums;
    float *dw;
    uint8_t *argmax;
    struct bench_memory memory;
};

static struct results results_of(const struct wino4_kernels *k, const struct problem *p)
{
    struct results s = {.raw = tensor_make(NULL, p->images, p->h, p->w, p->co), .pooled = tensor_make(NULL, p->images, p->h / 2, p->w / 2, p->co),
                        .back = tensor_make(NULL, p->images, p->ih, p->iw, p->ci), .sums = calloc(2 * (p->ci + p->co), sizeof(double)),
                        .dw = allocate(9 * p->ci * p->co * sizeof(float)), .memory = memory_make(k, p)};
    struct conv_job raw = forward_of(p, s.memory.weights), pool = raw, back = back_of(p, s.memory.back);
    struct wino4_weight_gradient g = gradient_of(p, s.memory.transformed);
    s.argmax = calloc(s.pooled.size + 1, 1);
    raw.out = s.raw.data;
    raw.out_strides = s.raw.strides;
    raw.sum = s.sums;
    raw.sum2 = s.sums + p->co;
    k->conv(&raw, s.memory.scratch);
    pool.epilogue = CONV_POOL;
    pool.out = s.pooled.data;
    pool.out_strides = pool.argmax_strides = s.pooled.strides;
    pool.argmax = s.argmax;
    pool.low = 0;
    k->conv(&pool, s.memory.scratch);
    back.out = s.back.data;
    back.out_strides = s.back.strides;
    back.low = 0;
    back.mask = (struct conv_extra){p->x.data, p->x.strides};
    back.z = (struct conv_numbers){p->x.data, p->x.strides};
    back.sum = s.sums + 2 * p->co;
    back.sum2 = back.sum + p->ci;
    k->conv(&back, s.memory.scratch);
    k->weight_gradient(&g, s.memory.scratch);
    k->weight_gradient_finish(s.memory.transformed, p->ci, p->co, 0, (p->co + 15) / 16, s.dw);
    return s;
}

static void results_free(struct results *s)
{
    free(s->raw.data);
    free(s->pooled.data);
    free(s->back.data);
    free(s->sums);
    free(s->dw);
    free(s->argmax);
    memory_free(&s->memory);
}

/* AVX-512 computes the bits of AVX2. */
static void test_same_bits(void)
{
    struct random r;
    struct wino4_kernels k2, k512;
    random_init(&r, 4, 0, 0, 0);
    if (!(cpu_features() & CPU_AVX512))
        return;
    wino4_kernels_init(&k2, CPU_AVX2);
    wino4_kernels_init(&k512, CPU_AVX2 | CPU_AVX512);
    CHECK(k2.conv != k512.conv);
    for (int round = 0; round < 24; round++) {
        size_t ci = 1 + random_below(&r, round % 3 == 0 ? 4 : 70), co = round % 2 ? 32 : 1 + random_below(&r, 40);
        struct problem p = problem_make(&r, round % 4 == 0, 2, 3 + random_below(&r, 30), 3 + random_below(&r, 30), ci, co, round % 2);
        struct results a = results_of(&k2, &p), b = results_of(&k512, &p);
        bool same = memcmp(a.raw.data, b.raw.data, a.raw.size * sizeof(float)) == 0;
        same &= memcmp(a.pooled.data, b.pooled.data, a.pooled.size * sizeof(float)) == 0 && memcmp(a.argmax, b.argmax, a.pooled.size) == 0;
        same &= memcmp(a.back.data, b.back.data, a.back.size * sizeof(float)) == 0;
        same &= memcmp(a.sums, b.sums, 2 * (ci + co) * sizeof(double)) == 0 && memcmp(a.dw, b.dw, 9 * ci * co * sizeof(float)) == 0;
        CHECK_MSG(same, "bits of avx512 differ: %zu × %zu × %zu to %zu", p.h, p.w, ci, co);
        results_free(&a);
        results_free(&b);
        problem_free(&p);
    }
}

/* ---- Timing ---- */

static double best_us(void (*run)(void *), void *context, double seconds)
{
    double best = 1e9;
    uint64_t begin = clock_ns();
    while ((double)(clock_ns() - begin) < seconds * 1e9) {
        uint64_t start = clock_ns();
        run(context);
        best = fmin(best, (double)(clock_ns() - start) / 1e3);
    }
    return best;
}

#if defined(__x86_64__)
#include <immintrin.h>
#define PEAK_LOOPS 20000
__attribute__((target("avx2,fma"))) static void run_peak(void *unused)
{
    (void)unused;
    __m256 v[12], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        v[i] = _mm256_set1_ps((float)i);
    for (int n = 0; n < PEAK_LOOPS; n++) {
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            v[i] = _mm256_fmadd_ps(v[i], x, y);
        __asm__ volatile("" : "+x"(v[0]), "+x"(v[1]), "+x"(v[2]), "+x"(v[3]), "+x"(v[4]), "+x"(v[5]));
    }
#pragma GCC unroll 12
    for (int i = 0; i < 12; i++)
        __asm__ volatile("" : : "x"(v[i]));
}

static double peak_gflops(void)
{
    return (cpu_features() & CPU_AVX2) == 0 ? 0 : PEAK_LOOPS * 12 * 16 / 1e3 / best_us(run_peak, NULL, 0.3);
}
#else
static double peak_gflops(void)
{
    return 0;
}
#endif

struct bench {
    const struct wino4_kernels *kernels;
    const struct problem *problem;
    struct bench_memory memory;
    struct conv_job conv;
    struct wino4_weight_gradient gradient;
    float *dw;
};

static void run_conv(void *context)
{
    struct bench *b = context;
    b->kernels->conv(&b->conv, b->memory.scratch);
}

static void run_gradient(void *context)
{
    struct bench *b = context;
    b->kernels->weight_gradient(&b->gradient, b->memory.scratch);
}

static void run_finish(void *context)
{
    struct bench *b = context;
    b->kernels->weight_gradient_finish(b->memory.transformed, b->problem->ci, b->problem->co, 0, (b->problem->co + 15) / 16, b->dw);
}

static void run_weights(void *context)
{
    struct bench *b = context;
    b->kernels->weights(b->problem->kernels, b->problem->ci, b->problem->co, b->memory.weights);
}

static void run_weights_back(void *context)
{
    struct bench *b = context;
    b->kernels->weights_back(b->problem->kernels, b->problem->ci, b->problem->co, b->memory.back);
}

static void print_rate(const char *level, const char *shape, const char *pass, double flops, double us, double peak,
                       double error)
{
    printf("%-5s %-18s %-22s %9.1f %9.1f %6.2f", level, shape, pass, us, flops / us / 1e3, flops / us / 1e3 / peak);
    if (error >= 0)
        printf(" %9.1e", error);
    printf("\n");
}

static void bench_backward(struct bench *b, const char *level, const char *shape, double flops, double peak, double seconds,
                           struct random *r)
{
    const struct problem *p = b->problem;
    struct tensor dx = tensor_make(NULL, p->images, p->ih, p->iw, p->ci),
                  add = tensor_random(r, false, p->images, p->ih, p->iw, p->ci);
    double *sums = calloc(2 * p->ci, sizeof(double)), us;
    b->conv = back_of(p, b->memory.back);
    b->conv.out = dx.data;
    b->conv.out_strides = dx.strides;
    us = best_us(run_conv, b, seconds);
    print_rate(level, shape, "data grad", flops, us, peak, error_of(&dx, p->dx));
    b->conv.low = 0;
    b->conv.mask = (struct conv_extra){p->x.data, p->x.strides};
    us = best_us(run_conv, b, seconds);
    print_rate(level, shape, "data grad mask", flops, us, peak, -1);
    b->conv.z = (struct conv_numbers){p->x.data, p->x.strides};
    b->conv.sum = sums;
    b->conv.sum2 = sums + p->ci;
    b->conv.add = (struct conv_numbers){add.data, add.strides};
    us = best_us(run_conv, b, seconds);
    print_rate(level, shape, "data grad mask+add+sums", flops, us, peak, -1);
    us = best_us(run_gradient, b, seconds);
    print_rate(level, shape, "weight grad", flops, us, peak, run_weight_gradient(b->kernels, p, &b->memory, false));
    printf("%-5s %-18s weights %.1f µs, back %.1f µs, finish %.1f µs\n", level, shape, best_us(run_weights, b, seconds / 4),
           best_us(run_weights_back, b, seconds / 4), best_us(run_finish, b, seconds / 4));
    free(sums);
    free(dx.data);
    free(add.data);
}

static void bench_level(const char *level, const struct wino4_kernels *k, const struct problem *p, double peak, double seconds,
                        struct random *r)
{
    struct bench b = {.kernels = k, .problem = p, .memory = memory_make(k, p)};
    struct tensor out = tensor_make(NULL, p->images, p->h, p->w, p->co);
    double *sums = calloc(2 * p->co, sizeof(double)), us, flops = 18.0 * (double)(p->images * p->h * p->w * p->ci * p->co);
    float *bias = random_floats(r, p->co);
    char shape[64];
    snprintf(shape, sizeof(shape), "%zux%zux%zu->%zu", p->h, p->w, p->ci, p->co);
    b.dw = allocate(9 * p->ci * p->co * sizeof(float));
    b.gradient = gradient_of(p, b.memory.transformed);
    b.conv = forward_of(p, b.memory.weights);
    b.conv.out = out.data;
    b.conv.out_strides = out.strides;
    us = best_us(run_conv, &b, seconds);
    print_rate(level, shape, "forward", flops, us, peak, error_of(&out, p->z));
    b.conv.sum = sums;
    b.conv.sum2 = sums + p->co;
    us = best_us(run_conv, &b, seconds);
    print_rate(level, shape, "forward sums", flops, us, peak, -1);
    b.conv.epilogue = CONV_CLAMP;
    b.conv.bias = bias;
    b.conv.low = 0;
    us = best_us(run_conv, &b, seconds);
    print_rate(level, shape, "forward relu", flops, us, peak, -1);
    b.conv.epilogue = CONV_POOL;
    b.conv.argmax = allocate(out.size);
    b.conv.argmax_strides = b.conv.out_strides;
    us = best_us(run_conv, &b, seconds);
    print_rate(level, shape, "forward relu pool", flops, us, peak, -1);
    free(b.conv.argmax);
    bench_backward(&b, level, shape, flops, peak, seconds, r);
    free(b.dw);
    memory_free(&b.memory);
    free(out.data);
    free(sums);
    free(bias);
}

static int bench(double seconds, bool with_c)
{
    static const struct {
        size_t side, ci, co, images;
    } cases[] = {{32, 16, 16, 2}, {16, 32, 32, 4}, {8, 64, 64, 16}, {32, 32, 32, 1},
                 {16, 32, 64, 4}, {16, 64, 64, 4}, {8, 64, 128, 16}};
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    double peak = peak_gflops();
    printf("FMA peak %.1f GFLOP/s\n%-5s %-18s %-22s %9s %9s %6s %9s\n", peak, "level", "shape", "pass", "µs", "GFLOP/s", "peak",
           "rms error");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct problem p = problem_make(&r, false, cases[i].images, cases[i].side, cases[i].side, cases[i].ci, cases[i].co, 1);
        for (size_t l = 0; l < LEVELS; l++) {
            struct wino4_kernels k, below;
            wino4_kernels_init(&k, levels[l].features);
            wino4_kernels_init(&below, l > 0 ? levels[l - 1].features : 0);
            if (runs_here(&levels[l]) && (l == 0 ? with_c : k.conv != below.conv))
                bench_level(levels[l].name, &k, &p, peak, seconds, &r);
        }
        problem_free(&p);
    }
    return 0;
}

static const struct test tests[] = {
    {"random shapes, every level", test_random_shapes},
    {"the usual channels", test_usual_channels},
    {"rows in parts, padded strips", test_parts},
    {"AVX-512 computes the bits of AVX2", test_same_bits},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) /* [seconds per line [c]] */
        return bench(argc > 2 ? atof(argv[2]) : 0.3, argc > 3);
    return test_main(argc, argv, tests);
}
