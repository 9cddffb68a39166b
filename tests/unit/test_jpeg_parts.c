/* test_jpeg_parts.c: parts of JPEGs, with points and without: pixels and planes are those of the whole. */
#include "jpeg_rig.h"

#define PARTS 40

struct subject {
    const char *name;
    uint8_t *data;
    size_t length;
    struct jpeg_frame frame;
    struct jpeg_decoder *decoder;
    struct jpeg_points points;
};

static bool subject_open(struct subject *s, const struct recipe *r, uint64_t seed, size_t level)
{
    pst_error error;
    *s = (struct subject){.name = rig_name(r), .decoder = rig_decoder(level)};
    s->length = rig_encode(&s->data, r, seed);
    if (!test_check_status(jpeg_decoder_open(s->decoder, s->data, s->length, &s->frame, &error), PST_OK, &error, __FILE__,
                           __LINE__, s->name))
        return false;
    s->points = rig_points(s->decoder);
    return s->points.count > 0;
}

static void subject_close(struct subject *s)
{
    jpeg_decoder_free(s->decoder);
    free((void *)s->points.point);
    free(s->data);
}

/* Kinds take turns; sizes on either side of whole MCUs. */
static struct recipe recipe_of(unsigned i)
{
    static const uint32_t sizes[][2] = {{333, 251}, {500, 64}, {33, 400}, {129, 130}, {255, 16}, {64, 64}, {19, 23}, {3, 90}};
    static const int restarts[] = {0, 0, 5, 16, 1, 0, 23}, qualities[] = {95, 75, 40}, noises[] = {255, 30, 3};
    const int *sampling = rig_samplings[i % RIG_SAMPLINGS];
    return (struct recipe){.width = sizes[i % 8][0],
                           .height = sizes[i % 8][1],
                           .components = sampling[0],
                           .h = sampling[1],
                           .v = sampling[2],
                           .restart = restarts[i % 7],
                           .quality = qualities[i % 3],
                           .noise = noises[i / 3 % 3],
                           .optimised = i % 2};
}

/* ---- Pixels ---- */

static void check_pixels(struct subject *s, struct random *random)
{
    static const uint32_t channels[] = {1, 3, 4};
    struct region_memory memory = {0};
    pst_image want, got;
    pst_error error;
    for (int c = 0; c < 3; c++) {
        REQUIRE_OK(rig_turbo(s->data, s->length, channels[c], &memory, &want, &error), &error);
        for (int i = 0; i < PARTS; i++) {
            struct region part = rig_part(random, s->frame.width, s->frame.height);
            struct jpeg_points *points = i % 2 ? &s->points : NULL;
            pst_status st = jpeg_decode_pixels(s->decoder, &part, channels[c], points, &got, &error);
            CHECK_MSG(st == PST_OK && rig_same(&want, &part, &got), "%s: part %u × %u at %u, %u%s: %s", s->name, part.width,
                      part.height, part.x, part.y, points ? " by points" : "", st < 0 ? error.message : "other pixels");
        }
    }
    mem_free(memory.data);
}

static void test_pixels(void)
{
    struct random random;
    random_init(&random, 1, 0, 0, 0);
    for (unsigned i = 0; i < 120; i++)
        for (size_t level = 0; level < RIG_LEVELS; level++) {
            struct recipe r = recipe_of(i);
            struct subject s;
            if (!rig_runs(level) || (level == 0 && i % 3))
                continue;
            if (subject_open(&s, &r, i, level))
                check_pixels(&s, &random);
            subject_close(&s);
        }
}

/* ---- Planes ---- */

struct kept_plane {
    struct jpeg_plane plane;
    uint8_t *pixels;
};

static void keep_planes(struct kept_plane kept[3], const struct jpeg_plane *planes, uint32_t components)
{
    for (uint32_t c = 0; c < components; c++) {
        const struct jpeg_plane *p = &planes[c];
        kept[c] = (struct kept_plane){.plane = *p, .pixels = rig_need(malloc((size_t)p->width * p->height))};
        for (uint32_t y = 0; y < p->height; y++)
            memcpy(kept[c].pixels + (size_t)y * p->width, p->pixels + y * p->stride, p->width);
    }
}

static void forget_planes(struct kept_plane kept[3], uint32_t components)
{
    for (uint32_t c = 0; c < components; c++)
        free(kept[c].pixels);
}

/* Whether a plane lies in the whole one, has its samples, and covers what was asked for. */
static bool plane_fits(const struct jpeg_frame *f, const struct jpeg_plane *p, const struct kept_plane *whole, uint32_t c,
                       const struct region *part, uint32_t margin, unsigned scale)
{
    double across = scale / 8.0 / (c ? f->h : 1), down = scale / 8.0 / (c ? f->v : 1);
    double left = part->x > margin ? part->x - margin : 0, top = part->y > margin ? part->y - margin : 0;
    double right = part->x + part->width + margin, bottom = part->y + part->height + margin;
    right = right < f->width ? right : f->width;
    bottom = bottom < f->height ? bottom : f->height;
    if (p->full_width != whole->plane.width || p->full_height != whole->plane.height || p->x + p->width > p->full_width ||
        p->y + p->height > p->full_height)
        return false;
    if (p->x > left * across || p->y > top * down || p->x + p->width < right * across || p->y + p->height < bottom * down)
        return false;
    for (uint32_t y = 0; y < p->height; y++)
        if (memcmp(p->pixels + y * p->stride, whole->pixels + (size_t)(p->y + y) * p->full_width + p->x, p->width) != 0)
            return false;
    return true;
}

static void check_planes(struct subject *s, struct random *random, unsigned scale)
{
    struct jpeg_frame *f = &s->frame, turbo_frame;
    struct region all = {.width = f->width, .height = f->height};
    struct jpeg_plane planes[3];
    struct kept_plane whole[3];
    pst_error error;
    REQUIRE_OK(jpeg_decode_planes(s->decoder, &all, 0, scale, NULL, planes, &error), &error);
    keep_planes(whole, planes, f->components);
    CHECK_INT(planes[0].full_width, (f->width * scale + 7) / 8);
    CHECK_INT(planes[0].full_height, (f->height * scale + 7) / 8);
    for (int i = 0; i < PARTS; i++) {
        struct region part = rig_part(random, f->width, f->height);
        uint32_t margin = (uint32_t)random_below(random, 20);
        pst_status st;
        if (i % 4 == 0) {
            st = jpeg_decode_planes_turbo(s->decoder, s->data, s->length, &part, margin, scale, 100, &turbo_frame, planes,
                                          &error);
            CHECK(st < 0 || memcmp(&turbo_frame, f, sizeof(*f)) == 0);
        } else {
            st = jpeg_decode_planes(s->decoder, &part, margin, scale, i % 2 ? &s->points : NULL, planes, &error);
        }
        bool fits = st == PST_OK;
        for (uint32_t c = 0; fits && c < f->components; c++)
            fits = plane_fits(f, &planes[c], &whole[c], c, &part, margin, scale);
        CHECK_MSG(fits, "%s at %u/8: part %u × %u at %u, %u, margin %u: %s", s->name, scale, part.width, part.height, part.x,
                  part.y, margin, st < 0 ? error.message : "other samples");
    }
    forget_planes(whole, f->components);
}

static void test_planes(void)
{
    struct random random;
    random_init(&random, 2, 0, 0, 0);
    for (unsigned i = 0; i < 80; i++)
        for (size_t level = 0; level < RIG_LEVELS; level++) {
            struct recipe r = recipe_of(i);
            struct subject s;
            if (!rig_runs(level) || (level == 0 && i % 3))
                continue;
            if (subject_open(&s, &r, i, level))
                check_planes(&s, &random, 8u >> i % 4);
            subject_close(&s);
        }
}

/* The reduced transforms are libjpeg's: its scaled luma. */
static void check_scaled(struct subject *s, unsigned scale)
{
    struct jpeg_reader r;
    struct region all = {.width = s->frame.width, .height = s->frame.height};
    struct jpeg_plane planes[3];
    pst_error error;
    uint8_t *row = rig_need(malloc(s->frame.width));
    REQUIRE_OK(jpeg_decode_planes(s->decoder, &all, 0, scale, NULL, planes, &error), &error);
    jpeg_reader_init(&r, 100);
    if (setjmp(r.trouble.jump))
        abort();
    jpeg_reader_open(&r, s->data, s->length);
    r.info.out_color_space = JCS_GRAYSCALE;
    r.info.scale_num = scale;
    r.info.scale_denom = 8;
    jpeg_start_decompress(&r.info);
    CHECK_INT(r.info.output_width, planes[0].width);
    CHECK_INT(r.info.output_height, planes[0].height);
    size_t different = 0;
    for (uint32_t y = 0; y < r.info.output_height; y++) {
        jpeg_read_scanlines(&r.info, &row, 1);
        different += memcmp(row, planes[0].pixels + y * planes[0].stride, planes[0].width) != 0;
    }
    CHECK_MSG(different == 0, "%s at %u/8: %zu rows differ", s->name, scale, different);
    jpeg_destroy_decompress(&r.info);
    free(row);
}

static void test_scaled(void)
{
    for (unsigned i = 0; i < 40; i++) {
        struct recipe r = recipe_of(i);
        struct subject s;
        r.components = 1; /* of subsampled images libjpeg scales chroma less */
        r.h = r.v = 1;
        if (subject_open(&s, &r, i, 0))
            for (unsigned scale = 1; scale <= 8; scale *= 2)
                check_scaled(&s, scale);
        subject_close(&s);
    }
}

/* What libjpeg-turbo alone reads. */
static void test_turbo(void)
{
    struct jpeg_decoder *d = rig_decoder(0);
    struct recipe r = {.width = 70, .height = 50, .components = 3, .h = 4, .v = 1, .quality = 90, .noise = 80};
    struct jpeg_frame frame;
    struct jpeg_plane planes[3];
    struct region part = {3, 5, 60, 40};
    uint8_t *data;
    size_t length = rig_encode(&data, &r, 1);
    pst_error error;
    CHECK_STATUS(jpeg_decoder_open(d, data, length, &frame, &error), PST_EUNSUPPORTED, &error);
    REQUIRE_OK(jpeg_decode_planes_turbo(d, data, length, &part, 2, 8, 100, &frame, planes, &error), &error);
    CHECK_INT(frame.h, 4);
    CHECK_INT(planes[0].full_width, 70);
    CHECK_INT(planes[1].full_width, 18);
    CHECK_INT(planes[2].full_height, 50);
    CHECK_STATUS(jpeg_decode_planes_turbo(d, data, length / 8, &part, 2, 8, 100, &frame, planes, &error), PST_ECORRUPT, &error);
    part.width = 68;
    CHECK_STATUS(jpeg_decode_planes_turbo(d, data, length, &part, 2, 8, 100, &frame, planes, &error), PST_ECORRUPT, &error);
    free(data);
    jpeg_decoder_free(d);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"pixels", test_pixels}, {"planes", test_planes}, {"scaled", test_scaled}, {"turbo", test_turbo}, {NULL, NULL}};
    return test_main(argc, argv, tests);
}
