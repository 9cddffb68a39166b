/* image_op.h: the facet of image operations and the interface of the planner, so that a run of them becomes one pass from
 * encoded bytes to the batch: crop first, decode only that region, resize, flip, convert and normalise into place. Running
 * them one by one gives the same bits. */
#ifndef OPS_IMAGE_IMAGE_OP_H
#define OPS_IMAGE_IMAGE_OP_H

#include "codec/region.h"
#include "image/resize.h"
#include "ops/op_decl.h"

#define IMAGE_MAX_SIDE 65535 /* maximum side of a result */

/* ---- The field ---- */

/* The first member of the config of every operation with an image facet. An image is [height, width, channels]: 1…4 channels.
 */
struct image_field {
    const char *name;
    size_t number; /* set by the plan */
};

/* The types that an operation takes. */
enum image_values {
    IMAGE_NUMBERS,         /* any numbers: it only moves them */
    IMAGE_BYTES_AND_FLOATS /* uint8 and float32 */
};

/* Starts the plan of an operation that changes an image: finds the field, checks that it holds an image of such values,
 * passes all other fields on. `*ret` is the field in `ret_out`, with its shape unchanged. */
pst_status image_field_plan(struct image_field *f, const pst_spec *in, enum image_values values, pst_spec *ret_out,
                            pst_field **ret, pst_error *reterr);
bool image_field_holds(const pst_field *field); /* numbers with the shape of an image, as far as it is known */
/* Returns the pixels of a uint8 tensor. PST_ETYPE: its size is not valid for an image. */
pst_status image_of_tensor(const pst_tensor *t, pst_image *ret, pst_error *reterr);

/* ---- Geometric operations ---- */

/* The effect of one operation on an image: crop, then resize, then flip; each is optional. */
struct geometry {
    int64_t x, y; /* corner of the crop; outside of the image it is padded with zeros */
    uint32_t cut_width, cut_height;
    uint32_t width, height; /* resized to this; see geometry_resizes */
    pst_filter filter;
    uint32_t left, top, full_width, full_height; /* offset in, and size of, a larger result filled with zeros; full_width 0: none */
    bool flips;                                  /* left to right */
};

/* Most filters do not change a crop that already has the right size. */
static inline bool geometry_resizes(const struct geometry *g)
{
    return g->width != g->cut_width || g->height != g->cut_height || resize_blurs(g->filter);
}

/* ---- The facet ---- */

/* Everything that the fused pass needs to know about an operation, in any order with others. Its config begins with a struct
 * image_field. One of these groups is set:
 *
 *   decodes    bytes become an image; only the first of a pass can
 *   geometry   moves pixels: cuts, resizes, mirrors
 *   levels     works value by value: a byte's result depends on its channel and on its level alone
 *   row        works pixel by pixel: a pixel's bytes depend on that pixel alone, wherever it lies
 *   factors    bytes become float32: x × scale + bias
 *   casts      another type, the same values
 *   splits     a plane per channel, or pixels */
struct image_facet {
    bool decodes; /* its config is a struct decode_config */

    /* Draws its random numbers from ctx. */
    pst_status (*geometry)(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr);
    bool resizes, cuts_at_random;
    bool (*pads)(const void *config); /* whether there may be zeros around the image; NULL: never */
    /* Returns whether it resizes with a method for pixels only, not for planes of a fast decode; NULL: never. */
    bool (*needs_pixels)(const void *config);

    /* Called once per image, and may draw. `ret` has a row of 256 results for each channel. */
    pst_status (*levels)(const void *config, pst_ctx *ctx, uint32_t channels, uint8_t (*ret)[256], pst_error *reterr);

    /* Called once per image, and may draw; stores in `state` (`row_state` bytes, zeroed) the data that `row` needs. NULL:
     * nothing. */
    pst_status (*row_begin)(const void *config, pst_ctx *ctx, uint32_t channels, void *state, pst_error *reterr);
    size_t row_state;
    void (*row)(const void *config, const void *state, uint8_t *pixels, uint32_t width, uint32_t channels); /* in place */

    /* Stores one value per channel. PST_ETYPE: the config is for another number of channels. */
    pst_status (*factors)(const void *config, uint32_t channels, float *scale, float *bias, pst_error *reterr);
    pst_dtype (*casts)(const void *config); /* the type of the result */
    bool (*splits)(const void *config);     /* a plane per channel; false: pixels */
};

/* Implements `run` of a single operation, for facets with `geometry`, `levels` or `row`. */
pst_status image_op_run(const struct op_decl *op, const void *config, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                        pst_error *reterr);
/* Computes the geometry and checks its limits. */
pst_status image_op_geometry(const struct op_decl *op, const void *config, pst_ctx *ctx, uint32_t width, uint32_t height,
                             struct geometry *ret, pst_error *reterr);

/* The prepared `levels` or `row` of an operation for one image. */
struct image_work {
    const struct image_facet *facet;
    const void *config;
    void *state; /* row_state bytes, or the levels */
};
pst_status image_work_begin(struct image_work *w, const struct image_facet *facet, const void *config, pst_ctx *ctx,
                            uint32_t channels, pst_error *reterr);
void image_work_row(const struct image_work *w, uint8_t *pixels, uint32_t width, uint32_t channels); /* in place */
static inline bool image_facet_works(const struct image_facet *f)
{
    return f->levels || f->row;
}

/* Width and height of the result, padding included. */
static inline uint32_t geometry_width(const struct geometry *g)
{
    return g->full_width ? g->full_width : g->width;
}

static inline uint32_t geometry_height(const struct geometry *g)
{
    return g->full_width ? g->full_height : g->height;
}

/* Completes a size: "224" means a square. */
static inline pst_size2d size_both(pst_size2d s)
{
    return s.height ? s : (pst_size2d){.width = s.width, .height = s.width};
}

/* Names of resize methods: the choices of a parameter, and their filters. */
extern const char *const resize_methods[];
extern const char *const plane_methods[]; /* the first ones, which also apply to planes of a fast decode */
pst_filter resize_method(int choice);

/* ---- Decoding ---- */

enum decode_format { DECODE_AUTO, DECODE_RAW };
/* Exact: the same pixels as libjpeg-turbo. Fast: planes are resized, and converted to pixels at the size of the result.
 * Tensorflow: the pixels of tf.io.decode_jpeg with its default transform. */
enum decode_quality { QUALITY_AUTO, QUALITY_EXACT, QUALITY_FAST, QUALITY_TENSORFLOW };
struct decode_config {
    struct image_field field;
    int format;        /* enum decode_format */
    int quality;       /* enum decode_quality; as requested */
    const char *shape; /* of raw pixels: "224x224x3", height first */
    uint64_t channels, max_pixels, max_scans;
    bool exif, recover;
    uint32_t height, width, depth; /* of raw pixels; set by the plan */
    bool fast;                     /* the selected quality; set by image_program_choose, */
    const char *reason;            /* with the reason. NULL: there is nothing to choose */
};
struct region_options decode_options(const struct decode_config *c);
/* Returns raw pixels as a read-only image. */
pst_status decode_raw(const struct decode_config *c, const pst_bytes *bytes, pst_image *ret, pst_error *reterr);

/* ---- A run of image operations on one field as a single operation ---- */

struct image_part {
    const struct op_decl *op; /* NULL: not built in; it is never fused */
    const void *config;
    uint32_t ordinal;
};
/* Returns how many of `parts`, from the first, fit in one pass; 0 or 1: no fusion. */
size_t image_program_length(const struct image_part *parts, size_t count);
/* Returns how many parts must run together: a fast decode and the operations after it up to the resize, or a fast decode
 * alone. They must be one program, which is always possible. 0: the first part runs alone. */
size_t image_program_unit(const struct image_part *parts, size_t count);
/* If `parts` begin with a decode whose config is `config`, stores the selected quality in it. */
void image_program_choose(void *config, const struct image_part *parts, size_t count);
/* Creates the config, with copies of the parts' configs; the memory they point to is borrowed. Release with
 * image_program_free. The class below runs it; its plan refuses input that `parts` do not accept, and images that are not
 * uint8. `plainly`: images are decoded as a whole and without an index; the result is the same. If `run` fails, `cause` of
 * its ctx is that of the part that failed. */
pst_status image_program_create(void **ret_config, const struct image_part *parts, size_t count, bool plainly,
                                pst_error *reterr);
void image_program_free(void *config);
extern const pst_op_class op_image_program;

#endif
