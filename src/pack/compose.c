/* compose.c: a tf.train.Example written directly to its place in the shard's bytes.
 *
 * Every length is known before the bytes it counts are there, so data in a file is read directly to its place and never
 * copied. The size of an image is known only after reading it; it is stored last, and a guess is used until the image is
 * read: in the rare case that the guess was wrong in its length, the bytes move by one. */
#include "pack/compose.h"

#include "base/error.h"
#include "base/memory.h"
#include "record/frame.h"
#include "base/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLACK ((size_t)32) /* by how much a wrong guess can make an Example longer, and more */
#define GUESS 500          /* a size in pixels that takes as many bytes as most do */

/* One feature of the current record: its values, and the lengths of its nested messages. */
struct feature_slot {
    struct pack_value value;
    size_t payload; /* the values' own bytes */
    size_t list, feature, entry;
};

static pst_status composer_init(struct composer *c, const struct recipe *r, pst_error *reterr)
{
    c->recipe = r;
    c->loader = mem_zalloc(r->source->class->worker_size);
    c->values = mem_array(r->source->field_count, sizeof(*c->values));
    c->slots = mem_array(r->count, sizeof(*c->slots));
    if (!c->loader || !c->values || !c->slots)
        return fail_memory(reterr, "allocating a record");
    return pack_config_keeps_entropy(r->source->config) ? entropy_scanner_create(&c->scanner, reterr) : PST_OK;
}

static void composer_finish(struct composer *c)
{
    if (c->loader && c->recipe->source->class->worker_finish)
        c->recipe->source->class->worker_finish(c->loader);
    mem_free(c->loader);
    mem_free(c->values);
    mem_free(c->slots);
    mem_free(c->scratch);
    entropy_scanner_destroy(c->scanner);
    transform_finish(&c->transform);
    text_finish(&c->key);
    *c = (struct composer){0};
}

const char *composer_key(struct composer *c, uint64_t item, uint32_t copy, pst_error *reterr)
{
    char buffer[PACK_KEY_BYTES];
    const struct pack_source *s = c->recipe->source;
    c->key.length = 0;
    text_add(&c->key, s->class->key(s, item, buffer));
    if (copy)
        text_addf(&c->key, "#%" PRIu32, copy);
    if (c->key.failed) {
        text_finish(&c->key);
        fail_memory(reterr, "allocating a record");
        return NULL;
    }
    return c->key.length ? c->key.data : "";
}

/* ---- Lengths ---- */

static size_t payload_of(const struct pack_value *v, pst_kind kind)
{
    if (kind == PST_BYTES)
        return v->count;
    if (kind == PST_FLOAT)
        return v->count * sizeof(float);
    const int64_t *numbers = v->data;
    size_t sum = 0;
    for (size_t i = 0; i < v->count; i++)
        sum += wire_varint_size((uint64_t)numbers[i]);
    return sum;
}

/* Fills in the slots' lengths. Returns the length of the features message; SIZE_MAX: too long. */
static size_t measure(struct composer *c)
{
    const struct recipe *r = c->recipe;
    size_t sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        struct feature_slot *s = &c->slots[i];
        if (!s->value.present)
            continue;
        s->payload = payload_of(&s->value, r->features[i].kind);
        bool empty = r->features[i].kind != PST_BYTES && s->value.count == 0; /* a list that is there and holds nothing */
        s->list = empty ? 0 : wire_field_size(s->payload);
        s->feature = wire_field_size(s->list);
        s->entry = wire_field_size(r->features[i].name_length) + wire_field_size(s->feature);
        if (s->payload > WIRE_MOST_BYTES || sum > WIRE_MOST_BYTES)
            return SIZE_MAX;
        sum += wire_field_size(s->entry);
    }
    return sum > WIRE_MOST_BYTES ? SIZE_MAX : sum;
}

/* ---- Bytes ---- */

static uint8_t *put_numbers(uint8_t *p, const struct feature_slot *s)
{
    const int64_t *numbers = s->value.data;
    for (size_t i = 0; i < s->value.count; i++)
        p = wire_put_varint(p, (uint64_t)numbers[i]);
    return p;
}

/* Writes the Example to `p`. Values that are still in their files are read to their places, or left as they are there if
 * that was done before. `*ret_image` is the place of the value of the image field. */
static pst_status write_example(struct composer *c, uint8_t *p, size_t features, bool read, const uint8_t **ret_image,
                                pst_error *reterr)
{
    const struct recipe *r = c->recipe;
    p = wire_put_field(p, 1, features);
    for (size_t i = 0; i < r->count; i++) {
        const struct feature_slot *s = &c->slots[i];
        const struct feature_spec *f = &r->features[i];
        if (!s->value.present)
            continue;
        p = wire_put_field(p, 1, s->entry);
        p = wire_put_field(p, 1, f->name_length);
        memcpy(p, f->name, f->name_length);
        p = wire_put_field(p + f->name_length, 2, s->feature);
        p = wire_put_field(p, (unsigned)f->kind, s->list); /* the oneof's field numbers are the kinds' */
        if (s->list == 0)
            continue;
        p = wire_put_field(p, 1, s->payload);
        if (f->from == FROM_FIELD && (int)f->field == r->image)
            *ret_image = p;
        if (f->kind == PST_INT64) {
            p = put_numbers(p, s);
            continue;
        }
        if (s->value.read && read) {
            pst_status st = s->value.read(&s->value, p, reterr);
            if (st < 0)
                return st;
        } else if (!s->value.read && s->payload) {
            memcpy(p, s->value.data, s->payload);
        }
        p += s->payload;
    }
    return PST_OK;
}

/* ---- Items ---- */

/* The image's bytes in memory, read to the scratch if they are still in their file. */
static pst_status bring_image(struct composer *c, const void **ret, pst_error *reterr)
{
    const struct pack_value *v = &c->values[c->recipe->image];
    void *scratch = c->scratch;
    *ret = v->data;
    if (!v->read)
        return PST_OK;
    if (mem_grow(&scratch, &c->scratch_capacity, v->length + 1, 1) < 0)
        return fail_memory(reterr, "allocating a record");
    *ret = c->scratch = scratch;
    return v->read(v, c->scratch, reterr);
}

/* Replaces the image's value by what the options make of it. */
static pst_status transform_image(struct composer *c, uint64_t item, uint32_t copy, pst_image_info *ret, pst_error *reterr)
{
    const struct recipe *r = c->recipe;
    const struct pack_field *f = &r->source->fields[r->image];
    struct pack_value *v = &c->values[r->image];
    pst_image pixels = {0};
    struct transform_input in = {.length = v->count};
    pst_status st = bring_image(c, &in.data, reterr);
    if (st < 0)
        return st;
    if (f->role == PACK_PIXELS) {
        uint32_t channels = f->rank == 3 ? (uint32_t)f->shape[2] : 1;
        pixels = (pst_image){(uint8_t *)(uintptr_t)in.data, (uint32_t)f->shape[1], (uint32_t)f->shape[0], channels,
                             f->shape[1] * channels};
        in.pixels = &pixels;
    }
    struct transform_output out;
    st = transform_run(&c->transform, r->source->config, item, copy, &in, &out, reterr);
    if (st < 0)
        return st;
    *v = (struct pack_value){.present = true, .count = out.length, .data = out.data};
    *ret = out.info;
    return PST_OK;
}

/* Only the size of an image that is not stored. */
static pst_status probe_aside(struct composer *c, pst_image_info *ret, pst_error *reterr)
{
    const void *data = NULL;
    pst_status st = bring_image(c, &data, reterr);
    return st < 0 ? st : pst_image_probe(data, c->values[c->recipe->image].count, ret, reterr);
}

static void set_sizes(struct composer *c, const pst_image_info *info)
{
    c->sizes[0] = info->width;
    c->sizes[1] = info->height;
    c->sizes[2] = info->channels;
}

/* Gathers the record's values from the item's, in the recipe's order. */
static void fill_slots(struct composer *c)
{
    const struct recipe *r = c->recipe;
    bool image = r->image >= 0 && c->values[r->image].present;
    for (size_t i = 0; i < r->count; i++) {
        const struct feature_spec *f = &r->features[i];
        struct pack_value *v = &c->slots[i].value;
        if (f->from == FROM_FIELD)
            *v = c->values[f->field];
        else if (f->from == FROM_KEY)
            *v = (struct pack_value){.present = true, .count = c->key.length, .data = c->key.data};
        else
            *v = (struct pack_value){.present = image, .count = 1, .data = &c->sizes[f->from - FROM_WIDTH]};
    }
}

static pst_status frame_record(struct composer *c, struct chunk *chunk, size_t length, pst_error *reterr)
{
    uint8_t *p = chunk->data + chunk->length;
    pst_status st = PST_OK;
    frame_put_header(p, length);
    frame_put_footer(p + FRAME_HEADER + length, p + FRAME_HEADER, length);
    if (c->scanner)
        st = entropy_scanner_add(c->scanner, &chunk->jpegs, chunk->count, p + FRAME_HEADER, length, reterr);
    return st < 0 ? st : chunk_add(chunk, length, reterr);
}

static pst_status add_whole(struct composer *c, struct chunk *chunk, pst_error *reterr)
{
    const struct pack_value *v = &c->values[0];
    uint8_t *p = chunk_reserve(chunk, v->count + FRAME_BYTES);
    pst_status st = p ? v->read(v, p + FRAME_HEADER, reterr) : fail_memory(reterr, "allocating a record");
    return st < 0 ? st : frame_record(c, chunk, v->count, reterr);
}

/* Writes the Example while the image's size is a guess, then learns it from the image's own bytes. */
static pst_status write_and_probe(struct composer *c, struct chunk *chunk, pst_image_info *info, size_t *ret_length,
                                  pst_error *reterr)
{
    const uint8_t *image = NULL;
    struct pack_value *v = &c->values[c->recipe->image];
    size_t guessed = measure(c);
    uint8_t *p = guessed == SIZE_MAX ? NULL : chunk_reserve(chunk, guessed + SLACK + FRAME_BYTES);
    if (!p)
        return guessed == SIZE_MAX ? pst_fail(reterr, PST_ELIMIT, "the record would be over %zu bytes", WIRE_MOST_BYTES)
                                   : fail_memory(reterr, "allocating a record");
    p += FRAME_HEADER;
    pst_status st = write_example(c, p, guessed, true, &image, reterr);
    if (st == PST_OK)
        st = pst_image_probe(image, v->count, info, reterr);
    if (st < 0)
        return st;
    set_sizes(c, info);
    size_t features = measure(c), before = wire_field_size(guessed) - guessed, after = wire_field_size(features) - features;
    if (before != after) /* sizes come last: all before them moves together */
        memmove(p + after, p + before, guessed);
    *ret_length = wire_field_size(features);
    return write_example(c, p, features, false, &image, reterr);
}

static pst_status write_known(struct composer *c, struct chunk *chunk, size_t *ret_length, pst_error *reterr)
{
    const uint8_t *image = NULL;
    size_t features = measure(c);
    uint8_t *p = features == SIZE_MAX ? NULL : chunk_reserve(chunk, features + SLACK + FRAME_BYTES);
    if (!p)
        return features == SIZE_MAX ? pst_fail(reterr, PST_ELIMIT, "the record would be over %zu bytes", WIRE_MOST_BYTES)
                                    : fail_memory(reterr, "allocating a record");
    *ret_length = wire_field_size(features);
    return write_example(c, p + FRAME_HEADER, features, true, &image, reterr);
}

pst_status composer_add(struct composer *c, struct chunk *chunk, uint64_t item, uint32_t copy, pst_error *reterr)
{
    const struct recipe *r = c->recipe;
    const struct pack_source *s = r->source;
    pst_image_info info = {.width = GUESS, .height = GUESS, .channels = 1};
    pst_status st = s->class->load(s, c->loader, item, c->values, reterr);
    if (st < 0)
        return st;
    if (r->whole)
        return add_whole(c, chunk, reterr);
    if (!composer_key(c, item, copy, reterr))
        return PST_ENOMEM;
    bool image = r->image >= 0 && c->values[r->image].present, known = !image || r->transforms || !r->stores_image;
    if (image && r->transforms)
        st = transform_image(c, item, copy, &info, reterr);
    else if (image && known)
        st = probe_aside(c, &info, reterr);
    if (st < 0)
        return st;
    size_t length = 0;
    set_sizes(c, &info);
    fill_slots(c);
    st = known ? write_known(c, chunk, &length, reterr) : write_and_probe(c, chunk, &info, &length, reterr);
    if (st == PST_OK)
        st = frame_record(c, chunk, length, reterr);
    if (st == PST_OK && image)
        pack_images_add(&chunk->images, &info);
    return st;
}

pst_status composers_create(struct composer **ret, const struct recipe *r, unsigned count, pst_error *reterr)
{
    struct composer *composers = mem_array(count, sizeof(*composers));
    pst_status st = composers ? PST_OK : fail_memory(reterr, "allocating a record");
    for (unsigned i = 0; st == PST_OK && i < count; i++)
        st = composer_init(&composers[i], r, reterr);
    if (st < 0) {
        composers_destroy(composers, count);
        return st;
    }
    *ret = composers;
    return PST_OK;
}

void composers_destroy(struct composer *composers, unsigned count)
{
    for (unsigned i = 0; composers && i < count; i++)
        composer_finish(&composers[i]);
    mem_free(composers);
}
