/* rewrite.c: see rewrite.h. */
#include "doctor/rewrite.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define QUALITY       90
#define MOST_COMPARED 24

struct job {
    const struct rewrite *q;
    const pst_batch *batch;
    uint8_t **data; /* of each element of the batch: the image as it is stored; owned */
    size_t *length;
    double *psnr; /* 0: not compared */
    uint64_t compared;
    pst_builder *builder;
    pst_writer *writer[64];
    struct rewritten done;
};

/* ---- Images ---- */

static double psnr_of(const pst_image *a, const pst_image *b)
{
    double sum = 0, count = (double)a->width * a->height * a->channels;
    for (uint32_t y = 0; y < a->height; y++)
        for (uint32_t x = 0; x < a->width * a->channels; x++) {
            double e = (double)a->pixels[y * a->stride + x] - b->pixels[y * b->stride + x];
            sum += e * e;
        }
    return sum > 0 ? 10 * log10(255.0 * 255.0 * count / sum) : 99;
}

/* What training sees: the original and the stored image, both brought to the side that is used. `picture` may be NULL. */
static double compare(const pst_image *original, const uint8_t *data, size_t length, uint32_t side, struct picture *picture)
{
    pst_image stored = {0}, a = {0}, b = {0};
    pst_decode_options o = {.size = sizeof(o), .channels = 3};
    double psnr = 0;
    if (pst_image_decode(&stored, data, length, &o, NULL) == PST_OK &&
        pst_image_resize(&a, original, side, side, PST_FILTER_TRIANGLE, NULL) == PST_OK &&
        pst_image_resize(&b, &stored, side, side, PST_FILTER_TRIANGLE, NULL) == PST_OK)
        psnr = psnr_of(&a, &b);
    if (psnr > 0 && picture)
        picture_make(picture, &a, &b);
    pst_image_finish(&stored);
    pst_image_finish(&a);
    pst_image_finish(&b);
    return psnr;
}

static pst_status encode(const struct rewrite *q, const pst_image *image, pst_image_format format, uint8_t **ret,
                         size_t *ret_length, pst_error *reterr)
{
    uint32_t least = image->width < image->height ? image->width : image->height;
    pst_encode_options o = {.size = sizeof(o), .quality = QUALITY};
    if (!q->short_side || least <= q->short_side)
        return pst_image_encode(ret, ret_length, image, format, &o, reterr);
    uint32_t w = (uint32_t)((uint64_t)image->width * q->short_side / least),
             h = (uint32_t)((uint64_t)image->height * q->short_side / least);
    pst_image small = {0};
    pst_status st = pst_image_resize(&small, image, w ? w : 1, h ? h : 1, PST_FILTER_TRIANGLE, reterr);
    if (st == PST_OK)
        st = pst_image_encode(ret, ret_length, &small, format, &o, reterr);
    pst_image_finish(&small);
    return st;
}

/* Pictures are made of images of the first batch, spread over those that are compared: samples lie in the order of their size.
 */
static struct picture *picture_for(struct job *j, size_t i)
{
    size_t n = pst_batch_size(j->batch), most = n < MOST_COMPARED ? n : MOST_COMPARED;
    for (size_t k = 0; k < PICTURES && j->compared == 0; k++)
        if (i == (k + 1) * most / (PICTURES + 1))
            return &j->done.picture[k];
    return NULL;
}

static pst_status store_image(void *user, size_t i, pst_error *reterr)
{
    struct job *j = user;
    const struct rewrite *q = j->q;
    const pst_tensor *images = pst_batch_get(j->batch, q->image);
    if (!images || images->dtype != PST_DTYPE_BYTES || images->rank != 1)
        return pst_fail(reterr, PST_ETYPE, "the field %s has no images as they are stored", q->image);
    const pst_bytes *from = (const pst_bytes *)images->data + i;
    pst_image image = {0};
    pst_image_info info;
    pst_decode_options o = {.size = sizeof(o), .channels = 3};
    pst_status st = pst_image_probe(from->data, from->length, &info, reterr);
    if (st == PST_OK)
        st = pst_image_decode(&image, from->data, from->length, &o, reterr);
    pst_image_format format = q->format ? q->format : info.format == PST_IMAGE_PNG ? PST_IMAGE_PNG : PST_IMAGE_JPEG;
    if (st == PST_OK)
        st = encode(q, &image, format, &j->data[i], &j->length[i], reterr);
    if (st == PST_OK && q->compare && j->compared + i < MOST_COMPARED)
        j->psnr[i] = compare(&image, j->data[i], j->length[i], q->compare, picture_for(j, i));
    pst_image_finish(&image);
    if (st == PST_ECORRUPT && q->from->options.bad && strcmp(q->from->options.bad, "error") != 0)
        return PST_OK; /* the pipeline leaves it out, too */
    return st;
}

/* ---- Examples ---- */

static pst_status add_field(struct job *j, size_t f, size_t i, pst_error *reterr)
{
    const pst_tensor *t = pst_batch_at(j->batch, f);
    const char *name = pst_batch_name(j->batch, f);
    size_t values = 1;
    for (uint32_t k = 1; k < t->rank; k++)
        values *= (size_t)t->shape[k];
    if (t->row_splits)
        return pst_fail(
            reterr, PST_EUNSUPPORTED,
            "the field %.60s has a varying number of values and cannot be written again; leave it out with `drop`, or use "
            "`penstock pack --resize`",
            name);
    if (j->q->image && strcmp(name, j->q->image) == 0) {
        pst_bytes b = {.data = j->data[i], .length = j->length[i]};
        return pst_builder_add_bytes(j->builder, name, &b, 1, reterr);
    }
    if (t->dtype == PST_DTYPE_BYTES && t->rank == 1)
        return pst_builder_add_bytes(j->builder, name, (const pst_bytes *)t->data + i, 1, reterr);
    if (t->dtype == PST_DTYPE_I64)
        return pst_builder_add_int64s(j->builder, name, (const int64_t *)t->data + i * values, values, reterr);
    if (t->dtype == PST_DTYPE_F32)
        return pst_builder_add_floats(j->builder, name, (const float *)t->data + i * values, values, reterr);
    return pst_fail(
        reterr, PST_EUNSUPPORTED,
        "the field %.60s cannot be written again (its type); leave it out with `drop`, or use `penstock pack --resize`", name);
}

static pst_status write_element(struct job *j, size_t i, pst_error *reterr)
{
    pst_bytes record;
    pst_status st = PST_OK;
    pst_builder_reset(j->builder);
    for (size_t f = 0; f < pst_batch_fields(j->batch) && st == PST_OK; f++)
        st = add_field(j, f, i, reterr);
    if (st == PST_OK)
        st = pst_builder_finish(j->builder, &record, reterr);
    if (st == PST_OK)
        st = pst_writer_write(j->writer[j->done.samples % j->q->shards], record.data, record.length, reterr);
    if (st == PST_OK) {
        j->done.samples++;
        j->done.bytes += record.length + 16;
    }
    return st;
}

static pst_status write_batch(struct job *j, pst_error *reterr)
{
    size_t n = pst_batch_size(j->batch);
    pst_status st = PST_OK;
    j->data = mem_array(n, sizeof(*j->data));
    j->length = mem_array(n, sizeof(*j->length));
    j->psnr = mem_array(n, sizeof(*j->psnr));
    if (!j->data || !j->length || !j->psnr)
        st = fail_memory(reterr, "storing images");
    if (st == PST_OK && j->q->image)
        st = parallel_each(n, j->q->threads, store_image, j, reterr);
    for (size_t i = 0; i < n && st == PST_OK; i++) {
        if (j->q->image && !j->data[i])
            continue;
        st = write_element(j, i, reterr);
        if (j->psnr[i] > 0) {
            j->done.psnr += j->psnr[i];
            j->compared++;
        }
    }
    for (size_t i = 0; j->data && i < n; i++)
        pst_free(j->data[i]);
    mem_free(j->data);
    mem_free(j->length);
    mem_free(j->psnr);
    return st;
}

/* ---- Shards ---- */

static pst_status open_shards(struct job *j, pst_error *reterr)
{
    const struct rewrite *q = j->q;
    pst_status st = file_make_folder(q->folder, reterr);
    for (uint32_t i = 0; i < q->shards && st == PST_OK; i++) {
        char *path = mem_format("%s/data.tfrecord-%05u-of-%05u", q->folder, i, q->shards);
        pst_writer_options o = {.size = sizeof(o), .no_sync = !q->sync};
        st = path ? pst_writer_open(&j->writer[i], path, &o, reterr) : fail_memory(reterr, "opening shards");
        mem_free(path);
    }
    return st;
}

static pst_status copy_elements(struct job *j, pst_pipeline *p, pst_error *reterr)
{
    for (;;) {
        pst_batch *batch = NULL;
        pst_status st = pst_pipeline_next(p, &batch, reterr);
        if (st != PST_OK)
            return st == PST_END ? PST_OK : st;
        j->batch = batch;
        st = write_batch(j, reterr);
        pst_batch_unref(batch);
        pst_progress now = {.stage = "storing", .done = j->done.samples, .total = j->q->samples, .bytes = j->done.bytes};
        if (st == PST_OK && j->q->progress && j->q->progress(j->q->user, &now))
            st = pst_fail(reterr, PST_ECANCELLED, "stopped while storing data");
        if (st < 0)
            return st;
    }
}

pst_status doctor_rewrite(const struct rewrite *q, struct rewritten *ret, pst_error *reterr)
{
    struct job j = {.q = q};
    pst_pipeline *p = NULL;
    uint64_t begin = clock_ns();
    pst_status st = draft_open(q->from, &p, reterr);
    if (st == PST_OK)
        st = open_shards(&j, reterr);
    if (st == PST_OK)
        st = pst_builder_create(&j.builder, reterr);
    if (st == PST_OK)
        st = copy_elements(&j, p, reterr);
    for (uint32_t i = 0; i < q->shards; i++) {
        if (st == PST_OK)
            st = pst_writer_commit(j.writer[i], reterr);
        pst_writer_close(j.writer[i]);
    }
    pst_builder_destroy(j.builder);
    pst_pipeline_destroy(p);
    for (size_t i = 0; i < PICTURES && st < 0; i++)
        picture_finish(&j.done.picture[i]);
    if (st < 0)
        return st;
    j.done.seconds = (double)(clock_ns() - begin) * 1e-9;
    j.done.psnr = j.compared ? j.done.psnr / (double)j.compared : 0;
    *ret = j.done;
    return PST_OK;
}
