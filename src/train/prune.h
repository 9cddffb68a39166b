/* prune.h: masks of parameters: weights that are zero and stay zero while the others are trained.
 *
 * The masks follow the schedules of TensorFlow's model optimisation toolkit. Sparsity grows only: a weight that was removed never
 * comes back. Which ones go depends on the weights alone, so that a resumed run repeats it. */
#ifndef TRAIN_PRUNE_H
#define TRAIN_PRUNE_H

#include "model/graph.h"
#include "model/team.h"
#include <penstock/train.h>

struct prune;

/* `trained` says which parameters are; kernels of other ones are not pruned. PST_EINVAL: an option out of range, or a name that no
 * layer with a kernel has. */
pst_status prune_create(struct prune **ret, const struct graph *g, const bool *trained, const pst_prune_options *o, uint64_t total_steps,
                        pst_error *reterr);
struct prune *prune_destroy(struct prune *p); /* NULL ok; returns NULL */

/* The share of zeros that the schedule wants after `step` updates. */
double prune_schedule(const pst_prune_options *o, uint64_t step);
/* Whether masks are computed again after `step` updates. */
bool prune_is_due(const pst_prune_options *o, uint64_t step);

/* After `step` updates: computes masks again where that is due, and sets masked weights to zero; `mean` (NULL: none) too. */
void prune_weights(struct prune *p, struct team *team, uint64_t step, float *params, float *mean);
/* Sets the values of masked weights to zero, in any block with the layout of the parameters. */
void prune_apply(struct prune *p, struct team *team, float *block);

/* The mask of a parameter: bit i % 8 of byte i / 8 is set where value i stays. NULL: the parameter is not pruned. */
const uint8_t *prune_mask(const struct prune *p, size_t param);
/* Takes a stored mask; NULL: everything stays. The parameter has a mask. */
void prune_set_mask(struct prune *p, size_t param, const uint8_t *mask);
/* The share of masked values among those of pruned parameters. NULL: 0. */
double prune_share(const struct prune *p);

/* A hash of what decides the masks. NULL: 0. */
uint64_t prune_hash(const struct prune *p);

#endif
