/* utf8.c: strict decoding: no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "cli/utf8.h"

size_t utf8_decode(const char *s, size_t n, uint32_t *ret)
{
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first;
    size_t width;
    uint32_t c;

    if (n == 0)
        return 0;
    first = (unsigned char)s[0];
    if (first < 0x80) {
        *ret = first;
        return 1;
    }
    width = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || n < width)
        return 0;
    c = first & (0x7fu >> width);
    for (size_t i = 1; i < width; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    }
    if (c < smallest[width] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *ret = c;
    return width;
}

/* wcwidth depends on the locale; names in a list need only the common cases right. */
static size_t columns_of(uint32_t c)
{
    if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) || (c >= 0xfe00 && c <= 0xfe0f))
        return 0;
    if ((c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
        (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
        (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd))
        return 2;
    return 1;
}

size_t utf8_columns(const char *s, size_t n)
{
    size_t columns = 0;

    for (size_t i = 0; i < n;) {
        uint32_t c = ' ';
        size_t width = utf8_decode(s + i, n - i, &c);

        columns += columns_of(c);
        i += width ? width : 1;
    }
    return columns;
}
