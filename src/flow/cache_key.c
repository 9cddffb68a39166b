/* cache_key.c: what a cache on disk belongs to.
 *
 * The key covers everything that the elements depend on: the version of the library, the data, every operation up to the
 * cache with its arguments, the fields that are stored. Where the elements are made of others by the order of a segment or a
 * join, the seed is part of it. */
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/join_plan.h"
#include "flow/plan.h"
#include "flow/segment.h"

#include <inttypes.h>
#include <string.h>

/* Adds the first `count` nodes of a plan, segments and branches before them. */
static void add_plan(struct text *t, const struct pipeline_plan *p, size_t count, uint64_t seed)
{
    bool is_segment = p->source_class->inner != NULL;
    if (is_segment) {
        const struct pipeline_plan *inner = p->source_class->inner(p->source);
        add_plan(t, inner, inner->chain->count, seed);
    }
    for (size_t b = 0; p->join && b < p->join->count; b++) {
        const struct pipeline_plan *branch = p->join->branches[b].plan;
        text_add(t, "(");
        add_plan(t, branch, branch->chain->count, seed);
        text_add(t, ") ");
    }
    for (size_t i = 0; i < count; i++) {
        char *text = i == 0 && is_segment ? mem_strdup("segment") : node_text(&p->chain->nodes[i]);
        t->failed |= !text;
        text_addf(t, "%s%s", i || is_segment ? " | " : "", text ? text : "");
        if (p->chain->nodes[i].op->fingerprint && i > 0)
            text_addf(t, " #%016" PRIx64, p->chain->nodes[i].op->fingerprint(p->chain->nodes[i].config));
        mem_free(text);
    }
    text_addf(t, " #%016" PRIx64, p->source_class->fingerprint(p->source));
    if (is_segment || p->join)
        text_addf(t, " seed %" PRIu64, seed);
}

/* Adds the fields that are stored. */
static void add_fields(struct text *t, const pst_spec *spec, const struct field_list *stored)
{
    char shape[SHAPE_TEXT_SIZE];
    for (size_t k = 0; k < stored->count; k++) {
        const pst_field *f = &spec->field[stored->number[k]];
        text_addf(t, "%s%s: %s %s", k ? ", " : "", f->name, pst_dtype_name(f->dtype),
                  shape_text(f->rank, f->shape, shape, sizeof(shape)));
    }
}

/* Hashes the text, which becomes `*ret_about`. */
static pst_status take_key(struct text *t, uint64_t ret[2], char **ret_about, pst_error *reterr)
{
    text_addf(t, "\nversion   penstock %s, %zu-bit\n", pst_version(), 8 * sizeof(void *));
    if (t->failed) {
        text_finish(t);
        return fail_memory(reterr, "planning");
    }
    ret[0] = hash_bytes(t->data, t->length, 1);
    ret[1] = hash_bytes(t->data, t->length, 2);
    *ret_about = t->data;
    return PST_OK;
}

pst_status plan_cache_key(const struct pipeline_plan *p, uint64_t seed, uint64_t ret[2], char **ret_about, pst_error *reterr)
{
    struct text t = {0};
    text_add(&t, "pipeline  ");
    add_plan(&t, p, p->cache_node, seed);
    text_add(&t, "\nfields    ");
    add_fields(&t, program_spec(&p->program, p->program.cached), program_live(&p->program, p->program.cached));
    return take_key(&t, ret, ret_about, reterr);
}

pst_status plan_snapshot_key(const struct pipeline_plan *p, const struct field_list *fields, bool tolerant, uint64_t ret[2],
                             char **ret_about, pst_error *reterr)
{
    struct text t = {0};
    text_add(&t, "pipeline  ");
    add_plan(&t, p, p->chain->count, p->seed);
    text_addf(&t, " | snapshot, seed %" PRIu64 "%s\nfields    ", p->seed, tolerant ? ", without damaged elements" : "");
    add_fields(&t, program_spec(&p->program, p->program.count), fields);
    return take_key(&t, ret, ret_about, reterr);
}
