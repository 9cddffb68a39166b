/* pack_ranks.h: signs of life of processes that pack one dataset together: small files in OUT, which every one of them sees. */
#ifndef CLI_PACK_RANKS_H
#define CLI_PACK_RANKS_H

#include "cli/progress.h"
#include <penstock/base.h>
#include <pthread.h>

/* A file that changes once per second while this process lives. */
struct life_sign {
    char path[4200];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, stop, failed; /* under lock */
};

/* Starts; a process that cannot write the file goes on without. */
void life_sign_start(struct life_sign *l, const char *out, uint32_t rank, uint32_t ranks);
/* Removes the file; `failed`: leaves a last message in it instead. */
void life_sign_stop(struct life_sign *l, bool failed);

/* Removes messages of failures that an earlier run has left; of rank 0, before it begins. */
void clear_failures(const char *out, uint32_t ranks);
/* Waits until the parts of all ranks are complete. PST_ECANCELLED: interrupted; PST_EIO: a rank has failed or gives no sign of life. */
pst_status wait_for_parts(const char *out, uint32_t ranks, struct progress *progress, pst_error *error);

#endif
