/* h5.c: the only file that knows libhdf5.
 *
 * Promises: nothing is printed; one call of the library at a time. Leaves to others: reading datasets that lie in one piece,
 * which needs no library, and what values become. */
#include "io/h5.h"

#include "config.h"

#ifndef HAVE_HDF5

pst_status hdf5_open(struct hdf5_file **ret, const char *path, const char *shown, const char *selection, pst_error *reterr)
{
    (void)ret, (void)path, (void)selection;
    return pst_fail_at(reterr, PST_EUNSUPPORTED, shown, PST_NOWHERE, PST_NOWHERE,
                       "this build lacks libhdf5; install libhdf5-dev and build again");
}

struct hdf5_file *hdf5_close(struct hdf5_file *f)
{
    (void)f;
    return NULL;
}

struct hdf5_dataset *hdf5_datasets(struct hdf5_file *f)
{
    (void)f;
    return NULL;
}

uint64_t hdf5_left_out(const struct hdf5_file *f)
{
    (void)f;
    return 0;
}

pst_status hdf5_read(struct hdf5_dataset *d, uint64_t from, uint64_t rows, void *block, pst_error *reterr)
{
    (void)d, (void)from, (void)rows, (void)block;
    return pst_fail(reterr, PST_EUNSUPPORTED, "this build lacks libhdf5");
}

void hdf5_reclaim(struct hdf5_dataset *d, uint64_t rows, void *block)
{
    (void)d, (void)rows, (void)block;
}

pst_bytes hdf5_value(const struct hdf5_dataset *d, const void *block, uint64_t i)
{
    (void)d, (void)block, (void)i;
    return (pst_bytes){0};
}

#else

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#define H5_USE_110_API /* later versions rename what is used here */
#include <hdf5.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

struct hdf5_handle {
    hid_t id, space, type;
    hsize_t dims[PST_MAX_RANK + 1];
    const char *shown;
};

struct hdf5_file {
    hid_t id;
    char *shown;
    struct hdf5_dataset *first, *last;
    uint64_t left_out;
    pst_status status; /* of a visit */
    pst_error *reterr;
};

/* ---- One call at a time, in silence ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct silence {
    H5E_auto2_t print;
    void *user;
};

static void enter(struct silence *s)
{
    pthread_mutex_lock(&lock);
    H5Eget_auto2(H5E_DEFAULT, &s->print, &s->user); /* its messages would go to stderr */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static void leave(const struct silence *s)
{
    H5Eset_auto2(H5E_DEFAULT, s->print, s->user);
    pthread_mutex_unlock(&lock);
}

static pst_status h5_fail(const char *shown, const char *name, const char *what, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECORRUPT, shown, PST_NOWHERE, PST_NOWHERE, "dataset %s: libhdf5 cannot %s it", name, what);
}

/* ---- What a dataset is ---- */

static void read_number(struct npy_header *h, hid_t type, H5T_class_t class)
{
    hid_t base = class == H5T_ENUM ? H5Tget_super(type) : H5Tcopy(type);
    if (class == H5T_FLOAT)
        h->kind = 'f';
    else
        h->kind = H5Tget_sign(base) == H5T_SGN_NONE ? 'u' : 'i';
    h->swapped = H5Tget_order(base) == H5T_ORDER_BE;
    if (class == H5T_ENUM && h->width == 1)
        h->kind = 'b'; /* how h5py stores bool */
    H5Tclose(base);
}

static pst_status read_type(struct hdf5_dataset *d, pst_error *reterr)
{
    struct npy_header *h = &d->header;
    hid_t type = d->handle->type;
    H5T_class_t class = H5Tget_class(type);
    size_t width = H5Tget_size(type);
    h->width = (unsigned)width;
    d->item_bytes = width;
    if (class == H5T_ENUM || class == H5T_INTEGER || class == H5T_FLOAT) {
        read_number(h, type, class);
    } else if (class == H5T_STRING) {
        d->rows = H5Tis_variable_str(type) > 0 ? HDF5_STRINGS : HDF5_FIXED;
        h->kind = d->rows == HDF5_STRINGS ? 'V' : 'S';
    } else if (class == H5T_VLEN) {
        hid_t base = H5Tget_super(type);
        H5T_class_t of = H5Tget_class(base);
        h->width = (unsigned)(width = H5Tget_size(base));
        d->rows = HDF5_SEQUENCES;
        if (of == H5T_INTEGER && width == 1)
            h->kind = 'V';
        else if (of == H5T_ENUM || of == H5T_INTEGER || of == H5T_FLOAT)
            read_number(h, base, of);
        H5Tclose(base);
    }
    bool number = h->kind == 'i' || h->kind == 'u' || h->kind == 'f' || h->kind == 'b';
    bool odd = number && !(width == 1 || width == 2 || width == 4 || width == 8);
    if (!h->kind || odd || (h->kind == 'f' && width == 1) || width == 0 || width > (UINT64_C(1) << 30))
        return pst_fail_at(
            reterr, PST_EUNSUPPORTED, d->handle->shown, PST_NOWHERE, PST_NOWHERE,
            "dataset %s: its type is not supported (expected integers, floats, bools, strings, sequences of numbers)", d->name);
    if (h->kind == 'V') {
        h->width = 1;
        d->item_bytes = sizeof(char *);
    }
    if (d->rows == HDF5_SEQUENCES)
        d->item_bytes = sizeof(hvl_t);
    return PST_OK;
}

static pst_status read_shape(struct hdf5_dataset *d, pst_error *reterr)
{
    struct npy_header *h = &d->header;
    int rank = H5Sget_simple_extent_ndims(d->handle->space);
    if (rank < 1 || rank > PST_MAX_RANK)
        return pst_fail_at(reterr, PST_EINVAL, d->handle->shown, PST_NOWHERE, PST_NOWHERE,
                           "dataset %s has %d dimensions; its first must count the items (at most %d)", d->name, rank,
                           PST_MAX_RANK);
    H5Sget_simple_extent_dims(d->handle->space, d->handle->dims, NULL);
    h->rank = (size_t)rank;
    h->elements = 1;
    for (int i = 0; i < rank; i++) {
        h->shape[i] = d->handle->dims[i];
        if (__builtin_mul_overflow(h->elements, h->shape[i], &h->elements))
            h->elements = UINT64_MAX;
    }
    return PST_OK;
}

static void find_place(struct hdf5_dataset *d)
{
    hid_t plist = H5Dget_create_plist(d->handle->id);
    if (plist < 0)
        return;
    bool plain = H5Pget_layout(plist) == H5D_CONTIGUOUS && H5Pget_external_count(plist) == 0 && d->rows == HDF5_FIXED;
    haddr_t offset = plain ? H5Dget_offset(d->handle->id) : HADDR_UNDEF;
    H5Pclose(plist);
    d->in_file = offset != HADDR_UNDEF;
    d->header.data_offset = d->in_file ? offset : 0;
}

static void dataset_close(struct hdf5_dataset *d)
{
    struct hdf5_handle *h = d->handle;
    if (h && h->type >= 0)
        H5Tclose(h->type);
    if (h && h->space >= 0)
        H5Sclose(h->space);
    if (h && h->id >= 0)
        H5Dclose(h->id);
    mem_free(h);
    mem_free((void *)(uintptr_t)d->name);
    mem_free(d);
}

static pst_status add_dataset(struct hdf5_file *f, hid_t parent, const char *path, pst_error *reterr)
{
    struct hdf5_dataset *d = mem_zalloc(sizeof(*d));
    struct hdf5_handle *h = mem_zalloc(sizeof(*h));
    char *name = mem_strdup(file_base(path));
    if (!d || !h || !name) {
        mem_free(d);
        mem_free(h);
        mem_free(name);
        return fail_memory_at(reterr, f->shown, "opening a dataset");
    }
    *h = (struct hdf5_handle){.id = H5Dopen2(parent, path, H5P_DEFAULT), .space = -1, .type = -1, .shown = f->shown};
    d->name = name;
    d->handle = h;
    if (h->id >= 0)
        h->space = H5Dget_space(h->id);
    if (h->space >= 0)
        h->type = H5Dget_type(h->id);
    pst_status st = h->type >= 0 ? PST_OK : h5_fail(f->shown, name, "open", reterr);
    if (st == PST_OK)
        st = read_type(d, reterr);
    if (st == PST_OK)
        st = read_shape(d, reterr);
    if (st < 0) {
        dataset_close(d);
        return st;
    }
    find_place(d);
    *(f->last ? &f->last->next : &f->first) = d;
    f->last = d;
    return PST_OK;
}

/* ---- The file ---- */

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    struct hdf5_file *f = user;
    H5O_info_t object;
    (void)info;
    if (H5Oget_info_by_name(group, name, &object, H5P_DEFAULT) < 0 || object.type != H5O_TYPE_DATASET) {
        f->left_out++; /* a group, or a link that leads nowhere */
        return 0;
    }
    f->status = add_dataset(f, group, name, f->reterr);
    return f->status < 0 ? -1 : 0;
}

static pst_status add_selection(struct hdf5_file *f, const char *selection, pst_error *reterr)
{
    H5O_info_t object;
    const char *path = selection && *selection ? selection : "/";
    if (strcmp(path, "/") &&
        (H5Lexists(f->id, path, H5P_DEFAULT) <= 0 || H5Oget_info_by_name(f->id, path, &object, H5P_DEFAULT) < 0))
        return pst_fail_at(reterr, PST_ENOTFOUND, f->shown, PST_NOWHERE, PST_NOWHERE, "has no dataset or group %s", path);
    if (strcmp(path, "/") && object.type == H5O_TYPE_DATASET)
        return add_dataset(f, f->id, path, reterr);
    hid_t group = H5Gopen2(f->id, path, H5P_DEFAULT);
    if (group < 0)
        return h5_fail(f->shown, path, "open", reterr);
    hsize_t at = 0;
    f->reterr = reterr;
    herr_t done = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, visit, f);
    f->reterr = NULL;
    H5Gclose(group);
    if (f->status < 0)
        return f->status;
    return done < 0 ? h5_fail(f->shown, path, "list", reterr) : PST_OK;
}

pst_status hdf5_open(struct hdf5_file **ret, const char *path, const char *shown, const char *selection, pst_error *reterr)
{
    struct silence s;
    struct hdf5_file *f = mem_zalloc(sizeof(*f));
    if (!f)
        return fail_memory_at(reterr, shown, "opening HDF5");
    enter(&s);
    f->shown = mem_strdup(shown);
    f->id = f->shown ? H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT) : -1;
    pst_status st = f->shown ? PST_OK : fail_memory_at(reterr, shown, "opening HDF5");
    if (st == PST_OK)
        st = f->id < 0 ? pst_fail_at(reterr, PST_ECORRUPT, shown, PST_NOWHERE, PST_NOWHERE, "is not a sound HDF5 file")
                       : add_selection(f, selection, reterr);
    leave(&s);
    if (st < 0) {
        hdf5_close(f);
        return st;
    }
    *ret = f;
    return PST_OK;
}

struct hdf5_file *hdf5_close(struct hdf5_file *f)
{
    struct silence s;
    if (!f)
        return NULL;
    enter(&s);
    for (struct hdf5_dataset *d = f->first, *next; d; d = next) {
        next = d->next;
        dataset_close(d);
    }
    if (f->id >= 0)
        H5Fclose(f->id);
    leave(&s);
    mem_free(f->shown);
    mem_free(f);
    return NULL;
}

struct hdf5_dataset *hdf5_datasets(struct hdf5_file *f)
{
    return f->first;
}

uint64_t hdf5_left_out(const struct hdf5_file *f)
{
    return f->left_out;
}

/* ---- Rows ---- */

pst_status hdf5_read(struct hdf5_dataset *d, uint64_t from, uint64_t rows, void *block, pst_error *reterr)
{
    struct silence s;
    struct hdf5_handle *h = d->handle;
    hsize_t start[PST_MAX_RANK + 1] = {from}, count[PST_MAX_RANK + 1];
    memcpy(count, h->dims, sizeof(count));
    count[0] = rows;
    enter(&s);
    hid_t memory = H5Screate_simple((int)d->header.rank, count, NULL);
    bool ok = memory >= 0 && H5Sselect_hyperslab(h->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              H5Dread(h->id, h->type, memory, h->space, H5P_DEFAULT, block) >= 0;
    if (memory >= 0)
        H5Sclose(memory);
    leave(&s);
    return ok ? PST_OK : h5_fail(h->shown, d->name, "read", reterr);
}

void hdf5_reclaim(struct hdf5_dataset *d, uint64_t rows, void *block)
{
    struct silence s;
    hsize_t count[PST_MAX_RANK + 1];
    if (d->rows == HDF5_FIXED)
        return;
    memcpy(count, d->handle->dims, sizeof(count));
    count[0] = rows;
    enter(&s);
    hid_t memory = H5Screate_simple((int)d->header.rank, count, NULL);
    if (memory >= 0) {
        H5Dvlen_reclaim(d->handle->type, memory, H5P_DEFAULT, block);
        H5Sclose(memory);
    }
    leave(&s);
}

pst_bytes hdf5_value(const struct hdf5_dataset *d, const void *block, uint64_t i)
{
    if (d->rows == HDF5_STRINGS) {
        const char *text = ((char *const *)block)[i];
        return (pst_bytes){(const uint8_t *)text, text ? strlen(text) : 0};
    }
    const hvl_t *sequence = (const hvl_t *)block + i;
    return (pst_bytes){sequence->p, sequence->len * d->header.width};
}

#endif
