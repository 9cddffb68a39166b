/* turbo.c: planes of the images that the decoder leaves to libjpeg-turbo: its coefficients, our transform. */
#include "codec/jpeg/planes.h"
#include "codec/libjpeg.h"

#include <inttypes.h>

/* Only samplings that a struct jpeg_frame can describe: the first component is an integer multiple of the others. */
static bool describe_frame(const struct jpeg_decompress_struct *info, struct jpeg_frame *f)
{
    const jpeg_component_info *c = info->comp_info;
    int n = info->num_components;
    if ((n != 1 && n != 3) || info->data_precision != 8)
        return false;
    *f = (struct jpeg_frame){
        .width = info->image_width, .height = info->image_height, .components = (uint32_t)n, .h = 1, .v = 1};
    f->rgb = info->jpeg_color_space == JCS_RGB;
    if (n == 3) {
        if (c[1].h_samp_factor != c[2].h_samp_factor || c[1].v_samp_factor != c[2].v_samp_factor ||
            c[0].h_samp_factor % c[1].h_samp_factor || c[0].v_samp_factor % c[1].v_samp_factor)
            return false;
        f->h = (uint8_t)(c[0].h_samp_factor / c[1].h_samp_factor);
        f->v = (uint8_t)(c[0].v_samp_factor / c[1].v_samp_factor);
    }
    f->mcus_x = (f->width + 8u * f->h - 1) / (8u * f->h);
    f->mcus_y = (f->height + 8u * f->v - 1) / (8u * f->v);
    return true;
}

struct request {
    struct jpeg_decoder *decoder;
    const struct region *part;
    uint32_t margin;
    unsigned scale;
    struct jpeg_frame frame;
    struct jpeg_area area;
};

static void transform_component(struct request *q, struct jpeg_decompress_struct *info, jvirt_barray_ptr blocks, uint32_t c)
{
    const struct jpeg_area *a = &q->area;
    const jpeg_component_info *component = &info->comp_info[c];
    int16_t quant[64];
    for (int i = 0; i < 64; i++)
        quant[i] = component->quant_table ? (int16_t)component->quant_table->quantval[i] : 0; /* 0: no scan has it */
    uint32_t left = a->left * a->h[c], top = a->top * a->v[c], right = a->right * a->h[c], bottom = a->bottom * a->v[c];
    if (right > component->width_in_blocks)
        right = component->width_in_blocks;
    if (bottom > component->height_in_blocks)
        bottom = component->height_in_blocks;
    for (uint32_t y = top; y < bottom; y++) {
        JBLOCKARRAY row = info->mem->access_virt_barray((j_common_ptr)info, blocks, y, 1, FALSE);
        struct jpeg_blocks b = {.blocks = row[0][left], .count = right - left, .group = right - left};
        jpeg_area_transform(a, q->decoder->kernels, c, quant, &b, 0, y - top);
    }
}

/* After the only scan of an image libjpeg would read on to the end, and may fail there; decoding of pixels or of a part
 * never reads that far. So it is given the end at once. */
static void end_behind_scan(j_common_ptr common)
{
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    struct jpeg_decompress_struct *info = (struct jpeg_decompress_struct *)common;
    if (info->input_iMCU_row < info->total_iMCU_rows)
        return;
    info->unread_marker = 0;
    info->src->next_input_byte = end;
    info->src->bytes_in_buffer = sizeof(end);
}

static pst_status read_planes(struct jpeg_reader *r, struct request *q, const void *data, size_t length, pst_error *reterr)
{
    struct jpeg_decompress_struct *info = &r->info;
    if (setjmp(r->trouble.jump))
        return pst_fail(reterr, r->trouble.status, "jpeg: %s", r->trouble.text);
    jpeg_reader_open(r, data, length);
    if (!describe_frame(info, &q->frame))
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "jpeg: %d components, or rare sampling factors: only whole pixels are decoded", info->num_components);
    const struct region *part = q->part;
    if (part->x >= q->frame.width || part->width > q->frame.width - part->x || part->y >= q->frame.height ||
        part->height > q->frame.height - part->y)
        return pst_fail(reterr, PST_ECORRUPT, "jpeg: a part beyond the %" PRIu32 " × %" PRIu32 " pixels of the frame",
                        q->frame.width, q->frame.height);
    pst_status st = jpeg_area_init(&q->area, q->decoder, &q->frame, part, q->margin, q->scale, q->frame.components, reterr);
    if (st < 0)
        return st;
    if (!info->progressive_mode && info->comps_in_scan == info->num_components)
        r->progress.progress_monitor = end_behind_scan;
    jvirt_barray_ptr *blocks = jpeg_read_coefficients(info);
    for (uint32_t c = 0; c < q->frame.components; c++)
        transform_component(q, info, blocks[c], c);
    return PST_OK;
}

pst_status jpeg_decode_planes_turbo(struct jpeg_decoder *d, const void *data, size_t length, const struct region *part,
                                    uint32_t margin, unsigned scale, uint32_t max_scans, struct jpeg_frame *ret_frame,
                                    struct jpeg_plane ret[3], pst_error *reterr)
{
    struct request q = {.decoder = d, .part = part, .margin = margin, .scale = scale};
    struct jpeg_reader r;
    jpeg_reader_init(&r, max_scans);
    pst_status st = read_planes(&r, &q, data, length, reterr);
    jpeg_destroy_decompress(&r.info);
    if (st < 0)
        return st;
    *ret_frame = q.frame;
    memcpy(ret, q.area.plane, q.frame.components * sizeof(*ret));
    return PST_OK;
}
