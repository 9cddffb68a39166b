/* proto.h: protobuf messages put together by hand, and parsed values as text: for the tests of Examples. */
#ifndef TESTS_PROTO_H
#define TESTS_PROTO_H

#include <penstock/example.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message, by value: small and easy to nest. */
struct bytes {
    uint8_t data[3000];
    size_t n;
};

#define RAW(literal) raw("" literal, sizeof(literal) - 1)
#define NOTHING      RAW("")

static inline struct bytes raw(const void *data, size_t n)
{
    struct bytes b = {.n = n};
    if (n > sizeof(b.data))
        abort();
    memcpy(b.data, data, n);
    return b;
}

static inline struct bytes join(struct bytes a, struct bytes b)
{
    if (a.n + b.n > sizeof(a.data))
        abort();
    memcpy(a.data + a.n, b.data, b.n);
    a.n += b.n;
    return a;
}

static inline struct bytes varint(uint64_t value)
{
    struct bytes b = {.n = 0};
    for (; value >= 0x80; value >>= 7)
        b.data[b.n++] = (uint8_t)(value | 0x80);
    b.data[b.n++] = (uint8_t)value;
    return b;
}

/* A length-delimited field around a payload. */
static inline struct bytes field(unsigned number, struct bytes payload)
{
    return join(join(varint(number << 3 | 2), varint(payload.n)), payload);
}

/* The three kinds of Feature, around the inside of their list. */
static inline struct bytes bytes_list(struct bytes list)
{
    return field(1, list);
}

static inline struct bytes float_list(struct bytes list)
{
    return field(2, list);
}

static inline struct bytes int64_list(struct bytes list)
{
    return field(3, list);
}

static inline struct bytes one_string(const char *s)
{
    return field(1, raw(s, strlen(s)));
}

static inline struct bytes key(const char *name)
{
    return field(1, raw(name, strlen(name)));
}

/* A map entry, as a field of Features, in the usual order. */
static inline struct bytes entry(const char *name, struct bytes feature)
{
    return field(1, join(key(name), field(2, feature)));
}

static inline struct bytes example(struct bytes features)
{
    return field(1, features);
}

/* Packed chunks. */
static inline struct bytes floats(size_t n, const float *values)
{
    return field(1, raw(values, n * sizeof(*values)));
}

static inline struct bytes int64s(size_t n, const int64_t *values)
{
    struct bytes b = {.n = 0};
    for (size_t i = 0; i < n; i++)
        b = join(b, varint((uint64_t)values[i]));
    return field(1, b);
}

#define FLOATS(...) floats(sizeof((float[]){__VA_ARGS__}) / sizeof(float), (float[]){__VA_ARGS__})
#define INT64S(...) int64s(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

struct out {
    char text[4096];
    size_t n;
};

static inline void PST_PRINTF(2, 3) out_add(struct out *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(o->text + o->n, sizeof(o->text) - o->n, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(o->text) - o->n)
        abort();
    o->n += (size_t)n;
}

/* "[1,2]", "['a','b']" */
static inline void out_value(struct out *o, const pst_value *v)
{
    out_add(o, "[");
    for (size_t i = 0; i < v->count; i++) {
        if (v->kind == PST_BYTES) {
            const pst_bytes *b = (const pst_bytes *)v->data + i;
            out_add(o, "%s'%.*s'", i ? "," : "", (int)b->length, (const char *)b->data);
        } else if (v->kind == PST_FLOAT) {
            float value;
            memcpy(&value, (const char *)v->data + i * sizeof(value), sizeof(value));
            out_add(o, "%s%g", i ? "," : "", (double)value);
        } else {
            out_add(o, "%s%" PRId64, i ? "," : "", ((const int64_t *)v->data)[i]);
        }
    }
    out_add(o, "]");
}

/* "x=[1,2] y?=[]": a question mark where the feature was missing. */
static inline void out_values(struct out *o, const pst_schema *schema, const pst_value *values)
{
    for (size_t i = 0; i < pst_schema_count(schema); i++) {
        out_add(o, "%s%s%s=", i ? " " : "", pst_schema_feature(schema, i)->name, values[i].present ? "" : "?");
        out_value(o, &values[i]);
    }
}

/* A failure as text: "PST_ETYPE: feature 'x': …". */
static inline void out_error(struct out *o, pst_status status, const pst_error *error)
{
    out_add(o, "%s: %s", pst_status_name(status), error->message);
}

/* What was got is what was wanted; a wanted text that ends in "…" is only the start. */
static inline bool text_matches(const char *got, const char *want)
{
    const char *open = strstr(want, "\xe2\x80\xa6");
    return open ? strncmp(got, want, (size_t)(open - want)) == 0 : strcmp(got, want) == 0;
}

#endif
