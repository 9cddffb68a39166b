/* target.h: the targets of a batch as losses take them. */
#ifndef TRAIN_TARGET_H
#define TRAIN_TARGET_H

#include "train/loss.h"

/* Where converted targets go. */
struct target_room {
    pst_loss loss;
    size_t width;    /* results per sample */
    int64_t *labels; /* one per sample */
    float *values;   /* `width` per sample */
};

/* Converts the targets of `n` samples. PST_ETYPE: they do not fit the loss. PST_EINVAL with the sample as record: a label is out of range. */
pst_status target_convert(const struct target_room *room, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr);

#endif
