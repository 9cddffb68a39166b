/* jpeg_trouble.h: what libjpeg has to complain about, in both directions.
 *
 * libjpeg reports errors by a call that must not return: it jumps back. All that must survive the jump lives in structs of
 * the outer function, none in locals of the one that calls setjmp. */
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

/* What goes to `err` of a libjpeg struct. It never prints. */
struct jpeg_error_mgr *trouble_init(struct trouble *t);

#endif
