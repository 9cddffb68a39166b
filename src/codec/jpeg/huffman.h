/* huffman.h: Huffman tables for the entropy decoder, reused for the next image while their definitions are equal.
 *
 * A table is looked up with the next bits of the data. Codes that are longer than a lookup, and other rare cases, are found
 * by length (huffman_find). */
#ifndef CODEC_JPEG_HUFFMAN_H
#define CODEC_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUFFMAN_DC_BITS   9 /* bits that select an entry: four tables, data and coefficients share the first-level cache */
#define HUFFMAN_AC_BITS   10
#define HUFFMAN_SKIP_BITS 11 /* lookup bits of an AC table when coefficients are skipped */
#define HUFFMAN_DC_MOST   11 /* maximum bits of a difference and of a coefficient for 8-bit samples */
#define HUFFMAN_AC_MOST   10

/* A definition as stored in a file. */
struct huffman_code {
    uint8_t counts[16]; /* codes of 1…16 bits */
    uint8_t symbols[256];
};

/* Codes by their length. */
struct huffman_lengths {
    uint32_t beyond[17]; /* the first 16 bits of data, if smaller, begin with a code of at most this length */
    int32_t symbol[17];  /* for codes of this length: offset of the symbol */
};

/* An entry: a symbol A with its value, and a second one B where it lies within the lookup with its value. A difference of
 * DC, an end of block and 16 zeros are symbols like any other: with the zeros before it, if any, each takes some indices of
 * the block and gives the last of them a value, if only 0. In its bits:
 *
 *    0…5   length of everything
 *    6     the last symbol ends the block
 *    8…15  how many indices A and B take: the last of them gets the value of B; HUFFMAN_RARE: find it by length
 *   16…23  how many A takes, less 1; HUFFMAN_NOWHERE if its value has no bits
 *   24…31  length of A's code
 *   32…39  64 − length of A's value
 *   40…47  value of B, 0 if there is none: A's own, which is set later, is in the same place then
 *   48…63  what to add to A's value if its first bit is 0
 *
 * When coefficients are skipped, an entry is only the first 16 bits, for as many symbols as fit in the lookup. */
#define HUFFMAN_END     64u
#define HUFFMAN_RARE    128u
#define HUFFMAN_NOWHERE 64u

struct huffman_dc {
    struct huffman_code code;
    struct huffman_lengths lengths;
    uint64_t read[1 << HUFFMAN_DC_BITS];
    uint16_t skip[1 << HUFFMAN_DC_BITS];
};

struct huffman_ac {
    struct huffman_code code;
    struct huffman_lengths lengths;
    uint64_t read[1 << HUFFMAN_AC_BITS];
    uint16_t skip[1 << HUFFMAN_SKIP_BITS]; /* filled when first needed */
    bool skips;
};

extern const struct huffman_code huffman_standard_dc[2], huffman_standard_ac[2];

/* Fills the table unless it holds this code already. False: not a valid code, or not of this kind; then the table is empty. */
bool huffman_dc_make(struct huffman_dc *t, const struct huffman_code *code);
bool huffman_ac_make(struct huffman_ac *t, const struct huffman_code *code);
void huffman_ac_make_skips(struct huffman_ac *t);

/* Returns the entry of one symbol. */
uint64_t huffman_dc_entry(unsigned length, unsigned symbol);
uint64_t huffman_ac_entry(unsigned length, unsigned symbol);

/* Returns an entry without its B. Only the symbol for 16 zeros has no value bits and does not end the block. */
static inline uint64_t huffman_alone(uint64_t entry)
{
    uint64_t place = entry >> 16 & 255, takes = place == HUFFMAN_NOWHERE ? 16 : place + 1;
    if (entry & HUFFMAN_END && (entry >> 8 & 255) == 1)
        return entry; /* only an end of block */
    if ((entry >> 8 & 255) == HUFFMAN_RARE)
        return entry;
    return (entry & ~UINT64_C(0xff000000ffff)) | ((entry >> 24 & 63) + 64 - (entry >> 32 & 255)) | takes << 8;
}

/* Returns the symbol that `bits`, the next 16 bits of the data, begin with, plus 256 × the length of its code; 0: none. */
unsigned huffman_find(const struct huffman_code *code, const struct huffman_lengths *l, uint32_t bits);

#endif
