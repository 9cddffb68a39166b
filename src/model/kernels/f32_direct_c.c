/* f32_direct_c.c: direct convolution in plain C, any size, stride, dilation, groups and channels, depthwise too: takes what no other kernel takes.
 *
 * Weights stay HWIO (HWC where depthwise); so does the sum of their gradient. */
#include "model/kernels/direct.h"
#include "model/kernels/epilogue.h"

#include <string.h>

static bool takes(const struct conv_shape *s)
{
    return s->co > 0;
}

/* Weights of a tap. */
static size_t tap_weights(const struct conv_shape *s)
{
    return s->ci / conv_groups(s) * (s->depthwise ? 1 : s->co);
}

static size_t hwio_bytes(const struct conv_shape *s)
{
    return s->size * s->size * tap_weights(s) * sizeof(float);
}

static size_t scratch_bytes(const struct conv_shape *s)
{
    return (s->ci > s->co ? s->ci : s->co) * sizeof(float);
}

static void copy_weights(const struct conv_shape *s, const float *hwio, float *ret)
{
    memcpy(ret, hwio, hwio_bytes(s));
}

/* The input pixel of tap t for output (y, x); NULL: in the padding. */
static const float *tap(const struct conv_source *in, const struct conv_shape *s, size_t image, size_t y, size_t x, size_t t)
{
    size_t row = y * s->stride + t / s->size * conv_dilation(s), column = x * s->stride + t % s->size * conv_dilation(s);
    if (row < in->top || column < in->left || row - in->top >= in->h || column - in->left >= in->w)
        return NULL;
    return in->data + image * in->strides.image + (row - in->top) * in->strides.row + (column - in->left) * in->strides.pixel;
}

/* One pixel by the weights `w` of one tap. */
static void tap_forward(const struct conv_shape *s, const float *in, const float *w, float *restrict out)
{
    size_t ci = s->ci / conv_groups(s), co = s->co / conv_groups(s);
    for (size_t c = 0; s->depthwise && c < s->ci; c++)
        out[c] += in[c] * w[c];
    for (size_t g = 0; !s->depthwise && g < conv_groups(s); g++, in += ci, w += co, out += co)
        for (size_t c = 0; c < ci; c++)
            for (size_t o = 0; o < co; o++)
                out[o] += in[c] * w[c * s->co + o];
}

static void tap_back(const struct conv_shape *s, const float *dz, const float *w, float *restrict out)
{
    size_t ci = s->ci / conv_groups(s), co = s->co / conv_groups(s);
    for (size_t c = 0; s->depthwise && c < s->ci; c++)
        out[c] += dz[c] * w[c];
    for (size_t g = 0; !s->depthwise && g < conv_groups(s); g++, dz += co, w += co, out += ci)
        for (size_t c = 0; c < ci; c++) {
            float sum = 0;
            for (size_t o = 0; o < co; o++)
                sum += dz[o] * w[c * s->co + o];
            out[c] += sum;
        }
}

static void tap_gradient(const struct conv_shape *s, const float *in, const float *dz, float *restrict sum)
{
    size_t ci = s->ci / conv_groups(s), co = s->co / conv_groups(s);
    for (size_t c = 0; s->depthwise && c < s->ci; c++)
        sum[c] += in[c] * dz[c];
    for (size_t g = 0; !s->depthwise && g < conv_groups(s); g++, in += ci, dz += co, sum += co)
        for (size_t c = 0; c < ci; c++)
            for (size_t o = 0; o < co; o++)
                sum[c * s->co + o] += in[c] * dz[o];
}

static void pixel(const struct conv_job *j, size_t image, size_t y, size_t x, float *out)
{
    const struct conv_shape *s = &j->shape;
    memset(out, 0, s->co * sizeof(*out));
    for (size_t t = 0; t < s->size * s->size; t++) {
        const float *in = tap(&j->in, s, image, y, x, t);
        if (in)
            tap_forward(s, in, j->weights + t * tap_weights(s), out);
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

/* The outputs whose windows hold input (y, x): output o with o · stride + i · dilation = y + top. */
static void pixel_back(const struct conv_job *j, size_t image, size_t y, size_t x, float *out)
{
    const struct conv_shape *s = &j->shape;
    memset(out, 0, s->ci * sizeof(*out));
    for (size_t t = 0; t < s->size * s->size; t++) {
        size_t row = y + j->in.top, column = x + j->in.left, i = t / s->size * conv_dilation(s), k = t % s->size * conv_dilation(s);
        if (row < i || column < k || (row - i) % s->stride || (column - k) % s->stride)
            continue;
        row = (row - i) / s->stride;
        column = (column - k) / s->stride;
        if (row >= j->in.h || column >= j->in.w)
            continue;
        const float *g = j->in.data + image * j->in.strides.image + row * j->in.strides.row + column * j->in.strides.pixel;
        tap_back(s, g, j->weights + t * tap_weights(s), out);
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
                    const float *in = tap(&j->in, s, image, y, x, t);
                    if (in)
                        tap_gradient(s, in, dz, j->sum + t * tap_weights(s));
                }
            }
}

static size_t gradient_panels(const struct conv_shape *s)
{
    (void)s;
    return 1;
}

static void finish(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio)
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
