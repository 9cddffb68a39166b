/* f32_elem_gradient.h: gradients of LANES channels at once, with conditions that the vectoriser may refuse. Included by f32_elem.c once for each number of
 * lanes, which is part of every name. */
#define OF_LANES_(name, lanes) name##lanes
#define OF_LANES(name, lanes)  OF_LANES_(name, lanes)
#define VECTOR                 OF_LANES(vector_, LANES)
#define MASK                   OF_LANES(mask_, LANES)
#define AT(p)                  (*(const VECTOR *)(p))
#define BETWEEN(v, low, high)  (((v) > (low)) & ((v) < (high)))
#define WHERE(mask, v)         ((VECTOR)((MASK)(v) & (mask)))

typedef float VECTOR __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t MASK __attribute__((vector_size(4 * LANES)));

/* Channels k to k + LANES - 1 of up to RUN pixels. */
INLINE void OF_LANES(gradient_, LANES)(const float *g, const float *y, float low, float high, const struct elem_service *s, bool adds, size_t pixels,
                                       size_t stride, size_t k, float *to)
{
    const bool masks = s->y.z != NULL, lazy = s->y.scale != NULL, sums = s->sum != NULL;
    VECTOR sum = {0}, sum2 = {0}, centre = {0}, mask_centre = {0}, scale = {0}, shift = {0};
    if (sums)
        centre = AT(s->centre + k);
    if (masks && lazy) {
        mask_centre = AT(s->y.centre + k);
        scale = AT(s->y.scale + k);
        shift = AT(s->y.shift + k);
    }
    for (size_t p = 0, at = k; p < pixels; p++, at += stride) {
        VECTOR v = AT(g + at);
        if (y)
            v = WHERE(BETWEEN(AT(y + at), low, high), v);
        if (masks) { /* what is read would be clamped, which does not change the answer */
            VECTOR read = AT(s->y.z + at);
            if (lazy)
                read = scale * (read - mask_centre) + shift;
            v = WHERE(BETWEEN(read, s->y.low, s->y.high), v);
        }
        if (sums) {
            sum += v;
            sum2 += v * (AT(s->z + at) - centre);
        }
        if (adds)
            v += AT(to + at);
        *(VECTOR *)(to + at) = v;
    }
    for (size_t i = 0; sums && i < LANES; i++) {
        s->sum[k + i] += (double)sum[i];
        s->sum2[k + i] += (double)sum2[i];
    }
}

#undef OF_LANES_
#undef OF_LANES
#undef VECTOR
#undef MASK
#undef AT
#undef BETWEEN
#undef WHERE
