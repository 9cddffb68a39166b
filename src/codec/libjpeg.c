/* libjpeg.c: see libjpeg.h. */
#include "codec/libjpeg.h"

#include <inttypes.h>

#include <jerror.h>

/* ---- Errors and warnings ---- */

static pst_status status_of(int code)
{
    switch (code) {
    case JERR_OUT_OF_MEMORY:
        return PST_ENOMEM;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_SOF_UNSUPPORTED:
        return PST_EUNSUPPORTED;
    default:
        return PST_ECORRUPT;
    }
}

static void on_error(j_common_ptr info)
{
    struct trouble *t = (struct trouble *)info->err;
    t->status = status_of(info->err->msg_code);
    info->err->format_message(info, t->text);
    longjmp(t->jump, 1);
}

static void on_message(j_common_ptr info, int level)
{
    struct trouble *t = (struct trouble *)info->err;
    if (level < 0 && t->warnings++ == 0)
        info->err->format_message(info, t->text);
}

static void on_output(j_common_ptr info)
{
    (void)info; /* libjpeg would print */
}

struct jpeg_error_mgr *trouble_init(struct trouble *t)
{
    jpeg_std_error(&t->manager);
    t->manager.error_exit = on_error;
    t->manager.emit_message = on_message;
    t->manager.output_message = on_output;
    return &t->manager;
}

/* ---- The decompressor ---- */

/* Called while the input is read: each scan of a progressive image touches all of its coefficients. */
static void on_progress(j_common_ptr common)
{
    struct jpeg_reader *r = common->client_data;
    if (r->info.input_scan_number <= (int64_t)r->max_scans)
        return;
    r->trouble.status = PST_ELIMIT;
    snprintf(r->trouble.text, sizeof(r->trouble.text),
             "more than max_scans = %" PRIu32 " scans; raise it if the source is trusted", r->max_scans);
    longjmp(r->trouble.jump, 1);
}

void jpeg_reader_init(struct jpeg_reader *r, uint32_t max_scans)
{
    *r = (struct jpeg_reader){.max_scans = max_scans, .progress = {.progress_monitor = on_progress}};
    r->info.err = trouble_init(&r->trouble);
}

void jpeg_reader_open(struct jpeg_reader *r, const void *data, size_t length)
{
    jpeg_create_decompress(&r->info);
    r->info.client_data = r;
    r->info.progress = &r->progress;
    jpeg_mem_src(&r->info, data, length);
    jpeg_read_header(&r->info, TRUE);
}
