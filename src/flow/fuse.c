/* fuse.c: which operations run, one by one or together.
 *
 * Operations on elements do not notice how their elements were ordered or batched, so the order operations between them fall
 * away here; order.c has them. Runs of image operations become one pass, unless a cache comes between them. Neither changes a
 * result. A fast decode and what follows it up to the resize are one pass in any case: what they mean, they mean together. */
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/element.h"
#include "flow/plan.h"
#include "ops/image/image_op.h"
#include "ops/spec_memory.h"

#include <string.h>

static bool is_cache(const struct node *n)
{
    const struct op_decl *decl = op_decl_of(n->op);
    return decl && decl->resource && decl->resource->kind == RESOURCE_CACHE;
}

/* The operations on elements from node `i` on that a cache does not separate; their nodes too. */
static size_t collect(const struct chain *c, size_t i, struct image_part *parts, size_t *nodes)
{
    size_t n = 0;
    for (; i < c->count && !is_cache(&c->nodes[i]); i++) {
        if (c->nodes[i].kind != PST_OP_SAMPLE && !c->nodes[i].op->run)
            continue;
        const struct op_decl *decl = op_decl_of(c->nodes[i].op);
        parts[n] = (struct image_part){.op = decl, .config = c->nodes[i].config, .ordinal = c->nodes[i].ordinal};
        nodes[n++] = i;
    }
    return n;
}

static bool join_names(char *name, size_t size, const struct image_part *parts, size_t count)
{
    struct text t = {0};
    for (size_t i = 0; i < count; i++)
        text_addf(&t, "%s%s", i ? "+" : "", parts[i].op->op.name);
    bool whole = !t.failed;
    if (whole)
        program_fit_name(name, size, t.data);
    text_finish(&t);
    return whole;
}

static bool same_fields(const pst_spec *a, const pst_spec *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const pst_field *f = &a->field[i], *g = &b->field[i];
        if (strcmp(f->name, g->name) != 0 || f->dtype != g->dtype || f->rank != g->rank ||
            !shape_equal(f->rank, f->shape, g->shape))
            return false;
    }
    return true;
}

/* A step for the first `count` parts. `*ret_fused` is false when they do not go together after all. */
static pst_status fuse(struct pipeline_plan *p, const struct image_part *parts, const size_t *nodes, size_t count, bool plainly,
                       bool *ret_fused, pst_error *reterr)
{
    const struct node *first = &p->chain->nodes[nodes[0]], *last = &p->chain->nodes[nodes[count - 1]];
    struct step s = {.op = &op_image_program, .ordinal = first->ordinal, .first = nodes[0], .count = count, .number = STEP_NO_NUMBER};
    pst_error refusal = {0};
    *ret_fused = false;
    pst_status st = image_program_create(&s.fused, parts, count, plainly, reterr);
    if (st < 0)
        return st;
    s.config = s.fused;
    st = join_names(s.name, sizeof(s.name), parts, count) ? spec_init(&s.out, &p->memory, first->in.count, &refusal)
                                                          : fail_memory(&refusal, "planning");
    if (st == PST_OK)
        st = op_image_program.plan(s.fused, &first->in, &s.out, &refusal);
    *ret_fused = st == PST_OK && same_fields(&s.out, &last->out);
    if (*ret_fused)
        st = program_push(&p->program, &s, &refusal);
    if (st == PST_OK && *ret_fused)
        return PST_OK;
    image_program_free(s.fused);
    if (st == PST_ENOMEM && reterr)
        *reterr = refusal;
    return st == PST_ENOMEM ? st : PST_OK;
}

static pst_status push_single(struct pipeline_plan *p, size_t i, pst_error *reterr)
{
    const struct node *n = &p->chain->nodes[i];
    const struct op_decl *decl = op_decl_of(n->op);
    struct step s = {.op = n->op, .config = n->config, .ordinal = n->ordinal, .first = i, .count = 1, .out = n->out};
    s.number = decl && decl->order ? n->number : STEP_NO_NUMBER;
    s.cause = op_cause(decl);
    program_fit_name(s.name, sizeof(s.name), n->op->name);
    return program_push(&p->program, &s, reterr);
}

pst_status rewrite_steps(struct pipeline_plan *p, bool no_fuse, pst_error *reterr)
{
    const struct chain *c = p->chain;
    struct image_part *parts = mem_array(c->count, sizeof(*parts));
    size_t *nodes = mem_array(c->count, sizeof(*nodes));
    pst_status st = parts && nodes ? PST_OK : fail_memory(reterr, "planning");
    for (size_t i = 1; i < c->count && st == PST_OK; i++) {
        if (is_cache(&c->nodes[i]))
            p->program.cached = p->program.count;
        if (c->nodes[i].kind != PST_OP_SAMPLE && !c->nodes[i].op->run)
            continue;
        bool fused = false;
        size_t count = collect(c, i, parts, nodes), unit = image_program_unit(parts, count);
        size_t length = no_fuse ? unit : image_program_length(parts, count);
        image_program_choose(c->nodes[i].config, parts, count);
        if (length > 1 || unit)
            st = fuse(p, parts, nodes, length, no_fuse, &fused, reterr);
        if (st == PST_OK && !fused && unit) {
            length = unit;
            st = fuse(p, parts, nodes, length, no_fuse, &fused, reterr);
            if (st == PST_OK && !fused) /* one by one it would be something else */
                st = pst_fail(reterr, PST_EUNSUPPORTED, "operations after a fast decode cannot be planned; try quality=exact");
        }
        if (st == PST_OK && fused)
            i = nodes[length - 1];
        else if (st == PST_OK)
            st = push_single(p, i, reterr);
    }
    mem_free(parts);
    mem_free(nodes);
    return st;
}
