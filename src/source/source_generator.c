/* source_generator.c: elements that the calling program makes, one after the other; a stream, because element k is not known
 * without those before it. The program owns the memory of an element; the engine copies it from the stream. */
#include "source/source.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>

static const pst_param params[] = {{0}};

struct generator {
    pst_generator given;
    pst_field field[];
};

struct pass {
    const pst_generator *generator;
    void *own;
};

static pst_status generator_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const pst_generator *given = config;
    struct generator *g = mem_zalloc(sizeof(*g) + given->spec.count * sizeof(*g->field));
    (void)env;
    if (!g)
        return fail_memory(reterr, "opening the generator");
    g->given = *given;
    for (size_t f = 0; f < given->spec.count; f++) {
        g->field[f] = given->spec.field[f];
        g->field[f].alias = -1;
    }
    *ret = g;
    return PST_OK;
}

static void generator_close(void *source)
{
    mem_free(source);
}

static void generator_spec(const void *source, pst_spec *ret)
{
    const struct generator *g = source;
    *ret = (pst_spec){.count = g->given.spec.count, .field = g->field};
}

static uint64_t generator_count(const void *source)
{
    (void)source;
    return SOURCE_STREAM;
}

static uint64_t generator_fingerprint(const void *source)
{
    return ((const struct generator *)source)->given.fingerprint;
}

static void generator_describe(const void *source, char *buffer, size_t size)
{
    (void)source;
    snprintf(buffer, size, "a generator of the program");
}

static pst_status generator_stream_open(void *source, void **ret, pst_error *reterr)
{
    struct pass *p = mem_zalloc(sizeof(*p));
    if (!p)
        return fail_memory(reterr, "opening the generator");
    p->generator = &((const struct generator *)source)->given;
    pst_status st = p->generator->open(p->generator->user, &p->own, reterr);
    if (st < 0) {
        mem_free(p);
        return st;
    }
    *ret = p;
    return PST_OK;
}

static pst_status generator_stream_next(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct pass *p = stream;
    return p->generator->next(p->own, ctx, out, reterr);
}

static void generator_stream_close(void *stream)
{
    struct pass *p = stream;
    if (p->generator->close)
        p->generator->close(p->own);
    mem_free(p);
}

const struct source_class source_generator = {
    /* unlisted: it is made from a C struct, never from text */
    .op = {.size = sizeof(pst_op_class),
           .name = "generator",
           .doc = "Elements that the program generates, one after the other.",
           .example = "generator | batch 64",
           .params = params,
           .config_size = sizeof(pst_generator)},
    .open = generator_open,
    .close = generator_close,
    .spec = generator_spec,
    .count = generator_count,
    .fingerprint = generator_fingerprint,
    .describe = generator_describe,
    .stream_open = generator_stream_open,
    .stream_next = generator_stream_next,
    .stream_close = generator_stream_close,
};
