/* stream_zlib.c: one deflate stream in a gzip or zlib wrapper, through zlib.
 *
 * Promises: gzip output carries no time, name or system, so that equal input gives equal bytes; all memory comes from
 * memory.h. Leaves to others: what follows a member (stream.c). */
#include "base/error.h"
#include "base/memory.h"
#include "codec/stream_codec.h"

#include <zlib.h>

#define GZIP_WINDOW (16 + MAX_WBITS)

static voidpf allocate(voidpf user, uInt items, uInt size)
{
    (void)user;
    return mem_array(items, size);
}

static void release(voidpf user, voidpf p)
{
    (void)user;
    mem_free(p);
}

/* zlib counts in unsigned int: a pass takes what fits, the caller comes again for the rest. */
static uInt fit(size_t n)
{
    return n < (1u << 30) ? (uInt)n : 1u << 30;
}

static void lend(z_stream *z, const struct stream_span *s)
{
    z->next_in = (Bytef *)(uintptr_t)s->in; /* zlib's type lacks the const */
    z->avail_in = fit(s->in_left);
    z->next_out = s->out;
    z->avail_out = fit(s->out_left);
}

static void take_back(z_stream *z, struct stream_span *s)
{
    s->in_left -= fit(s->in_left) - z->avail_in;
    s->in = z->next_in;
    s->out_left -= fit(s->out_left) - z->avail_out;
    s->out = z->next_out;
}

/* ---- Decoder ---- */

static pst_status inflate_create(void **ret, int window, pst_error *reterr)
{
    z_stream *z = mem_zalloc(sizeof(*z));
    if (!z)
        return fail_memory(reterr, "deflate");
    z->zalloc = allocate;
    z->zfree = release;
    if (inflateInit2(z, window) != Z_OK) {
        mem_free(z);
        return fail_memory(reterr, "deflate");
    }
    *ret = z;
    return PST_OK;
}

static pst_status gzip_decoder_create(void **ret, pst_error *reterr)
{
    return inflate_create(ret, GZIP_WINDOW, reterr);
}

static pst_status zlib_decoder_create(void **ret, pst_error *reterr)
{
    return inflate_create(ret, MAX_WBITS, reterr);
}

static pst_status inflate_pass(void *decoder, struct stream_span *span, pst_error *reterr)
{
    z_stream *z = decoder;
    lend(z, span);
    int code = inflate(z, Z_NO_FLUSH);
    take_back(z, span);
    switch (code) {
    case Z_OK:
    case Z_BUF_ERROR: /* no input or no room: not a fault */
        return PST_OK;
    case Z_STREAM_END:
        inflateReset(z);
        return PST_END;
    case Z_MEM_ERROR:
        return fail_memory(reterr, "deflate");
    case Z_NEED_DICT:
        return pst_fail(reterr, PST_EUNSUPPORTED, "needs a preset dictionary, which is not supported; recompress without one");
    default:
        return pst_fail(reterr, PST_ECORRUPT, "%s", z->msg ? z->msg : "invalid data");
    }
}

static void inflate_destroy(void *decoder)
{
    if (decoder)
        inflateEnd(decoder);
    mem_free(decoder);
}

/* ---- Encoder ---- */

struct deflater {
    z_stream z;
    gz_header header; /* read by zlib when the first bytes are put out */
};

static pst_status deflate_create(void **ret, const char *name, int level, int window, pst_error *reterr)
{
    pst_status st = stream_check_level(name, level, 0, 9, reterr);
    if (st != PST_OK)
        return st;
    struct deflater *d = mem_zalloc(sizeof(*d));
    if (!d)
        return fail_memory(reterr, "deflate");
    d->z.zalloc = allocate;
    d->z.zfree = release;
    if (deflateInit2(&d->z, level ? level : Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        mem_free(d);
        return fail_memory(reterr, "deflate");
    }
    d->header.os = 255; /* unknown: the same on every system */
    if (window == GZIP_WINDOW)
        deflateSetHeader(&d->z, &d->header);
    *ret = d;
    return PST_OK;
}

static pst_status gzip_encoder_create(void **ret, int level, pst_error *reterr)
{
    return deflate_create(ret, "gzip", level, GZIP_WINDOW, reterr);
}

static pst_status zlib_encoder_create(void **ret, int level, pst_error *reterr)
{
    return deflate_create(ret, "zlib", level, MAX_WBITS, reterr);
}

static pst_status deflate_pass(void *encoder, struct stream_span *span, bool finish, pst_error *reterr)
{
    struct deflater *d = encoder;
    lend(&d->z, span);
    int code = deflate(&d->z, finish ? Z_FINISH : Z_NO_FLUSH);
    take_back(&d->z, span);
    if (code == Z_STREAM_END)
        return PST_END;
    return code == Z_OK || code == Z_BUF_ERROR ? PST_OK
                                               : pst_fail(reterr, PST_EINVAL, "deflate: the stream was finished before");
}

static void deflate_destroy(void *encoder)
{
    struct deflater *d = encoder;
    if (d)
        deflateEnd(&d->z);
    mem_free(d);
}

const struct stream_codec stream_codec_gzip = {
    .compression = PST_COMPRESSION_GZIP,
    .name = "gzip",
    .concatenates = true,
    .decoder_create = gzip_decoder_create,
    .decode = inflate_pass,
    .decoder_destroy = inflate_destroy,
    .encoder_create = gzip_encoder_create,
    .encode = deflate_pass,
    .encoder_destroy = deflate_destroy,
};

const struct stream_codec stream_codec_zlib = {
    .compression = PST_COMPRESSION_ZLIB,
    .name = "zlib",
    .decoder_create = zlib_decoder_create,
    .decode = inflate_pass,
    .decoder_destroy = inflate_destroy,
    .encoder_create = zlib_encoder_create,
    .encode = deflate_pass,
    .encoder_destroy = deflate_destroy,
};
