/* script.h: a text in the language, and how its errors are shown. */
#ifndef LANG_SCRIPT_H
#define LANG_SCRIPT_H

#include <penstock/base.h>

struct script {
    char *text; /* owned */
    char *path; /* owned; NULL: it did not come from a file */
};

/* Fails with an error at bytes [begin, end): the message (shortened if it is long), then the line with carets below the
 * place. */
pst_status script_fail(const struct script *s, size_t begin, size_t end, pst_status status, pst_error *reterr,
                       const char *format, ...) PST_PRINTF(6, 7);
/* Adds the line and the carets to the message, as far as they fit. */
void script_draw(const struct script *s, size_t begin, size_t end, pst_error *reterr);

/* A drawing of script_draw at the end of a message. */
struct drawing {
    size_t at;                /* the byte of the message at which it begins: a line break */
    const char *line;         /* the text that is shown, without ellipses */
    size_t length;            /* its bytes */
    size_t column, carets;    /* characters of it before the carets, and the number of carets */
    bool cut_left, cut_right; /* more of the line stands there */
};

/* Returns false if the message does not end with a drawing. */
bool script_find_drawing(const char *message, struct drawing *ret);

#endif
