/* optimizer.h: updates of all trained parameters at once, in runs of values that the threads of the step share.
 *
 * Runs and the order of sums depend on the model only: results are bit-identical for any number of threads. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "model/graph.h"
#include "model/team.h"
#include <penstock/train.h>

struct optimizer;

struct optimizer_options {
    pst_optimizer kind;
    double momentum, beta1, beta2, epsilon;
    double weight_decay; /* decoupled: w −= rate · decay · w, kernels only */
    double clip_norm, clip_value; /* 0: none */
    double ema; /* decay of the mean of the weights; 0: none */
    bool accumulates; /* state 3 is needed */
    const char *const *freeze; /* names of layers, "conv_*" too */
    size_t freeze_count;
    unsigned features;
};

/* PST_EINVAL: a frozen name that no layer has. */
pst_status optimizer_create(struct optimizer **ret, const struct graph *g, const struct optimizer_options *o, pst_error *reterr);
struct optimizer *optimizer_destroy(struct optimizer *o); /* NULL ok; returns NULL */

/* One update at step `t` (1 is the first) with the gradients times `scale`. Returns their norm if it was needed for clipping,
 * otherwise 0. */
double optimizer_apply(struct optimizer *o, struct team *team, uint64_t t, double rate, double scale, float *params, const float *grads);
/* The same update in parts, without clipping by norm: begin, then ranges of values in any order, then end. */
void optimizer_begin(struct optimizer *o, uint64_t t, double rate, double scale, float *params, const float *grads);
void optimizer_apply_range(struct optimizer *o, struct team *team, size_t offset, size_t count);
void optimizer_end(struct optimizer *o, struct team *team);
/* Adds the gradients times `weight` to state 3; `first`: begins the sum. */
void optimizer_accumulate(struct optimizer *o, struct team *team, const float *grads, double weight, bool first);
/* The norm of all trained gradients. */
double optimizer_norm(struct optimizer *o, struct team *team, const float *grads);

/* State as blocks with the layout of the parameters: 0 first moment, 1 second moment, 2 mean of the weights, 3 sum of
 * gradients; NULL: not kept. */
#define OPTIMIZER_STATES 4
float *optimizer_state(struct optimizer *o, size_t i);
/* The mean of the weights starts as the weights are. */
void optimizer_start_mean(struct optimizer *o, const float *params);
/* Whether parameter `p` is trained. */
bool optimizer_trains(const struct optimizer *o, size_t p);

#endif
