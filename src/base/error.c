/* error.c: the only code that records and formats failures.
 *
 * Everything is composed in a local error first, so a caller may wrap the very message it passes: pst_fail(err, st, "reading
 * the index: %s", err->message). Text that does not fit is cut between characters. Callers that know `op` and `sys_errno`
 * set them afterwards. */
#include "base/error.h"

#include "base/digits.h"
#include "base/secret.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ELLIPSIS "\xe2\x80\xa6"

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Takes back the character at the end of `text` that a cut left incomplete. */
static void drop_cut_character(char *text)
{
    size_t end = strlen(text), start = end;
    while (start > 0 && is_continuation(text[start - 1]))
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[--start];
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (start + length > end)
        text[start] = '\0';
}

/* The length of a web address without what may be a secret: its query, as that of a signed address; a name and a password
 * before the host. 0: nothing is hidden. */
static size_t public_part(const char *path, const char **ret_host)
{
    if (strncmp(path, "https://", 8) != 0 && strncmp(path, "http://", 7) != 0)
        return 0;
    const char *host = strstr(path, "://") + 3, *at = host + strcspn(host, "/?#@");
    *ret_host = *at == '@' ? at + 1 : host;
    size_t length = strcspn(path, "?");
    return path[length] || *ret_host != host ? length : 0;
}

static void copy_path(char *to, size_t size, const char *path)
{
    char hidden[sizeof(((pst_error *)0)->path)];
    const char *host = NULL;
    size_t shown = public_part(path, &host), length = strlen(path);
    if (shown) {
        snprintf(hidden, sizeof(hidden), "%.*s://%.*s%s", (int)(strstr(path, "://") - path), path,
                 (int)(path + shown - host), host, shown < length ? "?" ELLIPSIS : "");
        path = hidden;
        length = strlen(path);
    }
    if (length < size) {
        memcpy(to, path, length + 1);
        return;
    }
    const char *tail = path + length - (size - sizeof(ELLIPSIS));
    while (is_continuation(*tail))
        tail++;
    memcpy(to, ELLIPSIS, sizeof(ELLIPSIS) - 1);
    strcpy(to + sizeof(ELLIPSIS) - 1, tail);
}

static void fail(pst_error *reterr, pst_status status, const char *path, uint64_t record, uint64_t offset, const char *format,
                 va_list args)
{
    if (!reterr)
        return;
    pst_error e = {.status = status, .record = record, .offset = offset};
    if (path)
        copy_path(e.path, sizeof(e.path), path);
    bool cut = digits_vprint(e.message, sizeof(e.message), format, args) >= (int)sizeof(e.message);
    if (secret_shows(e.message)) {
        char hidden[SECRET_ROOM(sizeof(e.message))];
        secret_hide(hidden, e.message);
        cut |= snprintf(e.message, sizeof(e.message), "%s", hidden) >= (int)sizeof(e.message);
    }
    if (cut)
        drop_cut_character(e.message);
    *reterr = e;
}

pst_status pst_fail(pst_error *reterr, pst_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(reterr, status, NULL, PST_NOWHERE, PST_NOWHERE, format, args);
    va_end(args);
    return status;
}

pst_status pst_fail_at(pst_error *reterr, pst_status status, const char *path, uint64_t record, uint64_t offset,
                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(reterr, status, path, record, offset, format, args);
    va_end(args);
    return status;
}

static pst_status out_of_memory(pst_error *reterr, const char *path, const char *doing, va_list args)
{
    char what[sizeof(reterr->message)];
    digits_vprint(what, sizeof(what), doing, args);
    return pst_fail_at(reterr, PST_ENOMEM, path, PST_NOWHERE, PST_NOWHERE, "%s: out of memory", what);
}

pst_status fail_memory(pst_error *reterr, const char *doing, ...)
{
    va_list args;
    va_start(args, doing);
    pst_status st = out_of_memory(reterr, NULL, doing, args);
    va_end(args);
    return st;
}

pst_status fail_memory_at(pst_error *reterr, const char *path, const char *doing, ...)
{
    va_list args;
    va_start(args, doing);
    pst_status st = out_of_memory(reterr, path, doing, args);
    va_end(args);
    return st;
}

struct line {
    char *buffer;
    size_t size, length; /* the length counts on where the text does not fit */
};

static void add_byte(struct line *l, char c)
{
    if (l->length + 1 < l->size)
        l->buffer[l->length] = c;
    l->length++;
}

/* Names come from files: control characters, U+0080 to U+009F among them, are escaped, so that a terminal does not obey them.
 */
static void add_text(struct line *l, const char *text, bool lines)
{
    static const char digits[] = "0123456789abcdef";
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        bool wide = c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0;
        if (wide)
            c++;
        if ((*c >= 0x20 && *c != 0x7f && !wide) || (*c == '\n' && lines)) {
            add_byte(l, (char)*c);
            continue;
        }
        add_byte(l, '\\');
        if (*c == '\n' || *c == '\t') {
            add_byte(l, *c == '\n' ? 'n' : 't');
            continue;
        }
        add_byte(l, 'x');
        add_byte(l, digits[*c >> 4]);
        add_byte(l, digits[*c & 15]);
    }
}

static void PST_PRINTF(2, 3) add_place(struct line *l, const char *format, ...)
{
    char text[96];
    va_list args;
    va_start(args, format);
    digits_vprint(text, sizeof(text), format, args);
    va_end(args);
    add_text(l, text, false);
}

char *pst_error_text(const pst_error *error, char *buffer, size_t size)
{
    struct line l = {.buffer = buffer, .size = size};
    if (size == 0)
        return buffer;
    if (error->path[0]) {
        add_text(&l, error->path, false);
        add_text(&l, ": ", false);
    }
    if (error->record != PST_NOWHERE && error->offset != PST_NOWHERE)
        add_place(&l, "record %" PRIu64 " at byte %" PRIu64 ": ", error->record, error->offset);
    else if (error->record != PST_NOWHERE)
        add_place(&l, "record %" PRIu64 ": ", error->record);
    else if (error->offset != PST_NOWHERE)
        add_place(&l, "at byte %" PRIu64 ": ", error->offset);
    if (error->op[0])
        add_place(&l, "%s: ", error->op);
    add_text(&l, error->message[0] ? error->message : pst_status_name(error->status), true);

    char reason[128];
    bool remote = strstr(error->path, "://") != NULL; /* what this system calls it says less than what the store said */
    const char *why = error->sys_errno && !remote ? strerror_r(error->sys_errno, reason, sizeof(reason)) : "";
    if (why[0] && !strstr(error->message, why)) {
        add_text(&l, ": ", false);
        add_text(&l, why, false);
    }
    buffer[l.length < size ? l.length : size - 1] = '\0';
    if (l.length >= size)
        drop_cut_character(buffer);
    return buffer;
}

const char *pst_status_name(pst_status status)
{
    switch (status) {
    case PST_OK:
        return "PST_OK";
    case PST_END:
        return "PST_END";
    case PST_TIMEOUT:
        return "PST_TIMEOUT";
    case PST_SKIP:
        return "PST_SKIP";
    case PST_EINVAL:
        return "PST_EINVAL";
    case PST_ENOMEM:
        return "PST_ENOMEM";
    case PST_EIO:
        return "PST_EIO";
    case PST_ECORRUPT:
        return "PST_ECORRUPT";
    case PST_ELIMIT:
        return "PST_ELIMIT";
    case PST_EEXIST:
        return "PST_EEXIST";
    case PST_ENOTFOUND:
        return "PST_ENOTFOUND";
    case PST_EUNSUPPORTED:
        return "PST_EUNSUPPORTED";
    case PST_ECANCELLED:
        return "PST_ECANCELLED";
    case PST_ETYPE:
        return "PST_ETYPE";
    case PST_ESTALE:
        return "PST_ESTALE";
    }
    return "PST_UNKNOWN";
}

const char *pst_version(void)
{
    return PENSTOCK_VERSION;
}
