/* state.h: which command fills the folder, its progress, and whether another command may use it.
 *
 * OUT/.penstock-pack stores this during the work; OUT/pack.json takes its place when all is done. */
#ifndef PACK_STATE_H
#define PACK_STATE_H

#include "pack/plan.h"

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
/* The number of shards that an earlier run of this command planned for a split. False: it did not. */
bool pack_state_shards(const struct pack_state *s, const char *split, uint64_t *ret);
/* Call before the first shard is written, and after the last file. */
pst_status pack_state_begin(struct pack_state *s, const struct pack_plan *p, pst_error *reterr);
pst_status pack_state_end(struct pack_state *s, const struct pack_plan *p, pst_error *reterr);
/* Checks that `folder` was packed by the same command and is complete. PST_ENOTFOUND: it is not complete. */
pst_status pack_state_check(const struct pack_state *s, const char *folder, pst_error *reterr);
/* Removes the state of a folder whose shards are elsewhere by now. */
pst_status pack_state_remove(const char *folder, pst_error *reterr);
/* Removes leftovers of a finished command that was killed at the very end. */
pst_status pack_state_tidy(struct pack_state *s, pst_error *reterr);
void pack_state_finish(struct pack_state *s);

#endif
