/* publish_folder.c: see publish_folder.h. */
#include "io/publish_folder.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/remote/remote.h"
#include "io/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pst_status remove_entry(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    (void)user;
    (void)reterr;
    unlinkat(folder_fd, entry->d_name, 0);
    return PST_OK;
}

#define MOST_LINK ((size_t)255) /* bytes of a name */

/* Descriptions (state.json) first: they say that the others are there. */
static void remove_objects(const char *path)
{
    struct path_list l = {0};
    (void)walk_files(&l, path, false, NULL);
    for (int rest = 0; rest < 2; rest++)
        for (size_t i = 0; i < l.count; i++) {
            const char *dot = strrchr(l.paths[i], '.');
            if ((dot && strcmp(dot, ".json") == 0) != rest)
                (void)remote_remove(l.paths[i], NULL);
        }
    path_list_finish(&l);
}

void publish_folder_remove(const char *path)
{
    if (remote_is(path)) {
        remove_objects(path);
        return;
    }
    walk_names(path, remove_entry, NULL, NULL);
    rmdir(path);
}

/* ".NAME.SUFFIX" beside `path`. NULL: out of memory. */
static char *beside(const char *path, const char *suffix)
{
    const char *name = file_base(path);
    return mem_format("%.*s.%s.%s", (int)(name - path), path, name, suffix);
}

static pst_status sync_at(const char *folder, pst_error *reterr)
{
    int fd = -1;
    pst_status st = file_open_folder(&fd, folder, reterr);
    /* EINVAL: a file system on which folders have nothing to sync. */
    if (st == PST_OK && (file_denied("fsync") || fsync(fd) < 0) && errno != EINVAL)
        st = file_fail(reterr, folder, "syncing the folder", errno);
    file_close(fd);
    return st;
}

static pst_status sync_parent(const char *path, pst_error *reterr)
{
    size_t n = (size_t)(file_base(path) - path);
    char *folder = n ? mem_strndup(path, n) : mem_strdup(".");
    pst_status st = folder ? sync_at(folder, reterr) : fail_memory_at(reterr, path, "syncing the folder");
    mem_free(folder);
    return st;
}

pst_status publish_folder_open(char **ret, const char *path, pst_error *reterr)
{
    bool remote = remote_is(path);
    char *hidden = remote ? mem_strdup(path) : beside(path, "writing");
    if (!hidden)
        return fail_memory_at(reterr, path, "making the folder");
    publish_folder_remove(hidden);
    if (remote) {
        *ret = hidden;
        return PST_OK;
    }
    if (file_denied("mkdir") || mkdir(hidden, 0777) < 0) {
        pst_status st = file_fail(reterr, hidden, "making the folder", errno);
        mem_free(hidden);
        return st;
    }
    *ret = hidden;
    return PST_OK;
}

/* Puts `hidden` in the place of the folder `path` in one step, where the file system can; what was there is removed. */
static int exchange(const char *hidden, const char *path, const char *old)
{
    if (!file_denied("renameat2")) {
        if (renameat2(AT_FDCWD, hidden, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
            publish_folder_remove(hidden);
            return 0;
        }
        if (errno != EINVAL && errno != ENOSYS)
            return -1;
    }
    publish_folder_remove(old);
    if (rename(path, old) < 0)
        return -1;
    if (rename(hidden, path) == 0) {
        publish_folder_remove(old);
        return 0;
    }
    int code = errno;
    rename(old, path);
    errno = code;
    return -1;
}

pst_status publish_folder_commit(const char *hidden, const char *path, pst_error *reterr)
{
    struct stat there;
    if (remote_is(path))
        return PST_OK; /* the files are where they belong */
    char *old = beside(path, "replaced");
    if (!old)
        return fail_memory_at(reterr, path, "publishing the folder");
    pst_status st = sync_at(hidden, reterr);
    if (st == PST_OK && (file_denied("rename") || (lstat(path, &there) == 0 ? exchange(hidden, path, old) : rename(hidden, path)) < 0))
        st = file_fail(reterr, path, "moving it into place", errno);
    mem_free(old);
    return st == PST_OK ? sync_parent(path, reterr) : st;
}

char *publish_follow(const char *path)
{
    uint8_t *name = NULL;
    size_t length = 0;
    char *ret = NULL;
    const char *key = remote_is(path) ? strchr(strstr(path, "://") + 3, '/') : NULL; /* after a bucket or a host */
    if (!key || !key[1] || key[strlen(key) - 1] == '/' || remote_read_anew(&name, &length, path, MOST_LINK, NULL) < 0)
        return mem_strdup(path);
    size_t n = strcspn((const char *)name, "\r\n");
    bool plain = n > 0 && name[0] != '.' && n == strcspn((const char *)name, "/\r\n");
    ret = plain ? mem_format("%.*s%.*s", (int)(file_base(path) - path), path, (int)n, (const char *)name) : mem_strdup(path);
    mem_free(name);
    return ret;
}

pst_status publish_link(const char *path, const char *target, pst_error *reterr)
{
    if (remote_is(path))
        return publish_bytes(path, target, strlen(target), true, false, reterr);
    char *temp = beside(path, "link");
    pst_status st = temp ? PST_OK : fail_memory_at(reterr, path, "linking");
    if (st == PST_OK) {
        unlink(temp);
        if (file_denied("symlink") || symlink(target, temp) < 0 || rename(temp, path) < 0)
            st = file_fail(reterr, path, "making the link", errno);
    }
    mem_free(temp);
    return st == PST_OK ? sync_parent(path, reterr) : st;
}
