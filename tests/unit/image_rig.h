/* image_rig.h: a chain of image operations, written as text, on one image: one by one, or as few passes as possible. */
#ifndef TESTS_IMAGE_RIG_H
#define TESTS_IMAGE_RIG_H

#include "base/hash.h"
#include "ops/image/image_op.h"
#include "ops/op_list.h"
#include "unit/op_rig.h"

#define RIG_MAX 16

/* A program for some of the nodes, or a node by itself. */
struct rig_step {
    const pst_op_class *op;
    const void *config;
    void *fused; /* to be freed */
    void *worker;
    uint32_t ordinal;
    pst_spec out;
    bool started;
};

struct image_rig {
    struct chain chain;
    struct arena specs;
    struct rig_step steps[RIG_MAX];
    size_t count;
    pst_ctx ctx;
    void *given; /* the result's memory, where its shape is planned */
    size_t size;
};

struct rig_result {
    pst_status status;
    pst_error error;
    pst_tensor tensor; /* valid until the rig's next run */
};

/* Operations of a test itself, by their declarations; ends with NULL. They stand in a rig's text without arguments. */
static const struct op_decl *const *rig_own;

static inline const struct op_decl *rig_decl_of(const pst_op_class *op)
{
    for (size_t i = 0; rig_own && rig_own[i]; i++)
        if (op == &rig_own[i]->op)
            return rig_own[i];
    return op_decl_of(op);
}

/* Like chain_parse, with the test's own operations. Texts with those have no "|" within quotes. */
static inline pst_status rig_parse(struct chain *c, const char *text, pst_error *reterr)
{
    char stage[256];
    pst_status st = PST_OK;
    if (!rig_own)
        return chain_parse(c, text, reterr);
    while (st == PST_OK && *text) {
        text += strspn(text, "| ");
        size_t length = strcspn(text, "|"), name = strcspn(text, "| ");
        const struct op_decl *own = NULL;
        for (size_t i = 0; rig_own[i]; i++)
            if (strlen(rig_own[i]->op.name) == name && strncmp(text, rig_own[i]->op.name, name) == 0)
                own = rig_own[i];
        snprintf(stage, sizeof(stage), "%.*s", (int)length, text);
        st = own ? chain_add_class(c, &own->op, NULL, reterr) : chain_parse(c, stage, reterr);
        text += length;
    }
    return st;
}

static inline pst_status rig_plan_nodes(struct chain *c, struct arena *specs, const pst_spec *in, pst_error *reterr)
{
    for (size_t i = 0; i < c->count; i++) {
        c->nodes[i].in = i ? c->nodes[i - 1].out : *in;
        pst_status st = spec_init(&c->nodes[i].out, specs, c->nodes[i].in.count, reterr);
        if (st == PST_OK)
            st = c->nodes[i].op->plan(c->nodes[i].config, &c->nodes[i].in, &c->nodes[i].out, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

/* Steps as the engine makes them. */
static inline pst_status rig_make_steps(struct image_rig *r, bool fuse, pst_error *reterr)
{
    struct image_part parts[RIG_MAX];
    for (size_t i = 0; i < r->chain.count && i < RIG_MAX; i++)
        parts[i] = (struct image_part){rig_decl_of(r->chain.nodes[i].op), r->chain.nodes[i].config, r->chain.nodes[i].ordinal};
    for (size_t i = 0; i < r->chain.count;) {
        struct rig_step *s = &r->steps[r->count++];
        size_t count = r->chain.count - i, unit = image_program_unit(parts + i, count);
        size_t length = fuse ? image_program_length(parts + i, count) : unit;
        *s = (struct rig_step){r->chain.nodes[i].op, parts[i].config, NULL, NULL, parts[i].ordinal, r->chain.nodes[i].out, false};
        for (int attempt = 0; (length > 1 || unit) && attempt < 2 && !s->fused; attempt++, length = unit) {
            pst_status st = image_program_create(&s->fused, parts + i, length, !fuse, reterr);
            if (st == PST_OK)
                st = spec_init(&s->out, &r->specs, r->chain.nodes[i].in.count, reterr);
            if (st == PST_OK)
                st = op_image_program.plan(s->fused, &r->chain.nodes[i].in, &s->out, reterr);
            if (st == PST_OK) {
                s->op = &op_image_program;
                s->config = s->fused;
                i += length;
                break;
            }
            if (st == PST_ENOMEM)
                return st;
            image_program_free(s->fused);
            s->fused = NULL;
            s->out = r->chain.nodes[i].out;
        }
        i += s->fused ? 0 : 1;
    }
    return PST_OK;
}

static inline pst_status image_rig_init(struct image_rig *r, const char *text, const pst_spec *in, bool fuse, pst_error *reterr)
{
    *r = (struct image_rig){.ctx = {.seed = 1}};
    pst_status st = rig_parse(&r->chain, text, reterr);
    if (st == PST_OK)
        st = rig_plan_nodes(&r->chain, &r->specs, in, reterr);
    if (st == PST_OK)
        st = rig_make_steps(r, fuse, reterr);
    for (size_t i = 0; i < r->count && st == PST_OK; i++) {
        struct rig_step *s = &r->steps[i];
        s->worker = mem_zalloc(s->op->worker_size + 1);
        s->started = s->worker != NULL;
        st = !s->worker     ? pst_fail(reterr, PST_ENOMEM, "no worker")
             : s->op->start ? s->op->start(s->config, s->worker, reterr)
                            : PST_OK;
    }
    return st;
}

static inline void image_rig_finish(struct image_rig *r)
{
    for (size_t i = 0; i < r->count; i++) {
        struct rig_step *s = &r->steps[i];
        if (s->started && s->op->stop)
            s->op->stop(s->config, s->worker);
        mem_free(s->worker);
        image_program_free(s->fused);
    }
    free(r->given);
    arena_finish(&r->specs);
    arena_finish(&r->ctx.scratch);
    chain_finish(&r->chain);
    *r = (struct image_rig){0};
}

/* Memory of exactly the planned size for every step's result; the last one's is a block of its own. */
static inline pst_status rig_prepare(struct image_rig *r, const struct rig_step *s, bool last, pst_tensor *out,
                                     pst_error *reterr)
{
    const pst_field *f = &s->out.field[0];
    size_t bytes = pst_dtype_size(f->dtype);
    *out = (pst_tensor){.dtype = f->dtype, .rank = f->rank};
    memcpy(out->shape, f->shape, sizeof(f->shape));
    if (rig_varies(f))
        return PST_OK;
    for (uint32_t d = 0; d < f->rank; d++)
        bytes *= f->shape[d];
    if (last) {
        free(r->given);
        r->given = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
        r->size = bytes;
    }
    out->data = last ? r->given : pst_scratch(&r->ctx, bytes);
    if (out->data)
        memset(out->data, 0x5a, bytes);
    return out->data ? PST_OK : pst_fail(reterr, PST_ENOMEM, "no room");
}

/* One element through all steps; its only field is the image. */
static inline struct rig_result image_rig_run(struct image_rig *r, const pst_tensor *in, uint64_t epoch, uint64_t sample)
{
    struct rig_result result = {.tensor = *in};
    pst_tensor out;
    arena_reset(&r->ctx.scratch);
    r->ctx.epoch = epoch;
    r->ctx.sample = sample;
    for (size_t i = 0; i < r->count && result.status == PST_OK; i++) {
        const struct rig_step *s = &r->steps[i];
        if (s->out.field[0].alias >= 0)
            continue;
        result.status = rig_prepare(r, s, i + 1 == r->count, &out, &result.error);
        ctx_enter(&r->ctx, s->ordinal);
        if (result.status == PST_OK)
            result.status = s->op->run(s->config, s->worker, &r->ctx, &result.tensor, &out, &result.error);
        result.tensor = out;
    }
    return result;
}

static inline size_t rig_bytes(const pst_tensor *t)
{
    size_t bytes = pst_dtype_size(t->dtype);
    for (uint32_t d = 0; d < t->rank; d++)
        bytes *= t->shape[d];
    return bytes;
}

static inline bool same_result(const struct rig_result *a, const struct rig_result *b)
{
    if (a->status != b->status)
        return false;
    if (a->status < 0)
        return strcmp(a->error.message, b->error.message) == 0;
    return a->tensor.dtype == b->tensor.dtype && a->tensor.rank == b->tensor.rank &&
           memcmp(a->tensor.shape, b->tensor.shape, a->tensor.rank * sizeof(uint64_t)) == 0 &&
           memcmp(a->tensor.data, b->tensor.data, rig_bytes(&a->tensor)) == 0;
}

static inline uint64_t result_digest(const struct rig_result *r)
{
    uint64_t h = (uint64_t)(r->status + 100);
    if (r->status == PST_OK) {
        h = hash_combine(h, hash_bytes(r->tensor.shape, r->tensor.rank * sizeof(uint64_t), r->tensor.dtype));
        h = hash_combine(h, hash_bytes(r->tensor.data, rig_bytes(&r->tensor), 0));
    }
    return h;
}

#endif
