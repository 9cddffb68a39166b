/* publish.c: a temporary file beside the final one, and the steps that turn it into the final one.
 *
 * Promises: the final name holds a whole file or what it held before; no failure leaves a temporary file behind; without
 * `overwrite` nothing is ever replaced, not even a file that appeared meanwhile. Leaves to others: writing to the
 * descriptor (file.h), and making the folder. */
#include "io/publish.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/remote/remote.h"
#include "io/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_MARK   ".tmp-"
#define TEMP_EXTRAS 40 /* room in NAME_MAX for the dot, the mark, a process and a number */

static pst_status exists_already(const char *path, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE,
                       "already exists; choose another name, or ask to replace it");
}

/* The rename would replace a pipe, a device or a link itself, not write to what it stands for. */
static pst_status not_regular(const char *path, mode_t mode, pst_error *reterr)
{
    const char *kind = S_ISLNK(mode) ? "a symbolic link" : S_ISFIFO(mode) ? "a pipe" : "a device";
    if (S_ISDIR(mode))
        return file_fail(reterr, path, "replacing the file", EISDIR);
    return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE,
                       "is %s, not a regular file, and is not replaced; choose another name%s", kind,
                       S_ISLNK(mode) ? ", or the file that it points to" : "");
}

/* ".NAME.tmp-PID-N" beside `path`; a NAME near the system's limit is cut. NULL: out of memory. */
static char *temp_name(const char *path, unsigned n)
{
    struct text t = {0};
    const char *name = file_base(path);
    text_add_n(&t, path, (size_t)(name - path));
    text_add(&t, ".");
    text_add_n(&t, name, strnlen(name, NAME_MAX - TEMP_EXTRAS));
    text_addf(&t, TEMP_MARK "%ld-%u", (long)getpid(), n);
    if (t.failed)
        text_finish(&t);
    return t.data;
}

/* A process id means nothing to other machines and containers that share the folder; a lock does. Without lock support the
 * id alone has to do. False: their sweep came between the creation and the lock. */
static bool lock_temp(int fd, const char *path)
{
    struct stat st;
    if (!file_denied("flock") && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return false;
    return lstat(path, &st) == 0 || errno != ENOENT;
}

/* Opens a name that no one else uses. Threads of this process differ in the number; O_EXCL arbitrates. */
static pst_status open_temp(struct publish *p, pst_error *reterr)
{
    for (unsigned n = 0; p->fd < 0; n++) {
        p->temp_path = temp_name(p->path, n);
        if (!p->temp_path)
            return fail_memory_at(reterr, p->path, "writing the file");
        p->fd = file_denied("open") ? -1 : open(p->temp_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (p->fd >= 0 && lock_temp(p->fd, p->temp_path))
            break;
        int code = p->fd < 0 ? errno : EEXIST;
        file_close(p->fd);
        p->fd = -1;
        mem_free(p->temp_path); /* not ours: it must not be removed */
        p->temp_path = NULL;
        if (code != EEXIST && code != EINTR)
            return file_fail(reterr, p->path,
                             code == ENOENT ? "creating the file (does its folder exist?)" : "creating the file", code);
    }
    return PST_OK;
}

static pst_status open_remote(struct publish *p, const char *path, bool overwrite, pst_error *reterr)
{
    struct file_info info;
    pst_status st = overwrite ? PST_ENOTFOUND : remote_stat(path, &info, reterr);
    if (st == PST_OK)
        return exists_already(path, reterr);
    if (st != PST_ENOTFOUND)
        return st;
    p->fd = -1;
    p->overwrite = overwrite;
    p->remote = true;
    p->path = mem_strdup(path);
    st = p->path ? remote_temporary(&p->fd, path, reterr) : fail_memory_at(reterr, path, "writing the file");
    if (st < 0)
        publish_discard(p);
    return st;
}

pst_status publish_open(struct publish *p, const char *path, bool overwrite, pst_error *reterr)
{
    struct stat st;
    if (remote_is(path))
        return open_remote(p, path, overwrite, reterr);
    *p = (struct publish){.fd = -1, .overwrite = overwrite};
    if (*file_base(path) == 0)
        return file_fail(reterr, path, "creating the file", EISDIR);
    if (!file_denied("lstat") && lstat(path, &st) == 0) {
        if (!overwrite)
            return exists_already(path, reterr);
        if (!S_ISREG(st.st_mode))
            return not_regular(path, st.st_mode, reterr);
    } else if (errno != ENOENT) {
        return file_fail(reterr, path, "looking for the file", errno);
    }
    p->path = mem_strdup(path);
    pst_status status = p->path ? open_temp(p, reterr) : fail_memory_at(reterr, path, "writing the file");
    if (status != PST_OK)
        publish_discard(p);
    return status;
}

/* rename(2) that never replaces. A hit on "renameat2" plays a file system that lacks it. */
static int rename_new(const char *from, const char *to)
{
    if (!file_denied("renameat2")) {
        if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EINVAL && errno != ENOSYS)
            return -1;
    }
    if (file_denied("link") || link(from, to) < 0)
        return -1;
    unlink(from);
    return 0;
}

static int move_into_place(const struct publish *p)
{
    if (!p->overwrite)
        return rename_new(p->temp_path, p->path);
    return file_denied("rename") ? -1 : rename(p->temp_path, p->path);
}

static pst_status sync_folder(const char *path, pst_error *reterr)
{
    int fd = -1;
    size_t n = (size_t)(file_base(path) - path);
    char *folder = n ? mem_strndup(path, n) : mem_strdup(".");
    if (!folder)
        return fail_memory_at(reterr, path, "syncing the folder");
    pst_status st = file_open_folder(&fd, folder, reterr);
    /* EINVAL: a file system on which folders have nothing to sync. */
    if (st == PST_OK && (file_denied("fsync") || fsync(fd) < 0) && errno != EINVAL)
        st = file_fail(reterr, folder, "syncing the folder", errno);
    file_close(fd);
    mem_free(folder);
    return st;
}

pst_status publish_commit(struct publish *p, bool sync, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (p->remote) {
        st = remote_publish(p->fd, p->path, p->overwrite, p->version, reterr);
        close(p->fd);
        p->fd = -1;
        if (st < 0)
            publish_discard(p);
        return st;
    }
    if (sync && (file_denied("fsync") || fsync(p->fd) < 0)) {
        st = file_fail(reterr, p->path, "syncing the file", errno);
        goto fail;
    }
    int locked = fcntl(p->fd, F_DUPFD_CLOEXEC, 0); /* keeps the lock: a sweep must find it up to the rename */
    /* Network file systems report a failed write as late as here. The descriptor is gone either way. */
    int denied = file_denied("close"), closed = close(p->fd), code = denied ? EIO : errno;
    p->fd = -1;
    if (denied || closed < 0)
        st = file_fail(reterr, p->path, "closing the file", code);
    else if (move_into_place(p) < 0)
        st = errno == EEXIST ? exists_already(p->path, reterr) : file_fail(reterr, p->path, "moving it into place", errno);
    file_close(locked);
    if (st != PST_OK)
        goto fail;
    mem_free(p->temp_path);
    p->temp_path = NULL;
    return sync ? sync_folder(p->path, reterr) : PST_OK;
fail:
    publish_discard(p);
    return st;
}

pst_status publish_so_far(struct publish *p, pst_error *reterr)
{
    return remote_publish(p->fd, p->path, true, NULL, reterr);
}

void publish_discard(struct publish *p)
{
    if (p->remote && p->fd >= 0)
        close(p->fd);
    if (p->temp_path) {
        if (p->fd >= 0)
            close(p->fd);
        unlink(p->temp_path); /* does not ask the fault hook: cleanup after a fault must not fail itself */
    }
    mem_free(p->temp_path);
    mem_free(p->path);
    *p = (struct publish){.fd = -1};
}

pst_status publish_bytes(const char *path, const void *data, size_t length, bool overwrite, bool sync, pst_error *reterr)
{
    struct publish p = {0};
    pst_status st = publish_open(&p, path, overwrite, reterr);
    if (st == PST_OK)
        st = file_write_at(p.fd, path, data, length, 0, reterr);
    if (st == PST_OK)
        st = publish_commit(&p, sync, reterr);
    publish_discard(&p);
    return st;
}

/* The process in ".NAME.tmp-PID-N", or 0 when `name` is not such a name. */
static pid_t temp_owner(const char *name)
{
    const char *mark = NULL;
    for (const char *at = name; (at = strstr(at, TEMP_MARK)); at++)
        mark = at;
    if (name[0] != '.' || !mark)
        return 0;
    intmax_t pid = 0;
    const char *at = mark + strlen(TEMP_MARK);
    for (; *at >= '0' && *at <= '9' && pid <= INT_MAX; at++)
        pid = pid * 10 + (*at - '0');
    size_t digits = *at == '-' ? strspn(at + 1, "0123456789") : 0;
    return digits && at[1 + digits] == 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static pst_status sweep_one(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    const char *folder = user;
    pid_t owner = temp_owner(entry->d_name);
    if (owner <= 0 || kill(owner, 0) == 0 || errno != ESRCH)
        return PST_OK;
    int fd = openat(folder_fd, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool in_use = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; /* its owner lives elsewhere */
    pst_status st = PST_OK;
    if (!in_use && (file_denied("unlink") || unlinkat(folder_fd, entry->d_name, 0) < 0) && errno != ENOENT)
        st = file_fail(reterr, folder, "removing an abandoned temporary file", errno);
    file_close(fd);
    return st;
}

pst_status publish_sweep(const char *folder, pst_error *reterr)
{
    if (remote_is(folder))
        return PST_OK; /* temporary files are local and have no names */
    return walk_names(folder, sweep_one, (void *)(uintptr_t)folder, reterr);
}
