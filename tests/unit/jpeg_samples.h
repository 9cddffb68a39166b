/* jpeg_samples.h: JPEG files of every kind that libjpeg writes. */
#ifndef TESTS_JPEG_SAMPLES_H
#define TESTS_JPEG_SAMPLES_H

#include <penstock/image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct jpeg_kind {
    const char *name;
    int channels;               /* 1 gray, 3 colour, 4 CMYK */
    int h, v;                   /* sampling of the first component */
    bool progressive, separate; /* a scan a component */
    int restart;                /* MCUs between restart markers; 0: none */
    bool rgb;                   /* stored as RGB */
};

static const struct jpeg_kind jpeg_kinds[] = {
    {"4:4:4", 3, 1, 1, false, false, 0, false},
    {"4:2:2", 3, 2, 1, false, false, 0, false},
    {"4:2:0", 3, 2, 2, false, false, 0, false},
    {"4:4:0", 3, 1, 2, false, false, 0, false},
    {"4:1:1", 3, 4, 1, false, false, 0, false},
    {"4:1:0", 3, 4, 2, false, false, 0, false},
    {"gray", 1, 1, 1, false, false, 0, false},
    {"gray 2x2", 1, 2, 2, false, false, 0, false},
    {"gray 1x2", 1, 1, 2, false, false, 0, false},
    {"rgb", 3, 1, 1, false, false, 0, true},
    {"cmyk", 4, 1, 1, false, false, 0, false},
    {"cmyk 2x2", 4, 2, 2, false, false, 0, false},
    {"4:2:0 restarts", 3, 2, 2, false, false, 1, false},
    {"4:4:4 restarts", 3, 1, 1, false, false, 3, false},
    {"4:4:4 progressive", 3, 1, 1, true, false, 0, false},
    {"4:2:0 progressive", 3, 2, 2, true, false, 0, false},
    {"4:2:2 progressive", 3, 2, 1, true, false, 0, false},
    {"4:4:0 progressive", 3, 1, 2, true, false, 0, false},
    {"gray progressive", 1, 1, 1, true, false, 0, false},
    {"4:2:0 separate", 3, 2, 2, false, true, 0, false},
    {"4:4:4 separate", 3, 1, 1, false, true, 2, false},
};
#define JPEG_KINDS (sizeof(jpeg_kinds) / sizeof(jpeg_kinds[0]))

/* free() the bytes. The pixels have the kind's channels. */
static inline size_t jpeg_sample(uint8_t **ret, const pst_image *image, const struct jpeg_kind *kind, int quality)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned long length = 0;
    uint8_t *data = NULL;
    static const jpeg_scan_info scans[3] = {{1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &length);
    info.image_width = image->width;
    info.image_height = image->height;
    info.input_components = kind->channels;
    info.in_color_space = kind->channels == 1 ? JCS_GRAYSCALE : kind->channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&info);
    if (kind->rgb)
        jpeg_set_colorspace(&info, JCS_RGB);
    jpeg_set_quality(&info, quality, TRUE);
    info.comp_info[0].h_samp_factor = kind->h;
    info.comp_info[0].v_samp_factor = kind->v;
    info.restart_interval = (unsigned)kind->restart;
    if (kind->progressive)
        jpeg_simple_progression(&info);
    if (kind->separate) {
        info.scan_info = scans;
        info.num_scans = 3;
    }
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = image->pixels + info.next_scanline * image->stride;
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    *ret = data;
    return length;
}

#endif
