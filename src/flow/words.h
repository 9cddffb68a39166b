/* words.h: the pipeline language, word by word.
 *
 * Words are separated by blanks (line breaks too) and by |. "…" takes escapes (\" \\ \n \r \t \xHH), '…' takes everything as
 * it is; both may stand anywhere in a word. # at the beginning of a word starts a comment, up to the end of the line. */
#ifndef FLOW_WORDS_H
#define FLOW_WORDS_H

#include "base/arena.h"
#include "base/text.h"
#include "flow/script.h"

struct word {
    size_t begin, end;  /* in the script */
    size_t value_begin; /* behind name= */
    const char *name;   /* NULL: it has none */
    const char *value;  /* without quotes and escapes */
};

struct words {
    const struct script *script;
    size_t at;            /* behind the last word */
    struct arena *memory; /* of names and values */
};

/* PST_END: at | or at the end of the text. */
pst_status words_next(struct words *w, struct word *ret, pst_error *reterr);

bool word_is_name(const char *s, size_t length); /* letters, digits and _, not a digit first */
/* Adds `s` so that it reads back as the value of one word; `first`: as a word of its own, not behind name=. */
void word_write(struct text *t, const char *s, bool first);

#endif
