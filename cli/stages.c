/* stages.c: see stages.h. */
#include "cli/stages.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 65536

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

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = f ? calloc(1, MOST_BYTES) : NULL;

    if (text)
        text[fread(text, 1, MOST_BYTES - 1, f)] = '\0';
    if (f)
        fclose(f);
    return text;
}

static int cut(struct stages *ret, const char *text)
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
        } else if (*s == '#' && (s == text || isspace((unsigned char)s[-1]))) {
            return -1; /* a comment: no attempt is made */
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
    char *file = text[0] == '@' && !strchr(text, '|') ? read_text(text + 1) : NULL;
    int done;

    *ret = (struct stages){0};
    done = text[0] == '@' && !file ? -1 : cut(ret, file ? file : text);
    free(file);
    if (done < 0)
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

char *stage_argument(const char *stage)
{
    const char *s = stage + strcspn(stage, " \t\n");
    size_t n;

    s += strspn(s, " \t\n");
    if (*s == '"' || *s == '\'') {
        n = strcspn(s + 1, *s == '"' ? "\"" : "'");
        s++;
    } else {
        n = strcspn(s, " \t\n");
    }
    return n ? strndup(s, n) : NULL;
}
