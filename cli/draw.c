/* draw.c: composes a picture: ground, shadow, figure with its light and outline, specks, grain.
 *
 * Coordinates: the short side runs from -1 to 1. Edges are blended over one pixel by their distance, so that nothing needs to
 * be oversampled. */
#include "cli/draw.h"
#include "cli/figures.h"
#include <math.h>

_Static_assert((int)DRAW_CLASSES == (int)FIGURES, "a class is a figure");

/* ---- Randomness: SplitMix64, keyed ---- */

static uint64_t scramble(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static uint64_t next(struct draw_random *r)
{
    return scramble(r->state += 0x9e3779b97f4a7c15u);
}

void draw_random_init(struct draw_random *r, uint64_t seed, uint64_t number, uint64_t purpose)
{
    r->state = scramble(seed ^ scramble(number ^ scramble(purpose + 1)));
}

float draw_random_between(struct draw_random *r, float low, float high)
{
    return low + (high - low) * (float)(next(r) >> 40) * 0x1p-24f;
}

unsigned draw_random_below(struct draw_random *r, unsigned n)
{
    return (unsigned)((next(r) >> 32) * n >> 32);
}

static bool chance(struct draw_random *r, float probability)
{
    return draw_random_between(r, 0, 1) < probability;
}

/* ---- Colour ---- */

struct color {
    float r, g, b;
};

static struct color blend(struct color a, struct color b, float t)
{
    return (struct color){a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

static struct color scaled(struct color c, float f)
{
    return (struct color){c.r * f, c.g * f, c.b * f};
}

static float luminance(struct color c)
{
    return 0.299f * c.r + 0.587f * c.g + 0.114f * c.b;
}

static struct color from_hsv(float hue, float saturation, float value)
{
    float channel[3];

    for (int i = 0; i < 3; i++) {
        float k = hue * 6 + (float)(5 - 2 * i);

        k -= 6 * floorf(k / 6);
        channel[i] = value * (1 - saturation * figure_clamp(fminf(k, 4 - k)));
    }
    return (struct color){channel[0], channel[1], channel[2]};
}

static struct color random_color(struct draw_random *r)
{
    float hue = draw_random_between(r, 0, 1), saturation = draw_random_between(r, 0.1f, 0.9f);

    return from_hsv(hue, saturation, draw_random_between(r, 0.25f, 1));
}

/* A colour whose brightness stands off from `other`'s by at least `contrast`. */
static struct color contrasting_color(struct draw_random *r, struct color other, float contrast)
{
    struct color c = random_color(r);

    for (int tries = 0; tries < 20 && fabsf(luminance(c) - luminance(other)) < contrast; tries++)
        c = random_color(r);
    return c;
}

/* ---- The scene ---- */

/* A turned, scaled and moved frame in which a figure is drawn. */
struct frame {
    struct point centre;
    float cosine, sine, size;
};

static struct frame random_frame(struct draw_random *r, float reach, float least, float most)
{
    float angle = draw_random_between(r, 0, 6.2831853f);
    struct frame f = {.cosine = cosf(angle), .sine = sinf(angle), .size = draw_random_between(r, least, most)};
    float room = fmaxf(reach - f.size, 0.05f);

    f.centre.x = draw_random_between(r, -room, room);
    f.centre.y = draw_random_between(r, -room, room);
    return f;
}

static struct point into_frame(const struct frame *f, struct point p)
{
    float x = (p.x - f->centre.x) / f->size, y = (p.y - f->centre.y) / f->size;

    return (struct point){f->cosine * x + f->sine * y, f->cosine * y - f->sine * x};
}

enum { SPECKS = 5 };

struct scene {
    const struct figure *figure;
    struct frame frame;
    struct color ground, ground2, fill, fill2, outline;
    enum { GROUND_SHADED, GROUND_CLOUDED, GROUND_TEXTURED } ground_kind;
    const struct figure *ground_texture;
    struct frame ground_frame;
    float shadow, shadow_blur, outline_width, light_x, light_y, texture_share, grain, vignette;
    struct point shadow_offset;
    unsigned specks;
    struct frame speck[SPECKS];
    struct color speck_color[SPECKS];
    uint32_t salt;
};

static void set_ground(struct scene *s, struct draw_random *r)
{
    static const unsigned textures[] = {6, 7, 8, 9}; /* faint stripes, checkers, noise, gradients: no class owns a texture */

    s->ground = random_color(r);
    s->ground2 = blend(s->ground, random_color(r), draw_random_between(r, 0.1f, 0.4f));
    s->ground_kind = draw_random_below(r, 3);
    s->ground_texture = &figures[textures[draw_random_below(r, 4)]];
    s->ground_frame = random_frame(r, 0.5f, 0.15f, 0.5f);
}

static void set_figure(struct scene *s, struct draw_random *r)
{
    bool texture = s->figure->texture != NULL;

    s->fill = contrasting_color(r, blend(s->ground, s->ground2, 0.5f), texture ? 0.15f : 0.2f);
    s->fill2 = blend(s->fill, random_color(r), draw_random_between(r, 0, 0.35f));
    s->frame = texture ? random_frame(r, 1, 0.2f, 0.5f) : random_frame(r, 1.05f, 0.38f, 0.85f);
    if (!texture) { /* upright more often than not, as things are; but not always */
        float angle = chance(r, 0.6f) ? draw_random_between(r, -0.35f, 0.35f) : draw_random_between(r, 0, 6.2831853f);

        s->frame.cosine = cosf(angle);
        s->frame.sine = sinf(angle);
    }
    s->texture_share = chance(r, 0.3f) ? draw_random_between(r, 0.2f, 0.5f) : 0;
    s->outline_width = chance(r, 0.4f) ? draw_random_between(r, 0.02f, 0.05f) : 0;
    s->outline = scaled(s->fill, luminance(s->fill) > 0.4f ? 0.4f : 1.7f);
}

static void set_surroundings(struct scene *s, struct draw_random *r)
{
    float angle = draw_random_between(r, 0, 6.2831853f);

    s->light_x = 0.12f * cosf(angle);
    s->light_y = 0.12f * sinf(angle);
    s->shadow = chance(r, 0.5f) ? draw_random_between(r, 0.15f, 0.4f) : 0;
    s->shadow_blur = draw_random_between(r, 0.06f, 0.2f);
    s->shadow_offset = (struct point){s->light_x * 0.8f, s->light_y * 0.8f};
    s->grain = draw_random_between(r, 0.005f, 0.045f);
    s->vignette = draw_random_between(r, 0, 0.2f);
    s->specks = draw_random_below(r, SPECKS + 1);
    for (unsigned i = 0; i < s->specks; i++) {
        s->speck[i] = random_frame(r, 1.3f, 0.03f, 0.13f);
        s->speck_color[i] = random_color(r);
    }
}

/* ---- Light falls on one point ---- */

static struct color ground_at(const struct scene *s, struct point p, float pixel)
{
    float share = figure_clamp(0.5f + 0.4f * (p.x * s->ground_frame.cosine + p.y * s->ground_frame.sine));

    if (s->ground_kind == GROUND_CLOUDED) {
        share = figure_clouds((struct point){1.5f * p.x + 9, 1.5f * p.y + 9}, s->salt);
    } else if (s->ground_kind == GROUND_TEXTURED) {
        struct point q = into_frame(&s->ground_frame, p);

        share = 0.4f * s->ground_texture->texture(q, pixel / s->ground_frame.size, s->salt);
    }
    return blend(s->ground, s->ground2, share);
}

static struct color shape_over(const struct scene *s, struct color under, struct point p, float pixel)
{
    struct point q = into_frame(&s->frame, p);
    float d = s->figure->shape(q) * s->frame.size;
    struct color fill = s->fill;

    if (s->shadow > 0) {
        struct point moved = {p.x - s->shadow_offset.x, p.y - s->shadow_offset.y};
        float away = s->figure->shape(into_frame(&s->frame, moved)) * s->frame.size;

        under = scaled(under, 1 - s->shadow * figure_clamp(0.5f - away / s->shadow_blur));
    }
    if (s->texture_share > 0)
        fill = blend(fill, s->fill2, s->texture_share + figure_clouds((struct point){3 * q.x, 3 * q.y}, s->salt + 50) * 0.5f);
    fill = scaled(fill, 1 - (q.x * s->light_x + q.y * s->light_y) * 1.5f);
    if (s->outline_width > 0)
        fill = blend(fill, s->outline, figure_clamp(0.5f + (d + s->outline_width) / pixel));
    return blend(under, fill, figure_clamp(0.5f - d / pixel));
}

static struct color color_at(const struct scene *s, struct point p, float pixel)
{
    struct color c = ground_at(s, p, pixel);

    if (s->figure->shape) {
        c = shape_over(s, c, p, pixel);
    } else {
        float share = s->figure->texture(into_frame(&s->frame, p), pixel / s->frame.size, s->salt + 99);

        c = blend(c, s->fill, share);
        c = scaled(c, 1 - (p.x * s->light_x + p.y * s->light_y) * 1.5f);
    }
    for (unsigned i = 0; i < s->specks; i++) {
        struct point q = into_frame(&s->speck[i], p);
        float d = (sqrtf(q.x * q.x + 3 * q.y * q.y) - 1) * s->speck[i].size;

        c = blend(c, s->speck_color[i], 0.8f * figure_clamp(0.5f - d / pixel));
    }
    return scaled(c, 1 - s->vignette * figure_clamp((p.x * p.x + p.y * p.y) * 0.5f));
}

/* ---- The picture ---- */

static uint8_t to_byte(float v)
{
    return (uint8_t)(figure_clamp(v) * 255 + 0.5f);
}

const char *draw_class_name(size_t class_)
{
    return figures[class_].name;
}

void draw(pst_image *image, size_t class_, uint64_t seed, uint64_t number)
{
    struct scene s = {.figure = &figures[class_]};
    struct draw_random r;
    uint32_t short_side = image->width < image->height ? image->width : image->height;
    float pixel = 2 / (float)short_side;

    draw_random_init(&r, seed, number, 0);
    s.salt = (uint32_t)next(&r);
    set_ground(&s, &r);
    set_figure(&s, &r);
    set_surroundings(&s, &r);
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + y * image->stride;

        for (uint32_t x = 0; x < image->width; x++) {
            struct point p = {((float)x + 0.5f) * pixel - (float)image->width / (float)short_side,
                              ((float)y + 0.5f) * pixel - (float)image->height / (float)short_side};
            struct color c = color_at(&s, p, pixel);
            int32_t ix = (int32_t)x, iy = (int32_t)y;
            /* The sum of uniform numbers is close to a bell; one for all channels, as a sensor's noise mostly is. */
            float grain =
                s.grain *
                (figure_hash(ix, iy, s.salt + 1) + figure_hash(ix, iy, s.salt + 2) + figure_hash(ix, iy, s.salt + 3) - 1.5f) *
                2;

            row[3 * x] = to_byte(c.r + grain);
            row[3 * x + 1] = to_byte(c.g + grain);
            row[3 * x + 2] = to_byte(c.b + grain);
        }
    }
}
