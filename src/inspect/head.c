/* head.c: pst_inspect_head: the first records of a shard in words. Each record is shown according to its kind; damage is
 * reported with its place and skipped. */
#include "base/error.h"
#include "base/text.h"
#include "inspect/events.h"
#include "inspect/images.h"
#include "inspect/readable.h"
#include "inspect/walker.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#define VALUES_SHOWN     8u
#define CHARACTERS_SHOWN 80u
#define NAME_CHARACTERS  64u
#define NAME_COLUMNS     32u  /* longer names push their line, not the others */
#define FEATURES_SHOWN   100u /* of one record */

struct head {
    pst_put_fn put;
    void *user;
    struct walker *walker;
    pst_damage_log *damage;
    size_t told; /* places of damage */
    struct text line;
};

/* Hands the line over and begins the next. */
static pst_status put_line(struct head *h, pst_error *reterr)
{
    if (h->line.failed)
        return fail_memory(reterr, "allocating a line of text");
    h->put(h->user, h->line.data ? h->line.data : "");
    h->line.length = 0;
    if (h->line.data)
        h->line.data[0] = 0;
    return PST_OK;
}

static void pad(struct text *t, size_t from, size_t columns)
{
    size_t width = t->failed || !t->data ? columns : readable_width(t->data + from);
    text_addf(t, "%*s", width < columns ? (int)(columns - width) : 0, "");
}

/* ---- Examples ---- */

static void add_name(struct text *t, pst_bytes name)
{
    readable_add(t, name.data, name.length, NAME_CHARACTERS);
}

static void add_type(struct text *t, const pst_named_value *v, bool in_list)
{
    text_addf(t, "%s[%zu]%s", pst_kind_name(v->value.kind), v->value.count, in_list ? " over all steps" : "");
}

/* The widest name and type, so that the values line up. */
static void measure(struct head *h, const pst_named_value *values, size_t count, size_t context, size_t *ret_name,
                    size_t *ret_type)
{
    *ret_name = *ret_type = 0;
    for (size_t i = 0; i < count && !h->line.failed; i++) {
        struct text t = {0};
        add_name(&t, values[i].name);
        size_t name = t.data ? readable_width(t.data) : 0;
        text_finish(&t);
        add_type(&t, &values[i], i >= context);
        size_t type = t.data ? readable_width(t.data) : 0;
        text_finish(&t);
        *ret_name = name > *ret_name && name <= NAME_COLUMNS ? name : *ret_name;
        *ret_type = type > *ret_type ? type : *ret_type;
    }
}

static pst_status put_features(struct head *h, const pst_named_value *values, size_t count, size_t context, pst_error *reterr)
{
    struct image_shape shape = image_shape_find(values, count);
    size_t shown = count < FEATURES_SHOWN ? count : FEATURES_SHOWN, name_columns, type_columns;
    pst_status st = PST_OK;
    measure(h, values, shown, context, &name_columns, &type_columns);
    for (size_t i = 0; i < shown && st == PST_OK; i++) {
        text_add(&h->line, "  ");
        add_name(&h->line, values[i].name);
        pad(&h->line, 2, name_columns);
        text_add(&h->line, "  ");
        size_t type_from = h->line.length;
        add_type(&h->line, &values[i], i >= context);
        if (values[i].value.count) {
            pad(&h->line, type_from, type_columns);
            text_add(&h->line, "  ");
            readable_add_value(&h->line, &values[i].value, &shape, VALUES_SHOWN, CHARACTERS_SHOWN);
        }
        st = put_line(h, reterr);
    }
    if (shown < count && st == PST_OK) {
        text_addf(&h->line, "  … %zu more features", count - shown);
        st = put_line(h, reterr);
    }
    return st;
}

/* ---- Events ---- */

static void add_time(struct text *t, double seconds)
{
    char text[64];
    struct tm date;
    time_t whole = fabs(seconds) < 1e11 ? (time_t)floor(seconds) : 0; /* beyond, years have too many digits to be meant */
    if (whole && gmtime_r(&whole, &date) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &date))
        text_addf(t, ", %s", text);
    else
        text_addf(t, ", wall time %g", seconds);
}

static pst_status put_event_value(struct head *h, const struct event_value *v, pst_error *reterr)
{
    text_add(&h->line, "  ");
    add_name(&h->line, v->tag);
    text_addf(&h->line, "  %s", event_value_kind_name(v->kind));
    if (v->kind == EVENT_SCALAR) {
        text_addf(&h->line, "  %.7g", v->number);
    } else if (v->kind == EVENT_IMAGE) {
        text_add(&h->line, "  ");
        readable_add_bytes(&h->line, v->image, NULL, CHARACTERS_SHOWN);
    }
    return put_line(h, reterr);
}

static pst_status put_event(struct head *h, struct event *e, pst_error *reterr)
{
    text_addf(&h->line, ": event, step %" PRId64, e->step);
    add_time(&h->line, e->wall_time);
    text_addf(&h->line, ", %s", e->what);
    if (e->file_version.data) {
        text_add(&h->line, " ");
        readable_add_bytes(&h->line, e->file_version, NULL, CHARACTERS_SHOWN);
    }
    pst_status st = put_line(h, reterr);
    struct event_value value;
    unsigned shown = 0;
    while (st == PST_OK && shown++ < FEATURES_SHOWN && event_next_value(e, &value))
        st = put_event_value(h, &value, reterr);
    return st;
}

/* ---- Records ---- */

static pst_status put_record(struct head *h, const pst_record *record, pst_error *reterr)
{
    pst_content content;
    struct event event;
    pst_status st = walker_content(h->walker, record->data, record->length, &content, reterr);
    if (st < 0)
        return st;
    text_addf(&h->line, "record %" PRIu64 " at byte %" PRIu64, record->record, record->offset);
    if (content == PST_CONTENT_EVENTS && event_parse(&event, record->data, record->length))
        return put_event(h, &event, reterr);
    text_add(&h->line, ", ");
    readable_add_size(&h->line, record->length);
    if (content == PST_CONTENT_OTHER || content == PST_CONTENT_EMPTY) {
        text_add(&h->line, content == PST_CONTENT_EMPTY ? "" : ": ");
        if (content == PST_CONTENT_OTHER)
            readable_add_bytes(&h->line, (pst_bytes){record->data, record->length}, NULL, CHARACTERS_SHOWN);
        return put_line(h, reterr);
    }
    st = put_line(h, reterr);
    const pst_named_value *values;
    size_t count, context;
    if (st == PST_OK)
        st = walker_walk(h->walker, content, record->data, record->length, &values, &count, &context, reterr);
    return st == PST_OK ? put_features(h, values, count, context, reterr) : st;
}

static pst_status put_damage(struct head *h, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (; h->told < pst_damage_log_places(h->damage) && st == PST_OK; h->told++) {
        pst_damage d = pst_damage_log_place(h->damage, h->told);
        text_addf(&h->line, "record %" PRIu64 " at byte %" PRIu64 ": damaged (%s), ", d.record, d.offset,
                  pst_cause_name(d.cause));
        readable_add_size(&h->line, d.bytes);
        text_add(&h->line, " passed over");
        st = put_line(h, reterr);
    }
    return st;
}

static pst_status put_records(struct head *h, pst_reader *reader, uint64_t records, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (uint64_t i = 0; i < records && st == PST_OK; i++) {
        pst_record record;
        pst_status next = pst_reader_next(reader, &record, reterr);
        st = next < 0 ? next : put_damage(h, reterr);
        if (next == PST_END && st == PST_OK)
            return PST_OK;
        if (st == PST_OK)
            st = put_record(h, &record, reterr);
    }
    return st;
}

pst_status pst_inspect_head(const char *path, uint64_t records, pst_put_fn put, void *user, pst_error *reterr)
{
    static const pst_policy tolerant = {.skip = true};
    struct head h = {.put = put, .user = user};
    pst_reader *reader = NULL;
    pst_status st = pst_damage_log_create(&h.damage, &tolerant, reterr);
    if (st == PST_OK)
        st = walker_create(&h.walker, reterr);
    if (st == PST_OK) {
        pst_reader_options options = {.size = sizeof(options), .damage = h.damage};
        st = pst_reader_open(&reader, path, &options, reterr);
    }
    if (st == PST_OK)
        st = put_records(&h, reader, records, reterr);
    pst_reader_close(reader);
    walker_destroy(h.walker);
    pst_damage_log_destroy(h.damage);
    text_finish(&h.line);
    return st;
}
