/* transport.h: how bytes get from one rank to another. A transport is one table of functions: sockets of tests, and one per MPI, each a
 * shared object of its own (transport_mpi.c), which is why this header needs no other of the library.
 *
 * All functions are called from one thread. Sends and receives start work and return; `test` moves it forward. Messages between two
 * ranks with one tag arrive in the order of their sends. */
#ifndef DIST_TRANSPORT_H
#define DIST_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_ABI    1
#define TRANSPORT_SYMBOL "penstock_transport"
#define TRANSPORT_MOST   ((size_t)1 << 30) /* bytes of one message at most */

struct transport {
    uint32_t abi; /* TRANSPORT_ABI */
    const char *name;
    /* Joins the other ranks; `config` is the caller's. Returns 0, or -1 with the reason in `why`. */
    int (*open)(void **ret, void *config, unsigned *ret_rank, unsigned *ret_size, char *why, size_t why_size);
    /* Start a message of `bytes`; the memory must stay until `test` returns 1. Return 0, or -1 with the reason in `why`. */
    int (*send)(void *t, unsigned to, int tag, const void *data, size_t bytes, void **ret_request, char *why, size_t why_size);
    int (*receive)(void *t, unsigned from, int tag, void *data, size_t bytes, void **ret_request, char *why, size_t why_size);
    /* 1: complete, and `*request` is NULL; 0: not yet; -1: failed, with the reason in `why`. A NULL request is complete. */
    int (*test)(void *t, void **request, char *why, size_t why_size);
    /* Gives up a receive. */
    void (*cancel)(void *t, void **request);
    /* Ends every rank; does not return. NULL: the transport cannot. */
    void (*abort)(void *t, int code);
    /* Leaves the other ranks. `broken`: some do not answer; does not wait for them. */
    void (*close)(void *t, int broken);
};

/* Ranks as processes of one machine, joined by socket pairs that were made before they were forked. */

extern const struct transport transport_sockets;

/* The config of `open`: the sockets to the other ranks. The transport closes them. */
struct sockets_config {
    unsigned rank, size;
    const int *fds; /* by rank; one's own is not used */
};

#endif
