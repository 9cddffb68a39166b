/* comm.h: what ranks do together: sums, broadcasts, gathers, barriers, over any transport (transport.h).
 *
 * One thread per process does all of the communication: the caller posts work, goes on computing, and waits later. Every rank posts the
 * same work in the same order. Sums have a fixed order: see comm_post_sum. The thread also sends signs of life, and ends the job
 * when another rank is silent. */
#ifndef DIST_COMM_H
#define DIST_COMM_H

#include "dist/transport.h"

#include <penstock/ranks.h>

struct pst_comm;

/* `transport` NULL: one rank. Otherwise `config` is handed to its `open`. */
pst_status comm_create(pst_comm **ret, const struct transport *transport, void *config, const pst_comm_options *options, pst_error *reterr);

/* Numbers on the way. */
enum comm_number { COMM_F32, COMM_F16 };

/* Posts a sum: value i of `to` becomes the sum of value i of every leaf of every rank, on every rank. Each rank has `leaves` (1 to
 * COMM_MOST_LEAVES) arrays of `count` values; leaf j of rank r is number j · size + r of all. While the number of leaves is even, leaf
 * i + n/2 is added to leaf i; then they are added in their order. So the bits depend on the leaves alone, not on the ranks that
 * hold them. `to` may be one of the leaves; leaves may be overwritten. COMM_F16: values travel as float16, with a power of two per
 * message as their scale. */
#define COMM_MOST_LEAVES 64
void comm_post_sum(pst_comm *c, float *const *leaves, size_t count_leaves, float *to, size_t count, enum comm_number number);

/* Posts a gather: `bytes` of every rank arrive in `all`, by rank. `go` (NULL ok) is called on the communication thread when they have;
 * if it returns false, the sums that were posted since are not computed, until the next gather. Its result must be the same on all
 * ranks. */
void comm_post_gather(pst_comm *c, const void *mine, size_t bytes, void *all, bool (*go)(void *user), void *user);

/* Waits for everything that was posted. The first failure is returned again by every later call. */
pst_status comm_wait(pst_comm *c, pst_error *reterr);

/* Returns the number of postings so far, for comm_wait_for. */
uint64_t comm_posted(pst_comm *c);
/* Waits for the first `count` postings of all. */
pst_status comm_wait_for(pst_comm *c, uint64_t count, pst_error *reterr);

/* Seconds that the communication thread spent on posted work, and the part of it during which a caller waited. */
struct comm_times {
    double working, awaited;
    uint64_t bytes; /* sent */
};
struct comm_times comm_times(pst_comm *c);

/* The first part of such a sum, over `n` arrays: halves their number while it is even, and returns it. */
size_t comm_halve_leaves(float *const *leaves, size_t n, size_t count);
/* The sum of comm_post_sum over `n` arrays, into the first one. */
void comm_sum_leaves(float *const *leaves, size_t n, size_t count);

#endif
