/* remote.c: see remote.h. Keeps two tables: the facts of every object that was seen, and the descriptors of open ones. */
#include "io/remote/remote.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/remote/address.h"
#include "io/remote/fork.h"
#include "io/remote/level.h"
#include "io/remote/listing.h"
#include "io/remote/object.h"
#include "io/remote/settings.h"
#include "io/remote/upload.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic size_t remote_descriptors;

struct pin { /* the facts of an object, for the rest of the process */
    char *path;
    struct store_facts facts;
};

static struct {
    pthread_mutex_t lock;
    struct pin *pins; /* a hash table, at most half full */
    size_t pin_count, pin_room;
    struct object **objects; /* by descriptor */
    size_t room;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

void remote_fork(enum fork_phase phase)
{
    fork_lock(&table.lock, phase);
}

bool remote_is(const char *path)
{
    return address_is_remote(path);
}

/* ---- Facts ---- */

static size_t slot_of(const struct pin *pins, size_t room, const char *path)
{
    size_t at = 5381;
    for (const char *c = path; *c; c++)
        at = at * 33 + (unsigned char)*c;
    at &= room - 1;
    while (pins[at].path && strcmp(pins[at].path, path))
        at = (at + 1) & (room - 1);
    return at;
}

static bool grow_pins(void)
{
    size_t room = table.pin_room ? 2 * table.pin_room : 64;
    struct pin *pins = mem_array(room, sizeof(*pins));
    if (!pins)
        return false;
    for (size_t i = 0; i < table.pin_room; i++)
        if (table.pins[i].path)
            pins[slot_of(pins, room, table.pins[i].path)] = table.pins[i];
    mem_free(table.pins);
    table.pins = pins;
    table.pin_room = room;
    return true;
}

/* Keeps the facts. Without memory they are asked for again. */
static void pin(const char *path, const struct store_facts *facts, bool renew)
{
    pthread_mutex_lock(&table.lock);
    if (2 * (table.pin_count + 1) > table.pin_room && !grow_pins()) {
        pthread_mutex_unlock(&table.lock);
        return;
    }
    struct pin *p = &table.pins[slot_of(table.pins, table.pin_room, path)];
    if (!p->path && (p->path = mem_strdup(path))) {
        table.pin_count++;
        p->facts = *facts;
    } else if (p->path && (renew || !p->facts.known)) {
        p->facts = *facts;
    }
    pthread_mutex_unlock(&table.lock);
}

static struct store_facts pinned(const char *path)
{
    struct store_facts ret = {0};
    fork_watch();
    pthread_mutex_lock(&table.lock);
    if (table.pin_room)
        ret = table.pins[slot_of(table.pins, table.pin_room, path)].facts;
    pthread_mutex_unlock(&table.lock);
    return ret;
}

static void describe(struct file_info *ret, const struct store_facts *facts)
{
    *ret = (struct file_info){.size = facts->size, .mtime_ns = facts->modified * 1000000000, .is_regular = true};
}

static bool take_nothing(void *user, const void *data, size_t length)
{
    (void)user;
    (void)data;
    (void)length;
    return true;
}

/* Asks for the facts. A signed address is often signed for GET alone, and some servers do not know HEAD: then a byte is read. */
static pst_status ask_facts(const char *path, bool s3, struct store_facts *facts, int *ret_status, pst_error *reterr)
{
    struct http_call c = {0};
    pst_status st = store_ask(&c, &(struct store_ask){.method = "HEAD", .path = path}, reterr);
    if (st == PST_OK) {
        *facts = (struct store_facts){.known = c.length != UINT64_MAX, .size = c.length, .modified = c.modified};
        snprintf(facts->etag, sizeof(facts->etag), "%s", c.etag);
    }
    *ret_status = c.status;
    http_call_finish(&c);
    if (!s3 && ((st < 0 && *ret_status / 100 == 4 && *ret_status != 404) || (st == PST_OK && !facts->known))) {
        *facts = (struct store_facts){0};
        st = store_get(&(struct store_get){.path = path, .length = 1, .sink = take_nothing}, facts, reterr);
    }
    return st;
}

/* A folder of a bucket: something lies below it. `no_object`: see level_look. */
static pst_status stat_folder(const char *path, const char *prefix, bool no_object, struct file_info *ret, pst_error *reterr)
{
    bool any = false;
    pst_status st = level_look(prefix, no_object, &any, reterr);
    if (st == PST_OK && !any) {
        st = pst_fail_at(reterr, PST_ENOTFOUND, path, PST_NOWHERE, PST_NOWHERE, "no such object, and none below it");
        if (reterr)
            reterr->sys_errno = ENOENT;
    }
    if (st == PST_OK)
        *ret = (struct file_info){.is_folder = true};
    return st;
}

pst_status remote_stat(const char *path, struct file_info *ret, pst_error *reterr)
{
    struct store_facts facts = pinned(path);
    struct address a;
    pst_error error;
    int status = 0;
    if (facts.known) {
        describe(ret, &facts);
        return PST_OK;
    }
    pst_status st = address_parse(&a, path, reterr);
    if (st < 0)
        return st;
    bool object = *a.key && a.key[strlen(a.key) - 1] != '/', s3 = a.s3;
    address_finish(&a);
    char *prefix = mem_format("%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/");
    if (!prefix)
        return fail_memory_at(reterr, path, "looking for the object");
    if (object && !level_is_folder(prefix)) {
        st = ask_facts(path, s3, &facts, &status, &error);
        if (st == PST_OK) {
            if (facts.known)
                pin(path, &facts, false);
            describe(ret, &facts);
        }
        bool secret = st < 0 && status == 403; /* an answer to HEAD says no more; one to a list does */
        if ((st != PST_ENOTFOUND && !secret) || !s3) {
            if (st < 0 && reterr)
                *reterr = error;
            mem_free(prefix);
            return st;
        }
    }
    st = stat_folder(path, prefix, object, ret, reterr);
    mem_free(prefix);
    return st;
}

pst_status remote_read_anew(uint8_t **ret, size_t *ret_length, const char *path, size_t max, pst_error *reterr)
{
    struct store_facts facts = {0};
    struct store_kept s = {.bytes = mem_alloc(max + 2)};
    pst_status st = s.bytes ? store_get(&(struct store_get){.path = path, .length = max + 1, .sink = store_keep, .user = &s}, &facts, reterr)
                            : fail_memory_at(reterr, path, "reading the object");
    if (st == PST_OK && s.length > max)
        st = pst_fail_at(reterr, PST_ELIMIT, path, PST_NOWHERE, PST_NOWHERE, "more than %zu bytes", max);
    if (st < 0) {
        mem_free(s.bytes);
        return st;
    }
    s.bytes[s.length] = 0;
    *ret = s.bytes;
    *ret_length = s.length;
    return PST_OK;
}

/* ---- Descriptors ---- */

/* A descriptor of the object's copy, which is in the table from then on. Under one lock: the copy may be replaced. */
static pst_status make_descriptor(int *ret_fd, struct object *o, const char *path, pst_error *reterr)
{
    pst_status st = PST_OK;
    pthread_mutex_lock(&table.lock);
    int fd = file_denied("dup") ? -1 : fcntl(object_descriptor(o), F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        st = file_fail(reterr, path, "opening", errno);
    if (st == PST_OK && (size_t)fd >= table.room) {
        size_t before = table.room;
        if (mem_grow((void **)&table.objects, &table.room, (size_t)fd + 1, sizeof(*table.objects)) == 0)
            memset(table.objects + before, 0, (table.room - before) * sizeof(*table.objects));
        else
            st = fail_memory_at(reterr, path, "opening");
    }
    if (st == PST_OK) {
        table.objects[fd] = o;
        atomic_fetch_add(&remote_descriptors, 1);
        *ret_fd = fd;
    } else if (fd >= 0) {
        close(fd);
    }
    pthread_mutex_unlock(&table.lock);
    return st;
}

void remote_redirect(struct object *o, _Atomic int *place, int to)
{
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.room; i++)
        while (table.objects[i] == o && dup3(to, (int)i, O_CLOEXEC) < 0 && (errno == EINTR || errno == EBUSY))
            ; /* nothing else can fail: both are open */
    atomic_store(place, to);
    pthread_mutex_unlock(&table.lock);
}

struct object *remote_find(int fd)
{
    pthread_mutex_lock(&table.lock);
    struct object *o = fd >= 0 && (size_t)fd < table.room ? table.objects[fd] : NULL;
    pthread_mutex_unlock(&table.lock);
    return o;
}

void remote_close(int fd)
{
    struct object *o = remote_find(fd);
    if (!o)
        return;
    pthread_mutex_lock(&table.lock);
    table.objects[fd] = NULL;
    atomic_fetch_sub(&remote_descriptors, 1);
    pthread_mutex_unlock(&table.lock);
    object_close(o);
}

pst_status remote_open(int *ret_fd, const char *path, pst_error *reterr)
{
    struct store_facts facts = pinned(path);
    struct object *o = NULL;
    pst_error local;
    reterr = reterr ? reterr : &local;
    struct room room;
    settings_cache(&room);
    pst_status st = object_open(&o, path, &facts, &room, reterr);
    mem_free(room.folder);
    if (st < 0) {
        if (st == PST_ENOTFOUND)
            reterr->sys_errno = ENOENT;
        return st;
    }
    pin(path, &facts, false);
    st = make_descriptor(ret_fd, o, path, reterr);
    if (st < 0)
        object_close(o);
    return st;
}

/* ---- Folders ---- */

struct walk {
    struct path_list *files, *folders;
    const char *folder;
    walk_visit visit; /* instead of the lists */
    void *user;
};

static pst_status see(void *user, struct listed *l, pst_error *reterr)
{
    struct walk *w = user;
    const char *name = file_base(l->path);
    if (!*name) /* an object whose key ends in a slash stands for the folder itself */
        return PST_OK;
    if (!l->folder && l->facts.known)
        pin(l->path, &l->facts, false);
    if (w->visit) {
        struct dirent e = {.d_type = l->folder ? DT_DIR : DT_REG};
        if (strlen(name) >= sizeof(e.d_name))
            return PST_OK;
        strcpy(e.d_name, name);
        return w->visit(w->user, -1, &e, reterr);
    }
    struct path_list *to = l->folder ? w->folders : w->files;
    return *name == '.' || !to ? PST_OK : path_list_add(to, l->path, reterr);
}

static pst_status walk(struct walk *w, bool deep, pst_error *reterr)
{
    size_t n = strlen(w->folder);
    char *prefix = mem_format("%s%s", w->folder, n && w->folder[n - 1] == '/' ? "" : "/");
    pst_status st = !prefix ? fail_memory_at(reterr, w->folder, "listing the objects")
                    : deep  ? listing_visit_all(prefix, true, see, w, reterr)
                            : level_visit(prefix, see, w, reterr);
    mem_free(prefix);
    return st;
}

pst_status remote_files(struct path_list *ret, const char *folder, bool recursive, pst_error *reterr)
{
    return walk(&(struct walk){.files = ret, .folder = folder}, recursive, reterr);
}

pst_status remote_folders(struct path_list *ret, const char *folder, pst_error *reterr)
{
    return walk(&(struct walk){.folders = ret, .folder = folder}, false, reterr);
}

pst_status remote_names(const char *folder, walk_visit visit, void *user, pst_error *reterr)
{
    return walk(&(struct walk){.folder = folder, .visit = visit, .user = user}, false, reterr);
}

/* ---- Publishing ---- */

pst_status remote_temporary(int *ret_fd, const char *path, pst_error *reterr)
{
    struct room room;
    settings_cache(&room);
    int fd = -1;
    if (room.folder && file_make_folder(room.folder, NULL) == PST_OK && !file_denied("open"))
        fd = open(room.folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    mem_free(room.folder);
    if (fd < 0) {
        char name[] = "/tmp/.penstock-XXXXXX";
        fd = file_denied("open") ? -1 : mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
    }
    if (fd < 0)
        return file_fail(reterr, path, "making a temporary file in /tmp", errno);
    *ret_fd = fd;
    return PST_OK;
}

_Static_assert(FILE_VERSION == HTTP_ETAG, "a version is made of an ETag");

pst_status remote_publish(int fd, const char *path, bool overwrite, char *ret_version, pst_error *reterr)
{
    char etag[HTTP_ETAG] = "";
    pst_status st = upload_file(fd, path, overwrite, etag, reterr);
    if (ret_version)
        (void)store_version(path, st == PST_OK ? etag : "", ret_version);
    if (st == PST_OK)
        pin(path, &(struct store_facts){0}, true); /* it is another object now */
    level_forget();
    return st;
}

pst_status remote_remove(const char *path, pst_error *reterr)
{
    struct http_call c = {0};
    pst_status st = store_ask(&c, &(struct store_ask){.method = "DELETE", .path = path}, reterr);
    http_call_finish(&c);
    pin(path, &(struct store_facts){0}, true);
    level_forget();
    return st == PST_ENOTFOUND ? PST_OK : st;
}
