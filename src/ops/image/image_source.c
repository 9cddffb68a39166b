/* image_source.c: see image_source.h. codec/region.h decodes; for JPEGs that our own decoder has open it gets the points
 * of the entropy index, which let it skip data. Points do not affect the output. */
#include "ops/image/image_source.h"

#include "codec/yuv.h"
#include "image/pixels.h"
#include "ops/ctx.h"
#include "source/jpeg_points.h"

/* ---- The decoder of a worker ---- */

pst_status image_decoder_init(struct region_decoder *d, const struct decode_config *c, pst_error *reterr)
{
    struct region_options options = decode_options(c);
    if (c->format == DECODE_RAW)
        return PST_OK;
    return region_decoder_init(d, &options, reterr);
}

/* ---- The image ---- */

pst_status image_source_open(struct image_source *s, const struct decode_config *decode, struct region_decoder *decoder,
                             pst_ctx *ctx, const pst_tensor *in, pst_error *reterr)
{
    *s = (struct image_source){.ctx = ctx};
    if (decode && decode->format != DECODE_RAW) {
        s->decoder = decoder;
        s->bytes = in->data;
        pst_status st = region_probe(decoder, s->bytes->data, s->bytes->length, &s->info, reterr);
        if (st == PST_OK)
            st = region_open(decoder, s->bytes->data, s->bytes->length, &s->info, reterr);
        return st;
    }
    pst_status st = decode ? decode_raw(decode, in->data, &s->pixels, reterr) : image_of_tensor(in, &s->pixels, reterr);
    s->info.width = s->pixels.width;
    s->info.height = s->pixels.height;
    s->info.channels = s->pixels.channels;
    return st;
}

/* ---- A part, with the points of its image ---- */

struct request {
    const struct region *part;
    unsigned scale;
    pst_image *pixels;         /* the result, if not NULL; */
    struct jpeg_plane *planes; /* otherwise these */
    struct jpeg_frame *frame;
};

static pst_status ask(const struct image_source *s, const struct request *q, struct jpeg_points *points, pst_error *reterr)
{
    return q->pixels ? region_pixels(s->decoder, q->part, points, q->pixels, reterr)
                     : region_planes(s->decoder, q->part, q->scale, points, q->frame, q->planes, reterr);
}

/* The whole image, or its upper rows: there is nothing to skip, and points are of no use. */
static bool begins_at_front(const struct image_source *s, const struct region *part)
{
    return part->x == 0 && part->y == 0 && part->width == s->info.width;
}

static pst_status ask_with_points(const struct image_source *s, const struct request *q, bool use_points, pst_error *reterr)
{
    const pst_bytes *b = s->bytes;
    const struct jpeg_decoder *jpeg = region_jpeg(s->decoder);
    struct entropy_use use;
    if (!use_points || !jpeg || begins_at_front(s, q->part) ||
        !entropy_begin(s->ctx->entropy, s->ctx->sample, jpeg, b->data, b->length, &use))
        return ask(s, q, NULL, reterr);
    pst_status st = ask(s, q, &use.points, reterr);
    entropy_done(s->ctx->entropy, &use);
    if (st != PST_ESTALE)
        return st;
    entropy_refuse(s->ctx->entropy, s->ctx->sample, b->data, b->length);
    return ask(s, q, NULL, reterr);
}

pst_status image_source_pixels(struct image_source *s, const struct region *part, pst_image *ret, pst_error *reterr)
{
    if (!s->decoder) {
        *ret = pixels_crop(&s->pixels, part->x, part->y, part->width, part->height);
        return PST_OK;
    }
    const struct request q = {.part = part, .pixels = ret};
    return ask_with_points(s, &q, true, reterr);
}

/* ---- Planes ---- */

static struct jpeg_plane stored_plane(const uint8_t *pixels, uint32_t width, uint32_t height)
{
    return (struct jpeg_plane){
        .pixels = pixels, .stride = width, .width = width, .height = height, .full_width = width, .full_height = height};
}

static pst_status yuv_planes(const struct image_source *s, struct image_planes *ret, pst_error *reterr)
{
    struct yuv_planes p;
    pst_status st = yuv_open(s->bytes->data, s->bytes->length, &p, reterr);
    if (st < 0)
        return st;
    *ret = (struct image_planes){.count = p.colour_width ? 3 : 1, .h = 2, .v = 2, .scale = 8};
    ret->plane[0] = stored_plane(p.y, p.width, p.height);
    ret->plane[1] = stored_plane(p.cb, p.colour_width, p.colour_height);
    ret->plane[2] = stored_plane(p.cr, p.colour_width, p.colour_height);
    return PST_OK;
}

static pst_status jpeg_planes(struct image_source *s, const struct region *part, unsigned scale, bool points,
                              struct image_planes *ret, pst_error *reterr)
{
    struct jpeg_frame frame;
    const struct request q = {.part = part, .scale = scale, .planes = ret->plane, .frame = &frame};
    pst_status st = ask_with_points(s, &q, points, reterr);
    if (st < 0)
        return st;
    ret->count = frame.components;
    ret->h = frame.components > 1 ? frame.h : 1;
    ret->v = frame.components > 1 ? frame.v : 1;
    ret->scale = scale;
    return PST_OK;
}

pst_status image_source_planes(struct image_source *s, const struct region *part, unsigned scale, bool points,
                               struct image_planes *ret, pst_error *reterr)
{
    if (!s->decoder || s->info.orientation != 1 || s->info.channels > 3)
        return PST_EUNSUPPORTED;
    if (s->info.stored.format == PST_IMAGE_YUV420)
        return yuv_planes(s, ret, reterr);
    if (s->info.stored.format == PST_IMAGE_JPEG)
        return jpeg_planes(s, part, scale, points, ret, reterr);
    return PST_EUNSUPPORTED;
}
