/* figures.h: shapes as signed distances and textures as shares of two colours; pure functions of a point.
 *
 * A shape lies around the origin within about the unit circle; its distance is negative inside. A texture gives the share
 * (0 to 1) of the second colour at a point; `pixel` is the width of one pixel in the same units, over which its edges are
 * blended. */
#ifndef CLI_FIGURES_H
#define CLI_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct point {
    float x, y;
};

struct figure {
    const char *name;
    float (*shape)(struct point p);                               /* or NULL… */
    float (*texture)(struct point p, float pixel, uint32_t salt); /* …and this */
};

enum { FIGURES = 16 };
extern const struct figure figures[FIGURES]; /* in label order */

float figure_clouds(struct point p, uint32_t salt);     /* smooth noise in 0…1 with features of about the unit's size */
float figure_hash(int32_t x, int32_t y, uint32_t salt); /* uniform on [0, 1) */
float figure_clamp(float v);                            /* to 0…1 */

#endif
