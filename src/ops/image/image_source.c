/* image_source.c: see image_source.h. Sound baseline JPEGs go through our own decoder, which skips what is not needed, by way
 * of the entropy index where there is one; all others, and all other formats, through region.h. Which way an image went does
 * not show. */
#include "ops/image/image_source.h"

#include "base/error.h"

#include "codec/yuv.h"
#include "image/pixels.h"
#include "ops/ctx.h"
#include "source/jpeg_points.h"

/* ---- The worker's ---- */

pst_status image_decoder_init(struct image_decoder *d, const struct decode_config *c, pst_error *reterr)
{
    struct region_options options = decode_options(c);
    if (c->format == DECODE_RAW)
        return PST_OK;
    d->jpeg = jpeg_decoder_create();
    if (!d->jpeg)
        return fail_memory(reterr, "starting a decoder");
    return region_decoder_init(&d->region, &options, reterr);
}

void image_decoder_finish(struct image_decoder *d)
{
    region_decoder_finish(&d->region);
    jpeg_decoder_free(d->jpeg);
    d->jpeg = NULL;
}

/* ---- The image ---- */

/* Opens a JPEG that lies as it is stored. One that our decoder refuses has no frame. */
static void open_jpeg(struct image_source *s)
{
    pst_error refusal;
    if (s->info.stored.format != PST_IMAGE_JPEG || s->info.orientation != 1)
        return;
    pst_status st = jpeg_decoder_open(s->decoder->jpeg, s->bytes->data, s->bytes->length, &s->frame, &refusal);
    if (st < 0 || s->frame.width != s->info.width || s->frame.height != s->info.height)
        s->frame.components = 0;
}

pst_status image_source_open(struct image_source *s, const struct decode_config *decode, struct image_decoder *decoder,
                             pst_ctx *ctx, const pst_tensor *in, pst_error *reterr)
{
    *s = (struct image_source){.ctx = ctx};
    if (decode && decode->format != DECODE_RAW) {
        s->decoder = decoder;
        s->bytes = in->data;
        pst_status st = region_probe(&decoder->region, s->bytes->data, s->bytes->length, &s->info, reterr);
        if (st == PST_OK)
            open_jpeg(s);
        return st;
    }
    pst_status st = decode ? decode_raw(decode, in->data, &s->pixels, reterr) : image_of_tensor(in, &s->pixels, reterr);
    s->info.width = s->pixels.width;
    s->info.height = s->pixels.height;
    s->info.channels = s->pixels.channels;
    return st;
}

/* ---- A part, with what is known of the way to it ---- */

/* The request to our decoder. */
struct request {
    const struct region *part;
    unsigned scale;
    pst_image *pixels;         /* these, */
    struct jpeg_plane *planes; /* or else these */
};

static pst_status ask(const struct image_source *s, const struct request *q, struct jpeg_points *points, pst_error *reterr)
{
    struct jpeg_decoder *d = s->decoder->jpeg;
    return q->pixels ? jpeg_decode_pixels(d, q->part, s->info.channels, points, q->pixels, reterr)
                     : jpeg_decode_planes(d, q->part, 0, q->scale, points, q->planes, reterr);
}

/* The whole image, or its upper rows: then there is nothing to pass over, and points are of no use. */
static bool begins_at_front(const struct image_source *s, const struct region *part)
{
    return part->x == 0 && part->y == 0 && part->width == s->frame.width;
}

/* PST_EUNSUPPORTED: left to libjpeg-turbo. */
static pst_status ask_jpeg(const struct image_source *s, const struct request *q, bool use_points, pst_error *reterr)
{
    const pst_bytes *b = s->bytes;
    struct entropy_use use;
    if (s->frame.components == 0)
        return PST_EUNSUPPORTED;
    if (!use_points || begins_at_front(s, q->part) ||
        !entropy_begin(s->ctx->entropy, s->ctx->sample, s->decoder->jpeg, b->data, b->length, &use))
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
    pst_status st = ask_jpeg(s, &q, true, reterr);
    if (st != PST_EUNSUPPORTED)
        return st;
    return region_decode(&s->decoder->region, s->bytes->data, s->bytes->length, &s->info, part, ret, reterr);
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
    const struct request q = {.part = part, .scale = scale, .planes = ret->plane};
    struct jpeg_frame frame = s->frame;
    pst_status st = frame.rgb ? PST_EUNSUPPORTED : ask_jpeg(s, &q, points, reterr);
    if (st == PST_EUNSUPPORTED && !frame.rgb)
        st = jpeg_decode_planes_turbo(s->decoder->jpeg, s->bytes->data, s->bytes->length, part, 0, scale,
                                      s->decoder->region.options.decode.max_scans, &frame, ret->plane, reterr);
    if (st < 0)
        return st;
    if (frame.rgb || frame.width != s->info.width || frame.height != s->info.height)
        return PST_EUNSUPPORTED;
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
