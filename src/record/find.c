/* find.c: finds the shards, or the files of any kind, that a user names.
 *
 * Shards: a path that is a file is used whatever its name, unless shards were named too and it is only their companion (an index,
 * labels.txt, …, as matched by `shards/?*`). A folder stands for the shards in it, or for those one or two levels below if
 * it has none itself, as in NAME/VERSION/. A pattern stands for the paths that match it.
 * Files: a folder stands for all files below it, hidden ones left out; the order of the paths stays, and so do repeated ones. */
#include "record/find.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <penstock/inspect.h>

#include <string.h>

#define DEEPEST 2u

/* ---- Names ---- */

static bool ends_with(const char *name, size_t length, const char *suffix)
{
    size_t n = strlen(suffix);
    return length > n && memcmp(name + length - n, suffix, n) == 0;
}

/* Returns where "-00000-of-00016" begins at the end of the name; `length` if there is none. */
static size_t numbering(const char *name, size_t length)
{
    size_t i = length, digits = 0;
    for (; i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9'; i--)
        digits++;
    if (digits < 5 || i < 4 || memcmp(name + i - 4, "-of-", 4) != 0)
        return length;
    i -= 4;
    for (digits = 0; i > 0 && name[i - 1] >= '0' && name[i - 1] <= '9'; i--)
        digits++;
    return digits >= 5 && i > 0 && name[i - 1] == '-' ? i - 1 : length;
}

bool find_is_event_file(const char *name)
{
    static const char mark[] = ".tfevents.";
    return strstr(name, mark) != NULL && name[0] != '.';
}

bool find_is_shard(const char *name)
{
    static const char *const packings[] = {".gz", ".zst", ".zlib"};
    static const char *const endings[] = {".tfrecord", ".tfrecords", ".tfrec"};
    size_t length = strlen(name);
    if (name[0] == '.' || ends_with(name, length, ".pidx"))
        return false;
    if (find_is_event_file(name))
        return true;
    for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
        if (ends_with(name, length, packings[i])) {
            length -= strlen(packings[i]);
            break;
        }
    }
    size_t stem = numbering(name, length);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (ends_with(name, stem, endings[i]))
            return true;
    }
    return stem < length && !memchr(name, '.', stem); /* train-00000-of-01024, as many converters call it */
}

/* Returns true for files that accompany shards but are not shards. */
static bool is_companion(const char *name)
{
    static const char *const endings[] = {".pidx", ".idx", ".index", ".json", ".txt", ".md"};
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        if (ends_with(name, strlen(name), endings[i]))
            return true;
    }
    return name[0] == '.';
}

/* ---- Lists ---- */

/* Drops what `unwanted` says; keeps the order. */
static void drop(struct path_list *l, size_t from, bool (*unwanted)(const char *name))
{
    size_t kept = from;
    for (size_t i = from; i < l->count; i++) {
        if (unwanted(file_base(l->paths[i])))
            mem_free(l->paths[i]);
        else
            l->paths[kept++] = l->paths[i];
    }
    l->count = kept;
}

static bool is_no_shard(const char *name)
{
    return !find_is_shard(name);
}

static void drop_repeated(struct path_list *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (kept && strcmp(l->paths[kept - 1], l->paths[i]) == 0)
            mem_free(l->paths[i]);
        else
            l->paths[kept++] = l->paths[i];
    }
    l->count = kept;
}

/* The shards in `folder`, or in the nearest level below that has any. */
static pst_status find_in_folder(struct path_list *l, const char *folder, pst_error *reterr)
{
    struct path_list level = {0}, below = {0};
    size_t before = l->count;
    pst_status st = path_list_add(&level, folder, reterr);
    for (unsigned depth = 0; depth <= DEEPEST && st == PST_OK && l->count == before; depth++) {
        for (size_t i = 0; i < level.count && st == PST_OK; i++)
            st = walk_files(l, level.paths[i], false, reterr);
        drop(l, before, is_no_shard);
        for (size_t i = 0; i < level.count && st == PST_OK && l->count == before; i++)
            st = walk_folders(&below, level.paths[i], reterr);
        path_list_finish(&level);
        level = below;
        below = (struct path_list){0};
    }
    path_list_finish(&level);
    if (st == PST_OK && l->count == before)
        return pst_fail_at(reterr, PST_ENOTFOUND, folder, PST_NOWHERE, PST_NOWHERE,
                           "no shards in this folder; expected names such as x.tfrecord, x.tfrecord-00000-of-00016 or "
                           "events.out.tfevents.…; name files to read others");
    return st;
}

/* If a pattern matches several folders, some of them may have no shards. */
static pst_status find_path(struct path_list *l, const char *path, pst_error *reterr)
{
    struct path_list matches = {0};
    size_t before = l->count;
    pst_status st = walk_glob(&matches, path, reterr);
    for (size_t i = 0; i < matches.count && st == PST_OK; i++) {
        struct file_info info;
        st = file_stat(matches.paths[i], &info, reterr);
        if (st == PST_OK)
            st = info.is_folder ? find_in_folder(l, matches.paths[i], reterr) : path_list_add(l, matches.paths[i], reterr);
        if (st == PST_ENOTFOUND && (l->count > before || i + 1 < matches.count))
            st = PST_OK;
    }
    path_list_finish(&matches);
    return st;
}

pst_status find_shards(struct path_list *ret, const char *const *paths, size_t count, pst_error *reterr)
{
    struct path_list list = {0};
    pst_status st = count ? PST_OK : pst_fail(reterr, PST_EINVAL, "no path given; name a folder, files or a pattern");
    for (size_t i = 0; i < count && st == PST_OK; i++)
        st = find_path(&list, paths[i], reterr);
    if (st < 0) {
        path_list_finish(&list);
        return st;
    }
    path_list_sort(&list);
    drop_repeated(&list);
    bool others = false;
    for (size_t i = 0; i < list.count; i++)
        others |= !is_companion(file_base(list.paths[i]));
    if (others)
        drop(&list, 0, is_companion);
    *ret = list;
    return PST_OK;
}

/* The public face of record/find.h. */

/* The list as an array with its texts after it, in one block; NULL: out of memory. */
static char **one_block(const struct path_list *list)
{
    size_t bytes = (list->count + 1) * sizeof(char *);
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->paths[i]) + 1;
    char **block = mem_alloc(bytes), *to = (char *)(block + list->count + 1);
    for (size_t i = 0; block && i < list->count; i++) {
        block[i] = to;
        to = stpcpy(to, list->paths[i]) + 1;
    }
    if (block)
        block[list->count] = NULL;
    return block;
}

/* Takes the list. */
static pst_status give(struct path_list *list, char ***ret, size_t *ret_count, pst_error *reterr)
{
    char **block = one_block(list);
    if (block) {
        *ret = block;
        *ret_count = list->count;
    }
    path_list_finish(list);
    return block ? PST_OK : fail_memory(reterr, "finding files");
}

pst_status pst_shards_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr)
{
    struct path_list list = {0};
    pst_status st = find_shards(&list, paths, count, reterr);
    return st < 0 ? st : give(&list, ret, ret_count, reterr);
}

/* The files that one path stands for. */
static pst_status find_files(struct path_list *l, const char *path, pst_error *reterr)
{
    struct path_list matches = {0};
    size_t before = l->count;
    pst_status st = walk_glob(&matches, path, reterr);
    for (size_t i = 0; i < matches.count && st == PST_OK; i++) {
        struct file_info info;
        st = file_stat(matches.paths[i], &info, reterr);
        if (st == PST_OK)
            st = info.is_folder ? walk_files(l, matches.paths[i], true, reterr) : path_list_add(l, matches.paths[i], reterr);
    }
    path_list_finish(&matches);
    if (st == PST_OK && l->count == before)
        st = pst_fail_at(reterr, PST_ENOTFOUND, path, PST_NOWHERE, PST_NOWHERE, "the folder has no files; hidden ones are left out");
    return st;
}

pst_status pst_files_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr)
{
    struct path_list list = {0};
    pst_status st = count ? PST_OK : pst_fail(reterr, PST_EINVAL, "no path given; name a folder, files or a pattern");
    for (size_t i = 0; i < count && st == PST_OK; i++)
        st = find_files(&list, paths[i], reterr);
    if (st == PST_OK)
        return give(&list, ret, ret_count, reterr);
    path_list_finish(&list);
    return st;
}
