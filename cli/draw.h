/* draw.h: test pictures: one shape or texture each, in random colours, places, sizes and light.
 *
 * A picture is a function of (seed, number, class) alone. The classes are meant to be learnable by a small network, not by a
 * look at the mean colour: every class comes in all colours, on shaded, clouded and faintly textured grounds. */
#ifndef CLI_DRAW_H
#define CLI_DRAW_H

#include <penstock/image.h>

enum { DRAW_CLASSES = 16 };
const char *draw_class_name(size_t class_); /* class_ < DRAW_CLASSES */

/* Fills an RGB image. */
void draw(pst_image *image, size_t class_, uint64_t seed, uint64_t number);

/* A stream of random numbers keyed by (seed, number, purpose), for what surrounds a picture. */
struct draw_random {
    uint64_t state;
};
void draw_random_init(struct draw_random *r, uint64_t seed, uint64_t number, uint64_t purpose);
float draw_random_between(struct draw_random *r, float low, float high);
unsigned draw_random_below(struct draw_random *r, unsigned n);

#endif
