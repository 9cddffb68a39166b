/* bench_train.c: training steps per second of the models that frameworks are compared with, from common start weights and data.
 *
 *     bench_train --model S1|S2|S3|M|R --batch 64 --threads 2        prints `step N` after each step, until it is stopped
 *     bench_train --model S3 --batch 64 --losses 5                   prints the first losses
 */
#include "base/cpu.h"
#include "model/model.h"
#include "train/trainer.h"

#include <math.h>
#include <penstock/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASSES 10

/* ---- The models ---- */

static const char s1[] = "conv 32 3 relu | maxpool 2 | flatten | dense 10";
static const char s2[] = "conv 32 3 relu pad=same | maxpool 2 | dwconv 3 relu pad=same | conv 64 1 relu | maxpool 2 | flatten | dense 10";

/* MobileNetV1 of half the width. */
static const char *mobilenet(void)
{
    static char text[8192];
    static const int blocks[][2] = {{32, 1},  {64, 2},  {64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},
                                    {256, 1}, {256, 1}, {256, 1}, {256, 1}, {512, 2}, {512, 1}};
    int n = snprintf(text, sizeof(text), "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6");
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      " | dwconv 3 stride=%d pad=same bias=false | batchnorm | relu6 | conv %d 1 bias=false | batchnorm | relu6", blocks[i][1],
                      blocks[i][0]);
    snprintf(text + n, sizeof(text) - (size_t)n, " | globalavgpool | dense 10");
    return text;
}

static const char *model_text(const char *name, uint32_t *side)
{
    *side = strcmp(name, "S1") == 0 || strcmp(name, "S2") == 0 ? 224 : strcmp(name, "M") == 0 ? 96 : 32;
    return strcmp(name, "S1") == 0   ? s1
           : strcmp(name, "S2") == 0 ? s2
           : strcmp(name, "S3") == 0 ? "cnn"
           : strcmp(name, "R") == 0  ? "resnet20"
           : strcmp(name, "M") == 0  ? mobilenet()
                                     : NULL;
}

/* ---- The same start everywhere ---- */

static float uniform(uint32_t seed, uint32_t i)
{
    uint32_t x = i * 2654435761u + seed * 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    x ^= x >> 16;
    return (float)(x >> 8) / 16777216.0f;
}

/* Kernels are numbered in the order of the layers; everything else starts as a fresh trainer has it. */
static void set_weights(pst_trainer *t, const pst_model *m)
{
    uint32_t seed = 2;
    for (size_t i = 0; i < m->graph->param_count; i++) {
        const struct layer_param *p = &m->graph->params[i].layer;
        float *values = pst_trainer_values(t, i), limit = sqrtf(6.0f / (float)(p->fan_in + p->fan_out));
        if (p->init != INIT_GLOROT_UNIFORM)
            continue;
        for (size_t k = 0; k < m->graph->params[i].count; k++)
            values[k] = (2 * uniform(seed, (uint32_t)k) - 1) * limit;
        seed++;
    }
}

struct settings {
    const char *model, *isa, *mixed;
    size_t batch;
    unsigned threads;
    uint64_t losses, steps, profile;
};

static int fail(const char *what)
{
    fprintf(stderr, "bench_train: %s\n", what);
    return 1;
}

/* A table of the fastest time of each block. Backward counts twice the work of forward. */
static void print_profile(const struct settings *s, pst_trainer *t)
{
    double sum = 0, work = 0;
    for (size_t i = 0; i < step_block_count(t->step); i++) {
        struct step_block_times b = step_block_times(t->step, i);
        double forward = (double)b.forward.best / 1e6, backward = (double)b.backward.best / 1e6, flops = (double)b.flops * (double)s->batch / 1e6;
        printf("%-16s %-10s %8.3f ms %7.1f GFLOP/s %8.3f ms %7.1f GFLOP/s  %s\n", b.layer, b.kind, forward, flops / forward, backward,
               2 * flops / backward, b.why);
        sum += forward + backward;
        work += 3 * flops;
    }
    printf("%-27s %8.3f ms %7.1f GFLOP/s\n", "all", sum, work / sum);
}

static int run(const struct settings *s, pst_trainer *t, uint32_t side)
{
    size_t values = (size_t)side * side * 3;
    float *images = malloc(s->batch * values * sizeof(*images));
    int64_t *labels = malloc(s->batch * sizeof(*labels));
    pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {s->batch, side, side, 3}, .data = images};
    pst_tensor target = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {s->batch}, .data = labels};
    pst_samples samples = {.size = sizeof(samples), .input = &input, .target = &target};
    pst_step_result r = {.size = sizeof(r)};
    pst_error error;
    pst_status st = images && labels ? PST_OK : pst_fail(&error, PST_ENOMEM, "out of memory");
    for (size_t i = 0; st == PST_OK && i < s->batch * values; i++)
        images[i] = uniform(0, (uint32_t)i);
    for (size_t i = 0; st == PST_OK && i < s->batch; i++)
        labels[i] = (int64_t)(uniform(1, (uint32_t)i) * CLASSES);
    uint64_t end = s->losses ? s->losses : s->profile ? s->profile : s->steps ? s->steps : UINT64_MAX;
    step_measure(t->step, s->profile > 0);
    for (uint64_t i = 1; st == PST_OK && i <= end; i++) {
        st = pst_trainer_step(t, &samples, &r, &error);
        if (st == PST_OK && s->losses)
            printf("%.6f%c", r.loss, i == end ? '\n' : ' ');
        else if (st == PST_OK && !s->profile)
            printf("step %llu\n", (unsigned long long)i);
        fflush(stdout);
    }
    if (st == PST_OK && s->profile)
        print_profile(s, t);
    free(images);
    free(labels);
    return st < 0 ? fail(error.message) : 0;
}

static bool read_arguments(struct settings *s, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *v = argv[i + 1];
        if (strcmp(argv[i], "--model") == 0)
            s->model = v;
        else if (strcmp(argv[i], "--mixed") == 0)
            s->mixed = v;
        else if (strcmp(argv[i], "--isa") == 0)
            s->isa = v;
        else if (strcmp(argv[i], "--batch") == 0)
            s->batch = strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            s->threads = (unsigned)strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--losses") == 0)
            s->losses = strtoull(v, NULL, 10);
        else if (strcmp(argv[i], "--profile") == 0)
            s->profile = strtoull(v, NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0)
            s->steps = strtoull(v, NULL, 10);
        else
            return false;
    }
    return argc % 2 == 1 && s->batch > 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.model = "S3", .isa = "", .mixed = "none", .batch = 64, .threads = 2};
    uint32_t side;
    pst_model *model = NULL;
    pst_trainer *t = NULL;
    pst_error error;
    const char *text = read_arguments(&s, argc, argv) ? model_text(s.model, &side) : NULL;
    if (!text)
        return fail("usage: bench_train --model S1|S2|S3|M|R [--batch N] [--threads N] [--losses N | --steps N] [--isa c|avx2]");
    if (strcmp(s.isa, "avx2") == 0)
        cpu_set_mask(CPU_SSE42 | CPU_AVX2);
    pst_train_options o = {.size = sizeof(o), .batch = s.batch, .threads = s.threads, .loss = PST_LOSS_SPARSE, .portable = strcmp(s.isa, "c") == 0};
    o.mixed = strcmp(s.mixed, "float16") == 0 ? PST_MIXED_FLOAT16 : strcmp(s.mixed, "bfloat16") == 0 ? PST_MIXED_BFLOAT16 : PST_MIXED_NONE;
    pst_status st = pst_model_parse(&model, text, &(pst_shape){.rank = 3, .size = {side, side, 3}}, &error);
    if (st == PST_OK)
        st = pst_trainer_create(&t, model, &o, &error);
    if (st == PST_OK)
        set_weights(t, model);
    int code = st < 0 ? fail(error.message) : run(&s, t, side);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
    return code;
}
