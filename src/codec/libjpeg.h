/* libjpeg.h: libjpeg-turbo with errors as statuses, and its decompressor with a limit on the number of scans.
 *
 * libjpeg reports errors by a call that must not return: it jumps back. State that must survive the jump is in structs of
 * the outer function, not in locals of the function that calls setjmp.
 *
 * Every image gets a decompressor of its own, which takes 0.1 µs: a reused one would apply the tables of one image to a later
 * image that lacks them. */
#ifndef CODEC_LIBJPEG_H
#define CODEC_LIBJPEG_H

#include "codec/region.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

/* Errors and warnings, of decoding and encoding. */
struct trouble {
    struct jpeg_error_mgr manager; /* first: libjpeg hands back its address */
    jmp_buf jump;
    pst_status status;
    unsigned warnings;
    char text[JMSG_LENGTH_MAX]; /* the error, or the first warning */
};

/* Returns the value for `err` of a libjpeg struct. It never prints. */
struct jpeg_error_mgr *trouble_init(struct trouble *t);

struct jpeg_reader {
    struct jpeg_decompress_struct info;
    struct trouble trouble;
    struct jpeg_progress_mgr progress;
    uint32_t max_scans;
};

/* Cannot fail. Release with jpeg_destroy_decompress(&r->info). */
void jpeg_reader_init(struct jpeg_reader *r, uint32_t max_scans);
/* Reads the header. Errors jump, as in all calls of libjpeg: call setjmp(r->trouble.jump) first. */
void jpeg_reader_open(struct jpeg_reader *r, const void *data, size_t length);

/* Decodes a part of an image (jpeg_read.c). `info` is the result of the probe; `options` are complete: `channels` is 1, 3 or
 * 4; the pixels are in `memory`. options->strict: a warning is an error, and the file is read to its end. */
pst_status jpeg_read(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info, const struct region *part,
                     const pst_decode_options *options, struct region_memory *memory, pst_error *reterr);
/* The same with libjpeg-turbo's fast integer transform, TensorFlow's default, which is up to 23 levels off. */
pst_status jpeg_read_fast(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                          const struct region *part, const pst_decode_options *options, struct region_memory *memory,
                          pst_error *reterr);

#endif
