/* jpeg_input.c: see jpeg_input.h. */
#include "codec/jpeg_input.h"

#include "base/memory.h"
#include "codec/image_codec.h"
#include "codec/libjpeg.h"

void jpeg_input_finish(struct jpeg_input *in)
{
    jpeg_decoder_free(in->decoder);
    *in = (struct jpeg_input){0};
}

pst_status jpeg_input_open(struct jpeg_input *in, const void *data, size_t length, const pst_image_info *info,
                           const pst_decode_options *options, bool fast_transform, pst_error *reterr)
{
    *in = (struct jpeg_input){.decoder = in->decoder, .data = data, .length = length, .info = *info, .options = *options};
    in->fast_transform = fast_transform;
    if (options->strict || fast_transform)
        return PST_OK;
    if (!in->decoder)
        in->decoder = jpeg_decoder_create();
    if (!in->decoder)
        return image_codec_no_memory("jpeg", reterr);
    struct jpeg_frame frame;
    if (jpeg_decoder_open(in->decoder, data, length, &frame, NULL) == PST_OK && frame.width == info->width &&
        frame.height == info->height)
        in->frame = frame;
    return PST_OK;
}

const struct jpeg_decoder *jpeg_input_decoder(const struct jpeg_input *in)
{
    return in->frame.components ? in->decoder : NULL;
}

/* Whether `st` decides: only what our decoder does not support, at the header or at the first error in the data, goes to
 * libjpeg-turbo. */
static bool is_final(pst_status st, const pst_error *error, pst_error *reterr)
{
    if (st < 0 && st != PST_EUNSUPPORTED && reterr)
        *reterr = *error;
    return st != PST_EUNSUPPORTED;
}

pst_status jpeg_input_pixels(struct jpeg_input *in, const struct region *part, struct jpeg_points *points,
                             struct region_memory *memory, pst_image *ret, pst_error *reterr)
{
    pst_error error;
    if (in->frame.components) {
        pst_status st = jpeg_decode_pixels(in->decoder, part, in->options.channels, points, ret, &error);
        if (is_final(st, &error, reterr))
            return st;
    }
    return (in->fast_transform ? jpeg_read_fast : jpeg_read)(ret, in->data, in->length, &in->info, part, &in->options, memory,
                                                             reterr);
}

pst_status jpeg_input_planes(struct jpeg_input *in, const struct region *part, unsigned scale, struct jpeg_points *points,
                             struct jpeg_frame *ret_frame, struct jpeg_plane ret[3], pst_error *reterr)
{
    struct jpeg_frame frame = in->frame;
    pst_status st = PST_EUNSUPPORTED;
    pst_error error;
    if (frame.rgb || !in->decoder)
        return PST_EUNSUPPORTED;
    if (frame.components)
        st = jpeg_decode_planes(in->decoder, part, 0, scale, points, ret, &error);
    if (!frame.components || !is_final(st, &error, reterr))
        st = jpeg_decode_planes_turbo(in->decoder, in->data, in->length, part, 0, scale, in->options.max_scans, &frame, ret,
                                      reterr);
    if (st < 0)
        return st;
    if (frame.rgb || frame.width != in->info.width || frame.height != in->info.height)
        return PST_EUNSUPPORTED;
    *ret_frame = frame;
    return PST_OK;
}

pst_status jpeg_input_image(struct jpeg_input *in, pst_image *ret, pst_error *reterr)
{
    const struct region whole = {.width = in->info.width, .height = in->info.height};
    struct region_memory memory = {0};
    pst_status st = jpeg_input_pixels(in, &whole, NULL, &memory, ret, reterr);
    if (st < 0)
        mem_free(memory.data);
    else if (ret->pixels != memory.data)
        jpeg_decoder_give_pixels(in->decoder); /* a whole image begins where its memory does */
    return st;
}
