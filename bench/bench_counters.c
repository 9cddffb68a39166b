/* bench_counters.c: samples per second of a pipeline, and microseconds of CPU time per sample:
 * bench_counters PIPELINE SECONDS [WORKERS [PREFETCH [MONITORS]]]. Built twice, with the engine's counters and without them; counters.py runs both at the same
 * time. MONITORS: a folder for a monitor of the pipeline.
 *
 * The consumer takes PREFETCH batches, then sleeps while the workers make others: otherwise how often the two wake each other, which differs from run to run,
 * would decide the CPU time of small batches. */
#include <penstock/pipeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NAP_NS 8000000

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    pst_pipeline_options o = {.size = sizeof(o), .workers = argc > 3 ? (unsigned)atoi(argv[3]) : 2, .prefetch = argc > 4 ? (unsigned)atoi(argv[4]) : 64,
                              .monitor = argc > 5 ? argv[5] : NULL};
    pst_pipeline *p = NULL;
    pst_error error = {0};
    char text[1024];
    double seconds = argc > 2 ? atof(argv[2]) : 1, begin = 0, cpu = 0;
    size_t samples = 0, batches = 0;
    pst_status st = argc > 1 ? pst_pipeline_parse(&p, argv[1], &o, &error)
                             : pst_fail(&error, PST_EINVAL, "bench_counters PIPELINE SECONDS [WORKERS [PREFETCH [MONITORS]]]");
    while (st >= 0 && (begin == 0 || batches % o.prefetch || now(CLOCK_MONOTONIC) - begin < seconds)) {
        pst_batch *batch = NULL;
        if (batches % o.prefetch == 0)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        st = pst_pipeline_next(p, &batch, &error);
        if (st != PST_OK)
            continue;
        if (++batches == 2 * o.prefetch) { /* the first batches warm up */
            begin = now(CLOCK_MONOTONIC);
            cpu = now(CLOCK_PROCESS_CPUTIME_ID);
            samples = 0;
        }
        samples += pst_batch_size(batch);
        pst_batch_unref(batch);
    }
    if (st < 0)
        fprintf(stderr, "%s\n", pst_error_text(&error, text, sizeof(text)));
    else
        printf("%.6g %.6g\n", (double)samples / (now(CLOCK_MONOTONIC) - begin), 1e6 * (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / (double)samples);
    pst_pipeline_destroy(p);
    return st < 0;
}
