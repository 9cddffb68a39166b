/* utf8.c: see utf8.h. */
#include "base/utf8.h"

size_t utf8_step(const unsigned char *s, size_t n, bool *valid)
{
    unsigned char lead = s[0], low = 0x80, high = 0xbf; /* the range of the second byte */
    size_t length;
    *valid = lead < 0x80;
    if (lead < 0xc2)
        return 1;
    if (lead < 0xe0) {
        length = 2;
    } else if (lead < 0xf0) {
        length = 3;
        low = lead == 0xe0 ? 0xa0 : low;   /* shorter forms exist */
        high = lead == 0xed ? 0x9f : high; /* surrogates */
    } else if (lead < 0xf5) {
        length = 4;
        low = lead == 0xf0 ? 0x90 : low;
        high = lead == 0xf4 ? 0x8f : high; /* beyond U+10FFFF */
    } else {
        return 1;
    }
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xbf)
        if (i >= n || s[i] < low || s[i] > high)
            return i;
    *valid = true;
    return length;
}
