/* findings.c: see findings.h. */
#include "inspect/findings.h"

#include "base/memory.h"
#include "codec/image_codec.h"
#include "inspect/events.h"

void choice_finish(struct choice *c)
{
    mem_free(c->image_feature);
    mem_free(c->label_feature);
    *c = (struct choice){0};
}

/* ---- Damage ---- */

pst_status findings_need_log(struct findings *f, pst_error *reterr)
{
    static const pst_policy tolerant = {.skip = true};
    return f->damage ? PST_OK : pst_damage_log_create(&f->damage, &tolerant, reterr);
}

pst_status findings_add_damage(struct findings *f, pst_cause cause, const char *path, const pst_record *record, const char *why,
                               pst_error *reterr)
{
    pst_status st = findings_need_log(f, reterr);
    if (st < 0)
        return st;
    pst_damage damage = {
        .cause = cause, .path = path, .record = record->record, .offset = record->offset, .bytes = record->length};
    return pst_damage_log_add(f->damage, &damage, why, reterr);
}

static pst_status damage_merge(pst_damage_log *into, const pst_damage_log *from, pst_error *reterr)
{
    uint64_t unplaced[PST_CAUSES];
    pst_status st = PST_OK;
    for (int cause = 0; cause < PST_CAUSES; cause++)
        unplaced[cause] = pst_damage_log_count(from, (pst_cause)cause);
    for (size_t i = 0; i < pst_damage_log_places(from) && st == PST_OK; i++) {
        pst_damage damage = pst_damage_log_place(from, i);
        unplaced[damage.cause]--;
        st = pst_damage_log_add(into, &damage, "", reterr);
    }
    /* a log that kept no more places has filled the other one: from here on only the counts matter */
    for (int cause = 0; cause < PST_CAUSES; cause++) {
        pst_damage damage = {.cause = (pst_cause)cause, .record = PST_NOWHERE, .offset = PST_NOWHERE};
        for (; unplaced[cause] && st == PST_OK; unplaced[cause]--)
            st = pst_damage_log_add(into, &damage, "", reterr);
    }
    return st;
}

/* ---- One record ---- */

/* A failure that says the data is bad, not that reading it failed. */
static bool blames_data(pst_status st)
{
    return st == PST_ECORRUPT || st == PST_ELIMIT || st == PST_ETYPE;
}

static bool has_decoder(pst_image_format format)
{
    const struct image_codec *codec = image_codec_of(format);
    return codec && codec->decode;
}

static pst_status take_image(struct findings *f, const struct choice *choice, const char *path, const pst_record *record,
                             pst_bytes bytes, const struct image_shape *shape, pst_error *reterr)
{
    pst_image_info info;
    pst_error why;
    if (!image_recognise(bytes, shape, &info))
        return findings_add_damage(f, PST_CAUSE_IMAGE, path, record, "not an image of a known format", reterr);
    image_stats_add(&f->images, &info, bytes.length);
    if (!choice->verify)
        return PST_OK;
    pst_image image = {0};
    pst_status st = image_decode(&image, bytes, &info, 0, true, &why);
    pst_image_finish(&image);
    bool refused = st == PST_EUNSUPPORTED && has_decoder(info.format); /* an animation; pipelines refuse it, too */
    if (blames_data(st) || refused)
        return findings_add_damage(f, PST_CAUSE_IMAGE, path, record, why.message, reterr);
    if (st == PST_ENOMEM)
        return pst_fail_at(reterr, st, path, record->record, record->offset, "%s", why.message);
    return PST_OK; /* a format that this build cannot decode is not damage */
}

static pst_status take_features(struct findings *f, const struct choice *choice, const char *path, const pst_record *record,
                                const pst_named_value *values, size_t count, size_t context, pst_error *reterr)
{
    const pst_value *label = choice->label_feature ? feature_of(values, count, choice->label_feature) : NULL;
    const pst_value *image = choice->image_feature ? feature_of(values, count, choice->image_feature) : NULL;
    struct image_shape shape = image_shape_find(values, count);
    pst_status st = feature_table_add(&f->features, values, count, context, reterr);
    if (st == PST_OK && label && label->kind == choice->label_kind)
        st = class_table_add(&f->classes, label, reterr);
    for (size_t i = 0; image && image->kind == PST_BYTES && i < image->count && st == PST_OK; i++)
        st = take_image(f, choice, path, record, ((const pst_bytes *)image->data)[i], &shape, reterr);
    return st;
}

static pst_status take_event(struct findings *f, const pst_record *record, pst_error *reterr)
{
    struct event event;
    struct event_value value;
    if (!event_parse(&event, record->data, record->length))
        return PST_OK;
    f->parsed++;
    pst_status st = PST_OK;
    while (st == PST_OK && event_next_value(&event, &value)) {
        if (value.kind == EVENT_SCALAR)
            st = feature_table_add_number(&f->features, value.tag.data, value.tag.length, value.number, reterr);
    }
    return st;
}

pst_status findings_take(struct findings *f, const struct choice *choice, struct walker *walker, const char *path,
                         const pst_record *record, pst_error *reterr)
{
    f->records++;
    if (choice->content == PST_CONTENT_EVENTS)
        return take_event(f, record, reterr);
    if (choice->content != PST_CONTENT_EXAMPLES && choice->content != PST_CONTENT_SEQUENCES)
        return PST_OK;
    const pst_named_value *values;
    size_t count, context;
    pst_error why;
    pst_status st = walker_walk(walker, choice->content, record->data, record->length, &values, &count, &context, &why);
    if (blames_data(st))
        return findings_add_damage(f, PST_CAUSE_EXAMPLE, path, record, why.message, reterr);
    if (st < 0)
        return pst_fail_at(reterr, st, path, record->record, record->offset, "%s", why.message);
    f->parsed++;
    return take_features(f, choice, path, record, values, count, context, reterr);
}

/* ---- Runs of records ---- */

pst_status findings_merge(struct findings *into, struct findings *from, pst_error *reterr)
{
    pst_status st = feature_table_merge(&into->features, &from->features, reterr);
    if (st == PST_OK)
        st = class_table_merge(&into->classes, &from->classes, reterr);
    if (st == PST_OK && from->damage) {
        st = findings_need_log(into, reterr);
        if (st == PST_OK)
            st = damage_merge(into->damage, from->damage, reterr);
    }
    image_stats_merge(&into->images, &from->images);
    into->records += from->records;
    into->parsed += from->parsed;
    findings_finish(from);
    return st;
}

void findings_finish(struct findings *f)
{
    feature_table_finish(&f->features);
    class_table_finish(&f->classes);
    pst_damage_log_destroy(f->damage);
    *f = (struct findings){0};
}
