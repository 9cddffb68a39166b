/* image_field.c: images as operations find them in fields: what is one, and its pixels. */
#include "ops/fields.h"
#include "ops/image/image_op.h"

#include <inttypes.h>

#define MOST_CHANNELS 4

bool image_field_holds(const pst_field *f)
{
    if (f->dtype == PST_DTYPE_BYTES || f->rank != 3)
        return false;
    if (f->shape[2] == PST_ANY) /* the channels; or they stand in front, and it is the width that is not known */
        return f->shape[1] != PST_ANY || f->shape[0] == PST_ANY || f->shape[0] > MOST_CHANNELS;
    return f->shape[2] >= 1 && f->shape[2] <= MOST_CHANNELS;
}

static bool takes(enum image_values values, pst_dtype dtype)
{
    return values == IMAGE_NUMBERS || dtype == PST_DTYPE_U8 || (values == IMAGE_BYTES_AND_FLOATS && dtype == PST_DTYPE_F32);
}

static pst_status fail_field(const pst_field *f, enum image_values values, pst_error *reterr)
{
    static const char *const expected[] = {
        [IMAGE_NUMBERS] = "numbers", [IMAGE_BYTES_AND_FLOATS] = "uint8 or float32"};
    char found[160];
    pst_spec one = {.count = 1, .field = f};
    const char *hint = "";
    pst_spec_text(&one, found, sizeof(found));
    if (f->dtype == PST_DTYPE_BYTES)
        hint = ": decode it first";
    else if (image_field_holds(f))
        hint = ": put this before normalize or cast";
    else if (f->rank == 3)
        hint = ": put this before layout";
    return pst_fail(reterr, PST_ETYPE, "%s; expected %s [height,width,channels], 1 to %d channels%s", found, expected[values],
                    MOST_CHANNELS, hint);
}

pst_status image_field_plan(struct image_field *field, const pst_spec *in, enum image_values values, pst_spec *ret_out,
                            pst_field **ret, pst_error *reterr)
{
    pst_status st = field_find(in, field->name, &field->number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[field->number];
    if (!image_field_holds(f) || !takes(values, f->dtype))
        return fail_field(f, values, reterr);
    pst_spec_pass(in, ret_out);
    pst_spec_read(ret_out, field->number);
    *ret = pst_spec_write(ret_out, field->number);
    return PST_OK;
}

pst_status image_of_tensor(const pst_tensor *t, pst_image *ret, pst_error *reterr)
{
    uint64_t height = t->shape[0], width = t->shape[1], channels = t->shape[2];
    if (!height || !width || !channels || height > INT32_MAX || width > INT32_MAX || channels > MOST_CHANNELS)
        return pst_fail(reterr, PST_ETYPE,
                        "an array of %" PRIu64 " × %" PRIu64 " × %" PRIu64 " values is not an image with 1 to %d channels",
                        height, width, channels, MOST_CHANNELS);
    *ret = (pst_image){.pixels = t->data, .width = (uint32_t)width, .height = (uint32_t)height, .channels = (uint32_t)channels};
    ret->stride = (size_t)width * channels;
    return PST_OK;
}
