/* byte_window.c: fills the window of source.h.
 *
 * How much a read asks for decides the speed. Small records come many to a piece. A large record is read up to its end
 * and the next header, straight to where it will be handed out: the next record then starts with those few bytes at
 * the front of the buffer, so that neither large tails are moved nor more cache is touched than one record needs. */
#include "record/byte_window.h"

#include "base/memory.h"
#include "codec/stream.h"
#include "io/file.h"
#include "record/frame.h"

#include <assert.h>
#include <string.h>

#define SMALL_TAIL ((size_t)4096) /* up to this many bytes are moved to the front of the buffer */
#define LARGE_WANT (SOURCE_PIECE / 4)

static pst_status no_memory(const struct source *s, size_t bytes, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ENOMEM, s->path, PST_NOWHERE, s->offset, "out of memory for a read buffer of %zu bytes",
                       bytes);
}

/* Makes room for `room` bytes after the window, by moving the window to the front of the buffer if that is cheap. */
static pst_status make_room(struct source *s, size_t room, pst_error *reterr)
{
    size_t tail = s->end - s->begin, needed;
    if (__builtin_add_overflow(tail, room, &needed))
        return no_memory(s, room, reterr);
    if (needed > s->capacity) {
        size_t grown = s->capacity < SIZE_MAX / 2 && s->capacity * 2 > needed ? s->capacity * 2 : needed;
        uint8_t *larger = mem_aligned(grown);
        if (!larger)
            return no_memory(s, grown, reterr);
        if (tail)
            memcpy(larger, s->buffer + s->begin, tail);
        mem_free(s->buffer);
        s->buffer = larger;
        s->capacity = grown;
    } else if (tail <= SMALL_TAIL || room > s->capacity - s->end) {
        memmove(s->buffer, s->buffer + s->begin, tail);
    } else {
        return PST_OK;
    }
    s->begin = 0;
    s->end = tail;
    return PST_OK;
}

/* Raw bytes of the file. `*ret_got` 0: its end. */
static pst_status read_raw(struct source *s, uint8_t *to, size_t length, size_t *ret_got, pst_error *reterr)
{
    if (!s->regular)
        return file_read_some(s->fd, s->path, to, length, &s->stop, ret_got, reterr);
    pst_status st = file_check_stop(&s->stop, s->path, reterr);
    if (st == PST_OK)
        st = file_read_at(s->fd, s->path, to, length, s->position, ret_got, reterr);
    if (st == PST_OK)
        s->position += *ret_got;
    return st;
}

static pst_status refill_input(struct source *s, pst_error *reterr)
{
    if (s->input_begin < s->input_end || s->input_ended)
        return PST_OK;
    pst_status st = read_raw(s, s->input, SOURCE_PIECE, &s->input_end, reterr);
    if (st < 0)
        s->input_end = s->input_begin; /* nothing new */
    else
        s->input_begin = 0, s->input_ended = s->input_end == 0;
    return st;
}

/* Adds decompressed bytes after the window, at least one unless the stream ends. */
static pst_status fill_decompressed(struct source *s, size_t room, pst_error *reterr)
{
    size_t produced = 0;
    while (produced == 0 && !s->ended) {
        pst_status st = refill_input(s, reterr);
        if (st < 0)
            return st;
        size_t given = s->input_end - s->input_begin, consumed = 0;
        st = decompressor_run(s->decompressor, s->input + s->input_begin, given, &consumed, s->buffer + s->end, room, &produced,
                              &s->damage);
        if (st < 0 && st != PST_ECORRUPT)
            return pst_fail_at(reterr, st, s->path, PST_NOWHERE, s->offset, "%s", s->damage.message);
        s->input_begin += consumed;
        s->end += produced;
        assert(given == 0 || consumed || produced || st < 0);
        if (st == PST_ECORRUPT) {
            s->broken = s->ended = true;
        } else if (given == 0 && produced == 0) {
            s->ended = true;
            s->broken = !decompressor_at_end(s->decompressor);
            if (s->broken)
                pst_fail(&s->damage, PST_ECORRUPT, "the file ends inside its %s stream", pst_compression_name(s->compression));
        }
    }
    return PST_OK;
}

static pst_status fill_plain(struct source *s, size_t room, pst_error *reterr)
{
    size_t got = 0;
    if (s->regular && room > s->size - s->position)
        room = (size_t)(s->size - s->position); /* what is appended meanwhile belongs to a later opening */
    pst_status st = room ? read_raw(s, s->buffer + s->end, room, &got, reterr) : PST_OK;
    if (st < 0)
        return st;
    s->end += got;
    s->ended = s->regular ? got < room || s->position == s->size : got == 0;
    return PST_OK;
}

pst_status source_need(struct source *s, size_t want, pst_error *reterr)
{
    while (source_available(s) < want && !s->ended) {
        size_t have = source_available(s), room = want - have;
        if (want > LARGE_WANT)
            room += FRAME_HEADER;
        else if (s->piece > want)
            room = s->piece - have;
        pst_status st = make_room(s, room, reterr);
        if (st == PST_OK)
            st = s->decompressor ? fill_decompressed(s, room, reterr) : fill_plain(s, room, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

pst_status source_skip(struct source *s, uint64_t n, pst_error *reterr)
{
    size_t have = source_available(s);
    if (n > have && s->regular && !s->decompressor) {
        uint64_t left = s->size - s->offset;
        s->offset += n < left ? n : left;
        s->position = s->offset;
        s->begin = s->end = 0;
        return PST_OK;
    }
    for (;;) {
        size_t step = n < have ? (size_t)n : have;
        source_advance(s, step);
        n -= step;
        if (n == 0)
            return PST_OK;
        pst_status st = source_need(s, 1, reterr);
        if (st < 0)
            return st;
        have = source_available(s);
        if (have == 0)
            return PST_OK;
    }
}

pst_status source_load(struct source *s, uint64_t length, bool verify, enum load *ret, pst_error *reterr)
{
    uint32_t crc = 0;
    *ret = LOAD_CUT;
    if (length > SIZE_MAX - FRAME_BYTES - FRAME_HEADER)
        return PST_OK; /* a stream is never that long */
    size_t whole = (size_t)length + FRAME_BYTES;
    if (s->size != SOURCE_UNKNOWN) {
        if (whole > s->size - s->offset)
            return PST_OK;
        if (whole > source_available(s)) { /* these bytes are there: one allocation holds them all */
            pst_status st = make_room(s, whole + FRAME_HEADER - source_available(s), reterr);
            if (st < 0)
                return st;
        }
    }
    for (size_t done = FRAME_HEADER; done < whole;) {
        size_t step = whole - done <= SOURCE_PIECE ? whole - done : SOURCE_PIECE - FRAME_FOOTER;
        pst_status st = source_need(s, done + step, reterr);
        if (st < 0)
            return st;
        if (source_available(s) < done + step)
            return PST_OK;
        size_t data = done + step == whole ? step - FRAME_FOOTER : step;
        if (verify)
            crc = crc32c_extend(crc, source_data(s) + done, data);
        done += step;
    }
    bool sound = !verify || crc32c_mask(crc) == le32(source_data(s) + whole - FRAME_FOOTER);
    *ret = sound ? LOAD_SOUND : LOAD_DAMAGED;
    return PST_OK;
}

/* Uses the bytes read so far as input. */
static pst_status start_decompression(struct source *s, pst_error *reterr)
{
    pst_status st = decompressor_create(&s->decompressor, s->compression, reterr);
    if (st < 0)
        return st;
    s->input = s->buffer;
    s->input_begin = s->begin;
    s->input_end = s->end;
    s->input_ended = s->ended;
    s->ended = false;
    s->begin = s->end = 0;
    s->size = SOURCE_UNKNOWN;
    s->buffer = mem_aligned(s->capacity);
    return s->buffer ? PST_OK : no_memory(s, s->capacity, reterr);
}

pst_status source_start(struct source *s, int fd, const char *path, pst_compression compression, pst_error *reterr)
{
    struct file_info info;
    s->fd = fd;
    s->path = path;
    s->piece = SOURCE_PIECE;
    pst_status st = file_fstat(fd, path, &info, reterr);
    if (st < 0)
        return st;
    if (info.is_folder)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "is a folder; name one of the shards in it");
    s->regular = info.is_regular;
    s->size = info.is_regular ? info.size : SOURCE_UNKNOWN;
    s->capacity = SOURCE_PIECE;
    s->buffer = mem_aligned(s->capacity);
    if (!s->buffer)
        return no_memory(s, s->capacity, reterr);
    if (compression == PST_COMPRESSION_AUTO) {
        st = source_need(s, FRAME_HEADER, reterr);
        if (st < 0)
            return st;
        compression = stream_sniff(source_data(s), source_available(s));
        if (compression == PST_COMPRESSION_ZLIB && s->no_zlib)
            compression = PST_COMPRESSION_NONE;
    }
    s->compression = compression;
    return compression == PST_COMPRESSION_NONE ? PST_OK : start_decompression(s, reterr);
}

void source_finish(struct source *s)
{
    decompressor_destroy(s->decompressor);
    mem_free(s->input);
    mem_free(s->buffer);
    *s = (struct source){.fd = -1};
}
