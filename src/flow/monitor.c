/* monitor.c: answers every connection with the statistics as one JSON object. See monitor.h.
 *
 * The folder is made with mode 0700 and must belong to the user; the socket has mode 0600 before it listens; and the process at
 * the other end must be of the same user or of root. One client at a time is served, with a short limit, so that a client that
 * does not read cannot hold anything up but other clients. */
#include "flow/monitor.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/secret.h"
#include "base/text.h"
#include "base/thread.h"
#include "flow/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_SOCKETS    4096 /* of one process */
#define SEND_SECONDS    1
#define WAITING_CLIENTS 8
#define PAUSE_MS        100 /* while the process has no descriptors left */

struct monitor {
    pst_pipeline *pipeline;
    struct thread_group *thread;
    char *text;
    uint64_t start;
    pid_t process; /* a forked child does not remove the socket */
    int fd, wake[2];
    struct sockaddr_un address;
};

/* ---- The answer ---- */

static void put_stages(struct json *j, const pst_stats *s)
{
    json_begin_array(j, "stages");
    for (size_t i = 0; i < s->stages; i++) {
        json_begin_object(j, NULL);
        json_string(j, "name", s->stage[i].name);
        json_uint(j, "calls", s->stage[i].calls);
        json_uint(j, "bytes", s->stage[i].bytes);
        json_uint(j, "ns", s->stage[i].ns);
        json_end_object(j);
    }
    json_end_array(j);
}

static void put_stats(struct json *j, const pst_stats *s)
{
    json_uint(j, "samples", s->samples);
    json_uint(j, "batches", s->batches);
    json_uint(j, "bytes", s->bytes);
    json_uint(j, "read_bytes", s->read_bytes);
    json_uint(j, "skipped", s->skipped);
    json_uint(j, "cache_hits", s->cache_hits);
    json_uint(j, "consumer_wait_ns", s->consumer_wait_ns);
    json_uint(j, "worker_wait_ns", s->worker_wait_ns);
    json_uint(j, "worker_busy_ns", s->worker_busy_ns);
    json_uint(j, "workers", s->workers);
    json_uint(j, "prefetch", s->prefetch);
    json_uint(j, "ram_planned", s->ram_planned);
    json_uint(j, "ram_used", s->ram_used);
    json_number(j, "ready_mean", s->ready_mean);
    json_bool(j, "stalled", s->stalled);
    json_string(j, "stall", s->stall);
    put_stages(j, s);
}

static void write_answer(struct monitor *m, struct text *to)
{
    struct json j = {.put = text_put, .to = to};
    pst_stats s = {.size = sizeof(s)};
    pst_pipeline_stats(m->pipeline, &s, NULL); /* the size is right: it cannot fail */
    json_begin_object(&j, NULL);
    json_uint(&j, "schema", 1);
    json_uint(&j, "pid", (uint64_t)m->process);
    json_uint(&j, "rank", m->pipeline->options.rank);
    json_uint(&j, "world", m->pipeline->options.world ? m->pipeline->options.world : 1);
    json_number(&j, "seconds", (double)(clock_ns() - m->start) * 1e-9);
    json_shown(&j, "pipeline", m->text);
    put_stats(&j, &s);
    json_end_object(&j);
    text_add(to, "\n");
}

/* ---- Serving ---- */

static bool is_allowed(int client)
{
    struct ucred other;
    socklen_t size = sizeof(other);
    return getsockopt(client, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && (other.uid == geteuid() || other.uid == 0);
}

static void serve(struct monitor *m, int client)
{
    struct timeval limit = {.tv_sec = SEND_SECONDS};
    struct text answer = {0};
    size_t sent = 0;
    if (is_allowed(client) && setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0) {
        write_answer(m, &answer);
        while (!answer.failed && sent < answer.length) {
            ssize_t n = send(client, answer.data + sent, answer.length - sent, MSG_NOSIGNAL);
            if (n <= 0 && !(n < 0 && errno == EINTR))
                break;
            sent += n > 0 ? (size_t)n : 0;
        }
    }
    text_finish(&answer);
    close(client);
}

static bool is_short_of_resources(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void run(void *user, unsigned number)
{
    struct monitor *m = user;
    (void)number;
    for (;;) {
        struct pollfd fds[2] = {{.fd = m->wake[0], .events = POLLIN}, {.fd = m->fd, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        if (fds[0].revents)
            return;
        if (fds[1].revents & POLLIN) {
            int client = accept4(m->fd, NULL, NULL, SOCK_CLOEXEC);
            if (client >= 0)
                serve(m, client);
            else if (is_short_of_resources(errno) && poll(fds, 1, PAUSE_MS) > 0)
                return; /* the client still waits, so that poll would return at once */
        }
    }
}

/* ---- Opening ---- */

pst_status monitor_check_folder(const char *folder, pst_error *reterr)
{
    struct stat st;
    if (lstat(folder, &st) < 0)
        return monitor_fail(reterr, errno, folder, "opening the folder of monitors");
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return pst_fail(reterr, PST_EINVAL,
                        "the folder of monitors %s must belong to this user and be writable by no other user; "
                        "`chmod 700` it, or choose another",
                        folder);
    return PST_OK;
}

static pst_status make_folder(const char *folder, pst_error *reterr)
{
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return monitor_fail(reterr, errno, folder, "making the folder of monitors");
    return monitor_check_folder(folder, reterr);
}

/* Takes the first free number. */
static pst_status open_socket(struct monitor *m, const char *folder, pst_error *reterr)
{
    m->address.sun_family = AF_UNIX;
    m->fd = fault_hit(FAULT_IO, "socket") ? (errno = EMFILE, -1) : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (m->fd < 0)
        return monitor_fail(reterr, errno, folder, "opening a monitor");
    (void)fchmod(m->fd, 0600); /* where bind heeds it, as on Linux, the file never has another mode */
    for (unsigned i = 0; i < MOST_SOCKETS; i++) {
        int n = snprintf(m->address.sun_path, sizeof(m->address.sun_path), "%s/%ld-%u.sock", folder, (long)m->process, i);
        if (n < 0 || (size_t)n >= sizeof(m->address.sun_path))
            return pst_fail(reterr, PST_EINVAL, "%s: the path is too long for a socket; choose a shorter folder", folder);
        if (bind(m->fd, (struct sockaddr *)&m->address, sizeof(m->address)) == 0) {
            if (chmod(m->address.sun_path, 0600) == 0 && listen(m->fd, WAITING_CLIENTS) == 0)
                return PST_OK;
            return monitor_fail(reterr, errno, m->address.sun_path, "opening a monitor");
        }
        if (errno != EADDRINUSE)
            return monitor_fail(reterr, errno, m->address.sun_path, "opening a monitor");
    }
    return pst_fail(reterr, PST_ELIMIT, "%s has too many monitors of this process", folder);
}

pst_status monitor_start(struct monitor **ret, pst_pipeline *p, const char *folder, const char *text, pst_error *reterr)
{
    struct monitor *m = mem_zalloc(sizeof(*m));
    if (!m)
        return fail_memory(reterr, "opening a monitor");
    *m = (struct monitor){.pipeline = p, .start = clock_ns(), .process = getpid(), .fd = -1, .wake = {-1, -1}};
    m->text = mem_strdup(text);
    pst_status st = m->text ? make_folder(folder, reterr) : fail_memory(reterr, "opening a monitor");
    if (st == PST_OK)
        st = open_socket(m, folder, reterr);
    if (st < 0)
        m->address.sun_path[0] = '\0'; /* the file is another's */
    if (st == PST_OK && pipe2(m->wake, O_CLOEXEC) < 0)
        st = monitor_fail(reterr, errno, folder, "opening a monitor");
    if (st == PST_OK)
        st = thread_group_start(&m->thread, 1, "penstock-mon", run, m, reterr);
    if (st < 0) {
        monitor_stop(m);
        return st;
    }
    *ret = m;
    return PST_OK;
}

struct monitor *monitor_stop(struct monitor *m)
{
    if (!m)
        return NULL;
    if (m->wake[1] >= 0)
        close(m->wake[1]); /* the thread sees the end of the pipe */
    thread_group_join(m->thread);
    if (m->wake[0] >= 0)
        close(m->wake[0]);
    if (m->fd >= 0)
        close(m->fd);
    if (m->address.sun_path[0] && m->process == getpid())
        unlink(m->address.sun_path);
    mem_free(m->text);
    mem_free(m);
    return NULL;
}
