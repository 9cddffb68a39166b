/* stream_codec.h: the interface of a compression for stream.c. One file per library; stream.c holds the only list. */
#ifndef CODEC_STREAM_CODEC_H
#define CODEC_STREAM_CODEC_H

#include <penstock/record.h>

/* The remaining input and output space; a pass advances both. */
struct stream_span {
    const uint8_t *in;
    size_t in_left;
    uint8_t *out;
    size_t out_left;
};

struct stream_codec {
    pst_compression compression;
    const char *name;
    bool concatenates; /* members may follow one another */

    /* A decoder is at the start of a member when it is created, and again after `decode` returned PST_END. */
    pst_status (*decoder_create)(void **ret, pst_error *reterr);
    /* One pass. OK: call again with more input or more room; END: the member is complete and all of it was output. */
    pst_status (*decode)(void *decoder, struct stream_span *span, pst_error *reterr);
    void (*decoder_destroy)(void *decoder); /* NULL ok */

    /* `level` 0 is the default. */
    pst_status (*encoder_create)(void **ret, int level, pst_error *reterr);
    /* One pass; with `finish`, END once everything was output. */
    pst_status (*encode)(void *encoder, struct stream_span *span, bool finish, pst_error *reterr);
    void (*encoder_destroy)(void *encoder); /* NULL ok */
};

extern const struct stream_codec stream_codec_gzip, stream_codec_zlib, stream_codec_zstd;

/* PST_EINVAL naming the range, unless low <= level <= high. */
pst_status stream_check_level(const char *name, int level, int low, int high, pst_error *reterr);

#endif
