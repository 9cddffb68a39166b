/* shard_out.c: see shard_out.h.
 *
 * Promises: the shard's file appears whole or not at all, and the file beside it appears after it: a shard without that file
 * is written again. Leaves to others: scheduling (workers.c). */
#include "pack/shard_out.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/stream.h"
#include "io/file.h"
#include "io/parse_number.h"
#include "io/remote/remote.h"

#include <inttypes.h>
#include <string.h>

static bool is_compressed(const struct pack_config *c)
{
    return c->options.compression != PST_COMPRESSION_NONE;
}

pst_status out_shard_open(struct out_shard *o, const struct pack_config *c, pst_error *reterr)
{
    pst_status st = publish_open(&o->file, o->path, true, reterr);
    if (st < 0)
        return st;
    o->open = true;
    return is_compressed(c) ? compressor_create(&o->compressor, c->options.compression, c->options.level, reterr) : PST_OK;
}

pst_status out_shard_place(struct out_shard *o, struct chunk *chunk, pst_error *reterr)
{
    chunk->offset = o->offset;
    pst_status joined = entropy_builder_append(&o->jpegs, &chunk->jpegs, o->index.count, reterr);
    if (joined < 0)
        return joined;
    for (size_t i = 0; i < chunk->count; i++) {
        pst_status st = index_builder_add(&o->index, o->offset + chunk->entries[i].offset, chunk->entries[i].length, reterr);
        if (st < 0)
            return st;
    }
    if (chunk->skips.length)
        text_add_n(&o->skips, chunk->skips.data, chunk->skips.length);
    if (o->skips.failed)
        return fail_memory(reterr, "noting what was skipped");
    o->offset += chunk->length;
    o->facts.records += chunk->count;
    o->facts.payload += chunk->payload;
    o->facts.skipped += chunk->skip_count;
    pack_images_merge(&o->facts.images, &chunk->images);
    o->placed++;
    return PST_OK;
}

static pst_status append_compressed(void *user, const void *data, size_t length, pst_error *reterr)
{
    struct out_shard *o = user;
    pst_status st = file_write_at(o->file.fd, o->path, data, length, o->file_size, reterr);
    o->file_size += st < 0 ? 0 : length;
    return st;
}

pst_status out_shard_write(struct out_shard *o, const struct pack_config *c, const struct chunk *chunk, pst_error *reterr)
{
    if (is_compressed(c))
        return compressor_run(o->compressor, chunk->data, chunk->length, false, append_compressed, o, reterr);
    return file_write_at(o->file.fd, o->path, chunk->data, chunk->length, chunk->offset, reterr);
}

pst_status out_shard_commit(struct out_shard *o, const struct pack_config *c, pst_error *reterr)
{
    uint64_t fingerprint = 0;
    uint8_t *jpegs = NULL;
    bool sync = !c->options.no_sync;
    pst_status st = PST_OK;
    if (is_compressed(c))
        st = compressor_run(o->compressor, NULL, 0, true, append_compressed, o, reterr);
    if (st == PST_OK)
        st = index_fingerprint(o->file.fd, o->path, &o->bytes, &fingerprint, reterr);
    if (st == PST_OK)
        st = publish_commit(&o->file, sync, reterr);
    o->facts.command = o->command;
    note_write(&o->note, &o->facts, &o->skips);
    if (st == PST_OK && o->note.failed)
        st = fail_memory(reterr, "noting what was skipped");
    struct index x = {.entries = o->index.entries,
                      .count = is_compressed(c) ? 0 : o->index.count, /* offsets into a compressed stream are of no use */
                      .shard_bytes = o->bytes,
                      .fingerprint = fingerprint,
                      .note = o->note.data,
                      .note_length = o->note.length};
    if (st == PST_OK && pack_config_keeps_entropy(c)) {
        st = entropy_builder_bytes(&o->jpegs, &jpegs, &x.jpegs_length, reterr);
        x.jpegs = jpegs;
    }
    index_set_version(&x, o->file.version);
    if (st == PST_OK)
        st = index_publish(o->note_path, &x, sync, reterr);
    mem_free(jpegs);
    out_shard_finish(o);
    return st;
}

void out_shard_finish(struct out_shard *o)
{
    if (o->open)
        publish_discard(&o->file);
    o->open = false;
    o->compressor = compressor_destroy(o->compressor);
    index_builder_finish(&o->index);
    entropy_builder_finish(&o->jpegs);
    text_finish(&o->skips);
}

/* A store has no locks: a process of another command may have written the shard after that command was replaced. On a disk, notes of earlier versions,
 * which do not name their command, count. */
static bool is_of_another(const struct out_shard *o)
{
    return o->facts.command ? o->facts.command != o->command : remote_is(o->path);
}

pst_status out_shard_find(struct out_shard *o, const struct pack_config *c, pst_error *reterr)
{
    struct index x = {0};
    uint64_t size = 0, fingerprint = 0;
    int fd = -1;
    pst_status st = index_open(&x, o->note_path, reterr);
    if (st == PST_OK)
        st = file_open_read(&fd, o->path, reterr);
    if (st == PST_OK)
        st = index_fingerprint(fd, o->path, &size, &fingerprint, reterr);
    if (st == PST_OK && (size != x.shard_bytes || fingerprint != x.fingerprint))
        st = pst_fail_at(reterr, PST_ESTALE, o->path, PST_NOWHERE, PST_NOWHERE, "does not match its index");
    if (st == PST_OK)
        st = note_read(x.note, x.note_length, &o->facts, reterr);
    if (st == PST_OK && is_of_another(o))
        st = pst_fail_at(reterr, PST_ESTALE, o->note_path, PST_NOWHERE, PST_NOWHERE, "was written by another command");
    if (st == PST_OK && !is_compressed(c) && o->facts.records != x.count)
        st = pst_fail_at(reterr, PST_ESTALE, o->note_path, PST_NOWHERE, PST_NOWHERE, "disagrees with its own note");
    if (st == PST_OK && pack_config_keeps_entropy(c) && !x.jpegs)
        st = pst_fail_at(reterr, PST_ESTALE, o->note_path, PST_NOWHERE, PST_NOWHERE, "has no entropy index");
    if (st == PST_OK)
        text_add_n(&o->note, x.note, x.note_length);
    if (o->note.failed)
        st = fail_memory(reterr, "reading what was skipped");
    o->done = st == PST_OK;
    o->bytes = o->done ? size : 0;
    if (!o->done)
        o->facts = (struct shard_facts){0};
    index_finish(&x);
    file_close(fd);
    /* Whatever is wrong with it, it is made again; only what would go wrong again is an error. */
    return st == PST_ENOMEM || st == PST_EIO ? st : PST_OK;
}

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
    if (f->command)
        text_addf(t, "command %" PRIu64 "\n", f->command);
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
    uint64_t n[10], command = 0;
    if (!take_text(c, FIRST_LINE) || !take_text(c, "facts") || !take_numbers(c, n, 10) ||
        (take_text(c, "command") && !take_numbers(c, &command, 1)))
        return false;
    struct pack_images images = {n[3],           (uint32_t)n[4], (uint32_t)n[5], (uint32_t)n[6],
                                 (uint32_t)n[7], (uint32_t)n[8], (uint32_t)n[9]};
    *ret = (struct shard_facts){n[0], n[1], n[2], command, images};
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
