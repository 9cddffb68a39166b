/* npy.c: NumPy arrays: .npy files, and the members of .npz archives. Each is a feature, each first dimension
 * counts the items. `file.npz:name` picks a member. */
#include "pack/sources/arrays.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/zip.h"

#include <string.h>

#define HEAD_BYTES ((size_t)64 << 10)

static const char *const extensions[] = {".npy", ".npz", NULL};
static const char *const archives[] = {".npz", NULL};

static pst_status npy_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    (void)info, (void)reterr;
    *ret = arrays_matches(path, extensions);
    return PST_OK;
}

/* Adds the .npy that takes `size` bytes of `sp` from `offset` on. */
static pst_status add_npy(struct pack_source *s, const struct pack_opening *o, const struct spool *sp, uint64_t offset,
                          uint64_t size, const char *file_name, pst_error *reterr)
{
    struct npy_header h;
    size_t got = 0, n = strlen(file_name);
    uint8_t *head = mem_alloc(HEAD_BYTES);
    char *name = mem_strndup(file_name, n > 4 && strcmp(file_name + n - 4, ".npy") == 0 ? n - 4 : n);
    pst_status st = head && name ? PST_OK : fail_memory(reterr, "opening the arrays");
    if (st == PST_OK)
        st = file_read_at(sp->fd, sp->path, head, size < HEAD_BYTES ? (size_t)size : HEAD_BYTES, offset, &got, reterr);
    if (st == PST_OK)
        st = npy_parse(&h, head, got, size, sp->path, reterr);
    if (st == PST_OK && (h.rank == 0 || h.rank > PST_MAX_RANK))
        st = pst_fail_at(reterr, PST_EINVAL, sp->path, PST_NOWHERE, offset,
                         "array %s has %s; its first dimension must count the items", name,
                         h.rank ? "too many dimensions" : "no dimension");
    if (st == PST_OK) {
        struct array a = {.file = sp, .offset = offset + h.data_offset, .kind = h.kind, .width = h.width, .swapped = h.swapped};
        a.fortran = h.fortran && h.rank > 1;
        a.rows = h.shape[0];
        a.rank = h.rank - 1;
        memcpy(a.shape, h.shape + 1, a.rank * sizeof(a.shape[0]));
        st = arrays_add(s, o, name, &a, reterr);
    }
    mem_free(head);
    mem_free(name);
    return st;
}

static bool is_selected(const char *member, const char *selection)
{
    size_t n = selection ? strlen(selection) : 0;
    return !selection || (strncmp(member, selection, n) == 0 && (member[n] == 0 || strcmp(member + n, ".npy") == 0));
}

static pst_status add_member(struct pack_source *s, const struct pack_opening *o, const struct spool *sp,
                             const struct zip_member *m, pst_error *reterr)
{
    if (!m->deflated)
        return add_npy(s, o, sp, m->offset, m->size, m->name, reterr);
    struct text name = {0};
    text_addf(&name, "%s:%s", sp->path, m->name);
    char *shown = name.failed ? NULL : arena_strndup(&s->arena, name.data, name.length);
    struct spool *unpacked = shown ? spools_add(&((struct arrays *)s->state)->files) : NULL;
    pst_status st = unpacked ? spool_inflate(unpacked, sp, m, shown, o, reterr) : fail_memory(reterr, "opening the arrays");
    if (st == PST_OK)
        st = add_npy(s, o, unpacked, 0, unpacked->size, m->name, reterr);
    text_finish(&name);
    return st;
}

static pst_status add_npz(struct pack_source *s, const struct pack_opening *o, const struct spool *sp, const char *selection,
                          pst_error *reterr)
{
    struct zip z = {0};
    size_t added = 0;
    pst_status st = zip_read(&z, sp->fd, sp->path, reterr);
    for (size_t i = 0; st == PST_OK && i < z.count; i++) {
        if (!is_selected(z.members[i].name, selection))
            continue;
        st = add_member(s, o, sp, &z.members[i], reterr);
        added++;
    }
    if (st == PST_OK && !added)
        st = pst_fail_at(reterr, PST_ENOTFOUND, sp->path, PST_NOWHERE, PST_NOWHERE, "has no array %s",
                         selection ? selection : "at all");
    zip_finish(&z);
    return st;
}

static pst_status npy_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++) {
        char *file = NULL;
        const char *selection = NULL;
        st = arrays_cut_path(o->paths[i], extensions, &file, &selection, reterr);
        if (st == PST_OK && !s->state)
            st = arrays_create(s, file, reterr);
        struct spool *sp = st == PST_OK ? spools_add(&((struct arrays *)s->state)->files) : NULL;
        if (st == PST_OK)
            st = sp ? spool_open(sp, s, o, file, SPOOL_BINARY, reterr) : fail_memory(reterr, "opening the arrays");
        if (st == PST_OK)
            st = pack_source_has_extension(file, archives) ? add_npz(s, o, sp, selection, reterr)
                                                           : add_npy(s, o, sp, 0, sp->size, file_base(file), reterr);
        mem_free(file);
    }
    return st == PST_OK ? arrays_settle(s, reterr) : st;
}

const struct pack_source_class pack_source_npy = {
    .name = "npy",
    .doc = "NumPy arrays, .npy and .npz: one record per row, one feature per array",
    .images = true,
    .matches = npy_matches,
    .open = npy_open,
    .close = arrays_close,
    .key = arrays_key,
    .estimate = arrays_estimate,
    .worker_size = sizeof(struct arrays_worker),
    .load = arrays_load,
    .worker_finish = arrays_worker_finish,
};
