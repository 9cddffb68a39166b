/* weight_hdf5.c: the datasets of an HDF5 file as named arrays, through libhdf5. See weight_file.h. */
#include "config.h"
#include "export/weight_file.h"

#ifndef HAVE_HDF5

pst_status weight_file_hdf5(struct weight_file *f, const char *path, pst_error *reterr)
{
    (void)f;
    return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                       "this build lacks libhdf5; install libhdf5-dev and build again, or save the weights as safetensors");
}

#else

#include "base/error.h"
#include "base/memory.h"

#define H5_USE_110_API /* later versions rename what is used here */
#include <hdf5.h>
#include <string.h>

#define MAX_VALUES ((uint64_t)1 << 34)

struct scan {
    struct weight_file *file;
    size_t capacity, block_capacity;
    const char *path;
    pst_status status;
    pst_error *reterr;
};

/* Room for one more array; its name is a copy. */
static struct safetensor *add_array(struct scan *s, const char *name)
{
    struct safetensors *a = &s->file->arrays;
    char *copy = mem_strdup(name);
    if (!copy || mem_grow((void **)&a->tensors, &s->capacity, a->count + 1, sizeof(*a->tensors)) < 0 ||
        mem_grow((void **)&s->file->blocks, &s->block_capacity, s->file->block_count + 1, sizeof(*s->file->blocks)) < 0) {
        mem_free(copy);
        s->status = fail_memory_at(s->reterr, s->path, "reading weights");
        return NULL;
    }
    struct safetensor *x = &a->tensors[a->count++];
    *x = (struct safetensor){.name = copy, .dtype = "F32", .count = 1};
    return x;
}

static void read_dataset(struct scan *s, hid_t id, const char *name)
{
    hid_t space = H5Dget_space(id), type = H5Dget_type(id);
    hsize_t dims[SAFETENSORS_RANK];
    int rank = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
    H5T_class_t class = type >= 0 ? H5Tget_class(type) : H5T_NO_CLASS;
    if (rank >= 0 && rank <= SAFETENSORS_RANK && (class == H5T_FLOAT || class == H5T_INTEGER) &&
        H5Sget_simple_extent_dims(space, dims, NULL) == rank) {
        struct safetensor *x = add_array(s, name);
        for (int i = 0; x && i < rank; i++) {
            x->shape[x->rank++] = dims[i];
            if (__builtin_mul_overflow(x->count, dims[i], &x->count) || x->count > MAX_VALUES)
                s->status = pst_fail_at(s->reterr, PST_ELIMIT, s->path, PST_NOWHERE, PST_NOWHERE, "dataset %.80s is too large", name);
        }
        float *values = x && s->status == PST_OK ? mem_array(x->count + 1, sizeof(*values)) : NULL;
        if (x && s->status == PST_OK && !values)
            s->status = fail_memory_at(s->reterr, s->path, "reading weights");
        if (values) {
            s->file->blocks[s->file->block_count++] = values;
            x->data = values;
            if (x->count && H5Dread(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
                s->status = pst_fail_at(s->reterr, PST_ECORRUPT, s->path, PST_NOWHERE, PST_NOWHERE, "dataset %.80s: libhdf5 cannot read it",
                                        name);
        }
    }
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *info, void *user)
{
    struct scan *s = user;
    if (info->type != H5O_TYPE_DATASET)
        return 0;
    hid_t id = H5Dopen2(root, name, H5P_DEFAULT);
    if (id < 0)
        s->status = pst_fail_at(s->reterr, PST_ECORRUPT, s->path, PST_NOWHERE, PST_NOWHERE, "dataset %.80s: libhdf5 cannot open it", name);
    else
        read_dataset(s, id, name);
    if (id >= 0)
        H5Dclose(id);
    return s->status < 0 ? -1 : 0;
}

pst_status weight_file_hdf5(struct weight_file *f, const char *path, pst_error *reterr)
{
    struct scan s = {.file = f, .path = path, .reterr = reterr};
    H5E_auto2_t print;
    void *data;
    H5Eget_auto2(H5E_DEFAULT, &print, &data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* the library does not print */
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0)
        s.status = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE, "libhdf5 cannot open the file");
    else if (H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &s) < 0 && s.status == PST_OK)
        s.status = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE, "libhdf5 cannot read the file");
    if (file >= 0)
        H5Fclose(file);
    H5Eset_auto2(H5E_DEFAULT, print, data);
    if (s.status < 0)
        weight_file_finish(f);
    return s.status;
}

#endif
