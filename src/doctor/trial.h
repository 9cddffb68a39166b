/* trial.h: one measured run of a pipeline: rate with its range, costs per sample, waits.
 *
 * Costs are told apart by what a thread did with its time: it computed (CPU time), it was ready but others had the core (run
 * delay), or it waited (storage, a lock, a sleep). Only the first and the third belong to the pipeline, so that a busy machine
 * does not change the diagnosis. */
#ifndef DOCTOR_TRIAL_H
#define DOCTOR_TRIAL_H

#include "doctor/draft.h"

#include <penstock/train.h>

#define TRIAL_WINDOWS 16

struct trial_request {
    const struct draft *draft;
    double seconds;
    double warmup;         /* seconds before the measurement; at least the first batch is left out */
    bool whole_epoch;      /* the first epoch belongs to the warm-up, as far as it fits into `patience` */
    double patience;       /* limit of the warm-up in seconds; 0: 4 × `seconds` + 1 */
    double step;           /* seconds that the consumer sleeps per batch */
    pst_trainer *trainer;  /* or: a real step on each batch… */
    const pst_fields *fields; /* …with these fields */
    const char *trace;        /* a file for a trace of the run; NULL: none */
    pst_stop_fn stop;
    void *user;
};

struct trial_stage {
    char name[48];
    double us;    /* per delivered sample, of the workers' time: waits and delays included */
    double low, high;
    double bytes; /* per delivered sample */
};

struct trial {
    uint64_t samples, batches, epoch_samples; /* epoch_samples: of the first whole epoch; 0: none ended */
    double seconds;
    double rate, low, high; /* samples per second, with a 95 % range over windows */
    double first_batch;     /* seconds from opening to the first batch */
    double cpu_us;          /* CPU time of the process per sample */
    double busy_us;         /* time of workers in their work per sample */
    double blocked_us;      /* the part of it that is neither CPU time nor run delay */
    double delay;           /* share of the wanted CPU time that others took */
    double own;             /* share of busy_us that is CPU time or waiting: the rest is run delay */
    double wait_share;      /* of the consumer's time */
    double worker_wait;     /* share of the workers' time that they waited for room */
    double step_seconds;    /* mean duration of the consumer's own work per batch */
    double read_bytes, out_bytes; /* per sample */
    double skipped;               /* share of the elements that were left out as damaged */
    double ready;
    double window[TRIAL_WINDOWS]; /* rates */
    size_t windows;
    unsigned workers, prefetch;
    char prefetch_reason[160];
    uint64_t ram_planned, ram_used, batch_size;
    bool streamed;
    bool partial; /* whole_epoch was wanted and did not end in time */
    size_t stages;
    struct trial_stage stage[PST_MAX_STAGES];
};

pst_status trial_run(const struct trial_request *q, struct trial *ret, pst_error *reterr);

/* Sums up: the mean and the 95 % range of `count` values. */
void trial_range(const double *value, size_t count, double *ret_mean, double *ret_low, double *ret_high);

#endif
