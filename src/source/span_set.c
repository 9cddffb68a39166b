/* span_set.c: opening files that are cut into spans, numbering the spans, and keeping an eye on the files.
 *
 * Promises: the result is the same for any number of threads; an index is made where none is found. Leaves to others: what a
 * span is (the source's class), reading them (span_reader.c, span_stream.c), and the index file (span_index.c). */
#include "source/span_set.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/text.h"
#include "codec/stream.h"
#include "record/damage.h"
#include "record/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPENERS    8u /* threads */
#define MAX_MAPPED 30000u
#define FIRST_LOOK ((size_t)64 << 10) /* bytes of the first file that its class looks at first */
#define HEAD       12u                /* bytes that tell a compression */

const char *const span_io_names[] = {"auto", "map", "read", NULL};

/* ---- What can be read in any order ---- */

/* Whether the file is plain; its size and fingerprint. */
static pst_status inspect_file(struct span_set *s, size_t k, bool *ret_plain, pst_error *reterr)
{
    const char *path = s->paths.paths[k];
    struct span_file *f = &s->files[k];
    struct file_info info;
    uint8_t head[HEAD];
    size_t got = 0;
    int fd = -1;
    f->fingerprint = hash_bytes(path, strlen(path), 0); /* a pipe has a name and nothing else */
    *ret_plain = false;
    pst_status st = file_stat(path, &info, reterr);
    if (st < 0 || !info.is_regular)
        return st; /* not opened: closing a pipe again would end the program that writes to it */
    st = file_open_read(&fd, path, reterr);
    if (st == PST_OK)
        st = file_read_at(fd, path, head, sizeof(head), 0, &got, reterr);
    if (st == PST_OK)
        st = index_fingerprint(fd, path, &f->bytes, &f->fingerprint, reterr);
    file_close(fd);
    pst_compression compression = span_compression(s->class, path, true);
    if (compression == PST_COMPRESSION_AUTO) {
        compression = stream_sniff(head, got);
        compression = compression == PST_COMPRESSION_ZLIB ? PST_COMPRESSION_NONE : compression; /* text may begin as it does */
    }
    *ret_plain = compression == PST_COMPRESSION_NONE;
    return st;
}

static pst_status inspect_files(struct span_set *s, pst_error *reterr)
{
    for (size_t k = 0; k < s->paths.count; k++) {
        bool plain = true;
        pst_status st = inspect_file(s, k, &plain, reterr);
        if (st < 0)
            return st;
        if (!plain && !s->streamed) {
            s->streamed = true;
            s->stream_reason = k;
        }
        s->bytes += s->files[k].bytes;
        s->fingerprint = hash_combine(s->fingerprint, s->files[k].fingerprint);
    }
    return PST_OK;
}

/* ---- The first look ---- */

static pst_status look_at(struct span_set *s, struct span_pass *p, bool *ret_empty, pst_error *reterr)
{
    struct span_window head;
    enum span_found found = SPAN_MORE;
    pst_status st = PST_OK;
    size_t first = s->class->look_bytes ? s->class->look_bytes : FIRST_LOOK;
    for (size_t want = first; st == PST_OK && found == SPAN_MORE; want *= 2) {
        st = span_pass_head(p, want, &head, reterr);
        if (st == PST_OK && want / 2 > s->max_bytes && want > first)
            st = pst_fail_at(reterr, PST_ELIMIT, head.path, PST_NOWHERE, 0,
                             "the first of its %s has more than %" PRIu64 " bytes, the limit; max_record= raises it",
                             s->class->kind, s->max_bytes);
        if (st == PST_OK)
            st = s->class->look(s, &head, &found, reterr);
        if (st == PST_OK && found == SPAN_MORE && (head.ended || head.length < want))
            found = SPAN_END;
    }
    *ret_empty = found == SPAN_END;
    return st;
}

/* The first file that is not empty shows what the parameters leave open. A pipe is not closed again: its stream goes on. */
static pst_status look(struct span_set *s, pst_error *reterr)
{
    bool empty = true;
    pst_status st = PST_OK;
    for (size_t k = 0; s->class->look && k < s->paths.count && empty && st == PST_OK; k++) {
        struct span_pass *p = NULL;
        struct file_info info = {0};
        st = span_pass_open(&p, s, s->paths.paths[k], -1, reterr);
        if (st == PST_OK)
            st = look_at(s, p, &empty, reterr);
        if (st == PST_OK)
            st = file_stat(s->paths.paths[k], &info, reterr);
        if (st == PST_OK && !info.is_regular) {
            st = span_stream_prime(s, p, reterr);
            break;
        }
        span_pass_close(p);
    }
    return st;
}

/* ---- Indexes ---- */

struct scan {
    struct span_set *set;
    size_t file;
    int fd;
};

static pst_status cut_all(struct scan *c, struct span_builder *b, uint64_t *ret_end, pst_error *reterr)
{
    struct span_set *s = c->set;
    struct span_pass *p = NULL;
    struct span_window w;
    uint64_t n = 0;
    void *room = mem_aligned(s->class->room_size + 1);
    pst_status st = room ? PST_OK : fail_memory(reterr, "indexing the %s", s->class->kind);
    if (room)
        memset(room, 0, s->class->room_size);
    if (st == PST_OK)
        st = span_pass_open(&p, s, s->paths.paths[c->file], c->fd, reterr);
    while (st == PST_OK && (st = span_pass_next(p, room, &w, reterr)) == PST_OK) {
        st = span_builder_add(b, w.offset, reterr);
        *ret_end = w.offset + w.length;
        n++;
    }
    if (st < 0 && reterr && reterr->record == PST_NOWHERE)
        reterr->record = n;
    span_pass_close(p);
    if (room && s->class->room_stop)
        s->class->room_stop(room);
    mem_free(room);
    return st == PST_END ? PST_OK : st;
}

static pst_status scan_file(void *user, struct span_builder *b, uint64_t *ret_end, bool *ret_partial, pst_error *reterr)
{
    struct scan *c = user;
    struct span_set *s = c->set;
    pst_error e = {0};
    pst_status st = s->class->scan ? s->class->scan(s, c->fd, s->paths.paths[c->file], b, ret_end, &e)
                                   : cut_all(c, b, ret_end, &e);
    if ((st == PST_ECORRUPT || st == PST_ELIMIT) && damage_tolerated(s->env->damage)) {
        pst_damage damage = damage_of_error(PST_CAUSE_TRUNCATED, &e);
        st = *ret_partial ? PST_OK : pst_damage_log_add(s->env->damage, &damage, e.message, reterr);
        *ret_partial = true; /* the second scan, to memory, reports nothing */
        return st;
    }
    if (st < 0 && reterr)
        *reterr = e;
    return st;
}

/* ---- Opening one file ---- */

static pst_status map_file(struct span_set *s, size_t k, int *fd, pst_error *reterr)
{
    struct span_file *f = &s->files[k];
    size_t nth = atomic_fetch_add(&s->kept, 1);
    bool here = s->io == SPAN_IO_MAP || file_is_whole(*fd); /* mapping a remote file would fetch all of it first */
    if (s->io != SPAN_IO_READ && here && f->bytes > 0 && (nth < MAX_MAPPED || s->io == SPAN_IO_MAP)) {
        pst_status st = f->bytes > SIZE_MAX ? pst_fail_at(reterr, PST_ELIMIT, s->paths.paths[k], PST_NOWHERE, PST_NOWHERE,
                                                          "is larger than the address space")
                                            : mapping_open(&f->mapping, *fd, s->paths.paths[k], (size_t)f->bytes, reterr);
        if (st < 0 && s->io == SPAN_IO_MAP)
            return st;
        atomic_store(&f->data, f->mapping.data);
    }
    if (!f->mapping.data && f->bytes > 0 && nth < file_open_limit() / 2) {
        f->fd = *fd;
        *fd = -1;
    }
    return PST_OK;
}

static pst_status count_fixed(struct span_set *s, size_t k, pst_error *reterr)
{
    struct span_file *f = &s->files[k];
    uint64_t around = s->header + s->footer, inner = f->bytes > around ? f->bytes - around : 0;
    f->base = s->header;
    f->count = inner / s->fixed;
    if (f->bytes == 0)
        return PST_OK;
    if (f->bytes < around || inner % s->fixed) {
        pst_error e = {0};
        pst_fail_at(&e, PST_ECORRUPT, s->paths.paths[k], f->count, s->header + f->count * s->fixed,
                    "has %" PRIu64 " bytes after %" PRIu64 " whole records of %" PRIu64
                    "; expected a multiple after a header of %" PRIu64 " and before a footer of %" PRIu64,
                    f->bytes < around ? f->bytes : inner % s->fixed, f->count, s->fixed, s->header, s->footer);
        pst_damage damage = damage_of_error(PST_CAUSE_TRUNCATED, &e);
        return pst_damage_log_add(s->env->damage, &damage, e.message, reterr);
    }
    return PST_OK;
}

static pst_status open_one(void *user, size_t k, pst_error *reterr)
{
    struct span_set *s = user;
    struct span_file *f = &s->files[k];
    struct scan c = {s, k, -1};
    struct span_subject subject = {.path = s->paths.paths[k],
                                   .kind = s->class->kind,
                                   .bytes = f->bytes,
                                   .fingerprint = f->fingerprint,
                                   .form = hash_combine(s->form, hash_bytes(s->class->kind, strlen(s->class->kind), 0))};
    pst_status st = file_open_read(&c.fd, subject.path, reterr);
    subject.remote = st == PST_OK && file_is_remote(c.fd);
    if (st == PST_OK && s->fixed)
        st = s->class->measure ? s->class->measure(s, c.fd, subject.path, f, reterr) : count_fixed(s, k, reterr);
    else if (st == PST_OK && f->bytes > 0)
        st = span_index_open(&f->index, &subject, s->env->cache_dir, s->io == SPAN_IO_READ, scan_file, &c, reterr);
    if (st == PST_OK && !s->fixed)
        f->count = f->index.count;
    if (st == PST_OK)
        st = map_file(s, k, &c.fd, reterr);
    file_close(c.fd);
    return st;
}

/* ---- The whole ---- */

static pst_status number(struct span_set *s, pst_error *reterr)
{
    s->firsts = mem_array(s->paths.count + 1, sizeof(*s->firsts));
    if (!s->firsts)
        return fail_memory(reterr, "opening the files");
    for (size_t k = 0; k < s->paths.count; k++) {
        s->files[k].first = s->firsts[k] = s->count;
        s->count += s->files[k].count;
    }
    s->firsts[s->paths.count] = s->count;
    return PST_OK;
}

pst_status span_set_open(struct span_set *s, const pst_strings *paths, const struct source_env *env, pst_error *reterr)
{
    s->env = env;
    s->stop = env->stop;
    s->met = env->met;
    pst_status st = span_find_files(&s->paths, paths, s->class->extensions, reterr);
    if (st < 0)
        return st;
    s->files = mem_array(s->paths.count, sizeof(*s->files));
    s->begun = mem_array(s->paths.count, sizeof(*s->begun));
    for (size_t k = 0; s->files && k < s->paths.count; k++)
        s->files[k].fd = -1;
    if (!s->files || !s->begun)
        return fail_memory(reterr, "opening %zu files", s->paths.count);
    st = inspect_files(s, reterr);
    if (st == PST_OK)
        st = look(s, reterr);
    if (st == PST_OK && s->streamed && s->unseekable)
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, s->paths.paths[s->stream_reason], PST_NOWHERE, PST_NOWHERE,
                         "is compressed or a pipe, and %s", s->unseekable);
    if (st == PST_OK && !s->streamed)
        st = parallel_each(s->paths.count, OPENERS, open_one, s, reterr);
    if (st == PST_OK && !s->streamed)
        st = number(s, reterr);
    s->env = NULL;
    return st;
}

void span_set_finish(struct span_set *s)
{
    span_stream_close(s->primed);
    for (size_t k = 0; s->files && k < s->paths.count; k++) {
        mapping_close(&s->files[k].mapping);
        file_close(s->files[k].fd);
        span_index_finish(&s->files[k].index);
        span_lines_finish(&s->files[k]);
    }
    mem_free(s->files);
    mem_free(s->begun);
    mem_free(s->firsts);
    path_list_finish(&s->paths);
}

/* ---- In words ---- */

uint64_t span_set_count(const void *source)
{
    const struct span_set *s = source;
    return s->streamed ? SOURCE_STREAM : s->count;
}

uint64_t span_set_fingerprint(const void *source)
{
    return ((const struct span_set *)source)->fingerprint;
}

void span_set_describe(const void *source, char *buffer, size_t size)
{
    const struct span_set *s = source;
    char bytes[32], index[64] = "";
    size_t places[PST_INDEX_MEMORY + 1] = {0}, built = 0, mapped = 0, n = 0;
    text_bytes(s->bytes, bytes, sizeof(bytes));
    if (s->streamed) {
        snprintf(buffer, size,
                 "%zu file%s, %s, a stream: %s is compressed or a pipe and cannot seek; `penstock pack` makes shards of it that "
                 "are read in any order",
                 s->paths.count, s->paths.count == 1 ? "" : "s", bytes, file_base(s->paths.paths[s->stream_reason]));
        return;
    }
    for (size_t k = 0; k < s->paths.count; k++) {
        mapped += s->files[k].mapping.data != NULL || s->files[k].bytes == 0;
        places[s->files[k].index.place] += s->files[k].index.blocks != NULL;
        built += s->files[k].index.built;
    }
    for (size_t p = 0; p <= PST_INDEX_MEMORY; p++)
        if (places[p] && n < sizeof(index))
            n += (size_t)snprintf(index + n, sizeof(index) - n, "%s%s", n ? ", " : "; index: ",
                                  pst_index_place_name((pst_index_place)p));
    if (built && n < sizeof(index))
        snprintf(index + n, sizeof(index) - n, "; %zu made now", built);
    int length = snprintf(buffer, size, "%zu file%s, %s, %s%s", s->paths.count, s->paths.count == 1 ? "" : "s", bytes,
                          mapped == s->paths.count ? "mapped" : "read", index);
    if (s->classes && length > 0 && (size_t)length < size)
        snprintf(buffer + length, size - (size_t)length, "; %zu class folder%s", s->classes, s->classes == 1 ? "" : "s");
}
