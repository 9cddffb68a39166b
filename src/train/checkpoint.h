/* checkpoint.h: a trainer and the place of its run in a folder.
 *
 * FOLDER/weights.safetensors, FOLDER/optimizer.safetensors and FOLDER/state.json, which has a hash of each and of itself. The folder
 * appears whole or not at all; a damaged one is refused before anything of the trainer changes. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "base/json_read.h"
#include "train/trainer.h"

#define CHECKPOINT_FORMAT  2 /* 2: arrays without their zeros, of pruned runs; others are written as 1 */
#define CHECKPOINT_NETWORK 3 /* of a network: weights in any format, no optimiser */

/* Where a run is. */
struct run_state {
    uint64_t epoch;      /* from 0: epochs that are complete */
    uint64_t epoch_step; /* updates since its beginning */
    uint64_t samples, correct; /* of the epoch so far */
    double loss_sum;
    double best_loss; /* the best monitored value, negated where more is better; starts as infinity */
    uint64_t best_step;
    uint64_t wait; /* judgements without improvement */
    uint64_t validations; /* so far */
    uint64_t validated_step; /* of the newest one */
    uint64_t teacher; /* a hash of what it learns from; 0: nothing */
    bool has_cursor;
    pst_cursor cursor; /* of the training pipeline */
};

/* `options` may be NULL: there is no run. */
pst_status checkpoint_write(pst_trainer *t, const char *folder, const struct run_state *state, const pst_run_options *options,
                            pst_error *reterr);
/* Both may be NULL: only checked. */
pst_status checkpoint_read(pst_trainer *t, const char *folder, struct run_state *state, pst_error *reterr);

/* state.json after its hash was checked. `*ret_text` is what the document points into; mem_free it after json_finish. */
pst_status checkpoint_open_state(const char *folder, char **ret_text, struct json_document *ret, pst_error *reterr);

/* Reads FOLDER/NAME and compares its hash with the one in the state. The caller frees `*ret_bytes` and `ret`, after failures too. */
struct safetensors;
pst_status checkpoint_open_arrays(const char *folder, const char *name, const struct json_document *d, const char *hash_key,
                                  uint8_t **ret_bytes, struct safetensors *ret, pst_error *reterr);

/* PST_EEXIST where something other than a checkpoint or an empty folder would be replaced. */
pst_status checkpoint_replaceable(const char *path, pst_error *reterr);

/* "RUN/step_00001000"; mem_free. NULL: out of memory. */
char *checkpoint_path(const char *run, uint64_t step);
/* Publishes, makes the links, removes all but the newest `keep` and the best. */
pst_status checkpoint_publish(pst_trainer *t, const struct run_state *state, const pst_run_options *options, bool best,
                              pst_error *reterr);
/* Reads the newest sound checkpoint of a run folder. PST_ENOTFOUND: there is none. */
pst_status checkpoint_resume(pst_trainer *t, const char *run, struct run_state *state, pst_error *reterr);

extern const char *const loss_names[]; /* by pst_loss; ends with NULL */

struct onnx_model;
/* The record of an ONNX file, and its model (export/onnx_import.h), which the caller finishes; neither on failure. */
pst_status run_record_of_onnx(pst_run_record **ret, struct onnx_model *m, const char *path, const char *which, pst_error *reterr);

#endif
