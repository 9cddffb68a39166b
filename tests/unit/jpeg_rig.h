/* jpeg_rig.h: JPEGs of any recipe, written by libjpeg-turbo, what it reads of them, and our decoder at every level of
 * instructions. */
#ifndef TESTS_JPEG_RIG_H
#define TESTS_JPEG_RIG_H

#include "base/cpu.h"
#include "base/memory.h"
#include "base/random.h"
#include "codec/image_codec.h"
#include "codec/jpeg/planes.h"
#include "codec/libjpeg.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recipe {
    uint32_t width, height;
    int components, h, v; /* sampling of the first component */
    int quality, restart; /* MCUs */
    bool optimised;       /* Huffman tables */
    bool rgb;             /* stored as RGB */
    int noise;            /* 0…255, on top of something smooth */
    int quant;            /* not 0: all of the table, in 16 bits where it must be */
};

static const int rig_samplings[][3] = {{3, 1, 1}, {3, 2, 2}, {3, 2, 1}, {3, 1, 2}, {1, 1, 1}};
#define RIG_SAMPLINGS 5

static inline void *rig_need(void *p)
{
    if (!p)
        abort();
    return p;
}

static inline uint8_t *rig_pixels(const struct recipe *r, uint64_t seed)
{
    struct random random;
    size_t n = (size_t)r->width * r->height * (size_t)r->components;
    uint8_t *pixels = rig_need(malloc(n));
    random_init(&random, seed, 1, r->width, r->height);
    for (size_t i = 0; i < n; i++) {
        size_t x = i / (size_t)r->components % r->width, y = i / ((size_t)r->components * r->width),
               c = i % (size_t)r->components;
        size_t smooth = 128 + x * (c + 1) + y * (3 - c), noise = random_below(&random, (uint64_t)r->noise + 1);
        pixels[i] = (uint8_t)(r->noise == 255 ? noise : (smooth + noise) / 2 & 255);
    }
    return pixels;
}

static inline void rig_quiet(j_common_ptr info, int level)
{
    (void)info, (void)level;
}

/* free() the bytes. */
static inline size_t rig_encode(uint8_t **ret, const struct recipe *r, uint64_t seed)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    unsigned long length = 0;
    uint8_t *data = NULL, *pixels = rig_pixels(r, seed);
    info.err = jpeg_std_error(&errors);
    errors.emit_message = rig_quiet;
    jpeg_create_compress(&info);
    jpeg_mem_dest(&info, &data, &length);
    info.image_width = r->width;
    info.image_height = r->height;
    info.input_components = r->components;
    info.in_color_space = r->components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&info);
    if (r->rgb)
        jpeg_set_colorspace(&info, JCS_RGB);
    jpeg_set_quality(&info, r->quality, TRUE);
    for (int i = 0; r->quant && i < 64; i++)
        for (int t = 0; t < 2; t++)
            info.quant_tbl_ptrs[t]->quantval[i] = (UINT16)r->quant;
    info.comp_info[0].h_samp_factor = r->h;
    info.comp_info[0].v_samp_factor = r->v;
    info.restart_interval = (unsigned)r->restart;
    info.optimize_coding = r->optimised;
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
        JSAMPROW row = pixels + (size_t)info.next_scanline * r->width * (size_t)r->components;
        jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    free(pixels);
    *ret = data;
    return length;
}

static inline const char *rig_name(const struct recipe *r)
{
    static char text[160];
    snprintf(text, sizeof(text), "%u × %u, %d components, %dx%d, quality %d, restart %d, %s%s, noise %d, quant %d", r->width,
             r->height, r->components, r->h, r->v, r->quality, r->restart, r->optimised ? "optimised" : "standard",
             r->rgb ? ", rgb" : "", r->noise, r->quant);
    return text;
}

/* ---- What libjpeg-turbo reads ---- */

static inline pst_status rig_turbo(const uint8_t *data, size_t length, uint32_t channels, struct region_memory *memory,
                                   pst_image *ret, pst_error *error)
{
    pst_image_info info;
    pst_decode_options options = {
        .size = sizeof(options), .channels = channels, .max_pixels = PST_MAX_PIXELS, .max_scans = PST_MAX_SCANS};
    pst_status st = pst_image_probe(data, length, &info, error);
    struct region whole = {.width = info.width, .height = info.height};
    return st < 0 ? st : jpeg_read(ret, data, length, &info, &whole, &options, memory, error);
}

static inline bool rig_same(const pst_image *whole, const struct region *part, const pst_image *got)
{
    if (got->width != part->width || got->height != part->height || got->channels != whole->channels)
        return false;
    for (uint32_t y = 0; y < part->height; y++)
        if (memcmp(got->pixels + y * got->stride,
                   whole->pixels + (part->y + y) * whole->stride + (size_t)part->x * whole->channels,
                   (size_t)part->width * whole->channels) != 0)
            return false;
    return true;
}

static inline struct region rig_part(struct random *r, uint32_t width, uint32_t height)
{
    struct region p = {.x = (uint32_t)random_below(r, width), .y = (uint32_t)random_below(r, height)};
    p.width = 1 + (uint32_t)random_below(r, width - p.x);
    p.height = 1 + (uint32_t)random_below(r, height - p.y);
    return p;
}

/* ---- Our decoder ---- */

static const struct rig_level {
    const char *name;
    unsigned features;
} rig_levels[] = {{"c", 0}, {"avx2", CPU_AVX2}};
#define RIG_LEVELS 2

static inline bool rig_runs(size_t level)
{
    return (cpu_features() & rig_levels[level].features) == rig_levels[level].features;
}

/* Levels share nothing but the code that is not theirs. */
static inline struct jpeg_decoder *rig_decoder(size_t level)
{
    static struct jpeg_kernels kernels[RIG_LEVELS];
    struct jpeg_decoder *d = rig_need(jpeg_decoder_create());
    jpeg_kernels_init(&kernels[level], rig_levels[level].features);
    d->kernels = &kernels[level];
    return d;
}

/* The next MCUs, up to a restart marker, to the stage's coefficients. */
static inline bool rig_read(const struct jpeg_decoder *d, struct jpeg_stage *stage, uint32_t mcus)
{
    struct jpeg_run r;
    return jpeg_run_begin(d, &r, stage, NULL, mcus) && d->kernels->read_one(d, &r) && jpeg_run_end(d, &r);
}

/* free() point. */
static inline struct jpeg_points rig_points(struct jpeg_decoder *d)
{
    pst_error error;
    size_t n = jpeg_points_count(d);
    struct jpeg_point *point = rig_need(malloc(n * sizeof(*point)));
    if (!test_check_status(jpeg_points_find(d, point, &error), PST_OK, &error, __FILE__, __LINE__, "points"))
        n = 0;
    return (struct jpeg_points){
        .step = JPEG_POINT_STEP, .count = (uint32_t)n, .known = (uint32_t)n, .sound = true, .point = point};
}

#endif
