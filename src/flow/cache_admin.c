/* cache_admin.c: what is in a folder of caches on disk, and removing it. Pipelines that use a cache meanwhile go on: they have
 * its files open. */
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include <penstock/pipeline.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_LENGTH (sizeof(((pst_cache_info *)NULL)->key) - 1)

static bool is_key(const char *name)
{
    return strlen(name) == KEY_LENGTH && strspn(name, "0123456789abcdef") == KEY_LENGTH;
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static pst_status fail_folder(const char *path, pst_error *reterr)
{
    int reason = errno;
    pst_status st = pst_fail_at(reterr, reason == ENOENT ? PST_ENOTFOUND : PST_EIO, path, PST_NOWHERE, PST_NOWHERE,
                                "cannot read the folder: %s", strerror(reason));
    if (reterr)
        reterr->sys_errno = reason;
    return st;
}

/* Calls `each` for every file of a cache. */
static pst_status visit(const char *folder,
                        pst_status (*each)(const char *path, const char *name, void *user, pst_error *reterr), void *user,
                        pst_error *reterr)
{
    DIR *d = opendir(folder);
    pst_status st = d ? PST_OK : fail_folder(folder, reterr);
    for (struct dirent *e; d && st == PST_OK && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *path = file_join(folder, e->d_name);
        st = path ? each(path, e->d_name, user, reterr) : fail_memory(reterr, "looking at caches");
        mem_free(path);
    }
    if (d)
        closedir(d);
    return st;
}

static pst_status note_file(const char *path, const char *name, void *user, pst_error *reterr)
{
    pst_cache_info *info = user;
    struct stat s;
    uint8_t *text = NULL;
    size_t length;
    (void)reterr;
    if (stat(path, &s) != 0)
        return PST_OK; /* gone meanwhile */
    info->bytes += (uint64_t)s.st_size;
    info->parts += ends_with(name, ".part");
    info->changed = (int64_t)s.st_mtime > info->changed ? (int64_t)s.st_mtime : info->changed;
    if (strcmp(name, "about.txt") == 0 && file_read_all(&text, &length, path, 1 << 20, NULL) == PST_OK)
        snprintf(info->about, sizeof(info->about), "%s", (char *)text);
    mem_free(text);
    return PST_OK;
}

pst_status pst_cache_list(const char *dir, pst_cache_info **ret, size_t *ret_count, pst_error *reterr)
{
    pst_cache_info *list = NULL;
    size_t count = 0, capacity = 0;
    DIR *d = opendir(dir);
    pst_status st = d ? PST_OK : fail_folder(dir, reterr);
    for (struct dirent *e; d && st == PST_OK && (e = readdir(d)) != NULL;) {
        if (!is_key(e->d_name))
            continue;
        if (mem_grow((void **)&list, &capacity, count + 1, sizeof(*list)) < 0) {
            st = fail_memory(reterr, "looking at caches");
            break;
        }
        list[count] = (pst_cache_info){0};
        memcpy(list[count].key, e->d_name, KEY_LENGTH + 1);
        char *folder = file_join(dir, e->d_name);
        st = folder ? visit(folder, note_file, &list[count], reterr) : fail_memory(reterr, "looking at caches");
        mem_free(folder);
        count++;
    }
    if (d)
        closedir(d);
    if (st < 0) {
        mem_free(list);
        return st;
    }
    *ret = list;
    *ret_count = count;
    return PST_OK;
}

static bool belongs_to_cache(const char *name)
{
    return ends_with(name, ".part") || strcmp(name, "about.txt") == 0 || strcmp(name, "length") == 0 || strstr(name, ".tmp-");
}

static pst_status remove_file(const char *path, const char *name, void *user, pst_error *reterr)
{
    (void)user;
    if (!belongs_to_cache(name))
        return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE, "not a file of a cache; it was left alone");
    if (unlink(path) == 0 || errno == ENOENT)
        return PST_OK;
    return pst_fail_at(reterr, PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "cannot remove it: %s", strerror(errno));
}

pst_status pst_cache_remove(const char *dir, const char *key, pst_error *reterr)
{
    if (!is_key(key))
        return pst_fail(reterr, PST_EINVAL, "\"%.40s\" is not the key of a cache, which has %zu digits and letters from a to f",
                        key, KEY_LENGTH);
    char *folder = file_join(dir, key);
    pst_status st = folder ? visit(folder, remove_file, NULL, reterr) : fail_memory(reterr, "removing a cache");
    if (st == PST_OK && rmdir(folder) != 0 && errno != ENOENT)
        st = pst_fail_at(reterr, PST_EIO, folder, PST_NOWHERE, PST_NOWHERE, "cannot remove the folder: %s", strerror(errno));
    mem_free(folder);
    return st;
}
