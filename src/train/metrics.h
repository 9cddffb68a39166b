/* metrics.h: how good results are: counts per batch, and sums over a data set. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "train/loss.h"

/* Fills the counts of `ret` for a batch. */
void metrics_batch(pst_loss loss, const float *out, const struct loss_target *target, size_t n, size_t width, pst_step_result *ret);

/* Of one result: sums over the targets, their squares and the squares of the errors. */
struct spread {
    double sum, squares, errors;
};

/* What one batch, or all of them, add up to. */
struct metrics_sums {
    uint64_t samples, correct, correct_top5, values;
    double loss, absolute;
};

/* Sums over batches. */
struct metrics {
    pst_loss loss;
    struct metrics_sums sums;
    bool keeps_batches;           /* set it to keep the sums of each batch, for metrics_merge */
    struct metrics_sums *batches; /* in their order */
    size_t batch_count, batch_capacity;
    struct spread *spreads; /* of regression, by result: R². NULL: others */
    size_t spread_count;
    size_t classes;
    uint64_t *confusion; /* NULL: not asked for */
    size_t width;          /* results of a sample with binary targets; 0: others */
    struct score *scores;  /* of binary targets: result by result of each sample */
    size_t score_count, score_capacity;
};

/* A result with a binary target. */
struct score {
    float value;
    bool positive;
};

/* `width` is the number of results of a sample. */
pst_status metrics_init(struct metrics *m, pst_loss loss, size_t width, pst_error *reterr);
/* Adds a batch. Scores of binary targets are kept, as AUC needs their order: 8 bytes each. */
pst_status metrics_add(struct metrics *m, const float *out, const struct loss_target *target, size_t width, const pst_step_result *batch,
                       pst_error *reterr);
void metrics_add_sums(struct metrics_sums *to, const struct metrics_sums *from);
/* Replaces the metrics of every rank by those of all of them, as one process would have taken them: batch j of rank r is number
 * j · ranks + r. `st` is how this rank's pass ended; a failure or a cancellation of any rank is that of all. */
struct pst_comm;
pst_status metrics_merge(struct metrics *m, struct pst_comm *comm, pst_status st, pst_error *reterr);
/* The area under the ROC curve: the share of pairs of a positive and a negative that are in the right order; ties count half. Sorts.
 * NaN: only one kind. */
double metrics_auc(struct score *scores, size_t count);
/* 2 · right / (2 · right + wrong), wrong being false positives and false negatives; 0 where there is nothing. */
double metrics_f1(uint64_t right, uint64_t wrong);
/* Moves the confusion matrix to `ret`, the caller's struct of any version; result_check has looked at it. */
pst_status metrics_result(struct metrics *m, pst_evaluation *ret, pst_error *reterr);
void metrics_finish(struct metrics *m);

#endif
