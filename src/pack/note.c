/* note.c: see note.h. Keys and reasons may hold any bytes, so they are counted, not quoted. */
#include "pack/note.h"

#include "io/number.h"

#include <inttypes.h>
#include <string.h>

#define FIRST_LINE "penstock pack 1\n"

void note_add_skip(struct text *t, const char *key, const char *why)
{
    text_addf(t, "skip %zu %zu\n%s%s\n", strlen(key), strlen(why), key, why);
}

void note_write(struct text *t, const struct shard_facts *f, const struct text *skips)
{
    const struct pack_images *s = &f->images;
    text_add(t, FIRST_LINE);
    text_addf(t, "facts %" PRIu64 " %" PRIu64 " %" PRIu64, f->records, f->payload, f->skipped);
    text_addf(t, " %" PRIu64 " %u %u %u %u %u %u\n", s->count, s->formats, s->channels, s->min_width, s->max_width,
              s->min_height, s->max_height);
    if (skips->length)
        text_add_n(t, skips->data, skips->length);
}

struct cursor {
    const char *at, *end;
};

static bool take_text(struct cursor *c, const char *text)
{
    size_t n = strlen(text);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n))
        return false;
    c->at += n;
    return true;
}

static bool take_number(struct cursor *c, uint64_t *ret)
{
    const char *begin = c->at;
    uint64_t value = 0;
    for (; c->at < c->end && is_digit(*c->at); c->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(*c->at - '0'), &value))
            return false;
    *ret = value;
    return c->at > begin;
}

/* `count` numbers, the last of them before `end`. */
static bool take_numbers(struct cursor *c, uint64_t *ret, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!take_text(c, " ") || !take_number(c, &ret[i]))
            return false;
    return take_text(c, "\n");
}

struct skip {
    const char *key, *why;
    size_t key_length, why_length;
};

static bool take_skip(struct cursor *c, struct skip *ret)
{
    uint64_t n[2];
    if (!take_text(c, "skip") || !take_numbers(c, n, 2))
        return false;
    size_t left = (size_t)(c->end - c->at);
    if (n[0] > left || n[1] > left - n[0])
        return false;
    *ret = (struct skip){c->at, c->at + n[0], (size_t)n[0], (size_t)n[1]};
    c->at += n[0] + n[1];
    return take_text(c, "\n");
}

static bool take_facts(struct cursor *c, struct shard_facts *ret)
{
    uint64_t n[10];
    if (!take_text(c, FIRST_LINE) || !take_text(c, "facts") || !take_numbers(c, n, 10))
        return false;
    struct pack_images images = {n[3],           (uint32_t)n[4], (uint32_t)n[5], (uint32_t)n[6],
                                 (uint32_t)n[7], (uint32_t)n[8], (uint32_t)n[9]};
    *ret = (struct shard_facts){n[0], n[1], n[2], images};
    return true;
}

pst_status note_read(const char *note, size_t length, struct shard_facts *ret, pst_error *reterr)
{
    struct cursor c = {note, note + length};
    struct skip skip;
    bool ok = note && take_facts(&c, ret);
    while (ok && c.at < c.end)
        ok = take_skip(&c, &skip);
    return ok ? PST_OK : pst_fail(reterr, PST_ESTALE, "the shard's index was not written by this version of pack");
}

pst_status note_tell(const struct text *note, struct pack_report *report, pst_error *reterr)
{
    struct cursor c = {note->data, note->data + note->length};
    struct shard_facts facts;
    struct skip s;
    pst_status st = PST_OK;
    bool ok = note->data && take_facts(&c, &facts);
    while (ok && st == PST_OK && take_skip(&c, &s))
        st = pack_report_skip(report, s.key, s.key_length, s.why, s.why_length, reterr);
    return st;
}
