/* text.c: the growing string and the small text helpers. Nothing here depends on the locale. */
#include "base/text.h"

#include "base/digits.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SMALLEST 64

/* As mem_grow, whose realloc may leave the bytes in memory that is given back. */
static int grow_wiped(struct text *t, size_t needed)
{
    size_t doubled = t->capacity > SIZE_MAX / 2 ? SIZE_MAX : t->capacity * 2, wanted = doubled > needed ? doubled : needed;
    char *data = needed <= t->capacity ? t->data : mem_alloc(wanted);
    if (!data || data == t->data)
        return data ? 0 : -1;
    if (t->data) {
        memcpy(data, t->data, t->length + 1);
        explicit_bzero(t->data, t->capacity);
        mem_free(t->data);
    }
    t->data = data;
    t->capacity = wanted;
    return 0;
}

static int grow(struct text *t, size_t needed)
{
    void *data = t->data;
    int failed = t->secret ? grow_wiped(t, needed) : mem_grow(&data, &t->capacity, needed, 1);
    t->data = t->secret ? t->data : data;
    return failed;
}

/* Makes room for `n` more bytes and the NUL. */
static bool reserve(struct text *t, size_t n)
{
    size_t needed;
    if (t->failed)
        return false;
    if (__builtin_add_overflow(t->length, n, &needed) || __builtin_add_overflow(needed, 1, &needed) || grow(t, needed < SMALLEST ? SMALLEST : needed) < 0) {
        t->failed = true;
        return false;
    }
    return true;
}

void text_add(struct text *t, const char *s)
{
    text_add_n(t, s, strlen(s));
}

void text_add_shown(struct text *t, const char *s)
{
    size_t n = strlen(s);
    if (!reserve(t, SECRET_ROOM(n)))
        return;
    secret_hide(t->data + t->length, s);
    t->length += strlen(t->data + t->length);
}

void text_add_n(struct text *t, const char *s, size_t n)
{
    if (n == 0 || !reserve(t, n))
        return;
    memcpy(t->data + t->length, s, n);
    t->length += n;
    t->data[t->length] = '\0';
}

void text_addf(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = digits_vprint(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        t->failed = true;
    if (n <= 0 || !reserve(t, (size_t)n))
        return;
    va_start(args, format);
    digits_vprint(t->data + t->length, (size_t)n + 1, format, args);
    va_end(args);
    t->length += (size_t)n;
}

void text_finish(struct text *t)
{
    if (t->secret && t->data)
        explicit_bzero(t->data, t->capacity);
    mem_free(t->data);
    *t = (struct text){0};
}

bool text_is_utf8(const void *s, size_t n)
{
    const unsigned char *p = s;
    bool valid = true;
    while (n > 0 && valid) {
        size_t step = utf8_step(p, n, &valid);
        p += step;
        n -= step;
    }
    return valid;
}

void text_add_base64(struct text *t, const void *data, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *from = data;
    for (size_t i = 0; i < length; i += 3) {
        size_t n = length - i < 3 ? length - i : 3;
        uint32_t v = (uint32_t)from[i] << 16 | (n > 1 ? (uint32_t)from[i + 1] << 8 : 0) | (n > 2 ? from[i + 2] : 0);
        char out[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=', n > 2 ? digits[v & 63] : '='};
        text_add_n(t, out, sizeof(out));
    }
}

void text_add_shell(struct text *t, const char *word)
{
    if (word[0] && !strpbrk(word, " \t\n'\"\\$`&|;<>()*?[]#~!{}")) {
        text_add(t, word);
        return;
    }
    text_add(t, "'");
    for (; *word; word++)
        if (*word == '\'')
            text_add(t, "'\\''");
        else
            text_add_n(t, word, 1);
    text_add(t, "'");
}

void text_put(void *text, const char *s, size_t n)
{
    text_add_n(text, s, n);
}

void text_add_json(struct text *t, const char *s, size_t n)
{
    json_quote(text_put, t, s, n);
}

/* Returns the power of two of a unit, or -1. `unit` is all that follows the number. */
static int unit_shift(const char *unit)
{
    static const char prefixes[] = "kmgt";
    int shift = 0;
    char c = unit[0] >= 'A' && unit[0] <= 'Z' ? (char)(unit[0] - 'A' + 'a') : unit[0];
    const char *prefix = c ? strchr(prefixes, c) : NULL;
    if (prefix) {
        shift = 10 * (int)(prefix - prefixes + 1);
        unit++;
        if (unit[0] == 'i' && (unit[1] == 'B' || unit[1] == 'b'))
            unit++;
    }
    if (unit[0] == 'B' || unit[0] == 'b')
        unit++;
    return unit[0] ? -1 : shift;
}

pst_status text_parse_bytes(uint64_t *ret, const char *s, pst_error *reterr)
{
    uint64_t whole = 0;
    double fraction = 0, place = 1;
    bool overflow = false, digits = false, fractional = false;
    const char *p = s;
    for (; *p >= '0' && *p <= '9'; p++, digits = true)
        overflow |= __builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole);
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++, digits = true, fractional = true)
            fraction += (*p - '0') * (place /= 10);
    }
    int shift = digits ? unit_shift(p) : -1;
    if (shift < 0 || (fractional && shift == 0))
        return pst_fail(reterr, PST_EINVAL,
                        "\"%s\" is not a size; write bytes, or a number with K, M, G or T, such as 64M or 1.5GiB", s);
    uint64_t unit = UINT64_C(1) << shift;
    overflow |= __builtin_mul_overflow(whole, unit, &whole) ||
                __builtin_add_overflow(whole, (uint64_t)(fraction * (double)unit + 0.5), &whole);
    if (overflow)
        return pst_fail(reterr, PST_EINVAL, "the size \"%s\" exceeds 2^64 bytes", s);
    *ret = whole;
    return PST_OK;
}

char *text_bytes(uint64_t bytes, char *buffer, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t u = 0;
    for (; value >= 1024 && u < 4; u++)
        value /= 1024;
    digits_print(buffer, size, u ? "%.1f %s" : "%.0f %s", value, units[u]);
    return buffer;
}

int text_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}
