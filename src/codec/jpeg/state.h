/* state.h: what the files of the decoder share. See decoder.h for what it does. */
#ifndef CODEC_JPEG_STATE_H
#define CODEC_JPEG_STATE_H

#include "codec/jpeg/decoder.h"
#include "codec/jpeg/huffman.h"
#include "codec/jpeg/kernels.h"
#include "codec/jpeg/bit_stream.h"

#define JPEG_MAX_BLOCKS   6 /* of an MCU: 4:2:0 */
#define JPEG_GROUP        8 /* MCUs that are decoded at once, and then transformed; even, as blocks go in pairs */
#define JPEG_GROUP_BLOCKS (JPEG_GROUP * JPEG_MAX_BLOCKS)

struct jpeg_component {
    uint8_t id, h, v, quant;
    uint8_t dc, ac; /* tables */
};

/* What the blocks of a group are looked up in: block i begins with dc[i], unless the block before it goes on. There is one
 * more: behind the last block nothing begins, but is looked up. */
struct jpeg_tables {
    const uint64_t *dc[JPEG_GROUP_BLOCKS + 1], *ac_before[JPEG_GROUP_BLOCKS + 1];
    const uint16_t *dc_skip[JPEG_GROUP_BLOCKS + 1], *ac_skip_before[JPEG_GROUP_BLOCKS + 1];
    uint8_t component[JPEG_GROUP_BLOCKS + 1];
};

/* A place in the entropy-coded data: in front of an MCU. */
struct jpeg_place {
    uint32_t mcu;
    int32_t dc[3];
    bool restarted;       /* the restart marker in front of it is passed already */
    const uint8_t *begin; /* of the file: where the stream began */
    struct stream stream;
};

/* MCUs that are being read, from a place on: at most JPEG_GROUP, and up to a restart marker. */
struct jpeg_run {
    struct jpeg_place *place; /* moves on with the bits; its MCU and predictors do in the end */
    uint32_t mcus;
    int16_t *blocks;  /* as they are coded, and one more */
    uint8_t *flat;    /* 2 for a block that has no coefficient but its first */
    uint64_t i, end;  /* blocks that are done, and all */
    uint64_t k;       /* coefficients that block i has so far */
    uint64_t follows; /* see runs.c */
};

struct jpeg_decoder {
    const struct jpeg_kernels *kernels;

    /* The open image. */
    const uint8_t *data;
    size_t length, scan; /* where entropy-coded data begin; 0: nothing is open */
    struct jpeg_frame frame;
    struct jpeg_component component[3];
    uint32_t restart;     /* MCUs between restart markers; 0: none */
    uint32_t blocks;      /* of an MCU */
    int16_t quant[4][64]; /* rows of columns, as the transform wants them: 16 bits, whatever their sign */

    /* Kept from image to image, but never used by one that does not define them. */
    struct huffman_dc dc[4];
    struct huffman_ac ac[4];

    struct jpeg_tables tables;
    struct jpeg_stage {
        struct jpeg_place place;
        int16_t coefficients[(JPEG_GROUP_BLOCKS + 1) * 64] __attribute__((aligned(64)));
        uint8_t flat[JPEG_GROUP_BLOCKS + 1];
    } stage[2]; /* two places, where points allow */
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

/* entropy.c. All return false at the first trouble in the data: the place is lost then. */
bool jpeg_entropy_start(const struct jpeg_decoder *d, struct jpeg_place *p); /* in front of MCU 0 */
/* Passes over MCUs. Points that are passed are added to `points`, which may be NULL; if they have room, the first that is not
 * known does not lie behind the place. Points of sound data that are passed must agree with the place. */
bool jpeg_entropy_skip(struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points, uint32_t mcus);
/* Begins a run of at most `mcus` MCUs, likewise; and ends it when it is read: coefficients are complete then. */
bool jpeg_run_begin(const struct jpeg_decoder *d, struct jpeg_run *r, struct jpeg_stage *stage, struct jpeg_points *points,
                    uint32_t mcus);
bool jpeg_run_end(const struct jpeg_decoder *d, struct jpeg_run *r);
/* In front of point `i`. False: it contradicts the data. */
bool jpeg_entropy_seek(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points, uint32_t i);

/* points.c: the place is that of the first point that is not known. False: bits in front of it are not there. */
bool jpeg_points_add(const struct jpeg_decoder *d, struct jpeg_place *p, struct jpeg_points *points);

/* Whether the place, in front of an MCU that has a known point, is what that point says. */
bool jpeg_points_agree(const struct jpeg_decoder *d, struct jpeg_place *p, const struct jpeg_points *points);

/* Trouble in the data: PST_EUNSUPPORTED, or PST_ESTALE where points say that there is none. `points` may be NULL. */
pst_status jpeg_not_sound(const struct jpeg_decoder *d, const struct jpeg_points *points, pst_error *reterr);

#endif
