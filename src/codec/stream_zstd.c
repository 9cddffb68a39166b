/* stream_zstd.c: Zstandard frames, through libzstd.
 *
 * Promises: frames carry a checksum; a frame that asks for a window above 128 MiB is refused before it is allocated.
 * The library allocates for itself (its allocator hooks are not in its stable interface). Leaves to others: what follows
 * a frame (stream.c). */
#include "codec/stream_codec.h"

#include "base/error.h"
#include "base/fault.h"

#include <zstd.h>
#include <zstd_errors.h>

#define WINDOW_LOG_MAX 27

static pst_status zstd_decoder_create(void **ret, pst_error *reterr)
{
    ZSTD_DCtx *z = fault_hit(FAULT_MEMORY, "ZSTD_createDCtx") ? NULL : ZSTD_createDCtx();
    if (!z)
        return fail_memory(reterr, "zstd");
    ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    *ret = z;
    return PST_OK;
}

static pst_status zstd_decode(void *decoder, struct stream_span *span, pst_error *reterr)
{
    ZSTD_inBuffer in = {span->in, span->in_left, 0};
    ZSTD_outBuffer out = {span->out, span->out_left, 0};
    size_t code = ZSTD_decompressStream(decoder, &out, &in);
    span->in += in.pos;
    span->in_left -= in.pos;
    span->out += out.pos;
    span->out_left -= out.pos;
    if (!ZSTD_isError(code))
        return code == 0 ? PST_END : PST_OK;
    switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation:
        return fail_memory(reterr, "zstd");
    case ZSTD_error_frameParameter_windowTooLarge:
        return pst_fail(reterr, PST_ELIMIT, "the window is above %u MiB; recompress without --ultra or --long",
                        1u << (WINDOW_LOG_MAX - 20));
    case ZSTD_error_dictionary_wrong:
        return pst_fail(reterr, PST_EUNSUPPORTED, "needs a dictionary, which is not supported; recompress without one");
    case ZSTD_error_noForwardProgress_destFull:
    case ZSTD_error_noForwardProgress_inputEmpty:
        return PST_OK;
    default:
        return pst_fail(reterr, PST_ECORRUPT, "%s", ZSTD_getErrorName(code));
    }
}

static void zstd_decoder_destroy(void *decoder)
{
    ZSTD_freeDCtx(decoder);
}

static pst_status zstd_encoder_create(void **ret, int level, pst_error *reterr)
{
    pst_status st = stream_check_level("zstd", level, ZSTD_minCLevel(), ZSTD_maxCLevel(), reterr);
    if (st != PST_OK)
        return st;
    ZSTD_CCtx *z = fault_hit(FAULT_MEMORY, "ZSTD_createCCtx") ? NULL : ZSTD_createCCtx();
    if (!z)
        return fail_memory(reterr, "zstd");
    ZSTD_CCtx_setParameter(z, ZSTD_c_compressionLevel, level ? level : ZSTD_CLEVEL_DEFAULT);
    ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1);
    *ret = z;
    return PST_OK;
}

static pst_status zstd_encode(void *encoder, struct stream_span *span, bool finish, pst_error *reterr)
{
    ZSTD_inBuffer in = {span->in, span->in_left, 0};
    ZSTD_outBuffer out = {span->out, span->out_left, 0};
    size_t code = ZSTD_compressStream2(encoder, &out, &in, finish ? ZSTD_e_end : ZSTD_e_continue);
    span->in += in.pos;
    span->in_left -= in.pos;
    span->out += out.pos;
    span->out_left -= out.pos;
    if (ZSTD_isError(code))
        return ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation
                   ? fail_memory(reterr, "zstd")
                   : pst_fail(reterr, PST_EINVAL, "zstd: %s", ZSTD_getErrorName(code));
    return finish && code == 0 ? PST_END : PST_OK;
}

static void zstd_encoder_destroy(void *encoder)
{
    ZSTD_freeCCtx(encoder);
}

const struct stream_codec stream_codec_zstd = {
    .compression = PST_COMPRESSION_ZSTD,
    .name = "zstd",
    .concatenates = true,
    .decoder_create = zstd_decoder_create,
    .decode = zstd_decode,
    .decoder_destroy = zstd_decoder_destroy,
    .encoder_create = zstd_encoder_create,
    .encode = zstd_encode,
    .encoder_destroy = zstd_encoder_destroy,
};
