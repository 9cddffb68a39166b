/* steps.h: the steps of pst_pack in the order in which pack.c takes them; each has a .c file of its own. */
#ifndef PACK_STEPS_H
#define PACK_STEPS_H

#include "pack/pack_plan.h"
#include "pack/recipe.h"
#include "pack/report.h"
#include "pack/shard_out.h"

/* state.c: which command fills the folder, its progress, and whether another command may use it. OUT/.penstock-pack stores
 * this during the work; OUT/pack.json takes its place when all is done. */
struct pack_state {
    const struct pack_config *config;
    const char *folder;
    bool force;
    char *working_path, *done_path;
    struct text identity; /* the lines that identify a command */
    char *found;          /* the existing state, if it is of the same command; NULL: a new start */
    bool complete;        /* the existing state is that of a finished command */
};

/* Reads the existing state and decides: the same command resumes; another one is PST_EEXIST, naming the difference, unless
 * `force` is set: then its output is removed. Zero-initialise `s` first. */
pst_status pack_state_open(struct pack_state *s, const struct pack_source *source, const char *folder, bool force,
                           pst_error *reterr);
/* Distinguishes the command from others, in the notes beside its shards; never 0. */
uint64_t pack_state_command(const struct pack_state *s);
/* Checks that the folder is still this command's: PST_EEXIST if another one has replaced it since. */
pst_status pack_state_still(const struct pack_state *s, pst_error *reterr);
/* The number of shards that an earlier run of this command planned for a split. False: it did not. */
bool pack_state_shards(const struct pack_state *s, const char *split, uint64_t *ret);
/* Call before the first shard is written, and after the last file. */
pst_status pack_state_begin(struct pack_state *s, const struct pack_plan *p, pst_error *reterr);
pst_status pack_state_end(struct pack_state *s, const struct pack_plan *p, pst_error *reterr);
/* Checks that `folder` was packed by the same command and is complete. PST_ENOTFOUND: it is not complete. */
pst_status pack_state_check(const struct pack_state *s, const char *folder, pst_error *reterr);
/* Reports whether the folder, of a part or of the whole, is complete, by whatever command. */
pst_status pack_state_complete(const char *folder, bool *ret, pst_error *reterr);
/* Removes the state of a folder whose shards are elsewhere by now. */
pst_status pack_state_remove(const char *folder, pst_error *reterr);
/* Removes leftovers of a finished command that was killed at the very end. */
pst_status pack_state_tidy(struct pack_state *s, pst_error *reterr);
void pack_state_finish(struct pack_state *s);

/* finished.c: which of the `count` shards an earlier run of this command completed; `*ret_missing`: how many are not. */
pst_status pack_find(const struct pack_config *c, struct out_shard *shards, size_t count, struct pack_ticker *ticker, uint64_t *ret_missing,
                     pst_error *reterr);

/* size_sample.c: estimates the size of records that are known only after they are made. Returns the bytes of the average record, framing included, from a fixed
 * sample. 0: all sampled items were bad. */
pst_status pack_sample(const struct pack_plan *plan, const struct recipe *recipe, struct pack_ticker *ticker, double *ret,
                       pst_error *reterr);

/* part.c: packing by many processes: each writes a range of the plan's shards into a folder of its own inside the output
 * folder; joining moves the shards to their place. A part is packed, resumed and locked like any output folder.
 *
 * A store cannot move objects: there, parts write their shards to their final place, and the part's folder has only its state. The state of the whole, which
 * the first part writes, says which command those shards are of. */

/* True for a part that writes its shards beside those of the others. */
bool pack_parts_share(const struct pack_config *c);

/* The shards [*ret_begin, *ret_end) of the plan that this call writes. */
void pack_part_range(const struct pack_plan *p, size_t *ret_begin, size_t *ret_end);

/* Moves the shards that are not in the output folder yet out of the parts' folders, where they are in those. Every part must be complete and packed
 * by the same command; PST_ENOTFOUND names those that are not. Repeats without harm. */
pst_status pack_part_gather(struct pack_state *s, const struct pack_plan *p, const struct out_shard *shards, pst_error *reterr);
/* Removes the parts' folders after their shards were moved, or their states where there is nothing to move. */
pst_status pack_part_remove(const struct pack_config *c, pst_error *reterr);

/* together.c: the parts of a job whose processes run at the same time: each gives signs of life, the first one waits for the others and joins.
 * Of the caller's options, which are not checked yet, `part` and `patience` are set. */
pst_status pack_together(const char *const *sources, size_t count, const char *out, const pst_pack_options *options, pst_pack_report **ret,
                         pst_error *reterr);

/* workers.c: writes all shards of a plan that are not complete yet, with any number of workers. */

/* Bad items: how many are allowed and how many were found. */
struct bad_budget {
    bool skip;
    uint64_t allowed; /* UINT64_MAX: any number */
    uint64_t found;   /* before the run, then after it */
};

/* Packs the `count` shards, consecutive ones of the plan, that are not done. Complete shards stay complete, even after a
 * failure; the others leave no files. */
pst_status pack_run(const struct pack_plan *plan, const struct recipe *recipe, struct out_shard *shards, size_t count,
                    struct bad_budget *bad, struct pack_ticker *ticker, pst_error *reterr);

/* meta.c: the files that describe the shards to their readers, as TensorFlow Datasets lays them out: dataset_info.json,
 * features.json, labels.txt and LABEL.labels.txt. Call after all shards are done. */
pst_status pack_meta_publish(const struct pack_plan *p, const struct recipe *r, const struct out_shard *shards,
                             pst_error *reterr);

#endif
