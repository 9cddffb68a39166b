/* settings.h: the settings of stores: endpoint, keys, cache. One set per process. */
#ifndef IO_REMOTE_SETTINGS_H
#define IO_REMOTE_SETTINGS_H

#include "io/remote/address.h"
#include "io/remote/room.h"
#include "io/remote/sigv4.h"
#include <penstock/store.h>

/* A copy of the settings that one request needs; freed by settings_finish. Without an access key the request is not signed. */
struct settings {
    char *endpoint, *region, *access_key, *secret_key, *session_token;
    bool virtual_host;
};

/* Stores the present settings. Keys of a role that are about to expire are renewed first. */
pst_status settings_get(struct settings *ret, pst_error *reterr);
void settings_finish(struct settings *s); /* secrets are wiped */

/* The cache (mem_free its folder), and the number of connections: as set, otherwise TUNER_LEAST. */
void settings_cache(struct room *ret);
unsigned settings_connections(void);
unsigned settings_connections_set(void); /* 0: the library chooses */
/* Stores the file with the certificates of trusted authorities (mem_free it); NULL: the system's. False: out of memory. */
bool settings_ca_file(char **ret);

#endif
