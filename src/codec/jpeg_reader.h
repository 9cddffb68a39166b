/* jpeg_reader.h: a libjpeg decompressor that reports trouble as statuses and stops at a number of scans.
 *
 * Every image gets one of its own, which takes 0.1 µs: a kept one would hand the tables of one image on to the next that lacks
 * them. */
#ifndef CODEC_JPEG_READER_H
#define CODEC_JPEG_READER_H

#include "codec/jpeg_trouble.h"

struct jpeg_reader {
    struct jpeg_decompress_struct info;
    struct trouble trouble;
    struct jpeg_progress_mgr progress;
    uint32_t max_scans;
};

/* Nothing that could fail. jpeg_destroy_decompress(&r->info) releases what comes later. */
void jpeg_reader_init(struct jpeg_reader *r, uint32_t max_scans);
/* Reads the header. Trouble jumps, as in all calls of libjpeg: setjmp(r->trouble.jump) comes first. */
void jpeg_reader_open(struct jpeg_reader *r, const void *data, size_t length);

#endif
