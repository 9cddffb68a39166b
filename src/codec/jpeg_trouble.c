/* jpeg_trouble.c: libjpeg's errors and warnings as statuses and text. */
#include "codec/jpeg_trouble.h"

#include <jerror.h>

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
