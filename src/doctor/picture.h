/* picture.h: samples before and after a remedy that changes pixels, for the page: the middle of an image as training sees it,
 * pixel by pixel, with and without the remedy. A picture that cannot be made is absent; it is never an error. */
#ifndef DOCTOR_PICTURE_H
#define DOCTOR_PICTURE_H

#include <penstock/image.h>
#include <penstock/op.h>

#define PICTURES 2 /* of one remedy */

struct picture {
    uint8_t *before, *after; /* as PNG; NULL: absent. Owned */
    size_t before_length, after_length;
};

void picture_make(struct picture *ret, const pst_image *before, const pst_image *after);
/* The same from image `i` of two fields of a batch; absent unless they have bytes, the same sizes and channels last. */
void picture_of_tensors(struct picture *ret, const pst_tensor *before, const pst_tensor *after, size_t i);
void picture_finish(struct picture *p); /* Zeroed ok. */

#endif
