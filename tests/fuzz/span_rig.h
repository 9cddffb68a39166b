/* span_rig.h: a source of spans over bytes in memory, read in any order by its index and from a pipe: the same elements. */
#ifndef FUZZ_SPAN_RIG_H
#define FUZZ_SPAN_RIG_H

#include "expect.h"
#include "memory_file.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "ops/ctx.h"
#include "ops/op_list.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#define RIG_CONFIG 512
#define RIG_MOST   4096 /* elements that are compared */

struct rig {
    const struct source_class *class;
    _Alignas(16) uint8_t config[RIG_CONFIG];
    uint64_t digests[RIG_MOST];
    size_t count;
    pst_status opened;
};

static inline void *rig_param(struct rig *r, const char *name)
{
    const pst_param *p = r->class->op.params;
    while (strcmp(p->name, name) != 0)
        p++;
    return r->config + p->offset;
}

/* All parameters at their defaults. */
static inline struct rig rig_make(const struct source_class *class)
{
    struct rig r = {.class = class};
    for (const pst_param *p = class->op.params; p->name; p++) {
        void *to = r.config + p->offset;
        if (!p->fallback || p->kind == PST_PARAM_CHOICE)
            continue;
        if (p->kind == PST_PARAM_STRING)
            *(const char **)to = p->fallback;
        else if (p->kind == PST_PARAM_BOOL)
            *(bool *)to = p->fallback[0] == 't';
        else if (p->kind == PST_PARAM_BYTES)
            EXPECT(text_parse_bytes(to, p->fallback, NULL) == PST_OK);
    }
    return r;
}

static inline void rig_take(struct rig *r, const pst_spec *spec, const pst_tensor *out)
{
    uint64_t h = 0;
    for (size_t f = 0; f < spec->count; f++) {
        EXPECT(out[f].data != NULL);
        if (spec->field[f].dtype == PST_DTYPE_BYTES) {
            const pst_bytes *b = out[f].data;
            h = hash_bytes(b->data, b->length, h + b->length);
        } else {
            h = hash_bytes(out[f].data, pst_dtype_size(spec->field[f].dtype), h);
        }
    }
    if (r->count < RIG_MOST)
        r->digests[r->count++] = h;
}

static inline bool rig_is_bad(pst_status st)
{
    return st == PST_ECORRUPT || st == PST_ELIMIT || st == PST_EUNSUPPORTED;
}

static inline void rig_read_index(struct rig *r, void *source, pst_spec *spec, pst_tensor *out)
{
    pst_error e;
    pst_ctx ctx = {0};
    void *worker = mem_zalloc(r->class->worker_size);
    uint64_t count = r->class->count(source);
    EXPECT(worker && count != SOURCE_STREAM);
    for (uint64_t i = 0; i < count; i++) {
        struct source_place at;
        r->class->locate(source, i, SOURCE_WHOLE, &at);
        EXPECT(at.record == i && at.path);
        pst_status st = r->class->load(source, worker, i, &ctx, out, &e);
        EXPECT(st == PST_OK || rig_is_bad(st));
        if (st == PST_OK)
            rig_take(r, spec, out);
    }
    r->class->worker_stop(source, worker);
    mem_free(worker);
}

static inline void rig_read_stream(struct rig *r, void *source, pst_spec *spec, pst_tensor *out)
{
    pst_error e;
    pst_ctx ctx = {0};
    void *stream = NULL;
    pst_status st = r->class->stream_open(source, &stream, &e);
    EXPECT(st == PST_OK && r->class->count(source) == SOURCE_STREAM);
    while ((st = r->class->stream_next(stream, &ctx, out, &e)) == PST_OK)
        rig_take(r, spec, out);
    EXPECT(st == PST_END || rig_is_bad(st));
    r->class->stream_close(stream);
}

/* Reads all that `fd` has; closes it. */
static inline void rig_read(struct rig *r, int fd)
{
    char path[64];
    const char *paths[] = {path};
    const pst_policy skip = {.skip = true};
    pst_damage_log *log = NULL;
    pst_error e = {0};
    void *source = NULL;
    pst_spec spec;
    static pst_tensor out[4096];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *(pst_strings *)rig_param(r, "paths") = (pst_strings){1, paths};
    EXPECT(pst_damage_log_create(&log, &skip, &e) == PST_OK);
    struct source_env env = {.ram = 1 << 20, .damage = log, .met = log};
    r->count = 0;
    r->opened = r->class->open(r->config, &env, &source, &e);
    EXPECT(r->opened == PST_OK || e.message[0]);
    if (r->opened == PST_OK) {
        r->class->spec(source, &spec);
        EXPECT(spec.count >= 1 && spec.count <= 4096);
        if (r->class->count(source) == SOURCE_STREAM)
            rig_read_stream(r, source, &spec, out);
        else
            rig_read_index(r, source, &spec, out);
    }
    r->class->close(source);
    pst_damage_log_destroy(log);
    close(fd);
}

/* By the index, mapped and read, and from a pipe. */
static inline void rig_compare(const struct rig *given, const uint8_t *data, size_t size)
{
    struct rig indexed = *given, other = *given;
    int ends[2];
    rig_read(&indexed, memory_file(data, size));
    *(int *)rig_param(&other, "io") = 2; /* read */
    rig_read(&other, memory_file(data, size));
    EXPECT(indexed.opened == other.opened && indexed.count == other.count);
    EXPECT(memcmp(indexed.digests, other.digests, indexed.count * sizeof(*other.digests)) == 0);
    if (size > 60000) /* more than a pipe holds */
        return;
    EXPECT(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], data, size) == (ssize_t)size);
    close(ends[1]);
    other = *given;
    rig_read(&other, ends[0]);
    EXPECT((indexed.opened == PST_OK) == (other.opened == PST_OK));
    EXPECT(indexed.count == other.count && memcmp(indexed.digests, other.digests, indexed.count * sizeof(*other.digests)) == 0);
}

#endif
