/* uring.c: the only file that knows liburing. */
#include "io/uring.h"

#include "base/memory.h"
#include "config.h"
#include "io/file.h"

#ifdef HAVE_URING

#include <errno.h>
#include <liburing.h>

struct uring {
    struct io_uring ring;
};

/* A filter on system calls may allow the ring and deny its use. */
static bool turns(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    struct io_uring_cqe *cqe;
    io_uring_prep_nop(sqe);
    if (io_uring_submit_and_wait(ring, 1) != 1 || io_uring_peek_cqe(ring, &cqe) != 0)
        return false;
    io_uring_cqe_seen(ring, cqe);
    return true;
}

struct uring *uring_create(unsigned depth)
{
    struct uring *u = mem_zalloc(sizeof(*u));
    if (!u || file_denied("io_uring_setup") || io_uring_queue_init(depth, &u->ring, 0) != 0) {
        mem_free(u);
        return NULL;
    }
    if (turns(&u->ring))
        return u;
    uring_destroy(u);
    return NULL;
}

void uring_destroy(struct uring *u)
{
    if (!u)
        return;
    io_uring_queue_exit(&u->ring);
    mem_free(u);
}

bool uring_add(struct uring *u, struct read_request *q)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (!sqe)
        return false;
    size_t left = q->length - q->got, most = (size_t)1 << 30; /* the field has 32 bits; the rest is asked for again */
    io_uring_prep_read(sqe, q->fd, (char *)q->buffer + q->got, (unsigned)(left < most ? left : most), q->offset + q->got);
    io_uring_sqe_set_data(sqe, q);
    return true;
}

int uring_enter(struct uring *u, bool wait)
{
    for (;;) {
        int n = wait ? io_uring_submit_and_wait(&u->ring, 1) : io_uring_submit(&u->ring);
        if (n >= 0)
            return 0;
        if (n != -EINTR && n != -EAGAIN && n != -EBUSY)
            return -n;
        if (n == -EBUSY) /* ended reads have to be taken off first */
            return 0;
    }
}

struct read_request *uring_ended(struct uring *u, int *ret_result)
{
    struct io_uring_cqe *cqe;
    if (io_uring_peek_cqe(&u->ring, &cqe) != 0)
        return NULL;
    struct read_request *q = io_uring_cqe_get_data(cqe);
    *ret_result = file_denied("io_uring_read") ? -EIO : cqe->res;
    io_uring_cqe_seen(&u->ring, cqe);
    return q;
}

#else

struct uring *uring_create(unsigned depth)
{
    (void)depth;
    return NULL;
}

void uring_destroy(struct uring *u)
{
    (void)u;
}

bool uring_add(struct uring *u, struct read_request *q)
{
    (void)u, (void)q;
    return false;
}

int uring_enter(struct uring *u, bool wait)
{
    (void)u, (void)wait;
    return 0;
}

struct read_request *uring_ended(struct uring *u, int *ret_result)
{
    (void)u, (void)ret_result;
    return NULL;
}

#endif
