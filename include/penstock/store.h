/* store.h: object stores. Every path of the library may be s3://bucket/key, https://… or http://….
 *
 * Nothing is read from the environment unless pst_store_use_environment was called; the command-line tool and the Python module
 * call it. Secrets appear in no message. */
#ifndef PENSTOCK_STORE_H
#define PENSTOCK_STORE_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How object stores are reached. A member that is 0 has its default. */
typedef struct pst_store_options {
    size_t size;               /* sizeof(pst_store_options). */
    const char *endpoint;      /* The server, "http://127.0.0.1:9000"; NULL: Amazon's of the region. */
    const char *region;        /* The region of the buckets; NULL: "us-east-1". */
    const char *access_key;    /* The key that requests are signed with; NULL: they are not signed. */
    const char *secret_key;    /* The secret of `access_key`. */
    const char *session_token; /* The token that belongs to temporary keys; NULL: the keys are permanent. */
    bool virtual_host;         /* The bucket is part of the host's name, also with `endpoint`. */
    const char *cache_folder;  /* Where downloaded data are kept for later runs; NULL: they are not kept. */
    uint64_t cache_bytes;      /* How many bytes are kept there; 0: no limit. */
    unsigned connections;      /* The number of connections; 0: 8, and more while they bring more. */
    bool cache_evict; /* When `cache_bytes` are reached, copies that no process has open make room for new ones, those first
                         that were not used for longest; otherwise nothing is removed, and new data are not kept. */
    uint64_t memory_bytes; /* The most memory for downloaded data without a cache folder, in steps of 16 MiB and at least one of
                              them: what has no place there goes to a file in /tmp. 0: an eighth of what is available, at most
                              512 MiB. */
    const char *ca_file;   /* Certificates (PEM) of the authorities that servers are trusted by; NULL: those of the system. */
} pst_store_options;

/* Sets how object stores are reached, for all later calls in this process. Call it before the first remote path is used. */
PST_API pst_status pst_store_configure(const pst_store_options *options, pst_error *reterr);
/* Fills what pst_store_configure left out from the environment, when a remote path is first used: the variables
 * AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL,
 * AWS_ENDPOINT_URL_S3, and one of AWS_CA_BUNDLE, CURL_CA_BUNDLE and SSL_CERT_FILE, the profile AWS_PROFILE of
 * ~/.aws/credentials and ~/.aws/config, then the roles of a container or a machine (which are renewed before they expire). */
PST_API void pst_store_use_environment(void);
/* A copy of an object in a cache folder. */
typedef struct pst_store_copy {
    char key[17];        /* The name of its files: a hash of the object's address and version. */
    bool in_use;         /* A process has it open. */
    uint64_t bytes;      /* Its size on disk. */
    uint64_t size_whole; /* The size of the object. */
    int64_t used;        /* When it was last used, in seconds since 1970. */
    char address[256];   /* The address of the object, without a signature; its last 255 bytes if it is longer. "": unknown. */
} pst_store_copy;

/* Stores the copies in a cache folder (NULL: the folder of this process) in `*ret`, an array of `*ret_count`, those first that
 * were not used for longest; release it with pst_free. PST_EINVAL: there is no such folder in the settings. */
PST_API pst_status pst_store_cache_list(const char *folder, pst_store_copy **ret, size_t *ret_count, pst_error *reterr);
/* Removes a copy unless a process has it open: then `*ret_removed` is false. */
PST_API pst_status pst_store_cache_remove(const char *folder, const char *key, bool *ret_removed, pst_error *reterr);

/* Sets what ends waits for stores in this process: when `asked(user)` is true, a server that is silent for a second is given up
 * (PST_ECANCELLED), and work that makes progress goes on. The tool passes whether Ctrl-C was pressed. `asked` is called from
 * any thread; NULL: nothing ends them. */
PST_API void pst_store_stop(pst_stop_fn asked, void *user);

#ifdef __cplusplus
}
#endif
#endif
