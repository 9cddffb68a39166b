/* i8_depthwise_avx2.c: depthwise convolutions of any size, 16 channels at a time.
 *
 * Two taps are interleaved as 16-bit integers and multiplied by vpmaddwd: exact for every weight. Packed weights: [16 channels][pair
 * of taps][2][8 channels][2], in the order that unpacking leaves; the last 16 channels may overlap those before. */
#include "quant/kernels/i8_avx2.h"
#include "quant/kernels/i8_rows.h"

#define CHANNELS 16
#define ACROSS   4 /* pixels computed together */

static bool takes(const struct i8_shape *s)
{
    return s->depthwise && s->co >= CHANNELS && s->dilation == 1;
}

static size_t pairs(const struct i8_shape *s)
{
    return (s->size * s->size + 1) / 2;
}

static size_t parts(const struct i8_shape *s)
{
    return (s->co + CHANNELS - 1) / CHANNELS;
}

static size_t first_channel(const struct i8_shape *s, size_t part)
{
    return part * CHANNELS + CHANNELS > s->co ? s->co - CHANNELS : part * CHANNELS;
}

static size_t weights_bytes(const struct i8_shape *s)
{
    return parts(s) * pairs(s) * 2 * CHANNELS * sizeof(int16_t);
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    static const size_t order[CHANNELS] = {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15};
    int16_t *to = ret;
    i8_fold_zero(s, kernel, in_zero, bias);
    for (size_t part = 0; part < parts(s); part++)
        for (size_t pair = 0; pair < pairs(s); pair++)
            for (size_t i = 0; i < CHANNELS; i++)
                for (size_t k = 0; k < 2; k++) {
                    size_t tap = 2 * pair + k;
                    *to++ = tap < s->size * s->size ? kernel[tap * s->co + first_channel(s, part) + order[i]] : 0;
                }
}

static size_t scratch_bytes(const struct i8_job *j)
{
    return (i8_is_padded(j) ? i8_padded_bytes(j) : 0) + (j->shape.size * j->shape.size + 1) * sizeof(size_t);
}

static inline __m256i load(const uint8_t *p)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)p));
}

/* `count` ≤ ACROSS pixels; the windows begin at `from`, `step` bytes apart. */
static inline __attribute__((always_inline)) void run_pixels(const struct i8_job *j, const uint8_t *from, size_t step, const size_t *taps,
                                                             const int16_t *w, size_t channel, size_t at, int count)
{
    const struct i8_ending e = i8_ending_of(j);
    __m256i a[ACROSS], b[ACROSS];
    size_t last = j->shape.size * j->shape.size;
    for (int p = 0; p < count; p++)
        a[p] = b[p] = _mm256_setzero_si256();
    for (size_t tap = 0; tap < last; tap += 2, w += 2 * CHANNELS) {
        __m256i w0 = _mm256_load_si256((const void *)w), w1 = _mm256_load_si256((const void *)(w + CHANNELS));
        const uint8_t *even = from + taps[tap], *odd = from + taps[tap + 1];
        for (int p = 0; p < count; p++) {
            __m256i x = load(even + (size_t)p * step), y = load(odd + (size_t)p * step);
            a[p] = _mm256_add_epi32(a[p], _mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), w0));
            b[p] = _mm256_add_epi32(b[p], _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), w1));
        }
    }
    for (int p = 0; p < count; p++) /* from the order of unpacking to that of the channels */
        i8_store(&e, _mm256_add_epi32(_mm256_permute2x128_si256(a[p], b[p], 0x20), i8_bias(&e, channel)),
                 _mm256_add_epi32(_mm256_permute2x128_si256(a[p], b[p], 0x31), i8_bias(&e, channel + 8)), at + (size_t)p, channel, CHANNELS);
}

static void run_row(const struct i8_job *j, const uint8_t *from, const size_t *taps, size_t at)
{
    const struct i8_shape *s = &j->shape;
    size_t step = s->stride * s->co;
    for (size_t part = 0; part < parts(s); part++) {
        size_t channel = first_channel(s, part), x = 0;
        const int16_t *w = (const int16_t *)j->weights + part * pairs(s) * 2 * CHANNELS;
        for (; x + ACROSS <= j->w; x += ACROSS)
            run_pixels(j, from + x * step + channel, step, taps, w, channel, at + x, ACROSS);
        for (; x < j->w; x++)
            run_pixels(j, from + x * step + channel, step, taps, w, channel, at + x, 1);
    }
}

static void conv(const struct i8_job *j, void *scratch)
{
    const struct i8_shape *s = &j->shape;
    bool padded = i8_is_padded(j);
    size_t width = padded ? i8_rows_read(s, j->w) : j->in_w, count = s->size * s->size, *taps = scratch;
    uint8_t *strip = (uint8_t *)(taps + count + 1);
    for (size_t tap = 0; tap < count; tap++)
        taps[tap] = (tap / s->size * width + tap % s->size) * s->co;
    taps[count] = taps[count - 1]; /* of an odd number: times 0 */
    for (size_t n = 0; n < j->images; n++) {
        const uint8_t *image = j->in + n * j->in_h * j->in_w * s->co;
        if (padded && j->row < j->row_end)
            i8_pad(j, image, strip, n == 0);
        for (size_t y = j->row; y < j->row_end; y++)
            run_row(j, padded ? strip + (y - j->row) * s->stride * width * s->co : image + y * s->stride * width * s->co, taps,
                    (n * j->h + y) * j->w);
    }
}

const struct i8_kernel i8_depthwise_avx2 = {.name = "depthwise",
                                            .takes = takes,
                                            .weights_bytes = weights_bytes,
                                            .scratch_bytes = scratch_bytes,
                                            .pack = pack,
                                            .conv = conv};
