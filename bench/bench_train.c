/* bench_train.c: training steps per second of the models that frameworks are compared with, from common start weights and data.
 *
 *     bench_train --model S1|S2|S3|M|R --batch 64 --threads 2        prints `step N` after each step, until it is stopped
 *     bench_train --model E --data DIR                               the same, fed from the JPEGs of DIR/tfrecord
 *     bench_train --model S3 --batch 64 --losses 5                   prints the first losses
 *     bench_train --model M --profile 20                             prints the time of each block
 *     … --mixed float16|bfloat16 --isa c|avx2|avx512 --steps N
 */
#include "base/cpu.h"
#include "model/model.h"
#include "train/trainer.h"
#include "train_models.h"

#include <penstock/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *model, *isa, *mixed, *data;
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
    if (st == PST_OK)
        train_start_data(s->batch, values, images, labels);
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

struct place {
    const struct settings *settings;
    uint64_t step;
};

static bool say_step(void *user, const pst_run_progress *progress)
{
    struct place *p = user;
    if (progress->step == p->step)
        return false;
    p->step = progress->step;
    printf("step %llu\n", (unsigned long long)p->step);
    fflush(stdout);
    return p->settings->steps && p->step >= p->settings->steps;
}

/* JPEG shards to updates, as `penstock train` does it. */
static int run_pipeline(const struct settings *s, pst_trainer *t)
{
    char text[1024];
    pst_pipeline *p = NULL;
    pst_fields fields = {.size = sizeof(fields)};
    pst_run_result end = {.size = sizeof(end)};
    struct place place = {.settings = s};
    pst_run_options o = {.size = sizeof(o), .epochs = 1000000, .fields = &fields, .progress = say_step, .user = &place};
    pst_error error;
    snprintf(text, sizeof(text), "tfrecord '%s/tfrecord/*.tfrecord' | shuffle | example 'image:bytes label:int64' | decode | random_resized_crop 96"
                                 " | flip | normalize imagenet | batch %zu drop_remainder=true", s->data, s->batch);
    pst_status st = pst_pipeline_parse(&p, text, NULL, &error);
    if (st == PST_OK)
        st = pst_fields_find(p, "image", "label", true, &fields, &error);
    if (st == PST_OK)
        st = pst_trainer_run(t, p, NULL, &o, &end, &error);
    pst_pipeline_destroy(p);
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
        else if (strcmp(argv[i], "--data") == 0)
            s->data = v;
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
    const char *text = read_arguments(&s, argc, argv) ? train_model_text(s.model, &side) : NULL;
    if (!text)
        return fail("usage: bench_train --model S1|S2|S3|M|R|E [--batch N] [--threads N] [--losses N | --steps N | --profile N] [--data DIR] "
                    "[--mixed float16|bfloat16] [--isa c|avx2|avx512]");
    if (strcmp(s.model, "E") == 0 && !s.data)
        return fail("--model E needs --data DIR, with JPEGs in DIR/tfrecord/*.tfrecord");
    if (strcmp(s.isa, "avx2") == 0)
        cpu_set_mask(CPU_SSE42 | CPU_AVX2);
    else if (strcmp(s.isa, "avx512") == 0)
        cpu_set_mask(CPU_SSE42 | CPU_AVX2 | CPU_AVX512);
    pst_train_options o = {.size = sizeof(o), .batch = s.batch, .threads = s.threads, .loss = PST_LOSS_SPARSE, .portable = strcmp(s.isa, "c") == 0};
    o.mixed = strcmp(s.mixed, "float16") == 0 ? PST_MIXED_FLOAT16 : strcmp(s.mixed, "bfloat16") == 0 ? PST_MIXED_BFLOAT16 : PST_MIXED_NONE;
    pst_status st = pst_model_parse(&model, text, &(pst_shape){.rank = 3, .size = {side, side, 3}}, &error);
    if (st == PST_OK)
        st = pst_trainer_create(&t, model, &o, &error);
    if (st == PST_OK)
        train_start_weights(model->graph, t->params);
    int code = st < 0 ? fail(error.message) : s.data ? run_pipeline(&s, t) : run(&s, t, side);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
    return code;
}
