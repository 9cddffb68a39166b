/* recipe.h: which features a record has, in which order and under which names. Created once, then shared by all workers. */
#ifndef PACK_RECIPE_H
#define PACK_RECIPE_H

#include "pack/pack_source.h"

/* The origin of a feature. All but the first kind are derived from the item as a whole. */
enum ingredient { FROM_FIELD, FROM_KEY, FROM_WIDTH, FROM_HEIGHT, FROM_CHANNELS };

struct feature_spec {
    enum ingredient from;
    size_t field; /* of FROM_FIELD */
    const char *name;
    size_t name_length;
    pst_kind kind;
};

struct recipe {
    const struct pack_source *source;
    struct feature_spec *features; /* sizes that are known only after reading the image come last */
    size_t count, capacity;
    int image;         /* the field that is an image, or -1 */
    bool stores_image; /* it was not left out */
    bool whole;        /* the source's records are stored unchanged */
    bool transforms;   /* images go through transform_run */
};

/* Zero-initialise `r` first. Fails if options name features that the source does not have. */
pst_status recipe_init(struct recipe *r, const struct pack_source *s, pst_error *reterr);
void recipe_finish(struct recipe *r);

/* True when a row of this shape is H×W, H×W×1 or H×W×3 pixels. */
bool recipe_is_image_shape(const struct pack_field *f);

#endif
