/* transport_sockets.c: see transport.h. A message is a head (tag, length) and its bytes; what arrives before its receive is
 * begun is kept. */
#include "dist/transport.h"

#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct head {
    int64_t tag;
    uint64_t bytes;
};

/* A message that is sent, awaited, or kept until it is awaited. */
struct message {
    struct message *next;
    struct head head;
    char *data;
    size_t done; /* bytes moved; of a send, the head included */
    bool owned;  /* no receive awaits it yet: the data is ours */
    bool complete, given_up;
};

struct peer {
    int fd;
    struct message *sends, *receives, *kept; /* oldest first */
    struct head head; /* that is arriving */
    size_t head_done;
    struct message *arriving; /* NULL: the head is not complete */
};

struct state {
    unsigned rank, size;
    struct peer *peers;
};

static void append(struct message **list, struct message *m)
{
    while (*list)
        list = &(*list)->next;
    *list = m;
}

static struct message *make(int tag, const void *data, size_t bytes)
{
    struct message *m = mem_zalloc(sizeof(*m));
    if (m) {
        m->head = (struct head){.tag = tag, .bytes = bytes};
        m->data = (char *)(uintptr_t)data;
    }
    return m;
}

/* Takes the oldest message with this tag out of the list; NULL: none. */
static struct message *take(struct message **list, int64_t tag)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->head.tag == tag) {
            struct message *m = *list;
            *list = m->next;
            m->next = NULL;
            return m;
        }
    return NULL;
}

static void close_all(void *t, int broken)
{
    struct state *s = t;
    (void)broken;
    for (unsigned i = 0; s && i < s->size; i++) {
        struct peer *p = &s->peers[i];
        if (i != s->rank)
            close(p->fd);
        if (p->arriving && p->arriving->owned) {
            mem_free(p->arriving->data);
            mem_free(p->arriving);
        }
        for (struct message *m; (m = p->kept);) {
            p->kept = m->next;
            mem_free(m->data);
            mem_free(m);
        }
        for (struct message *m; (m = p->sends);) {
            p->sends = m->next;
            mem_free(m);
        }
        for (struct message *m; (m = p->receives);) {
            p->receives = m->next;
            mem_free(m);
        }
    }
    if (s)
        mem_free(s->peers);
    mem_free(s);
}

static int open_all(void **ret, void *config, unsigned *ret_rank, unsigned *ret_size, char *why, size_t why_size)
{
    const struct sockets_config *c = config;
    struct state *s = mem_zalloc(sizeof(*s));
    struct peer *peers = mem_array(c->size, sizeof(*peers));
    if (!s || !peers) {
        mem_free(s);
        mem_free(peers);
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    *s = (struct state){.rank = c->rank, .size = c->size, .peers = peers};
    for (unsigned i = 0; i < c->size; i++)
        if (i != c->rank) {
            peers[i].fd = c->fds[i];
            fcntl(c->fds[i], F_SETFL, O_NONBLOCK);
        }
    *ret_rank = c->rank;
    *ret_size = c->size;
    *ret = s;
    return 0;
}

static int start_send(void *t, unsigned to, int tag, const void *data, size_t bytes, void **ret, char *why, size_t why_size)
{
    struct state *s = t;
    struct message *m = make(tag, data, bytes);
    *ret = m;
    if (m)
        append(&s->peers[to].sends, m);
    else
        snprintf(why, why_size, "out of memory");
    return m ? 0 : -1;
}

static int start_receive(void *t, unsigned from, int tag, void *data, size_t bytes, void **ret, char *why, size_t why_size)
{
    struct state *s = t;
    struct peer *p = &s->peers[from];
    struct message *m = make(tag, data, bytes), *kept = take(&p->kept, tag);
    *ret = m;
    if (!m) {
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    if (kept) {
        memcpy(data, kept->data, kept->head.bytes < bytes ? kept->head.bytes : bytes);
        m->complete = true;
        mem_free(kept->data);
        mem_free(kept);
    } else {
        append(&p->receives, m);
    }
    return 0;
}

static int fail(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s", what);
    return -1;
}

/* Writes what the socket takes of the oldest message. */
static int write_some(struct peer *p, char *why, size_t size)
{
    while (p->sends) {
        struct message *m = p->sends;
        const char *from = m->done < sizeof(m->head) ? (const char *)&m->head + m->done : m->data + (m->done - sizeof(m->head));
        size_t left = m->done < sizeof(m->head) ? sizeof(m->head) - m->done : m->head.bytes + sizeof(m->head) - m->done;
        ssize_t n = left ? send(p->fd, from, left, MSG_NOSIGNAL) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n < 0)
            return fail(why, size, strerror(errno));
        m->done += (size_t)n;
        if (m->done == m->head.bytes + sizeof(m->head)) {
            p->sends = m->next;
            m->complete = true;
        }
    }
    return 0;
}

/* The head of a message is complete: where do its bytes go? */
static int place_message(struct peer *p, char *why, size_t size)
{
    struct message *m = take(&p->receives, p->head.tag);
    if (m && m->head.bytes != p->head.bytes)
        return fail(why, size, "a message has another length than was expected");
    if (!m) {
        m = make((int)p->head.tag, NULL, p->head.bytes);
        if (m)
            m->data = mem_alloc(p->head.bytes ? p->head.bytes : 1);
        if (!m || !m->data)
            return mem_free(m), fail(why, size, "out of memory");
        m->owned = true;
    }
    p->arriving = m;
    return 0;
}

/* A message arrived that no receive awaited when it began. */
static void keep_message(struct peer *p, struct message *m)
{
    struct message *awaited = take(&p->receives, m->head.tag);
    if (!awaited) {
        append(&p->kept, m);
        return;
    }
    memcpy(awaited->data, m->data, m->head.bytes < awaited->head.bytes ? m->head.bytes : awaited->head.bytes);
    awaited->complete = true;
    mem_free(m->data);
    mem_free(m);
}

static int read_some(struct peer *p, char *why, size_t size)
{
    for (;;) {
        struct message *m = p->arriving;
        char *to = m ? m->data + m->done : (char *)&p->head + p->head_done;
        size_t left = m ? m->head.bytes - m->done : sizeof(p->head) - p->head_done;
        ssize_t n = left ? recv(p->fd, to, left, 0) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (n < 0 || (n == 0 && left))
            return fail(why, size, n < 0 ? strerror(errno) : "it has closed the connection");
        if (!m) {
            p->head_done += (size_t)n;
            if (p->head_done < sizeof(p->head))
                continue;
            p->head_done = 0;
            if (place_message(p, why, size) < 0)
                return -1;
            continue;
        }
        m->done += (size_t)n;
        if (m->done < m->head.bytes)
            continue;
        m->complete = true;
        p->arriving = NULL;
        if (m->owned)
            keep_message(p, m);
        else if (m->given_up)
            mem_free(m);
    }
}

static int progress(struct state *s, char *why, size_t why_size)
{
    char text[128];
    for (unsigned i = 0; i < s->size; i++)
        if (i != s->rank && (write_some(&s->peers[i], text, sizeof(text)) < 0 || read_some(&s->peers[i], text, sizeof(text)) < 0)) {
            snprintf(why, why_size, "rank %u: %s", i, text);
            return -1;
        }
    return 0;
}

static int test(void *t, void **request, char *why, size_t why_size)
{
    struct message *m = *request;
    if (!m)
        return 1;
    int failed = m->complete ? 0 : progress(t, why, why_size);
    if (m->complete) {
        mem_free(m);
        *request = NULL;
        return 1;
    }
    return failed;
}

static void cancel(void *t, void **request)
{
    struct state *s = t;
    struct message *m = *request;
    if (!m)
        return;
    *request = NULL;
    for (unsigned i = 0; i < s->size; i++)
        for (struct message **at = &s->peers[i].receives; *at; at = &(*at)->next)
            if (*at == m) {
                *at = m->next;
                mem_free(m);
                return;
            }
    if (m->complete)
        mem_free(m);
    else
        m->given_up = true;
}

const struct transport transport_sockets = {
    .abi = TRANSPORT_ABI,
    .name = "sockets",
    .open = open_all,
    .send = start_send,
    .receive = start_receive,
    .test = test,
    .cancel = cancel,
    .close = close_all,
};
