/* op_rig.h: one operation, written as text, planned and run on one element as the engine would. */
#ifndef TESTS_OP_RIG_H
#define TESTS_OP_RIG_H

#include "base/memory.h"
#include "flow/node.h"
#include "ops/ctx.h"
#include "ops/op_decl.h"
#include "ops/spec_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RIG_FIELDS 64

struct rig {
    struct chain chain;
    struct node *node;
    void *worker;
    bool started;
    pst_ctx ctx;
    struct arena specs;
    pst_tensor out[RIG_FIELDS];
    void *given[RIG_FIELDS]; /* memory of results that have a fixed shape */
};

/* Fields from "image:u8[?,?,3] label:i64": a type of cast's names or bytes, sizes, ? for any. Aborts on anything else. */
static inline pst_spec rig_spec(const char *text)
{
    static const struct {
        const char *name;
        pst_dtype dtype;
    } types[] = {{"bytes", PST_DTYPE_BYTES}, {"u8", PST_DTYPE_U8},     {"i32", PST_DTYPE_I32}, {"i64", PST_DTYPE_I64},
                 {"f16", PST_DTYPE_F16},     {"bf16", PST_DTYPE_BF16}, {"f32", PST_DTYPE_F32}, {"f64", PST_DTYPE_F64}};
    static pst_field memory[16][RIG_FIELDS]; /* the last sixteen specs stay valid */
    static size_t next;
    pst_field *fields = memory[next++ % 16];
    pst_spec spec = {.field = fields};
    memset(fields, 0, sizeof(memory[0]));
    while (*text) {
        pst_field *f = &fields[spec.count++];
        char type[16];
        int n = 0;
        if (sscanf(text, "%63[^:]:%15[a-z0-9]%n", f->name, type, &n) != 2 || spec.count >= RIG_FIELDS)
            abort();
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
            if (strcmp(types[i].name, type) == 0)
                f->dtype = types[i].dtype;
        for (text += n; *text == '[' || *text == ',';) {
            char *end = (char *)++text + 1;
            f->shape[f->rank++] = *text == '?' ? PST_ANY : strtoull(text, &end, 10);
            text = end;
        }
        text += *text == ']';
        text += *text == ' ';
        f->alias = -1;
    }
    return spec;
}

static inline pst_status rig_plan(struct rig *r, const char *text, const pst_spec *in, pst_error *reterr)
{
    *r = (struct rig){.ctx = {.seed = 1, .epoch = 2, .sample = 3}};
    arena_init(&r->ctx.scratch);
    pst_status st = chain_parse(&r->chain, text, reterr);
    if (st < 0)
        return st;
    r->node = &r->chain.nodes[0];
    r->node->in = *in;
    st = spec_init(&r->node->out, &r->specs, in->count, reterr);
    return st < 0 ? st : r->node->op->plan(r->node->config, in, &r->node->out, reterr);
}

static inline bool rig_varies(const pst_field *f)
{
    for (uint32_t i = 0; i < f->rank; i++)
        if (f->shape[i] == PST_ANY)
            return true;
    return false;
}

static inline pst_status rig_start(struct rig *r, pst_error *reterr)
{
    const pst_op_class *op = r->node->op;
    r->worker = calloc(1, op->worker_size + 1);
    r->started = true;
    return op->start ? op->start(r->node->config, r->worker, reterr) : PST_OK;
}

/* Memory for what has a fixed shape, then `run`. Starts where that has not been done. */
static inline pst_status rig_run(struct rig *r, const pst_tensor *in, pst_error *reterr)
{
    const pst_op_class *op = r->node->op;
    pst_status st = r->started ? PST_OK : rig_start(r, reterr);
    for (size_t i = 0; i < r->node->out.count; i++) {
        const pst_field *f = &r->node->out.field[i];
        free(r->given[i]);
        r->given[i] = NULL;
        r->out[i] = (pst_tensor){.dtype = f->dtype, .rank = f->rank};
        memcpy(r->out[i].shape, f->shape, sizeof(f->shape));
        size_t bytes = pst_dtype_size(f->dtype);
        for (uint32_t d = 0; d < f->rank; d++)
            bytes *= f->shape[d];
        if (f->alias >= 0)
            r->out[i] = in[f->alias];
        else if (!rig_varies(f))
            r->out[i].data = r->given[i] = calloc(1, bytes ? bytes : 1); /* its own block: ASan sees what goes beyond it */
    }
    ctx_enter(&r->ctx, r->node->ordinal);
    return st < 0 ? st : op->run(r->node->config, r->worker, &r->ctx, in, r->out, reterr);
}

static inline void rig_finish(struct rig *r)
{
    if (r->started && r->node->op->stop)
        r->node->op->stop(r->node->config, r->worker);
    for (size_t i = 0; i < RIG_FIELDS; i++)
        free(r->given[i]);
    free(r->worker);
    arena_finish(&r->specs);
    arena_finish(&r->ctx.scratch);
    chain_finish(&r->chain);
    *r = (struct rig){0};
}

#endif
