/* resample.h: an order in which every class has its share of the elements.
 *
 * Positions are divided into blocks. A block has every class exactly in proportion. All blocks have the same circular
 * pattern of classes, each from another beginning; so the class of a position, and how many of its class come before it, are
 * arithmetic. The elements of a class come in shuffled rounds: none comes twice before all of them came once. */
#ifndef FLOW_RESAMPLE_H
#define FLOW_RESAMPLE_H

#include <penstock/base.h>

struct resample;

/* `labels` has one label per element before the step. `target` has one share per class in the order of the labels, "0.7,0.3";
 * "" is the same share for all. `length` elements come out; 0: as many as there are. */
pst_status resample_create(struct resample **ret, const uint64_t *labels, uint64_t count, const char *target, uint64_t length,
                           uint64_t seed, pst_error *reterr);
struct resample *resample_destroy(struct resample *r); /* NULL ok; returns NULL */
uint64_t resample_length(const struct resample *r);
/* Returns the element at position `k` of a pass. `*pass` becomes the pass over the elements before the step: an element that
 * comes several times has another one each time. */
uint64_t resample_at(const struct resample *r, uint64_t k, uint64_t *pass);

struct pipeline_plan;
struct plan_env;
/* Adds the step of the `resample` that is node `i` of the plan's chain: the labels of all elements are read here. */
pst_status plan_resample(struct pipeline_plan *p, size_t i, const struct plan_env *env, pst_error *reterr);

#endif
