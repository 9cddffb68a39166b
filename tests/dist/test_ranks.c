/* test_ranks.c: trainers on 1, 2 and 4 ranks (forked processes): the same samples, the same bits, other numbers of ranks after a resume. */
#include "base/le.h"
#include "base/memory.h"
#include "dist/forked.h"
#include "harness.h"
#include "train/checkpoint.h"
#include <penstock/pipeline.h>

#include <math.h>
#include <string.h>

#define SAMPLES 83 /* 11 batches of 8, the last of 3 */
#define SIDE    6
#define BATCH   8

static const char model_text[] = "conv 4 3 pad=same | batchnorm | relu | dropout 0.2 | conv 5 3 relu bias=false | batchnorm | globalavgpool | dense 3";

static void write_npy(const char *name, const char *type, const char *shape, const void *data, size_t bytes)
{
    static uint8_t file[1 << 20];
    char header[118];
    memset(header, ' ', sizeof(header));
    header[sizeof(header) - 1] = '\n';
    int n = snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    header[n] = ' ';
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(file + 10, header, sizeof(header));
    memcpy(file + 128, data, bytes);
    test_write_file(test_path(name), file, 128 + bytes);
}

static void write_data(void)
{
    static float x[SAMPLES][SIDE][SIDE][3];
    static int64_t id[SAMPLES], label[SAMPLES];
    char shape[64];
    for (size_t i = 0; i < sizeof(x) / sizeof(float); i++)
        ((float *)x)[i] = (float)((i * 2654435761u) % 1000) / 500 - 1;
    for (int64_t i = 0; i < SAMPLES; i++) {
        id[i] = i;
        label[i] = i * 7 % 3;
        x[i][0][0][0] += (float)label[i];
    }
    snprintf(shape, sizeof(shape), "(%d, %d, %d, 3)", SAMPLES, SIDE, SIDE);
    write_npy("image.npy", "<f4", shape, x, sizeof(x));
    snprintf(shape, sizeof(shape), "(%d,)", SAMPLES);
    write_npy("id.npy", "<i8", shape, id, sizeof(id));
    write_npy("label.npy", "<i8", shape, label, sizeof(label));
}

struct plan {
    const char *out;
    unsigned each;    /* batches per rank and update */
    uint64_t epochs, steps, save_every;
    bool exact, resume, ids, validates, sync;
    size_t batch; /* 0: BATCH */
    const char *model;
    pst_gradients gradients;
    uint64_t stop_at, kill_at; /* the step after which the run is asked to stop, or rank 0 is killed; 0: none */
    bool at_end;               /* stop_at counts epochs that have ended */
    unsigned rank;             /* of this process */
    unsigned bad_batch;        /* rank 1 has a gradient that is not a number in this batch, from 1; 0: none */
    pst_mixed mixed;
};

static bool watch(void *user, const pst_run_progress *p)
{
    const struct plan *plan = user;
    if (plan->kill_at && plan->rank == 0 && p->step == plan->kill_at && !p->epoch_end)
        raise(SIGKILL); /* the checkpoint of this step is written */
    return plan->at_end ? p->epoch_end && p->epoch == plan->stop_at : plan->stop_at && p->step >= plan->stop_at;
}

/* Counts the samples, by their number, which is the target. */
static double count_ids(void *user, const pst_samples *samples, const float *out, size_t n, size_t width, float *gradient)
{
    unsigned char *counts = user;
    for (size_t i = 0; i < n; i++)
        counts[((const int64_t *)samples->target->data)[i]]++;
    for (size_t i = 0; gradient && i < n * width; i++)
        gradient[i] = out[i] / (float)n;
    return 0.5;
}

/* The loss is finite on every rank: only the sum over the ranks shows it. */
static double bad_once(void *user, const pst_samples *samples, const float *out, size_t n, size_t width, float *gradient)
{
    static unsigned batches;
    const struct plan *plan = user;
    (void)samples;
    for (size_t i = 0; gradient && i < n * width; i++)
        gradient[i] = out[i] / (float)n;
    if (gradient && ++batches == plan->bad_batch && plan->rank == 1)
        gradient[0] = NAN;
    return 0.5;
}

struct outcome {
    uint64_t steps, skipped;
    double scale;
    float first;
};

/* True if all ranks have left out one update, the same one, and have the same finite weights. */
static bool skipped_together(pst_comm *c, pst_trainer *t)
{
    struct outcome mine, all[MOST_RANKS];
    memset(&mine, 0, sizeof(mine));
    mine.steps = pst_trainer_steps(t);
    mine.scale = pst_trainer_loss_scale(t, &mine.skipped);
    mine.first = pst_trainer_values(t, 0)[0];
    bool ok = pst_comm_gather(c, &mine, sizeof(mine), all, NULL) == PST_OK && mine.skipped == 1 && isfinite(mine.first);
    for (unsigned r = 0; ok && r < pst_comm_size(c); r++)
        ok = memcmp(&all[r], &mine, sizeof(mine)) == 0;
    return ok;
}

static pst_status open_pipeline(pst_pipeline **ret, pst_comm *c, const struct plan *plan, const char *target, bool shuffled, pst_error *error)
{
    char text[1024];
    pst_pipeline_options o = {.size = sizeof(o), .seed = 5, .workers = 1, .rank = pst_comm_rank(c), .world = pst_comm_size(c), .uneven = plan->sync && shuffled ? PST_UNEVEN_DROP : PST_UNEVEN_ALLOW};
    snprintf(text, sizeof(text), "npy '%s' '%s' %s| batch %zu", test_path("image.npy"), test_path(target), shuffled ? "| shuffle " : "",
             plan->batch ? plan->batch : BATCH);
    return pst_pipeline_parse(ret, text, &o, error);
}

static pst_status train(pst_comm *c, const struct plan *plan, unsigned char *counts, pst_run_result *result, pst_error *error)
{
    const char *target = plan->ids ? "id.npy" : "label.npy";
    pst_pipeline *training = NULL, *validation = NULL;
    pst_model *model = NULL;
    pst_trainer *t = NULL;
    pst_fields fields = {.size = sizeof(fields)};
    pst_train_options o = {.size = sizeof(o), .batch = plan->batch ? plan->batch : BATCH, .threads = 1, .seed = 3, .loss = plan->ids || plan->bad_batch ? PST_LOSS_CUSTOM : PST_LOSS_SPARSE,
                           .loss_fn = plan->bad_batch ? bad_once : count_ids, .loss_user = plan->bad_batch ? (void *)(uintptr_t)plan : counts, .rate = 0.01, .accumulate = plan->each, .comm = c,
                           .exact_ranks = plan->exact, .gradients = plan->gradients, .sync_norm = plan->sync, .mixed = plan->mixed};
    pst_run_options r = {.size = sizeof(r), .epochs = plan->epochs, .steps = plan->steps, .fields = &fields, .out = plan->out,
                         .resume = plan->resume, .keep = 20, .save_every = plan->save_every,
                         .progress = watch, .user = (void *)(uintptr_t)plan};
    pst_status st = open_pipeline(&training, c, plan, target, true, error);
    if (st == PST_OK && plan->validates)
        st = open_pipeline(&validation, c, plan, target, false, error);
    if (st == PST_OK)
        st = pst_fields_find(training, "image", plan->ids ? "id" : "label", true, &fields, error);
    if (st == PST_OK)
        st = pst_model_parse(&model, plan->model ? plan->model : model_text, &fields.shape, error);
    if (st == PST_OK)
        st = pst_trainer_create(&t, model, &o, error);
    if (st == PST_OK)
        st = pst_trainer_run(t, training, validation, &r, result, error);
    if (st == PST_OK && plan->bad_batch && !skipped_together(c, t))
        st = pst_fail(error, PST_EINVAL, "the ranks did not leave out the same update");
    pst_trainer_destroy(t);
    pst_model_destroy(model);
    pst_pipeline_destroy(training);
    pst_pipeline_destroy(validation);
    return st;
}

struct job {
    struct plan plan;
    const char *results; /* rank 0 writes its result there; NULL: not wanted */
};

static bool run(pst_comm *c, void *user)
{
    struct job *j = user;
    unsigned char counts[SAMPLES] = {0}, all[SAMPLES * MOST_RANKS];
    pst_run_result result = {.size = sizeof(result)};
    pst_error error;
    j->plan.rank = pst_comm_rank(c);
    if (train(c, &j->plan, counts, &result, &error) < 0) {
        if (!j->plan.kill_at)
            printf("# rank %u: %s\n", pst_comm_rank(c), error.message);
        return false;
    }
    for (int i = 0; i < SAMPLES && !j->plan.ids; i++)
        counts[i] = 0;
    bool ok = pst_comm_gather(c, counts, sizeof(counts), all, &error) == PST_OK;
    for (int i = 0; i < SAMPLES && j->plan.ids; i++) {
        unsigned sum = 0;
        for (unsigned r = 0; r < pst_comm_size(c); r++)
            sum += all[r * SAMPLES + i];
        if (sum != j->plan.epochs)
            printf("# sample %d was trained %u times\n", i, sum);
        ok &= sum == j->plan.epochs;
    }
    if (j->results && pst_comm_rank(c) == 0)
        test_write_file(j->results, &result.last, sizeof(result.last));
    return ok;
}

static bool run_on(unsigned ranks, struct plan plan, const char *results)
{
    int codes[MOST_RANKS];
    struct job j = {plan, results};
    bool ok = true;
    run_forked(ranks, 120, run, &j, codes);
    for (unsigned r = 0; r < ranks; r++)
        ok &= CHECK_MSG(codes[r] == 0, "rank %u of %u ended with %d", r, ranks, codes[r]);
    return ok;
}

static pst_run_progress read_progress(const char *path)
{
    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    pst_run_progress p;
    memcpy(&p, bytes, sizeof(p));
    free(bytes);
    return p;
}

static bool same_file(const char *a, const char *b, const char *name)
{
    char path[2][600];
    size_t length[2];
    snprintf(path[0], sizeof(path[0]), "%s/%s", a, name);
    snprintf(path[1], sizeof(path[1]), "%s/%s", b, name);
    uint8_t *x = test_read_file(path[0], &length[0]), *y = test_read_file(path[1], &length[1]);
    bool same = length[0] == length[1] && memcmp(x, y, length[0]) == 0;
    free(x);
    free(y);
    return same;
}

static bool same_checkpoint(const char *a, const char *b)
{
    return same_file(a, b, "latest/weights.safetensors") && same_file(a, b, "latest/optimizer.safetensors");
}

/* Every sample once per epoch, whatever the number of ranks: 11 batches do not divide by any of them. */
static void test_coverage(void)
{
    write_data();
    for (unsigned ranks = 1; ranks <= 4; ranks *= 2)
        for (unsigned each = 1; each <= 3; each++)
            run_on(ranks, (struct plan){.each = each, .epochs = 2, .ids = true}, NULL);
}

/* 4 batches per update by 1, 2 and 4 ranks; 6 by 1, 2, 3 and 6, where the sum over an odd number of batches is not local. */
static void test_exact(void)
{
    char name[64], first[600];
    write_data();
    for (unsigned total = 4; total <= 6; total += 2) {
        pst_run_progress one = {0};
        for (unsigned ranks = 1; ranks <= total; ranks++) {
            if (total % ranks)
                continue;
            snprintf(name, sizeof(name), "exact%u-%u", total, ranks);
            const char *out = test_path(name), *results = test_path("results");
            if (!run_on(ranks, (struct plan){.out = out, .each = total / ranks, .epochs = 3, .exact = true, .validates = true}, results))
                return;
            pst_run_progress p = read_progress(results);
            if (ranks == 1) {
                one = p;
                snprintf(first, sizeof(first), "%s", out);
                continue;
            }
            CHECK_MSG(same_checkpoint(first, out), "%u batches per update: %u ranks differ from one", total, ranks);
            CHECK_MSG(p.loss == one.loss && p.accuracy == one.accuracy && p.val_loss == one.val_loss && p.val_accuracy == one.val_accuracy &&
                          p.step == one.step, "%u ranks: loss %.17g and %.17g, one: %.17g and %.17g", ranks, p.loss, p.val_loss, one.loss, one.val_loss);
        }
    }
}

/* Without exact_ranks: bit-identical for the same number of ranks, and close to one process. */
static void test_repeatable(void)
{
    write_data();
    const char *one = test_path("one"), *results = test_path("results1");
    run_on(1, (struct plan){.out = one, .each = 4, .epochs = 3, .validates = true}, results);
    pst_run_progress want = read_progress(results);
    for (unsigned ranks = 2; ranks <= 4; ranks += 2)
        for (int half = 0; half < 2; half++) {
            char a[64], b[64];
            snprintf(a, sizeof(a), "again-%u-%d-a", ranks, half);
            snprintf(b, sizeof(b), "again-%u-%d-b", ranks, half);
            struct plan plan = {.out = test_path(a), .each = 4 / ranks, .epochs = 3, .validates = true,
                                .gradients = half ? PST_GRADIENTS_FLOAT16 : PST_GRADIENTS_FLOAT32};
            const char *second = test_path("results2");
            run_on(ranks, plan, second);
            pst_run_progress p = read_progress(second);
            CHECK_MSG(fabs(p.loss - want.loss) < (half ? 2e-3 : 1e-4) && fabs(p.val_loss - want.val_loss) < (half ? 1e-2 : 1e-3),
                      "%u ranks: loss %g and %g, one process %g and %g", ranks, p.loss, p.val_loss, want.loss, want.val_loss);
            plan.out = test_path(b);
            run_on(ranks, plan, NULL);
            CHECK_MSG(same_checkpoint(test_path(a), test_path(b)), "%u ranks: two runs differ", ranks);
        }
}

/* A run that ends within an epoch continues with other numbers of ranks, to the same bits. */
static void test_resume(void)
{
    static const unsigned ranks[] = {4, 1, 2};
    write_data();
    struct plan plan = {.out = test_path("whole"), .each = 4, .steps = 8, .exact = true};
    run_on(1, plan, NULL);
    plan.out = test_path("parts");
    for (size_t i = 0; i < 3; i++) {
        plan.each = 4 / ranks[i];
        plan.steps = i == 0 ? 2 : i == 1 ? 5 : 8;
        plan.resume = i > 0;
        run_on(ranks[i], plan, NULL);
    }
    CHECK(same_checkpoint(test_path("whole"), test_path("parts")));
}

/* Stopped or killed after any update, also after the last one of an epoch, or at its end: a run continues to the same bits. */
static void test_every_end(void)
{
    static const struct {
        unsigned ranks, each;
        bool exact;
    } cases[] = {{1, 4, true}, {2, 3, false}};
    write_data();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char whole[600], parts[600];
        struct plan plan = {.out = whole, .each = cases[i].each, .epochs = 2, .exact = cases[i].exact, .validates = true, .save_every = 1};
        snprintf(whole, sizeof(whole), "%s", test_path("whole"));
        snprintf(whole + strlen(whole), sizeof(whole) - strlen(whole), "-%zu", i);
        run_on(cases[i].ranks, plan, NULL);
        for (unsigned how = 0; how < 3; how++)
            for (uint64_t k = how == 2 ? 1 : 2; k <= (how == 2 ? 1 : how == 1 ? 2 : 3); k++) { /* an epoch ends with step 3, or with step 2 */
                struct plan part = plan;
                int codes[MOST_RANKS];
                snprintf(parts, sizeof(parts), "%s-%u-%u", whole, how, (unsigned)k);
                part.out = parts;
                part.kill_at = how == 0 ? k : 0;
                part.stop_at = how ? k : 0;
                part.at_end = how == 2;
                run_forked(cases[i].ranks, how ? 120 : 5, run, &(struct job){part, NULL}, codes);
                part = plan;
                part.out = parts;
                part.resume = true;
                run_on(cases[i].ranks, part, NULL);
                CHECK_MSG(same_checkpoint(whole, parts), "%u ranks, %u batches each%s, %s after %u", cases[i].ranks, cases[i].each, cases[i].exact ? ", exact" : "",
                          how == 0 ? "killed" : how == 1 ? "stopped" : "stopped at the end of an epoch", (unsigned)k);
            }
    }
}

/* Statistics over two ranks of 8 samples are those of one process with 16, by the fused block and by the reference. */
static void test_sync_norm(void)
{
    static const char *const models[] = {"conv 4 3 pad=same | batchnorm | relu | conv 5 3 relu bias=false | batchnorm | globalavgpool | dense 3",
                                         "batchnorm | conv 4 3 relu pad=same | avgpool 2 | batchnorm | globalavgpool | dense 3"};
    write_data();
    for (size_t i = 0; i < 2; i++) {
        const char *results = test_path("sync results");
        run_on(1, (struct plan){.each = 1, .batch = 16, .steps = 5, .validates = true, .model = models[i]}, results);
        pst_run_progress one = read_progress(results);
        run_on(2, (struct plan){.each = 1, .steps = 5, .validates = true, .sync = true, .model = models[i]}, results);
        pst_run_progress two = read_progress(results);
        CHECK_MSG(fabs(one.loss - two.loss) < 2e-5 && fabs(one.val_loss - two.val_loss) < 2e-4, "loss %.8g and %.8g, one process %.8g and %.8g", two.loss,
                  two.val_loss, one.loss, one.val_loss);
        run_on(2, (struct plan){.each = 1, .steps = 5, .validates = true, .model = models[i]}, results);
        pst_run_progress apart = read_progress(results);
        CHECK_MSG(fabs(one.loss - apart.loss) > 1e-4, "statistics of each rank alone make no difference");
    }
}

/* True where the run failed with the words that every rank must say. */
static bool run_bad(pst_comm *c, void *user)
{
    struct job *j = user;
    pst_run_result result = {.size = sizeof(result)};
    pst_error error = {0};
    j->plan.rank = pst_comm_rank(c);
    pst_status st = train(c, &j->plan, NULL, &result, &error);
    if (st != PST_ETYPE || !strstr(error.message, "not finite after the sum over the ranks") || !strstr(error.message, "step 2"))
        printf("# rank %u: %d, %s\n", pst_comm_rank(c), st, error.message);
    return st == PST_ETYPE && strstr(error.message, "not finite after the sum over the ranks") && strstr(error.message, "step 2");
}

/* A gradient that is not finite on one rank is one on all: they end with the same words, or leave out the same update. */
static void test_a_bad_gradient_of_one_rank(void)
{
    int codes[MOST_RANKS];
    write_data();
    for (unsigned ranks = 2; ranks <= 4; ranks += 2) {
        struct job j = {.plan = {.each = 1, .steps = 6, .bad_batch = 2, .gradients = PST_GRADIENTS_FLOAT16}};
        run_forked(ranks, 120, run_bad, &j, codes);
        for (unsigned r = 0; r < ranks; r++)
            CHECK_MSG(codes[r] == 0, "rank %u of %u ended with %d", r, ranks, codes[r]);
        for (int half = 0; half < 2; half++)
            run_on(ranks, (struct plan){.each = 1, .steps = 6, .bad_batch = 2, .mixed = PST_MIXED_FLOAT16,
                                        .gradients = half ? PST_GRADIENTS_FLOAT16 : PST_GRADIENTS_FLOAT32}, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"coverage", test_coverage}, {"exact ranks", test_exact}, {"repeatable", test_repeatable},
                                        {"resume", test_resume}, {"every end", test_every_end}, {"shared statistics", test_sync_norm}, {"a bad gradient of one rank", test_a_bad_gradient_of_one_rank}, {NULL, NULL}};
    return test_main(argc, argv, tests);
}
