/* channels.h: which channels of a model can go, and the smaller model without them.
 *
 * Channels that an addition ties together go together, and with them what depthwise layers, batch normalisation and flatten make of
 * them. The shrunken model computes what the original computes when every layer ignores the channels that went. */
#ifndef COMPRESS_CHANNELS_H
#define COMPRESS_CHANNELS_H

#include "model/graph.h"
#include <penstock/train.h>

struct channels;

/* `params` are the graph's values; both must outlive the result. */
pst_status channels_create(struct channels **ret, const struct graph *g, const float *params, pst_channel_norm norm, pst_error *reterr);
struct channels *channels_destroy(struct channels *c); /* NULL ok; returns NULL */

/* Whether `name`, which may have *, stands for a layer with parameters, or for one of its parameters. */
bool channels_named(const struct graph *g, size_t node, const char *name);
/* Keeps all channels of the layers called `name`, and all that are tied to them. PST_EINVAL: there is no such layer. */
pst_status channels_keep(struct channels *c, const char *name, pst_error *reterr);

/* Sets of channels from which some can go: those of one layer, or of all that additions tie together. */
size_t channels_sets(const struct channels *c);
/* The name of the first layer that makes the channels of a set. */
const char *channels_set_name(const struct channels *c, size_t set);
/* Channels of the set that are left, and that there were. */
size_t channels_left(const struct channels *c, size_t set, size_t *ret_all);
/* Multiplications and additions per sample with the channels that are left. */
uint64_t channels_flops(const struct channels *c);

/* Removes the least important channels of a set, one unit of them (whole vectors where the layer is wide enough). False: no more can go. */
bool channels_remove(struct channels *c, size_t set);
/* Takes back the last removal of the set. */
void channels_restore(struct channels *c, size_t set);
/* Removes channels until at most `share` of the original operations is left: each time from the set that loses the smallest share of
 * its norm per operation saved. PST_ELIMIT: the model cannot be made so small. */
pst_status channels_reduce(struct channels *c, double share, pst_error *reterr);

/* The smaller model: text and parameters. mem_free both. */
pst_status channels_shrink(const struct channels *c, char **ret_text, struct graph **ret, float **ret_params, pst_error *reterr);
/* Makes every layer ignore the channels that went: zeros in the rows of their kernels. */
void channels_ignore(const struct channels *c, float *params);

#endif
