/* csv_row.c: one row of text to values, in one pass.
 *
 * A number is parsed from its first byte on and accepted where the delimiter follows; everything else (spaces, missing values,
 * long numbers, quotes) takes the second way, which finds the whole field first. Both give the same value: the fast way
 * accepts a float only where it is exact. */
#include "source/csv_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/parse_number.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SHOWN 40 /* bytes of a field that an error shows */

static const char *const type_names[] = {[CSV_INT64] = "int64", [CSV_FLOAT] = "float", [CSV_BYTES] = "bytes",
                                         [CSV_INT32] = "int32", [CSV_FLOAT64] = "float64"};

void csv_values_finish(struct csv_values *v)
{
    mem_free(v->at);
    mem_free(v->scratch);
}

/* ---- The fast way ---- */

/* Eight digits at once: the bytes are digits if adding 6 to none of them leaves the row of the character table. */
static inline bool eight_digits(const char *p, uint64_t *ret)
{
    uint64_t v;
    memcpy(&v, p, 8);
    if (((v & UINT64_C(0xf0f0f0f0f0f0f0f0)) | (((v + UINT64_C(0x0606060606060606)) & UINT64_C(0xf0f0f0f0f0f0f0f0)) >> 4)) !=
        UINT64_C(0x3333333333333333))
        return false;
    v = (v & UINT64_C(0x0f0f0f0f0f0f0f0f)) * 2561 >> 8;
    v = (v & UINT64_C(0x00ff00ff00ff00ff)) * 6553601 >> 16;
    *ret = (v & UINT64_C(0x0000ffff0000ffff)) * UINT64_C(42949672960001) >> 32;
    return true;
}

/* Digits at `p`, up to 19 of them, appended to `*value`. Returns where they end. */
static inline const char *read_digits(const char *p, const char *end, uint64_t *value, unsigned *ret_count)
{
    uint64_t v = *value, eight;
    const char *begin = p;
    while (end - p >= 8 && p - begin < 16 && eight_digits(p, &eight)) {
        v = v * 100000000 + eight;
        p += 8;
    }
    while (p < end && is_digit(*p) && p - begin < 19)
        v = v * 10 + (uint64_t)(*p++ - '0');
    *value = v;
    *ret_count = (unsigned)(p - begin);
    return p;
}

/* Returns where the number ends; NULL: it takes the other way. */
static inline const char *fast_int(const char *p, const char *end, char delimiter, int64_t *ret)
{
    bool negative = p < end && *p == '-';
    uint64_t v = 0;
    unsigned digits;
    const char *begin = p + negative;
    p = read_digits(begin, end, &v, &digits);
    if (digits == 0 || digits > 18 || (digits > 1 && *begin == '0') || (p < end && *p != delimiter))
        return NULL;
    *ret = negative ? -(int64_t)v : (int64_t)v;
    return p;
}

static inline const char *fast_float(const char *p, const char *end, char delimiter, double *ret)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    bool negative = p < end && *p == '-';
    uint64_t v = 0;
    unsigned whole, part = 0;
    p = read_digits(p + negative, end, &v, &whole);
    if (p < end && *p == '.')
        p = read_digits(p + 1, end, &v, &part);
    int exponent = -(int)part;
    if (whole + part == 0 || whole + part > 19 || v > UINT64_C(1) << 53)
        return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        bool below = p + 1 < end && p[1] == '-';
        uint64_t e = 0;
        unsigned digits;
        p += 1 + (below || (p + 1 < end && p[1] == '+'));
        p = read_digits(p, end, &e, &digits);
        if (digits == 0 || digits > 3)
            return NULL;
        exponent += below ? -(int)e : (int)e;
    }
    if ((p < end && *p != delimiter) || exponent < -22 || exponent > 22)
        return NULL;
    double d = exponent < 0 ? (double)v / powers[-exponent] : (double)v * powers[exponent]; /* two exact doubles, one rounding */
    *ret = negative ? -d : d;
    return p;
}

/* ---- The other way ---- */

static pst_status fail_value(const struct csv_column *c, const struct csv_field *f, pst_error *reterr)
{
    if (number_missing(f->data, f->length))
        return pst_fail(reterr, PST_ECORRUPT,
                        "column %s is missing, and it is %s without a default; columns=\"%s:%s=0 …\" gives one, %s:float64 reads NaN",
                        c->name, type_names[c->type], c->name, type_names[c->type], c->name);
    double real;
    bool large = c->type == CSV_FLOAT && number_float(f->data, f->length, &real);
    return pst_fail(reterr, PST_ECORRUPT, "column %s is \"%.*s\", expected %s%s", c->name,
                    (int)(f->length < SHOWN ? f->length : SHOWN), f->data, type_names[c->type],
                    large         ? " of at most 3.4e38; float64 holds it"
                    : c->declared ? ""
                                  : "; its type was inferred from the first rows: columns= declares another");
}

static bool is_missing(const struct csv_table *t, const struct csv_column *c, const struct csv_field *f)
{
    if (t->na[0] && f->length == strlen(t->na) && memcmp(f->data, t->na, f->length) == 0)
        return true;
    return c->type == CSV_BYTES ? f->length == 0 && !f->quoted : number_missing(f->data, f->length);
}

static pst_status set_missing(const struct csv_column *c, union csv_value *v, pst_error *reterr)
{
    bool whole = c->type == CSV_INT64 || c->type == CSV_INT32;
    if (!c->has_default && whole)
        return fail_value(c, &(struct csv_field){.data = ""}, reterr);
    double real = c->has_default ? c->float_default : (double)NAN;
    switch (c->type) {
    case CSV_INT64:
        v->i64 = c->int_default;
        break;
    case CSV_INT32:
        v->i32 = (int32_t)c->int_default;
        break;
    case CSV_FLOAT:
        v->f32 = (float)real;
        break;
    case CSV_FLOAT64:
        v->f64 = real;
        break;
    case CSV_BYTES:
        v->bytes = c->text_default;
        break;
    }
    return PST_OK;
}

static pst_status set_value(const struct csv_table *t, const struct csv_column *c, const struct csv_field *f, union csv_value *v,
                            pst_error *reterr)
{
    int64_t whole = 0;
    double real = 0;
    bool ok = true;
    if (is_missing(t, c, f))
        return set_missing(c, v, reterr);
    switch (c->type) {
    case CSV_INT64:
        ok = number_int(f->data, f->length, &v->i64);
        break;
    case CSV_INT32:
        ok = number_int(f->data, f->length, &whole) && whole >= INT32_MIN && whole <= INT32_MAX;
        v->i32 = (int32_t)(ok ? whole : 0);
        break;
    case CSV_FLOAT:
        ok = number_float(f->data, f->length, &real) && number_fits_float(real);
        v->f32 = (float)real;
        break;
    case CSV_FLOAT64:
        ok = number_float(f->data, f->length, &v->f64);
        break;
    case CSV_BYTES:
        v->bytes = (pst_bytes){(const uint8_t *)f->data, f->length};
        break;
    }
    return ok ? PST_OK : fail_value(c, f, reterr);
}

/* ---- Rows ---- */

static bool set_fast(const struct csv_column *c, const char **at, const char *end, char delimiter, union csv_value *v)
{
    const char *stop = NULL;
    int64_t whole = 0;
    double real = 0;
    switch (c->type) {
    case CSV_INT64:
        stop = fast_int(*at, end, delimiter, &v->i64);
        break;
    case CSV_INT32:
        stop = fast_int(*at, end, delimiter, &whole);
        stop = whole < INT32_MIN || whole > INT32_MAX ? NULL : stop;
        v->i32 = (int32_t)whole;
        break;
    case CSV_FLOAT:
        stop = fast_float(*at, end, delimiter, &real);
        v->f32 = (float)real;
        break;
    case CSV_FLOAT64:
        stop = fast_float(*at, end, delimiter, &v->f64);
        break;
    case CSV_BYTES:
        break;
    }
    *at = stop ? stop : *at;
    return stop != NULL;
}

/* The line break of the row, and empty lines after it. */
static size_t without_end(const char *row, size_t length)
{
    while (length && (row[length - 1] == '\n' || row[length - 1] == '\r'))
        length--;
    return length;
}

static pst_status make_room(const struct csv_table *t, struct csv_values *v, size_t length, pst_error *reterr)
{
    if (!v->at)
        v->at = mem_array(t->count, sizeof(*v->at));
    return v->at && mem_grow((void **)&v->scratch, &v->scratch_size, length + 1, 1) == 0 ? PST_OK
                                                                                        : fail_memory(reterr, "reading a row");
}

static pst_status fail_width(const struct csv_table *t, const char *at, const char *end, size_t count, pst_error *reterr)
{
    for (; at < end; at++) /* those that are too many; quotes do not matter for a message */
        count += *at == t->delimiter;
    return pst_fail(reterr, PST_ECORRUPT, "%zu column%s, expected %zu as in the first row", count, count == 1 ? "" : "s",
                    t->width);
}

pst_status csv_table_parse(const struct csv_table *t, struct csv_values *v, const char *row, size_t length, pst_tensor *out,
                           pst_error *reterr)
{
    length = without_end(row, length);
    const char *at = row, *end = row + length;
    char *scratch = NULL;
    pst_status st = v->at && v->scratch_size > length ? PST_OK : make_room(t, v, length, reterr);
    for (size_t p = 0; st == PST_OK; p++) {
        struct csv_field f;
        if (p == t->width)
            return fail_width(t, at, end, p + 1, reterr);
        int k = t->of[p];
        const struct csv_column *c = k >= 0 && (!t->need || t->need[k]) ? &t->columns[k] : NULL;
        if (c)
            out[k].data = &v->at[k];
        if (!c || !set_fast(c, &at, end, t->delimiter, &v->at[k])) {
            scratch = scratch ? scratch : v->scratch;
            st = csv_next_field(&at, end, t->delimiter, &scratch, &f, p, reterr);
            if (st == PST_OK && c)
                st = set_value(t, c, &f, &v->at[k], reterr);
        }
        if (st == PST_OK && at == end)
            return p + 1 == t->width ? PST_OK : fail_width(t, at, end, p + 1, reterr);
        at++; /* the delimiter */
    }
    return st;
}
