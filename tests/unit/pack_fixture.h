/* pack_fixture.h: small sources with known content, and what was packed from them, for the tests of src/pack. */
#ifndef TESTS_PACK_FIXTURE_H
#define TESTS_PACK_FIXTURE_H

#include "harness.h"

#include "base/hash.h"
#include "io/walk.h"
#include <penstock/penstock.h>

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files ---- */

static inline int fixture_remove_one(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    (void)st, (void)flag, (void)where;
    return remove(path);
}

static inline void remove_folder(const char *path)
{
    nftw(path, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void make_folder(const char *path)
{
    if (mkdir(path, 0777) && access(path, F_OK))
        abort();
}

static inline void write_text(const char *path, const char *text)
{
    test_write_file(path, text, strlen(text));
}

/* The bytes of a small picture; pst_free them. */
static inline pst_bytes picture(uint32_t width, uint32_t height, uint32_t channels, pst_image_format format, unsigned seed)
{
    pst_image image;
    uint8_t *data;
    size_t length;
    if (pst_image_create(&image, width, height, channels, NULL) < 0)
        abort();
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width * channels; x++)
            image.pixels[y * image.stride + x] = (uint8_t)(x * 3 + y * 7 + seed * 37);
    if (pst_image_encode(&data, &length, &image, format, NULL, NULL) < 0)
        abort();
    pst_image_finish(&image);
    return (pst_bytes){data, length};
}

static inline void write_picture(const char *path, uint32_t width, uint32_t height, uint32_t channels, pst_image_format format,
                                 unsigned seed)
{
    pst_bytes p = picture(width, height, channels, format, seed);
    test_write_file(path, p.data, p.length);
    pst_free((void *)(uintptr_t)p.data);
}

/* FOLDER/{ape,bee,cat,…}/N.jpg or .png, all of different sizes. */
static inline void make_classes(const char *folder, unsigned classes, unsigned each)
{
    static const char *const names[] = {"ape", "bee", "cat", "dog"};
    char path[1024];
    make_folder(folder);
    for (unsigned c = 0; c < classes; c++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[c]);
        make_folder(path);
        for (unsigned i = 0; i < each; i++) {
            snprintf(path, sizeof(path), "%s/%s/%03u.%s", folder, names[c], i, i % 2 ? "png" : "jpg");
            write_picture(path, 10 + (i * 5 + c) % 23, 8 + (i * 3) % 17, i % 5 == 4 ? 1 : 3,
                          i % 2 ? PST_IMAGE_PNG : PST_IMAGE_JPEG, i + 100 * c);
        }
    }
}

/* The folder of 4 classes × 9 images that most tests pack. */
static inline const char *four_classes(void)
{
    static char path[320];
    snprintf(path, sizeof(path), "%s", test_path("classes"));
    make_classes(path, 4, 9);
    return path;
}

struct folder_hash {
    const char *folder;
    uint64_t hash;
    unsigned files;
};

static inline pst_status hash_one(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct folder_hash *f = user;
    char path[1024];
    size_t length;
    (void)folder_fd, (void)reterr;
    snprintf(path, sizeof(path), "%s/%s", f->folder, entry->d_name);
    uint8_t *data = test_read_file(path, &length);
    f->hash += hash_bytes(data, length, hash_bytes(entry->d_name, strlen(entry->d_name), 1)); /* in any order */
    f->files++;
    free(data);
    return PST_OK;
}

/* Of all files directly in a folder, hidden ones too: names and bytes. */
static inline uint64_t folder_hash(const char *folder)
{
    struct folder_hash f = {.folder = folder};
    return walk_names(folder, hash_one, &f, NULL) == PST_OK ? f.hash + f.files : 0;
}

/* ---- Packing ---- */

static inline pst_pack_options fast(void)
{
    return (pst_pack_options){.size = sizeof(pst_pack_options), .no_sync = true, .workers = 2, .name = "set"};
}

static inline pst_status pack_one(const char *source, const char *out, const pst_pack_options *options, pst_pack_report **ret,
                                  pst_error *reterr)
{
    return pst_pack(&source, 1, out, options, ret, reterr);
}

/* ---- What was packed ---- */

struct packed {
    struct {
        uint8_t *data;
        size_t length;
    } records[4096];
    size_t count;
    pst_parser *parser;
};

/* Every record of the shards "set-SPLIT.tfrecord-…" in `out`, in order. */
static inline struct packed *packed_open(const char *out, const char *split)
{
    struct packed *p = calloc(1, sizeof(*p));
    struct path_list files = {0};
    char mark[64];
    pst_schema *schema;
    snprintf(mark, sizeof(mark), "/set-%s.tfrecord-", split);
    if (!p || walk_files(&files, out, false, NULL) < 0 || pst_schema_create(&schema, NULL, 0, NULL) < 0 ||
        pst_parser_create(&p->parser, schema, NULL, NULL) < 0)
        abort();
    for (size_t i = 0; i < files.count; i++) {
        pst_reader *reader;
        pst_record record;
        if (!strstr(files.paths[i], mark) || strstr(files.paths[i], ".pidx"))
            continue;
        if (pst_reader_open(&reader, files.paths[i], NULL, NULL) < 0)
            abort();
        while (pst_reader_next(reader, &record, NULL) == PST_OK) {
            p->records[p->count].data = malloc(record.length + 1);
            memcpy(p->records[p->count].data, record.data, record.length);
            p->records[p->count++].length = record.length;
        }
        pst_reader_close(reader);
    }
    pst_schema_destroy(schema);
    path_list_finish(&files);
    return p;
}

static inline void packed_close(struct packed *p)
{
    for (size_t i = 0; i < p->count; i++)
        free(p->records[i].data);
    pst_parser_destroy(p->parser);
    free(p);
}

/* A feature of a record; count 0 and not present if it lacks it. Valid until the next call. */
static inline pst_value packed_value(struct packed *p, size_t i, const char *name)
{
    const pst_named_value *values;
    size_t count;
    if (i >= p->count || pst_parser_walk(p->parser, p->records[i].data, p->records[i].length, &values, &count, NULL) < 0)
        return (pst_value){0};
    for (size_t k = 0; k < count; k++)
        if (values[k].name.length == strlen(name) && memcmp(values[k].name.data, name, strlen(name)) == 0)
            return values[k].value;
    return (pst_value){0};
}

static inline int64_t packed_int(struct packed *p, size_t i, const char *name)
{
    pst_value v = packed_value(p, i, name);
    return v.kind == PST_INT64 && v.count == 1 ? *(const int64_t *)v.data : INT64_MIN;
}

static inline float packed_float(struct packed *p, size_t i, const char *name, size_t k)
{
    pst_value v = packed_value(p, i, name);
    float f = -1e30f;
    if (v.kind == PST_FLOAT && k < v.count)
        memcpy(&f, (const char *)v.data + k * sizeof(f), sizeof(f));
    return f;
}

static inline pst_bytes packed_bytes(struct packed *p, size_t i, const char *name)
{
    pst_value v = packed_value(p, i, name);
    return v.kind == PST_BYTES && v.count == 1 ? *(const pst_bytes *)v.data : (pst_bytes){0};
}

static inline bool packed_is(struct packed *p, size_t i, const char *name, const char *text)
{
    pst_bytes b = packed_bytes(p, i, name);
    return b.data && b.length == strlen(text) && memcmp(b.data, text, b.length) == 0;
}

/* The record that has this key, or p->count. */
static inline size_t packed_find(struct packed *p, const char *key)
{
    size_t i = 0;
    while (i < p->count && !packed_is(p, i, "key", key))
        i++;
    return i;
}

static inline bool report_has_note(const pst_pack_report *r, const char *words)
{
    for (size_t i = 0; i < r->notes; i++)
        if (strstr(r->note[i], words))
            return true;
    return false;
}

#endif
