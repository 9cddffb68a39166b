/* readable.c: see readable.h. */
#include "inspect/readable.h"

#include "inspect/images.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEX_SHOWN 8

/* The character at `s`, and the bytes it takes; 0 where that is not valid UTF-8. */
static size_t decode(const uint8_t *s, size_t length, uint32_t *ret)
{
    size_t width = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    if (width > length || !text_is_utf8(s, width))
        return 0;
    static const uint8_t lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = s[0] & lead_bits[width];
    for (size_t i = 1; i < width; i++)
        c = c << 6 | (s[i] & 0x3fu);
    *ret = c;
    return width;
}

/* Neither moves the cursor nor changes what other characters look like. */
static bool is_harmless(uint32_t c)
{
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    bool breaks = c == 0x2028 || c == 0x2029;
    bool reorders = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    return !control && !breaks && !reorders;
}

bool readable_is_text(const void *bytes, size_t length)
{
    const uint8_t *s = bytes;
    for (size_t i = 0; i < length; i++) {
        if ((s[i] < 0x20 && s[i] != '\t' && s[i] != '\n' && s[i] != '\r' && s[i] != '\f') || s[i] == 0x7f)
            return false;
    }
    return text_is_utf8(bytes, length);
}

void readable_add(struct text *t, const void *bytes, size_t length, size_t max)
{
    const uint8_t *s = bytes;
    for (size_t i = 0; i < length && !t->failed;) {
        if (max-- == 0) {
            text_add(t, "…");
            return;
        }
        uint32_t c = 0;
        size_t width = decode(s + i, length - i, &c);
        if (width == 0)
            text_addf(t, "\\x%02x", s[i]);
        else if (is_harmless(c))
            text_add_n(t, (const char *)s + i, width);
        else if (c == '\n' || c == '\r' || c == '\t')
            text_add(t, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        else
            text_addf(t, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c);
        i += width ? width : 1;
    }
}

void readable_add_count(struct text *t, uint64_t count)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            text_add(t, ",");
        text_add_n(t, &digits[i], 1);
    }
}

void readable_add_size(struct text *t, uint64_t bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
    double amount = (double)bytes;
    size_t unit = 0;
    for (; amount >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++)
        amount /= 1000;
    text_addf(t, "%.*f %s", unit && amount < 9.95 ? 1 : 0, amount, units[unit]);
}

static void add_image(struct text *t, const pst_image_info *info, uint64_t bytes)
{
    text_addf(t, "<%s %" PRIu32 "×%" PRIu32 "%s, ", pst_image_format_name(info->format), info->width, info->height,
              info->channels < 3 ? " gray" : "");
    readable_add_size(t, bytes);
    text_add(t, ">");
}

void readable_add_bytes(struct text *t, pst_bytes value, const struct image_shape *shape, size_t max)
{
    pst_image_info info;
    if (image_recognise(value, shape, &info)) {
        add_image(t, &info, value.length);
    } else if (readable_is_text(value.data, value.length)) {
        text_add(t, "\"");
        readable_add(t, value.data, value.length, max);
        text_add(t, "\"");
    } else {
        text_addf(t, "<%zu %s:", value.length, value.length == 1 ? "byte" : "bytes");
        for (size_t i = 0; i < value.length && i < HEX_SHOWN; i++)
            text_addf(t, " %02x", value.data[i]);
        text_add(t, value.length > HEX_SHOWN ? " …>" : ">");
    }
}

void readable_add_value(struct text *t, const pst_value *value, const struct image_shape *shape, size_t max_values, size_t max)
{
    for (size_t i = 0; i < value->count; i++) {
        if (i)
            text_add(t, ", ");
        if (i == max_values) {
            text_addf(t, "… %zu more", value->count - i);
            return;
        }
        float number;
        switch (value->kind) {
        case PST_BYTES:
            readable_add_bytes(t, ((const pst_bytes *)value->data)[i], shape, max);
            break;
        case PST_FLOAT:
            memcpy(&number, (const char *)value->data + i * sizeof(number), sizeof(number));
            text_addf(t, "%.6g", (double)number);
            break;
        case PST_INT64:
            text_addf(t, "%" PRId64, ((const int64_t *)value->data)[i]);
            break;
        case PST_KIND_NONE:
            return;
        }
    }
}

size_t readable_width(const char *s)
{
    size_t width = 0;
    for (; *s; s++)
        width += ((unsigned char)*s & 0xc0) != 0x80;
    return width;
}
