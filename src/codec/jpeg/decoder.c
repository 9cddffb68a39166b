/* decoder.c: a decoder, and the image it has open. */
#include "codec/jpeg/state.h"

#include "base/memory.h"

struct jpeg_decoder *jpeg_decoder_create(void)
{
    struct jpeg_decoder *d = mem_aligned(sizeof(*d));
    if (d) {
        memset(d, 0, sizeof(*d));
        d->kernels = jpeg_kernels();
    }
    return d;
}

void jpeg_decoder_free(struct jpeg_decoder *d)
{
    if (!d)
        return;
    mem_free(d->planes.data);
    mem_free(d->pixels.data);
    mem_free(d->rows.data);
    mem_free(d);
}

pst_status jpeg_decoder_open(struct jpeg_decoder *d, const void *data, size_t length, struct jpeg_frame *ret, pst_error *reterr)
{
    d->data = data;
    d->length = length;
    pst_status st = jpeg_header_read(d, reterr);
    if (st == PST_OK)
        *ret = d->frame;
    return st;
}

void jpeg_decoder_give_pixels(struct jpeg_decoder *d)
{
    d->pixels = (struct region_memory){0};
}

pst_status jpeg_not_sound(const struct jpeg_decoder *d, const struct jpeg_points *points, pst_error *reterr)
{
    size_t at = (size_t)(d->stage[0].place.stream.source ? d->stage[0].place.stream.source - d->data : 0);
    if (points && points->sound)
        return pst_fail(reterr, PST_ESTALE, "jpeg: points into its data that contradict it; they belong to another image");
    return pst_fail_at(reterr, PST_EUNSUPPORTED, NULL, PST_NOWHERE, at,
                       "jpeg: damaged data, about here; this decoder reads sound images only");
}
