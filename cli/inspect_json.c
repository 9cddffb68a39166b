/* inspect_json.c: the report as the members of one JSON object. Keys are a promise: they are added to, never renamed. */
#include "cli/inspect_report.h"
#include "base/secret.h"
#include <string.h>

static void put_hex(struct json *j, const char *key, uint64_t value)
{
    char text[20];

    snprintf(text, sizeof(text), "%016llx", (unsigned long long)value);
    json_string(j, key, text);
}

static void put_shard_objects(struct json *j, const pst_inspection *n)
{
    json_begin_array(j, "shards");
    for (size_t i = 0; i < n->shards; i++) {
        const pst_inspect_shard *s = &n->shard[i];

        json_begin_object(j, NULL);
        json_shown(j, "path", s->path);
        json_uint(j, "records", s->records);
        json_uint(j, "bytes", s->bytes);
        json_string(j, "compression", pst_compression_name(s->compression));
        json_uint(j, "damaged", s->damaged);
        json_string(j, "index", s->indexed ? pst_index_place_name(s->index_place) : NULL);
        json_bool(j, "index_built", s->index_built);
        json_bool(j, "entropy", s->entropy);
        put_hex(j, "fingerprint", s->fingerprint);
        json_end_object(j);
    }
    json_end_array(j);
}

static void put_features(struct json *j, const pst_inspection *n)
{
    static const char *const layouts[] = {"fixed", "variable", "ragged"};

    json_begin_array(j, "features");
    for (size_t i = 0; i < n->features; i++) {
        const pst_inspect_feature *f = &n->feature[i];

        json_begin_object(j, NULL);
        json_string(j, "name", f->name);
        json_string(j, "kind", pst_kind_name(f->kind));
        json_string(j, "layout", layouts[f->layout]);
        json_uint(j, "present", f->present);
        json_uint(j, "min_count", f->min_count);
        json_uint(j, "max_count", f->max_count);
        if (f->kind == PST_BYTES) {
            json_uint(j, "min_bytes", f->min_bytes);
            json_uint(j, "max_bytes", f->max_bytes);
            json_bool(j, "image", f->image);
            json_bool(j, "text", f->text);
        } else {
            json_number(j, "min", f->min);
            json_number(j, "max", f->max);
            json_number(j, "mean", f->mean);
            json_uint(j, "nonfinite", f->nonfinite);
        }
        json_string(j, "preview", f->preview);
        json_end_object(j);
    }
    json_end_array(j);
    json_bool(j, "features_cut", n->features_cut);
}

static void put_side(struct json *j, const char *key, uint32_t least, uint32_t most, double mean)
{
    json_begin_object(j, key);
    json_uint(j, "min", least);
    json_uint(j, "max", most);
    json_number(j, "mean", mean);
    json_end_object(j);
}

static void put_images(struct json *j, const pst_inspection *n)
{
    const pst_inspect_images *m = &n->images;

    if (!m->count) {
        json_null(j, "images");
        return;
    }
    json_begin_object(j, "images");
    json_uint(j, "count", m->count);
    json_begin_object(j, "formats");
    for (int f = 0; f < PST_IMAGE_FORMATS; f++) {
        if (m->by_format[f])
            json_uint(j, pst_image_format_name((pst_image_format)f), m->by_format[f]);
    }
    json_end_object(j);
    json_begin_object(j, "channels");
    for (unsigned c = 0; c < 5; c++) {
        char key[2] = {(char)('0' + c), '\0'};

        if (m->by_channels[c])
            json_uint(j, key, m->by_channels[c]);
    }
    json_end_object(j);
    put_side(j, "width", m->min_width, m->max_width, m->mean_width);
    put_side(j, "height", m->min_height, m->max_height, m->mean_height);
    json_number(j, "mean_bytes", m->mean_bytes);
    json_end_object(j);
}

static void put_classes(struct json *j, const pst_inspection *n)
{
    json_begin_array(j, "classes");
    for (size_t i = 0; i < n->classes; i++) {
        json_begin_object(j, NULL);
        json_int(j, "label", n->class_[i].label);
        json_string(j, "name", n->class_[i].name);
        json_uint(j, "records", n->class_[i].records);
        json_end_object(j);
    }
    json_end_array(j);
    json_bool(j, "classes_cut", n->classes_cut);
}

static void put_damage(struct json *j, const pst_inspection *n)
{
    json_begin_object(j, "damage");
    json_uint(j, "count", pst_damage_log_total(n->damage));
    json_begin_object(j, "causes");
    for (int c = 0; c < PST_CAUSES; c++) {
        uint64_t count = pst_damage_log_count(n->damage, (pst_cause)c);

        if (count)
            json_uint(j, pst_cause_name((pst_cause)c), count);
    }
    json_end_object(j);
    json_begin_array(j, "places");
    for (size_t i = 0; i < pst_damage_log_places(n->damage); i++) {
        pst_damage d = pst_damage_log_place(n->damage, i);

        json_begin_object(j, NULL);
        json_string(j, "cause", pst_cause_name(d.cause));
        json_shown(j, "path", d.path);
        if (d.record != PST_NOWHERE) {
            json_uint(j, "record", d.record);
            json_uint(j, "offset", d.offset);
        }
        json_uint(j, "bytes", d.bytes);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

void put_report_json(struct json *j, const pst_inspection *n, bool verified)
{
    json_string(j, "content", pst_content_name(n->content));
    json_uint(j, "records", n->records);
    json_uint(j, "bytes", n->bytes);
    json_uint(j, "parsed", n->parsed);
    json_bool(j, "verified", verified);
    put_hex(j, "fingerprint", n->fingerprint);
    json_string(j, "schema", n->schema);
    json_string(j, "image_feature", n->image_feature);
    json_string(j, "label_feature", n->label_feature);
    put_shard_objects(j, n);
    put_features(j, n);
    put_images(j, n);
    put_classes(j, n);
    put_damage(j, n);
}
