/* step.h: the training step of a model, as it is or changed, on a batch of the pipeline. */
#ifndef DOCTOR_STEP_H
#define DOCTOR_STEP_H

#include "doctor/doctor.h"

struct bench { /* zeroed by the caller: a batch and the model that is trained on it */
    pst_pipeline *pipeline;
    pst_batch *batch;
    pst_fields fields;
    pst_model *model;
    pst_trainer *trainer;
};

/* Call bench_finish also after a failure. */
pst_status bench_open(struct pst_doctor *d, const struct step_change *change, struct bench *b, pst_error *reterr);
/* The same on the batches of another pipeline. */
pst_status bench_open_on(const struct draft *r, const char *model, pst_mixed mixed, struct bench *b, pst_error *reterr);
void bench_finish(struct bench *b);
pst_samples bench_samples(const struct bench *b);

/* The time of a changed step by itself, as a share of the present one's: both run in turns, and the shortest of each count. */
pst_status step_compare(struct pst_doctor *d, const struct step_change *change, double seconds, double *ret_share, pst_error *reterr);
/* Samples per second of the pipeline with the present and with the changed step, in turns. */
pst_status step_turns(struct pst_doctor *d, const struct step_change *change, struct step_turns *ret, pst_error *reterr);

#endif
