/* test_path.c: remedies one after the other: which are combined, and what they bring together. */
#include "doctor/doctor.h"
#include "harness.h"

#include <math.h>
#include <string.h>

static struct pst_doctor doctor;

/* Two cores and 1000 µs per sample: 200 for reading, 700 for decoding, 100 for the batch. */
static struct pst_doctor *examined(void)
{
    struct pst_doctor *d = &doctor;
    memset(d, 0, sizeof(*d));
    d->limits.cores = 2;
    d->limits.scaling = 2;
    d->efficiency = 1;
    d->run = (struct trial){.cpu_us = 1000, .own = 1, .workers = 2, .stages = 3};
    d->run.stage[0] = (struct trial_stage){.name = "read", .us = 200};
    d->run.stage[1] = (struct trial_stage){.name = "decode", .us = 700};
    d->run.stage[2] = (struct trial_stage){.name = "batch", .us = 100};
    d->costs = costs_of(d, &d->run, &d->now);
    d->pipe_rate = predict_rate(d, &d->costs);
    d->now_rate = d->pipe_rate;
    d->step.rate = INFINITY;
    d->step.ms = NAN;
    return d;
}

/* A remedy whose trial leaves so much of each stage. */
static struct remedy *add(struct pst_doctor *d, enum remedy_group group, const char *id, double read, double decode, double batch)
{
    struct remedy *r = &d->remedy[d->remedies++];
    struct trial after = d->run;
    after.stage[0].us = read;
    after.stage[1].us = decode;
    after.stage[2].us = batch;
    after.cpu_us = read + decode + batch;
    *r = (struct remedy){.group = group, .id = id, .cause = "none", .available = true, .effort = 2, .measured = NAN};
    r->costs = costs_of(d, &after, &d->now);
    r->rate = predict_rate(d, &r->costs);
    r->gain = r->rate / d->pipe_rate;
    path_note(d, r, &d->run, &after);
    return r;
}

static void check_steps(const struct pst_doctor *d, const char *const *ids, const double *gains, size_t count)
{
    CHECK_INT(d->path_steps, count);
    for (size_t i = 0; i < count && i < d->path_steps; i++) {
        CHECK_STR(d->path[i].remedy->id, ids[i]);
        CHECK_MSG(fabs(d->path[i].rate / d->now_rate / gains[i] - 1) < 1e-6, "%s: %g times, not %g", ids[i],
                  d->path[i].rate / d->now_rate, gains[i]);
    }
}

static void test_savings_count_once(void)
{
    struct pst_doctor *d = examined();
    add(d, GROUP_DATA, "resize-offline", 200, 100, 100);
    add(d, GROUP_CACHE, "cache-ram", 0, 300, 100); /* decoding is cheaper already: reading is what is saved */
    doctor_find_path(d);
    check_steps(d, (const char *const[]){"resize-offline", "cache-ram"}, (const double[]){2.5, 5}, 2);
}

static void test_a_further_remedy_brings_no_more_than_alone(void)
{
    struct pst_doctor *d = examined();
    add(d, GROUP_CACHE, "cache-ram", 0, 100, 100);
    add(d, GROUP_QUALITY, "quality-fast", 200, 700, 20);
    doctor_find_path(d);
    check_steps(d, (const char *const[]){"cache-ram", "quality-fast"}, (const double[]){5, 5 * 1000. / 920}, 2);
}

static void test_what_is_not_combined(void)
{
    struct pst_doctor *d = examined();
    add(d, GROUP_DATA, "resize-offline", 200, 100, 100);
    add(d, GROUP_DATA, "store-planes", 100, 10, 100); /* another form of the same data */
    add(d, GROUP_CACHE, "cache-disk", 200, 100, 99);   /* saves nothing more */
    add(d, GROUP_FIELDS, "select-fields", 0, 700, 10)->available = false;
    add(d, GROUP_NONE, "native-op", 0, 10, 10); /* code */
    add(d, GROUP_QUALITY, "quality-fast", 10, 90, 10)->upper = true;
    doctor_find_path(d);
    CHECK_INT(d->path_steps, 0); /* a single remedy is no path */
}

static void test_the_step_is_the_limit(void)
{
    struct pst_doctor *d = examined();
    d->step.rate = 4000;
    add(d, GROUP_DATA, "resize-offline", 200, 100, 100)->gain = 2;
    add(d, GROUP_CACHE, "cache-ram", 0, 100, 100)->gain = 2;
    doctor_find_path(d);
    CHECK_INT(d->path_steps, 0);
    d = examined();
    d->step.rate = 8000;
    add(d, GROUP_DATA, "resize-offline", 200, 100, 100);
    add(d, GROUP_CACHE, "cache-ram", 0, 100, 20)->gain = 4;
    doctor_find_path(d);
    check_steps(d, (const char *const[]){"resize-offline", "cache-ram"}, (const double[]){2.5, 4}, 2);
}

static void test_a_faster_step_adds_up(void)
{
    struct pst_doctor *d = examined();
    d->step = (struct step){.rate = 2000, .shared = true, .ms = 1};
    d->now_rate = predict_together(d, d->pipe_rate); /* 2000 and 2000 on the same cores */
    struct remedy *r = add(d, GROUP_DATA, "resize-offline", 200, 100, 100);
    r->gain = predict_together(d, r->rate) / d->now_rate;
    struct remedy *mixed = &d->remedy[d->remedies++];
    *mixed = (struct remedy){.id = "mixed-precision",
                             .group = GROUP_STEP,
                             .cause = "none",
                             .available = true,
                             .effort = 2,
                             .rate = NAN,
                             .gain = 4. / 3,
                             .model_gain = 4. / 3};
    doctor_find_path(d); /* 1/5000 + 1/2000, then 1/5000 + 1/4000 */
    check_steps(d, (const char *const[]){"resize-offline", "mixed-precision"},
                (const double[]){1 / (0.0002 + 0.0005) / 1000, 1 / (0.0002 + 0.00025) / 1000}, 2);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"savings count once", test_savings_count_once},
        {"a further remedy brings no more than alone", test_a_further_remedy_brings_no_more_than_alone},
        {"what is not combined", test_what_is_not_combined},
        {"the step is the limit", test_the_step_is_the_limit},
        {"a faster step adds up", test_a_faster_step_adds_up},
        {0}};
    return test_main(argc, argv, tests);
}
