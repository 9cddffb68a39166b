/* secret.c: see secret.h. Where it is not clear where an address ends, more is hidden. */
#include "base/secret.h"

#include <string.h>

/* The bytes after http:// or https://; 0: no address begins here. */
static size_t scheme_of(const char *text)
{
    return strncmp(text, "http://", 7) == 0 ? 7 : strncmp(text, "https://", 8) == 0 ? 8 : 0;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

static void begin_address(struct secret_scan *s, const char *text, size_t i, size_t scheme)
{
    char before = i ? text[i - 1] : 0;
    const char *host = text + i + scheme, *sign = memrchr(host, '@', strcspn(host, "/?# \t\n|'\"")); /* a password may have an @, too */
    s->address = true;
    s->query = false;
    s->end = is_quote(before) ? before : s->quote;
    s->begin = i + scheme;
    s->until = sign ? (size_t)(sign - text) : s->begin;
}

/* In double quotes, a backslash takes the meaning from the quote that follows. */
static bool is_escaped(const struct secret_scan *s, const char *text, size_t i)
{
    size_t n = 0;
    while (s->quote == '"' && i > n && text[i - n - 1] == '\\')
        n++;
    return n % 2;
}

static bool ends_address(const struct secret_scan *s, char c)
{
    return s->end ? c == s->end : !s->quote && (c == ' ' || c == '\t' || c == '\n');
}

bool secret_hides(struct secret_scan *s, const char *text, size_t i)
{
    char c = text[i];
    size_t scheme = s->query ? 0 : scheme_of(text + i);
    if (scheme)
        begin_address(s, text, i, scheme);
    else if (s->address && ends_address(s, c) && !is_escaped(s, text, i))
        s->address = s->query = false;
    if (is_quote(c) && !is_escaped(s, text, i) && (!s->quote || s->quote == c))
        s->quote = s->quote ? 0 : c;
    bool hidden = s->query || (i >= s->begin && i < s->until);
    s->query |= s->address && c == '?';
    return hidden;
}

size_t secret_free_length(const char *path)
{
    return scheme_of(path) ? strcspn(path, "?") : strlen(path);
}

bool secret_shows(const char *text)
{
    struct secret_scan s = {0};
    bool shows = false, any = strstr(text, "://") != NULL;
    for (size_t i = 0; any && text[i] && !shows; i++)
        shows = secret_hides(&s, text, i) && !strchr("*" SECRET_MARK, text[i]);
    return shows;
}

size_t secret_run(struct secret_scan *s, const char *text, size_t i, bool *ret_hidden)
{
    *ret_hidden = secret_hides(s, text, i++);
    for (; text[i]; i++) {
        struct secret_scan next = *s; /* the byte that ends the run is looked at again */
        if (secret_hides(&next, text, i) != *ret_hidden)
            break;
        *s = next;
    }
    return i;
}

void secret_hide(char *to, const char *text)
{
    struct secret_scan s = {0};
    bool hidden;
    for (size_t i = 0, end; text[i]; i = end) {
        end = secret_run(&s, text, i, &hidden);
        size_t n = hidden ? sizeof(SECRET_MARK) - 1 : end - i;
        memcpy(to, hidden ? SECRET_MARK : text + i, n);
        to += n;
    }
    *to = 0;
}
