/* settings.c: see settings.h. */
#include "io/remote/settings.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/remote/fork.h"
#include "io/remote/roles.h"

#include <pthread.h>
#include <string.h>

#define RENEW_SECONDS 300 /* before keys expire */
#define RETRY_SECONDS 10  /* after a renewal failed */
#define CONNECTIONS   8u

static struct {
    pthread_mutex_t lock;
    struct role_keys keys;
    char *cache_folder;
    uint64_t cache_bytes;
    unsigned connections;
    bool virtual_host;
    bool environment; /* may be read… */
    bool looked;      /* …and was */
    bool renewable;   /* the keys are those of a role… */
    time_t again;     /* …and are not asked for before this time */
} present = {.lock = PTHREAD_MUTEX_INITIALIZER};

void settings_fork(enum fork_phase phase)
{
    fork_lock(&present.lock, phase);
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
    if ((o.access_key != NULL) != (o.secret_key != NULL))
        return pst_fail(reterr, PST_EINVAL, "access_key and secret_key belong together: give both or neither");
    if (!copy(&k.endpoint, o.endpoint) || !copy(&k.region, o.region) || !copy(&k.access_key, o.access_key) ||
        !copy(&k.secret_key, o.secret_key) || !copy(&k.session_token, o.session_token) || !copy(&folder, o.cache_folder)) {
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
    present.connections = o.connections;
    present.virtual_host = o.virtual_host;
    present.looked = present.renewable = false;
    pthread_mutex_unlock(&present.lock);
    return PST_OK;
}

void pst_store_use_environment(void)
{
    pthread_mutex_lock(&present.lock);
    present.environment = true;
    pthread_mutex_unlock(&present.lock);
}

/* Locked. */
static pst_status look(pst_error *reterr)
{
    bool given = present.keys.access_key != NULL;
    if (!present.environment)
        return PST_OK;
    if (present.looked && (!present.renewable || !present.keys.expires || time(NULL) <= present.keys.expires - RENEW_SECONDS || time(NULL) < present.again))
        return PST_OK;
    pst_status st = PST_OK;
    if (!present.looked) {
        st = role_from_variables(&present.keys, reterr);
        if (st == PST_OK)
            st = role_from_files(&present.keys, reterr);
    }
    present.renewable = present.renewable || (st == PST_OK && !given && !present.keys.access_key);
    if (st == PST_OK && present.renewable)
        st = role_from_services(&present.keys, reterr);
    if (st < 0 && present.looked && time(NULL) < present.keys.expires) { /* the service may answer next time; the keys still hold */
        present.again = time(NULL) + RETRY_SECONDS;
        return PST_OK;
    }
    present.looked = st == PST_OK;
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
                         !copy(&ret->access_key, k->access_key) || !copy(&ret->secret_key, k->secret_key) ||
                         !copy(&ret->session_token, k->session_token)))
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

void settings_cache(char **ret_folder, uint64_t *ret_bytes)
{
    pthread_mutex_lock(&present.lock);
    *ret_folder = present.cache_folder ? mem_strdup(present.cache_folder) : NULL;
    *ret_bytes = present.cache_bytes ? present.cache_bytes : UINT64_MAX;
    pthread_mutex_unlock(&present.lock);
}

unsigned settings_connections(void)
{
    pthread_mutex_lock(&present.lock);
    unsigned n = present.connections ? present.connections : CONNECTIONS;
    pthread_mutex_unlock(&present.lock);
    return n;
}
