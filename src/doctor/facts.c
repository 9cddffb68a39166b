/* facts.c: what the plan of a pipeline says, read from its JSON description. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/json_read.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static void read_text(const struct json_document *d, const char *key, char *buffer, size_t size)
{
    char *s = json_get_string(d, json_find(d, 0, key));
    snprintf(buffer, size, "%s", s ? s : "");
    mem_free(s);
}

static uint64_t read_count(const struct json_document *d, const char *key)
{
    uint64_t n;
    return json_get_uint(d, json_find(d, 0, key), &n) ? n : PST_NOWHERE;
}

static pst_dtype dtype_of(const char *name)
{
    for (int i = PST_DTYPE_NONE; i <= PST_DTYPE_F64; i++)
        if (strcmp(pst_dtype_name((pst_dtype)i), name) == 0)
            return (pst_dtype)i;
    return PST_DTYPE_NONE;
}

/* The first dimension of a delivered field is the batch. */
static void read_field(const struct json_document *d, size_t at, struct facts_field *ret)
{
    char *name = json_get_string(d, json_find(d, at, "name")), *dtype = json_get_string(d, json_find(d, at, "dtype"));
    size_t shape = json_find(d, at, "shape"), item = shape + 1;
    *ret = (struct facts_field){.values = 1, .dtype = dtype ? dtype_of(dtype) : PST_DTYPE_NONE};
    snprintf(ret->name, sizeof(ret->name), "%s", name ? name : "");
    ret->varies = ret->dtype == PST_DTYPE_BYTES;
    for (size_t i = 0; shape != JSON_ABSENT && i < d->items[shape].count; i++, item = d->items[item].next) {
        uint64_t n = 1;
        bool known = json_get_uint(d, item, &n);
        ret->varies |= i > 0 && !known;
        ret->values *= i > 0 && known ? n : 1;
    }
    mem_free(name);
    mem_free(dtype);
}

static void read_plan(const struct json_document *d, struct facts *f)
{
    uint64_t n = 0;
    json_get_bool(d, json_find(d, 0, "indexed"), &f->indexed);
    f->elements = read_count(d, "elements");
    n = read_count(d, "batches");
    f->epoch = n == PST_NOWHERE ? n : n * f->batch;
    f->batch_bytes = json_get_uint(d, json_find(d, 0, "batch_bytes"), &n) ? n : 0;
    f->ram = json_get_uint(d, json_find(d, 0, "ram"), &n) ? n : 0;
    f->ram_planned = json_get_uint(d, json_find(d, 0, "ram_planned"), &n) ? n : 0;
    f->prefetch = json_get_uint(d, json_find(d, 0, "prefetch"), &n) ? (unsigned)n : 0;
    char reason[160];
    read_text(d, "prefetch_reason", reason, sizeof(reason));
    f->ram_limits = strstr(reason, "RAM budget") != NULL;
    read_text(d, "source", f->source, sizeof(f->source));
    read_text(d, "order", f->order, sizeof(f->order));
    read_text(d, "entropy", f->entropy, sizeof(f->entropy));
    size_t list = json_find(d, 0, "delivers"), item = list + 1;
    for (size_t i = 0; list != JSON_ABSENT && i < d->items[list].count && f->fields < FACTS_FIELDS; i++, item = d->items[item].next)
        read_field(d, item, &f->field[f->fields++]);
}

pst_status facts_read(struct facts *ret, const struct draft *r, pst_error *reterr)
{
    pst_pipeline *p = NULL;
    char *json = NULL;
    struct json_document doc = {0};
    *ret = (struct facts){0};
    pst_status st = draft_open(r, &p, reterr);
    if (st == PST_OK)
        st = pst_pipeline_describe(p, true, &json, reterr);
    if (st == PST_OK)
        st = json_parse(&doc, json, strlen(json), reterr);
    if (st == PST_OK) {
        ret->batch = pst_pipeline_batch_size(p);
        read_plan(&doc, ret);
        if (ret->epoch != PST_NOWHERE && ret->elements != PST_NOWHERE && ret->epoch > ret->elements && ret->epoch - ret->elements < ret->batch)
            ret->epoch = ret->elements; /* the last batch is smaller */
    }
    json_finish(&doc);
    pst_free(json);
    pst_pipeline_destroy(p);
    return st;
}
