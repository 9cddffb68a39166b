/* state.h: declarations shared by the files of the decoder. See decoder.h. */
#ifndef CODEC_JPEG_STATE_H
#define CODEC_JPEG_STATE_H

#include "codec/jpeg/decoder.h"
#include "codec/jpeg/huffman.h"
#include "codec/jpeg/kernels.h"
#include "codec/jpeg/bit_stream.h"

#define JPEG_MAX_BLOCKS   6 /* blocks of an MCU: 4:2:0 */
#define JPEG_GROUP        8 /* MCUs that are decoded together and then transformed; even, because blocks are transformed in
                               pairs */
#define JPEG_GROUP_BLOCKS (JPEG_GROUP * JPEG_MAX_BLOCKS)

struct jpeg_component {
    uint8_t id, h, v, quant;
    uint8_t dc, ac; /* tables */
};

/* Tables for the blocks of a group: block i begins with dc[i], unless the block before it continues. There is one more
 * entry, because a lookup is also made after the last block. */
struct jpeg_tables {
    const uint64_t *dc[JPEG_GROUP_BLOCKS + 1], *ac_before[JPEG_GROUP_BLOCKS + 1];
    const uint16_t *dc_skip[JPEG_GROUP_BLOCKS + 1], *ac_skip_before[JPEG_GROUP_BLOCKS + 1];
    uint8_t component[JPEG_GROUP_BLOCKS + 1];
};

/* A position in the entropy-coded data: before an MCU. */
struct jpeg_place {
    uint32_t mcu;
    int32_t dc[3];
    bool restarted;       /* the restart marker before it has been passed */
    const uint8_t *begin; /* in the file: where the stream began */
    struct stream stream;
};

/* A run of MCUs that are being read from a place: at most JPEG_GROUP, and up to a restart marker. */
struct jpeg_run {
    struct jpeg_place *place; /* advances with the bits; its MCU and predictors are updated at the end */
    uint32_t mcus;
    int16_t *blocks;  /* in coding order, and one more */
    uint8_t *flat;    /* 2 for a block that has only its first coefficient */
    uint64_t i, end;  /* blocks that are done; all blocks */
    uint64_t k;       /* coefficients that block i has so far */
    uint64_t follows; /* see runs.c */
};

struct jpeg_decoder {
    const struct jpeg_kernels *kernels;

    /* The open image. */
    const uint8_t *data;
    size_t length, scan; /* `scan`: where the entropy-coded data begin; 0: no image is open */
    struct jpeg_frame frame;
    struct jpeg_component component[3];
    uint32_t restart;     /* MCUs between restart markers; 0: none */
    uint32_t blocks;      /* blocks per MCU */
    int16_t quant[4][64]; /* transposed, as the transform needs them: 16 bits, whatever their sign */

    /* Kept for the next image, but used only by images that define them. */
    struct huffman_dc dc[4];
    struct huffman_ac ac[4];

    struct jpeg_tables tables;
    struct jpeg_stage {
        struct jpeg_place place;
        int16_t coefficients[(JPEG_GROUP_BLOCKS + 1) * 64] __attribute__((aligned(64)));
        uint8_t flat[JPEG_GROUP_BLOCKS + 1];
    } stage[2]; /* two places are read at once where points allow it */
    struct region_memory planes, pixels, rows;
};

/* From coding order to rows of columns. */
#define JPEG_CODING_ORDER                                                                                                      \
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21, 28, 35,  \
        42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,    \
        62, 63
extern const uint8_t jpeg_coding_order[64];

/* header.c: everything up to the entropy-coded data. */
pst_status jpeg_header_read(struct jpeg_decoder *d, pst_error *reterr);

/* entropy.c. All return false at the first error in the data: the place is invalid then. */
bool jpeg_entropy_start(const struct jpeg_decoder *d, struct jpeg_place *p); /* moves before MCU 0 */
/* Skips MCUs. Points that are passed are added to `points`, which may be NULL; if it has room, the first unknown point must
 * not be before the place. Points of valid data that are passed must agree with the place. */
bool jpeg_entropy_skip(struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points, uint32_t mcus);
/* Begin a run of up to `mcus` MCUs, with the same rules, and end it after it was read: then the coefficients are complete. */
bool jpeg_run_begin(const struct jpeg_decoder *d, struct jpeg_run *r, struct jpeg_stage *stage, struct jpeg_points *points,
                    uint32_t mcus);
bool jpeg_run_end(const struct jpeg_decoder *d, struct jpeg_run *r);
/* Moves to point `i`. False: the point contradicts the data. */
bool jpeg_entropy_seek(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points, uint32_t i);
/* Returns whether the place, before an MCU with a stored point, agrees with it; passes the restart marker before it. */
bool jpeg_entropy_agrees(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points);

/* points.c: adds the first unknown point, whose place is given. False: bits before it do not exist. */
bool jpeg_points_add(const struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points);

/* Returns whether the place, before an MCU with a known point, agrees with that point. */
bool jpeg_points_agree(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points);

/* Fails because of an error in the data: PST_EUNSUPPORTED, or PST_ESTALE where the points claim that the data are valid.
 * `points` may be NULL. */
pst_status jpeg_not_sound(const struct jpeg_decoder *d, const struct jpeg_points *points, pst_error *reterr);

#endif
