/* onnx_external.c: constants that an ONNX model keeps in other files of its folder. */
#include "export/onnx_file.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <inttypes.h>
#include <string.h>

#define MAX_SHARED 4 /* how often the bytes of a file may be read in all: constants that share them are few */

static pst_status fail(const struct onnx_file *f, pst_error *reterr, pst_status st, const char *tensor, const char *location, const char *what)
{
    return pst_fail_at(reterr, st, f->path, PST_NOWHERE, PST_NOWHERE, "ONNX: the constant \"%.50s\" lies in \"%.80s\", %s", tensor, location, what);
}

/* Whether a location is a relative path without "..". */
static bool stays_inside(const char *location)
{
    if (location[0] == '\0' || location[0] == '/')
        return false;
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return !strstr(location, "://") && !strchr(location, '\\');
}

static char *folder_of(const char *path)
{
    const char *base = file_base(path);
    return base == path ? mem_strdup(".") : mem_strndup(path, (size_t)(base - path));
}

/* The path of the file, links resolved: it still lies in the folder of the model. */
static pst_status resolve(const struct onnx_file *f, const char *location, const char *tensor, char **ret, pst_error *reterr)
{
    char *folder = folder_of(f->path), *root = NULL, *joined = NULL, *path = NULL;
    pst_status st = folder ? file_absolute(&root, folder, reterr) : fail_memory_at(reterr, f->path, "reading ONNX");
    if (st == PST_OK) {
        joined = file_join(root, location);
        st = joined ? file_absolute(&path, joined, reterr) : fail_memory_at(reterr, f->path, "reading ONNX");
    }
    size_t length = root ? strlen(root) : 0;
    length -= length > 0 && root[length - 1] == '/'; /* the root of the file system */
    if (st == PST_OK && (strncmp(path, root, length) != 0 || path[length] != '/'))
        st = fail(f, reterr, PST_EUNSUPPORTED, tensor, location, "a link out of the model's folder; nothing outside of it is read");
    mem_free(folder);
    mem_free(root);
    mem_free(joined);
    if (st == PST_OK)
        *ret = path;
    else
        mem_free(path);
    return st;
}

/* The entry of a file in the list; it is added if need be. Takes `path`. */
static struct onnx_outside *find_outside(struct onnx_outside **files, char *path, uint64_t size)
{
    for (struct onnx_outside *o = *files; o; o = o->next)
        if (strcmp(o->path, path) == 0) {
            mem_free(path);
            return o;
        }
    struct onnx_outside *o = mem_zalloc(sizeof(*o));
    if (!o) {
        mem_free(path);
        return NULL;
    }
    *o = (struct onnx_outside){.path = path, .size = size, .next = *files};
    *files = o;
    return o;
}

static pst_status read_part(struct onnx_file *f, int fd, const struct onnx_outside *o, const struct onnx_external *e, const char *tensor, uint64_t bytes,
                            const uint8_t **ret, pst_error *reterr)
{
    size_t got = 0;
    uint8_t *to = arena_alloc(&f->memory, bytes ? (size_t)bytes : 1);
    if (!to)
        return fail_memory_at(reterr, f->path, "reading ONNX");
    pst_status st = file_read_at(fd, o->path, to, (size_t)bytes, e->offset, &got, reterr);
    if (st == PST_OK && got != bytes)
        st = fail(f, reterr, PST_ECORRUPT, tensor, e->location, "which is shorter than its part");
    if (st == PST_OK)
        *ret = to;
    return st;
}

pst_status onnx_external_read(struct onnx_file *f, struct onnx_outside **files, const struct onnx_external *e, const char *tensor, uint64_t bytes,
                              const uint8_t **ret, pst_error *reterr)
{
    struct onnx_outside *o = NULL;
    struct file_info info = {0};
    char *path = NULL;
    int fd = -1;
    if (!f->path)
        return fail(f, reterr, PST_EUNSUPPORTED, tensor, e->location, "but the model has no folder");
    if (!stays_inside(e->location))
        return fail(f, reterr, PST_EUNSUPPORTED, tensor, e->location, "which is not a path inside of the model's folder; nothing else is read");
    pst_status st = resolve(f, e->location, tensor, &path, reterr);
    if (st == PST_OK)
        st = file_stat(path, &info, reterr); /* before it is opened: a pipe would wait */
    if (st == PST_OK && !info.is_regular)
        st = fail(f, reterr, PST_EUNSUPPORTED, tensor, e->location, "which is not a file");
    if (st == PST_OK && (e->offset > info.size || bytes > info.size - e->offset))
        st = fail(f, reterr, PST_ECORRUPT, tensor, e->location, "which is shorter than its part");
    if (st < 0) {
        mem_free(path);
        return st;
    }
    o = find_outside(files, path, info.size);
    if (!o)
        return fail_memory_at(reterr, f->path, "reading ONNX");
    o->used += bytes;
    if (o->used / MAX_SHARED > o->size)
        return fail(f, reterr, PST_ELIMIT, tensor, e->location, "whose bytes too many constants share");
    st = file_open_read(&fd, o->path, reterr);
    if (st == PST_OK)
        st = read_part(f, fd, o, e, tensor, bytes, ret, reterr);
    file_close(fd);
    return st;
}

void onnx_outside_finish(struct onnx_outside *files)
{
    while (files) {
        struct onnx_outside *next = files->next;
        mem_free(files->path);
        mem_free(files);
        files = next;
    }
}
