/* convert.c: a row through the conversions that are asked for, one after the other: mirrored, then split into planes, then
 * scaled. In between it is a few hundred bytes in the first-level cache. */
#include "image/convert.h"

#include "base/cpu.h"
#include "image/convert_kernels.h"

#include <pthread.h>
#include <string.h>

void convert_kernels_init(struct convert_kernels *k, unsigned features)
{
    convert_kernels_init_c(k);
#if defined(__x86_64__)
    if (features & CPU_AVX2)
        convert_kernels_init_avx2(k);
#endif
    (void)features;
}

static struct convert_kernels best;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void choose(void)
{
    convert_kernels_init(&best, cpu_features());
}

void convert_init(struct convert *c, uint32_t channels, bool planar, const float *scale, const float *bias)
{
    *c = (struct convert){.channels = channels, .planar = planar, .scaled = scale != NULL};
    for (uint32_t plane = 0; scale && plane < (planar ? channels : 1); plane++)
        for (uint32_t i = 0; i < CONVERT_PERIOD; i++) {
            c->scale[plane][i] = scale[planar ? plane : i % channels];
            c->bias[plane][i] = bias[planar ? plane : i % channels];
        }
}

static bool is_split(const struct convert *c)
{
    return c->planar && c->channels > 1;
}

size_t convert_scratch_bytes(const struct convert *c, uint32_t width)
{
    size_t row = (size_t)width * c->channels;
    return (c->flips ? row : 0) + (is_split(c) && c->scaled ? row : 0);
}

void convert_row_with(const struct convert_kernels *k, const struct convert *c, const uint8_t *in, uint32_t width, void *out,
                      size_t plane, void *scratch)
{
    void (*scale)(const uint8_t *, float *, size_t, const float *, const float *) = c->streams ? k->stream : k->scale;
    size_t n = (size_t)width * c->channels;
    uint8_t *between = scratch;
    if (c->flips) {
        uint8_t *to = c->scaled || is_split(c) ? between : out;
        k->flip[c->channels](in, to, width);
        in = to;
        between += n;
    }
    if (is_split(c) && c->scaled) {
        k->split[c->channels](in, between, width, width);
        for (uint32_t i = 0; i < c->channels; i++)
            scale(between + (size_t)i * width, (float *)out + i * plane, width, c->scale[i], c->bias[i]);
    } else if (is_split(c)) {
        k->split[c->channels](in, out, plane, width);
    } else if (c->scaled) {
        scale(in, out, n, c->scale[0], c->bias[0]);
    } else if (in != out) {
        memcpy(out, in, n);
    }
}

void convert_planes_with(const struct convert_kernels *k, const struct convert *c, const uint8_t *const *in, uint32_t width,
                         void *out, size_t plane, void *scratch)
{
    void (*scale)(const uint8_t *, float *, size_t, const float *, const float *) = c->streams ? k->stream : k->scale;
    for (uint32_t i = 0; i < c->channels; i++) {
        const uint8_t *row = in[i];
        if (c->flips) {
            k->flip[1](row, c->scaled ? scratch : (uint8_t *)out + i * plane, width);
            row = scratch;
        }
        if (c->scaled)
            scale(row, (float *)out + i * plane, width, c->scale[i], c->bias[i]);
        else if (!c->flips)
            memcpy((uint8_t *)out + i * plane, row, width);
    }
}

void convert_planes(const struct convert *c, const uint8_t *const *in, uint32_t width, void *out, size_t plane, void *scratch)
{
    pthread_once(&chosen, choose);
    convert_planes_with(&best, c, in, width, out, plane, scratch);
}

void convert_row(const struct convert *c, const uint8_t *in, uint32_t width, void *out, size_t plane, void *scratch)
{
    pthread_once(&chosen, choose);
    convert_row_with(&best, c, in, width, out, plane, scratch);
}

void convert_end(const struct convert *c)
{
    if (c->streams)
        best.fence();
}
