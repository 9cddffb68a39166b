/* ranks.h: several processes that train one model: who they are, and what they do together.
 *
 *     pst_launch launch = {.size = sizeof(launch)};
 *     if (pst_launch_find(&launch))                     started by mpirun or srun
 *         pst_comm_open(&comm, NULL, &err);             loads the plug-in for that MPI
 *
 * Hand the communicator to the trainer (pst_train_options.comm) and rank and number of ranks to the pipelines. */
#ifndef PENSTOCK_RANKS_H
#define PENSTOCK_RANKS_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a launcher started this process. */
typedef struct pst_launch {
    size_t size;          /* sizeof(pst_launch), set by the caller. */
    unsigned rank, ranks; /* The number of this process, from 0, and the number of all. */
    const char *launcher; /* The variables that said so: "Open MPI", "PMI", "Slurm". */
    const char *mpi;      /* The plug-in that fits: "openmpi" or "mpich"; "": the launcher does not say. */
} pst_launch;
/* Reads the variables that mpirun, mpiexec and srun set: OMPI_COMM_WORLD_*, PMI_*, PMIX_*, SLURM_*. Returns false for a process
 * that was not started by any of them, or that is alone. */
PST_API bool pst_launch_find(pst_launch *ret);

/* A communicator: the ranks of one job. */
typedef struct pst_comm pst_comm;

/* How a communicator is made. A member that is 0 has its default. */
typedef struct pst_comm_options {
    size_t size;        /* sizeof(pst_comm_options). */
    const char *plugin; /* The plug-in's file, or the folder it lies in; NULL: beside the library. */
    double timeout;     /* Seconds without a sign of life after which a rank counts as lost; 0: 20. */
    /* Called on a thread of the library when a rank is lost, before all ranks are ended. NULL: calls on the communicator fail
     * instead. */
    void (*failed)(void *user, const pst_error *error);
    void *user; /* Handed to `failed`. */
} pst_comm_options;

/* Joins the other ranks of the job that mpirun or srun started; a process that is alone gets a communicator of one rank.
 * `options` may be NULL. PST_EUNSUPPORTED: the plug-in for this MPI is missing; the message says how to get it. */
PST_API pst_status pst_comm_open(pst_comm **ret, const pst_comm_options *options, pst_error *reterr);
/* Waits for the other ranks, leaves them and returns NULL. `c` may be NULL. */
PST_API pst_comm *pst_comm_close(pst_comm *c);
/* Ends all ranks of the job with this exit code. Does not return where the communicator has more than one rank. */
PST_API void pst_comm_abort(pst_comm *c, int code);

/* Returns the number of this rank, from 0. `c` NULL: 0. */
PST_API unsigned pst_comm_rank(const pst_comm *c);
/* Returns the number of ranks. `c` NULL: 1. */
PST_API unsigned pst_comm_size(const pst_comm *c);
/* Returns the name of what carries the messages, such as "Open MPI". */
PST_API const char *pst_comm_name(const pst_comm *c);

/* One rank of a communicator. */
typedef struct pst_rank_info {
    size_t size;            /* sizeof(pst_rank_info), set by the caller. */
    uint64_t pid;           /* Its process. */
    char host[64];          /* The machine's name. */
    unsigned local, locals; /* Its number among the ranks of its machine, from 0, and their number. */
} pst_rank_info;
/* Fills `ret` for rank `rank`. Returns false if there is no such rank. */
PST_API bool pst_comm_info(const pst_comm *c, unsigned rank, pst_rank_info *ret);

/* Every rank calls the following functions, in the same order and with the same sizes. */

/* Waits until every rank has come here. */
PST_API pst_status pst_comm_barrier(pst_comm *c, pst_error *reterr);
/* Replaces `values` on every rank by their sum over the ranks; the bits are the same on all of them, and for every run. */
PST_API pst_status pst_comm_sum(pst_comm *c, float *values, size_t count, pst_error *reterr);
/* Replaces `data` on every rank by that of rank `root`. */
PST_API pst_status pst_comm_broadcast(pst_comm *c, void *data, size_t bytes, unsigned root, pst_error *reterr);
/* Collects `bytes` of every rank in `all` (ranks × bytes), by rank, on every rank. */
PST_API pst_status pst_comm_gather(pst_comm *c, const void *mine, size_t bytes, void *all, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
