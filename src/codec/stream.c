/* stream.c: streams of members, over the codecs' single members.
 *
 * Promises: all members are decoded, zeros between and after them are skipped, anything else is damage; data decoded before
 * the damage is returned first; compressed bytes do not depend on how the input was cut. Leaves to others: the libraries
 * (stream_zlib.c, stream_zstd.c), files, and what the bytes mean. */
#include "codec/stream.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"
#include "codec/stream_codec.h"

#include <inttypes.h>
#include <string.h>

static const struct stream_codec *const codecs[] = {&stream_codec_gzip, &stream_codec_zlib, &stream_codec_zstd};

static const struct stream_codec *find_codec(pst_compression compression)
{
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++)
        if (codecs[i]->compression == compression)
            return codecs[i];
    return NULL;
}

static bool is_zlib(const uint8_t *h, size_t length)
{
    if (length < 3 || (h[0] & 0x0f) != 8 || (h[0] >> 4) > 7 || (h[0] * 256 + h[1]) % 31 != 0 || (h[1] & 0x20))
        return false;
    /* Two bytes prove little: a TFRecord whose first length is damaged must not pass. Its upper four bytes are zero for any
     * plausible record, the first deflate block of a real stream has a type, and a stored one repeats its length inverted. */
    if (length >= 8 && le32(h + 4) == 0)
        return false;
    unsigned type = (h[2] >> 1) & 3;
    return type != 3 && (type != 0 || length < 7 || (le16(h + 3) ^ le16(h + 5)) == 0xffff);
}

pst_compression stream_sniff(const void *head, size_t length)
{
    const uint8_t *h = head;
    if (length >= 12 && crc32c_masked(h, 8) == le32(h + 8)) /* a TFRecord's length and its CRC */
        return PST_COMPRESSION_NONE;
    if (length >= 3 && h[0] == 0x1f && h[1] == 0x8b && h[2] == 8)
        return PST_COMPRESSION_GZIP;
    if (length >= 4 && (le32(h) == 0xfd2fb528u || (le32(h) & ~0xfu) == 0x184d2a50u)) /* a frame, a skippable frame */
        return PST_COMPRESSION_ZSTD;
    return is_zlib(h, length) ? PST_COMPRESSION_ZLIB : PST_COMPRESSION_NONE;
}

static pst_status no_codec(pst_compression compression, pst_error *reterr)
{
    return pst_fail(reterr, PST_EINVAL, "invalid compression %d; expected gzip, zlib or zstd",
                    (int)compression);
}

/* ---- Decompression ---- */

struct decompressor {
    const struct stream_codec *codec;
    void *decoder;
    bool between;      /* between two members; false: inside one, or before the first */
    bool later_member; /* the current one is not the first */
    uint64_t consumed; /* of the compressed stream */
    pst_error failure; /* final once its status is not PST_OK */
};

pst_status decompressor_create(struct decompressor **ret, pst_compression compression, pst_error *reterr)
{
    const struct stream_codec *codec = find_codec(compression);
    if (!codec)
        return no_codec(compression, reterr);
    struct decompressor *d = mem_zalloc(sizeof(*d));
    if (!d)
        return fail_memory(reterr, "%s stream", codec->name);
    d->codec = codec;
    pst_status st = codec->decoder_create(&d->decoder, reterr);
    if (st != PST_OK) {
        decompressor_destroy(d);
        return st;
    }
    *ret = d;
    return PST_OK;
}

/* Skips the zeros after a member; the next member follows them. */
static pst_status pass_gap(struct decompressor *d, struct stream_span *s)
{
    while (s->in_left && s->in[0] == 0)
        s->in++, s->in_left--;
    if (!s->in_left)
        return PST_OK;
    if (!d->codec->concatenates)
        return pst_fail(&d->failure, PST_ECORRUPT, "bytes after the end");
    d->between = false;
    d->later_member = true;
    return PST_OK;
}

/* Runs until the input or the room is used up. A failure goes to d->failure. */
static void run_members(struct decompressor *d, struct stream_span *s)
{
    pst_status st = PST_OK;
    while (st == PST_OK) {
        struct stream_span before = *s;
        if (d->between) {
            st = pass_gap(d, s);
            if (!s->in_left)
                return;
        }
        if (st == PST_OK)
            st = d->codec->decode(d->decoder, s, &d->failure);
        if (st == PST_END) {
            d->between = true;
            st = PST_OK;
        } else if (before.in_left == s->in_left && before.out_left == s->out_left) {
            return;
        }
    }
}

pst_status decompressor_run(struct decompressor *d, const void *in, size_t in_length, size_t *ret_consumed, void *out,
                            size_t out_length, size_t *ret_produced, pst_error *reterr)
{
    struct stream_span s = {in, in_length, out, out_length};
    if (d->failure.status == PST_OK)
        run_members(d, &s);
    *ret_consumed = in_length - s.in_left;
    *ret_produced = out_length - s.out_left;
    d->consumed += *ret_consumed;
    if (d->failure.status != PST_OK && !*ret_produced)
        return pst_fail(reterr, d->failure.status, "%s stream, near compressed byte %" PRIu64 "%s: %s", d->codec->name,
                        d->consumed, d->later_member ? " (not in its first member)" : "", d->failure.message);
    return in_length == 0 && !*ret_produced && d->between ? PST_END : PST_OK;
}

bool decompressor_at_end(const struct decompressor *d)
{
    return d->between && d->failure.status == PST_OK;
}

struct decompressor *decompressor_destroy(struct decompressor *d)
{
    if (d)
        d->codec->decoder_destroy(d->decoder);
    mem_free(d);
    return NULL;
}

/* ---- Compression ---- */

#define BLOCK_BYTES ((size_t)128 << 10)

struct compressor {
    const struct stream_codec *codec;
    void *encoder;
    size_t filled;
    /* Input reaches the library in whole blocks, so that its output cannot depend on the cuts between calls. */
    uint8_t block[BLOCK_BYTES], out[BLOCK_BYTES];
};

pst_status compressor_create(struct compressor **ret, pst_compression compression, int level, pst_error *reterr)
{
    const struct stream_codec *codec = find_codec(compression);
    if (!codec)
        return no_codec(compression, reterr);
    struct compressor *c = mem_alloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "%s stream", codec->name);
    c->codec = codec;
    c->encoder = NULL;
    c->filled = 0;
    pst_status st = codec->encoder_create(&c->encoder, level, reterr);
    if (st != PST_OK) {
        compressor_destroy(c);
        return st;
    }
    *ret = c;
    return PST_OK;
}

static pst_status encode_block(struct compressor *c, bool finish, stream_sink sink, void *user, pst_error *reterr)
{
    struct stream_span s = {.in = c->block, .in_left = c->filled};
    pst_status st;
    do {
        s.out = c->out;
        s.out_left = sizeof(c->out);
        st = c->codec->encode(c->encoder, &s, finish, reterr);
        if (st < 0)
            return st;
        size_t produced = sizeof(c->out) - s.out_left;
        pst_status put = produced ? sink(user, c->out, produced, reterr) : PST_OK;
        if (put != PST_OK)
            return put;
    } while (finish ? st != PST_END : s.in_left || !s.out_left);
    c->filled = 0;
    return PST_OK;
}

pst_status compressor_run(struct compressor *c, const void *in, size_t length, bool finish, stream_sink sink, void *user,
                          pst_error *reterr)
{
    const uint8_t *at = in;
    while (length) {
        size_t room = BLOCK_BYTES - c->filled, n = length < room ? length : room;
        memcpy(c->block + c->filled, at, n);
        c->filled += n;
        at += n;
        length -= n;
        if (c->filled == BLOCK_BYTES) {
            pst_status st = encode_block(c, false, sink, user, reterr);
            if (st != PST_OK)
                return st;
        }
    }
    return finish ? encode_block(c, true, sink, user, reterr) : PST_OK;
}

struct compressor *compressor_destroy(struct compressor *c)
{
    if (c)
        c->codec->encoder_destroy(c->encoder);
    mem_free(c);
    return NULL;
}

pst_status stream_check_level(const char *name, int level, int low, int high, pst_error *reterr)
{
    if (level >= low && level <= high)
        return PST_OK;
    return pst_fail(reterr, PST_EINVAL, "%s has no level %d; choose %d to %d, or 0 for its default", name, level, low, high);
}
