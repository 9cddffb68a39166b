/* settings.c: see settings.h. */
#include "io/remote/settings.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/remote/blocks.h"
#include "io/remote/fork.h"
#include "io/remote/hidden.h"
#include "io/remote/roles.h"
#include "io/remote/tuner.h"
#include "io/stop.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define RENEW_SECONDS 300 /* before keys expire */
#define RETRY_SECONDS 10  /* after a renewal failed */

static struct {
    pthread_mutex_t lock;
    struct role_keys keys;
    char *cache_folder;
    uint64_t cache_bytes;
    bool cache_evict;
    unsigned connections;
    bool virtual_host;
    bool environment; /* may be read… */
    bool looked;      /* …and was */
    bool renewable;   /* the keys are those of a role… */
    time_t again;     /* …and are not asked for before this time */
    bool renewing;    /* a thread asks for keys, without the lock */
    unsigned version; /* increases with each pst_store_configure */
    pthread_cond_t renewed;
} present = {.lock = PTHREAD_MUTEX_INITIALIZER, .renewed = PTHREAD_COND_INITIALIZER};

void settings_fork(enum fork_phase phase)
{
    if (phase == FORK_CHILD) { /* the thread that asks stayed with the parent */
        present.renewing = false;
        pthread_cond_init(&present.renewed, NULL);
    }
    fork_lock(&present.lock, phase);
}

static bool hide(char **to, const char *value)
{
    *to = value ? hidden_copy(value, SIZE_MAX) : NULL;
    return !value || *to;
}

static bool copy(char **to, const char *value)
{
    *to = value ? mem_strdup(value) : NULL;
    return !value || *to;
}

pst_status pst_store_configure(const pst_store_options *options, pst_error *reterr)
{
    pst_store_options o = {0};
    struct role_keys k = {0};
    char *folder = NULL;
    pst_status st = options_take(&o, sizeof(o), options, reterr);
    if (st < 0)
        return st;
    fork_watch();
    if ((o.access_key != NULL) != (o.secret_key != NULL))
        return pst_fail(reterr, PST_EINVAL, "access_key and secret_key belong together: give both or neither");
    if (!copy(&k.endpoint, o.endpoint) || !copy(&k.region, o.region) || !hide(&k.access_key, o.access_key) ||
        !hide(&k.secret_key, o.secret_key) || !hide(&k.session_token, o.session_token) || !copy(&k.ca_file, o.ca_file) || !copy(&folder, o.cache_folder)) {
        role_keys_finish(&k);
        mem_free(folder);
        return fail_memory(reterr, "configuring the store");
    }
    pthread_mutex_lock(&present.lock);
    role_keys_finish(&present.keys);
    mem_free(present.cache_folder);
    present.keys = k;
    present.cache_folder = folder;
    present.cache_bytes = o.cache_bytes;
    present.cache_evict = o.cache_evict;
    present.connections = o.connections;
    present.virtual_host = o.virtual_host;
    present.looked = present.renewable = false;
    present.version++;
    pthread_mutex_unlock(&present.lock);
    blocks_limit(o.memory_bytes);
    return PST_OK;
}

void pst_store_use_environment(void)
{
    fork_watch();
    pthread_mutex_lock(&present.lock);
    present.environment = true;
    pthread_mutex_unlock(&present.lock);
}

/* ---- Keys that are looked up ---- */

/* Returns whether the keys are current. Locked. */
static bool is_fresh(void)
{
    time_t now = time(NULL);
    return !present.environment ||
           (present.looked && (!present.renewable || !present.keys.expires || now <= present.keys.expires - RENEW_SECONDS || now < present.again));
}

/* Completes `k`, which has the known values. `ret_role`: the keys are those of a role. */
static pst_status look_up(struct role_keys *k, bool looked, bool *ret_role, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (!looked) {
        bool given = k->access_key != NULL;
        st = role_from_variables(k, reterr);
        if (st == PST_OK)
            st = role_from_files(k, reterr);
        *ret_role = st == PST_OK && !given && !k->access_key;
    }
    return st == PST_OK && *ret_role ? role_from_services(k, reterr) : st;
}

/* Takes over the keys that were found, unless other settings were made meanwhile. Locked. */
static pst_status take_over(struct role_keys *k, unsigned version, bool role, pst_status st)
{
    if (version != present.version)
        return PST_OK; /* the next to ask looks again */
    bool holds = present.looked && time(NULL) < present.keys.expires;
    if (st < 0 && holds) { /* the service may answer next time */
        present.again = time(NULL) + RETRY_SECONDS;
        return PST_OK;
    }
    if (st == PST_OK) { /* otherwise the known values stay: keys of a role are asked for again, as such */
        present.looked = true;
        struct role_keys old = present.keys;
        present.keys = *k;
        *k = old;
        present.renewable = role;
    }
    return st;
}

/* Asks without the lock: a service may be slow, and keys that still hold are used meanwhile. Locked before and after. */
static pst_status renew(pst_error *reterr)
{
    struct role_keys k;
    unsigned version = present.version;
    bool role = present.renewable, looked = present.looked;
    if (!role_keys_copy(&k, &present.keys))
        return fail_memory(reterr, "reading the settings of the store");
    present.renewing = true;
    pthread_mutex_unlock(&present.lock);
    pst_status st = look_up(&k, looked, &role, reterr);
    pthread_mutex_lock(&present.lock);
    present.renewing = false;
    st = take_over(&k, version, role, st);
    pthread_cond_broadcast(&present.renewed);
    role_keys_finish(&k);
    return st;
}

/* Locked. */
static pst_status look(pst_error *reterr)
{
    pst_status st = PST_OK;
    while (st == PST_OK && !is_fresh()) {
        bool holds = present.looked && time(NULL) < present.keys.expires;
        unsigned version = present.version;
        if (!present.renewing) {
            st = renew(reterr);
            if (version == present.version)
                break;
        } else if (holds) {
            break;
        } else if (stop_thread_asked()) {
            st = pst_fail(reterr, PST_ECANCELLED, "stopped while keys were fetched");
        } else {
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 100000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_timedwait(&present.renewed, &present.lock, &until);
        }
    }
    return st;
}

pst_status settings_get(struct settings *ret, pst_error *reterr)
{
    *ret = (struct settings){0};
    fork_watch();
    pthread_mutex_lock(&present.lock);
    pst_status st = look(reterr);
    const struct role_keys *k = &present.keys;
    ret->virtual_host = present.virtual_host;
    if (st == PST_OK && (!copy(&ret->endpoint, k->endpoint) || !copy(&ret->region, k->region ? k->region : "us-east-1") ||
                         !hide(&ret->access_key, k->access_key) || !hide(&ret->secret_key, k->secret_key) ||
                         !hide(&ret->session_token, k->session_token)))
        st = fail_memory(reterr, "reading the settings of the store");
    pthread_mutex_unlock(&present.lock);
    if (st < 0)
        settings_finish(ret);
    return st;
}

void settings_finish(struct settings *s)
{
    role_keys_finish(&(struct role_keys){.access_key = s->access_key,
                                         .secret_key = s->secret_key,
                                         .session_token = s->session_token,
                                         .region = s->region,
                                         .endpoint = s->endpoint});
    *s = (struct settings){0};
}

void settings_cache(struct room *ret)
{
    fork_watch();
    pthread_mutex_lock(&present.lock);
    ret->folder = present.cache_folder ? mem_strdup(present.cache_folder) : NULL;
    ret->most = present.cache_bytes ? present.cache_bytes : ROOM_UNLIMITED;
    ret->evict = present.cache_evict;
    pthread_mutex_unlock(&present.lock);
}

bool settings_ca_file(char **ret)
{
    pthread_mutex_lock(&present.lock);
    bool ok = copy(ret, present.keys.ca_file ? present.keys.ca_file : present.environment ? role_ca_file() : NULL);
    pthread_mutex_unlock(&present.lock);
    return ok;
}

unsigned settings_connections_set(void)
{
    fork_watch();
    pthread_mutex_lock(&present.lock);
    unsigned n = present.connections;
    pthread_mutex_unlock(&present.lock);
    return n;
}

unsigned settings_connections(void)
{
    unsigned n = settings_connections_set();
    return n ? n : TUNER_LEAST;
}
