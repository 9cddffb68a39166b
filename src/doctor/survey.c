/* survey.c: a look at the actual data: where elements lie, how large they are, what the images are like. Elements are drawn in random
 * order where the source has an index, so that small and large ones appear as often as they occur. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <math.h>
#include <penstock/image.h>
#include <stdio.h>
#include <string.h>

#define MOST_ITEMS   4096
#define MOST_RECORDS 2048
#define MOST_BYTES   ((uint64_t)96 << 20)

void doctor_survey_finish(struct survey *s)
{
    for (size_t i = 0; i < s->count; i++) {
        mem_free(s->item[i].path);
        mem_free(s->item[i].data);
    }
    mem_free(s->item);
    for (size_t i = 0; i < s->file_count; i++)
        mem_free(s->file[i]);
    for (size_t i = 0; i < s->images; i++)
        mem_free(s->image[i].data);
    *s = (struct survey){0};
}

/* ---- Elements of the source ---- */

static const pst_tensor *payload_of(const pst_batch *b)
{
    const pst_tensor *t = pst_batch_get(b, "record");
    t = t ? t : pst_batch_get(b, "image");
    for (size_t i = 0; !t && i < pst_batch_fields(b); i++)
        if (pst_batch_at(b, i)->dtype == PST_DTYPE_BYTES)
            t = pst_batch_at(b, i);
    return t && t->dtype == PST_DTYPE_BYTES && t->rank == 1 ? t : NULL;
}

static pst_status note_file(struct survey *s, const char *path, pst_error *reterr)
{
    struct file_info info;
    for (size_t i = 0; i < s->file_count; i++)
        if (strcmp(s->file[i], path) == 0)
            return PST_OK;
    if (s->file_count == sizeof(s->file) / sizeof(s->file[0]))
        return PST_OK;
    s->file[s->file_count] = mem_strdup(path);
    if (!s->file[s->file_count])
        return fail_memory(reterr, "looking at the data");
    s->file_count++;
    if (file_stat(path, &info, NULL) == PST_OK)
        s->file_bytes += info.size;
    s->files++;
    return PST_OK;
}

static pst_status add_item(struct survey *s, pst_pipeline *p, const pst_batch *b, size_t at, pst_error *reterr)
{
    const pst_tensor *payload = payload_of(b), *label = pst_batch_get(b, "label");
    const pst_bytes *bytes = payload ? (const pst_bytes *)payload->data + at : NULL;
    pst_place place = {0};
    if (pst_pipeline_locate(p, b, at, &place, NULL) < 0 || !place.path)
        return PST_OK; /* it has no place in a file */
    if (mem_grow((void **)&s->item, &s->capacity, s->count + 1, sizeof(*s->item)) < 0)
        return fail_memory(reterr, "looking at the data");
    struct survey_item *item = &s->item[s->count];
    *item = (struct survey_item){.path = mem_strdup(place.path), .label = INT64_MIN, .bytes = bytes ? bytes->length : 0, .offset = place.offset};
    if (label && label->dtype == PST_DTYPE_I64 && label->rank == 1)
        item->label = ((const int64_t *)label->data)[at];
    bool record = bytes && place.record != PST_NOWHERE && pst_batch_get(b, "record") == payload;
    if (record) {
        item->data = mem_alloc(bytes->length ? bytes->length : 1);
        if (item->data)
            memcpy(item->data, bytes->data, bytes->length);
    }
    s->count++;
    if (!item->path || (record && !item->data))
        return fail_memory(reterr, "looking at the data");
    enum survey_kind kind = record ? SURVEY_RECORDS : place.record == PST_NOWHERE ? SURVEY_FILES : SURVEY_NONE;
    s->kind = s->count == 1 || s->kind == kind ? kind : SURVEY_NONE; /* mixed data is of no kind */
    s->file_per_element = place.record == PST_NOWHERE && (s->count == 1 || s->file_per_element);
    return note_file(s, place.path, reterr);
}

static pst_status look_at_elements(struct pst_doctor *d, pst_pipeline *p, double seconds, pst_error *reterr)
{
    struct survey *s = &d->survey;
    uint64_t end = clock_ns() + (uint64_t)(1e9 * seconds), bytes = 0, most = MOST_ITEMS;
    pst_status st = PST_OK;
    while (st == PST_OK && s->count < most && bytes < MOST_BYTES && (clock_ns() < end || s->count < 16)) {
        pst_batch *batch = NULL;
        st = pst_pipeline_next(p, &batch, reterr);
        for (size_t i = 0; st == PST_OK && i < pst_batch_size(batch); i++)
            st = add_item(s, p, batch, i, reterr);
        pst_batch_unref(batch);
        bytes = 0;
        for (size_t i = 0; i < s->count; i++)
            bytes += s->item[i].bytes;
        most = s->kind == SURVEY_RECORDS ? MOST_RECORDS : MOST_ITEMS;
        if (s->count == 0)
            break; /* elements without places */
        if (doctor_stopped(d))
            return pst_fail(reterr, PST_ECANCELLED, "the examination was stopped");
    }
    bool counted = d->facts.elements != PST_NOWHERE && d->facts.elements > 0 && s->kind == SURVEY_NONE;
    s->mean_bytes = counted ? (double)s->file_bytes / (double)d->facts.elements : s->count ? (double)bytes / (double)s->count : 0;
    return st < 0 ? st : PST_OK;
}

/* A draft of the stages before `until` without their order, in random order where that is possible. */
static void draw(const struct pst_doctor *d, size_t until, size_t batch, struct draft *ret)
{
    draft_copy(ret, &d->now);
    draft_truncate(ret, until);
    for (size_t i = ret->count; i-- > 1;)
        if (ret->stage[i].kind != PST_OP_SAMPLE)
            draft_remove(ret, i);
    if (d->facts.indexed)
        draft_insert(ret, 1, "shuffle seed=1");
    draft_insert(ret, ret->count, "batch %zu", batch);
    ret->options.prefetch = 1;
    ret->options.ram = 0;
}

static pst_status survey_source(struct pst_doctor *d, pst_error *reterr)
{
    struct draft r;
    pst_pipeline *p = NULL;
    draw(d, 1, 16, &r);
    pst_status st = draft_open(&r, &p, reterr);
    if (st == PST_OK)
        st = look_at_elements(d, p, doctor_span(d, 0.25, 0.7), reterr);
    pst_pipeline_destroy(p);
    draft_finish(&r);
    pst_reader *reader = NULL;
    if (st == PST_OK && d->survey.kind == SURVEY_RECORDS && d->survey.file_count &&
        pst_reader_open(&reader, d->survey.file[0], NULL, NULL) == PST_OK)
        d->survey.compression = pst_reader_compression(reader);
    pst_reader_close(reader);
    return st;
}

/* ---- Encoded images ---- */

static void look_at_image(struct survey *s, const pst_bytes *b, size_t *count)
{
    pst_image_info info;
    if (pst_image_probe(b->data, b->length, &info, NULL) < 0)
        return;
    s->width += info.width;
    s->height += info.height;
    s->pixels += (double)info.width * info.height;
    s->image_bytes += (double)b->length;
    s->jpeg_share += info.format == PST_IMAGE_JPEG;
    ++*count;
    if (s->images < SURVEY_IMAGES) {
        struct survey_image *i = &s->image[s->images];
        i->data = mem_alloc(b->length ? b->length : 1);
        if (i->data) {
            memcpy(i->data, b->data, b->length);
            i->length = b->length;
            s->images++;
        }
    }
}

static pst_status survey_images(struct pst_doctor *d, size_t decode, pst_error *reterr)
{
    struct survey *s = &d->survey;
    char *field = draft_argument(&d->now.stage[decode], "field", 0);
    struct draft r;
    pst_pipeline *p = NULL;
    size_t count = 0;
    draw(d, decode, 8, &r);
    pst_status st = draft_open(&r, &p, reterr);
    uint64_t end = clock_ns() + (uint64_t)(1e9 * doctor_span(d, 0.3, 0.3));
    while (st == PST_OK && count < 128 && (clock_ns() < end || count == 0)) {
        pst_batch *batch = NULL;
        st = pst_pipeline_next(p, &batch, reterr);
        const pst_tensor *t = st == PST_OK ? pst_batch_get(batch, field ? field : "image") : NULL;
        size_t before = count;
        for (size_t i = 0; t && t->dtype == PST_DTYPE_BYTES && t->rank == 1 && i < pst_batch_size(batch); i++)
            look_at_image(s, (const pst_bytes *)t->data + i, &count);
        pst_batch_unref(batch);
        if (count == before)
            break;
    }
    if (count) {
        double n = (double)count;
        s->width /= n;
        s->height /= n;
        s->pixels /= n;
        s->image_bytes /= n;
        s->jpeg_share /= n;
    }
    pst_pipeline_destroy(p);
    draft_finish(&r);
    mem_free(field);
    return st == PST_END ? PST_OK : st;
}

pst_status doctor_survey(struct pst_doctor *d, pst_error *reterr)
{
    size_t decode = draft_find(&d->now, "decode", 1);
    pst_status st = doctor_tick(d, "looking at the data", reterr);
    if (st == PST_OK && !d->now.stage[0].custom)
        st = survey_source(d, reterr);
    if (st == PST_OK && decode != DRAFT_NONE && !d->now.stage[0].custom)
        st = survey_images(d, decode, reterr);
    return st;
}
