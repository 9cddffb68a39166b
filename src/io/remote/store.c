/* store.c: see store.h.
 *
 * Repeating is bounded three ways: attempts per request, a pause that doubles with each (with jitter, and as long as the server
 * asks), and a budget that all requests of the process share: failures use it up, successes refill it, so that a server that
 * is down is not stormed. */
#include "io/remote/store.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "io/remote/settings.h"
#include "io/stop.h"
#include "io/remote/sha256.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ATTEMPTS      10
#define FIRST_PAUSE   0.05 /* seconds */
#define LONGEST_PAUSE 5.0
#define ALIVE_SECONDS  2.0 /* after a success, the server is known to work: chance failures are repeated sooner… */
#define ALIVE_PAUSE    0.4
#define ALIVE_ATTEMPTS 20 /* …and more often */
#define BUDGET        100.0 /* repeated requests */
#define REFILL        1.5   /* per success */
#define STALL_SECONDS 3.0
#define FIRST_SECONDS 10.0
#define STOP_ATTEMPTS 4 /* once the process is asked to stop */

static struct {
    pthread_mutex_t lock;
    double budget;
    uint64_t requests, repeated, succeeded; /* the last: when, in nanoseconds */
} traffic = {.lock = PTHREAD_MUTEX_INITIALIZER, .budget = BUDGET};

void store_count(uint64_t *ret_requests, uint64_t *ret_repeated)
{
    fork_watch();
    pthread_mutex_lock(&traffic.lock);
    *ret_requests = traffic.requests;
    *ret_repeated = traffic.repeated;
    pthread_mutex_unlock(&traffic.lock);
}

void store_fork(enum fork_phase phase)
{
    fork_lock(&traffic.lock, phase);
}

static void note_request(void)
{
    pthread_mutex_lock(&traffic.lock);
    traffic.requests++;
    pthread_mutex_unlock(&traffic.lock);
}

static void note_success(void)
{
    pthread_mutex_lock(&traffic.lock);
    traffic.budget = traffic.budget + REFILL < BUDGET ? traffic.budget + REFILL : BUDGET;
    traffic.succeeded = clock_ns();
    pthread_mutex_unlock(&traffic.lock);
}

bool store_may_repeat(void)
{
    pthread_mutex_lock(&traffic.lock);
    bool may = traffic.budget >= 1;
    traffic.budget -= may;
    pthread_mutex_unlock(&traffic.lock);
    return may;
}

/* Waits before the next attempt. False: no more attempts. */
static bool pause_before(unsigned attempt, double asked, const _Atomic bool *cancel)
{
    static _Atomic uint64_t draws;
    struct random r;
    bool stopping = stop_process_asked();
    pthread_mutex_lock(&traffic.lock);
    bool alive = traffic.succeeded && (double)(clock_ns() - traffic.succeeded) * 1e-9 < ALIVE_SECONDS;
    bool allowed = traffic.budget >= 1 && attempt + 1 < (stopping ? STOP_ATTEMPTS : alive ? ALIVE_ATTEMPTS : ATTEMPTS);
    traffic.budget -= allowed;
    traffic.repeated += allowed;
    pthread_mutex_unlock(&traffic.lock);
    if (!allowed || stop_thread_asked())
        return false;
    random_init(&r, clock_ns(), attempt, atomic_fetch_add(&draws, 1), 0);
    double pause = FIRST_PAUSE * (double)(1u << attempt), longest = alive ? ALIVE_PAUSE : LONGEST_PAUSE;
    pause = (pause < longest ? pause : longest) * (0.5 + 0.5 * random_unit(&r));
    pause = asked > pause ? (asked < 60 ? asked : 60) : pause;
    pause = stopping && pause > STOP_SECONDS ? STOP_SECONDS : pause;
    for (uint64_t end = clock_ns() + (uint64_t)(pause * 1e9), now; (now = clock_ns()) < end;) {
        uint64_t left = end - now < 50000000 ? end - now : 50000000;
        if ((cancel && atomic_load(cancel)) || stop_thread_asked())
            return false;
        if (!stopping && stop_process_asked()) { /* an upload gets one more attempt */
            stopping = true;
            end = end - now > (uint64_t)(STOP_SECONDS * 1e9) ? now + (uint64_t)(STOP_SECONDS * 1e9) : end;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
    }
    return true;
}

/* ---- One request ---- */

struct prepared {
    struct text url, headers;
    char *ca_file;
};

static void prepared_finish(struct prepared *p)
{
    text_finish(&p->url);
    text_finish(&p->headers);
    mem_free(p->ca_file);
}

/* Appends the scheme and host of an object's URL, and its path. */
static void locate_s3(const struct address *a, const struct settings *s, struct text *base, struct text *path)
{
    bool in_host = s->virtual_host || (!s->endpoint && !strchr(a->bucket, '.'));
    const char *endpoint = s->endpoint ? s->endpoint : "";
    if (!s->endpoint)
        text_addf(base, "https://%s%ss3.%s.amazonaws.com", in_host ? a->bucket : "", in_host ? "." : "", s->region);
    else if (in_host && strstr(endpoint, "://"))
        text_addf(base, "%.*s%s.%s", (int)(strstr(endpoint, "://") + 3 - endpoint), endpoint, a->bucket,
                  strstr(endpoint, "://") + 3);
    else
        text_addf(base, "%s%s", strstr(endpoint, "://") ? "" : "https://", endpoint);
    while (base->length && base->data[base->length - 1] == '/')
        base->data[--base->length] = 0;
    text_add(path, "/");
    if (!in_host) {
        address_encode(path, a->bucket, strlen(a->bucket), false);
        if (*a->key)
            text_add(path, "/");
    }
    address_encode(path, a->key, strlen(a->key), true);
}

static pst_status prepare_s3(struct prepared *p, struct http_call *c, const struct address *a, const struct store_ask *ask, pst_error *reterr)
{
    struct settings s;
    struct text base = {0}, path = {0};
    char hash[SHA256_HEX];
    pst_status st = settings_get(&s, reterr);
    if (st < 0)
        return st;
    locate_s3(a, &s, &base, &path);
    text_addf(&p->url, "%s%s%s%s", base.data ? base.data : "", path.data ? path.data : "", ask->query ? "?" : "",
              ask->query ? ask->query : "");
    c->temporary = s.session_token != NULL;
    if (s.access_key && !base.failed && !path.failed) {
        sha256_hex(ask->body ? ask->body : "", ask->body ? ask->body_length : 0, hash);
        sigv4_sign(&p->headers,
                   &(struct sigv4_request){.method = ask->method,
                                           .host = strstr(base.data, "://") + 3,
                                           .path = path.data,
                                           .query = ask->query ? ask->query : "",
                                           .payload_hash = hash},
                   &(struct sigv4_key){s.access_key, s.secret_key, s.session_token, s.region}, time(NULL));
    }
    p->url.failed |= base.failed || path.failed;
    text_finish(&base);
    text_finish(&path);
    settings_finish(&s);
    return PST_OK;
}

static pst_status prepare(struct prepared *p, struct http_call *c, const struct address *a, const struct store_ask *ask, pst_error *reterr)
{
    pst_status st = PST_OK;
    p->headers.secret = true;
    if (a->s3)
        st = prepare_s3(p, c, a, ask, reterr);
    else
        text_addf(&p->url, "%s%s%s%s", a->host, a->key, ask->query ? "?" : "", ask->query ? ask->query : "");
    if (ask->headers)
        text_add(&p->headers, ask->headers);
    p->url.failed |= !settings_ca_file(&p->ca_file);
    c->ca_file = p->ca_file;
    return st == PST_OK && (p->url.failed || p->headers.failed) ? fail_memory_at(reterr, ask->path, "asking the store") : st;
}

/* ---- Failures ---- */

static bool may_pass(const struct http_call *c)
{
    if (c->untrusted)
        return false;
    return !c->complete || c->status == 0 || c->status == 408 || c->status == 429 || c->status >= 500;
}

/* Reads the text between <Code> and </Code>. */
static void read_code(const struct http_call *c, char *ret, size_t size)
{
    const char *at = c->text.data ? strstr(c->text.data, "<Code>") : NULL;
    size_t n = at ? strcspn(at + 6, "<") : 0;
    snprintf(ret, size, "%.*s", (int)(n < size ? n : size - 1), at ? at + 6 : "");
}

static const char *remedy_for(const char *code, int status, bool temporary)
{
    if (temporary && strcmp(code, "InvalidAccessKeyId") == 0)
        return "; the session has expired, or its keys are not known here: get new keys, or check AWS_ACCESS_KEY_ID, AWS_SESSION_TOKEN "
               "and the endpoint";
    static const struct {
        const char *code, *remedy;
    } known[] = {
        {"InvalidAccessKeyId", "; the access key is not known here: check AWS_ACCESS_KEY_ID and the endpoint"},
        {"SignatureDoesNotMatch", "; the secret key is wrong: check AWS_SECRET_ACCESS_KEY"},
        {"ExpiredToken", "; the session token has expired: get new keys"},
        {"InvalidToken", "; the session token is wrong: check AWS_SESSION_TOKEN"},
        {"RequestTimeTooSkewed", "; the clock of this machine is wrong"},
        {"NoSuchBucket", "; check the name of the bucket and the endpoint"},
        {"PermanentRedirect", "; the bucket is in another region: set AWS_REGION"},
        {"AuthorizationHeaderMalformed", "; the bucket is in another region: set AWS_REGION"},
        {"AccessDenied", "; these keys may not do this: check the rights of the keys, or whether keys are set at all"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(code, known[i].code) == 0)
            return known[i].remedy;
    return status == 403 ? "; check the keys and their rights" : status == 301 || status == 307 ? "; set AWS_REGION" : "";
}

static pst_status fail_answer(const struct http_call *c, const char *path, unsigned attempts, pst_error *reterr)
{
    char code[64], times[40] = "";
    if (c->cancelled)
        return pst_fail_at(reterr, PST_ECANCELLED, path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read");
    if (attempts > 1)
        snprintf(times, sizeof(times), " (%u attempts)", attempts);
    if (!c->complete || c->status == 0)
        return pst_fail_at(reterr, PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "%s%s",
                           c->text.length ? c->text.data : "the transfer broke off", times);
    read_code(c, code, sizeof(code));
    pst_status st = c->status == 404 ? PST_ENOTFOUND : c->status == 412 ? PST_ESTALE : PST_EIO;
    if (c->status == 404 && strcmp(code, "NoSuchBucket"))
        return pst_fail_at(reterr, st, path, PST_NOWHERE, PST_NOWHERE, "no such object");
    if (c->status == 412)
        return pst_fail_at(reterr, st, path, PST_NOWHERE, PST_NOWHERE, "the object changed while it was used; start again");
    return pst_fail_at(reterr, st, path, PST_NOWHERE, PST_NOWHERE, "the server answered %d%s%s%s%s", c->status,
                       *code ? " " : "", code, times, remedy_for(code, c->status, c->temporary));
}

pst_status store_ask(struct http_call *c, const struct store_ask *ask, pst_error *reterr)
{
    struct address a;
    *c = (struct http_call){0};
    fork_watch();
    pst_status st = address_parse(&a, ask->path, reterr);
    for (unsigned attempt = 0; st == PST_OK; attempt++) {
        struct prepared p = {0};
        st = prepare(&p, c, &a, ask, reterr);
        c->method = ask->method;
        c->url = p.url.data;
        c->headers = p.headers.data;
        c->follow = !a.s3;
        c->body = ask->body;
        c->body_length = ask->body_length;
        c->cancel = ask->cancel;
        c->first_seconds = FIRST_SECONDS;
        c->failed = attempt;
        note_request();
        if (st == PST_OK)
            st = http_perform(c, reterr);
        prepared_finish(&p);
        c->url = c->headers = c->ca_file = NULL;
        if (st < 0)
            break;
        if (c->complete && c->status / 100 == 2) {
            note_success();
            break;
        }
        if (c->cancelled || !may_pass(c) || !pause_before(attempt, c->retry_after, ask->cancel))
            st = fail_answer(c, ask->path, attempt + 1, reterr);
    }
    address_finish(&a);
    return st;
}

/* ---- Ranges ---- */

/* Weak ETags promise less than the same bytes: no condition can be made of them (RFC 9110, 13.1.1), and a proxy that compresses makes strong ones weak. What
 * is within the quotes is compared in any case. */
static bool is_weak(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0;
}

static bool same_etag(const char *a, const char *b)
{
    return strcmp(a + 2 * is_weak(a), b + 2 * is_weak(b)) == 0;
}

bool store_version(const char *path, const char *etag, char ret[HTTP_ETAG])
{
    size_t n = strlen(etag), quoted = n >= 2 && etag[0] == '"' && etag[n - 1] == '"';
    ret[0] = 0;
    if (strncmp(path, "s3://", 5) || n >= HTTP_ETAG || is_weak(etag))
        return false;
    memcpy(ret, etag + quoted, n - 2 * quoted);
    ret[n - 2 * quoted] = 0;
    return ret[0] != 0;
}

struct ranged {
    const struct store_get *get;
    struct store_facts *facts;
    struct http_call *call;
    uint64_t from;  /* the byte that the present attempt began at */
    uint64_t got;   /* bytes passed on, in all attempts */
    bool judged;    /* the answer's headers were looked at */
    bool changed;   /* it is another object by now */
    bool misplaced; /* the answer has other bytes than asked */
    bool sizeless;  /* the size of the object is not known, and the answer does not have it */
    bool refused;   /* there is enough */
    bool unwanted;  /* the sink takes no more */
};

/* Checks the answer by its Content-Range, not by its status: some servers answer 200 with the right range, others with the whole object. */
static bool judge(struct ranged *r)
{
    const struct http_call *c = r->call;
    struct store_facts *f = r->facts;
    r->judged = true;
    uint64_t total = c->ranged ? c->total : c->length;
    r->changed =
        f->known && ((f->etag[0] && c->etag[0] && !same_etag(c->etag, f->etag)) || (total != UINT64_MAX && total != f->size));
    r->misplaced = c->ranged ? c->begin != r->from : r->from != 0;
    r->sizeless = !f->known && total == UINT64_MAX;
    if (r->changed || r->misplaced || r->sizeless)
        return false;
    if (!f->known) {
        f->known = true;
        snprintf(f->etag, sizeof(f->etag), "%s", c->etag);
        f->size = total;
        f->modified = c->modified;
    }
    return true;
}

static bool pass_on(void *user, const void *data, size_t length)
{
    struct ranged *r = user;
    if (!r->judged && !judge(r))
        return false;
    uint64_t left = r->get->length - r->got;
    if (length > left) { /* more than asked for: a whole object */
        length = (size_t)left;
        r->refused = true; /* after these bytes it is enough */
    }
    if (length && !r->get->sink(r->get->user, data, length)) {
        r->unwanted = true;
        return false;
    }
    r->got += length;
    if (r->get->progress)
        atomic_fetch_add(r->get->progress, length);
    return !r->refused;
}

static pst_status get_once(struct ranged *r, const struct address *a, pst_error *reterr)
{
    const struct store_get *g = r->get;
    struct prepared p = {0};
    char headers[HTTP_ETAG + 128];
    size_t n = 0;
    r->from = g->offset + r->got;
    n += (size_t)snprintf(headers, sizeof(headers), "Range: bytes=%" PRIu64 "-%" PRIu64 "\n", r->from,
                          g->offset + g->length - 1);
    if (r->facts->etag[0] && !is_weak(r->facts->etag))
        snprintf(headers + n, sizeof(headers) - n, "If-Match: %s\n", r->facts->etag);
    pst_status st = prepare(&p, r->call, a, &(struct store_ask){.method = "GET", .path = g->path, .headers = headers}, reterr);
    struct http_call *c = r->call;
    c->method = "GET";
    c->url = p.url.data;
    c->headers = p.headers.data;
    c->follow = !a->s3;
    c->sink = pass_on;
    c->user = r;
    c->cancel = g->cancel;
    c->first_seconds = FIRST_SECONDS;
    c->stall_seconds = STALL_SECONDS;
    r->judged = false;
    note_request();
    if (st == PST_OK)
        st = http_perform(c, reterr);
    prepared_finish(&p);
    c->url = c->headers = c->ca_file = NULL;
    return st;
}

static pst_status fail_changed(const struct store_get *g, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ESTALE, g->path, PST_NOWHERE, PST_NOWHERE,
                       "the object changed while it was used; start again, so that all of it is of one version");
}

/* Returns whether all bytes of the range that exist have arrived. An empty object and a range past the end are answered with 416. */
static bool is_enough(struct ranged *r)
{
    const struct http_call *c = r->call;
    struct store_facts *f = r->facts;
    if (c->complete && c->status == 416) {
        f->size = f->known ? f->size : r->from;
        f->known = true;
        return true;
    }
    if (c->complete && c->status / 100 == 2 && !r->judged && !judge(r))
        return false;
    uint64_t end = r->get->offset + r->get->length;
    return c->status / 100 == 2 && r->judged && !r->misplaced && !r->changed && !r->sizeless &&
           (r->got == r->get->length || (f->size <= end && r->get->offset + r->got >= f->size));
}

bool store_keep(void *user, const void *data, size_t length)
{
    struct store_kept *k = user;
    memcpy(k->bytes + k->length, data, length); /* store_get passes no more than was asked for */
    k->length += length;
    return true;
}

pst_status store_get(const struct store_get *get, struct store_facts *facts, pst_error *reterr)
{
    struct address a;
    struct http_call c = {0};
    struct ranged r = {.get = get, .facts = facts, .call = &c};
    fork_watch();
    pst_status st = address_parse(&a, get->path, reterr);
    unsigned attempt = 0, made = 0;
    while (st == PST_OK) {
        uint64_t before = r.got;
        st = get_once(&r, &a, reterr);
        made++;
        if (st < 0 || is_enough(&r))
            break;
        if (r.changed || (c.complete && c.status == 412)) {
            st = fail_changed(get, reterr);
            break;
        }
        if (r.unwanted) {
            st = pst_fail_at(reterr, PST_EIO, get->path, PST_NOWHERE, PST_NOWHERE, "its bytes could not be kept");
            break;
        }
        if (r.sizeless) {
            st = pst_fail_at(reterr, PST_EUNSUPPORTED, get->path, PST_NOWHERE, PST_NOWHERE,
                             "the server does not say how large the object is (neither Content-Range nor Content-Length); download it first");
            break;
        }
        attempt = r.got > before ? 0 : attempt + 1; /* progress was made: the server lives */
        bool hopeless = c.untrusted || (c.complete && c.status / 100 != 2 && !may_pass(&c));
        bool over = c.cancelled || hopeless || !pause_before(attempt, c.retry_after, get->cancel);
        c.cancelled |= over && get->cancel && atomic_load(get->cancel); /* in the pause */
        if (over) {
            if (r.misplaced && !c.cancelled)
                st =
                    pst_fail_at(reterr, PST_EIO, get->path, PST_NOWHERE, r.from, "the server sends other bytes than asked for");
            else
                st = fail_answer(&c, get->path, attempt + 1, reterr);
        }
    }
    if (st == PST_OK)
        note_success();
    if (get->ret_latency)
        *get->ret_latency = st == PST_OK && made == 1 ? c.latency : 0;
    http_call_finish(&c);
    address_finish(&a);
    return st;
}
