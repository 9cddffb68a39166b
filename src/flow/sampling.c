/* sampling.c: shows records of the source to an operation that has to see some before it can be planned (its schema
 * facet): `example`, which infers a schema or checks the one that it has. They are spread evenly over an index; of a stream
 * they are the first. Damaged ones are skipped: whether they are tolerated is for the run to say. */
#include "base/error.h"
#include "base/memory.h"
#include "flow/element.h"
#include "flow/plan.h"
#include "io/mapping.h"
#include "ops/ctx.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <string.h>

#define MOST_RECORDS 1000
#define MOST_BYTES   ((uint64_t)16 << 20)
#define FEW_RECORDS  32 /* to check a schema that is given */

struct sampling {
    struct pipeline_plan *plan; /* that of the source */
    size_t field; /* of the source */
    size_t most;  /* records */
    pst_ctx ctx;
    pst_tensor *out; /* one per field of the source */
    struct arena memory;
    uint64_t index[MOST_RECORDS]; /* of the records that are looked at */
    pst_bytes records[MOST_RECORDS];
    size_t count;
    uint64_t bytes;
};

/* Finds the field of a source that field `f` before node `i` of the plan's chain equals, and that source's plan; NULL: it was
 * computed on the way. The elements of a join of the same fields are taken from its first branch. */
static struct pipeline_plan *trace_back(struct pipeline_plan *p, size_t i, size_t *f)
{
    const struct chain *c = p->chain;
    while (--i > 0) {
        if (c->nodes[i].kind != PST_OP_SAMPLE)
            continue;
        if (c->nodes[i].out.field[*f].alias < 0)
            return NULL;
        *f = (size_t)c->nodes[i].out.field[*f].alias;
    }
    if (!p->join)
        return p;
    size_t b = 0;
    while (p->join->facet->together && b + 1 < p->join->count && p->join->branches[b + 1].first_field <= *f)
        b++;
    *f -= p->join->branches[b].first_field;
    struct pipeline_plan *branch = p->join->branches[b].plan;
    return trace_back(branch, branch->chain->count, f);
}

static pst_status keep_record(struct sampling *s, const pst_spec *spec, pst_error *reterr)
{
    const pst_bytes *record = s->out[s->field].data;
    if (!tensor_keeps(&spec->field[s->field], &s->out[s->field]))
        return tensor_refuse(&spec->field[s->field], &s->out[s->field], reterr);
    char *copy = arena_alloc(&s->memory, record->length);
    if (!copy)
        return fail_memory(reterr, "inferring a schema");
    if (record->length)
        memcpy(copy, record->data, record->length);
    s->records[s->count++] = (pst_bytes){(const uint8_t *)copy, record->length};
    s->bytes += record->length;
    return PST_OK;
}

static void prepare(struct sampling *s, const pst_spec *spec, uint64_t sample)
{
    for (size_t f = 0; f < spec->count; f++)
        s->out[f] = field_tensor(&spec->field[f]);
    s->ctx.sample = sample;
    arena_reset(&s->ctx.scratch);
}

static pst_status sample_index(struct sampling *s, const pst_spec *spec, uint64_t total, pst_error *reterr)
{
    const struct source_class *source = s->plan->source_class;
    uint64_t mean = s->plan->element_bytes ? s->plan->element_bytes : 1, wanted = MOST_BYTES / mean + 1;
    wanted = wanted < s->most ? wanted : s->most;
    wanted = wanted < total ? wanted : total;
    void *worker = mem_zalloc(source->worker_size);
    if (!worker)
        return fail_memory(reterr, "inferring a schema");
    pst_status st = source->worker_start ? source->worker_start(s->plan->source, worker, reterr) : PST_OK;
    for (uint64_t i = 0; i < wanted; i++)
        s->index[i] = (uint64_t)((double)i * (double)total / (double)wanted);
    if (st == PST_OK && source->ahead && wanted > 0) /* one after another, each would wait for a distant store */
        source->ahead(s->plan->source, worker, s->index, (size_t)wanted);
    for (uint64_t i = 0; i < wanted && st == PST_OK && s->bytes < MOST_BYTES; i++) {
        uint64_t index = s->index[i];
        prepare(s, spec, index);
        st = source->load(s->plan->source, worker, index, &s->ctx, s->out, reterr);
        if (st == PST_OK)
            st = keep_record(s, spec, reterr);
        else if (st == PST_ECORRUPT)
            st = PST_OK;
        if (st == PST_OK && mapping_any_broken() && source->intact)
            st = source->intact(s->plan->source, index, reterr);
    }
    if (source->worker_stop)
        source->worker_stop(s->plan->source, worker);
    mem_free(worker);
    return st;
}

static pst_status sample_stream(struct sampling *s, const pst_spec *spec, pst_error *reterr)
{
    const struct source_class *source = s->plan->source_class;
    void *stream;
    pst_status st = source->stream_open(s->plan->source, &stream, reterr);
    if (st < 0)
        return st;
    while (st == PST_OK && s->count < MOST_RECORDS && s->bytes < MOST_BYTES) {
        prepare(s, spec, s->count);
        st = source->stream_next(stream, &s->ctx, s->out, reterr);
        if (st == PST_OK)
            st = keep_record(s, spec, reterr);
    }
    source->stream_close(stream);
    damage_intake_drop(&s->plan->intake);
    return st < 0 && !(st == PST_ECORRUPT && s->count > 0) ? st : PST_OK;
}

static pst_status infer_from(struct sampling *s, const struct schema_facet *schema, struct node *n, pst_error *reterr)
{
    const pst_spec *spec = &s->plan->chain->nodes[0].out;
    uint64_t total = s->plan->source_class->count(s->plan->source);
    pst_status st = total == SOURCE_STREAM ? sample_stream(s, spec, reterr) : sample_index(s, spec, total, reterr);
    if (st < 0 || s->count == 0)
        return st; /* without a record the operation's own plan says what is missing */
    return schema->infer(n->config, n->strings, s->records, s->count, reterr);
}

/* Records of an index alone: a stream may be a pipe, which can be read once, or the user's function. */
static pst_status check_with(struct sampling *s, const struct schema_facet *schema, const struct node *n, pst_error *reterr)
{
    uint64_t total = s->plan->source_class->count(s->plan->source);
    if (total == SOURCE_STREAM || sample_index(s, &s->plan->chain->nodes[0].out, total, NULL) < 0 || s->count == 0)
        return PST_OK; /* what cannot be read is for the run to say */
    return schema->check(n->config, s->records, s->count, reterr);
}

pst_status plan_infer_schema(struct pipeline_plan *p, struct chain *c, size_t i, pst_error *reterr)
{
    struct node *n = &c->nodes[i];
    const struct op_decl *decl = op_decl_of(n->op);
    const char *name = decl && decl->schema ? decl->schema->missing(n->config) : NULL;
    size_t field;
    bool check = !name && decl && decl->schema && decl->schema->given;
    if (check)
        name = decl->schema->given(n->config);
    if (!name)
        return PST_OK;
    pst_status st = field_find(&n->in, name, &field, reterr);
    const pst_field *f = &n->in.field[st == PST_OK ? field : 0];
    if (st < 0 || f->dtype != PST_DTYPE_BYTES || f->rank != 0)
        return st; /* the operation's own plan says it better */
    struct pipeline_plan *source = trace_back(p, i, &field);
    if (!source)
        return check ? PST_OK
                     : pst_fail(reterr, PST_EINVAL,
                                "a schema is inferred from the source's own records, and field \"%s\" is computed; give "
                                "one, as in schema=\"image:bytes label:int64\"",
                                name);
    struct sampling *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "inferring a schema");
    s->plan = source;
    s->field = field;
    s->most = check ? FEW_RECORDS : MOST_RECORDS;
    s->out = mem_array(source->chain->nodes[0].out.count, sizeof(*s->out));
    if (!s->out)
        st = fail_memory(reterr, "inferring a schema");
    else
        st = check ? check_with(s, decl->schema, n, reterr) : infer_from(s, decl->schema, n, reterr);
    mem_free(s->out);
    arena_finish(&s->memory);
    arena_finish(&s->ctx.scratch);
    mem_free(s);
    return st;
}
