/* metrics.h: how good results are: counts per batch, and sums over a data set. */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include "train/loss.h"

/* Fills the counts of `ret` for a batch. */
void metrics_batch(pst_loss loss, const float *out, const struct loss_target *target, size_t n, size_t width, pst_step_result *ret);

/* Sums over batches. */
struct metrics {
    pst_loss loss;
    uint64_t samples, correct, correct_top5, values;
    double loss_sum, absolute_sum;
    double target_sum, target_squares, error_squares; /* of regression: R² */
    size_t classes;
    uint64_t *confusion; /* NULL: not asked for */
};

/* `classes` 0: no confusion matrix. */
pst_status metrics_init(struct metrics *m, pst_loss loss, size_t classes, pst_error *reterr);
void metrics_add(struct metrics *m, const float *out, const struct loss_target *target, size_t width, const pst_step_result *batch);
/* Moves the confusion matrix to `ret`. */
void metrics_result(struct metrics *m, pst_evaluation *ret);
void metrics_finish(struct metrics *m);

#endif
