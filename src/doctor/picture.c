/* picture.c: see picture.h. */
#include "doctor/picture.h"

#include <string.h>

#define SIDE 96 /* pixels */

static pst_image middle_of(const pst_image *image)
{
    pst_image part = *image;
    part.width = image->width < SIDE ? image->width : SIDE;
    part.height = image->height < SIDE ? image->height : SIDE;
    part.pixels +=
        (image->height - part.height) / 2 * image->stride + (size_t)((image->width - part.width) / 2) * image->channels;
    return part;
}

void picture_make(struct picture *ret, const pst_image *before, const pst_image *after)
{
    pst_encode_options o = {.size = sizeof(o), .effort = 9};
    pst_image a = middle_of(before), b = middle_of(after);
    struct picture p = {0};
    if (a.width != b.width || a.height != b.height || !a.width || !a.height ||
        pst_image_encode(&p.before, &p.before_length, &a, PST_IMAGE_PNG, &o, NULL) < 0 ||
        pst_image_encode(&p.after, &p.after_length, &b, PST_IMAGE_PNG, &o, NULL) < 0) {
        picture_finish(&p);
        return;
    }
    picture_finish(ret);
    *ret = p;
}

static bool image_in(const pst_tensor *t, size_t i, pst_image *ret)
{
    if (!t || t->dtype != PST_DTYPE_U8 || t->rank != 4 || t->row_splits || i >= (size_t)t->shape[0] ||
        (t->shape[3] != 1 && t->shape[3] != 3))
        return false;
    size_t height = (size_t)t->shape[1], stride = (size_t)t->shape[2] * (size_t)t->shape[3];
    *ret = (pst_image){.pixels = (uint8_t *)t->data + i * height * stride,
                       .width = (uint32_t)t->shape[2],
                       .height = (uint32_t)t->shape[1],
                       .channels = (uint32_t)t->shape[3],
                       .stride = stride};
    return true;
}

void picture_of_tensors(struct picture *ret, const pst_tensor *before, const pst_tensor *after, size_t i)
{
    pst_image a, b;
    if (image_in(before, i, &a) && image_in(after, i, &b))
        picture_make(ret, &a, &b);
}

void picture_finish(struct picture *p)
{
    pst_free(p->before);
    pst_free(p->after);
    *p = (struct picture){0};
}
