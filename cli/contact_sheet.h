/* contact_sheet.h: the images of some batches as one picture, whatever their type and layout. */
#ifndef CLI_CONTACT_SHEET_H
#define CLI_CONTACT_SHEET_H

#include <penstock/pipeline.h>

struct contact_sheet {
    const char *image, *label; /* fields; NULL: the one that holds images; "label" where there is one */
    pst_batch **batches;       /* held */
    size_t count;
    size_t elements;
};

/* Takes a reference. False: out of memory. */
bool contact_sheet_add(struct contact_sheet *s, pst_batch *batch);
/* `text` is the pipeline's, for the header. PST_EUNSUPPORTED: no field is an image. PST_EINVAL: no field of that name, or it
 * holds no images. */
pst_status contact_sheet_write(const struct contact_sheet *s, const char *path, uint32_t tile_size, const char *text,
                               pst_error *reterr);
void contact_sheet_finish(struct contact_sheet *s); /* zeroed ok */

#endif
