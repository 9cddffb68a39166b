/* bench_ranks.c: a training step of several ranks, with and without the exchange of gradients; bench_ranks.py runs it beside PyTorch's DDP.
 *
 *     mpirun -n 2 bench_ranks --model S1|S3|M --batch 64 --threads 1 --seconds 8 [--gradients float16] [--exact 1] [--accumulate N]
 *
 * Prints one RESULT line of JSON: the median step with exchange and without it (--exact 1: with exact ranks and without), the exchange of the same bytes alone, images/s, and which
 * share of the exchange the step hides. PENSTOCK_PLUGIN names the folder of the plug-in. */
#include "base/clock.h"
#include "dist/comm.h"
#include "model/model.h"
#include "train/trainer.h"
#include "train_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STEPS 100000

struct settings {
    const char *model;
    size_t batch;
    unsigned threads, accumulate, exact, half;
    double seconds;
};

static int fail(const char *what)
{
    fprintf(stderr, "bench_ranks: %s\n", what);
    return 1;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *times, size_t count)
{
    qsort(times, count, sizeof(*times), by_value);
    return times[count / 2];
}

struct times {
    double list[MOST_STEPS];
    size_t count;
};

/* Updates for some seconds; all ranks make the same number of them. A step ends when all ranks have ended theirs, with and without exchange: otherwise the time
 * that they wait for the slowest would count as exchange. */
static void measure(pst_trainer *t, pst_comm *c, const pst_samples *samples, const struct settings *s, double seconds, struct times *to)
{
    double sum = 0;
    float over = 0;
    pst_error error;
    for (size_t n = 0; over == 0 && to->count < MOST_STEPS; n++) {
        uint64_t begin = clock_ns();
        for (unsigned i = 0; i < s->accumulate; i++)
            if (pst_trainer_step(t, samples, NULL, &error) < 0)
                exit(fail(error.message));
        over = n >= 2 && sum > seconds;
        if (pst_comm_sum(c, &over, 1, &error) < 0)
            exit(fail(error.message));
        double took = 1e-9 * (double)(clock_ns() - begin);
        to->list[to->count++] = took;
        sum += took;
    }
}

/* The sum of as many values alone, in pieces as a step posts them. */
static double exchange(pst_comm *c, float *values, size_t count, bool half)
{
    double times[15];
    for (size_t i = 0; i < 15; i++) {
        pst_comm_barrier(c, NULL);
        uint64_t begin = clock_ns();
        for (size_t at = 0; at < count; at += 1 << 18) {
            float *leaf = values + at;
            comm_post_sum(c, &leaf, 1, leaf, count - at < 1 << 18 ? count - at : 1 << 18, half ? COMM_F16 : COMM_F32);
        }
        comm_wait(c, NULL);
        times[i] = 1e-9 * (double)(clock_ns() - begin);
    }
    return median(times, 15);
}

static pst_trainer *make(const pst_model *model, const struct settings *s, pst_comm *c, bool exact)
{
    pst_train_options o = {.size = sizeof(o), .batch = s->batch, .threads = s->threads, .loss = PST_LOSS_SPARSE, .accumulate = s->accumulate,
                           .comm = c, .exact_ranks = exact, .gradients = s->half ? PST_GRADIENTS_FLOAT16 : PST_GRADIENTS_FLOAT32};
    pst_trainer *t = NULL;
    pst_error error;
    if (pst_trainer_create(&t, model, &o, &error) < 0)
        exit(fail(error.message));
    train_start_weights(model->graph, t->params);
    return t;
}

static int run(const struct settings *s, pst_comm *c, const pst_model *model, uint32_t side)
{
    size_t values = (size_t)side * side * 3, bytes = model->graph->values * sizeof(float);
    float *images = malloc(s->batch * values * sizeof(*images));
    int64_t *labels = malloc(s->batch * sizeof(*labels));
    if (!images || !labels)
        return fail("out of memory");
    train_start_data(s->batch, values, images, labels);
    pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {s->batch, side, side, 3}, .data = images};
    pst_tensor target = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {s->batch}, .data = labels};
    pst_samples samples = {.size = sizeof(samples), .input = &input, .target = &target};
    pst_trainer *alone = make(model, s, s->exact ? c : NULL, false), *together = make(model, s, c, s->exact);
    static struct times with, without, ignored;
    measure(together, c, &samples, s, 1, &ignored); /* warm-up */
    measure(alone, c, &samples, s, 0.5, &ignored);
    for (int turn = 0; turn < 6; turn++) { /* in turns: the machine's moods meet both */
        measure(together, c, &samples, s, s->seconds / 6, &with);
        measure(alone, c, &samples, s, s->seconds / 6, &without);
    }
    double sync = median(with.list, with.count), nosync = median(without.list, without.count);
    memset(together->grads, 0, bytes);
    double sum = pst_comm_size(c) > 1 ? exchange(c, together->grads, bytes / sizeof(float), s->half) : 0;
    if (pst_comm_rank(c) == 0)
        printf("RESULT {\"model\": \"%s\", \"transport\": \"%s\", \"ranks\": %u, \"threads\": %u, \"batch\": %zu, \"accumulate\": %u, \"exact\": %u, "
               "\"gradients\": \"%s\", \"mb\": %.2f, \"step_ms\": %.3f, \"compute_ms\": %.3f, \"exchange_ms\": %.3f, \"hidden\": %.3f, "
               "\"images_per_s\": %.1f}\n",
               s->model, pst_comm_name(c), pst_comm_size(c), s->threads, s->batch, s->accumulate, s->exact, s->half ? "float16" : "float32",
               (double)bytes / 1e6, 1e3 * sync, 1e3 * nosync, 1e3 * sum, sum > 0 ? 1 - (sync - nosync) / sum : 0,
               (double)(pst_comm_size(c) * s->accumulate * s->batch) / sync);
    pst_trainer_destroy(alone);
    pst_trainer_destroy(together);
    free(images);
    free(labels);
    return 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.model = "S3", .batch = 64, .threads = 1, .accumulate = 1, .seconds = 6};
    pst_comm_options o = {.size = sizeof(o), .plugin = getenv("PENSTOCK_PLUGIN")};
    pst_comm *c = NULL;
    pst_model *model = NULL;
    pst_error error;
    uint32_t side = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *v = argv[i + 1];
        if (strcmp(argv[i], "--model") == 0)
            s.model = v;
        else if (strcmp(argv[i], "--gradients") == 0)
            s.half = strcmp(v, "float16") == 0;
        else if (strcmp(argv[i], "--seconds") == 0)
            s.seconds = strtod(v, NULL);
        else if (strcmp(argv[i], "--batch") == 0)
            s.batch = strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            s.threads = (unsigned)strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--accumulate") == 0)
            s.accumulate = (unsigned)strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--exact") == 0)
            s.exact = (unsigned)strtoul(v, NULL, 10);
        else
            return fail("unknown option");
    }
    const char *text = train_model_text(s.model, &side);
    if (!text)
        return fail("there is no such model");
    if (pst_comm_open(&c, &o, &error) < 0 || pst_model_parse(&model, text, &(pst_shape){.rank = 3, .size = {side, side, 3}}, &error) < 0)
        return fail(error.message);
    int code = run(&s, c, model, side);
    pst_model_destroy(model);
    pst_comm_close(c);
    return code;
}
