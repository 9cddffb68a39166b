/* kernels.c: tables of kernels: the file of --kernels, and what was used of it. */
#include "cli/say.h"
#include "cli/train.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

pst_status kernels_read(char **ret, const char *path, pst_error *error)
{
    FILE *f = fopen(path, "r");
    char *text = f ? malloc(MOST + 1) : NULL;
    size_t length = text ? fread(text, 1, MOST + 1, f) : 0;
    pst_status status = PST_OK;

    if (!f || (text && ferror(f)))
        status = pst_fail_at(error, errno == ENOENT ? PST_ENOTFOUND : PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "%s", strerror(errno));
    else if (!text)
        status = pst_fail(error, PST_ENOMEM, "out of memory");
    else if (length > MOST || memchr(text, '\0', length))
        status = pst_fail_at(error, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "is not a table of kernels; `penstock model --tune` writes one");
    if (f)
        fclose(f);
    if (status < 0)
        free(text);
    else {
        text[length] = '\0';
        *ret = text;
    }
    return status;
}

/* The length of the line without its comment, the blanks before that, and the width of vectors: a kernel has one name for all. */
static size_t entry_length(const char *line)
{
    static const char wide[] = " (avx512)";
    size_t n = strcspn(line, "#\r\n"), w = sizeof(wide) - 1;

    while (n > 0 && line[n - 1] == ' ')
        n--;
    return n >= w && memcmp(line + n - w, wide, w) == 0 ? n - w : n;
}

static bool has_entry(const char *table, const char *entry, size_t length)
{
    for (const char *at = table; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (entry_length(at) == length && memcmp(at, entry, length) == 0)
            return true;
    return false;
}

void kernels_compare(const char *given, const char *used, const char *origin)
{
    size_t unused = 0, length;
    const char *first = NULL;

    for (const char *at = given; *at; at += strcspn(at, "\n"), at += *at == '\n')
        if ((length = entry_length(at)) > 0 && !has_entry(used, at, length)) {
            first = first ? first : at;
            unused++;
        }
    if (unused)
        say_note("%s: %zu of its kernels are not used: the model has no such layer, or this machine no such kernel; the first is \"%.*s\"", origin, unused,
                 (int)entry_length(first), first);
}
