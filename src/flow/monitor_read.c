/* monitor_read.c: the other end of monitor.c: finds sockets and reads statistics. */
#include "base/clock.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/monitor.h"

#include <dirent.h>
#include <errno.h>
#include <penstock/monitor.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_ANSWER ((size_t)1 << 20)

pst_status monitor_fail(pst_error *reterr, int error, const char *path, const char *doing)
{
    pst_fail_at(reterr, PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "%s: %s", doing, strerror(error));
    if (reterr)
        reterr->sys_errno = error;
    return PST_EIO;
}

/* ---- Finding ---- */

/* Removes the socket of a process that has ended. */
static bool is_left_over(const char *path, const char *name)
{
    char *end;
    long pid = strtol(name, &end, 10);
    if (end == name || *end != '-' || pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH)
        return false;
    unlink(path);
    return true;
}

static pst_status collect(DIR *d, const char *folder, char ***paths, size_t *count, pst_error *reterr)
{
    size_t capacity = 0;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n < 6 || strcmp(e->d_name + n - 5, ".sock") != 0)
            continue;
        char *path = mem_format("%s/%s", folder, e->d_name);
        if (path && is_left_over(path, e->d_name)) {
            mem_free(path);
            continue;
        }
        if (!path || mem_grow((void **)paths, &capacity, *count + 1, sizeof(**paths)) < 0) {
            mem_free(path);
            return fail_memory(reterr, "listing monitors");
        }
        (*paths)[(*count)++] = path;
    }
    return PST_OK;
}

pst_status pst_monitor_list(char ***ret, size_t *ret_count, const char *folder, pst_error *reterr)
{
    char **paths = NULL;
    size_t count = 0;
    DIR *d = opendir(folder);
    if (!d && errno != ENOENT)
        return monitor_fail(reterr, errno, folder, "listing monitors");
    pst_status st = d ? monitor_check_folder(folder, reterr) : PST_OK; /* another user's folder may hold anything */
    if (st == PST_OK && d)
        st = collect(d, folder, &paths, &count, reterr);
    if (d)
        closedir(d);
    if (st < 0) {
        for (size_t i = 0; i < count; i++)
            mem_free(paths[i]);
        mem_free(paths);
        return st;
    }
    if (count)
        qsort(paths, count, sizeof(*paths), text_compare);
    *ret = paths;
    *ret_count = count;
    return PST_OK;
}

/* ---- Reading ---- */

static uint64_t whole(const struct json_document *d, size_t at, const char *key)
{
    uint64_t value = 0;
    json_get_uint(d, json_find(d, at, key), &value);
    return value;
}

static void read_words(const struct json_document *d, size_t at, const char *key, char *to, size_t size)
{
    char *text = json_get_string(d, json_find(d, at, key));
    snprintf(to, size, "%s", text ? text : "");
    mem_free(text);
}

static void read_stats(const struct json_document *d, pst_stats *s)
{
    size_t list = json_find(d, 0, "stages");
    s->samples = whole(d, 0, "samples");
    s->batches = whole(d, 0, "batches");
    s->bytes = whole(d, 0, "bytes");
    s->read_bytes = whole(d, 0, "read_bytes");
    s->skipped = whole(d, 0, "skipped");
    s->cache_hits = whole(d, 0, "cache_hits");
    s->consumer_wait_ns = whole(d, 0, "consumer_wait_ns");
    s->worker_wait_ns = whole(d, 0, "worker_wait_ns");
    s->worker_busy_ns = whole(d, 0, "worker_busy_ns");
    s->workers = (unsigned)whole(d, 0, "workers");
    s->prefetch = (unsigned)whole(d, 0, "prefetch");
    s->ram_planned = whole(d, 0, "ram_planned");
    s->ram_used = whole(d, 0, "ram_used");
    json_get_number(d, json_find(d, 0, "ready_mean"), &s->ready_mean);
    json_get_bool(d, json_find(d, 0, "stalled"), &s->stalled);
    read_words(d, 0, "stall", s->stall, sizeof(s->stall));
    if (list == JSON_ABSENT || d->items[list].kind != JSON_ARRAY)
        return;
    for (size_t at = list + 1; s->stages < d->items[list].count && s->stages < PST_MAX_STAGES; at = d->items[at].next) {
        pst_stage_stats *stage = &s->stage[s->stages++];
        read_words(d, at, "name", stage->name, sizeof(stage->name));
        stage->calls = whole(d, at, "calls");
        stage->bytes = whole(d, at, "bytes");
        stage->ns = whole(d, at, "ns");
    }
}

static pst_status parse(pst_monitor_view *ret, const struct text *answer, const char *socket, pst_error *reterr)
{
    struct json_document d = {0};
    pst_monitor_view v = {.size = ret->size};
    pst_status st = json_parse(&d, answer->data ? answer->data : "", answer->length, NULL);
    if (st < 0 || whole(&d, 0, "schema") != 1) {
        json_finish(&d);
        return st == PST_ENOMEM
                   ? fail_memory(reterr, "reading a monitor")
                   : pst_fail(reterr, PST_ECORRUPT, "%s: the answer is not one of a pipeline of this version", socket);
    }
    v.pid = whole(&d, 0, "pid");
    v.rank = (unsigned)whole(&d, 0, "rank");
    v.world = (unsigned)whole(&d, 0, "world");
    json_get_number(&d, json_find(&d, 0, "seconds"), &v.seconds);
    read_words(&d, 0, "pipeline", v.pipeline, sizeof(v.pipeline));
    v.stats.size = sizeof(v.stats);
    read_stats(&d, &v.stats);
    memcpy(ret, &v, v.size < sizeof(v) ? v.size : sizeof(v));
    json_finish(&d);
    return PST_OK;
}

static pst_status receive(int fd, double seconds, struct text *to, const char *socket, pst_error *reterr)
{
    uint64_t end = clock_ns() + (uint64_t)(1e9 * (seconds > 0 && seconds < 1e6 ? seconds : 1));
    char part[4096];
    for (;;) {
        uint64_t now = clock_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = now < end ? poll(&p, 1, (int)((end - now) / 1000000) + 1) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return PST_TIMEOUT;
        ssize_t got = recv(fd, part, sizeof(part), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return monitor_fail(reterr, errno, socket, "reading a monitor");
        if (got == 0)
            return to->failed ? fail_memory(reterr, "reading a monitor") : PST_OK;
        text_add_n(to, part, (size_t)got);
        if (to->length > MOST_ANSWER)
            return pst_fail(reterr, PST_ECORRUPT, "%s: the answer is too long", socket);
    }
}

pst_status pst_monitor_read(pst_monitor_view *ret, const char *socket_path, double seconds, pst_error *reterr)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct text answer = {0};
    if (ret->size < sizeof(ret->size) || strlen(socket_path) >= sizeof(address.sun_path))
        return pst_fail(reterr, PST_EINVAL,
                        ret->size < sizeof(ret->size) ? "view.size is not set" : "the socket's path is too long");
    strcpy(address.sun_path, socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return monitor_fail(reterr, errno, socket_path, "reading a monitor");
    pst_status st = PST_OK;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        st = errno == ECONNREFUSED || errno == ENOENT
                 ? pst_fail(reterr, PST_ENOTFOUND, "%s: the pipeline has ended", socket_path)
                 : monitor_fail(reterr, errno, socket_path, "reading a monitor");
    if (st == PST_OK)
        st = receive(fd, seconds, &answer, socket_path, reterr);
    if (st == PST_OK)
        st = parse(ret, &answer, socket_path, reterr);
    close(fd);
    text_finish(&answer);
    return st;
}
