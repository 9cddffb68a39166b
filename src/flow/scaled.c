/* scaled.c: refuses to scale the levels of an image twice.
 *
 * Follows each field through a planned chain: which operation scaled its levels, as `normalize` does. Operations that move pixels or
 * change the type keep that; one that writes the field anew ends it. Branches and inner pipelines hand on what they found. */
#include "base/error.h"
#include "flow/join_plan.h"
#include "flow/plan.h"
#include "ops/fields.h"
#include "ops/image/image_op.h"
#include "ops/join_facet.h"

/* Returns the operation that scaled field `f` of the source of a plan; NULL: none. */
static const char *from_source(const struct pipeline_plan *p, size_t f)
{
    const pst_spec *spec = &p->chain->nodes[0].out;
    const char *found = NULL;
    for (size_t b = 0; p->join && b < p->join->count && !found; b++) {
        const struct pipeline_plan *branch = p->join->branches[b].plan;
        size_t first = p->join->facet->together ? p->join->branches[b].first_field : 0;
        if (f >= first && f - first < branch->chain->nodes[branch->chain->count - 1].out.count)
            found = branch->scaled[f - first];
    }
    const struct pipeline_plan *inner = !p->join && p->source_class->inner ? p->source_class->inner(p->source) : NULL;
    int at = inner ? pst_spec_find(&inner->chain->nodes[inner->chain->count - 1].out, spec->field[f].name) : -1;
    return at >= 0 ? inner->scaled[at] : found;
}

/* The same after node `n`, with those of the fields before it. */
static const char *after(const struct node *n, size_t f, const char *const *before)
{
    const struct image_facet *image = op_image(op_decl_of(n->op));
    if (n->kind != PST_OP_SAMPLE && !n->op->plan)
        return before[f];
    if (n->out.field[f].alias >= 0)
        return before[n->out.field[f].alias];
    if (!image || image->decodes || ((const struct image_field *)n->config)->number != f)
        return NULL;
    return image->factors ? n->op->name : before[f];
}

static pst_status check_node(const struct node *n, const char *const *before, pst_error *reterr)
{
    const struct image_facet *image = op_image(op_decl_of(n->op));
    char label[FIELD_LABEL_SIZE];
    size_t f = image && image->factors ? ((const struct image_field *)n->config)->number : SIZE_MAX;
    if (f == SIZE_MAX || !before[f])
        return PST_OK;
    return pst_fail(reterr, PST_EINVAL, "field %s has levels that %s scaled already; leave one of them out", field_label(&n->in.field[f], label), before[f]);
}

pst_status plan_check_scales(struct pipeline_plan *p, pst_error *reterr)
{
    const struct chain *c = p->chain;
    for (size_t i = 0; i < c->count; i++) {
        const struct node *n = &c->nodes[i];
        const char *const *before = p->scaled;
        pst_status st = i ? check_node(n, before, reterr) : PST_OK;
        if (st < 0)
            return plan_point(c, i, st, reterr);
        const char **now = arena_alloc(&p->memory, (n->out.count + 1) * sizeof(*now));
        if (!now)
            return fail_memory(reterr, "planning");
        for (size_t f = 0; f < n->out.count; f++)
            now[f] = i ? after(n, f, before) : from_source(p, f);
        p->scaled = now;
    }
    return PST_OK;
}
