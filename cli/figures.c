/* figures.c: the list of figures, one small function each. */
#include "cli/figures.h"
#include <math.h>

#define PI 3.14159265f

/* ---- Helpers ---- */

float figure_clamp(float v)
{
    return v < 0 ? 0 : v > 1 ? 1 : v;
}

float figure_hash(int32_t x, int32_t y, uint32_t salt)
{
    uint32_t h = (uint32_t)x * 0x9e3779b1u ^ (uint32_t)y * 0x85ebca77u ^ salt * 0xc2b2ae3du;

    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    h ^= h >> 15;
    return (float)(h >> 8) * 0x1p-24f;
}

static float mix(float a, float b, float t)
{
    return a + (b - a) * t;
}

static float length(float x, float y)
{
    return sqrtf(x * x + y * y);
}

/* Noise that is smooth between the points of a unit grid. */
static float value_noise(float x, float y, uint32_t salt)
{
    float fx = floorf(x), fy = floorf(y), u = x - fx, v = y - fy;
    int32_t ix = (int32_t)fx, iy = (int32_t)fy;

    u = u * u * (3 - 2 * u);
    v = v * v * (3 - 2 * v);
    return mix(mix(figure_hash(ix, iy, salt), figure_hash(ix + 1, iy, salt), u),
               mix(figure_hash(ix, iy + 1, salt), figure_hash(ix + 1, iy + 1, salt), u), v);
}

float figure_clouds(struct point p, uint32_t salt)
{
    float sum = 0, weight = 0.5f, x = p.x, y = p.y;

    for (uint32_t octave = 0; octave < 4; octave++) {
        sum += weight * value_noise(x, y, salt + octave);
        x = 2.03f * x + 17;
        y = 2.03f * y + 31;
        weight *= 0.5f;
    }
    return figure_clamp((sum / 0.9375f - 0.5f) * 1.5f + 0.5f); /* the sum of octaves huddles around one half */
}

/* 0 and 1 in turn, half a period each, blended over a pixel. */
static float square_wave(float t, float pixel)
{
    float d = fabsf(t - floorf(t) - 0.5f) - 0.25f;

    return figure_clamp(0.5f + d / (pixel > 1e-4f ? pixel : 1e-4f));
}

/* ---- Shapes ---- */

static float box(struct point p, float half_width, float half_height)
{
    float dx = fabsf(p.x) - half_width, dy = fabsf(p.y) - half_height;

    return length(fmaxf(dx, 0), fmaxf(dy, 0)) + fminf(fmaxf(dx, dy), 0);
}

/* A regular polygon around the unit circle's inside: the greatest distance from its edges' lines. */
static float polygon(struct point p, unsigned corners, float inner_radius)
{
    float d = -2;

    for (unsigned i = 0; i < corners; i++) {
        float angle = PI / 2 + PI / (float)corners + 2 * PI * (float)i / (float)corners;

        d = fmaxf(d, p.x * cosf(angle) - p.y * sinf(angle) - inner_radius);
    }
    return d;
}

static float circle(struct point p)
{
    return length(p.x, p.y) - 0.85f;
}

static float square(struct point p)
{
    return box(p, 0.72f, 0.72f);
}

static float triangle(struct point p)
{
    return polygon((struct point){p.x, p.y - 0.15f}, 3, 0.5f);
}

static float hexagon(struct point p)
{
    return polygon(p, 6, 0.78f);
}

static float star(struct point p)
{
    float angle = atan2f(p.x, -p.y), sector = 2 * PI / 5, radius = length(p.x, p.y);
    float a = fabsf(angle - sector * floorf(angle / sector + 0.5f));
    float x = radius * cosf(a), y = radius * sinf(a);
    /* The edge of half a spike: from its tip (1, 0) to the notch between two. */
    float notch_x = 0.42f * cosf(sector / 2), notch_y = 0.42f * sinf(sector / 2);
    float ex = notch_x - 1, ey = notch_y;

    return ((x - 1) * -ey + y * ex) / length(ex, ey) * -1;
}

static float cross(struct point p)
{
    return fminf(box(p, 0.88f, 0.28f), box(p, 0.28f, 0.88f));
}

static float ring(struct point p)
{
    return fabsf(length(p.x, p.y) - 0.68f) - 0.19f;
}

static float crescent(struct point p)
{
    return fmaxf(length(p.x, p.y) - 0.88f, 0.72f - length(p.x - 0.4f, p.y));
}

static float heart(struct point p)
{
    float x = fabsf(p.x) * 0.72f, y = 0.55f - p.y * 0.72f;
    float d;

    if (x + y > 1)
        d = length(x - 0.25f, y - 0.75f) - sqrtf(2) / 4;
    else {
        float m = 0.5f * fmaxf(x + y, 0);
        float to_tip = length(x, y - 1), to_edge = length(x - m, y - m);

        d = fminf(to_tip, to_edge) * (x > y ? 1.0f : -1.0f);
    }
    return d / 0.72f;
}

static float spiral(struct point p)
{
    float radius = length(p.x, p.y), turn = atan2f(p.y, p.x) / (2 * PI);
    float arm = radius / 0.36f - turn;
    float d = (fabsf(arm - floorf(arm) - 0.5f) - 0.22f) * 0.36f;

    return fmaxf(d, radius - 0.95f);
}

/* ---- Textures ---- */

static float stripes(struct point p, float pixel, uint32_t salt)
{
    (void)salt;
    return square_wave(p.x, pixel);
}

static float checker(struct point p, float pixel, uint32_t salt)
{
    float a = square_wave(p.x, pixel), b = square_wave(p.y, pixel);

    (void)salt;
    return a * (1 - b) + b * (1 - a);
}

static float waves(struct point p, float pixel, uint32_t salt)
{
    float phase = 2 * PI * figure_hash(1, 2, salt);

    return square_wave(p.x + 0.35f * sinf(2 * PI * 0.45f * p.y + phase), pixel);
}

static float dots(struct point p, float pixel, uint32_t salt)
{
    float shifted = p.x + (((int)floorf(p.y) & 1) ? 0.5f : 0); /* every other row lies between */
    float d = length(shifted - floorf(shifted) - 0.5f, p.y - floorf(p.y) - 0.5f);
    float radius = 0.22f + 0.12f * figure_hash(3, 4, salt);

    return figure_clamp(0.5f + (radius - d) / pixel);
}

static float noise(struct point p, float pixel, uint32_t salt)
{
    (void)pixel;
    return figure_clouds((struct point){2 * p.x, 2 * p.y}, salt);
}

static float gradient(struct point p, float pixel, uint32_t salt)
{
    bool radial = figure_hash(5, 6, salt) < 0.4f;
    float along = radial ? length(p.x - 1, p.y - 1) / 3 : p.x / 3 + 0.5f;

    (void)pixel;
    return figure_clamp(along) * figure_clamp(along) * (3 - 2 * figure_clamp(along));
}

/* ---- The list ---- */

const struct figure figures[FIGURES] = {
    {"circle", circle, NULL},     {"square", square, NULL},     {"triangle", triangle, NULL}, {"star", star, NULL},
    {"cross", cross, NULL},       {"ring", ring, NULL},         {"stripes", NULL, stripes},   {"checker", NULL, checker},
    {"noise", NULL, noise},       {"gradient", NULL, gradient}, {"hexagon", hexagon, NULL},   {"heart", heart, NULL},
    {"crescent", crescent, NULL}, {"spiral", spiral, NULL},     {"dots", NULL, dots},         {"waves", NULL, waves},
};
