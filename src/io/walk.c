/* walk.c: lists of paths: what lies in folders, and what a pattern names.
 *
 * Promises: the same tree gives the same list, whatever the file system's order; a name is any bytes but NUL and slash;
 * one folder is open at a time, however deep the tree. Leaves to others: which of the files are wanted. */
#include "io/walk.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Takes `path`, also on failure; NULL is an allocation that failed. */
static pst_status add_owned(struct path_list *l, char *path, const char *folder, pst_error *reterr)
{
    if (!path || mem_grow((void **)&l->paths, &l->capacity, l->count + 1, sizeof(l->paths[0])) < 0) {
        mem_free(path);
        return fail_memory_at(reterr, folder, "listing the files");
    }
    l->paths[l->count++] = path;
    return PST_OK;
}

pst_status path_list_add(struct path_list *l, const char *path, pst_error *reterr)
{
    return add_owned(l, mem_strdup(path), path, reterr);
}

const char *path_list_keep(struct path_list *l, const char *path)
{
    for (size_t i = l->count; i-- > 0;)
        if (strcmp(l->paths[i], path) == 0)
            return l->paths[i];
    return path_list_add(l, path, NULL) < 0 ? NULL : l->paths[l->count - 1];
}

static void sort_from(struct path_list *l, size_t first)
{
    if (l->count > first + 1)
        qsort(l->paths + first, l->count - first, sizeof(l->paths[0]), text_compare);
}

void path_list_sort(struct path_list *l)
{
    sort_from(l, 0);
}

static void cut_to(struct path_list *l, size_t count)
{
    while (l->count > count)
        mem_free(l->paths[--l->count]);
}

void path_list_finish(struct path_list *l)
{
    cut_to(l, 0);
    mem_free(l->paths);
    *l = (struct path_list){0};
}

/* ---- One folder ---- */

/* Takes `fd`. */
static pst_status visit_names(int fd, const char *folder, walk_visit visit, void *user, pst_error *reterr)
{
    DIR *dir = file_denied("fdopendir") ? NULL : fdopendir(fd);
    if (!dir) {
        pst_status st = file_fail(reterr, folder, "listing the folder", errno);
        file_close(fd);
        return st;
    }
    pst_status st = PST_OK;
    while (st == PST_OK) {
        errno = 0;
        struct dirent *e = file_denied("readdir") ? NULL : readdir(dir);
        if (!e) {
            if (errno)
                st = file_fail(reterr, folder, "listing the folder", errno);
            break;
        }
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            st = visit(user, fd, e, reterr);
    }
    closedir(dir);
    return st;
}

pst_status walk_names(const char *folder, walk_visit visit, void *user, pst_error *reterr)
{
    int fd;
    if (remote_is(folder))
        return remote_names(folder, visit, user, reterr);
    pst_status st = file_open_folder(&fd, folder, reterr);
    return st == PST_OK ? visit_names(fd, folder, visit, user, reterr) : st;
}

/* DT_REG, DT_DIR, DT_LNK for a link that leads nowhere, or DT_UNKNOWN for anything else. Links are followed. */
static pst_status entry_type(int folder_fd, const struct dirent *e, const char *folder, unsigned char *ret, pst_error *reterr)
{
    struct stat st;
    *ret = e->d_type;
    if (e->d_type == DT_REG || e->d_type == DT_DIR)
        return PST_OK;
    *ret = DT_UNKNOWN;
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN)
        return PST_OK;
    if (file_denied("fstatat") || fstatat(folder_fd, e->d_name, &st, 0) < 0) {
        if (errno != ENOENT && errno != ELOOP && errno != EACCES && errno != ENOTDIR)
            return file_fail(reterr, folder, "looking at what is in the folder", errno);
        *ret = DT_LNK;
    } else if (S_ISREG(st.st_mode)) {
        *ret = DT_REG;
    } else if (S_ISDIR(st.st_mode)) {
        *ret = DT_DIR;
    }
    return PST_OK;
}

/* ---- Trees ---- */

/* A folder that was found. Its chain of parents tells a loop of links from a mere second name. */
struct found {
    char *path;
    size_t parent; /* SIZE_MAX: none */
    dev_t dev;     /* with ino: once opened */
    ino_t ino;
};

struct tree {
    struct found *folders; /* a work list: those after `current` are not read yet */
    size_t count, capacity, current;
    struct path_list *files;
};

static pst_status tree_add(struct tree *t, char *path, size_t parent, const char *folder, pst_error *reterr)
{
    if (!path || mem_grow((void **)&t->folders, &t->capacity, t->count + 1, sizeof(t->folders[0])) < 0) {
        mem_free(path);
        return fail_memory_at(reterr, folder, "listing the files");
    }
    t->folders[t->count++] = (struct found){.path = path, .parent = parent};
    return PST_OK;
}

static pst_status tree_visit(void *user, int folder_fd, const struct dirent *e, pst_error *reterr)
{
    struct tree *t = user;
    const char *folder = t->folders[t->current].path;
    unsigned char type;
    if (e->d_name[0] == '.')
        return PST_OK;
    pst_status st = entry_type(folder_fd, e, folder, &type, reterr);
    if (st != PST_OK)
        return st;
    if (type == DT_DIR)
        return tree_add(t, file_join(folder, e->d_name), t->current, folder, reterr);
    return type == DT_UNKNOWN ? PST_OK : add_owned(t->files, file_join(folder, e->d_name), folder, reterr);
}

static bool is_loop(const struct tree *t, size_t i)
{
    const struct found *self = &t->folders[i];
    for (size_t up = self->parent; up != SIZE_MAX; up = t->folders[up].parent)
        if (t->folders[up].dev == self->dev && t->folders[up].ino == self->ino)
            return true;
    return false;
}

static pst_status tree_read(struct tree *t, pst_error *reterr)
{
    int fd;
    struct stat st;
    struct found *self = &t->folders[t->current];
    pst_status status = file_open_folder(&fd, self->path, reterr);
    if (status != PST_OK)
        return status;
    if (file_denied("fstat") || fstat(fd, &st) < 0) {
        status = file_fail(reterr, self->path, "looking at the folder", errno);
        file_close(fd);
        return status;
    }
    self->dev = st.st_dev;
    self->ino = st.st_ino;
    if (is_loop(t, t->current)) {
        file_close(fd);
        return PST_OK;
    }
    return visit_names(fd, self->path, tree_visit, t, reterr);
}

/* Files go to `files` unsorted; the folders found stay in `t` for the caller. */
static pst_status tree_walk(struct tree *t, const char *folder, bool recursive, pst_error *reterr)
{
    pst_status st = tree_add(t, mem_strdup(folder), SIZE_MAX, folder, reterr);
    for (; st == PST_OK && t->current < (recursive ? t->count : 1); t->current++)
        st = tree_read(t, reterr);
    return st;
}

static void tree_finish(struct tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        mem_free(t->folders[i].path);
    mem_free(t->folders);
}

pst_status walk_files(struct path_list *ret, const char *folder, bool recursive, pst_error *reterr)
{
    struct tree t = {.files = ret};
    size_t before = ret->count;
    pst_status st = remote_is(folder) ? remote_files(ret, folder, recursive, reterr) : tree_walk(&t, folder, recursive, reterr);
    tree_finish(&t);
    if (st == PST_OK)
        sort_from(ret, before);
    else
        cut_to(ret, before);
    return st;
}

pst_status walk_folders(struct path_list *ret, const char *folder, pst_error *reterr)
{
    struct path_list files = {0};
    struct tree t = {.files = &files};
    size_t before = ret->count;
    pst_status st = remote_is(folder) ? remote_folders(ret, folder, reterr) : tree_walk(&t, folder, false, reterr);
    for (size_t i = 1; st == PST_OK && i < t.count; i++) {
        st = add_owned(ret, t.folders[i].path, folder, reterr);
        t.folders[i].path = NULL;
    }
    tree_finish(&t);
    path_list_finish(&files);
    if (st == PST_OK)
        sort_from(ret, before);
    else
        cut_to(ret, before);
    return st;
}

/* ---- Patterns ---- */

struct glob_step {
    struct path_list *ret;
    const char *prefix;  /* ends with a slash, or is empty: what the names are joined to */
    const char *pattern; /* of one component */
    const char *rest;    /* rest of the pattern, from the slash after the component */
};

static pst_status glob_expand(struct path_list *ret, const char *prefix, const char *rest, pst_error *reterr);

static pst_status glob_visit(void *user, int folder_fd, const struct dirent *e, pst_error *reterr)
{
    const struct glob_step *s = user;
    (void)folder_fd;
    if (fnmatch(s->pattern, e->d_name, FNM_PERIOD | FNM_NOESCAPE) != 0)
        return PST_OK;
    char *path = mem_format("%s%s", s->prefix, e->d_name);
    if (!path || !*s->rest)
        return add_owned(s->ret, path, s->prefix, reterr);
    pst_status st = glob_expand(s->ret, path, s->rest, reterr);
    mem_free(path);
    return st;
}

/* `*ret` is true when `path` is there; a file where a folder was asked for is not there either. */
static pst_status path_exists(const char *path, bool *ret, pst_error *reterr)
{
    struct file_info info;
    pst_error e;
    pst_status st = file_stat(path, &info, &e);
    *ret = st == PST_OK;
    if (st == PST_OK || e.sys_errno == ENOENT || e.sys_errno == ENOTDIR)
        return PST_OK;
    if (reterr)
        *reterr = e;
    return st;
}

/* Expands the first component of `rest` that has a wildcard, after `prefix`, and the rest by recursion. */
static pst_status glob_expand(struct path_list *ret, const char *prefix, const char *rest, pst_error *reterr)
{
    size_t literal = strcspn(rest, "*?[");
    bool magic = rest[literal] != 0, there = false;
    while (magic && literal && rest[literal - 1] != '/')
        literal--;
    char *base = mem_strndup(rest, literal), *folder = base ? mem_format("%s%s", prefix, base) : NULL;
    pst_status st;
    mem_free(base);
    if (!folder)
        return fail_memory_at(reterr, prefix, "listing the files");
    st = path_exists(*folder ? folder : ".", &there, reterr);
    if (st != PST_OK || !there) {
        mem_free(folder);
        return st;
    }
    if (!magic)
        return add_owned(ret, folder, prefix, reterr);
    size_t n = strcspn(rest + literal, "/");
    char *pattern = mem_strndup(rest + literal, n);
    struct glob_step step = {ret, folder, pattern, rest + literal + n};
    st = pattern ? walk_names(*folder ? folder : ".", glob_visit, &step, reterr)
                 : fail_memory_at(reterr, prefix, "listing the files");
    mem_free(pattern);
    mem_free(folder);
    return st;
}

/* An address may have a star in it, so it was asked for; a question mark begins its query. */
static bool is_web_pattern(const char *path)
{
    return strncmp(path, "http", 4) == 0 && remote_is(path) && strcspn(path, "*[") < strcspn(path, "?");
}

pst_status walk_glob(struct path_list *ret, const char *pattern, pst_error *reterr)
{
    bool there;
    size_t before = ret->count;
    pst_status st = path_exists(pattern, &there, reterr);
    if (st == PST_ENOTFOUND && is_web_pattern(pattern))
        return pst_fail_at(reterr, st, pattern, PST_NOWHERE, PST_NOWHERE, "no such object; a web server does not list its files, so no pattern finds them: name each of them");
    if (st != PST_OK)
        return st;
    st = there ? path_list_add(ret, pattern, reterr) : glob_expand(ret, "", pattern, reterr);
    if (st == PST_OK && ret->count == before)
        st = pst_fail_at(reterr, PST_ENOTFOUND, pattern, PST_NOWHERE, PST_NOWHERE,
                         strpbrk(pattern, "*?[") ? "nothing matches this pattern"
                                                   : "no such file or folder; check the spelling");
    if (st == PST_OK)
        sort_from(ret, before);
    else
        cut_to(ret, before);
    return st;
}

bool splits_is_name(const char *name)
{
    static const char *const known[] = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(name, known[i]) == 0)
            return true;
    return false;
}

static pst_status has_subfolders(const char *path, bool *ret, pst_error *reterr)
{
    struct path_list below = {0};
    pst_status st = walk_folders(&below, path, reterr);
    *ret = below.count > 0;
    path_list_finish(&below);
    return st;
}

pst_status splits_are(const struct path_list *folders, bool *ret, pst_error *reterr)
{
    bool all = folders->count > 0;
    for (size_t i = 0; all && i < folders->count; i++)
        all = splits_is_name(file_base(folders->paths[i]));
    for (size_t i = 0; all && i < folders->count; i++) {
        pst_status st = has_subfolders(folders->paths[i], &all, reterr);
        if (st < 0)
            return st;
    }
    *ret = all;
    return PST_OK;
}
