/* images.h: recognises images, finds the feature that holds them, and collects statistics. Sums are whole numbers, so
 * merging in any order gives the same result. */
#ifndef INSPECT_IMAGES_H
#define INSPECT_IMAGES_H

#include <penstock/example.h>
#include <penstock/inspect.h>

/* The size of the pixels as stored in a record, in whole-number features called width, height and perhaps channels, alone or
 * at the end of a path (image/width). Needed to recognise raw pixels. */
struct image_shape {
    uint64_t width, height, channels; /* 0: unknown */
};

struct image_shape image_shape_find(const pst_named_value *values, size_t count);

/* True if `bytes` start as an image of a known format, or are as many as the pixels of `shape` (NULL ok) take. */
bool image_recognise(pst_bytes bytes, const struct image_shape *shape, pst_image_info *ret);

/* Decodes what image_recognise recognised to `channels`, strictly if asked. */
pst_status image_decode(pst_image *ret, pst_bytes bytes, const pst_image_info *info, uint32_t channels, bool strict,
                        pst_error *reterr);

struct feature_table;
/* The feature that holds images: "image" among equals, else the first by name. NAME_NONE: there is none. */
size_t images_choose(const struct feature_table *t);

struct image_stats {
    uint64_t count, width, height, bytes; /* sums */
    uint64_t by_format[PST_IMAGE_FORMATS], by_channels[5];
    uint32_t min_width, max_width, min_height, max_height;
};

void image_stats_add(struct image_stats *s, const pst_image_info *info, uint64_t bytes);
void image_stats_merge(struct image_stats *into, const struct image_stats *from);
pst_inspect_images image_stats_result(const struct image_stats *s);

#endif
