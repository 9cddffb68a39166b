/* html_value.c: values of the answer and how they are worded. See html.h. */
#include "base/memory.h"
#include "base/text.h"
#include "doctor/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FORMAT_SIZE 1024

const char *sheet_text(struct sheet *s, size_t at, const char *key)
{
    size_t found = key ? json_find(&s->doc, at, key) : at;
    if (found == JSON_ABSENT || s->doc.items[found].kind != JSON_STRING)
        return "";
    char *copy = json_get_string(&s->doc, found);
    char *kept = copy ? arena_strndup(&s->arena, copy, strlen(copy)) : NULL;
    s->failed = s->failed || !kept;
    mem_free(copy);
    return kept ? kept : "";
}

double sheet_number(const struct sheet *s, size_t at, const char *key)
{
    double value = NAN;
    size_t found = key ? json_find(&s->doc, at, key) : at;
    return found != JSON_ABSENT && json_get_number(&s->doc, found, &value) ? value : NAN;
}

size_t sheet_child(const struct sheet *s, size_t at, const char *key)
{
    size_t found = json_find(&s->doc, at, key);
    return found != JSON_ABSENT && s->doc.items[found].kind >= JSON_ARRAY ? found : JSON_ABSENT;
}

size_t sheet_count(const struct sheet *s, size_t at)
{
    return at != JSON_ABSENT && s->doc.items[at].kind == JSON_ARRAY ? s->doc.items[at].count : 0;
}

size_t sheet_next(const struct sheet *s, size_t item)
{
    return s->doc.items[item].next;
}

void *sheet_alloc(struct sheet *s, size_t count, size_t size)
{
    void *p = count < SIZE_MAX / size ? arena_alloc(&s->arena, count * size) : NULL;
    s->failed = s->failed || !p;
    return p ? memset(p, 0, count * size) : NULL;
}

const char *sheet_format(struct sheet *s, const char *format, ...)
{
    char buffer[FORMAT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof(buffer), format, args);
    va_end(args);
    char *kept = arena_strndup(&s->arena, buffer, strlen(buffer));
    s->failed = s->failed || !kept;
    return kept ? kept : "";
}

const char *sheet_figure(struct sheet *s, double value)
{
    char number[FIGURE_SIZE];
    if (!isfinite(value))
        return "";
    bool count = value == floor(value) && fabs(value) < 1e9;
    return sheet_format(s, "%s", count ? figure_count(number, value) : figure_number(number, value));
}

const char *sheet_sentence(struct sheet *s, const char *text)
{
    return text[0] >= 'a' && text[0] <= 'z' ? sheet_format(s, "%c%s", text[0] - 'a' + 'A', text + 1) : text;
}

const char *sheet_rate(struct sheet *s, double value)
{
    char number[FIGURE_SIZE];
    return isfinite(value) ? sheet_format(s, "%s", figure_number(number, value)) : "";
}

const char *sheet_duration(struct sheet *s, double seconds)
{
    char number[FIGURE_SIZE];
    return isfinite(seconds) && seconds >= 0 ? sheet_format(s, "%s", figure_seconds(number, seconds, "\xC2\xA0")) : "";
}

const char *sheet_date(struct sheet *s, double seconds)
{
    char text[32];
    struct tm utc;
    time_t whole = seconds >= 0 && seconds < 1e11 ? (time_t)seconds : (time_t)-1;
    bool known = whole >= 0 && gmtime_r(&whole, &utc) && strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &utc);
    return known ? sheet_format(s, "%s", text) : "";
}

const char *sheet_bytes(struct sheet *s, double bytes)
{
    char buffer[32];
    if (!isfinite(bytes) || bytes < 0 || bytes > 1e18)
        return "";
    return sheet_format(s, "%s", text_bytes((uint64_t)bytes, buffer, sizeof(buffer)));
}

const char *sheet_share(struct sheet *s, double share)
{
    char number[FIGURE_SIZE];
    return isfinite(share) ? sheet_format(s, "%s\xC2\xA0%%", figure_number(number, 100 * share)) : "";
}

const char *sheet_times(struct sheet *s, double gain)
{
    char number[FIGURE_SIZE];
    return isfinite(gain) ? sheet_format(s, "%s\xC2\xA0×", figure_number(number, gain)) : "";
}
