/* strip.c: see strip.h. */
#include "model/strip.h"

#include "base/cast.h"

#include <string.h>

#define CHUNK STRIP_WIDEST /* values converted at a time: 8 KB */

void strip_convert(const void *from, enum number from_number, size_t count, void *to, enum number to_number)
{
    if (from_number == to_number)
        memmove(to, from, count * number_bytes(to_number));
    else
        cast_values(to, number_dtype(to_number), from, number_dtype(from_number), count);
}

/* Values from `at` on as float32: where they lie, or converted into `buffer`. */
static const float *as_float(const void *from, enum number n, size_t at, size_t count, float *buffer)
{
    if (!from)
        return NULL;
    if (n == NUMBER_F32)
        return (const float *)from + at;
    cast_values(buffer, PST_DTYPE_F32, number_from(from, n, at), number_dtype(n), count);
    return buffer;
}

static size_t chunk_pixels(size_t channels)
{
    return channels < CHUNK ? CHUNK / channels : 1;
}

static struct elem_read read_of(const struct strip_source *s, const float *z)
{
    return (struct elem_read){.z = z, .centre = s->centre, .scale = s->scale, .shift = s->shift, .low = s->low, .high = s->high};
}

void strip_read(const struct elem_kernels *k, const struct strip_source *from, size_t pixels, size_t channels, float *to)
{
    float buffer[CHUNK];
    if (!from->scale) {
        strip_convert(from->z, from->number, pixels * channels, to, NUMBER_F32);
        return;
    }
    size_t chunk = from->number == NUMBER_F32 ? pixels : chunk_pixels(channels);
    for (size_t p = 0; p < pixels; p += chunk) {
        size_t now = pixels - p < chunk ? pixels - p : chunk;
        struct elem_read r = read_of(from, as_float(from->z, from->number, p * channels, now * channels, buffer));
        k->read(&r, now, channels, to + p * channels);
    }
}

void strip_norm_gradient(const struct elem_kernels *k, const void *g, const void *z, enum number number, const float *centre, const float *by_gradient,
                         const float *by_z, const float *offset, size_t pixels, size_t channels, float *to)
{
    float of_g[CHUNK], of_z[CHUNK];
    size_t chunk = number == NUMBER_F32 ? pixels : chunk_pixels(channels);
    for (size_t p = 0; p < pixels; p += chunk) {
        size_t now = pixels - p < chunk ? pixels - p : chunk, at = p * channels;
        k->norm_gradient(as_float(g, number, at, now * channels, of_g), as_float(z, number, at, now * channels, of_z), centre, by_gradient, by_z, offset,
                         now, channels, to + at);
    }
}

void strip_add(const struct elem_kernels *k, const struct strip_source *a, const struct strip_source *b, float low, float high, size_t pixels,
               size_t channels, void *to, enum number number)
{
    float of_a[CHUNK], of_b[CHUNK], of_to[CHUNK];
    bool floats = a->number == NUMBER_F32 && b->number == NUMBER_F32 && number == NUMBER_F32;
    size_t chunk = floats ? pixels : chunk_pixels(channels);
    for (size_t p = 0; p < pixels; p += chunk) {
        size_t at = p * channels, count = (pixels - p < chunk ? pixels - p : chunk) * channels;
        struct elem_read x = read_of(a, as_float(a->z, a->number, at, count, of_a)), y = read_of(b, as_float(b->z, b->number, at, count, of_b));
        float *sum = number == NUMBER_F32 ? (float *)to + at : of_to;
        k->add(&x, &y, low, high, count / channels, channels, sum);
        if (sum == of_to)
            strip_convert(sum, NUMBER_F32, count, number_at(to, number, at), number);
    }
}

void strip_gradient(const struct elem_kernels *k, const struct strip_gradient *j, size_t pixels, size_t channels, void *to, enum number to_number)
{
    float of_g[CHUNK], of_y[CHUNK], of_mask[CHUNK], of_z[CHUNK], of_to[CHUNK];
    bool floats = j->number == NUMBER_F32 && to_number == NUMBER_F32 && (!j->mask.z || j->mask.number == NUMBER_F32);
    size_t chunk = floats ? pixels : chunk_pixels(channels);
    for (size_t p = 0; p < pixels; p += chunk) {
        size_t at = p * channels, count = (pixels - p < chunk ? pixels - p : chunk) * channels;
        struct elem_service service = {.y = read_of(&j->mask, as_float(j->mask.z, j->mask.number, at, count, of_mask)),
                                       .z = as_float(j->z, to_number, at, count, of_z),
                                       .centre = j->centre,
                                       .sum = j->sum,
                                       .sum2 = j->sum2};
        float *result = to_number == NUMBER_F32 ? (float *)to + at : of_to;
        if (result == of_to && j->adds)
            as_float(to, to_number, at, count, of_to);
        k->gradient(as_float(j->g, j->number, at, count, of_g), as_float(j->y, j->number, at, count, of_y), j->low, j->high, &service, j->adds,
                    count / channels, channels, result);
        if (result == of_to)
            strip_convert(of_to, NUMBER_F32, count, number_at(to, to_number, at), to_number);
    }
}
