/* feature.c: see feature.h. */
#include "record/feature.h"

#include "base/memory.h"

const char *pst_kind_name(pst_kind kind)
{
    return kind == PST_BYTES ? "bytes" : kind == PST_FLOAT ? "float" : kind == PST_INT64 ? "int64" : "none";
}

/* Makes room for `more` values after the existing ones, and copies these to the buffer if they are still in the input. */
static bool reserve(struct feature_values *v, size_t more)
{
    size_t needed, size = kind_size(v->kind);
    bool elsewhere = v->count > 0 && v->data != v->buffer;
    if (__builtin_add_overflow(v->count, more, &needed) || __builtin_mul_overflow(needed, size, &needed))
        return false;
    if (needed > v->capacity && mem_grow(&v->buffer, &v->capacity, needed, 1) < 0)
        return false;
    if (elsewhere)
        memcpy(v->buffer, v->data, v->count * size);
    v->data = v->buffer;
    return true;
}

bool feature_append(struct feature_values *v, const void *values, size_t count)
{
    size_t size = kind_size(v->kind);
    if (count == 0)
        return true;
    if (!reserve(v, count))
        return false;
    memcpy((char *)v->buffer + v->count * size, values, count * size);
    v->count += count;
    return true;
}

/* Checks the limit, then makes room. */
static bool admit(struct feature_values *v, size_t more, size_t max_values, const uint8_t *at, struct wire_trouble *t)
{
    if (more > max_values - v->count)
        return wire_fail(t, PST_ELIMIT, at, "over %zu values; raise max_values to read it", max_values);
    if (!reserve(v, more))
        return wire_fail(t, PST_ENOMEM, at, "out of memory for %zu values", v->count + more);
    return true;
}

static bool add_bytes(struct feature_values *v, const uint8_t *data, size_t length, size_t max_values, struct wire_trouble *t)
{
    if (!admit(v, 1, max_values, data, t))
        return false;
    ((pst_bytes *)v->buffer)[v->count++] = (pst_bytes){data, length};
    return true;
}

static bool add_floats(struct feature_values *v, const uint8_t *data, size_t length, size_t max_values, struct wire_trouble *t)
{
    size_t count = length / sizeof(float);
    if (length % sizeof(float) != 0)
        return wire_fail(t, PST_ECORRUPT, data, "%zu bytes of packed floats, which is not a multiple of 4", length);
    if (v->count == 0 && count <= max_values) {
        v->data = data;
        v->count = count;
        return true;
    }
    return admit(v, count, max_values, data, t) && feature_append(v, data, count);
}

/* One varint of any length. Eight bytes are looked at together: no branch depends on how many of them it takes. */
static inline const uint8_t *read_varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
    const uint64_t high_bits = UINT64_C(0x8080808080808080);
    uint64_t word, stops = 0;
    if (end - p >= 8) {
        word = le64(p);
        stops = ~word & high_bits;
    }
    if (stops == 0)
        return wire_varint(p, end, WIRE_LONGEST_VARINT, ret);
    word &= (stops ^ (stops - 1)) & ~high_bits; /* the bytes up to the first without a continuation bit */
    word = (word & UINT64_C(0x007f007f007f007f)) | (word & UINT64_C(0x7f007f007f007f00)) >> 1;
    word = (word & UINT64_C(0x00003fff00003fff)) | (word & UINT64_C(0x3fff00003fff0000)) >> 2;
    *ret = (word & UINT64_C(0x000000000fffffff)) | (word & UINT64_C(0x0fffffff00000000)) >> 4;
    return p + (__builtin_ctzll(stops) >> 3) + 1;
}

static size_t count_varints(const uint8_t *p, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += p[i] < 0x80;
    return count;
}

static bool add_int64s(struct feature_values *v, const uint8_t *p, size_t length, size_t max_values, struct wire_trouble *t)
{
    const uint8_t *end = p + length;
    if (length == 0)
        return true;
    if (end[-1] >= 0x80)
        return wire_fail(t, PST_ECORRUPT, end - 1, "a packed varint is cut short");
    size_t count = length == 1 ? 1 : count_varints(p, length);
    if (!admit(v, count, max_values, p, t))
        return false;
    int64_t *out = (int64_t *)v->buffer + v->count;
    v->count += count;
    while (p < end) {
        uint64_t value = *p;
        const uint8_t *next = value < 0x80 ? p + 1 : read_varint(p, end, &value);
        if (!next)
            return wire_fail(t, PST_ECORRUPT, p, "a packed varint of over %u bytes", WIRE_LONGEST_VARINT);
        *out++ = (int64_t)value;
        p = next;
    }
    return true;
}

/* The kind of list that a field of Feature holds. */
static pst_kind list_kind(uint32_t tag)
{
    return tag == WIRE_TAG(1, WIRE_BYTES)   ? PST_BYTES
           : tag == WIRE_TAG(2, WIRE_BYTES) ? PST_FLOAT
           : tag == WIRE_TAG(3, WIRE_BYTES) ? PST_INT64
                                            : PST_KIND_NONE;
}

/* A list has its values at field 1. A value by itself has the wire type of its kind and reads like a packed chunk of one. */
static bool merge_list(struct feature_values *v, const uint8_t *p, const uint8_t *end, size_t max_values,
                       struct wire_trouble *t)
{
    static const uint32_t single[] = {
        [PST_BYTES] = WIRE_TAG(1, WIRE_BYTES), [PST_FLOAT] = WIRE_TAG(1, WIRE_FIXED32), [PST_INT64] = WIRE_TAG(1, WIRE_VARINT)};
    while (p < end) {
        struct wire_field f;
        p = wire_next(p, end, &f, t);
        if (!p)
            return false;
        if (f.tag != WIRE_TAG(1, WIRE_BYTES) && f.tag != single[v->kind])
            continue;
        size_t length = (size_t)(p - f.data);
        bool ok = v->kind == PST_FLOAT   ? add_floats(v, f.data, length, max_values, t)
                  : v->kind == PST_INT64 ? add_int64s(v, f.data, length, max_values, t)
                                         : add_bytes(v, f.data, length, max_values, t);
        if (!ok)
            return false;
    }
    return true;
}

/* A Feature of one list of one chunk, as every writer makes them: floats, or a single integer. False for anything else,
 * which the general code handles. */
static bool take_sole(struct feature_values *v, const uint8_t *p, const uint8_t *end, size_t max_values)
{
    const uint8_t *list = p < end ? wire_sole(p, end, p[0]) : NULL;
    const uint8_t *chunk = list ? wire_sole(list, end, WIRE_TAG(1, WIRE_BYTES)) : NULL;
    if (!chunk)
        return false;
    size_t length = (size_t)(end - chunk);
    uint64_t value;
    if (p[0] == WIRE_TAG(2, WIRE_BYTES) && length % sizeof(float) == 0 && length / sizeof(float) <= max_values) {
        v->kind = PST_FLOAT;
        v->data = chunk;
        v->count = length / sizeof(float);
        return true;
    }
    if (p[0] == WIRE_TAG(3, WIRE_BYTES) && v->capacity >= sizeof(value) && read_varint(chunk, end, &value) == end) {
        memcpy(v->buffer, &value, sizeof(value));
        v->kind = PST_INT64;
        v->data = v->buffer;
        v->count = 1;
        return true;
    }
    return false;
}

/* Apart from feature_merge, so that the usual case does not pay for its registers. */
static __attribute__((noinline)) bool merge_any(struct feature_values *v, const uint8_t *p, const uint8_t *end,
                                                size_t max_values, struct wire_trouble *t)
{
    while (p < end) {
        struct wire_field f;
        p = wire_next(p, end, &f, t);
        if (!p)
            return false;
        pst_kind kind = list_kind(f.tag);
        if (kind == PST_KIND_NONE)
            continue;
        if (kind != v->kind) {
            feature_reset(v);
            v->kind = kind;
        }
        if (!merge_list(v, f.data, p, max_values, t))
            return false;
    }
    return true;
}

bool feature_merge(struct feature_values *v, const uint8_t *p, const uint8_t *end, size_t max_values, struct wire_trouble *t)
{
    return (v->kind == PST_KIND_NONE && take_sole(v, p, end, max_values)) || merge_any(v, p, end, max_values, t);
}

void feature_finish(struct feature_values *v)
{
    mem_free(v->buffer);
    *v = (struct feature_values){0};
}

bool column_reset(struct column *c, pst_kind kind)
{
    void *splits = c->splits;
    bool ok = mem_grow(&splits, &c->splits_capacity, 1, sizeof(*c->splits)) == 0;
    c->splits = splits;
    c->rows = 0;
    feature_reset(&c->values);
    c->values.kind = kind;
    if (ok)
        c->splits[0] = 0;
    return ok;
}

bool column_add_row(struct column *c, const void *values, size_t count, uint64_t inner)
{
    void *splits = c->splits;
    bool ok = mem_grow(&splits, &c->splits_capacity, c->rows + 2, sizeof(*c->splits)) == 0;
    c->splits = splits;
    if (!ok || !feature_append(&c->values, values, count))
        return false;
    c->splits[++c->rows] = (int64_t)(c->values.count / inner);
    return true;
}

pst_column column_view(const struct column *c, bool present)
{
    return (pst_column){{c->values.kind, present, c->values.count, c->values.data}, c->rows, c->splits};
}

void column_finish(struct column *c)
{
    mem_free(c->splits);
    feature_finish(&c->values);
    *c = (struct column){0};
}
