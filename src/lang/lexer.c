/* lexer.c: taking words from a script, and writing them so that they read back. */
#include "lang/lexer.h"

#include "base/error.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool ends_word(char c)
{
    return c == '\0' || c == '|' || is_blank(c);
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t word_name_length(const char *s)
{
    size_t n = 0;
    while (is_letter(s[n]) || (n > 0 && is_digit(s[n])))
        n++;
    return n;
}

bool word_is_name(const char *s, size_t length)
{
    return length > 0 && word_name_length(s) == length;
}

/* ---- Reading ---- */

static size_t skip_blanks(const char *text, size_t at)
{
    for (;; at++) {
        if (text[at] == '#')
            while (text[at] && text[at] != '\n')
                at++;
        if (!is_blank(text[at]))
            return at;
    }
}

/* The place after the quote that closes the one at `at`; 0: none does. */
static size_t quoted_end(const char *text, size_t at)
{
    char quote = text[at++];
    while (text[at] && text[at] != quote)
        at += quote == '"' && text[at] == '\\' && text[at + 1] ? 2 : 1;
    return text[at] ? at + 1 : 0;
}

/* A parenthesis at the beginning of a word, or where `open` parentheses of the word are not closed, that is not part of it. */
static bool is_bracket(const struct words *w, char c, size_t open)
{
    return (c == '(' && w->opens) || (c == ')' && w->inside && open == 0);
}

static pst_status find_end(const struct words *w, size_t at, size_t *ret, pst_error *reterr)
{
    const struct script *s = w->script;
    size_t open = 0;
    while (!ends_word(s->text[at]) && !is_bracket(w, s->text[at], open)) {
        char c = s->text[at];
        size_t end = c == '"' || c == '\'' ? quoted_end(s->text, at) : at + 1;
        if (end == 0)
            return script_fail(s, at, at + 1, PST_EINVAL, reterr, "this quote is not closed");
        open += c == '(';
        open -= c == ')' && open > 0;
        at = end;
    }
    *ret = at;
    return PST_OK;
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20; /* to lower case */
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static const char escapes[] = "\"\"\\\\n\nr\rt\t"; /* pairs: the letter, its byte */

/* The byte that the escape at `*at` stands for, and where it ends; 0: it stands for none. */
static char unescape(const char *text, size_t *at)
{
    const char *p = text + *at + 1;
    if (*p == 'x') {
        int high = hex_digit(p[1]), low = high < 0 ? -1 : hex_digit(p[2]);
        *at += 4;
        return low < 0 ? '\0' : (char)(high << 4 | low);
    }
    *at += 2;
    for (size_t i = 0; escapes[i]; i += 2)
        if (escapes[i] == *p)
            return escapes[i + 1];
    return '\0';
}

static pst_status read_value(struct words *w, size_t at, size_t end, const char **ret, pst_error *reterr)
{
    const char *text = w->script->text;
    char *out = arena_alloc(w->memory, end - at + 1), quote = '\0';
    size_t n = 0;
    if (!out)
        return fail_memory(reterr, "reading the text");
    while (at < end) {
        char c = text[at];
        size_t begin = at++;
        if (c == quote) {
            quote = '\0';
        } else if (!quote && (c == '"' || c == '\'')) {
            quote = c;
        } else if (quote == '"' && c == '\\') {
            at = begin;
            c = unescape(text, &at);
            if (c == '\0')
                return script_fail(w->script, begin, begin + 2, PST_EINVAL, reterr,
                                   "invalid escape; those in double quotes are \\\" \\\\ \\n \\r \\t \\xHH, but not \\x00");
            out[n++] = c;
        } else {
            out[n++] = c;
        }
    }
    out[n] = '\0';
    *ret = out;
    return PST_OK;
}

pst_status words_next(struct words *w, struct word *ret, pst_error *reterr)
{
    const char *text = w->script->text;
    struct word word = {.begin = w->at = skip_blanks(text, w->at)};
    if (ends_word(text[word.begin]) || is_bracket(w, text[word.begin], 0))
        return PST_END;
    size_t name = word_name_length(text + word.begin);
    bool named = name > 0 && text[word.begin + name] == '=';
    word.value_begin = word.begin + (named ? name + 1 : 0);
    pst_status st = find_end(w, word.value_begin, &word.end, reterr);
    if (st == PST_OK)
        st = read_value(w, word.value_begin, word.end, &word.value, reterr);
    if (st < 0)
        return st;
    if (named) {
        word.name = arena_strndup(w->memory, text + word.begin, name);
        if (!word.name)
            return fail_memory(reterr, "reading the text");
    }
    w->at = word.end;
    *ret = word;
    return PST_OK;
}

size_t words_peek_name(struct words *w)
{
    w->at = skip_blanks(w->script->text, w->at);
    return word_name_length(w->script->text + w->at);
}

/* ---- Writing ---- */

static bool is_plain(const char *s, unsigned flags)
{
    if (s[0] == '\0' || ((flags & WORD_FIRST) && (s[0] == '#' || s[word_name_length(s)] == '=')))
        return false;
    for (; *s; s++)
        if (ends_word(*s) || (unsigned char)*s < 0x20 || strchr((flags & WORD_PARENS) ? "\"'\x7f()" : "\"'\x7f", *s))
            return false;
    return true;
}

static void write_escaped(struct text *t, char c)
{
    for (size_t i = 0; escapes[i]; i += 2) {
        if (escapes[i + 1] == c) {
            text_addf(t, "\\%c", escapes[i]);
            return;
        }
    }
    if ((unsigned char)c < 0x20 || c == 0x7f)
        text_addf(t, "\\x%02x", (unsigned char)c);
    else
        text_add_n(t, &c, 1);
}

void word_write(struct text *t, const char *s, unsigned flags)
{
    if (is_plain(s, flags)) {
        text_add(t, s);
        return;
    }
    text_add(t, "\"");
    for (; *s; s++)
        write_escaped(t, *s);
    text_add(t, "\"");
}
