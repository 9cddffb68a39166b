/* meta.c: see steps.h. Each file is published whole; dataset_info.json comes last, as readers look for it first. */
#include "pack/steps.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"

#include <inttypes.h>
#include <string.h>

#define CLASS   "tensorflow_datasets.core.features."
#define SAMPLES 1000 /* records from which the features of existing TFRecords are inferred */
#define ANY     UINT64_MAX

static pst_status publish(const struct pack_config *c, const char *name, struct text *t, pst_error *reterr)
{
    char *path = file_join(c->out, name);
    pst_status st = !path || t->failed ? fail_memory(reterr, "describing the dataset")
                                       : publish_bytes(path, t->data, t->length, true, !c->options.no_sync, reterr);
    mem_free(path);
    text_finish(t);
    return st;
}

/* ---- features.json ---- */

static void add_shape(struct json *j, const uint64_t *shape, size_t rank)
{
    json_begin_object(j, "shape");
    if (rank)
        json_begin_array(j, "dimensions");
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] == ANY)
            json_string(j, NULL, "-1");
        else
            json_format(j, NULL, "%" PRIu64, shape[i]);
    }
    if (rank)
        json_end_array(j);
    json_end_object(j);
}

/* Begins a feature of a TFDS class, and the object that describes it. */
static void begin_feature(struct json *j, const char *class, const char *key)
{
    json_begin_object(j, NULL);
    json_format(j, "pythonClassName", CLASS "%s", class);
    json_begin_object(j, key);
}

static void end_feature(struct json *j)
{
    json_end_object(j);
    json_end_object(j);
}

static void add_tensor(struct json *j, const char *dtype, const char *encoding, const uint64_t *shape, size_t rank)
{
    begin_feature(j, "tensor_feature.Tensor", "tensor");
    json_string(j, "dtype", dtype);
    json_string(j, "encoding", encoding);
    add_shape(j, shape, rank);
    end_feature(j);
}

static void add_text(struct json *j)
{
    begin_feature(j, "text_feature.Text", "text");
    end_feature(j);
}

/* An image that readers decode: its shape as far as all images share it. */
static void add_image(struct json *j, const struct pack_images *s)
{
    uint64_t shape[3] = {ANY, ANY, 3};
    if (s->count && s->min_height == s->max_height)
        shape[0] = s->min_height;
    if (s->count && s->min_width == s->max_width)
        shape[1] = s->min_width;
    if (s->channels == 1u << 1)
        shape[2] = 1;
    else if (s->channels == 1u << 4 && s->formats == 1u << PST_IMAGE_PNG)
        shape[2] = 4;
    begin_feature(j, "image_feature.Image", "image");
    json_string(j, "dtype", "uint8");
    if (s->formats == 1u << PST_IMAGE_JPEG || s->formats == 1u << PST_IMAGE_PNG)
        json_string(j, "encodingFormat", s->formats == 1u << PST_IMAGE_JPEG ? "jpeg" : "png");
    add_shape(j, shape, 3);
    end_feature(j);
}

/* Pixels as bytes: a tensor if all have one shape; otherwise the sizes are features of their own. */
static void add_raw_image(struct json *j, const struct pack_images *s)
{
    uint64_t shape[3] = {s->min_height, s->min_width, 0};
    for (unsigned c = 1; c <= 4; c++)
        if (s->channels == 1u << c)
            shape[2] = c;
    if (s->min_height == s->max_height && s->min_width == s->max_width && shape[2])
        add_tensor(j, "uint8", "bytes", shape, 3);
    else
        add_tensor(j, "string", "none", NULL, 0);
}

static void add_field(struct json *j, const struct recipe *r, const struct feature_spec *spec, const struct pack_images *images)
{
    const struct pack_field *f = &r->source->fields[spec->field];
    static const uint64_t any[1] = {ANY};
    bool image = (int)spec->field == r->image;
    if (f->optional) {
        add_tensor(j, f->kind == PST_BYTES ? "string" : f->dtype, "none", any, 1);
    } else if (image && images->formats == 1u << PST_IMAGE_RAW) {
        add_raw_image(j, images);
    } else if (image && images->formats == 1u << PST_IMAGE_YUV420) {
        add_tensor(j, "string", "none", NULL, 0); /* no other reader decodes it */
    } else if (image) {
        add_image(j, images);
    } else if (f->role == PACK_LABEL && r->source->class_names) {
        begin_feature(j, "class_label_feature.ClassLabel", "classLabel");
        json_format(j, "numClasses", "%zu", r->source->class_count);
        end_feature(j);
    } else if (f->role == PACK_TEXT) {
        add_text(j);
    } else {
        add_tensor(j, f->dtype, f->role == PACK_PIXELS ? "bytes" : "none", f->shape, f->rank);
    }
}

static struct json begin_file(struct text *t)
{
    struct json j = {.put = text_put, .to = t, .indent = 4};
    json_begin_object(&j, NULL);
    json_lines(&j);
    return j;
}

static struct json begin_features(struct text *t)
{
    struct json j = begin_file(t);
    json_string(&j, "pythonClassName", CLASS "features_dict.FeaturesDict");
    json_begin_object(&j, "featuresDict");
    json_lines(&j);
    json_begin_object(&j, "features");
    json_lines(&j);
    return j;
}

static void end_features(struct json *j)
{
    json_end_object(j);
    json_end_object(j);
    json_end_object(j);
    j->put(j->to, "\n", 1);
}

static pst_status publish_features(const struct recipe *r, const struct pack_images *images, pst_error *reterr)
{
    struct text t = {0};
    struct json j = begin_features(&t);
    for (size_t i = 0; i < r->count; i++) {
        const struct feature_spec *f = &r->features[i];
        bool image_optional = r->image >= 0 && r->source->fields[r->image].optional;
        static const uint64_t any[1] = {ANY};
        json_key(&j, f->name, f->name_length);
        if (f->from == FROM_FIELD)
            add_field(&j, r, f, images);
        else if (f->from == FROM_KEY)
            add_text(&j);
        else
            add_tensor(&j, "int64", "none", any, image_optional ? 1 : 0);
    }
    end_features(&j);
    return publish(r->source->config, "features.json", &t, reterr);
}

/* ---- Features of records that are not ours ---- */

static pst_status infer(const struct pack_source *s, pst_inference *inference, void *loader, pst_error *reterr)
{
    uint8_t *buffer = NULL;
    size_t capacity = 0;
    uint64_t samples = s->count < SAMPLES ? s->count : SAMPLES;
    pst_status st = PST_OK;
    for (uint64_t i = 0; st == PST_OK && i < samples; i++) {
        struct pack_value v = {0};
        void *grown = buffer;
        st = s->class->load(s, loader, s->count / samples * i, &v, reterr);
        if (st == PST_OK && mem_grow(&grown, &capacity, v.length + 1, 1) < 0)
            st = fail_memory(reterr, "describing the dataset");
        buffer = grown;
        if (st == PST_OK)
            st = v.read(&v, buffer, reterr);
        if (st < 0 && st != PST_ENOMEM) {
            st = PST_OK; /* damage was dealt with where it counts */
            continue;
        }
        if (st == PST_OK)
            st = pst_inference_add(inference, buffer, v.length, reterr);
    }
    mem_free(buffer);
    return st;
}

static void add_schema(struct text *t, const pst_schema *schema)
{
    struct json j = begin_features(t);
    for (size_t i = 0; i < pst_schema_count(schema); i++) {
        const pst_feature *f = pst_schema_feature(schema, i);
        static const uint64_t any[1] = {ANY};
        json_key(&j, f->name, strlen(f->name));
        add_tensor(&j,
                   f->kind == PST_BYTES   ? "string"
                   : f->kind == PST_FLOAT ? "float32"
                                          : "int64",
                   "none", f->layout == PST_FIXED ? f->shape : any, f->layout == PST_FIXED ? f->rank : 1);
    }
    end_features(&j);
}

/* Records that are not Examples have no features: then there is no features.json. */
static pst_status publish_inferred(const struct pack_source *s, pst_error *reterr)
{
    pst_inference *inference = NULL;
    pst_schema *schema = NULL;
    struct text t = {0};
    void *loader = mem_zalloc(s->class->worker_size);
    pst_status st = loader ? pst_inference_create(&inference, NULL, reterr) : fail_memory(reterr, "describing the dataset");
    if (st == PST_OK)
        st = infer(s, inference, loader, reterr);
    if (st == PST_OK)
        st = pst_inference_schema(inference, &schema, reterr);
    if (st == PST_OK && pst_schema_count(schema)) {
        add_schema(&t, schema);
        st = publish(s->config, "features.json", &t, reterr);
    } else if (st != PST_ENOMEM) {
        st = PST_OK;
    }
    pst_schema_destroy(schema);
    pst_inference_destroy(inference);
    mem_free(loader);
    return st;
}

static pst_status publish_carried(const struct pack_source *s, pst_error *reterr)
{
    pst_status st = PST_OK;
    bool features = false;
    for (size_t i = 0; st == PST_OK && i < s->carried_count; i++) {
        struct text t = {0};
        text_add_n(&t, s->carried[i].data, s->carried[i].length);
        features |= strcmp(s->carried[i].name, "features.json") == 0;
        st = publish(s->config, s->carried[i].name, &t, reterr);
    }
    return st == PST_OK && !features ? publish_inferred(s, reterr) : st;
}

/* ---- Labels ---- */

static void add_labels(struct text *t, const struct pack_source *s)
{
    for (size_t i = 0; i < s->class_count; i++) {
        size_t begin = t->length;
        text_add(t, s->class_names[i]);
        for (size_t k = begin; k < t->length; k++)
            if (t->data[k] == '\n')
                t->data[k] = ' '; /* a line is a class */
        text_add(t, "\n");
    }
}

static pst_status publish_labels(const struct recipe *r, pst_error *reterr)
{
    const struct pack_source *s = r->source;
    struct text t = {0};
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && s->class_names && i < r->count; i++) {
        const struct feature_spec *f = &r->features[i];
        if (f->from != FROM_FIELD || s->fields[f->field].role != PACK_LABEL)
            continue;
        char *name = mem_format("%s.labels.txt", f->name);
        for (char *at = name; at && *at; at++)
            *at = *at == '/' ? '-' : *at;
        add_labels(&t, s);
        st = name ? publish(s->config, name, &t, reterr) : fail_memory(reterr, "describing the dataset");
        mem_free(name);
        text_finish(&t);
    }
    if (st < 0 || !s->class_names)
        return st;
    add_labels(&t, s);
    return publish(s->config, "labels.txt", &t, reterr);
}

/* ---- dataset_info.json ---- */

static void add_split(struct json *j, const struct plan_split *s, const struct out_shard *shards)
{
    uint64_t payload = 0;
    for (uint32_t i = 0; i < s->shards; i++)
        payload += shards[s->first_shard + i].facts.payload;
    json_begin_object(j, NULL);
    json_lines(j);
    json_string(j, "filepathTemplate", "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}");
    json_string(j, "name", s->name);
    json_format(j, "numBytes", "%" PRIu64, payload);
    json_begin_array(j, "shardLengths");
    for (uint32_t i = 0; i < s->shards; i++)
        json_format(j, NULL, "%" PRIu64, shards[s->first_shard + i].facts.records);
    json_end_array(j);
    json_end_object(j);
}

static pst_status publish_info(const struct pack_plan *p, const struct out_shard *shards, pst_error *reterr)
{
    const struct pack_config *c = p->source->config;
    struct text t = {0};
    struct json j = begin_file(&t);
    json_string(&j, "fileFormat", "tfrecord");
    json_string(&j, "name", c->name);
    json_string(&j, "version", c->options.version);
    json_begin_array(&j, "splits");
    json_lines(&j);
    for (size_t i = 0; i < p->split_count; i++)
        if (p->splits[i].shards)
            add_split(&j, &p->splits[i], shards);
    json_end_array(&j);
    json_end_object(&j);
    text_add(&t, "\n");
    return publish(c, "dataset_info.json", &t, reterr);
}

pst_status pack_meta_publish(const struct pack_plan *p, const struct recipe *r, const struct out_shard *shards,
                             pst_error *reterr)
{
    struct pack_images images = {0};
    for (size_t i = 0; i < p->shard_count; i++)
        pack_images_merge(&images, &shards[i].facts.images);
    pst_status st = r->whole ? publish_carried(p->source, reterr) : publish_features(r, &images, reterr);
    if (st == PST_OK && !r->whole)
        st = publish_labels(r, reterr);
    return st == PST_OK ? publish_info(p, shards, reterr) : st;
}
