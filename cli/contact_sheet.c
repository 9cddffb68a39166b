/* contact_sheet.c: finds the images among the fields, scales their values to 0…255, and lets the library draw the sheet.
 *
 * Numbers of 8 bits are pixels already. Floating point is taken for what it looks like: 0…1, -1…1 or 0…255; anything else was
 * normalised in some other way, which is undone channel by channel, by the least and the greatest value on the whole sheet. */
#include "cli/contact_sheet.h"
#include "cli/values.h"
#include <math.h>
#include <penstock/image.h>
#include <penstock/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CHANNELS 4

/* Layout of the pixels in a tensor, in values. */
struct pixels {
    bool encoded; /* bytes of an image file instead */
    uint32_t width, height, channels;
    uint64_t step_x, step_y, step_channel;
};

struct range {
    double low[MAX_CHANNELS], high[MAX_CHANNELS];
};

/* ---- Finding images ---- */

static bool is_channels(uint64_t n)
{
    return n == 1 || n == 3 || n == 4;
}

static bool is_side(uint64_t n)
{
    return n > 0 && n <= UINT16_MAX;
}

/* [height,width,channels], [channels,height,width] or [height,width]. */
static bool find_pixels(const pst_tensor *t, struct pixels *ret)
{
    const uint64_t *s = t->shape;
    struct pixels p = {0};
    pst_image_info info;

    if (t->dtype == PST_DTYPE_BYTES) {
        const pst_bytes *bytes = t->data;

        p.encoded = t->rank == 0 && pst_image_probe(bytes->data, bytes->length, &info, NULL) == PST_OK;
        *ret = p;
        return p.encoded;
    }
    if (t->dtype == PST_DTYPE_I32 || t->dtype == PST_DTYPE_I64)
        return false;
    if (t->rank == 3 && is_channels(s[2]) && is_side(s[0]) && is_side(s[1]))
        p = (struct pixels){false, (uint32_t)s[1], (uint32_t)s[0], (uint32_t)s[2], s[2], s[1] * s[2], 1};
    else if (t->rank == 3 && is_channels(s[0]) && is_side(s[1]) && is_side(s[2]))
        p = (struct pixels){false, (uint32_t)s[2], (uint32_t)s[1], (uint32_t)s[0], 1, s[2], s[1] * s[2]};
    else if (t->rank == 2 && is_side(s[0]) && is_side(s[1]) && s[0] > 1 && s[1] > 1)
        p = (struct pixels){false, (uint32_t)s[1], (uint32_t)s[0], 1, 1, s[1], 0};
    *ret = p;
    return p.channels != 0;
}

/* Finds the field to show, by the first element. */
static pst_status choose_field(const struct contact_sheet *s, size_t *ret, pst_error *reterr)
{
    const pst_batch *first = s->batches[0];
    size_t fields = pst_batch_fields(first), found = fields;

    for (size_t f = fields; f-- > 0;) {
        pst_tensor element = element_view(pst_batch_at(first, f), 0);
        const char *name = pst_batch_name(first, f);
        bool named = strcmp(name, s->image ? s->image : "image") == 0;
        struct pixels p;

        if (s->image && !named)
            continue;
        if (!find_pixels(&element, &p)) {
            if (s->image)
                return pst_fail(reterr, PST_EINVAL, "field %s has %s of %u dimensions and is not an image", name,
                                pst_dtype_name(element.dtype), element.rank);
            continue;
        }
        found = f;
        if (named) {
            *ret = f;
            return PST_OK;
        }
    }
    if (found == fields && s->image)
        return pst_fail(reterr, PST_EINVAL, "there is no field %s", s->image);
    if (found == fields)
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "a sheet needs images, and no field contains images; without --sheet the elements are printed");
    *ret = found;
    return PST_OK;
}

/* ---- Values to pixels ---- */

static double pixel_at(const pst_tensor *t, const struct pixels *p, uint32_t x, uint32_t y, uint32_t channel)
{
    return value_number(t, y * p->step_y + x * p->step_x + channel * p->step_channel);
}

static void range_add(struct range *r, const pst_tensor *t, const struct pixels *p)
{
    for (uint32_t y = 0; y < p->height; y++) {
        for (uint32_t x = 0; x < p->width; x++) {
            for (uint32_t c = 0; c < p->channels; c++) {
                double value = pixel_at(t, p, x, y, c);

                if (!isfinite(value))
                    continue;
                r->low[c] = fmin(r->low[c], value);
                r->high[c] = fmax(r->high[c], value);
            }
        }
    }
}

/* Estimates which values correspond to levels 0 and 255. */
static void range_judge(struct range *r)
{
    double low = NAN, high = NAN;

    for (int c = 0; c < MAX_CHANNELS; c++) {
        low = fmin(low, r->low[c]);
        high = fmax(high, r->high[c]);
    }
    for (int c = 0; c < MAX_CHANNELS; c++) {
        if (low >= 0 && high <= 255) {
            r->low[c] = 0;
            r->high[c] = high <= 1 ? 1 : 255;
        } else if (low >= -1 && high <= 1) {
            r->low[c] = -1;
            r->high[c] = 1;
        }
    }
}

static uint8_t to_pixel(double value, double low, double high)
{
    double scaled = high > low ? 255 * (value - low) / (high - low) + 0.5 : 127;

    return scaled > 255 ? 255 : scaled > 0 ? (uint8_t)scaled : 0; /* NaN becomes 0 */
}

static pst_status draw(pst_image *ret, const pst_tensor *t, const struct range *r, pst_error *reterr)
{
    struct pixels p;
    pst_status status;

    if (!find_pixels(t, &p))
        return PST_OK; /* its tile shows that it cannot be read */
    if (p.encoded) {
        const pst_bytes *bytes = t->data;
        pst_decode_options options = {.size = sizeof(options), .channels = 4};

        status = pst_image_decode(ret, bytes->data, bytes->length, &options, reterr);
        return status == PST_ENOMEM ? status : PST_OK;
    }
    status = pst_image_create(ret, p.width, p.height, p.channels, reterr);
    if (status < 0)
        return status;
    for (uint32_t y = 0; y < p.height; y++) {
        for (uint32_t x = 0; x < p.width; x++) {
            for (uint32_t c = 0; c < p.channels; c++)
                ret->pixels[y * ret->stride + x * p.channels + c] = to_pixel(pixel_at(t, &p, x, y, c), r->low[c], r->high[c]);
        }
    }
    return PST_OK;
}

/* ---- Captions ---- */

#define CAPTION_SIZE 96

/* A class number, the place of the largest of a vector's values, or a text; "" where the field is none of these. */
static void caption_text(char *buffer, size_t size, const pst_tensor *t)
{
    uint64_t count = value_count(t, 0), best = 0;
    char number[VALUE_SIZE];

    buffer[0] = '\0';
    if (t->dtype == PST_DTYPE_BYTES && count == 1) {
        const pst_bytes *bytes = t->data;

        snprintf(buffer, size, "%.*s", bytes->length < size ? (int)bytes->length : (int)size - 1, (const char *)bytes->data);
    } else if (t->dtype != PST_DTYPE_BYTES && count == 1) {
        snprintf(buffer, size, "class %s", value_text(number, t, 0));
    } else if (t->dtype != PST_DTYPE_BYTES && t->rank == 1 && count > 1) {
        for (uint64_t i = 1; i < count; i++)
            best = value_number(t, i) > value_number(t, best) ? i : best;
        snprintf(buffer, size, "class %llu", (unsigned long long)best);
    }
}

/* ---- The sheet ---- */

struct tiles {
    pst_tile *tile;
    char (*caption)[CAPTION_SIZE], (*note)[VALUE_SIZE];
};

static pst_status fill_tile(const struct contact_sheet *s, struct tiles *t, size_t k, const pst_batch *batch, size_t i,
                            size_t field, const struct range *range, pst_error *reterr)
{
    const pst_tensor *label = pst_batch_get(batch, s->label ? s->label : "label");
    pst_tensor image = element_view(pst_batch_at(batch, field), i);

    if (label) {
        pst_tensor value = element_view(label, i);

        caption_text(t->caption[k], CAPTION_SIZE, &value);
    } else if (s->label) {
        return pst_fail(reterr, PST_EINVAL, "there is no field %s", s->label);
    }
    snprintf(t->note[k], VALUE_SIZE, "#%zu", k);
    t->tile[k].caption = t->caption[k];
    t->tile[k].note = t->note[k];
    return draw(&t->tile[k].image, &image, range, reterr);
}

static struct range find_range(const struct contact_sheet *s, size_t field)
{
    struct range r;

    for (int c = 0; c < MAX_CHANNELS; c++)
        r.low[c] = r.high[c] = NAN;
    for (size_t b = 0; b < s->count; b++) {
        for (size_t i = 0; i < pst_batch_size(s->batches[b]); i++) {
            pst_tensor image = element_view(pst_batch_at(s->batches[b], field), i);
            struct pixels p;

            if (image.dtype != PST_DTYPE_U8 && find_pixels(&image, &p) && !p.encoded)
                range_add(&r, &image, &p);
        }
    }
    if (pst_batch_at(s->batches[0], field)->dtype == PST_DTYPE_U8)
        r.low[0] = 0, r.high[0] = 255;
    range_judge(&r);
    return r;
}

static pst_status fill_tiles(const struct contact_sheet *s, struct tiles *t, size_t field, pst_error *reterr)
{
    struct range range = find_range(s, field);
    pst_status status = PST_OK;
    size_t k = 0;

    for (size_t b = 0; b < s->count; b++) {
        for (size_t i = 0; i < pst_batch_size(s->batches[b]) && status == PST_OK; i++, k++)
            status = fill_tile(s, t, k, s->batches[b], i, field, &range, reterr);
    }
    return status;
}

pst_status contact_sheet_write(const struct contact_sheet *s, const char *path, uint32_t tile_size, const char *text,
                               pst_error *reterr)
{
    struct tiles t = {0};
    char title[PST_NAME_SIZE + 32];
    size_t field = 0;
    pst_status status = s->elements ? choose_field(s, &field, reterr)
                                    : pst_fail(reterr, PST_EUNSUPPORTED, "a sheet needs images, and the pipeline is empty");

    if (status < 0)
        return status;
    t.tile = calloc(s->elements, sizeof(*t.tile));
    t.caption = calloc(s->elements, sizeof(*t.caption));
    t.note = calloc(s->elements, sizeof(*t.note));
    if (!t.tile || !t.caption || !t.note)
        status = pst_fail(reterr, PST_ENOMEM, "out of memory for a sheet of %zu tiles", s->elements);
    if (status == PST_OK)
        status = fill_tiles(s, &t, field, reterr);
    snprintf(title, sizeof(title), "%zu of %s", s->elements, pst_batch_name(s->batches[0], field));
    if (status == PST_OK)
        status = pst_sheet_write(path, t.tile, s->elements, tile_size, title, text, reterr);
    for (size_t k = 0; t.tile && k < s->elements; k++)
        pst_image_finish(&t.tile[k].image);
    free(t.tile);
    free(t.caption);
    free(t.note);
    return status;
}

bool contact_sheet_add(struct contact_sheet *s, pst_batch *batch)
{
    pst_batch **grown = realloc(s->batches, (s->count + 1) * sizeof(*grown));

    if (!grown)
        return false;
    s->batches = grown;
    s->batches[s->count++] = pst_batch_ref(batch);
    s->elements += pst_batch_size(batch);
    return true;
}

void contact_sheet_finish(struct contact_sheet *s)
{
    for (size_t i = 0; i < s->count; i++)
        pst_batch_unref(s->batches[i]);
    free(s->batches);
}
