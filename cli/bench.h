/* bench.h: a measured run of a pipeline, its live view and its report. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <penstock/pipeline.h>

/* Totals at a moment. */
struct bench_moment {
    double time; /* seconds */
    pst_stats stats;
};

enum bench_end { BENCH_EPOCHS, BENCH_SECONDS, BENCH_INTERRUPTED };

/* The measured part begins once the warm-up is delivered, or with the start. */
struct bench_result {
    const char *pipeline; /* its text */
    double first_batch;   /* seconds from opening the source to the first batch; negative: there was none */
    double step;          /* seconds that the consumer was busy with a batch; 0: it was not */
    uint64_t epochs;      /* completed */
    uint64_t warmup;      /* batches that are not measured */
    enum bench_end end;
    struct bench_moment start, begin, finish;
    const pst_damage_log *damage;
    uint64_t peak_rss; /* bytes */
};

/* Share of the measured time that the consumer waited for data, and what that means for training. */
double bench_waited(const struct bench_result *r);
const char *bench_verdict(double waited);

void put_bench(const struct bench_result *result, bool verbose);
void put_bench_json(const struct bench_result *result);

#endif
