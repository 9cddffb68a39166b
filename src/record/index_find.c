/* index_find.c: where indexes lie, and keeping them there.
 *
 * Promises: an index is used only for the bytes it was made from; one that cannot be used is never an obstacle, as a
 * scan makes another; one that cannot be kept stays in memory. The format is index.c's, the scan index_scan.c's. */
#include "record/index_find.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/text.h"
#include "codec/stream.h"
#include "io/file.h"
#include "record/frame.h"

#include <inttypes.h>
#include <string.h>

#define PROBES     16  /* headers that are compared with an index that has no fingerprint */
#define CACHE_NAME 200 /* bytes of the shard's name in the name of its cached index: the file system allows 255 in all */

static pst_status open_file(struct shard_file *f, const char *path, pst_error *reterr)
{
    struct file_info info;
    f->fd = -1;
    f->path = mem_strdup(path);
    if (!f->path)
        return fail_memory_at(reterr, path, "opening the shard");
    pst_status st = file_stat(path, &info, reterr);
    if (st < 0)
        return st;
    if (!info.is_regular) /* not even opened: closing a pipe again would end the program that writes to it */
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                           "is a %s, and random access needs a regular file", info.is_folder ? "folder" : "pipe or device");
    st = file_open_read(&f->fd, path, reterr);
    if (st < 0)
        return st;
    f->bytes = info.size;
    if (!file_version(f->fd, f->version))
        f->version[0] = 0;
    return PST_OK;
}

static pst_status take_fingerprint(struct shard_file *f, pst_error *reterr)
{
    const char *path = f->path;
    uint8_t head[FRAME_HEADER];
    size_t got = 0;
    index_announce(f->fd, f->bytes);
    pst_status st = file_read_at(f->fd, path, head, sizeof(head), 0, &got, reterr);
    if (st < 0)
        return st;
    pst_compression compression = stream_sniff(head, got);
    if (compression != PST_COMPRESSION_NONE)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                           "a %s shard has no random access; read it from beginning to end, or repack it with --compress none",
                           pst_compression_name(compression));
    return index_fingerprint(f->fd, path, &f->bytes, &f->fingerprint, reterr);
}

pst_status shard_file_open(struct shard_file *f, const char *path, pst_error *reterr)
{
    pst_status st = open_file(f, path, reterr);
    return st < 0 ? st : take_fingerprint(f, reterr);
}

void shard_file_close(struct shard_file *f)
{
    file_close(f->path ? f->fd : -1);
    index_finish(&f->early.index);
    mem_free(f->path);
    *f = (struct shard_file){.fd = -1};
}

void found_index_finish(struct found_index *x)
{
    index_finish(&x->index);
    mem_free(x->path);
    *x = (struct found_index){0};
}

/* The name differs for shards of the same name in different folders. Whether the index is of this shard, its fingerprint
 * decides, or, for an object in a bucket, its ETag and size. */
static pst_status cache_path(char **ret, const struct shard_file *f, const char *cache_dir, pst_error *reterr)
{
    char *absolute = NULL, *name, *path;
    pst_status st = file_absolute(&absolute, f->path, reterr);
    if (st < 0)
        return st;
    size_t length = secret_free_length(absolute); /* a signature must not be seen in a folder, and each would have its own index */
    absolute[length] = 0;
    name = mem_format("%016" PRIx64 "-%.*s.pidx", hash_bytes(absolute, length, 0), CACHE_NAME, file_base(absolute));
    path = name ? file_join(cache_dir, name) : NULL;
    mem_free(name);
    mem_free(absolute);
    if (!path)
        return fail_memory_at(reterr, f->path, "finding the index");
    *ret = path;
    return PST_OK;
}

/* Opens an index before the fingerprint is known. One with gaps is not enough: whether they were mended, the shard has to say. */
static pst_status open_early(struct shard_file *f, const char *path, pst_index_place place, pst_error *reterr)
{
    struct index *x = &f->early.index;
    pst_status st = path ? index_open_as(x, path, f->hold, reterr) : fail_memory_at(reterr, f->path, "finding the index");
    if (st == PST_OK && x->count > 0 && x->gaps == 0 && index_is_of_version(x, f->version, f->bytes)) {
        f->fingerprint = x->fingerprint;
        f->early.place = place;
        f->early.trusted = true;
    }
    return st;
}

pst_status shard_file_open_trusting(struct shard_file *f, const char *path, const pst_shard_options *options, pst_error *reterr)
{
    pst_status st = open_file(f, path, reterr);
    if (st < 0)
        return st;
    if (f->version[0] && index_saves_samples(f->bytes)) {
        char *sidecar = index_sidecar_path(path), *cached = NULL;
        f->early.tried = true;
        f->early.status = open_early(f, sidecar, PST_INDEX_SIDECAR, &f->early.error);
        mem_free(sidecar);
        if (f->early.status == PST_ENOTFOUND && options->cache_dir && cache_path(&cached, f, options->cache_dir, NULL) == PST_OK) {
            (void)open_early(f, cached, PST_INDEX_CACHE, NULL);
            mem_free(cached);
            if (!f->early.trusted)
                index_finish(&f->early.index);
        }
    }
    return f->early.trusted ? PST_OK : take_fingerprint(f, reterr);
}

/* Whether the index is of the shard's bytes. Takes it, and closes it if it is not. */
static pst_status compare_pidx(struct index *ret, struct index x, const struct shard_file *f, const char *path, pst_error *reterr)
{
    pst_status st;
    if (x.shard_bytes != f->bytes || x.fingerprint != f->fingerprint) {
        st = pst_fail_at(reterr, PST_ESTALE, path, PST_NOWHERE, PST_NOWHERE,
                         "the index is of a shard of %" PRIu64 " bytes, fingerprint %016" PRIx64 "; this one has %" PRIu64
                         " bytes, %016" PRIx64,
                         x.shard_bytes, x.fingerprint, f->bytes, f->fingerprint);
        index_finish(&x);
        return st;
    }
    bool outdated = false; /* the fingerprint is of samples: what was damaged between them may have been restored */
    st = x.gaps ? index_is_outdated(&x, f->fd, f->path, &outdated, reterr) : PST_OK;
    if (st == PST_OK && outdated)
        st = pst_fail_at(reterr, PST_ESTALE, path, PST_NOWHERE, PST_NOWHERE,
                         "the index has a gap where the shard has a sound record: the shard was repaired after it was written; "
                         "`penstock index` recreates it");
    if (st < 0) {
        index_finish(&x);
        return st;
    }
    *ret = x;
    return PST_OK;
}

static pst_status open_pidx(struct index *ret, struct shard_file *f, const char *path, pst_error *reterr)
{
    struct index x = {0};
    pst_status st = index_open_as(&x, path, f->hold, reterr);
    return st < 0 ? st : compare_pidx(ret, x, f, path, reterr);
}

/* The sidecar may be open already. */
static pst_status open_sidecar(struct index *ret, struct shard_file *f, const char *path, pst_error *reterr)
{
    if (!f->early.tried)
        return open_pidx(ret, f, path, reterr);
    f->early.tried = false; /* the next to ask opens it again */
    if (f->early.status < 0) {
        if (reterr)
            *reterr = f->early.error;
        return f->early.status;
    }
    struct index x = f->early.index;
    f->early.index = (struct index){0};
    return compare_pidx(ret, x, f, path, reterr);
}

static pst_status open_text(struct index *ret, struct shard_file *f, const char *path, pst_error *reterr)
{
    struct index x = {0};
    pst_status st = index_open_text(&x, path, f->bytes, reterr);
    uint64_t probes = x.count < PROBES ? x.count : PROBES;
    for (uint64_t k = 0; st == PST_OK && k < probes; k++) {
        uint8_t header[FRAME_HEADER];
        uint64_t i = probes > 1 ? k * ((x.count - 1) / (probes - 1)) : 0, length;
        size_t got = 0;
        st = file_read_at(f->fd, f->path, header, sizeof(header), x.entries[i].offset, &got, reterr);
        if (st == PST_OK && (got < sizeof(header) || !frame_get_header(header, &length) || length != x.entries[i].length))
            st = pst_fail_at(reterr, PST_ESTALE, path, i, PST_NOWHERE, "the text index and the shard's header disagree");
    }
    if (st < 0) {
        index_finish(&x);
        return st;
    }
    x.fingerprint = f->fingerprint;
    *ret = x;
    return PST_OK;
}

typedef pst_status (*open_fn)(struct index *ret, struct shard_file *f, const char *path, pst_error *reterr);

/* The search so far: the first real error is reported if nothing is found. */
struct search {
    struct shard_file *file;
    struct found_index *ret;
    pst_status status; /* PST_ENOTFOUND: no error yet */
    pst_error error;
};

/* Tries one place. Takes `path` (NULL: out of memory). True when the search is over, well or badly. */
static bool search_at(struct search *s, char *path, pst_index_place place, open_fn open)
{
    struct found_index x = {.place = place, .path = path};
    pst_error error;
    pst_status st = path ? open(&x.index, s->file, path, &error) : fail_memory_at(&error, s->file->path, "finding the index");
    if (st == PST_OK) {
        *s->ret = x;
        s->status = PST_OK;
        return true;
    }
    mem_free(path);
    if (st == PST_ENOMEM || (s->status == PST_ENOTFOUND && st != PST_ENOTFOUND)) {
        s->status = st;
        s->error = error;
    }
    return st == PST_ENOMEM;
}

/* X.idx and X.index, where X is the shard's path with or without its last ending. */
static bool search_text(struct search *s)
{
    static const char *const endings[] = {".idx", ".index"};
    const char *path = s->file->path;
    size_t whole = secret_free_length(path), base = whole, dot = whole;
    while (base > 0 && path[base - 1] != '/')
        base--;
    while (dot > base && path[dot] != '.')
        dot--;
    size_t lengths[] = {whole, dot > base ? dot : 0};
    for (size_t i = 0; i < 4; i++) {
        struct text name = {0};
        if (lengths[i / 2] == 0)
            continue;
        text_add_n(&name, path, lengths[i / 2]);
        text_add(&name, endings[i % 2]);
        text_add(&name, path + whole); /* the query of a web address */
        if (name.failed)
            text_finish(&name);
        if (search_at(s, name.data, PST_INDEX_TEXT, open_text))
            return true;
    }
    return false;
}

/* The index that took the place of the samples. */
static pst_status take_trusted(struct found_index *ret, struct shard_file *f, const pst_shard_options *options, pst_error *reterr)
{
    char *path = NULL;
    pst_status st = PST_OK;
    if (f->early.place == PST_INDEX_CACHE)
        st = cache_path(&path, f, options->cache_dir, reterr);
    else if (!(path = index_sidecar_path(f->path)))
        st = fail_memory_at(reterr, f->path, "finding the index");
    if (st < 0)
        return st;
    *ret = (struct found_index){.index = f->early.index, .place = f->early.place, .path = path};
    f->early.index = (struct index){0};
    f->early.trusted = f->early.tried = false;
    return PST_OK;
}

pst_status index_find(struct found_index *ret, struct shard_file *f, const pst_shard_options *options, pst_error *reterr)
{
    struct search s = {.file = f, .ret = ret};
    char *cached = NULL;
    if (f->early.trusted)
        return take_trusted(ret, f, options, reterr);
    s.status =
        pst_fail_at(&s.error, PST_ENOTFOUND, f->path, PST_NOWHERE, PST_NOWHERE, "has no index; `penstock index` makes it");
    bool over = search_at(&s, index_sidecar_path(f->path), PST_INDEX_SIDECAR, open_sidecar);
    if (!over && options->cache_dir) {
        pst_status st = cache_path(&cached, f, options->cache_dir, reterr);
        if (st < 0)
            return st;
        over = search_at(&s, cached, PST_INDEX_CACHE, open_pidx);
    }
    if (!over)
        search_text(&s);
    if (s.status < 0 && reterr)
        *reterr = s.error;
    return s.status;
}

/* The other sections of an existing index at `path` for the same bytes are kept. */
static pst_status publish(const struct found_index *x, const char *path, pst_error *reterr)
{
    struct index old = {0}, with = x->index;
    if (index_open(&old, path, NULL) == PST_OK && old.shard_bytes == with.shard_bytes && old.fingerprint == with.fingerprint) {
        bool same = old.count == with.count && memcmp(old.entries, with.entries, with.count * sizeof(*with.entries)) == 0;
        with = old;
        with.entries = x->index.entries;
        with.count = x->index.count;
        with.version = x->index.version;
        with.version_length = x->index.version_length;
        if (!same) /* points are kept by the record's number */
            with.jpegs = NULL;
    }
    /* Not synced: an index that a crash tears fails its checksum and is made again. */
    pst_status st = index_publish(path, &with, false, reterr);
    index_finish(&old);
    return st;
}

/* Publishes at `path` (NULL: out of memory), and takes it if that works. */
static pst_status keep_at(struct found_index *x, char *path, pst_index_place place, const struct shard_file *f,
                          pst_error *reterr)
{
    pst_status st = path ? publish(x, path, reterr) : fail_memory_at(reterr, f->path, "keeping the index");
    if (st < 0) {
        mem_free(path);
        return st;
    }
    x->path = path;
    x->place = place;
    return PST_OK;
}

/* Tries the places in turn. A failure names the reason for each: then the index is in memory only. */
static pst_status keep(struct found_index *x, const struct shard_file *f, const pst_shard_options *options, bool must_keep,
                       pst_error *reterr)
{
    pst_error beside, cached;
    char *path = NULL;
    pst_status st;
    if (file_is_remote(f->fd) && !must_keep) /* reading from a bucket must not write to it */
        st = pst_fail(&beside, PST_EIO, "it is remote");
    else
        st = keep_at(x, index_sidecar_path(f->path), PST_INDEX_SIDECAR, f, &beside);
    if (st == PST_OK)
        return PST_OK;
    if (!options->cache_dir)
        return pst_fail_at(reterr, st == PST_ENOMEM ? st : PST_EIO, f->path, PST_NOWHERE, PST_NOWHERE,
                           "its index cannot be kept beside it (%s), and there is no cache folder", beside.message);
    st = file_make_folder(options->cache_dir, &cached);
    if (st == PST_OK)
        st = cache_path(&path, f, options->cache_dir, &cached);
    if (st == PST_OK)
        st = keep_at(x, path, PST_INDEX_CACHE, f, &cached);
    return st == PST_OK ? PST_OK
                        : pst_fail_at(reterr, st == PST_ENOMEM ? st : PST_EIO, f->path, PST_NOWHERE, PST_NOWHERE,
                                      "its index can be kept neither beside it (%.80s) nor in the cache folder (%.80s)",
                                      beside.message, cached.message);
}

pst_status index_make(struct found_index *ret, const struct shard_file *f, const pst_shard_options *options, bool must_keep,
                      pst_error *reterr)
{
    struct found_index x = {.place = PST_INDEX_MEMORY, .built = true};
    struct file_stop stop = {options->stop, options->stop_user};
    pst_status st = index_scan(&x.index, f->fd, f->path, options->max_record_bytes, &stop, reterr);
    /* Kept, such an index would call the part that was written meanwhile damaged for ever. */
    if (st == PST_OK && (x.index.shard_bytes != f->bytes || x.index.fingerprint != f->fingerprint))
        st = pst_fail_at(reterr, PST_ESTALE, f->path, PST_NOWHERE, PST_NOWHERE,
                         "was written to while it was indexed: %" PRIu64 " bytes became %" PRIu64
                         "; try again when its writer is done",
                         f->bytes, x.index.shard_bytes);
    if (st == PST_OK)
        st = index_report_gaps(&x.index, f->fd, f->path, options->damage, reterr);
    if (st < 0) {
        found_index_finish(&x);
        return st;
    }
    index_set_version(&x.index, f->version);
    /* A file without a single record is hardly a shard: it gets no index. */
    bool keeps = !options->no_write && x.index.count > 0;
    if (keeps)
        st = keep(&x, f, options, must_keep, must_keep ? reterr : NULL);
    index_set_version(&x.index, ""); /* the text is the file's */
    if (st < 0 && must_keep) {
        found_index_finish(&x);
        return st;
    }
    *ret = x;
    return PST_OK;
}
