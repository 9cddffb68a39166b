/* images.c: see images.h. */
#include "inspect/images.h"

#include "inspect/feature_table.h"
#include "inspect/readable.h"

#include <string.h>

/* True if `name` is `word`, or a path that ends in it: image/width, image.width. */
static bool ends_in(pst_bytes name, const char *word)
{
    size_t n = strlen(word);
    if (name.length < n || memcmp(name.data + name.length - n, word, n) != 0)
        return false;
    return name.length == n || name.data[name.length - n - 1] == '/' || name.data[name.length - n - 1] == '.';
}

struct image_shape image_shape_find(const pst_named_value *values, size_t count)
{
    struct image_shape shape = {0};
    for (size_t i = 0; i < count; i++) {
        const pst_value *v = &values[i].value;
        if (!v->present || v->kind != PST_INT64 || v->count != 1)
            continue;
        int64_t number = *(const int64_t *)v->data;
        if (number <= 0 || number > UINT32_MAX)
            continue;
        if (ends_in(values[i].name, "width"))
            shape.width = (uint64_t)number;
        else if (ends_in(values[i].name, "height"))
            shape.height = (uint64_t)number;
        else if (ends_in(values[i].name, "channels"))
            shape.channels = (uint64_t)number;
    }
    return shape;
}

static bool is_raw(pst_bytes bytes, const struct image_shape *shape, pst_image_info *ret)
{
    if (!shape || !shape->width || !shape->height)
        return false;
    if (!shape->channels && readable_is_text(bytes.data, bytes.length))
        return false;                               /* a short text may have as many bytes as a small picture has pixels */
    uint64_t pixels = shape->width * shape->height; /* both below 2^32 */
    uint64_t channels = shape->channels ? shape->channels : bytes.length / pixels;
    if ((channels != 1 && channels != 3 && channels != 4) || bytes.length / channels != pixels || bytes.length % channels)
        return false;
    *ret = (pst_image_info){PST_IMAGE_RAW, (uint32_t)shape->width, (uint32_t)shape->height, (uint32_t)channels};
    return true;
}

bool image_recognise(pst_bytes bytes, const struct image_shape *shape, pst_image_info *ret)
{
    if (!bytes.length)
        return false;
    return pst_image_probe(bytes.data, bytes.length, ret, NULL) == PST_OK || is_raw(bytes, shape, ret);
}

/* Raw pixels to gray, RGB or RGBA. */
static void convert_raw(pst_image *to, pst_bytes bytes, const pst_image_info *info)
{
    for (uint32_t y = 0; y < to->height; y++) {
        const uint8_t *in = bytes.data + (size_t)y * info->width * info->channels;
        uint8_t *out = to->pixels + y * to->stride;
        for (uint32_t x = 0; x < to->width; x++, in += info->channels, out += to->channels) {
            for (uint32_t c = 0; c < to->channels; c++)
                out[c] = c == 3 && info->channels < 4 ? 255 : in[info->channels < 3 ? 0 : c];
        }
    }
}

pst_status image_decode(pst_image *ret, pst_bytes bytes, const pst_image_info *info, uint32_t channels, bool strict,
                        pst_error *reterr)
{
    if (info->format != PST_IMAGE_RAW) {
        pst_decode_options options = {.size = sizeof(options), .channels = channels, .strict = strict};
        return pst_image_decode(ret, bytes.data, bytes.length, &options, reterr);
    }
    pst_status st = pst_image_create(ret, info->width, info->height, channels ? channels : info->channels, reterr);
    if (st == PST_OK)
        convert_raw(ret, bytes, info);
    return st;
}

size_t images_choose(const struct feature_table *t)
{
    size_t best = NAME_NONE;
    for (size_t i = 0; i < t->keys.count; i++) {
        const char *name = feature_plain_name(t, i);
        if (!name || !feature_is_image(&t->stats[i]))
            continue;
        if (strcmp(name, "image") == 0)
            return i;
        if (best == NAME_NONE || strcmp(name, feature_plain_name(t, best)) < 0)
            best = i;
    }
    return best;
}

void image_stats_add(struct image_stats *s, const pst_image_info *info, uint64_t bytes)
{
    bool first = s->count == 0;
    s->min_width = first || info->width < s->min_width ? info->width : s->min_width;
    s->max_width = info->width > s->max_width ? info->width : s->max_width;
    s->min_height = first || info->height < s->min_height ? info->height : s->min_height;
    s->max_height = info->height > s->max_height ? info->height : s->max_height;
    s->count++;
    s->width += info->width;
    s->height += info->height;
    s->bytes += bytes;
    if (info->format < PST_IMAGE_FORMATS)
        s->by_format[info->format]++;
    if (info->channels < 5)
        s->by_channels[info->channels]++;
}

void image_stats_merge(struct image_stats *into, const struct image_stats *from)
{
    if (!from->count)
        return;
    bool first = into->count == 0;
    into->min_width = first || from->min_width < into->min_width ? from->min_width : into->min_width;
    into->max_width = from->max_width > into->max_width ? from->max_width : into->max_width;
    into->min_height = first || from->min_height < into->min_height ? from->min_height : into->min_height;
    into->max_height = from->max_height > into->max_height ? from->max_height : into->max_height;
    into->count += from->count;
    into->width += from->width;
    into->height += from->height;
    into->bytes += from->bytes;
    for (size_t i = 0; i < PST_IMAGE_FORMATS; i++)
        into->by_format[i] += from->by_format[i];
    for (size_t i = 0; i < 5; i++)
        into->by_channels[i] += from->by_channels[i];
}

pst_inspect_images image_stats_result(const struct image_stats *s)
{
    double n = s->count ? (double)s->count : 1;
    pst_inspect_images result = {.count = s->count,
                                 .min_width = s->min_width,
                                 .max_width = s->max_width,
                                 .min_height = s->min_height,
                                 .max_height = s->max_height,
                                 .mean_width = (double)s->width / n,
                                 .mean_height = (double)s->height / n,
                                 .mean_bytes = (double)s->bytes / n};
    _Static_assert(sizeof(s->by_format) <= sizeof(result.by_format), "PST_INSPECT_FORMATS leaves room for every format");
    memcpy(result.by_format, s->by_format, sizeof(s->by_format));
    memcpy(result.by_channels, s->by_channels, sizeof(result.by_channels));
    return result;
}
