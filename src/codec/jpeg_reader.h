/* jpeg_reader.h: a libjpeg decompressor that reports errors as statuses and limits the number of scans.
 *
 * Every image gets one of its own, which takes 0.1 µs: a reused one would apply the tables of one image to a later image
 * that lacks them. */
#ifndef CODEC_JPEG_READER_H
#define CODEC_JPEG_READER_H

#include "codec/jpeg_trouble.h"

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

#endif
