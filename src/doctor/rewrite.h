/* rewrite.h: data stored in another form: the elements before `decode` become Examples in one shard per call, with images resized or
 * encoded anew if asked for. */
#ifndef DOCTOR_REWRITE_H
#define DOCTOR_REWRITE_H

#include "doctor/draft.h"
#include "doctor/picture.h"

#include <penstock/image.h>

struct rewrite {
    const struct draft *from;  /* delivers the elements in batches, once */
    const char *image;         /* the field with encoded images; NULL: nothing is encoded anew */
    uint32_t short_side;       /* of larger images afterwards; 0: as they are */
    uint32_t compare;          /* the side at which pixels are compared with the original; 0: they are not */
    pst_image_format format;   /* PST_IMAGE_UNKNOWN: as it was */
    const char *folder;        /* receives data.tfrecord-XXXXX-of-XXXXX and indexes */
    uint32_t shards;
    unsigned threads;
    bool sync;
    uint64_t samples; /* expected, for the progress; 0: unknown */
    pst_progress_fn progress;
    void *user;
};

struct rewritten {
    uint64_t samples, bytes;
    double seconds;
    double psnr; /* the mean over some images; 0: not compared */
    struct picture picture[PICTURES]; /* of some of them; the caller finishes them */
};

pst_status doctor_rewrite(const struct rewrite *q, struct rewritten *ret, pst_error *reterr);

#endif
