/* source_npy.c: `npy`: NumPy arrays, a file a field, a row an element. */
#include "source/source.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/cold.h"
#include "io/file.h"
#include "io/walk.h"
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
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL, "files or patterns"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, io_names,
     "map: rows are views of the mapped files; read: one system call per row and file, for files that "
     "another program may truncate while they are read; auto: map"},
    {0},
};

struct npy {
    struct array_table table;
    struct npy_array *arrays;
};

struct worker {
    void **room; /* one per array: for rows that are not views */
    void **raw;  /* one per array: for rows that are read, as they are stored */
    struct cold_watch cold;
    size_t looked;
};

static void npy_close(void *source)
{
    struct npy *n = source;
    if (!n)
        return;
    for (size_t i = 0; i < n->table.count; i++)
        npy_array_close(&n->arrays[i]);
    mem_free(n->arrays);
    mem_free(n->table.fields);
    mem_free(n);
}

static pst_status add_array(struct npy *n, const char *path, bool mapped, pst_error *reterr)
{
    struct npy_array *a = &n->arrays[n->table.count++], *first = &n->arrays[0];
    pst_status st = npy_array_open(a, path, mapped, reterr);
    if (st < 0)
        return st;
    for (struct npy_array *other = first; other < a; other++)
        if (strcmp(other->field.name, a->field.name) == 0)
            return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                               "is the second array called %s, and file names become field names; rename one of them",
                               a->field.name);
    if (a->rows != first->rows)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "has %" PRIu64 " rows and %s has %" PRIu64 ": they must have the same number", a->rows,
                           first->field.name, first->rows);
    n->table.fields[n->table.count - 1] = a->field;
    n->table.rows = a->rows;
    n->table.bytes += a->bytes;
    n->table.fingerprint = hash_combine(n->table.fingerprint, a->fingerprint);
    return PST_OK;
}

static pst_status make_room(struct npy *n, size_t count, pst_error *reterr)
{
    if (count > PST_MAX_FIELDS)
        return pst_fail(reterr, PST_ELIMIT, "%zu arrays; an element has at most %d fields", count, PST_MAX_FIELDS);
    n->arrays = mem_array(count, sizeof(*n->arrays));
    n->table.fields = mem_array(count, sizeof(*n->table.fields));
    return n->arrays && n->table.fields ? PST_OK : fail_memory(reterr, "opening the arrays");
}

static pst_status npy_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct path_list paths = {0};
    struct npy *n = mem_zalloc(sizeof(*n));
    (void)env;
    if (!n)
        return fail_memory(reterr, "opening the arrays");
    pst_status st = c->paths.count ? PST_OK : pst_fail(reterr, PST_EINVAL, "no path given; name .npy files or a pattern");
    for (size_t i = 0; st == PST_OK && i < c->paths.count; i++)
        st = walk_glob(&paths, c->paths.value[i], reterr);
    if (st == PST_OK)
        st = make_room(n, paths.count, reterr);
    for (size_t i = 0; st == PST_OK && i < paths.count; i++)
        st = add_array(n, paths.paths[i], c->io != IO_READ, reterr);
    path_list_finish(&paths);
    if (st < 0) {
        npy_close(n);
        return st;
    }
    *ret = n;
    return PST_OK;
}

static void npy_describe(const void *source, char *buffer, size_t size)
{
    const struct npy *n = source;
    char bytes[32];
    int length = snprintf(buffer, size, "%zu array%s, %s, %s", n->table.count, n->table.count == 1 ? "" : "s",
                          text_bytes(n->table.bytes, bytes, sizeof(bytes)), n->arrays[0].data ? "mapped" : "read");
    const char *lead = "; converted: ";
    for (size_t i = 0; i < n->table.count && length > 0 && (size_t)length < size; i++) {
        if (n->arrays[i].change != NPY_CONVERT && n->arrays[i].change != NPY_TEXT && !n->arrays[i].fortran)
            continue;
        length += snprintf(buffer + length, size - (size_t)length, "%s%s", lead, n->arrays[i].field.name);
        lead = ", ";
    }
}

static pst_status make_row(void **ret, size_t bytes, const struct npy_array *a, pst_error *reterr)
{
    if (bytes == 0)
        return PST_OK;
    *ret = mem_aligned(bytes);
    return *ret ? PST_OK
                : pst_fail_at(reterr, PST_ENOMEM, a->path, PST_NOWHERE, PST_NOWHERE, "out of memory for a row of %zu bytes",
                              bytes);
}

static pst_status npy_worker_start(void *source, void *worker, pst_error *reterr)
{
    const struct npy *n = source;
    struct worker *w = worker;
    w->room = mem_array(n->table.count, sizeof(*w->room));
    w->raw = mem_array(n->table.count, sizeof(*w->raw));
    if (!w->room || !w->raw)
        return fail_memory(reterr, "allocating a worker's rows");
    pst_status st = PST_OK;
    for (size_t i = 0; i < n->table.count && st == PST_OK; i++) {
        const struct npy_array *a = &n->arrays[i];
        if (!array_table_needs(&n->table, i))
            continue;
        st = make_row(&w->room[i], npy_array_room(a), a, reterr);
        if (st == PST_OK)
            st = make_row(&w->raw[i], npy_array_raw_room(a), a, reterr);
    }
    return st;
}

static void npy_worker_stop(void *source, void *worker)
{
    const struct npy *n = source;
    struct worker *w = worker;
    for (size_t i = 0; w->room && w->raw && i < n->table.count; i++) {
        mem_free(w->room[i]);
        mem_free(w->raw[i]);
    }
    mem_free(w->room);
    mem_free(w->raw);
}

/* Runs of neighbours are asked for at once. */
static void fetch(const struct npy_array *a, const uint64_t *index, size_t count)
{
    for (size_t i = 0, run; i < count; i += run) {
        for (run = 1; i + run < count && index[i + run] == index[i] + run;)
            run++;
        if (a->data)
            file_fetch_mapped(a->data + index[i] * a->row_bytes, run * a->row_bytes);
        else
            file_fetch(a->fd, a->data_offset + index[i] * a->row_bytes, run * a->row_bytes);
    }
}

static void npy_ahead(void *source, void *worker, const uint64_t *index, size_t count)
{
    struct npy *n = source;
    struct worker *w = worker;
    bool renewed, cold = cold_watch_look(&w->cold, &renewed);
    if (renewed)
        npy_array_look(&n->arrays[w->looked++ % n->table.count]);
    for (size_t i = 0; cold && i < n->table.count; i++)
        if (array_table_needs(&n->table, i) && n->arrays[i].row_bytes > 0 && !n->arrays[i].fortran)
            fetch(&n->arrays[i], index, count);
}

static pst_status npy_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    const struct npy *n = source;
    struct worker *w = worker;
    (void)ctx;
    for (size_t i = 0; i < n->table.count; i++) {
        const struct npy_array *a = &n->arrays[i];
        if (!array_table_needs(&n->table, i))
            continue;
        if (__builtin_expect(atomic_load_explicit(&a->cut, memory_order_relaxed), 0))
            return npy_array_fail_short(a, index, reterr);
        pst_status st = npy_array_row(a, index, w->raw[i], w->room[i], &out[i].data, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

static pst_status npy_intact(void *source, uint64_t index, pst_error *reterr)
{
    const struct npy *n = source;
    for (size_t i = 0; i < n->table.count; i++)
        if (mapping_broken(&n->arrays[i].mapping))
            return mapping_fail(&n->arrays[i].mapping, n->arrays[i].path, index, PST_NOWHERE, reterr);
    return PST_OK;
}

static uint64_t npy_bytes_of(const void *source, uint64_t index)
{
    const struct npy *n = source;
    uint64_t bytes = 0;
    (void)index;
    for (size_t i = 0; i < n->table.count; i++)
        bytes += n->arrays[i].row_bytes;
    return bytes;
}

static void npy_locate(const void *source, uint64_t index, size_t field, struct source_place *ret)
{
    const struct npy *n = source;
    if (field >= n->table.count)
        for (field = 0; field + 1 < n->table.count && !array_table_needs(&n->table, field);)
            field++;
    const struct npy_array *a = &n->arrays[field];
    *ret = (struct source_place){
        .path = a->path, .record = index, .offset = a->data_offset + index * (a->fortran ? a->width : a->row_bytes)};
}

const struct source_class source_npy = {
    .op = {.size = sizeof(pst_op_class),
           .name = "npy",
           .doc = "Rows of NumPy arrays: one field per file, named after the file without .npy, and one element per "
                  "row. All files must have the same number of rows. Values of uint8, int32, int64, float16, float32 "
                  "and float64 are used without conversion; other integers become int32 or int64; bytes (S) stay bytes; "
                  "text (U) becomes UTF-8 bytes. Arrays in Fortran order are gathered element by element, which is slower.",
           .example = "npy image.npy label.npy | shuffle | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = npy_open,
    .close = npy_close,
    .spec = array_table_spec,
    .count = array_table_rows,
    .fingerprint = array_table_fingerprint,
    .describe = npy_describe,
    .need = array_table_need,
    .worker_size = sizeof(struct worker),
    .worker_start = npy_worker_start,
    .worker_stop = npy_worker_stop,
    .ahead = npy_ahead,
    .load = npy_load,
    .intact = npy_intact,
    .bytes_of = npy_bytes_of,
    .locate = npy_locate,
};
