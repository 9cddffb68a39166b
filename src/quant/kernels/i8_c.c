/* i8_c.c: the meaning of every integer layer in plain C. */
#include "quant/kernels/i8.h"

#include <math.h>
#include <string.h>

#define FAR 1024.f /* beyond every integer of 8 bits, zero point included */

uint8_t i8_requantise(int64_t acc, float factor, uint8_t zero, uint8_t low, uint8_t high)
{
    float x = rintf((float)acc * factor);
    x = x > FAR ? FAR : x < -FAR ? -FAR : x == x ? x : 0;
    int q = (int)x + zero;
    return (uint8_t)(q < low ? low : q > high ? high : q);
}

/* ---- Convolutions ---- */

static bool takes(const struct i8_shape *s)
{
    (void)s;
    return true;
}

static size_t weights_bytes(const struct i8_shape *s)
{
    return s->size * s->size * (s->depthwise ? s->co : s->ci / s->groups * s->co);
}

static size_t scratch_bytes(const struct i8_job *j)
{
    (void)j;
    return 0;
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    (void)in_zero, (void)bias;
    memcpy(ret, kernel, weights_bytes(s));
}

/* Σ (in − in_zero) · weight for output channel `o` of the pixel at (y, x). */
static int64_t sum_at(const struct i8_job *j, const uint8_t *image, size_t y, size_t x, size_t o)
{
    const struct i8_shape *s = &j->shape;
    const int8_t *weights = j->weights;
    size_t channels = s->depthwise ? 1 : s->ci / s->groups, first = s->depthwise ? o : o / (s->co / s->groups) * channels;
    int64_t acc = 0;
    for (size_t tap = 0; tap < s->size * s->size; tap++) {
        ptrdiff_t row = (ptrdiff_t)(y * s->stride + tap / s->size * s->dilation) - (ptrdiff_t)j->top;
        ptrdiff_t column = (ptrdiff_t)(x * s->stride + tap % s->size * s->dilation) - (ptrdiff_t)j->left;
        if (row < 0 || column < 0 || (size_t)row >= j->in_h || (size_t)column >= j->in_w)
            continue;
        const uint8_t *in = image + ((size_t)row * j->in_w + (size_t)column) * s->ci + first;
        for (size_t c = 0; c < channels; c++)
            acc += ((int)in[c] - (int)j->in_zero) * (int)weights[(tap * channels + c) * s->co + o];
    }
    return acc;
}

static void conv(const struct i8_job *j, void *scratch)
{
    const struct i8_shape *s = &j->shape;
    (void)scratch;
    for (size_t n = 0; n < j->images; n++)
        for (size_t y = j->row; y < j->row_end; y++)
            for (size_t x = 0; x < j->w; x++)
                for (size_t o = 0; o < s->co; o++) {
                    int64_t acc = sum_at(j, j->in + n * j->in_h * j->in_w * s->ci, y, x, o) + j->bias[o];
                    size_t at = ((n * j->h + y) * j->w + x) * s->co + o;
                    float real = (float)acc * j->factors[o];
                    if (j->out)
                        j->out[at] = i8_requantise(acc, j->factors[o], j->zero, j->low, j->high);
                    else
                        j->out_real[at] = real < j->least ? j->least : real > j->most ? j->most : real;
                }
}

const struct i8_kernel i8_conv_c = {.name = "C",
                                    .takes = takes,
                                    .weights_bytes = weights_bytes,
                                    .scratch_bytes = scratch_bytes,
                                    .pack = pack,
                                    .conv = conv};

/* ---- The others ---- */

static void add(const struct i8_add *a, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        float sum = (float)((int)a->in[0][i] - (int)a->zeros[0]) * a->factors[0];
        for (size_t k = 1; k < a->terms; k++)
            sum += (float)((int)a->in[k][i] - (int)a->zeros[k]) * a->factors[k];
        sum = rintf(sum);
        int q = (int)(sum > FAR ? FAR : sum < -FAR ? -FAR : sum == sum ? sum : 0) + a->zero;
        out[i] = (uint8_t)(q < a->low ? a->low : q > a->high ? a->high : q);
    }
}

/* The taps of output `o` that lie inside: first, and one after the last. */
static void inside(size_t o, size_t stride, size_t before, size_t size, size_t in, size_t *ret_begin, size_t *ret_end)
{
    ptrdiff_t at = (ptrdiff_t)(o * stride) - (ptrdiff_t)before, end = at + (ptrdiff_t)size;
    *ret_begin = at > 0 ? (size_t)at : 0;
    end = end > (ptrdiff_t)in ? (ptrdiff_t)in : end;
    *ret_end = end > (ptrdiff_t)*ret_begin ? (size_t)end : *ret_begin;
}

static void maxpool(const struct i8_pool *p)
{
    size_t top, bottom, left, right;
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = p->row; y < p->row_end; y++)
            for (size_t x = 0; x < p->w; x++) {
                uint8_t *out = p->out + ((n * p->h + y) * p->w + x) * p->channels;
                inside(y, p->stride, p->top, p->size, p->in_h, &top, &bottom);
                inside(x, p->stride, p->left, p->size, p->in_w, &left, &right);
                memset(out, top < bottom && left < right ? 0 : p->in_zero, p->channels);
                for (size_t i = top; i < bottom; i++)
                    for (size_t k = left; k < right; k++) {
                        const uint8_t *in = p->in + ((n * p->in_h + i) * p->in_w + k) * p->channels;
                        for (size_t c = 0; c < p->channels; c++)
                            out[c] = in[c] > out[c] ? in[c] : out[c];
                    }
            }
}

/* The mean of the pixels [top, bottom) × [left, right) of an image. */
static void average(const struct i8_pool *p, const uint8_t *image, size_t top, size_t bottom, size_t left, size_t right, size_t count,
                    uint8_t *out)
{
    float factor = p->in_scale / (p->out_scale * (float)(count ? count : 1));
    for (size_t c = 0; c < p->channels; c++) {
        int64_t sum = 0;
        for (size_t i = top; i < bottom; i++)
            for (size_t k = left; k < right; k++)
                sum += (int)image[(i * p->in_w + k) * p->channels + c] - (int)p->in_zero;
        out[c] = i8_requantise(sum, factor, p->zero, 0, 255);
    }
}

void i8_avgpool(const struct i8_pool *p)
{
    size_t top, bottom, left, right;
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = p->row; y < p->row_end; y++)
            for (size_t x = 0; x < p->w; x++) {
                inside(y, p->stride, p->top, p->size, p->in_h, &top, &bottom);
                inside(x, p->stride, p->left, p->size, p->in_w, &left, &right);
                size_t count = p->counts_padding ? p->size * p->size : (bottom - top) * (right - left);
                average(p, p->in + n * p->in_h * p->in_w * p->channels, top, bottom, left, right, count,
                        p->out + ((n * p->h + y) * p->w + x) * p->channels);
            }
}

static void globalavgpool(const struct i8_pool *p)
{
    for (size_t n = 0; n < p->images; n++)
        average(p, p->in + n * p->in_h * p->in_w * p->channels, 0, p->in_h, 0, p->in_w, p->in_h * p->in_w,
                p->out + n * p->channels);
}

static void quantise(const float *in, size_t count, float scale, uint8_t zero, uint8_t *out)
{
    for (size_t i = 0; i < count; i++) {
        float x = rintf(in[i] / scale);
        int q = (int)(x > FAR ? FAR : x < -FAR ? -FAR : x == x ? x : 0) + zero;
        out[i] = (uint8_t)(q < 0 ? 0 : q > 255 ? 255 : q);
    }
}

static void dequantise(const uint8_t *in, size_t count, float scale, uint8_t zero, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = scale * (float)((int)in[i] - (int)zero);
}

void i8_kernels_c(struct i8_kernels *k)
{
    *k = (struct i8_kernels){.add = add, .maxpool = maxpool, .globalavgpool = globalavgpool, .quantise = quantise, .dequantise = dequantise};
}
