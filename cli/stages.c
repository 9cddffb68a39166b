/* stages.c: see stages.h. */
#include "cli/stages.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct stages *s, const char *begin, const char *end)
{
    char **more = realloc(s->text, (s->count + 1) * sizeof(*more));

    if (!more)
        return -1;
    s->text = more;
    while (begin < end && isspace((unsigned char)*begin))
        begin++;
    while (begin < end && isspace((unsigned char)end[-1]))
        end--;
    s->text[s->count] = strndup(begin, (size_t)(end - begin));
    return s->text[s->count] ? (s->count++, 0) : -1;
}

/* The text without comments, which go from # to the end of the line; free it. */
static char *without_comments(const char *text)
{
    char *copy = strdup(text), quote = 0;
    bool comment = false;

    for (char *s = copy; s && *s; s++) {
        if (comment) {
            comment = *s != '\n';
            *s = ' ';
        } else if (quote) {
            if (quote == '"' && *s == '\\' && s[1])
                s++;
            else if (*s == quote)
                quote = 0;
        } else if (*s == '"' || *s == '\'') {
            quote = *s;
        } else if (*s == '#' && (s == copy || isspace((unsigned char)s[-1]))) {
            comment = true;
            *s = ' ';
        }
    }
    return copy;
}

static int cut_plain(struct stages *ret, const char *text)
{
    const char *begin = text, *s = text;
    char quote = 0;

    for (; *s; s++) {
        if (quote) {
            if (quote == '"' && *s == '\\' && s[1])
                s++;
            else if (*s == quote)
                quote = 0;
        } else if (*s == '"' || *s == '\'') {
            quote = *s;
        } else if (*s == '|') {
            if (add(ret, begin, s) < 0)
                return -1;
            begin = s + 1;
        }
    }
    return add(ret, begin, s);
}

int stages_cut(struct stages *ret, const char *text)
{
    char *plain = without_comments(text);
    int done;

    *ret = (struct stages){0};
    done = plain ? cut_plain(ret, plain) : -1;
    free(plain);
    for (size_t i = 0; done == 0 && i < ret->count; i++)
        if (ret->text[i][0] == '@')
            done = 1;
    if (done != 0)
        stages_finish(ret);
    return done;
}

void stages_finish(struct stages *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->text[i]);
    free(s->text);
    *s = (struct stages){0};
}

int stage_is(const char *stage, const char *op)
{
    size_t n = strlen(op);

    return strncmp(stage, op, n) == 0 && (stage[n] == '\0' || isspace((unsigned char)stage[n]));
}

/* Whether `op` has a parameter with the name before "=" in the word. A word without one is positional. */
static bool takes(const pst_op_class *op, const char *word, size_t length)
{
    const char *equals = memchr(word, '=', length);

    if (!equals)
        return true;
    for (const pst_param *p = op ? op->params : NULL; p && p->name; p++)
        if (strlen(p->name) == (size_t)(equals - word) && strncmp(p->name, word, (size_t)(equals - word)) == 0)
            return true;
    return false;
}

/* The length of the word at `s`, in which quotes protect blanks. */
static size_t word_length(const char *s)
{
    size_t n = 0;
    char quote = 0;

    for (; s[n] && (quote || !isspace((unsigned char)s[n])); n++) {
        if (quote == '"' && s[n] == '\\' && s[n + 1])
            n++;
        else if (quote)
            quote = s[n] == quote ? 0 : quote;
        else if (s[n] == '"' || s[n] == '\'')
            quote = s[n];
    }
    return n;
}

/* A copy without the quotes around it. */
static char *without_quotes(const char *s, size_t n)
{
    bool quoted = n > 1 && (*s == '"' || *s == '\'') && s[n - 1] == *s;

    return strndup(s + quoted, n - 2 * quoted);
}

char *stage_argument(const char *stage, const pst_op_class *op, const char *name)
{
    const char *s = stage + strcspn(stage, " \t\n");
    size_t place = 0, at = 0, length = strlen(name);

    for (const pst_param *p = op->params; p && p->name && strcmp(p->name, name) != 0; p++)
        place++;
    while (*(s += strspn(s, " \t\n"))) {
        size_t n = word_length(s), key = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");

        if (key == length && key < n && s[key] == '=' && memcmp(s, name, key) == 0)
            return without_quotes(s + key + 1, n - key - 1);
        if ((key == n || s[key] != '=') && at++ == place)
            return without_quotes(s, n);
        s += n;
    }
    return NULL;
}

char *stage_arguments_for(const char *stage, const char *name)
{
    const pst_op_class *op = pst_op_find(name);
    const char *s = stage + strcspn(stage, " \t\n");
    char *ret = calloc(1, strlen(s) + 2);
    size_t used = 0;

    while (ret && *(s += strspn(s, " \t\n"))) {
        size_t n = word_length(s);

        if (takes(op, s, n)) {
            ret[used++] = ' ';
            memcpy(ret + used, s, n);
            used += n;
        }
        s += n;
    }
    return ret;
}
