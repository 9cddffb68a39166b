/* compress.h: the inside of a compression: what its steps share. */
#ifndef COMPRESS_COMPRESS_H
#define COMPRESS_COMPRESS_H

#include <penstock/compress.h>

#define COMPRESS_TRIES 3 /* how often a step is repeated with less */
#define NEEDS_FOLDER   "training after a step needs a folder for its checkpoints: give out (--out)"

struct compression {
    const pst_compress_options *options;
    pst_pipeline *training, *validation;
    pst_fields fields, validation_fields; /* of each */
    pst_cursor start;                     /* of the training pipeline */
    uint64_t length;                      /* updates per epoch; 0: not known yet */
    pst_compress_variant *variants;
    size_t count, capacity;
    double wanted; /* accuracy that must be reached; −INFINITY: any */
    const char *what; /* the variant at hand, for progress */
    bool stop;
};

/* Evaluates and measures a network and appends it. `*ret_accepted`: whether it is within the bound. */
pst_status compression_judge(struct compression *c, const pst_network *n, const char *name, bool *ret_accepted, pst_error *reterr);

/* Trains the network in OUT/`folder`-FINGERPRINT, or continues there. `prune` may be NULL. `qat` makes it a model for int8. `*ret` is NULL where the
 * user stopped. */
pst_status compression_train(struct compression *c, const pst_network *from, const char *folder, const pst_prune_options *prune, bool qat,
                             pst_network **ret, pst_error *reterr);

/* Shares of zeros per layer: `names` and `shares`, `count` of them; the caller frees all with mem_free. */
struct compression_shares {
    char **names;
    double *shares;
    size_t count;
    bool late; /* the time ended before every layer was measured */
};
/* Measures how much each layer loses without some of its weights, in the time given, then distributes zeros until `sparsity` of all weights are.
 * A layer that was not measured gets that share. Results of measurements are kept in OUT/search.json. */
pst_status compression_search(struct compression *c, const pst_network *n, struct compression_shares *ret, pst_error *reterr);
void compression_shares_finish(struct compression_shares *s);

/* Measures how much each layer of a folded network loses with fewer bits; what the time allows. `folded` must outlive the search. Measurements are kept
 * in OUT/search-bits.json. */
struct search;
pst_status compression_bits_create(struct search **ret, struct compression *c, const pst_network *folded, pst_error *reterr);
/* Takes bits away where that costs the least, until the mean per weight is at most `mean`. Fills `ret_each`, the format of each parameter, which the
 * caller has zeroed. Returns the mean that was reached. `*ret_late`: it is higher because the time ended before all was measured. */
double compression_bits_distribute(struct search *s, double mean, pst_weights_format *ret_each, bool *ret_late);
/* Accepts NULL. */
void compression_bits_destroy(struct search *s);

#endif
