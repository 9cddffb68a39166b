/* describe.c: the plan in words, or as JSON: what each operation makes of the elements, what runs together, where the order
 * comes from, what is kept in memory, and the choices with their reasons. */
#include "base/digits.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/text.h"
#include "flow/element.h"
#include "flow/element_cache.h"
#include "flow/evaluate_elements.h"
#include "flow/pipeline.h"
#include "flow/segment.h"
#include "ops/fields.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE 512

static const char *readable_count(uint64_t n, const char *one, const char *of, char *buffer, size_t size)
{
    if (n == ORDER_ENDLESS)
        snprintf(buffer, size, "endless %s", of);
    else if (n == ORDER_UNKNOWN)
        snprintf(buffer, size, "%s of unknown number", of);
    else
        snprintf(buffer, size, "%" PRIu64 " %s", n, n == 1 ? one : of);
    return buffer;
}

/* Describes how close drawing from `drawn` of `total` elements is to an exact shuffle: " = 0.1 % of the data: weak". */
static const char *shuffle_grade(uint64_t drawn, uint64_t total, char *buffer, size_t size)
{
    double share = total ? 100.0 * (double)drawn / (double)total : 100;
    if (total >= ORDER_UNKNOWN)
        snprintf(buffer, size, ": exact for up to %" PRIu64 ", weak for larger data", drawn);
    else if (share >= 100)
        snprintf(buffer, size, " = all of the data: exact");
    else
        digits_print(buffer, size, " = %.2g %% of the data: %s", share, share >= 10 ? "good" : share >= 1 ? "fair" : "weak");
    return buffer;
}

/* The shuffle of a stream. */
static void stream_sentence(const struct order_step *shuffle, char *buffer, size_t size)
{
    char bytes[32], grade[96];
    if (shuffle->drawn)
        snprintf(buffer, size, "a stream: drawn from a buffer of %" PRIu64 " element%s%s; seeking reads again from the beginning",
                 shuffle->drawn, shuffle->drawn == 1 ? "" : "s",
                 shuffle_grade(shuffle->drawn, shuffle->inner, grade, sizeof(grade)));
    else
        snprintf(
            buffer, size,
            "a stream: drawn from a buffer of %s: exact if all elements fit, weak for larger data; seeking reads again "
            "from the beginning",
            text_bytes(shuffle->buffer, bytes, sizeof(bytes)));
}

/* One sentence on where the order of the elements comes from. */
static void order_sentence(const struct pipeline_plan *p, char *buffer, size_t size)
{
    const struct order_step *shuffle = NULL;
    char grade[96];
    for (size_t i = 0; i < p->order.count; i++)
        if (p->order.steps[i].kind == ORDER_SHUFFLE)
            shuffle = &p->order.steps[i];
    if (p->program.streamed && shuffle)
        stream_sentence(shuffle, buffer, size);
    else if (p->program.streamed)
        snprintf(buffer, size, "a stream: as it comes; seeking reads again from the beginning");
    else if (shuffle && shuffle->chunk)
        snprintf(buffer, size,
                 "an index: runs of %" PRIu64 " neighbours are shuffled, then the elements within windows of %" PRIu64
                 "%s; seeking costs nothing",
                 shuffle->chunk, shuffle->window, shuffle_grade(shuffle->window, shuffle->inner, grade, sizeof(grade)));
    else if (shuffle)
        snprintf(buffer, size, "an index: the shuffle is exact and global, without a buffer; seeking costs nothing");
    else if (p->resample)
        snprintf(buffer, size, "an index: drawn by class, shuffled within each; seeking costs nothing");
    else
        snprintf(buffer, size, "an index: as stored; seeking costs nothing");
}

/* What parts for hosts give, and what they cost; empty: there are none. */
static void hosts_sentence(const struct pipeline_plan *p, char *buffer, size_t size)
{
    const struct order_step *batch = p->order.batch == SIZE_MAX ? NULL : &p->order.steps[p->order.batch];
    buffer[0] = '\0';
    if (!batch || batch->parts <= 1)
        return;
    snprintf(buffer, size,
             "%" PRIu64 " parts, one per host: a host reads %.3g %% of the data, the same in every epoch, and %" PRIu64
             " of %" PRIu64 " batches may come from another part; in return the shuffle does not mix the parts",
             batch->parts, 100.0 / (double)batch->parts, batch->outer % batch->parts, batch->outer);
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

/* Describes which points allow decoding to start inside JPEGs; empty: nothing is decoded. */
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

#define BRANCHES_SHOWN 8 /* of a join in the line of the program */

/* The program as one line: "read, decode+resize, label (not run) → batch"; branches in parentheses. */
static void program_line(const struct program *p, struct text *t)
{
    const struct join *j = p->join;
    for (size_t b = 0; j && b < j->count && b < BRANCHES_SHOWN; b++) {
        text_add(t, b ? " (" : "(");
        program_line(j->branches[b].program, t);
        text_add(t, ")");
    }
    if (j && j->count > BRANCHES_SHOWN)
        text_addf(t, " and %zu more", j->count - BRANCHES_SHOWN);
    text_add(t, j ? " " : "read");
    text_add(t, j ? j->op->name : "");
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

/* Returns what was chosen for an operation once the whole chain was known. */
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

/* Whether the plan begins with a segment that was planned by itself. */
static bool has_segment(const struct pipeline_plan *plan)
{
    return plan->source_class->inner != NULL;
}

/* "keeps 10 of 100 elements (stored: the next run does not test them again)" */
static void describe_filter(const struct pipeline_plan *plan, size_t i, const char *indent, struct text *t)
{
    const struct op_decl *decl = op_decl_of(plan->chain->nodes[i].op);
    const struct kept_bits *bits = plan->filters;
    size_t later = 0; /* filters after this one: the list has the last one first */
    if (!decl || !decl->filter)
        return;
    for (size_t k = i + 1; k < plan->chain->count; k++) {
        const struct op_decl *other = op_decl_of(plan->chain->nodes[k].op);
        later += other && other->filter;
    }
    while (bits && later-- > 0)
        bits = bits->next;
    if (bits)
        text_addf(t, "%s      keeps %" PRIu64 " of %" PRIu64 " elements%s\n", indent, bits->map.ones, bits->map.count,
                  bits->stored ? "; stored beside the data or in the cache folder" : "; not stored: tested in every run");
    if (bits && plan->ram_kept > 0 && &bits->map == plan->order.steps[0].bits) {
        char bytes[32];
        text_bytes(plan->ram_kept, bytes, sizeof(bytes));
        text_addf(t, "%s      small and far apart: copied side by side when they are first read, %s of memory\n", indent, bytes);
    }
}

/* The operations of a plan, those of branches before the join that they belong to, indented. */
static void describe_nodes(const struct pipeline_plan *plan, unsigned depth, struct text *t)
{
    char line[LINE], count[64], indent[3 * LANG_MAX_DEPTH + 1];
    unsigned blanks = depth < LANG_MAX_DEPTH ? 3 * depth : 3 * LANG_MAX_DEPTH;
    memset(indent, ' ', blanks);
    indent[blanks] = '\0';
    for (size_t b = 0; plan->join && b < plan->join->count; b++) {
        const struct pipeline_plan *branch = plan->join->branches[b].plan;
        if (b == BRANCHES_SHOWN) {
            text_addf(t, "%s   and %zu more branches\n", indent, plan->join->count - b);
            break;
        }
        text_addf(t, "%s   branch %zu of %s: %s, by an index\n", indent, b + 1, plan->join->op->name,
                  readable_count(branch->order.batches, "element", "elements", count, sizeof(count)));
        describe_nodes(branch, depth + 1, t);
    }
    for (size_t i = 0; i < plan->chain->count; i++) {
        const struct node *n = &plan->chain->nodes[i];
        bool is_segment = i == 0 && has_segment(plan);
        char *canonical = is_segment ? mem_strdup("segment") : i == 0 && plan->join ? lang_head(n->written) : node_text(n);
        text_addf(t, "%s%2zu  ", indent, i);
        text_add_shown(t, canonical ? canonical : n->op->name);
        text_add(t, "\n");
        t->failed |= !canonical;
        mem_free(canonical);
        if (n->kind == PST_OP_SOURCE || n->kind == PST_OP_SAMPLE)
            text_addf(t, "%s      → %s\n", indent, pst_spec_text(&n->out, line, sizeof(line)));
        describe_filter(plan, i, indent, t);
        describe_choice(n, t);
    }
}

static void describe_words(const pst_pipeline *p, bool runs, struct text *t)
{
    const struct pipeline_plan *plan = p->plan;
    const struct program *program = &plan->program;
    char line[LINE], a[64], b[64], name[FIELD_LABEL_SIZE];
    if (has_segment(plan)) {
        describe_words(segment_pipeline(plan->source), program->streamed, t);
        text_add(t, "\n");
    }
    describe_nodes(plan, 0, t);
    text_addf(t, "delivers  %s\n", pst_spec_text(&plan->batch, line, sizeof(line)));
    describe_source(plan, line, sizeof(line));
    text_addf(t, "source    %s; %s\n", readable_count(plan->order.source, "element", "elements", a, sizeof(a)), line);
    unused_fields(program, line, sizeof(line));
    if (line[0])
        text_addf(t, "unused    %s: not loaded\n", line);
    order_sentence(plan, line, sizeof(line));
    text_addf(t, "order     %s\n", line);
    hosts_sentence(plan, line, sizeof(line));
    if (line[0])
        text_addf(t, "hosts     %s\n", line);
    entropy_sentence(plan, line, sizeof(line));
    if (line[0])
        text_addf(t, "entropy   %s\n", line);
    text_addf(t, "epoch     %s", readable_count(plan->order.batches, "batch", "batches", a, sizeof(a)));
    if (plan->split.world > 1)
        text_addf(t, " over %u ranks; rank %u: %s", plan->split.world, plan->rank,
                  readable_count(feed_steps(&plan->order, &plan->split, 0), "batch", "batches", b, sizeof(b)));
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
    if (!runs) { /* the workers of the next segment run it */
        text_add(t, "workers   those of the next segment\n");
        return;
    }
    text_addf(t, "memory    %s planned of %s", text_bytes(tune_planned(&p->tuner, plan, 0), a, sizeof(a)),
              text_bytes(plan->ram, b, sizeof(b)));
    if (plan->cache)
        text_addf(t, "; cache %s", text_bytes(plan->ram_cache, a, sizeof(a)));
    text_addf(t, "\nworkers   %s\nprefetch  %s\n", p->tuner.workers_reason, p->tuner.depth_reason);
}

/* ---- JSON ---- */

static void json_count(struct json *j, const char *key, uint64_t n)
{
    if (n >= ORDER_UNKNOWN)
        json_null(j, key);
    else
        json_uint(j, key, n);
}

static void json_spec(struct json *j, const char *key, const pst_spec *spec)
{
    json_begin_array(j, key);
    for (size_t i = 0; i < spec->count; i++) {
        const pst_field *f = &spec->field[i];
        json_begin_object(j, NULL);
        json_string(j, "name", f->name);
        json_string(j, "dtype", pst_dtype_name(f->dtype));
        json_begin_array(j, "shape");
        for (uint32_t d = 0; d < f->rank; d++) {
            if (f->shape[d] == PST_ANY)
                json_null(j, NULL);
            else
                json_uint(j, NULL, f->shape[d]);
        }
        json_end_array(j);
        json_end_object(j);
    }
    json_end_array(j);
}

/* False: out of memory. */
static bool json_nodes(const struct pipeline_plan *plan, const char *key, struct json *j)
{
    const struct chain *c = plan->chain;
    bool whole = true;
    json_begin_array(j, key);
    json_lines(j);
    for (size_t i = 0; i < c->count; i++) {
        bool is_segment = i == 0 && has_segment(plan);
        const char *reason, *choice = choice_of(&c->nodes[i], &reason);
        char *canonical = is_segment ? mem_strdup("segment") : node_text(&c->nodes[i]);
        whole &= canonical != NULL;
        json_begin_object(j, NULL);
        json_string(j, "name", c->nodes[i].op->name);
        json_shown(j, "text", canonical);
        json_spec(j, "fields", &c->nodes[i].out);
        if (choice) {
            json_string(j, "choice", choice);
            json_string(j, "choice_reason", reason);
        }
        if (i == 0 && plan->join) {
            json_begin_array(j, "branches");
            for (size_t b = 0; b < plan->join->count; b++)
                whole &= json_nodes(plan->join->branches[b].plan, NULL, j);
            json_end_array(j);
        }
        json_end_object(j);
        mem_free(canonical);
    }
    json_end_array(j);
    return whole;
}

static void json_steps(const struct program *p, struct json *j)
{
    json_begin_array(j, "steps");
    for (size_t i = 0; i < p->count; i++) {
        json_begin_object(j, NULL);
        json_string(j, "name", p->steps[i].name);
        json_uint(j, "operations", p->steps[i].count);
        json_bool(j, "runs", p->steps[i].runs);
        json_end_object(j);
    }
    json_end_array(j);
    json_begin_array(j, "in_place");
    for (size_t c = 0; c < p->layout.fields; c++)
        if (in_place(p, c))
            json_string(j, NULL, p->layout.column[c].field.name);
    json_end_array(j);
}

static void json_plan(struct json *j, const char *key, const pst_pipeline *p, struct text *t)
{
    const struct pipeline_plan *plan = p->plan;
    char line[LINE];
    json_begin_object(j, key);
    json_lines(j);
    if (has_segment(plan))
        json_plan(j, "segment", segment_pipeline(plan->source), t);
    t->failed |= !json_nodes(plan, "operations", j);
    json_steps(&plan->program, j);
    json_spec(j, "delivers", &plan->batch);
    describe_source(plan, line, sizeof(line));
    json_string(j, "source", line);
    json_count(j, "elements", plan->order.source);
    json_bool(j, "indexed", !plan->program.streamed);
    order_sentence(plan, line, sizeof(line));
    json_string(j, "order", line);
    entropy_sentence(plan, line, sizeof(line));
    json_string(j, "entropy", line[0] ? line : "none");
    hosts_sentence(plan, line, sizeof(line));
    if (line[0])
        json_string(j, "hosts", line);
    json_count(j, "batches", plan->order.batches);
    json_count(j, "rank_batches", feed_steps(&plan->order, &plan->split, 0));
    json_format(j, "fingerprint", "%016" PRIx64, plan->fingerprint);
    json_uint(j, "batch_bytes", plan->program.layout.block);
    json_uint(j, "ram", plan->ram);
    json_uint(j, "ram_planned", tune_planned(&p->tuner, plan, 0));
    json_uint(j, "cache_bytes", plan->ram_cache);
    json_uint(j, "workers", p->tuner.workers);
    json_string(j, "workers_reason", p->tuner.workers_reason);
    json_uint(j, "prefetch", p->tuner.depth);
    json_string(j, "prefetch_reason", p->tuner.depth_reason);
    json_end_object(j);
}

static void describe_json(const pst_pipeline *p, struct text *t)
{
    struct json j = {.put = text_put, .to = t, .indent = 2};
    json_plan(&j, NULL, p, t);
    text_add(t, "\n");
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
        describe_words(p, true, &t);
    if (t.failed || !t.data) {
        text_finish(&t);
        return fail_memory(reterr, "describing the plan");
    }
    *ret = t.data;
    return PST_OK;
}
