/* script.h: a text in the language, and how its mistakes are shown. */
#ifndef LANG_SCRIPT_H
#define LANG_SCRIPT_H

#include <penstock/base.h>

struct script {
    char *text; /* owned */
    char *path; /* owned; NULL: it did not come from a file */
};

/* An error at bytes [begin, end): what is wrong (cut where it is long), then the line and carets below the place. */
pst_status script_fail(const struct script *s, size_t begin, size_t end, pst_status status, pst_error *reterr,
                       const char *format, ...) PST_PRINTF(6, 7);
/* Adds line and carets to the message, as much of them as there is room for. */
void script_draw(const struct script *s, size_t begin, size_t end, pst_error *reterr);

#endif
