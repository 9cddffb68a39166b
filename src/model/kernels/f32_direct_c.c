/* f32_direct_c.c: direct convolution in plain C, any size, stride and channels, depthwise too: takes what no other kernel takes.
 *
 * Weights stay HWIO (HWC where depthwise); so does the sum of their gradient. */
#include "model/kernels/direct.h"
#include "model/kernels/epilogue.h"

#include <string.h>

static bool takes(const struct conv_shape *s)
{
    return s->co > 0;
}

static size_t hwio_bytes(const struct conv_shape *s)
{
    return s->size * s->size * s->ci * (s->depthwise ? 1 : s->co) * sizeof(float);
}

static size_t scratch_bytes(const struct conv_shape *s)
{
    return (s->ci > s->co ? s->ci : s->co) * sizeof(float);
}

static void copy_weights(const struct conv_shape *s, const float *hwio, float *ret)
{
    memcpy(ret, hwio, hwio_bytes(s));
}

/* The input pixel of tap (i, j) for output (y, x); NULL: in the padding. */
static const float *tap(const struct conv_source *in, size_t stride, size_t image, size_t y, size_t x, size_t i, size_t j)
{
    size_t row = y * stride + i, column = x * stride + j;
    if (row < in->top || column < in->left || row - in->top >= in->h || column - in->left >= in->w)
        return NULL;
    return in->data + image * in->strides.image + (row - in->top) * in->strides.row + (column - in->left) * in->strides.pixel;
}

static void pixel(const struct conv_job *j, size_t image, size_t y, size_t x, float *restrict out)
{
    const struct conv_shape *s = &j->shape;
    memset(out, 0, s->co * sizeof(*out));
    for (size_t t = 0; t < s->size * s->size; t++) {
        const float *in = tap(&j->in, s->stride, image, y, x, t / s->size, t % s->size);
        const float *w = j->weights + t * s->ci * (s->depthwise ? 1 : s->co);
        if (in && s->depthwise)
            for (size_t c = 0; c < s->ci; c++)
                out[c] += in[c] * w[c];
        for (size_t c = 0; in && !s->depthwise && c < s->ci; c++, w += s->co)
            for (size_t o = 0; o < s->co; o++)
                out[o] += in[c] * w[o];
    }
}

static void conv(const struct conv_job *j, void *scratch)
{
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0; y < j->h; y++)
            for (size_t x = 0; x < j->w; x++) {
                pixel(j, image, y, x, scratch);
                epilogue_pixel(j, image, y, x, scratch, j->shape.co);
            }
}

/* The outputs whose windows hold input (y, x): output o with o · stride + i = y + top. */
static void pixel_back(const struct conv_job *j, size_t image, size_t y, size_t x, float *restrict out)
{
    const struct conv_shape *s = &j->shape;
    memset(out, 0, s->ci * sizeof(*out));
    for (size_t t = 0; t < s->size * s->size; t++) {
        size_t row = y + j->in.top, column = x + j->in.left, i = t / s->size, k = t % s->size;
        if (row < i || column < k || (row - i) % s->stride || (column - k) % s->stride)
            continue;
        row = (row - i) / s->stride;
        column = (column - k) / s->stride;
        if (row >= j->in.h || column >= j->in.w)
            continue;
        const float *g = j->in.data + image * j->in.strides.image + row * j->in.strides.row + column * j->in.strides.pixel;
        const float *w = j->weights + t * s->ci * (s->depthwise ? 1 : s->co);
        for (size_t c = 0; c < s->ci; c++) {
            float sum = 0;
            for (size_t o = 0; !s->depthwise && o < s->co; o++)
                sum += g[o] * w[c * s->co + o];
            out[c] += s->depthwise ? g[c] * w[c] : sum;
        }
    }
}

static void data(const struct conv_job *j, void *scratch)
{
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0; y < j->h; y++)
            for (size_t x = 0; x < j->w; x++) {
                pixel_back(j, image, y, x, scratch);
                epilogue_pixel(j, image, y, x, scratch, j->shape.ci);
            }
}

static void weight_gradient(const struct conv_weight_job *j, void *scratch)
{
    const struct conv_shape *s = &j->shape;
    (void)scratch;
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0; y < j->h; y++)
            for (size_t x = 0; x < j->w; x++) {
                const struct conv_strides *g = &j->gradient.strides;
                const float *dz = j->gradient.data + image * g->image + y * g->row + x * g->pixel;
                for (size_t t = 0; t < s->size * s->size; t++) {
                    const float *in = tap(&j->in, s->stride, image, y, x, t / s->size, t % s->size);
                    float *restrict sum = j->sum + t * s->ci * (s->depthwise ? 1 : s->co);
                    for (size_t c = 0; in && s->depthwise && c < s->ci; c++)
                        sum[c] += in[c] * dz[c];
                    for (size_t c = 0; in && !s->depthwise && c < s->ci; c++, sum += s->co)
                        for (size_t o = 0; o < s->co; o++)
                            sum[o] += in[c] * dz[o];
                }
            }
}

static size_t gradient_panels(const struct conv_shape *s)
{
    (void)s;
    return 1;
}

static void finish(const struct conv_shape *s, const float *sum, size_t first, size_t count, float *ret_hwio)
{
    (void)first;
    if (count > 0)
        copy_weights(s, sum, ret_hwio);
}

const struct conv_kernel conv_direct_c = {
    .name = "direct (C)",
    .takes = takes,
    .weights_bytes = hwio_bytes,
    .gradient_bytes = hwio_bytes,
    .scratch_bytes = scratch_bytes,
    .weights = copy_weights,
    .weights_back = copy_weights,
    .conv = conv,
    .data = data,
    .weight_gradient = weight_gradient,
    .gradient_panels = gradient_panels,
    .weight_gradient_finish = finish,
};
