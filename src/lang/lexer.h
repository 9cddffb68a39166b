/* lexer.h: the language, word by word.
 *
 * Blanks (line breaks too) and | separate words. "…" takes escapes (\" \\ \n \r \t \xHH), '…' takes every character
 * literally; both may occur anywhere in a word. # at the beginning of a word starts a comment, up to the end of the line.
 * Parentheses are ordinary characters unless `opens` or `inside` says otherwise. */
#ifndef LANG_LEXER_H
#define LANG_LEXER_H

#include "base/arena.h"
#include "base/text.h"
#include "lang/script.h"

struct word {
    size_t begin, end;  /* in the script */
    size_t value_begin; /* after name= */
    const char *name;   /* NULL: it has none */
    const char *value;  /* without quotes and escapes */
};

struct words {
    const struct script *script;
    size_t at;            /* after the last word */
    struct arena *memory; /* of names and values */
    bool opens;           /* a ( ends a word */
    bool inside;          /* a ) ends a word, unless it closes a ( of the same word */
};

/* PST_END: at |, at the end of the text, at ( where `opens`, at ) where `inside`. */
pst_status words_next(struct words *w, struct word *ret, pst_error *reterr);
/* Moves to the next word and returns the length of the name that it begins with; 0: none. */
size_t words_peek_name(struct words *w);

bool word_is_name(const char *s, size_t length); /* letters, digits and _, not a digit first */
size_t word_name_length(const char *s);          /* of the name that `s` begins with; 0: none */

enum {
    WORD_FIRST = 1,  /* it is a word of its own, not the value of name=value */
    WORD_PARENS = 2, /* its parentheses need quotes */
};
/* Adds `s` so that it parses back to the value of one word. */
void word_write(struct text *t, const char *s, unsigned flags);

#endif
