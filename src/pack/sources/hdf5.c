/* hdf5.c: datasets of HDF5 files: each is a feature, each first dimension counts the items. All datasets of the
 * file's root are taken, or those of `file.h5:/group`, or the one of `file.h5:/dataset`.
 *
 * libhdf5 is used only here and only while opening: datasets that lie in one piece are then read from the file itself,
 * all others (chunked, compressed, of variable length) are first unpacked to a temporary file. */
#include "config.h"
#include "pack/sources/arrays.h"

static const char *const extensions[] = {".h5", ".hdf5", ".hdf", NULL};

static pst_status hdf5_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    (void)info, (void)reterr;
    *ret = arrays_matches(path, extensions);
    return PST_OK;
}

#ifndef HAVE_HDF5

static pst_status hdf5_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    (void)s;
    return pst_fail_at(reterr, PST_EUNSUPPORTED, o->paths[0], PST_NOWHERE, PST_NOWHERE,
                       "this build lacks libhdf5; install libhdf5-dev and build again");
}

#else

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "pack/report.h"

#define H5_USE_110_API /* later versions rename what is used here */
#include <hdf5.h>
#include <inttypes.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)4 << 20) /* read at once when unpacking */

struct h5_scan {
    struct pack_source *s;
    const struct pack_opening *o;
    const struct spool *file;
    pst_status status;
    pst_error *reterr;
    uint64_t left_out;
};

/* One dataset and all that was opened to look at it. */
struct h5_dataset {
    hid_t id, space, type;
    const char *name;
    hsize_t dims[PST_MAX_RANK + 1];
    struct array array;
    enum { ROWS_FIXED, ROWS_STRINGS, ROWS_SEQUENCES } rows;
};

static pst_status h5_fail(const struct spool *file, const char *name, const char *what, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECORRUPT, file->path, PST_NOWHERE, PST_NOWHERE, "dataset %s: libhdf5 cannot %s it", name,
                       what);
}

static void dataset_close(struct h5_dataset *d)
{
    if (d->type >= 0)
        H5Tclose(d->type);
    if (d->space >= 0)
        H5Sclose(d->space);
    if (d->id >= 0)
        H5Dclose(d->id);
}

/* ---- What a dataset is ---- */

static pst_status read_type(struct h5_dataset *d, const struct spool *file, pst_error *reterr)
{
    struct array *a = &d->array;
    H5T_class_t class = H5Tget_class(d->type);
    size_t width = H5Tget_size(d->type);
    a->width = (unsigned)width;
    if (class == H5T_ENUM || class == H5T_INTEGER) {
        hid_t base = class == H5T_ENUM ? H5Tget_super(d->type) : H5Tcopy(d->type);
        a->kind = H5Tget_sign(base) == H5T_SGN_NONE ? 'u' : 'i';
        a->swapped = H5Tget_order(base) == H5T_ORDER_BE;
        H5Tclose(base);
        if (class == H5T_ENUM && width == 1)
            a->kind = 'b'; /* how h5py stores bool */
    } else if (class == H5T_FLOAT) {
        a->kind = 'f';
        a->swapped = H5Tget_order(d->type) == H5T_ORDER_BE;
    } else if (class == H5T_STRING) {
        d->rows = H5Tis_variable_str(d->type) > 0 ? ROWS_STRINGS : ROWS_FIXED;
        a->kind = d->rows == ROWS_STRINGS ? 'V' : 'S';
    } else if (class == H5T_VLEN) {
        hid_t base = H5Tget_super(d->type);
        bool bytes = H5Tget_class(base) == H5T_INTEGER && H5Tget_size(base) == 1;
        H5Tclose(base);
        d->rows = ROWS_SEQUENCES;
        a->kind = bytes ? 'V' : 0;
    }
    bool number = a->kind == 'i' || a->kind == 'u' || a->kind == 'f' || a->kind == 'b';
    bool odd = number && !(width == 1 || width == 2 || width == 4 || width == 8);
    if (!a->kind || odd || (a->kind == 'f' && width == 1) || width == 0 || width > PST_MAX_RECORD_BYTES)
        return pst_fail_at(
            reterr, PST_EUNSUPPORTED, file->path, PST_NOWHERE, PST_NOWHERE,
            "dataset %s: its type is not supported (expected integers, floats, bools, strings, sequences of bytes)", d->name);
    if (a->kind == 'V')
        a->width = 1;
    return PST_OK;
}

static pst_status read_shape(struct h5_dataset *d, const struct spool *file, pst_error *reterr)
{
    int rank = H5Sget_simple_extent_ndims(d->space);
    if (rank < 1 || rank > PST_MAX_RANK + 1)
        return pst_fail_at(reterr, PST_EINVAL, file->path, PST_NOWHERE, PST_NOWHERE,
                           "dataset %s has %d dimensions; its first must count the items (at most %d)", d->name, rank,
                           PST_MAX_RANK + 1);
    H5Sget_simple_extent_dims(d->space, d->dims, NULL);
    d->array.rows = d->dims[0];
    d->array.rank = (size_t)rank - 1;
    for (int i = 1; i < rank; i++)
        d->array.shape[i - 1] = d->dims[i];
    return PST_OK;
}

/* Returns true when the rows are stored one after the other in the file and can be read directly. */
static bool lies_in_file(const struct h5_dataset *d, haddr_t *ret_offset)
{
    hid_t plist = H5Dget_create_plist(d->id);
    if (plist < 0)
        return false;
    bool plain = H5Pget_layout(plist) == H5D_CONTIGUOUS && H5Pget_external_count(plist) == 0 && d->rows == ROWS_FIXED;
    H5Pclose(plist);
    *ret_offset = plain ? H5Dget_offset(d->id) : HADDR_UNDEF;
    return *ret_offset != HADDR_UNDEF;
}

/* ---- Unpacking ---- */

static pst_status append_variable(struct h5_dataset *d, struct spool *sp, const void *block, hsize_t rows, uint64_t *ends,
                                  const struct pack_opening *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (hsize_t i = 0; st == PST_OK && i < rows; i++) {
        const hvl_t *sequence = (const hvl_t *)block + i;
        const char *string = ((char *const *)block)[d->rows == ROWS_STRINGS ? i : 0];
        const void *data = d->rows == ROWS_STRINGS ? (const void *)string : sequence->p;
        size_t length = d->rows == ROWS_SEQUENCES ? sequence->len : string ? strlen(string) : 0;
        if (length > PST_MAX_RECORD_BYTES)
            st = pst_fail(reterr, PST_ELIMIT, "dataset %s: a row is more than a record may hold", d->name);
        else if (length)
            st = spool_append(sp, data, length, o, reterr);
        ends[i] = sp->size;
    }
    return st;
}

/* Reads rows [from, from + rows) into `block` and on into the spool. */
static pst_status unpack_block(struct h5_scan *c, struct h5_dataset *d, struct spool *sp, void *block, hsize_t from,
                               hsize_t rows, uint64_t *ends)
{
    hsize_t start[PST_MAX_RANK + 1] = {from}, count[PST_MAX_RANK + 1];
    memcpy(count, d->dims, sizeof(count));
    count[0] = rows;
    int rank = (int)d->array.rank + 1;
    hid_t memory = H5Screate_simple(rank, count, NULL);
    bool ok = memory >= 0 && H5Sselect_hyperslab(d->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              H5Dread(d->id, d->type, memory, d->space, H5P_DEFAULT, block) >= 0;
    pst_status st = ok ? PST_OK : h5_fail(c->file, d->name, "read", c->reterr);
    if (st == PST_OK && d->rows == ROWS_FIXED)
        st = spool_append(sp, block, (size_t)(rows * d->array.row_bytes), c->o, c->reterr);
    else if (st == PST_OK)
        st = append_variable(d, sp, block, rows, ends + from, c->o, c->reterr);
    if (ok && d->rows != ROWS_FIXED)
        H5Dvlen_reclaim(d->type, memory, H5P_DEFAULT, block);
    if (memory >= 0)
        H5Sclose(memory);
    return st;
}

static pst_status unpack(struct h5_scan *c, struct h5_dataset *d)
{
    struct array *a = &d->array;
    uint64_t element = d->rows == ROWS_STRINGS     ? sizeof(char *)
                       : d->rows == ROWS_SEQUENCES ? sizeof(hvl_t)
                                                   : a->width,
             bytes = element;
    for (size_t i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(bytes, a->shape[i], &bytes))
            bytes = UINT64_MAX;
    if (bytes > PST_MAX_RECORD_BYTES)
        return pst_fail(c->reterr, PST_ELIMIT, "dataset %s: a row is more than a record may hold", d->name);
    a->row_bytes = bytes;
    hsize_t step = bytes && bytes < BLOCK_BYTES ? BLOCK_BYTES / bytes : 1;
    struct arrays *as = c->s->state;
    struct text name = {0};
    text_addf(&name, "%s:%s", c->file->path, d->name);
    char *shown = name.failed ? NULL : arena_strndup(&c->s->arena, name.data, name.length);
    uint64_t *ends = d->rows == ROWS_FIXED ? NULL : arena_alloc(&c->s->arena, (size_t)(a->rows + 1) * sizeof(*ends));
    struct spool *sp = shown ? spools_add(&as->files) : NULL;
    void *block = mem_array((size_t)step, (size_t)bytes);
    pst_status st = PST_OK;
    if (!sp || !block || (d->rows != ROWS_FIXED && !ends))
        st = fail_memory(c->reterr, "unpacking dataset %s", d->name);
    if (st == PST_OK)
        st = spool_create(sp, shown, c->o, c->reterr);
    for (hsize_t from = 0; st == PST_OK && from < a->rows; from += step)
        st = unpack_block(c, d, sp, block, from, a->rows - from < step ? a->rows - from : step, ends);
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

static pst_status add_dataset(struct h5_scan *c, hid_t parent, const char *name)
{
    struct h5_dataset d = {.name = file_base(name), .space = -1, .type = -1};
    haddr_t offset = HADDR_UNDEF;
    d.id = H5Dopen2(parent, name, H5P_DEFAULT);
    if (d.id >= 0)
        d.space = H5Dget_space(d.id);
    if (d.space >= 0)
        d.type = H5Dget_type(d.id);
    pst_status st = d.type >= 0 ? PST_OK : h5_fail(c->file, name, "open", c->reterr);
    if (st == PST_OK)
        st = read_type(&d, c->file, c->reterr);
    if (st == PST_OK)
        st = read_shape(&d, c->file, c->reterr);
    if (st == PST_OK) {
        d.array.file = c->file;
        if (lies_in_file(&d, &offset))
            d.array.offset = offset;
        else
            st = unpack(c, &d);
    }
    if (st == PST_OK)
        st = arrays_add(c->s, c->o, d.name, &d.array, c->reterr);
    dataset_close(&d);
    return st;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    struct h5_scan *c = user;
    H5O_info_t object;
    (void)info;
    if (H5Oget_info_by_name(group, name, &object, H5P_DEFAULT) < 0 || object.type != H5O_TYPE_DATASET) {
        c->left_out++; /* a group, or a link that leads nowhere */
        return 0;
    }
    c->status = add_dataset(c, group, name);
    return c->status < 0 ? -1 : 0;
}

static pst_status add_selection(struct h5_scan *c, hid_t file, const char *selection)
{
    H5O_info_t object;
    const char *path = selection && *selection ? selection : "/";
    if (strcmp(path, "/") &&
        (H5Lexists(file, path, H5P_DEFAULT) <= 0 || H5Oget_info_by_name(file, path, &object, H5P_DEFAULT) < 0))
        return pst_fail_at(c->reterr, PST_ENOTFOUND, c->file->path, PST_NOWHERE, PST_NOWHERE, "has no dataset or group %s",
                           path);
    if (strcmp(path, "/") && object.type == H5O_TYPE_DATASET)
        return add_dataset(c, file, path);
    hid_t group = H5Gopen2(file, path, H5P_DEFAULT);
    if (group < 0)
        return h5_fail(c->file, path, "open", c->reterr);
    hsize_t at = 0;
    herr_t done = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, visit, c);
    H5Gclose(group);
    if (c->status < 0)
        return c->status;
    if (done < 0)
        return h5_fail(c->file, path, "list", c->reterr);
    if (c->left_out)
        return pack_report_note(c->o->report, c->reterr,
                                "%s: %" PRIu64 " groups are left out; name one as %s:/group to take its datasets",
                                c->file->path, c->left_out, file_base(c->file->path));
    return PST_OK;
}

static pst_status add_file(struct pack_source *s, const struct pack_opening *o, const char *path, pst_error *reterr)
{
    char *file = NULL;
    const char *selection = NULL;
    pst_status st = arrays_cut_path(path, extensions, &file, &selection, reterr);
    if (st == PST_OK && !s->state)
        st = arrays_create(s, file, reterr);
    struct spool *sp = st == PST_OK ? spools_add(&((struct arrays *)s->state)->files) : NULL;
    if (st == PST_OK)
        st = sp ? spool_open(sp, s, o, file, SPOOL_BINARY, reterr) : fail_memory(reterr, "opening HDF5");
    if (st == PST_OK) {
        struct h5_scan c = {.s = s, .o = o, .file = sp, .reterr = reterr};
        hid_t id = H5Fopen(sp->unpacked ? sp->temp.temp_path : file, H5F_ACC_RDONLY, H5P_DEFAULT);
        st = id < 0 ? pst_fail_at(reterr, PST_ECORRUPT, file, PST_NOWHERE, PST_NOWHERE, "is not a sound HDF5 file")
                    : add_selection(&c, id, selection);
        if (id >= 0)
            H5Fclose(id);
    }
    mem_free(file);
    return st;
}

static pst_status hdf5_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    H5E_auto2_t print = NULL;
    void *user = NULL;
    H5Eget_auto2(H5E_DEFAULT, &print, &user); /* a library does not print: its messages would go to stderr */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = add_file(s, o, o->paths[i], reterr);
    H5Eset_auto2(H5E_DEFAULT, print, user);
    return st == PST_OK ? arrays_settle(s, reterr) : st;
}

#endif

const struct pack_source_class pack_source_hdf5 = {
    .name = "hdf5",
    .doc = "HDF5 datasets: one record per row, one feature per dataset",
    .images = true,
    .matches = hdf5_matches,
    .open = hdf5_open,
    .close = arrays_close,
    .key = arrays_key,
    .estimate = arrays_estimate,
    .worker_size = sizeof(struct arrays_worker),
    .load = arrays_load,
    .worker_finish = arrays_worker_finish,
};
