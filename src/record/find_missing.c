/* find_missing.c: shards that a set should have. The name of a shard says how many there are: x-00003-of-00008.
 *
 * A set is judged by what was asked for. A folder asks for all shards of the sets in it, a pattern for those that it matches.
 * So `shards/` and `train-*` need whole sets, while `train-0000[0-3]-of-*` and files named one by one select on purpose. */
#include "record/find.h"

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIGITS 9

struct numbered {
    size_t begin, digits; /* of the number within the path */
    uint32_t number, total;
};

static uint32_t read_number(const char *text, size_t digits)
{
    uint32_t value = 0;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (uint32_t)(text[i] - '0');
    return value;
}

/* The last "-DIGITS-of-DIGITS" of the name; false: it has none. */
static bool read_numbering(const char *path, struct numbered *ret)
{
    static const char decimals[] = "0123456789";
    const char *name = file_base(path);
    for (const char *of = strstr(name, "-of-"); of; of = strstr(of + 1, "-of-")) {
        size_t digits = 0, total = strspn(of + 4, decimals);
        while (of - digits > name && of[-(ptrdiff_t)digits - 1] >= '0' && of[-(ptrdiff_t)digits - 1] <= '9')
            digits++;
        const char *number = of - digits;
        if (digits < 5 || digits > MOST_DIGITS || total < 5 || total > MOST_DIGITS || number == name || number[-1] != '-')
            continue;
        *ret = (struct numbered){.begin = (size_t)(number - path),
                                 .digits = digits,
                                 .number = read_number(number, digits),
                                 .total = read_number(of + 4, total)};
        return ret->number < ret->total;
    }
    return false;
}

/* True if `asked`, as the user wrote it, stands for `path`, which does not exist. */
static bool asks_for(const char *asked, const char *path)
{
    char part[4096];
    size_t length = strlen(path), n = strlen(asked);
    struct file_info info;
    if (!strpbrk(asked, "*?[")) /* a file, or a folder with everything in it */
        return length > n && memcmp(path, asked, n) == 0 && file_stat(asked, &info, NULL) == PST_OK && info.is_folder;
    while (length > 0 && length < sizeof(part)) { /* the path itself, then the folders that it lies in */
        memcpy(part, path, length);
        part[length] = '\0';
        if (fnmatch(asked, part, FNM_PATHNAME | FNM_PERIOD | FNM_NOESCAPE) == 0)
            return true;
        while (length > 0 && path[length - 1] != '/')
            length--;
        length -= length > 0;
    }
    return false;
}

static size_t count_set(const struct path_list *found, const char *path, const struct numbered *of)
{
    size_t count = 0;
    for (size_t i = 0; i < found->count; i++) {
        struct numbered other;
        const char *p = found->paths[i];
        count += read_numbering(p, &other) && other.begin == of->begin && other.digits == of->digits &&
                 strncmp(p, path, of->begin) == 0 && strcmp(p + of->begin + of->digits, path + of->begin + of->digits) == 0;
    }
    return count;
}

pst_status find_missing(const struct path_list *found, const char *const *paths, size_t count, const char *remedy,
                        pst_error *reterr)
{
    for (size_t i = 0; i < found->count; i++) {
        struct numbered n;
        const char *path = found->paths[i];
        if (!read_numbering(path, &n))
            continue;
        char *next = mem_strndup(path, strlen(path)), digits[MOST_DIGITS + 3];
        if (!next)
            return pst_fail(reterr, PST_ENOMEM, "looking for shards: out of memory");
        snprintf(digits, sizeof(digits), "%0*" PRIu32, (int)n.digits, (n.number + 1) % n.total); /* around: no gap is passed */
        memcpy(next + n.begin, digits, n.digits);
        bool wanted = !bsearch(&next, found->paths, found->count, sizeof(*found->paths), text_compare);
        bool asked = false;
        for (size_t k = 0; wanted && k < count; k++)
            asked |= asks_for(paths[k], next);
        pst_status st = PST_OK;
        if (asked)
            st = pst_fail_at(reterr, PST_ENOTFOUND, next, PST_NOWHERE, PST_NOWHERE,
                             "this shard is missing: %zu of %" PRIu32 " are there; %s", count_set(found, path, &n), n.total,
                             remedy);
        mem_free(next);
        if (st < 0)
            return st;
    }
    return PST_OK;
}
