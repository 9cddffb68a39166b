/* jpeg_reader.c: see jpeg_reader.h. */
#include "codec/jpeg_reader.h"

#include <inttypes.h>

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
