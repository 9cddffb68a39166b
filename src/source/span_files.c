/* span_files.c: the files that a user names for csv, lines, records and tar.
 *
 * A folder stands for the files in it that have one of the source's extensions. {000..009} stands for the numbers between,
 * as in names of WebDataset shards. A file that is named is used whatever its name. */
#include "source/span_set.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/parse_number.h"

#include <inttypes.h>
#include <string.h>

#define MOST_NUMBERS 1000000u

static bool ends_with(const char *name, size_t length, const char *suffix)
{
    size_t n = strlen(suffix);
    return length > n && memcmp(name + length - n, suffix, n) == 0;
}

static bool has_extension(const char *name, const char *const *extensions)
{
    static const char *const packings[] = {".gz", ".zst", ".zlib"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
        if (ends_with(name, length, packings[i])) {
            length -= strlen(packings[i]);
            break;
        }
    }
    for (size_t i = 0; extensions[i]; i++)
        if (ends_with(name, length, extensions[i]))
            return true;
    return false;
}

pst_compression span_compression(const struct span_class *class, const char *path, bool regular)
{
    size_t length = strlen(path);
    if (ends_with(path, length, ".zlib"))
        return PST_COMPRESSION_ZLIB;
    bool packed = ends_with(path, length, ".gz") || ends_with(path, length, ".zst");
    return class->binary && regular && !packed ? PST_COMPRESSION_NONE : PST_COMPRESSION_AUTO;
}

static pst_status add_folder(struct path_list *ret, const char *folder, const char *const *extensions, pst_error *reterr)
{
    struct path_list files = {0};
    size_t before = ret->count;
    pst_status st = walk_files(&files, folder, true, reterr);
    for (size_t i = 0; i < files.count && st == PST_OK; i++)
        if (has_extension(file_base(files.paths[i]), extensions))
            st = path_list_add(ret, files.paths[i], reterr);
    path_list_finish(&files);
    if (st == PST_OK && ret->count == before)
        return pst_fail_at(reterr, PST_ENOTFOUND, folder, PST_NOWHERE, PST_NOWHERE,
                           "no file in this folder has a name ending in %s%s%s; name files to read others", extensions[0],
                           extensions[1] ? " or " : "", extensions[1] ? extensions[1] : "");
    return st;
}

static pst_status add_path(struct path_list *ret, const char *path, const char *const *extensions, pst_error *reterr)
{
    struct path_list matches = {0};
    pst_status st = walk_glob(&matches, path, reterr);
    for (size_t i = 0; i < matches.count && st == PST_OK; i++) {
        struct file_info info;
        bool index = matches.count > 1 && ends_with(matches.paths[i], strlen(matches.paths[i]), ".pidx");
        st = index ? PST_OK : file_stat(matches.paths[i], &info, reterr);
        if (st == PST_OK && !index)
            st = info.is_folder ? add_folder(ret, matches.paths[i], extensions, reterr)
                                : path_list_add(ret, matches.paths[i], reterr);
    }
    path_list_finish(&matches);
    return st;
}

/* Reads the digits at `s` up to `stop`. */
static bool read_digits(const char *s, const char *stop, uint64_t *ret)
{
    *ret = 0;
    for (const char *at = s; at < stop; at++) {
        if (!is_digit(*at) || *ret > MOST_NUMBERS * (uint64_t)10000)
            return false;
        *ret = *ret * 10 + (uint64_t)(*at - '0');
    }
    return stop > s;
}

/* Finds "{000..009}". */
static bool find_numbers(const char *path, const char **ret_open, const char **ret_close, uint64_t *ret_first, uint64_t *ret_last)
{
    for (const char *open = strchr(path, '{'); open; open = strchr(open + 1, '{')) {
        const char *close = strchr(open, '}'), *dots = strstr(open, "..");
        if (close && dots && dots < close && read_digits(open + 1, dots, ret_first) && read_digits(dots + 2, close, ret_last)) {
            *ret_open = open;
            *ret_close = close;
            return true;
        }
    }
    return false;
}

static pst_status add_word(struct path_list *ret, const char *path, const char *const *extensions, unsigned depth,
                           pst_error *reterr)
{
    const char *open, *close;
    uint64_t first = 0, last = 0;
    struct file_info info;
    if (strcmp(path, "-") == 0)
        return path_list_add(ret, "/dev/stdin", reterr);
    if (depth == 4 || !find_numbers(path, &open, &close, &first, &last) || file_stat(path, &info, NULL) == PST_OK)
        return add_path(ret, path, extensions, reterr);
    if (last < first || last - first >= MOST_NUMBERS)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "the numbers in braces must rise, and be at most %u", MOST_NUMBERS);
    const char *dots = strstr(open, "..");
    pst_status st = PST_OK;
    for (uint64_t n = first; n <= last && st == PST_OK; n++) {
        char *one = mem_format("%.*s%0*" PRIu64 "%s", (int)(open - path), path, (int)(dots - open - 1), n, close + 1);
        st = one ? add_word(ret, one, extensions, depth + 1, reterr) : fail_memory_at(reterr, path, "finding the files");
        mem_free(one);
    }
    return st;
}

pst_status span_find_files(struct path_list *ret, const pst_strings *paths, const char *const *extensions, pst_error *reterr)
{
    pst_status st = paths->count ? PST_OK : pst_fail(reterr, PST_EINVAL, "no path given; name files, folders or patterns");
    for (size_t i = 0; i < paths->count && st == PST_OK; i++)
        st = add_word(ret, paths->value[i], extensions, 0, reterr);
    return st;
}
