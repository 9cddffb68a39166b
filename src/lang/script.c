/* script.c: the lines below an error:
 *
 *     there is no operation shufle; did you mean shuffle?
 *     tfrecord shards/ | shufle seed=7 | batch 64
 *                        ^^^^^^
 *
 * A message has 256 bytes for all of it. It shows as much of the line around the place as fits, up to the width of a
 * terminal. A character counts as one column. */
#include "lang/script.h"

#include "base/digits.h"
#include "base/secret.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WIDEST     100 /* columns of the line */
#define FIRST_LINE 140 /* bytes of what is wrong: the rest is the drawing's */
#define ELLIPSIS   "\xe2\x80\xa6"

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The part of a line that is shown. */
struct window {
    const char *text;
    size_t line_begin, line_end, begin, end; /* bytes of the text: the line, and what is shown of it */
    size_t left, right, carets;              /* columns before the place, from there on, and of these with a caret */
};

/* Bytes of the drawing: two line breaks, the text between ellipses, blanks (one for an ellipsis) and carets. */
static size_t cost(const struct window *w)
{
    return 2 + 2 * (sizeof(ELLIPSIS) - 1) + (w->end - w->begin) + 1 + w->left + (w->carets ? w->carets : 1);
}

/* Shows one more character, if there is any and room for it. */
static bool widen(struct window *w, bool to_the_left, bool caret, size_t room)
{
    struct window wider = *w;
    if (to_the_left ? w->begin == w->line_begin : w->end == w->line_end)
        return false;
    if (to_the_left) {
        do
            wider.begin--;
        while (wider.begin > w->line_begin && is_continuation(w->text[wider.begin]));
        wider.left++;
    } else {
        do
            wider.end++;
        while (wider.end < w->line_end && is_continuation(w->text[wider.end]));
        wider.right++;
        wider.carets += caret;
    }
    if (cost(&wider) > room || wider.left + wider.right > WIDEST)
        return false;
    *w = wider;
    return true;
}

/* The place itself first, then what surrounds it, on both sides by turns. */
static struct window find_window(const char *text, size_t place, size_t place_end, size_t room)
{
    struct window w = {.text = text, .line_begin = place, .line_end = place, .begin = place, .end = place};
    while (w.line_begin > 0 && text[w.line_begin - 1] != '\n')
        w.line_begin--;
    while (text[w.line_end] && text[w.line_end] != '\n')
        w.line_end++;
    while (w.end < place_end && widen(&w, false, true, room))
        ;
    for (bool left = true, right = true; left || right;) {
        left = left && widen(&w, true, false, room);
        right = right && widen(&w, false, false, room);
    }
    return w;
}

/* Copies what is shown; secrets of web addresses as stars. */
static char *draw_text(const struct window *w, char *out)
{
    struct secret_scan scan = {0};
    for (size_t i = 0; i < w->end; i++) {
        char c = w->text[i];
        bool hidden = secret_hides(&scan, w->text, i);
        if (i < w->begin || (hidden && is_continuation(c)))
            continue;
        *out++ = hidden ? '*' : (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
    }
    return out;
}

void script_draw(const struct script *s, size_t begin, size_t end, pst_error *reterr)
{
    if (!reterr)
        return;
    size_t used = strlen(reterr->message), room = sizeof(reterr->message) - 1 - used;
    struct window w = find_window(s->text, begin, end, room);
    if (cost(&w) > room)
        return; /* the words matter more, and the offset still says where */
    bool cut_left = w.begin > w.line_begin, cut_right = w.end < w.line_end;
    char *out = reterr->message + used;
    out += sprintf(out, "\n%s", cut_left ? ELLIPSIS : "");
    out = draw_text(&w, out);
    out += sprintf(out, "%s\n%*s^", cut_right ? ELLIPSIS : "", (int)(w.left + cut_left), "");
    for (size_t i = 1; i < w.carets; i++)
        *out++ = '^';
    *out = '\0';
}

bool script_find_drawing(const char *message, struct drawing *ret)
{
    const char *below = strrchr(message, '\n'), *above = below ? memrchr(message, '\n', (size_t)(below - message)) : NULL;
    size_t blanks = above ? strspn(below + 1, " ") : 0, carets = above ? strspn(below + 1 + blanks, "^") : 0, cut = sizeof(ELLIPSIS) - 1;
    if (carets == 0 || below[1 + blanks + carets])
        return false;
    const char *line = above + 1;
    size_t length = (size_t)(below - line);
    bool left = blanks > 0 && length >= cut && memcmp(line, ELLIPSIS, cut) == 0;
    line += left ? cut : 0;
    length -= left ? cut : 0;
    bool right = length >= cut && memcmp(line + length - cut, ELLIPSIS, cut) == 0;
    *ret = (struct drawing){.at = (size_t)(above - message),
                            .line = line,
                            .length = length - (right ? cut : 0),
                            .column = blanks - left,
                            .carets = carets,
                            .cut_left = left,
                            .cut_right = right};
    return true;
}

/* Errors are one line of plain text; what users wrote need not be. */
static void flatten(char *message)
{
    for (char *c = message; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    if (strlen(message) <= FIRST_LINE)
        return;
    size_t end = FIRST_LINE - (sizeof(ELLIPSIS) - 1);
    while (end > 0 && is_continuation(message[end]))
        end--;
    strcpy(message + end, ELLIPSIS);
}

pst_status script_fail(const struct script *s, size_t begin, size_t end, pst_status status, pst_error *reterr,
                       const char *format, ...)
{
    char message[sizeof(reterr->message)];
    va_list args;
    va_start(args, format);
    digits_vprint(message, sizeof(message), format, args);
    va_end(args);
    flatten(message);
    pst_fail_at(reterr, status, s->path, PST_NOWHERE, begin, "%s", message);
    if (status != PST_ENOMEM)
        script_draw(s, begin, end, reterr);
    return status;
}
