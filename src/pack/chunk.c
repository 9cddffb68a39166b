/* chunk.c: see chunk.h. Memory grows to the largest chunk and is kept: fresh pages cost more than the copying. */
#include "pack/chunk.h"

#include "base/error.h"
#include "base/memory.h"
#include "record/frame.h"

void pack_images_add(struct pack_images *s, const pst_image_info *info)
{
    struct pack_images one = {1,           1u << info->format, 1u << info->channels, info->width,
                              info->width, info->height,       info->height};
    pack_images_merge(s, &one);
}

void pack_images_merge(struct pack_images *s, const struct pack_images *other)
{
    if (other->count == 0)
        return;
    if (s->count == 0) {
        *s = *other;
        return;
    }
    s->count += other->count;
    s->formats |= other->formats;
    s->channels |= other->channels;
    s->min_width = other->min_width < s->min_width ? other->min_width : s->min_width;
    s->max_width = other->max_width > s->max_width ? other->max_width : s->max_width;
    s->min_height = other->min_height < s->min_height ? other->min_height : s->min_height;
    s->max_height = other->max_height > s->max_height ? other->max_height : s->max_height;
}

void chunk_reset(struct chunk *c)
{
    c->length = c->count = 0;
    c->payload = c->skip_count = 0;
    c->images = (struct pack_images){0};
    c->skips.length = 0;
    entropy_builder_reset(&c->jpegs);
    c->next = NULL;
}

uint8_t *chunk_reserve(struct chunk *c, size_t length)
{
    size_t needed;
    void *data = c->data;
    if (__builtin_add_overflow(c->length, length, &needed) || mem_grow(&data, &c->capacity, needed, 1) < 0)
        return NULL;
    c->data = data;
    return c->data + c->length;
}

pst_status chunk_add(struct chunk *c, size_t payload, pst_error *reterr)
{
    void *entries = c->entries;
    if (mem_grow(&entries, &c->entry_capacity, c->count + 1, sizeof(*c->entries)) < 0)
        return fail_memory(reterr, "allocating the index");
    c->entries = entries;
    c->entries[c->count++] = (struct index_entry){c->length, payload};
    c->length += payload + FRAME_BYTES;
    c->payload += payload;
    return PST_OK;
}

void chunk_finish(struct chunk *c)
{
    mem_free(c->data);
    mem_free(c->entries);
    entropy_builder_finish(&c->jpegs);
    text_finish(&c->skips);
    *c = (struct chunk){0};
}
