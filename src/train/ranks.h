/* ranks.h: updates that several ranks share, and updates of one process that have the bits of several ranks (`exact_ranks`).
 *
 * An update takes `size` × `each` batches: batch j of rank r is number j · size + r of them. Every batch sees the moving statistics as
 * the last update left them; they are updated in the order of the batches afterwards. Gradients are sums over all batches, divided
 * by the number of samples. Buckets of gradients are posted to the communication thread as soon as the backward pass of a rank's last
 * batch has finished them. */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H

#include "dist/comm.h"

struct pst_trainer;
struct run_state;

/* What one batch adds to the sums of an epoch. */
struct batch_record {
    double loss;
    uint64_t samples, correct;
};

/* What a rank tells the others in every update. */
struct rank_record {
    uint32_t batches; /* that it has: fewer than `each` at the end of the data */
    uint32_t stops;   /* it was asked to stop: the update is left out */
    struct batch_record batch[]; /* `each` of them */
};

struct bucket {
    size_t offset, count; /* values of the gradients */
    size_t after;         /* parameters announced when it is final */
    uint64_t posting;     /* its number among the postings of the communicator */
};

struct ranks {
    pst_comm *comm;
    bool own;            /* the communicator is ours: one process */
    unsigned rank, size;
    unsigned each;       /* batches per update and rank */
    bool exact;
    enum comm_number number;
    struct bucket *buckets;
    size_t bucket_count, announced, posted;
    bool last;           /* the backward pass at hand is this rank's last of the update */
    float weight;        /* of its batch */
    float **kept;        /* exact, several batches: gradients of the first ones */
    size_t kept_count;
    float **list;        /* room for pointers to all of them */
    double *statistics, *all_statistics;
    size_t statistic_count; /* of one batch */
    double *share_mine, *share_all; /* sums of batch normalisation, rows first; NULL: they are not shared */
    size_t share_count;
    struct rank_record *mine, *all;
    size_t record_bytes;
    uint64_t records_posting; /* the posting of the statistics, which follow the records */
    bool stops;          /* this rank was asked to stop */
    /* Of the last update, the same on every rank. */
    uint64_t batches, samples;
    bool goes;           /* it happened */
    bool stopped, ended; /* some rank stops; the data is at its end */
};

/* Needs the trainer's step and optimiser. `comm` NULL: one process, exact. */
pst_status ranks_create(struct ranks **ret, struct pst_trainer *t, pst_comm *comm, pst_error *reterr);
struct ranks *ranks_destroy(struct ranks *r); /* NULL ok; returns NULL */
size_t ranks_bytes(const struct ranks *r, const struct pst_trainer *t);

/* Before the forward pass of a batch. */
void ranks_begin_batch(struct pst_trainer *t);
/* After its loss, before its backward pass. */
void ranks_record(struct pst_trainer *t, const struct batch_record *batch);
/* After its backward pass: keeps the gradients, or, after the last batch, waits for the records of all ranks. `*ret_grads` (NULL: no update
 * now) will be the sum over all batches times `*ret_scale`, bucket by bucket: see ranks_wait_bucket. */
pst_status ranks_end_batch(struct pst_trainer *t, float **ret_grads, double *ret_scale, pst_error *reterr);
/* Without further batches: the same for the batches so far. */
pst_status ranks_flush(struct pst_trainer *t, float **ret_grads, double *ret_scale, pst_error *reterr);
/* The rest of ranks_end_batch and ranks_flush where the caller takes the buckets one by one: waits for bucket `i`. */
pst_status ranks_wait_bucket(struct pst_trainer *t, size_t i, pst_error *reterr);
/* The records of the last update: batch `i` of all of them, in order. NULL: none is left. */
const struct batch_record *ranks_batch(const struct ranks *r, uint64_t i);

/* Fails where the trainers, the data or the teachers (0: none) of the ranks differ. */
pst_status ranks_compare(struct pst_trainer *t, uint64_t pipeline, uint64_t teacher, pst_error *reterr);
/* Gives every rank the trainer and the place of rank 0. */
pst_status ranks_share(struct pst_trainer *t, struct run_state *state, pst_error *reterr);

#endif
