/* describe.c: the plan in words, or as JSON: what each operation makes of the elements, what runs together, where the order
 * comes from, what is kept in memory, and the choices with their reasons. */
#include "base/memory.h"
#include "base/text.h"
#include "flow/cache.h"
#include "flow/element.h"
#include "flow/pipeline.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE 512

static const char *readable_count(uint64_t n, const char *of, char *buffer, size_t size)
{
    if (n == ORDER_ENDLESS)
        snprintf(buffer, size, "endless %s", of);
    else if (n == ORDER_UNKNOWN)
        snprintf(buffer, size, "%s of unknown number", of);
    else
        snprintf(buffer, size, "%" PRIu64 " %s", n, of);
    return buffer;
}

/* One sentence on where the order of the elements comes from. */
static void order_sentence(const struct pipeline_plan *p, char *buffer, size_t size)
{
    const struct order_step *shuffle = NULL;
    char bytes[32];
    for (size_t i = 0; i < p->order.count; i++)
        if (p->order.steps[i].kind == ORDER_SHUFFLE)
            shuffle = &p->order.steps[i];
    if (p->program.streamed && shuffle)
        snprintf(buffer, size, "a stream: elements are drawn from a buffer of %s; seeking reads again from the front",
                 text_bytes(p->ram_stream, bytes, sizeof(bytes)));
    else if (p->program.streamed)
        snprintf(buffer, size, "a stream: as it comes; seeking reads again from the front");
    else if (shuffle && shuffle->chunk)
        snprintf(buffer, size,
                 "an index: runs of %" PRIu64 " neighbours are shuffled, then the elements within windows of %" PRIu64
                 "; seeking costs nothing",
                 shuffle->chunk, shuffle->window);
    else if (shuffle)
        snprintf(buffer, size, "an index: the shuffle is exact and global, without a buffer; seeking costs nothing");
    else
        snprintf(buffer, size, "an index: as stored; seeking costs nothing");
}

/* Fields of the source that are never loaded, by name; empty: all are needed. */
static void unused_fields(const struct program *p, char *buffer, size_t size)
{
    char name[FIELD_LABEL_SIZE];
    size_t n = 0;
    buffer[0] = '\0';
    for (size_t f = 0; f < p->in.count && n < size; f++)
        if (!p->needed[f])
            n += (size_t)snprintf(buffer + n, size - n, "%s%s", n ? ", " : "", field_label(&p->in.field[f], name));
}

static void describe_source(const struct pipeline_plan *p, char *buffer, size_t size)
{
    buffer[0] = '\0';
    if (p->source_class->describe)
        p->source_class->describe(p->source, buffer, size);
}

/* Where decoding of JPEGs may begin in the middle, and whose points those are; empty: nothing is decoded. */
static void entropy_sentence(const struct pipeline_plan *p, char *buffer, size_t size)
{
    char bytes[32];
    text_bytes(p->ram_entropy, bytes, sizeof(bytes));
    buffer[0] = '\0';
    if (p->entropy == ENTROPY_STORED)
        snprintf(buffer, size, "in the sidecars");
    else if (p->entropy == ENTROPY_STREAM)
        snprintf(buffer, size, "none: it is for elements by their number, and this is a stream");
    else if (p->entropy != ENTROPY_NONE && p->ram_entropy == 0)
        snprintf(buffer, size, "none: the RAM budget has no room for it");
    else if (p->entropy == ENTROPY_PARTLY)
        snprintf(buffer, size, "in some sidecars, the rest collected while decoding, up to %s", bytes);
    else if (p->entropy == ENTROPY_MADE)
        snprintf(buffer, size, "collected while decoding, up to %s%s", bytes,
                 p->source_class->entropy ? "; `penstock index --entropy` stores it" : "");
}

/* The program as one line: "read, decode+resize, label (not run) → batch". */
static void program_line(const struct program *p, struct text *t)
{
    text_add(t, "read");
    for (size_t i = 0; i <= p->count; i++) {
        if (i == p->cached)
            text_add(t, ", cache");
        if (i == p->count)
            break;
        bool writes = p->steps[i].op->run != NULL;
        text_addf(t, ", %s%s", p->steps[i].name,
                  p->steps[i].runs ? ""
                  : writes         ? " (left out: nothing needs it)"
                                   : " (costs nothing)");
    }
}

static bool in_place(const struct program *p, size_t column)
{
    return p->in_place[column];
}

/* What was chosen for an operation once the whole chain was known. */
static const char *choice_of(const struct node *n, const char **ret_reason)
{
    const struct op_decl *op = op_decl_of(n->op);
    return op && op->choice ? op->choice(n->config, ret_reason) : NULL;
}

static void describe_choice(const struct node *n, struct text *t)
{
    const char *reason, *choice = choice_of(n, &reason);
    if (choice)
        text_addf(t, "      %s: %s\n", choice, reason);
}

static void describe_words(const pst_pipeline *p, struct text *t)
{
    const struct pipeline_plan *plan = p->plan;
    const struct program *program = &plan->program;
    char line[LINE], a[64], b[64], name[FIELD_LABEL_SIZE];
    for (size_t i = 0; i < plan->chain->count; i++) {
        char *canonical = node_text(&plan->chain->nodes[i]);
        text_addf(t, "%2zu  %s\n", i, canonical ? canonical : plan->chain->nodes[i].op->name);
        t->failed |= !canonical;
        mem_free(canonical);
        if (plan->chain->nodes[i].kind == PST_OP_SOURCE || plan->chain->nodes[i].kind == PST_OP_SAMPLE)
            text_addf(t, "      → %s\n", pst_spec_text(&plan->chain->nodes[i].out, line, sizeof(line)));
        describe_choice(&plan->chain->nodes[i], t);
    }
    text_addf(t, "delivers  %s\n", pst_spec_text(&plan->batch, line, sizeof(line)));
    describe_source(plan, line, sizeof(line));
    text_addf(t, "source    %s; %s\n", readable_count(plan->order.source, "elements", a, sizeof(a)), line);
    unused_fields(program, line, sizeof(line));
    if (line[0])
        text_addf(t, "unused    %s: not loaded\n", line);
    order_sentence(plan, line, sizeof(line));
    text_addf(t, "order     %s\n", line);
    entropy_sentence(plan, line, sizeof(line));
    if (line[0])
        text_addf(t, "entropy   %s\n", line);
    text_addf(t, "epoch     %s", readable_count(plan->order.batches, "batches", a, sizeof(a)));
    if (plan->split.world > 1)
        text_addf(t, " over %u ranks; rank %u: %s", plan->split.world, plan->split.rank,
                  readable_count(feed_steps(&plan->order, &plan->split, 0), "batches", b, sizeof(b)));
    text_add(t, "\nworker    ");
    program_line(program, t);
    text_add(t, "\nin place  ");
    size_t before = t->length;
    for (size_t c = 0; c < program->layout.fields; c++)
        if (in_place(program, c))
            text_addf(t, "%s%s", t->length > before ? ", " : "", field_label(&program->layout.column[c].field, name));
    text_add(t, t->length > before ? "\n" : "nothing\n");
    text_addf(t, "batch     %s in fixed slots%s\n", text_bytes(program->layout.block, a, sizeof(a)),
              program->layout.varies ? ", and what varies" : "");
    text_addf(t, "memory    %s planned of %s", text_bytes(tune_planned(&p->tuner, plan, 0), a, sizeof(a)),
              text_bytes(plan->ram, b, sizeof(b)));
    if (plan->cache)
        text_addf(t, "; cache %s", text_bytes(plan->ram_cache, a, sizeof(a)));
    text_addf(t, "\nworkers   %s\nprefetch  %s\n", p->tuner.workers_reason, p->tuner.depth_reason);
}

/* ---- JSON ---- */

static void json_string(struct text *t, const char *name, const char *value)
{
    text_addf(t, "\"%s\": ", name);
    text_add_json(t, value, strlen(value));
}

static void json_count(struct text *t, const char *name, uint64_t n)
{
    if (n >= ORDER_UNKNOWN)
        text_addf(t, "\"%s\": null", name);
    else
        text_addf(t, "\"%s\": %" PRIu64, name, n);
}

static void json_spec(struct text *t, const pst_spec *spec)
{
    text_add(t, "[");
    for (size_t i = 0; i < spec->count; i++) {
        text_add(t, i ? ", {" : "{");
        json_string(t, "name", spec->field[i].name);
        text_addf(t, ", \"dtype\": \"%s\", \"shape\": [", pst_dtype_name(spec->field[i].dtype));
        for (uint32_t d = 0; d < spec->field[i].rank; d++) {
            text_add(t, d ? ", " : "");
            if (spec->field[i].shape[d] == PST_ANY)
                text_add(t, "null");
            else
                text_addf(t, "%" PRIu64, spec->field[i].shape[d]);
        }
        text_add(t, "]}");
    }
    text_add(t, "]");
}

static void json_nodes(const struct chain *c, struct text *t)
{
    text_add(t, "  \"operations\": [");
    for (size_t i = 0; i < c->count; i++) {
        char *canonical = node_text(&c->nodes[i]);
        t->failed |= !canonical;
        text_add(t, i ? ",\n    {" : "\n    {");
        json_string(t, "name", c->nodes[i].op->name);
        text_add(t, ", ");
        json_string(t, "text", canonical ? canonical : "");
        text_add(t, ", \"fields\": ");
        json_spec(t, &c->nodes[i].out);
        const char *reason, *choice = choice_of(&c->nodes[i], &reason);
        if (choice) {
            text_add(t, ", ");
            json_string(t, "choice", choice);
            text_add(t, ", ");
            json_string(t, "choice_reason", reason);
        }
        text_add(t, "}");
        mem_free(canonical);
    }
    text_add(t, "\n  ],\n");
}

static void json_steps(const struct program *p, struct text *t)
{
    text_add(t, "  \"steps\": [");
    for (size_t i = 0; i < p->count; i++) {
        text_add(t, i ? ", {" : "{");
        json_string(t, "name", p->steps[i].name);
        text_addf(t, ", \"operations\": %zu, \"runs\": %s}", p->steps[i].count, p->steps[i].runs ? "true" : "false");
    }
    text_add(t, "],\n  \"in_place\": [");
    const char *comma = "";
    for (size_t c = 0; c < p->layout.fields; c++) {
        if (!in_place(p, c))
            continue;
        text_add(t, comma);
        text_add_json(t, p->layout.column[c].field.name, strlen(p->layout.column[c].field.name));
        comma = ", ";
    }
    text_add(t, "],\n");
}

static void describe_json(const pst_pipeline *p, struct text *t)
{
    const struct pipeline_plan *plan = p->plan;
    char line[LINE];
    text_add(t, "{\n");
    json_nodes(plan->chain, t);
    json_steps(&plan->program, t);
    text_add(t, "  \"delivers\": ");
    json_spec(t, &plan->batch);
    describe_source(plan, line, sizeof(line));
    text_add(t, ",\n  ");
    json_string(t, "source", line);
    text_add(t, ",\n  ");
    json_count(t, "elements", plan->order.source);
    text_addf(t, ",\n  \"indexed\": %s,\n  ", plan->program.streamed ? "false" : "true");
    order_sentence(plan, line, sizeof(line));
    json_string(t, "order", line);
    text_add(t, ",\n  ");
    entropy_sentence(plan, line, sizeof(line));
    json_string(t, "entropy", line[0] ? line : "none");
    text_add(t, ",\n  ");
    json_count(t, "batches", plan->order.batches);
    text_add(t, ",\n  ");
    json_count(t, "rank_batches", feed_steps(&plan->order, &plan->split, 0));
    text_addf(t,
              ",\n  \"fingerprint\": \"%016" PRIx64 "\",\n  \"batch_bytes\": %zu,\n  \"ram\": %" PRIu64
              ",\n  \"ram_planned\": %" PRIu64 ",\n  \"cache_bytes\": %" PRIu64 ",\n  \"workers\": %u,\n  ",
              plan->fingerprint, plan->program.layout.block, plan->ram, tune_planned(&p->tuner, plan, 0), plan->ram_cache,
              p->tuner.workers);
    json_string(t, "workers_reason", p->tuner.workers_reason);
    text_addf(t, ",\n  \"prefetch\": %zu,\n  ", p->tuner.depth);
    json_string(t, "prefetch_reason", p->tuner.depth_reason);
    text_add(t, "\n}\n");
}

pst_status pst_pipeline_describe(pst_pipeline *p, bool json, char **ret, pst_error *reterr)
{
    struct text t = {0};
    pst_status st = pst_pipeline_plan(p, reterr);
    if (st < 0)
        return st;
    if (json)
        describe_json(p, &t);
    else
        describe_words(p, &t);
    if (t.failed || !t.data) {
        text_finish(&t);
        return pst_fail(reterr, PST_ENOMEM, "describing the plan: out of memory");
    }
    *ret = t.data;
    return PST_OK;
}
