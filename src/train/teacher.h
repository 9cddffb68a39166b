/* teacher.h: what a run asks its teacher for. */
#ifndef TRAIN_TEACHER_H
#define TRAIN_TEACHER_H

#include <penstock/train.h>

/* A hash of everything that decides what the teacher says; never 0. */
uint64_t teacher_hash(const pst_teacher *t);
/* Compares shapes with those of the student; computes the logits of the whole pipeline ahead, or reads them, where that is possible. Ranks compute
 * a part each. The pipeline is at its beginning afterwards. PST_ECANCELLED: it was stopped. */
pst_status teacher_prepare(pst_teacher *t, pst_pipeline *p, const pst_fields *fields, const pst_trainer *student, pst_error *reterr);
/* Sets `teacher` and `features` of the batch's samples. */
pst_status teacher_batch(pst_teacher *t, pst_pipeline *p, const pst_batch *batch, pst_samples *samples, pst_error *reterr);

#endif
