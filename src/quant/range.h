/* range.h: what values occur, and the range that 256 levels should cover.
 *
 * A histogram has bins of a width that is a power of two and doubles when a value lies outside: the result does not depend on the
 * order of the values. Zeros are not counted: every range represents them exactly. */
#ifndef QUANT_RANGE_H
#define QUANT_RANGE_H

#include "quant/quant.h"

#define RANGE_BINS 2048 /* on either side of zero */

enum quant_method {
    QUANT_MINMAX,     /* everything that occurs */
    QUANT_PERCENTILE, /* all but a share of the values on either side */
    QUANT_ENTROPY,    /* the range whose levels keep most of the distribution: least Kullback–Leibler divergence */
    QUANT_MSE,        /* the range with the least mean squared error */
};

struct quant_histogram {
    uint64_t bins[2 * RANGE_BINS];
    uint64_t count; /* of values that are not zero */
    float low, high;
    double width;   /* of a bin; 0: no value yet */
    bool nonfinite; /* a value was not finite; it is not counted */
};

void quant_histogram_add(struct quant_histogram *h, const float *x, size_t count);
/* `share` is of QUANT_PERCENTILE: 0.9999 keeps all but one of 10,000 values on either side. The range contains 0. */
struct quant_range quant_histogram_range(const struct quant_histogram *h, enum quant_method method, double share);

#endif
