/* state.h: which command fills the folder, how far it has come, and whether another may.
 *
 * OUT/.penstock-pack tells it while the work goes on; OUT/pack.json takes its place when all is done. */
#ifndef PACK_STATE_H
#define PACK_STATE_H

#include "pack/plan.h"

struct pack_state {
    const struct pack_config *config;
    char *working_path, *done_path;
    struct text identity; /* the lines that tell one command from another */
    char *found;          /* the text that was there, if it is of the same command; NULL: this is a new start */
    bool complete;        /* it was that of a finished one */
};

/* Reads what is there and decides: the same command goes on; another is PST_EEXIST, telling what differs, unless `force`
 * is set: then what it packed is removed. Zero-initialise `s` first. */
pst_status pack_state_open(struct pack_state *s, const struct pack_source *source, pst_error *reterr);
/* The number of shards that an earlier run of this command planned for a split. False: it did not. */
bool pack_state_shards(const struct pack_state *s, const char *split, uint64_t *ret);
/* Before the first shard is made, and after the last file is. */
pst_status pack_state_begin(struct pack_state *s, const struct pack_plan *p, pst_error *reterr);
pst_status pack_state_end(struct pack_state *s, const struct pack_plan *p, pst_error *reterr);
/* Removes what a kill at the very end may have left of a finished one. */
pst_status pack_state_tidy(struct pack_state *s, pst_error *reterr);
void pack_state_finish(struct pack_state *s);

#endif
