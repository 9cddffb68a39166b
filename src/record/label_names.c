/* label_names.c: see label_names.h. */
#include "record/label_names.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <string.h>

#define NAMES_FILE_MAX ((size_t)64 << 20)

static pst_status split_lines(struct label_names *l, size_t length, pst_error *reterr)
{
    for (char *p = l->text, *end = l->text + length; p < end;) {
        char *line_end = memchr(p, '\n', (size_t)(end - p));
        line_end = line_end ? line_end : end;
        if (mem_grow((void **)&l->names, &l->capacity, l->count + 1, sizeof(*l->names)))
            return fail_memory(reterr, "allocating the names of %zu classes", l->count + 1);
        l->names[l->count++] = p;
        p = line_end + 1;
        *line_end = 0; /* at the very end this is the NUL that file_read_all put there */
        if (line_end > l->names[l->count - 1] && line_end[-1] == '\r')
            line_end[-1] = 0;
    }
    return PST_OK;
}

/* "FEATURE.labels.txt" as TFDS writes it: slashes become dashes. */
static char *feature_file(const char *folder, const char *feature)
{
    char *name = mem_format("%s.labels.txt", feature);
    for (char *p = name; p && *p; p++)
        *p = *p == '/' ? '-' : *p;
    char *path = name ? file_join(folder, name) : NULL;
    mem_free(name);
    return path;
}

static size_t folder_length(const char *path)
{
    return (size_t)(file_base(path) - path);
}

/* The names beside one shard. */
static pst_status read_beside(struct label_names *ret, const char *shard_path, const char *feature, pst_error *reterr)
{
    size_t folder_bytes = folder_length(shard_path);
    char *folder = folder_bytes ? mem_strndup(shard_path, folder_bytes) : mem_strdup(".");
    pst_status st = folder ? PST_ENOTFOUND : PST_ENOMEM;
    for (unsigned i = 0; i < 3 && st == PST_ENOTFOUND; i++) {
        char *path = i == 0 ? feature_file(folder, feature) : file_join(folder, i == 1 ? "label.labels.txt" : "labels.txt");
        uint8_t *text = NULL;
        size_t length;
        st = path ? file_read_all(&text, &length, path, NAMES_FILE_MAX, reterr) : PST_ENOMEM;
        ret->text = (char *)text;
        if (st == PST_OK)
            st = split_lines(ret, length, reterr);
        mem_free(path);
    }
    mem_free(folder);
    if (st == PST_ENOMEM)
        return pst_fail(reterr, st, "out of memory for the names of the classes");
    return st == PST_ENOTFOUND || st == PST_ELIMIT ? PST_OK : st; /* a file that large holds no names */
}

static bool same_names(const struct label_names *a, const struct label_names *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->names[i], b->names[i]) == 0;
    return same;
}

pst_status label_names_read(struct label_names *ret, char *const *shards, size_t count, const char *feature,
                            pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        size_t length = folder_length(shards[i]);
        if (i && folder_length(shards[i - 1]) == length && memcmp(shards[i], shards[i - 1], length) == 0)
            continue; /* the same folder; shards are sorted by path */
        struct label_names here = {0};
        st = read_beside(i ? &here : ret, shards[i], feature, reterr);
        bool differs = i && !same_names(ret, &here);
        label_names_finish(&here);
        if (st == PST_OK && differs) {
            label_names_finish(ret);
            break;
        }
    }
    return st;
}

const char *label_name(const struct label_names *l, int64_t label)
{
    return label >= 0 && (uint64_t)label < l->count ? l->names[label] : "";
}

void label_names_finish(struct label_names *l)
{
    mem_free(l->text);
    mem_free(l->names);
    *l = (struct label_names){0};
}
