/* copies.c: lists the copies in a cache folder for programs, and removes those that no process uses. */
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/remote/settings.h"

#include <string.h>

/* Returns the given folder, or that of the settings; mem_free it. */
static pst_status find_folder(char **ret, const char *given, pst_error *reterr)
{
    struct room room = {0};
    fork_watch();
    if (given)
        room.folder = mem_strdup(given);
    else
        settings_cache(&room);
    if (!room.folder)
        return given ? fail_memory(reterr, "listing the cache")
                     : pst_fail(reterr, PST_EINVAL, "nothing is kept of remote data: no cache folder is set; name it");
    *ret = room.folder;
    return PST_OK;
}

pst_status pst_store_cache_list(const char *folder, pst_store_copy **ret, size_t *ret_count, pst_error *reterr)
{
    char *path = NULL;
    struct file_info info;
    *ret = NULL;
    *ret_count = 0;
    pst_status st = find_folder(&path, folder, reterr);
    if (st == PST_OK && (folder || file_stat(path, &info, NULL) == PST_OK)) /* the folder of the settings is made when it is needed */
        st = room_copies(path, ret, ret_count, reterr);
    mem_free(path);
    return st;
}

pst_status pst_store_cache_remove(const char *folder, const char *key, bool *ret_removed, pst_error *reterr)
{
    char *path = NULL;
    if (strlen(key) != 16 || strspn(key, "0123456789abcdef") != 16)
        return pst_fail(reterr, PST_EINVAL, "\"%.40s\" is not the key of a copy: expected 16 hexadecimal digits", key);
    pst_status st = find_folder(&path, folder, reterr);
    if (st == PST_OK)
        *ret_removed = room_remove(path, key) > 0;
    mem_free(path);
    return st;
}
