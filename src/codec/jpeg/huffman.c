/* huffman.c: definitions of codes to tables. See huffman.h. */
#include "codec/jpeg/huffman.h"

#include <string.h>

/* ---- Codes that files may leave out: Annex K of the standard, as Motion JPEG takes them for granted ---- */

const struct huffman_code huffman_standard_dc[2] = {
    {{0, 1, 5, 1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
    {{0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
};

const struct huffman_code huffman_standard_ac[2] = {
    {{0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d},
     {0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22, 0x71,
      0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24, 0x33, 0x62, 0x72,
      0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x34, 0x35, 0x36, 0x37,
      0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
      0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83,
      0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
      0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
      0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
      0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa}},
    {{0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77},
     {0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71, 0x13, 0x22,
      0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1,
      0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36,
      0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
      0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a,
      0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a,
      0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
      0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
      0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa}},
};

/* ---- Codes by length ---- */

/* False for codes that libjpeg does not accept either: too many, or with a code of ones only. */
static bool order_codes(struct huffman_lengths *l, const struct huffman_code *code)
{
    uint32_t next = 0, symbols = 0;
    for (unsigned n = 1; n <= 16; n++) {
        uint32_t count = code->counts[n - 1];
        l->symbol[n] = (int32_t)symbols - (int32_t)next;
        next += count;
        symbols += count;
        if (symbols > 256 || (count && next >= UINT32_C(1) << n))
            return false;
        l->beyond[n] = next << (16 - n);
        next <<= 1;
    }
    return true;
}

unsigned huffman_find(const struct huffman_code *code, const struct huffman_lengths *l, uint32_t bits)
{
    unsigned n = 1; /* without branches: they would be guessed wrong */
    for (unsigned i = 1; i <= 16; i++)
        n += bits >= l->beyond[i];
    return n > 16 ? 0 : code->symbols[l->symbol[n] + (int32_t)(bits >> (16 - n))] | n << 8;
}

static bool is_same(const struct huffman_code *a, const struct huffman_code *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static bool is_empty(const struct huffman_code *code)
{
    static const uint8_t none[16] = {0};
    return memcmp(code->counts, none, sizeof(none)) == 0;
}

/* ---- Lookups ---- */

static bool is_rare(uint64_t entry)
{
    return (entry >> 8 & 255) == HUFFMAN_RARE;
}

static uint64_t entry_of(unsigned length, unsigned size, unsigned takes, bool ends)
{
    unsigned place = size ? takes - 1 : HUFFMAN_NOWHERE;
    return (length + size) | (ends ? HUFFMAN_END : 0) | (uint64_t)takes << 8 | (uint64_t)place << 16 | (uint64_t)length << 24 |
           (uint64_t)(64 - size) << 32 | (uint64_t)(uint16_t)(1 - (1 << size)) << 48;
}

uint64_t huffman_dc_entry(unsigned length, unsigned symbol)
{
    return symbol > HUFFMAN_DC_MOST ? HUFFMAN_RARE << 8 : entry_of(length, symbol, 1, false);
}

uint64_t huffman_ac_entry(unsigned length, unsigned symbol)
{
    unsigned run = symbol >> 4, size = symbol & 15;
    if (size > HUFFMAN_AC_MOST || (size == 0 && run != 0 && run != 15))
        return HUFFMAN_RARE << 8;
    return entry_of(length, size, run + 1, symbol == 0);
}

/* Returns what a second symbol B adds to an entry: the first 16 bits, and the value. */
static uint64_t second_of(uint64_t entry, uint32_t bits, unsigned size)
{
    int value = size ? (int)bits - (bits >> (size - 1) ? 0 : (1 << size) - 1) : 0;
    return (entry & 0xffff) | (uint64_t)(uint8_t)value << 40;
}

/* For each window of `bits`: the symbol that it begins with, alone; and as a B, where its value is within the window. */
static void list_windows(const struct huffman_code *code, unsigned bits, uint64_t (*entry)(unsigned, unsigned), uint64_t *alone,
                         uint64_t *second)
{
    uint32_t at = 0, symbol = 0;
    for (unsigned n = 1; n <= bits; n++)
        for (unsigned i = 0; i < code->counts[n - 1]; i++, symbol++) {
            uint64_t e = entry(n, code->symbols[symbol]);
            unsigned length = e & 63;
            uint32_t end = at + (1u << (bits - n));
            for (uint32_t w = at; w < end; w++)
                alone[w] = e;
            for (uint32_t w = at, value = 0; w < end && second && !is_rare(e) && length <= bits; value++) {
                uint64_t s = second_of(e, value, length - n);
                for (uint32_t same = 1u << (bits - length); same; same--)
                    second[w++] = s;
            }
            for (uint32_t w = at; w < end && second && (is_rare(e) || length > bits); w++)
                second[w] = 63; /* fits nowhere */
            at = end;
        }
    for (; at < 1u << bits; at++) {
        alone[at] = HUFFMAN_RARE << 8;
        if (second)
            second[at] = 63;
    }
}

bool huffman_dc_make(struct huffman_dc *t, const struct huffman_code *code)
{
    if (is_same(&t->code, code) && !is_empty(code))
        return true;
    bool good = !is_empty(code) && order_codes(&t->lengths, code);
    for (int i = 0; i < 256; i++)
        good &= code->symbols[i] <= 15; /* unused ones are 0 */
    t->code = good ? *code : (struct huffman_code){0};
    if (!good)
        return false;
    list_windows(code, HUFFMAN_DC_BITS, huffman_dc_entry, t->read, NULL);
    for (uint32_t w = 0; w < 1u << HUFFMAN_DC_BITS; w++)
        t->skip[w] = (uint16_t)t->read[w];
    return true;
}

bool huffman_ac_make(struct huffman_ac *t, const struct huffman_code *code)
{
    const uint32_t mask = (1u << HUFFMAN_AC_BITS) - 1;
    uint64_t alone[1 << HUFFMAN_AC_BITS], second[1 << HUFFMAN_AC_BITS];
    if (is_same(&t->code, code) && !is_empty(code))
        return true;
    bool good = !is_empty(code) && order_codes(&t->lengths, code);
    t->code = good ? *code : (struct huffman_code){0};
    t->skips = false;
    if (!good)
        return false;
    list_windows(code, HUFFMAN_AC_BITS, huffman_ac_entry, alone, second);
    for (uint32_t w = 0; w <= mask; w++) {
        uint64_t a = alone[w], b = second[w << (a & 63) & mask];
        uint64_t closed = a & (HUFFMAN_END | HUFFMAN_RARE << 8), length = (a & 63) + (b & 63) + closed;
        t->read[w] = a + (length <= HUFFMAN_AC_BITS ? b : 0);
    }
    return true;
}

void huffman_ac_make_skips(struct huffman_ac *t)
{
    const uint32_t mask = (1u << HUFFMAN_SKIP_BITS) - 1;
    uint64_t alone[1 << HUFFMAN_SKIP_BITS];
    if (t->skips)
        return;
    list_windows(&t->code, HUFFMAN_SKIP_BITS, huffman_ac_entry, alone, NULL);
    for (uint32_t w = 0; w <= mask; w++) {
        uint64_t all = alone[w] & 0xffff;
        while (!(all & HUFFMAN_END) && all >> 8 < 64 && (all & 63) < HUFFMAN_SKIP_BITS) {
            uint64_t next = alone[w << (all & 63) & mask] & 0xffff;
            if (is_rare(next) || (all & 63) + (next & 63) > HUFFMAN_SKIP_BITS)
                break;
            all += next;
        }
        t->skip[w] = (uint16_t)all;
    }
    t->skips = true;
}
