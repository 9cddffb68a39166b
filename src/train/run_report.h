/* run_report.h: RUN/report.html: what a run led to, for people: curves, the confusion matrix, the worst mistakes as pictures, and
 * where the time went. */
#ifndef TRAIN_RUN_REPORT_H
#define TRAIN_RUN_REPORT_H

#include "train/evaluate_model.h"

/* Data that a run collects for its report. */
struct run_results {
    double computing, waiting, validating, saving; /* seconds */
    bool has_evaluation, best; /* `best`: the evaluation below is that of the best step so far */
    uint64_t step;             /* of the evaluation */
    pst_evaluation evaluation;
    struct mistakes mistakes;
};

/* Takes what `e` and `m` own: the best evaluation is kept, or the newest where none was the best. */
void run_results_take(struct run_results *r, pst_evaluation *e, struct mistakes *m, uint64_t step, bool best);
void run_results_finish(struct run_results *r); /* zeroed ok */

/* Writes OUT/report.html. `table` is the text of epochs.csv. */
pst_status run_report_write(pst_trainer *t, const pst_run_options *o, const pst_run_progress *last, const struct run_results *r,
                            const char *table, pst_error *reterr);

/* An input as a PNG picture, for people: numbers that are not bytes are stretched from the darkest to the brightest. PST_EUNSUPPORTED:
 * the input is not an image of 1 or 3 channels. Free `*ret` with pst_free. */
pst_status picture_encode(const pst_shape *shape, pst_dtype dtype, const void *data, uint8_t **ret, size_t *ret_length, pst_error *reterr);

#endif
