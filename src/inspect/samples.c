/* samples.c: see inspection.h. Uncompressed shards are read by number, compressed ones from the front as far as needed. */
#include "inspect/inspection.h"

#include "inspect/fetch.h"

#include <stdlib.h>

struct visit {
    const struct inspection *n;
    const struct spread *spread;
    sample_fn see;
    void *user;
    struct walker *walker;
    const pst_inspect_shard *shard;
    uint64_t base;        /* number of the shard's first record */
    uint64_t first, last; /* positions in this shard */
};

/* ---- One record ---- */

static int compare_label(const void *key, const void *element)
{
    int64_t label = *(const int64_t *)key;
    const pst_inspect_class *c = element;
    return label == c->label ? 0 : label < c->label ? -1 : 1;
}

static void add_number_label(struct sample *sample, const pst_inspection *p, int64_t label)
{
    sample->has_label = true;
    sample->label = label;
    if (!p->classes)
        return;
    const pst_inspect_class *c = bsearch(&label, p->class_, p->classes, sizeof(*p->class_), compare_label);
    sample->name = c ? c->name : "";
}

static void add_text_label(struct sample *sample, const pst_inspection *p, pst_bytes name)
{
    for (size_t i = 0; i < p->classes; i++) {
        if (strlen(p->class_[i].name) == name.length && memcmp(p->class_[i].name, name.data, name.length) == 0) {
            sample->has_label = true;
            sample->label = p->class_[i].label;
            sample->name = p->class_[i].name;
            return;
        }
    }
}

static pst_status see_record(struct visit *v, uint64_t k, const pst_record *record, pst_error *reterr)
{
    const struct choice *choice = &v->n->choice;
    const pst_named_value *values;
    size_t count, context;
    pst_status st = walker_walk(v->walker, choice->content, record->data, record->length, &values, &count, &context, reterr);
    if (st < 0)
        return st == PST_ENOMEM ? st : PST_OK;
    const pst_value *image = feature_of(values, count, choice->image_feature);
    const pst_value *label = choice->label_feature ? feature_of(values, count, choice->label_feature) : NULL;
    struct image_shape shape = image_shape_find(values, count);
    struct sample sample = {.number = spread_at(v->spread, k), .name = ""};
    if (!image || image->kind != PST_BYTES || !image->count)
        return PST_OK;
    sample.image = *(const pst_bytes *)image->data;
    if (!image_recognise(sample.image, &shape, &sample.info))
        return PST_OK;
    if (label && label->count && label->kind == PST_INT64)
        add_number_label(&sample, &v->n->public, *(const int64_t *)label->data);
    else if (label && label->count && label->kind == PST_BYTES)
        add_text_label(&sample, &v->n->public, *(const pst_bytes *)label->data);
    return v->see(v->user, k, &sample, reterr);
}

/* ---- One shard ---- */

static bool blames_data(pst_status st)
{
    return st == PST_ECORRUPT || st == PST_ELIMIT;
}

static pst_status visit_by_number(struct visit *v, pst_error *reterr)
{
    struct fetch fetch = {0};
    pst_status st = fetch_open(&fetch, v->shard->path, v->n->cache_dir, v->n->max_record_bytes, reterr);
    for (uint64_t k = v->first; k < v->last && st == PST_OK; k++) {
        pst_record record;
        st = fetch_record(&fetch, spread_at(v->spread, k) - v->base, &record, reterr);
        if (st == PST_OK)
            st = see_record(v, k, &record, reterr);
        else if (blames_data(st))
            st = PST_OK;
    }
    fetch_finish(&fetch);
    return st;
}

static pst_status visit_in_order(struct visit *v, pst_error *reterr)
{
    static const pst_policy tolerant = {.skip = true};
    pst_reader_options options = {.size = sizeof(options), .max_record_bytes = v->n->max_record_bytes};
    pst_reader *reader = NULL;
    pst_status st = pst_damage_log_create(&options.damage, &tolerant, reterr);
    if (st == PST_OK)
        st = pst_reader_open(&reader, v->shard->path, &options, reterr);
    uint64_t at = v->base;
    for (uint64_t k = v->first; k < v->last && st == PST_OK; at++) {
        pst_record record;
        st = pst_reader_next(reader, &record, reterr);
        if (st == PST_OK && at == spread_at(v->spread, k))
            st = see_record(v, k++, &record, reterr);
    }
    pst_reader_close(reader);
    pst_damage_log_destroy(options.damage);
    return st == PST_END ? PST_OK : st;
}

pst_status samples_visit(const struct inspection *n, const struct spread *spread, sample_fn see, void *user, pst_error *reterr)
{
    struct visit v = {.n = n, .spread = spread, .see = see, .user = user};
    pst_status st = walker_create(&v.walker, reterr);
    for (size_t i = 0; i < n->public.shards && st == PST_OK; i++) {
        v.shard = &n->public.shard[i];
        v.first = spread_first(spread, v.base);
        v.last = spread_first(spread, v.base + v.shard->records);
        if (v.first < v.last)
            st = v.shard->compression == PST_COMPRESSION_NONE ? visit_by_number(&v, reterr) : visit_in_order(&v, reterr);
        v.base += v.shard->records;
    }
    walker_destroy(v.walker);
    return st;
}
