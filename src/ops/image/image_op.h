/* image_op.h: what image operations tell each other and the planner, so that a run of them becomes one pass from encoded bytes
 * to the batch: crop first, decode only that region, resize, flip, convert and normalise into place. Running them one by one
 * gives the same bits. */
#ifndef OPS_IMAGE_IMAGE_OP_H
#define OPS_IMAGE_IMAGE_OP_H

#include "codec/region.h"
#include "image/resize.h"
#include "ops/sample_op.h"

#define IMAGE_MAX_SIDE 65535 /* that an operation may be asked for */

/* ---- The field ---- */

/* The first member of every image operation's config. An image is [height, width, channels]: 1…4 channels. */
struct image_field {
    const char *name;
    size_t number; /* noted by the plan */
};

/* Starts the plan of an operation that changes an image: finds the field, checks that it holds one (of uint8, if `bytes`),
 * hands all other fields on. `*ret` is the field in `ret_out`, still with the shape that it had. */
pst_status image_field_plan(struct image_field *f, const pst_spec *in, bool bytes, pst_spec *ret_out, pst_field **ret,
                            pst_error *reterr);
bool image_field_holds(const pst_field *field); /* numbers of that shape, as far as it is known */
/* The pixels of a uint8 tensor. PST_ETYPE: its size is none that an image has. */
pst_status image_of_tensor(const pst_tensor *t, pst_image *ret, pst_error *reterr);

/* ---- Geometric operations ---- */

/* What one of them does to an image: cuts, then resizes, then mirrors, each of them or not. */
struct geometry {
    int64_t x, y; /* corner of the cut; outside of the image it is padded with zeros */
    uint32_t cut_width, cut_height;
    uint32_t width, height; /* resized to this; see geometry_resizes */
    pst_filter filter;
    uint32_t left, top, full_width, full_height; /* that is then put into a larger field of zeros; full_width 0: it is not */
    bool flips;                                  /* left to right */
};

/* A cut of the right size is left as it is by most filters. */
static inline bool geometry_resizes(const struct geometry *g)
{
    return g->width != g->cut_width || g->height != g->cut_height || resize_blurs(g->filter);
}

struct image_op {
    pst_op_class op;
    /* Draws from ctx whatever randomness it takes. */
    pst_status (*geometry)(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr);
    bool resizes;
    bool (*pads)(const void *config); /* whether there may be zeros around the image; NULL: never */
    /* Whether it resizes by a method that is for pixels, not for planes of a fast decode; NULL: never. */
    bool (*needs_pixels)(const void *config);
};

extern const struct image_op op_resize, op_crop, op_center_crop, op_random_crop, op_random_resized_crop, op_flip;

/* Its `run`, for one that stands alone. */
pst_status image_op_run(const struct image_op *op, const void *config, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                        pst_error *reterr);
/* Asks for the geometry and checks that it can be had. */
pst_status image_op_geometry(const struct image_op *op, const void *config, pst_ctx *ctx, uint32_t width, uint32_t height,
                             struct geometry *ret, pst_error *reterr);

/* Of the result. */
static inline uint32_t geometry_width(const struct geometry *g)
{
    return g->full_width ? g->full_width : g->width;
}

static inline uint32_t geometry_height(const struct geometry *g)
{
    return g->full_width ? g->full_height : g->height;
}

/* "224" is a square. */
static inline pst_size2d size_both(pst_size2d s)
{
    return s.height ? s : (pst_size2d){.width = s.width, .height = s.width};
}

/* Resizing by name: the choices of a parameter, and what they mean. */
extern const char *const resize_methods[];
extern const char *const plane_methods[]; /* the first of them: those that planes of a fast decode are resized by, too */
pst_filter resize_method(int choice);

/* ---- The others ---- */

enum decode_format { DECODE_AUTO, DECODE_RAW };
/* Exact: the pixels that libjpeg-turbo makes. Fast: planes are resized, and become pixels at the size of the result. */
enum decode_quality { QUALITY_AUTO, QUALITY_EXACT, QUALITY_FAST };
struct decode_config {
    struct image_field field;
    int format;        /* enum decode_format */
    int quality;       /* enum decode_quality; as asked for */
    const char *shape; /* of raw pixels: "224x224x3", height first */
    uint64_t channels, max_pixels, max_scans;
    bool exif, recover;
    uint32_t height, width, depth; /* of raw pixels; noted by the plan */
    bool fast;                     /* what the quality comes to; noted by decode_choose, */
    const char *reason;            /* with the reason. NULL: there is nothing to choose */
};
extern const struct sample_op op_decode;
struct region_options decode_options(const struct decode_config *c);
/* Raw pixels as an image that is not to be written to. */
pst_status decode_raw(const struct decode_config *c, const pst_bytes *bytes, pst_image *ret, pst_error *reterr);

struct normalize_config {
    struct image_field field;
    int range;
    pst_floats mean, std;
};
extern const pst_op_class op_normalize;
/* y = x × scale + bias for each of `channels`. PST_ETYPE: the means are of another number of channels. */
pst_status normalize_factors(const struct normalize_config *c, uint32_t channels, float *scale, float *bias, pst_error *reterr);

enum layout_order { LAYOUT_NCHW, LAYOUT_NHWC };
struct layout_config {
    struct image_field field;
    int order; /* enum layout_order */
};
extern const pst_op_class op_layout;

/* ---- A run of image operations on one field as a single operation ---- */

struct image_part {
    const pst_op_class *op;
    const void *config;
    uint32_t ordinal;
};
/* How many of `parts`, from the first, fit in one pass; 0 or 1: not worth it. */
size_t image_program_length(const struct image_part *parts, size_t count);
/* How many of them make sense only together: a fast decode and what follows it up to the resize, or a fast decode alone. They
 * have to be one program, and always can. 0: the first stands for itself. */
size_t image_program_unit(const struct image_part *parts, size_t count);
/* Notes in the config of a decode, which `parts` begin with, which quality it comes to. */
void decode_choose(struct decode_config *c, const struct image_part *parts, size_t count);
/* Its config, with copies of the parts' configs; what those point to is borrowed. Release with image_program_free. The class
 * below runs it; its plan refuses what `parts` do not accept, and images that are not uint8. `plainly`: images are decoded as
 * a whole and without an index; the result is the same. */
pst_status image_program_create(void **ret_config, const struct image_part *parts, size_t count, bool plainly,
                                pst_error *reterr);
void image_program_free(void *config);
extern const pst_op_class op_image_program;

#endif
