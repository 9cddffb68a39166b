/* values.c: see values.h. */
#include "cli/values.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pst_tensor element_view(const pst_tensor *batch, size_t i)
{
    pst_tensor t = {.dtype = batch->dtype, .rank = batch->rank - 1};
    uint64_t row = pst_dtype_size(t.dtype), first = i;

    memcpy(t.shape, batch->shape + 1, t.rank * sizeof(*t.shape));
    for (uint32_t d = batch->row_splits ? 1 : 0; d < t.rank; d++)
        row *= t.shape[d];
    if (batch->row_splits) {
        first = (uint64_t)batch->row_splits[i];
        t.shape[0] = (uint64_t)batch->row_splits[i + 1] - first;
    }
    t.data = (uint8_t *)batch->data + first * row;
    return t;
}

uint64_t value_count(const pst_tensor *t, size_t size)
{
    uint64_t n = t->row_splits ? (uint64_t)t->row_splits[size] : 1;

    for (uint32_t d = t->row_splits ? 2 : 0; d < t->rank; d++)
        n *= t->shape[d];
    return n;
}

/* ---- One value ---- */

static double half_number(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);

    return bits & 0x8000 ? -size : size;
}

static double bfloat_number(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof(value));
    return value;
}

double value_number(const pst_tensor *t, uint64_t i)
{
    switch (t->dtype) {
    case PST_DTYPE_U8:
        return ((const uint8_t *)t->data)[i];
    case PST_DTYPE_I32:
        return ((const int32_t *)t->data)[i];
    case PST_DTYPE_I64:
        return (double)((const int64_t *)t->data)[i];
    case PST_DTYPE_F16:
        return half_number(((const uint16_t *)t->data)[i]);
    case PST_DTYPE_BF16:
        return bfloat_number(((const uint16_t *)t->data)[i]);
    case PST_DTYPE_F32:
        return ((const float *)t->data)[i];
    case PST_DTYPE_F64:
        return ((const double *)t->data)[i];
    case PST_DTYPE_NONE:
    case PST_DTYPE_BYTES:
        break;
    }
    return NAN;
}

/* Half of the distance to the nearest neighbour of `value` in a format of so many bits, down to 2^least. */
static double half_step(double value, int bits, int least)
{
    int exponent;
    bool power = fabs(frexp(value, &exponent)) == 0.5; /* the neighbour below is nearer */
    int step = exponent - bits - 1 - power;

    return ldexp(1, step > least - 1 ? step : least - 1);
}

/* Whether the text that was written for `value` still is that value when read as `dtype`. */
static bool reads_back(const char *text, double value, pst_dtype dtype)
{
    double read = strtod(text, NULL);

    switch (dtype) {
    case PST_DTYPE_F16:
        return fabs(read - value) < half_step(value, 11, -24);
    case PST_DTYPE_BF16:
        return fabs(read - value) < half_step(value, 8, -133);
    case PST_DTYPE_F32:
        return strtof(text, NULL) == (float)value;
    default:
        return read == value;
    }
}

char *value_text(char buffer[VALUE_SIZE], const pst_tensor *t, uint64_t i)
{
    double value = value_number(t, i);

    if (t->dtype == PST_DTYPE_I64)
        snprintf(buffer, VALUE_SIZE, "%lld", (long long)((const int64_t *)t->data)[i]);
    else if (!isfinite(value))
        snprintf(buffer, VALUE_SIZE, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
    else if (value == trunc(value) && fabs(value) < 1e15) /* the shortest text of 40 would be 4e+01 */
        snprintf(buffer, VALUE_SIZE, "%.0f", value);
    else
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(buffer, VALUE_SIZE, "%.*g", digits, value);
            if (reads_back(buffer, value, t->dtype))
                break;
        }
    return buffer;
}

/* ---- Many values ---- */

#define DIGEST_START UINT64_C(0xcbf29ce484222325) /* FNV-1a */
#define DIGEST_PRIME UINT64_C(0x100000001b3)

static uint64_t digest_add(uint64_t digest, const void *data, size_t length)
{
    const uint8_t *byte = data;

    for (size_t i = 0; i < length; i++)
        digest = (digest ^ byte[i]) * DIGEST_PRIME;
    return digest;
}

uint64_t bytes_digest(const void *data, size_t length)
{
    return digest_add(DIGEST_START, data, length);
}

struct value_summary values_summary(const pst_tensor *t, uint64_t count)
{
    struct value_summary s = {.min = NAN, .max = NAN, .mean = NAN, .digest = DIGEST_START};
    const pst_bytes *bytes = t->data;
    double sum = 0;

    if (t->dtype == PST_DTYPE_BYTES) {
        for (uint64_t i = 0; i < count; i++) {
            s.digest = digest_add(s.digest, &bytes[i].length, sizeof(bytes[i].length));
            s.digest = digest_add(s.digest, bytes[i].data, bytes[i].length);
        }
        return s;
    }
    s.digest = digest_add(s.digest, t->data, count * pst_dtype_size(t->dtype));
    for (uint64_t i = 0; i < count; i++) {
        double value = value_number(t, i);

        if (!isfinite(value)) {
            s.nonfinite++;
            continue;
        }
        s.min = fmin(s.min, value);
        s.max = fmax(s.max, value);
        sum += value;
    }
    if (s.nonfinite < count)
        s.mean = sum / (double)(count - s.nonfinite);
    return s;
}
