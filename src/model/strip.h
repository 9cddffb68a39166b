/* strip.h: the passes of elem.h over values of any number type: some pixels at a time are converted in the first-level cache. */
#ifndef MODEL_STRIP_H
#define MODEL_STRIP_H

#include "model/kernels/elem.h"
#include "model/number.h"

#define STRIP_WIDEST 2048 /* channels; values with more are stored as float32 */

/* Values as they are stored: y = clamp(scale · (z − centre) + shift, low, high); scale NULL: z is y. */
struct strip_source {
    const void *z;
    enum number number;
    const float *centre, *scale, *shift; /* per channel */
    float low, high;
};

/* `from` from value `at` on. */
static inline struct strip_source strip_skip(struct strip_source from, size_t at)
{
    if (from.z)
        from.z = number_from(from.z, from.number, at);
    return from;
}

void strip_convert(const void *from, enum number from_number, size_t count, void *to, enum number to_number);
/* to = y */
void strip_read(const struct elem_kernels *k, const struct strip_source *from, size_t pixels, size_t channels, float *to);
/* to = by_gradient · g + by_z · (z − centre) + offset */
void strip_norm_gradient(const struct elem_kernels *k, const void *g, const void *z, enum number number, const float *centre, const float *by_gradient,
                         const float *by_z, const float *offset, size_t pixels, size_t channels, float *to);
/* to = clamp(a + b, low, high) */
void strip_add(const struct elem_kernels *k, const struct strip_source *a, const struct strip_source *b, float low, float high, size_t pixels,
               size_t channels, void *to, enum number number);

/* elem_kernels.gradient: `to` += or = g where both masks pass it, and sums for batch normalisation. */
struct strip_gradient {
    const void *g; /* of number type `number`, as is `y` */
    enum number number;
    const void *y; /* passes where low < y < high; NULL: everywhere */
    float low, high;
    struct strip_source mask; /* z NULL: nothing is masked */
    const void *z;            /* of sum2, of the type of `to` */
    const float *centre;
    double *sum, *sum2; /* NULL: no sums */
    bool adds;
};
void strip_gradient(const struct elem_kernels *k, const struct strip_gradient *j, size_t pixels, size_t channels, void *to, enum number to_number);

#endif
