/* h5.c: datasets of HDF5 files: each is a feature, each first dimension counts the items. All datasets of the
 * file's root are taken, or those of `file.h5:/group`, or the one of `file.h5:/dataset`.
 *
 * libhdf5 (io/h5.c) is used only while opening: datasets that lie in one piece are then read from the file itself,
 * all others (chunked, compressed, of variable length) are first unpacked to a temporary file. */
#include "pack/sources/arrays.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/h5.h"
#include "io/file.h"
#include "pack/report.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)4 << 20) /* read at once when unpacking */

static const char *const extensions[] = {".h5", ".hdf5", ".hdf", NULL};

static pst_status hdf5_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    (void)info, (void)reterr;
    *ret = arrays_matches(path, extensions);
    return PST_OK;
}

struct h5_scan {
    struct pack_source *s;
    const struct pack_opening *o;
    const struct spool *file;
    pst_error *reterr;
};

/* ---- Unpacking ---- */

static pst_status append_variable(struct hdf5_dataset *d, struct spool *sp, const void *block, uint64_t rows, uint64_t *ends,
                                  const struct pack_opening *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (uint64_t i = 0; st == PST_OK && i < rows; i++) {
        pst_bytes value = hdf5_value(d, block, i);
        if (value.length > PST_MAX_RECORD_BYTES)
            st = pst_fail(reterr, PST_ELIMIT, "dataset %s: a row is more than a record may hold", d->name);
        else if (value.length)
            st = spool_append(sp, value.data, value.length, o, reterr);
        ends[i] = sp->size;
    }
    return st;
}

/* Reads rows [from, from + rows) into `block` and on into the spool. */
static pst_status unpack_block(struct h5_scan *c, struct hdf5_dataset *d, const struct array *a, struct spool *sp, void *block,
                               uint64_t from, uint64_t rows, uint64_t *ends)
{
    pst_status st = hdf5_read(d, from, rows, block, c->reterr);
    if (st < 0)
        return st;
    if (d->rows == HDF5_FIXED)
        st = spool_append(sp, block, (size_t)(rows * a->row_bytes), c->o, c->reterr);
    else
        st = append_variable(d, sp, block, rows, ends + from, c->o, c->reterr);
    hdf5_reclaim(d, rows, block);
    return st;
}

static pst_status unpack(struct h5_scan *c, struct hdf5_dataset *d, struct array *a)
{
    uint64_t bytes = d->item_bytes;
    for (size_t i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(bytes, a->shape[i], &bytes))
            bytes = UINT64_MAX;
    if (bytes > PST_MAX_RECORD_BYTES)
        return pst_fail(c->reterr, PST_ELIMIT, "dataset %s: a row is more than a record may hold", d->name);
    a->row_bytes = bytes;
    uint64_t step = bytes && bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    struct arrays *as = c->s->state;
    struct text name = {0};
    text_addf(&name, "%s:%s", c->file->path, d->name);
    char *shown = name.failed ? NULL : arena_strndup(&c->s->arena, name.data, name.length);
    uint64_t *ends = d->rows == HDF5_FIXED ? NULL : arena_alloc(&c->s->arena, (size_t)(a->rows + 1) * sizeof(*ends));
    struct spool *sp = shown ? spools_add(&as->files) : NULL;
    void *block = mem_array((size_t)step, (size_t)bytes);
    pst_status st = PST_OK;
    if (!sp || !block || (d->rows != HDF5_FIXED && !ends))
        st = fail_memory(c->reterr, "unpacking dataset %s", d->name);
    if (st == PST_OK)
        st = spool_create(sp, shown, c->o, c->reterr);
    for (uint64_t from = 0; st == PST_OK && from < a->rows; from += step)
        st = unpack_block(c, d, a, sp, block, from, a->rows - from < step ? a->rows - from : step, ends);
    if (st == PST_OK)
        st = pack_report_note(c->o->report, c->reterr, "%s was unpacked to a temporary file first (%" PRIu64 " bytes)", shown,
                              sp->size);
    a->file = sp;
    a->offset = 0;
    a->ends = ends;
    mem_free(block);
    text_finish(&name);
    return st;
}

static pst_status add_dataset(struct h5_scan *c, struct hdf5_dataset *d)
{
    const struct npy_header *h = &d->header;
    if (d->rows == HDF5_SEQUENCES && h->kind != 'V')
        return pst_fail_at(c->reterr, PST_EUNSUPPORTED, c->file->path, PST_NOWHERE, PST_NOWHERE,
                           "dataset %s: rows with any number of values cannot be packed; pipelines read them: `hdf5 FILE`", d->name);
    struct array a = {.file = c->file,
                      .offset = h->data_offset,
                      .kind = h->kind,
                      .width = h->width,
                      .swapped = h->swapped,
                      .rows = h->shape[0],
                      .rank = h->rank - 1};
    memcpy(a.shape, h->shape + 1, a.rank * sizeof(*a.shape));
    pst_status st = d->in_file ? PST_OK : unpack(c, d, &a);
    return st == PST_OK ? arrays_add(c->s, c->o, d->name, &a, c->reterr) : st;
}

static pst_status add_datasets(struct h5_scan *c, struct hdf5_file *f)
{
    pst_status st = PST_OK;
    for (struct hdf5_dataset *d = hdf5_datasets(f); d && st == PST_OK; d = d->next)
        st = add_dataset(c, d);
    if (st == PST_OK && hdf5_left_out(f))
        st = pack_report_note(c->o->report, c->reterr,
                              "%s: left out: %" PRIu64 " group%s; name one as %s:/group to take its datasets", c->file->path,
                              hdf5_left_out(f), hdf5_left_out(f) == 1 ? "" : "s", file_base(c->file->path));
    return st;
}

static pst_status add_file(struct pack_source *s, const struct pack_opening *o, const char *path, pst_error *reterr)
{
    char *file = NULL;
    const char *selection = NULL;
    struct hdf5_file *h5 = NULL;
    pst_status st = arrays_cut_path(path, extensions, &file, &selection, reterr);
    if (st == PST_OK && !s->state)
        st = arrays_create(s, file, reterr);
    struct spool *sp = st == PST_OK ? spools_add(&((struct arrays *)s->state)->files) : NULL;
    if (st == PST_OK)
        st = sp ? spool_open(sp, s, o, file, SPOOL_BINARY, reterr) : fail_memory(reterr, "opening HDF5");
    if (st == PST_OK)
        st = hdf5_open(&h5, sp->unpacked ? sp->temp.temp_path : file, file, selection, reterr);
    if (st == PST_OK) {
        struct h5_scan c = {.s = s, .o = o, .file = sp, .reterr = reterr};
        st = add_datasets(&c, h5);
    }
    hdf5_close(h5);
    mem_free(file);
    return st;
}

static pst_status pack_hdf5_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = add_file(s, o, o->paths[i], reterr);
    return st == PST_OK ? arrays_settle(s, reterr) : st;
}

const struct pack_source_class pack_source_hdf5 = {
    .name = "hdf5",
    .doc = "HDF5 datasets: one record per row, one feature per dataset",
    .images = true,
    .matches = hdf5_matches,
    .open = pack_hdf5_open,
    .close = arrays_close,
    .key = arrays_key,
    .estimate = arrays_estimate,
    .worker_size = sizeof(struct arrays_worker),
    .load = arrays_load,
    .worker_finish = arrays_worker_finish,
};
