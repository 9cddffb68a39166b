/* source_fixture.h: opening a source by its declaration, and loading elements from it, as the engine would. */
#ifndef TESTS_SOURCE_FIXTURE_H
#define TESTS_SOURCE_FIXTURE_H

#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "open_files.h"
#include "ops/ctx.h"
#include "source/source.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES 512

/* A source's parameters, filled in by name. */
struct source_setup {
    const struct source_class *class;
    _Alignas(16) uint8_t config[CONFIG_BYTES];
    pst_policy policy;
    bool no_verify;
    uint64_t ram;
};

static inline const pst_param *setup_param(const struct source_setup *s, const char *name)
{
    const pst_param *p = s->class->op.params;
    while (p->name && strcmp(p->name, name) != 0)
        p++;
    if (!p->name)
        abort();
    return p;
}

static inline void setup_text(struct source_setup *s, const char *name, const char *text)
{
    const pst_param *p = setup_param(s, name);
    void *to = s->config + p->offset;
    switch (p->kind) {
    case PST_PARAM_INT:
        *(int64_t *)to = strtoll(text, NULL, 10);
        break;
    case PST_PARAM_UINT:
        *(uint64_t *)to = strtoull(text, NULL, 10);
        break;
    case PST_PARAM_FLOAT:
        *(double *)to = strtod(text, NULL);
        break;
    case PST_PARAM_STRING:
        *(const char **)to = text;
        break;
    case PST_PARAM_BYTES:
        if (text_parse_bytes(to, text, NULL) < 0)
            abort();
        break;
    case PST_PARAM_BOOL:
        *(bool *)to = strcmp(text, "true") == 0;
        break;
    case PST_PARAM_CHOICE:
        for (*(int *)to = 0; strcmp(p->choices[*(int *)to], text) != 0; ++*(int *)to)
            if (!p->choices[*(int *)to + 1])
                abort();
        break;
    default:
        abort();
    }
}

static inline struct source_setup setup_make(const struct source_class *class)
{
    struct source_setup s = {.class = class, .ram = UINT64_C(64) << 20};
    if (class->op.config_size > CONFIG_BYTES)
        abort();
    for (const pst_param *p = class->op.params; p->name; p++)
        if (p->fallback)
            setup_text(&s, p->name, p->fallback);
    return s;
}

/* The words stay the caller's. */
static inline void setup_words(struct source_setup *s, const char *name, const char *const *words, size_t count)
{
    *(pst_strings *)(void *)(s->config + setup_param(s, name)->offset) = (pst_strings){.count = count, .value = words};
}

/* An open source, and one worker of it. */
struct opened {
    const struct source_class *class;
    void *source, *worker;
    pst_damage_log *log;
    pst_spec spec;
    pst_ctx ctx;
    pst_tensor out[64];
};

static inline void opened_close(struct opened *o)
{
    if (o->worker && o->class->worker_stop)
        o->class->worker_stop(o->source, o->worker);
    mem_free(o->worker);
    o->class->close(o->source);
    pst_damage_log_destroy(o->log);
    arena_finish(&o->ctx.scratch);
    o->source = o->worker = NULL;
    o->log = NULL;
}

static inline void *worker_make(const struct source_class *class, void *source, pst_status *ret, pst_error *reterr)
{
    void *worker = mem_zalloc(class->worker_size);
    *ret = worker ? PST_OK : pst_fail(reterr, PST_ENOMEM, "worker");
    if (worker && class->worker_start)
        *ret = class->worker_start(source, worker, reterr);
    return worker;
}

static inline void opened_reset(struct opened *o)
{
    for (size_t f = 0; f < o->spec.count; f++) {
        o->out[f] = (pst_tensor){.dtype = o->spec.field[f].dtype, .rank = o->spec.field[f].rank};
        memcpy(o->out[f].shape, o->spec.field[f].shape, sizeof(o->out[f].shape));
    }
}

/* On failure nothing is left open. */
static inline pst_status opened_open(struct opened *o, const struct source_setup *s, pst_error *reterr)
{
    *o = (struct opened){.class = s->class};
    arena_init(&o->ctx.scratch);
    pst_status st = pst_damage_log_create(&o->log, &s->policy, reterr);
    struct source_env env = {.no_verify = s->no_verify, .ram = s->ram, .damage = o->log, .met = o->log};
    if (st == PST_OK)
        st = s->class->open(s->config, &env, &o->source, reterr);
    if (st == PST_OK) {
        s->class->spec(o->source, &o->spec);
        opened_reset(o);
        if (s->class->count(o->source) != SOURCE_STREAM)
            o->worker = worker_make(s->class, o->source, &st, reterr);
    }
    if (st < 0)
        opened_close(o);
    return st;
}

static inline pst_status opened_load(struct opened *o, uint64_t index, pst_error *reterr)
{
    return o->class->load(o->source, o->worker, index, &o->ctx, o->out, reterr);
}

static inline void opened_ahead(struct opened *o, const uint64_t *index, size_t count)
{
    if (o->class->ahead)
        o->class->ahead(o->source, o->worker, index, count);
}

static inline uint64_t opened_count(const struct opened *o)
{
    return o->class->count(o->source);
}

static inline uint64_t opened_fingerprint(const struct opened *o)
{
    return o->class->fingerprint(o->source);
}

static inline const char *opened_describe(const struct opened *o, char *buffer, size_t size)
{
    o->class->describe(o->source, buffer, size);
    return buffer;
}

/* A field of the element that was loaded last. */
static inline const pst_tensor *opened_field(const struct opened *o, const char *name)
{
    int f = pst_spec_find(&o->spec, name);
    if (f < 0)
        abort();
    return &o->out[f];
}

static inline pst_bytes opened_bytes(const struct opened *o, const char *name)
{
    return *(const pst_bytes *)opened_field(o, name)->data;
}

static inline bool bytes_are(pst_bytes b, const char *text)
{
    return b.length == strlen(text) && memcmp(b.data, text, b.length) == 0;
}

static inline uint64_t fingerprint_of(const struct source_setup *s)
{
    pst_error error;
    struct opened o;
    if (!CHECK_STATUS(opened_open(&o, s, &error), PST_OK, &error))
        return 0;
    uint64_t print = opened_fingerprint(&o);
    opened_close(&o);
    return print;
}

/* Opens, announces, loads everything and closes. `user` is a struct source_setup. */
static inline pst_status use_elements(const void *user)
{
    pst_error error;
    struct opened o;
    pst_status st = opened_open(&o, user, &error);
    if (st < 0)
        return st;
    for (uint64_t i = 0; i < opened_count(&o); i++) {
        opened_ahead(&o, &i, 1);
        pst_status loaded = opened_load(&o, i, &error);
        st = st < 0 ? st : loaded;
    }
    opened_close(&o);
    return st;
}

/* Makes each call of each kind fail in turn, once and for ever: `use` returns an error or PST_OK, takes no fault for damage,
 * and leaves nothing behind. */
static inline void fail_all(pst_status (*use)(const void *user), const void *user)
{
    static const int kinds[] = {FAULT_MEMORY, FAULT_IO, FAULT_THREAD};
    uint64_t live = mem_live();
    size_t files = open_files();
    for (size_t k = 0; k < 6; k++) {
        bool reached = true;
        for (uint64_t n = 0; reached; n++) {
            test_fault_arm(kinds[k / 2], n, k % 2);
            pst_status st = use(user);
            reached = test_fault_calls() > n;
            test_fault_clear();
            CHECK_MSG(st <= 0 && st != PST_ECORRUPT && (reached || st == PST_OK), "fault %d of kind %d gives %s", (int)n,
                      kinds[k / 2], pst_status_name(st));
        }
    }
    CHECK_INT(mem_live(), live);
    CHECK_INT(open_files(), files);
}

#endif
