/* source_hdf5.c: `hdf5`: datasets of HDF5 files, a dataset a field, a row an element.
 *
 * A dataset that lies in one piece is mapped and read as a .npy file is, without libhdf5. Any other (chunked, compressed, of
 * variable length) is read by libhdf5, one call at a time for all workers. */
#include "source/source.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/h5.h"
#include "io/walk.h"
#include "io/remote/remote.h"
#include "record/index.h"
#include "source/npy_array.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct config {
    pst_strings paths;
    int io; /* of io_names */
};

static const char *const io_names[] = {"auto", "map", "read", NULL};
enum { IO_READ = 2 };

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL,
     "files or patterns; file.h5:/group takes the datasets of a group, file.h5:/dataset that one"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, io_names,
     "map: rows of datasets in one piece are views of the mapped file; read: one system call per row; auto: map"},
    {0},
};

struct column {
    struct npy_array array;
    struct hdf5_dataset *packed; /* read by libhdf5; NULL: the array is in the file */
};

struct hdf5 {
    struct array_table table;
    struct hdf5_file **files;
    size_t file_count;
    struct column *columns;
    size_t capacity;
};

struct worker {
    struct cell {
        void *room, *raw; /* for rows that are converted, and that are read */
        uint8_t *text;    /* of rows of any length */
        size_t text_size;
        pst_bytes value;
    } *cells;
};

static void hdf5_source_close(void *source)
{
    struct hdf5 *h = source;
    if (!h)
        return;
    for (size_t i = 0; i < h->table.count; i++)
        npy_array_close(&h->columns[i].array);
    for (size_t i = 0; i < h->file_count; i++)
        hdf5_close(h->files[i]);
    mem_free(h->files);
    mem_free(h->columns);
    mem_free(h->table.fields);
    mem_free(h);
}

/* ---- Opening ---- */

/* Texts and sequences: a value per row; of numbers, as many as it has. */
static pst_status describe_variable(struct column *c, const struct hdf5_dataset *d, const char *path, pst_error *reterr)
{
    struct npy_header h = d->header;
    if (h.rank != 1)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                           "dataset %s: rows of several values of variable length are not supported", d->name);
    bool numbers = h.kind != 'V';
    h.kind = numbers ? h.kind : 'S'; /* as bytes */
    pst_status st = npy_array_describe(&c->array, path, d->name, &h, reterr);
    if (st == PST_OK && numbers) {
        c->array.field.rank = 1;
        c->array.field.shape[0] = PST_ANY;
    }
    return st;
}

static pst_status add_dataset(struct hdf5 *h, struct hdf5_dataset *d, const char *path, bool mapped, pst_error *reterr)
{
    pst_status st;
    if (h->table.count == PST_MAX_FIELDS)
        return pst_fail(reterr, PST_ELIMIT, "an element has at most %d fields; name single datasets", PST_MAX_FIELDS);
    if (mem_grow((void **)&h->columns, &h->capacity, h->table.count + 1, sizeof(*h->columns)) < 0)
        return fail_memory_at(reterr, path, "opening HDF5");
    struct column *c = &h->columns[h->table.count++];
    memset(c, 0, sizeof(*c));
    c->packed = d->in_file ? NULL : d;
    if (d->in_file)
        st = npy_array_open_at(&c->array, path, d->name, &d->header, mapped, reterr);
    else
        st = d->rows == HDF5_FIXED ? npy_array_describe(&c->array, path, d->name, &d->header, reterr)
                                   : describe_variable(c, d, path, reterr);
    if (st < 0)
        return st;
    for (size_t i = 0; i + 1 < h->table.count; i++)
        if (strcmp(h->columns[i].array.field.name, d->name) == 0)
            return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                               "is the second with a dataset called %s; name single datasets, file.h5:/name", d->name);
    if (d->header.shape[0] != h->columns[0].array.rows)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "dataset %s has %" PRIu64 " rows and %s has %" PRIu64
                           ": they must have the same number; name single datasets, file.h5:/name",
                           d->name, d->header.shape[0], h->columns[0].array.field.name, h->columns[0].array.rows);
    h->table.rows = d->header.shape[0];
    return PST_OK;
}

/* Splits "file.h5:/group" at the colon, unless there is a file of the whole name. */
static pst_status cut_path(const char *path, char **ret_file, const char **ret_selection, pst_error *reterr)
{
    struct file_info info;
    const char *colon = strrchr(path, ':');
    bool cut = colon && file_stat(path, &info, NULL) < 0;
    *ret_file = cut ? mem_strndup(path, (size_t)(colon - path)) : mem_strdup(path);
    *ret_selection = cut ? colon + 1 : NULL;
    return *ret_file ? PST_OK : fail_memory_at(reterr, path, "opening HDF5");
}

static pst_status add_fingerprint(struct hdf5 *h, const char *path, pst_error *reterr)
{
    uint64_t size = 0, fingerprint = 0;
    int fd = -1;
    pst_status st = file_open_read(&fd, path, reterr);
    if (st == PST_OK)
        st = index_fingerprint(fd, path, &size, &fingerprint, reterr);
    file_close(fd);
    h->table.bytes += size;
    h->table.fingerprint = hash_combine(h->table.fingerprint, fingerprint);
    return st;
}

static pst_status add_file(struct hdf5 *h, const char *path, bool mapped, pst_error *reterr)
{
    char *file = NULL;
    const char *selection = NULL;
    pst_status st = cut_path(path, &file, &selection, reterr);
    if (st == PST_OK)
        st = add_fingerprint(h, file, reterr);
    if (st == PST_OK)
        st = hdf5_open(&h->files[h->file_count], file, path, selection, reterr);
    if (st == PST_OK) {
        struct hdf5_file *f = h->files[h->file_count++];
        struct hdf5_dataset *d = hdf5_datasets(f);
        if (!d)
            st = pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                             "has no datasets%s", hdf5_left_out(f) ? " at its top; name a group, file.h5:/group" : "");
        for (; d && st == PST_OK; d = d->next)
            st = add_dataset(h, d, file, mapped, reterr);
    }
    mem_free(file);
    return st;
}

static pst_status find_files(struct path_list *ret, const pst_strings *paths, pst_error *reterr)
{
    pst_status st = paths->count ? PST_OK : pst_fail(reterr, PST_EINVAL, "no path given; name .h5 files or a pattern");
    for (size_t i = 0; st == PST_OK && i < paths->count; i++)
        st = strrchr(paths->value[i], ':') ? path_list_add(ret, paths->value[i], reterr)
                                           : walk_glob(ret, paths->value[i], reterr);
    return st;
}

static pst_status settle(struct hdf5 *h, pst_error *reterr)
{
    h->table.fields = mem_array(h->table.count, sizeof(*h->table.fields));
    if (!h->table.fields)
        return fail_memory(reterr, "opening HDF5");
    for (size_t i = 0; i < h->table.count; i++)
        h->table.fields[i] = h->columns[i].array.field;
    return PST_OK;
}

/* libhdf5 reads local files alone. */
static pst_status check_local(const pst_strings *paths, pst_error *reterr)
{
    for (size_t i = 0; i < paths->count; i++)
        if (remote_is(paths->value[i]))
            return pst_fail_at(reterr, PST_EUNSUPPORTED, paths->value[i], PST_NOWHERE, PST_NOWHERE,
                               "HDF5 is read from local files only; copy the file to a local disk, or pack it where it is local "
                               "(`penstock pack FILE.h5 s3://…`)");
    return PST_OK;
}

static pst_status hdf5_source_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct path_list paths = {0};
    struct hdf5 *h = mem_zalloc(sizeof(*h));
    (void)env;
    if (!h)
        return fail_memory(reterr, "opening HDF5");
    pst_status st = check_local(&c->paths, reterr);
    if (st == PST_OK)
        st = find_files(&paths, &c->paths, reterr);
    if (st == PST_OK) {
        h->files = mem_array(paths.count, sizeof(*h->files));
        st = h->files ? PST_OK : fail_memory(reterr, "opening HDF5");
    }
    for (size_t i = 0; st == PST_OK && i < paths.count; i++)
        st = add_file(h, paths.paths[i], c->io != IO_READ, reterr);
    if (st == PST_OK)
        st = settle(h, reterr);
    path_list_finish(&paths);
    if (st < 0) {
        hdf5_source_close(h);
        return st;
    }
    *ret = h;
    return PST_OK;
}

static void hdf5_describe(const void *source, char *buffer, size_t size)
{
    const struct hdf5 *h = source;
    char bytes[32];
    size_t packed = 0;
    for (size_t i = 0; i < h->table.count; i++)
        packed += h->columns[i].packed != NULL;
    int n = snprintf(buffer, size, "%zu dataset%s, %s", h->table.count, h->table.count == 1 ? "" : "s",
                     text_bytes(h->table.bytes, bytes, sizeof(bytes)));
    if (packed && n > 0 && (size_t)n < size)
        snprintf(buffer + n, size - (size_t)n,
                 "; %zu in chunks, read by libhdf5 row by row and one worker at a time: `penstock pack` makes shards that are "
                 "faster",
                 packed);
}

/* ---- Rows ---- */

static pst_status hdf5_worker_start(void *source, void *worker, pst_error *reterr)
{
    const struct hdf5 *h = source;
    struct worker *w = worker;
    w->cells = mem_array(h->table.count, sizeof(*w->cells));
    if (!w->cells)
        return fail_memory(reterr, "allocating a worker's rows");
    for (size_t i = 0; i < h->table.count; i++) {
        const struct column *c = &h->columns[i];
        size_t raw = c->packed ? (c->array.values ? c->array.values : 1) * c->packed->item_bytes : npy_array_raw_room(&c->array);
        size_t room = npy_array_room(&c->array);
        w->cells[i].room = room && array_table_needs(&h->table, i) ? mem_aligned(room) : NULL;
        w->cells[i].raw = raw && array_table_needs(&h->table, i) ? mem_aligned(raw) : NULL;
        if (array_table_needs(&h->table, i) && ((room && !w->cells[i].room) || (raw && !w->cells[i].raw)))
            return fail_memory_at(reterr, c->array.path, "allocating a row of %s", c->array.field.name);
    }
    return PST_OK;
}

static void hdf5_worker_stop(void *source, void *worker)
{
    const struct hdf5 *h = source;
    struct worker *w = worker;
    for (size_t i = 0; w->cells && i < h->table.count; i++) {
        mem_free(w->cells[i].room);
        mem_free(w->cells[i].raw);
        mem_free(w->cells[i].text);
    }
    mem_free(w->cells);
}

/* A text or sequence, copied out of libhdf5's memory. */
static pst_status take_value(struct column *c, struct cell *cell, void **ret, pst_error *reterr)
{
    pst_bytes value = hdf5_value(c->packed, cell->raw, 0);
    pst_status st = mem_grow((void **)&cell->text, &cell->text_size, value.length + 1, 1) < 0
                        ? fail_memory_at(reterr, c->array.path, "reading %zu bytes of %s", value.length, c->array.field.name)
                        : PST_OK;
    if (st == PST_OK && value.length)
        memcpy(cell->text, value.data, value.length);
    cell->value = (pst_bytes){cell->text, value.length};
    *ret = &cell->value;
    hdf5_reclaim(c->packed, 1, cell->raw);
    return st;
}

/* A sequence of numbers, copied and converted as a row of so many values. */
static pst_status take_numbers(struct column *c, struct cell *cell, uint64_t index, pst_tensor *out, pst_error *reterr)
{
    pst_bytes value = hdf5_value(c->packed, cell->raw, 0);
    struct npy_array row = c->array;
    row.values = value.length / row.width;
    row.row_bytes = value.length;
    size_t copied = (value.length + 63) / 64 * 64, room = row.values * pst_dtype_size(row.field.dtype);
    pst_status st = mem_grow((void **)&cell->text, &cell->text_size, copied + room + 64, 1) < 0
                        ? fail_memory_at(reterr, row.path, "reading %zu bytes of %s", value.length, row.field.name)
                        : PST_OK;
    if (st == PST_OK && value.length)
        memcpy(cell->text, value.data, value.length);
    hdf5_reclaim(c->packed, 1, cell->raw);
    out->shape[0] = row.values;
    return st < 0 ? st : npy_array_convert(&row, index, cell->text, cell->text + copied, &out->data, reterr);
}

static pst_status load_column(struct column *c, struct cell *cell, uint64_t index, pst_tensor *out, pst_error *reterr)
{
    void **ret = &out->data;
    if (!c->packed) {
        if (atomic_load_explicit(&c->array.cut, memory_order_relaxed))
            return npy_array_fail_short(&c->array, index, reterr);
        return npy_array_row(&c->array, index, cell->raw, cell->room, ret, reterr);
    }
    pst_status st = hdf5_read(c->packed, index, 1, cell->raw, reterr);
    if (st < 0)
        return st;
    if (c->packed->rows == HDF5_FIXED)
        return npy_array_convert(&c->array, index, cell->raw, cell->room, ret, reterr);
    return c->array.field.rank ? take_numbers(c, cell, index, out, reterr) : take_value(c, cell, ret, reterr);
}

static pst_status hdf5_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct hdf5 *h = source;
    struct worker *w = worker;
    pst_status st = PST_OK;
    (void)ctx;
    for (size_t i = 0; i < h->table.count && st == PST_OK; i++)
        if (array_table_needs(&h->table, i))
            st = load_column(&h->columns[i], &w->cells[i], index, &out[i], reterr);
    return st;
}

static pst_status hdf5_intact(void *source, uint64_t index, pst_error *reterr)
{
    const struct hdf5 *h = source;
    for (size_t i = 0; i < h->table.count; i++)
        if (mapping_broken(&h->columns[i].array.mapping))
            return mapping_fail(&h->columns[i].array.mapping, h->columns[i].array.path, index, PST_NOWHERE, reterr);
    return PST_OK;
}

static void hdf5_locate(const void *source, uint64_t index, size_t field, struct source_place *ret)
{
    const struct hdf5 *h = source;
    const struct npy_array *a = &h->columns[field < h->table.count ? field : 0].array;
    *ret = (struct source_place){.path = a->path, .record = index, .offset = PST_NOWHERE};
}

const struct source_class source_hdf5 = {
    .op = {.size = sizeof(pst_op_class),
           .name = "hdf5",
           .doc = "Rows of HDF5 datasets: one field per dataset, and one element per row. All datasets of the file's top are taken, or "
                  "those that file.h5:/group or file.h5:/dataset names; they must have the same number of rows. A dataset in one "
                  "piece is mapped; one in chunks is read by libhdf5, one worker at a time. Types are those of npy; texts of variable "
                  "length are bytes, sequences of numbers are fields with as many values as each row has.",
           .example = "hdf5 train.h5 | shuffle | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = hdf5_source_open,
    .close = hdf5_source_close,
    .spec = array_table_spec,
    .count = array_table_rows,
    .fingerprint = array_table_fingerprint,
    .describe = hdf5_describe,
    .need = array_table_need,
    .worker_size = sizeof(struct worker),
    .worker_start = hdf5_worker_start,
    .worker_stop = hdf5_worker_stop,
    .load = hdf5_load,
    .intact = hdf5_intact,
    .cause = PST_CAUSE_VALUE,
    .locate = hdf5_locate,
};
