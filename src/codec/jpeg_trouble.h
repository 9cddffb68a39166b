/* jpeg_trouble.h: errors and warnings of libjpeg, for decoding and encoding.
 *
 * libjpeg reports errors by a call that must not return: it jumps back. State that must survive the jump is in structs of
 * the outer function, not in locals of the function that calls setjmp. */
#ifndef CODEC_JPEG_TROUBLE_H
#define CODEC_JPEG_TROUBLE_H

#include <penstock/base.h>

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

struct trouble {
    struct jpeg_error_mgr manager; /* first: libjpeg hands back its address */
    jmp_buf jump;
    pst_status status;
    unsigned warnings;
    char text[JMSG_LENGTH_MAX]; /* the error, or the first warning */
};

/* Returns the value for `err` of a libjpeg struct. It never prints. */
struct jpeg_error_mgr *trouble_init(struct trouble *t);

#endif
