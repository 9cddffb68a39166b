/* transport_sockets.h: ranks as processes of one machine, joined by socket pairs that were made before they were forked. */
#ifndef DIST_TRANSPORT_SOCKETS_H
#define DIST_TRANSPORT_SOCKETS_H

#include "dist/transport.h"

extern const struct transport transport_sockets;

/* The config of `open`: the sockets to the other ranks. The transport closes them. */
struct sockets_config {
    unsigned rank, size;
    const int *fds; /* by rank; one's own is not used */
};

#endif
