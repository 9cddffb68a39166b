/* image_pass.h: computes the pixels of a frame, from the source to the batch, in one pass over its rows. */
#ifndef OPS_IMAGE_IMAGE_PASS_H
#define OPS_IMAGE_IMAGE_PASS_H

#include "image/convert.h"
#include "ops/image/image_frame.h"
#include "ops/image/image_source.h"

struct image_pass {
    pst_ctx *ctx;
    const struct frame *frame;
    const struct image_work *works; /* on rows of the window, before they are converted */
    size_t work_count;
    struct convert convert; /* `flips` follows from the frame */
    pst_dtype dtype;        /* of the result: uint8, or float32, float16, bfloat16 where `convert` scales */
    void *out;              /* box_height × box_width of the frame's window */
    struct image_source *source;
    bool fast;  /* planes are resized, where the source has them */
    bool whole; /* …and the image is decoded as a whole; does not affect the output */
};

pst_status image_pass_run(struct image_pass *p, pst_error *reterr);

#endif
