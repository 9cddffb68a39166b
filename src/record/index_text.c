/* index_text.c: text indexes as tfrecord2idx writes them: one line per record: its offset and its size with the framing.
 *
 * Such an index has no fingerprint. It must therefore cover every byte of the shard, and readers check the record's own
 * header at every access. */
#include "record/index.h"

#include "base/memory.h"
#include "io/file.h"
#include "record/frame.h"

#include <inttypes.h>

#define LONGEST_LINE 42u /* two numbers of 20 digits, a blank, a line break */

struct cursor {
    const uint8_t *at, *end;
};

static void skip_blanks(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\r'))
        c->at++;
}

static bool parse_number(struct cursor *c, uint64_t *ret)
{
    uint64_t value = 0;
    const uint8_t *start = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
            return false;
    *ret = value;
    return c->at > start;
}

/* Reads one line; PST_END after the last. */
static pst_status parse_line(struct cursor *c, uint64_t line, uint64_t *ret_offset, uint64_t *ret_size, const char *path,
                             pst_error *reterr)
{
    skip_blanks(c);
    while (c->at < c->end && *c->at == '\n') {
        c->at++;
        skip_blanks(c);
    }
    if (c->at == c->end)
        return PST_END;
    bool good = parse_number(c, ret_offset);
    skip_blanks(c);
    good = good && parse_number(c, ret_size);
    skip_blanks(c);
    if (!good || (c->at < c->end && *c->at != '\n'))
        return pst_fail_at(reterr, PST_ECORRUPT, path, line, PST_NOWHERE, "text index: expected \"offset size\"");
    return PST_OK;
}

static pst_status parse_lines(struct index_builder *b, struct cursor c, uint64_t shard_bytes, const char *path,
                              pst_error *reterr)
{
    uint64_t expected = 0, offset = 0, size = 0;
    pst_status st;
    while ((st = parse_line(&c, b->count, &offset, &size, path, reterr)) == PST_OK) {
        if (offset != expected || size < FRAME_BYTES || size > shard_bytes - offset)
            return pst_fail_at(reterr, PST_ESTALE, path, b->count, PST_NOWHERE,
                               "text index: byte %" PRIu64 ", size %" PRIu64 ", expected byte %" PRIu64
                               " in a shard of %" PRIu64 " bytes: it belongs to another shard",
                               offset, size, expected, shard_bytes);
        st = index_builder_add(b, offset, size - FRAME_BYTES, reterr);
        if (st < 0)
            return st;
        expected = offset + size;
    }
    if (st < 0)
        return st;
    if (expected != shard_bytes)
        return pst_fail_at(reterr, PST_ESTALE, path, PST_NOWHERE, PST_NOWHERE,
                           "text index: ends at byte %" PRIu64 " of a shard of %" PRIu64 ": it belongs to another shard",
                           expected, shard_bytes);
    return PST_OK;
}

pst_status index_open_text(struct index *ret, const char *path, uint64_t shard_bytes, pst_error *reterr)
{
    struct index_builder b = {0};
    uint8_t *text = NULL;
    size_t length = 0, most;
    if (__builtin_mul_overflow(shard_bytes / FRAME_BYTES + 1, LONGEST_LINE, &most))
        most = SIZE_MAX - 1;
    pst_status st = file_read_all(&text, &length, path, most, reterr);
    if (st == PST_OK)
        st = parse_lines(&b, (struct cursor){text, text + length}, shard_bytes, path, reterr);
    mem_free(text);
    if (st < 0) {
        index_builder_finish(&b);
        return st;
    }
    *ret = (struct index){.entries = b.entries, .count = b.count, .shard_bytes = shard_bytes, .memory = b.entries};
    return PST_OK;
}
