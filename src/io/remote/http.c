/* http.c: see http.h. Each connection is an easy handle in a multi handle of its own, so that the waiting is ours: the clocks
 * are exact, and a call can be cancelled. */
#include "io/remote/http.h"

#include "base/error.h"
#include "config.h"

#include <string.h>

#ifdef HAVE_CURL

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "io/stop.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

#define KEPT          64 /* idle connections */
#define BUFFER        (128L << 10) /* stays in the processor's cache until its bytes are copied */
#define FIRST_SECONDS 20
#define STALL_SECONDS 5
#define CONNECT_MS    10000L
#define WRITE_STOP_SECONDS 5.0
#define LOW_AFTER     ((uint64_t)1 << 20) /* bytes of a body, before its speed is known */
#define LOW_SECONDS   0.005
#define LOW_LEAST     65536
#define LOW_MOST      262144
#define MOST_TEXT     ((size_t)64 << 20) /* of an answer that is kept */

/* libcurl is loaded when the first remote path is used: it brings two dozen other libraries, which would slow down every start
 * of a program that reads local files. */
static struct {
    CURLcode (*global_init)(long);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *);
    void (*easy_reset)(CURL *);
    CURLcode (*easy_setopt)(CURL *, CURLoption, ...);
    CURLcode (*easy_getinfo)(CURL *, CURLINFO, ...);
    const char *(*easy_strerror)(CURLcode);
    CURLM *(*multi_init)(void);
    CURLMcode (*multi_cleanup)(CURLM *);
    CURLMcode (*multi_add_handle)(CURLM *, CURL *);
    CURLMcode (*multi_remove_handle)(CURLM *, CURL *);
    CURLMcode (*multi_perform)(CURLM *, int *);
    CURLMcode (*multi_poll)(CURLM *, struct curl_waitfd *, unsigned, int, int *);
    CURLMsg *(*multi_info_read)(CURLM *, int *);
    struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
    void (*slist_free_all)(struct curl_slist *);
    time_t (*getdate)(const char *, const time_t *);
} curl;

static bool load_curl(void)
{
    const struct {
        const char *name;
        void *to;
    } names[] = {{"curl_global_init", &curl.global_init},
                 {"curl_easy_init", &curl.easy_init},
                 {"curl_easy_cleanup", &curl.easy_cleanup},
                 {"curl_easy_reset", &curl.easy_reset},
                 {"curl_easy_setopt", &curl.easy_setopt},
                 {"curl_easy_getinfo", &curl.easy_getinfo},
                 {"curl_easy_strerror", &curl.easy_strerror},
                 {"curl_multi_init", &curl.multi_init},
                 {"curl_multi_cleanup", &curl.multi_cleanup},
                 {"curl_multi_add_handle", &curl.multi_add_handle},
                 {"curl_multi_remove_handle", &curl.multi_remove_handle},
                 {"curl_multi_perform", &curl.multi_perform},
                 {"curl_multi_poll", &curl.multi_poll},
                 {"curl_multi_info_read", &curl.multi_info_read},
                 {"curl_slist_append", &curl.slist_append},
                 {"curl_slist_free_all", &curl.slist_free_all},
                 {"curl_getdate", &curl.getdate}};
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    library = library ? library : dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof(names) / sizeof(names[0]); i++) {
        void *symbol = dlsym(library, names[i].name);
        if (!symbol)
            return false;
        memcpy(names[i].to, &symbol, sizeof(symbol));
    }
    return library && curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

struct connection {
    CURLM *multi;
    CURL *easy;
    struct connection *next;
};

static struct {
    pthread_mutex_t lock;
    struct connection *idle;
    size_t count;
    bool started, loaded;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- Connections ---- */

static void connection_close(struct connection *c)
{
    if (!c)
        return;
    if (c->easy)
        curl.easy_cleanup(c->easy);
    if (c->multi)
        curl.multi_cleanup(c->multi);
    mem_free(c);
}

static struct connection *connection_take(bool *ret_loaded)
{
    struct connection *c = NULL;
    pthread_mutex_lock(&pool.lock);
    if (!pool.started) {
        pool.started = true;
        pool.loaded = load_curl();
    }
    *ret_loaded = pool.loaded;
    if (pool.idle) {
        c = pool.idle;
        pool.idle = c->next;
        pool.count--;
    }
    pthread_mutex_unlock(&pool.lock);
    if (c || !*ret_loaded)
        return c;
    c = mem_zalloc(sizeof(*c));
    if (!c)
        return NULL;
    c->easy = fault_hit(FAULT_MEMORY, "curl") ? NULL : curl.easy_init();
    c->multi = c->easy ? curl.multi_init() : NULL;
    if (!c->multi) {
        connection_close(c);
        return NULL;
    }
    return c;
}

static void connection_return(struct connection *c)
{
    curl.easy_reset(c->easy);
    pthread_mutex_lock(&pool.lock);
    bool keep = pool.count < KEPT;
    if (keep) {
        c->next = pool.idle;
        pool.idle = c;
        pool.count++;
    }
    pthread_mutex_unlock(&pool.lock);
    if (!keep)
        connection_close(c);
}

/* ---- The answer ---- */

struct transfer {
    struct http_call *call;
    uint64_t began, last; /* when the call began, and when the last bytes arrived; nanoseconds */
    size_t sent;
    bool refused; /* by the sink */
    CURL *easy;
    uint64_t received;  /* bytes of the body… */
    uint64_t body_from; /* …since this time */
    char error[CURL_ERROR_SIZE]; /* libcurl's message about a failure; "": none */
    int low;            /* bytes that must have arrived before the thread is woken; 0: not set, 1 */
};

/* Wakes the thread when `low` bytes are there. */
static void set_low(struct transfer *t, int low)
{
    curl_socket_t s = CURL_SOCKET_BAD;
    if (low == t->low || curl.easy_getinfo(t->easy, CURLINFO_ACTIVESOCKET, &s) != CURLE_OK || s == CURL_SOCKET_BAD)
        return;
    if (setsockopt(s, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)) == 0)
        t->low = low;
}

/* While a body arrives fast, a wake-up for each packet costs more than the packet: some milliseconds' worth of bytes are waited
 * for, and never more than are still to come. Encrypted ones are counted by the TLS library alone. */
static void wait_for_more(struct transfer *t)
{
    const struct http_call *c = t->call;
    uint64_t left = c->length != UINT64_MAX && c->length > t->received ? c->length - t->received : 0;
    double seconds = (double)(t->last - t->body_from) * 1e-9, low = seconds > 0 ? LOW_SECONDS * (double)t->received / seconds : 0;
    int wanted = 1;
    if (t->low > 1 && (uint64_t)t->low <= left)
        return;
    if (t->received >= LOW_AFTER && low >= LOW_LEAST && left > 0 && strncmp(c->url, "http://", 7) == 0) {
        low = low < LOW_MOST ? low : LOW_MOST;
        wanted = low < (double)left ? (int)low : (int)left;
    }
    if (wanted > 1 || t->low > 1)
        set_low(t, wanted); /* before the next answer on this connection it is 1 again: then nothing is left */
}

static const char *value_of(const char *line, size_t n, const char *name, size_t *ret_length)
{
    size_t m = strlen(name);
    if (n <= m || strncasecmp(line, name, m) || line[m] != ':')
        return NULL;
    const char *at = line + m + 1, *end = line + n;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    *ret_length = (size_t)(end - at);
    return at;
}

static bool read_number(const char **at, const char *end, uint64_t *ret)
{
    const char *begin = *at;
    uint64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, (uint64_t)(**at - '0'), &value))
            return false;
    *ret = value;
    return *at > begin;
}

/* "bytes 0-499/1234", or with * for the size where the server does not know it */
static void read_range(struct http_call *c, const char *at, size_t n)
{
    const char *end = at + n;
    if (n < 6 || strncasecmp(at, "bytes ", 6))
        return;
    at += 6;
    c->ranged = read_number(&at, end, &c->begin) && at < end && *at++ == '-' && read_number(&at, end, &c->end) && at < end &&
                *at++ == '/' && c->begin <= c->end;
    if (c->ranged && end - at == 1 && *at == '*')
        c->total = UINT64_MAX;
    else
        c->ranged = c->ranged && read_number(&at, end, &c->total) && at == end && c->end < c->total;
}

static size_t on_header(char *line, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    struct http_call *c = t->call;
    size_t n = size * count, m;
    const char *value, *at;
    t->last = clock_ns();
    if (n > 5 && strncmp(line, "HTTP/", 5) == 0) { /* a new answer, after 100 Continue or a redirection */
        c->etag[0] = 0;
        c->ranged = false;
        c->length = UINT64_MAX;
        c->retry_after = 0;
        const char *space = memchr(line, ' ', n);
        c->status = space ? atoi(space) : 0;
    } else if ((value = value_of(line, n, "etag", &m)) && m < HTTP_ETAG) {
        memcpy(c->etag, value, m);
        c->etag[m] = 0;
    } else if ((at = value = value_of(line, n, "content-length", &m))) {
        uint64_t length;
        if (read_number(&at, value + m, &length) && at == value + m)
            c->length = length;
    } else if ((value = value_of(line, n, "content-range", &m))) {
        read_range(c, value, m);
    } else if ((at = value = value_of(line, n, "retry-after", &m))) {
        uint64_t seconds;
        if (read_number(&at, value + m, &seconds) && at == value + m)
            c->retry_after = (double)seconds;
    } else if ((value = value_of(line, n, "last-modified", &m)) && m < 64) {
        char date[64];
        memcpy(date, value, m);
        date[m] = 0;
        time_t when = curl.getdate(date, NULL);
        c->modified = when > 0 ? (int64_t)when : 0;
    }
    return n;
}

static size_t on_body(char *data, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    struct http_call *c = t->call;
    size_t n = size * count;
    t->last = clock_ns();
    t->body_from = t->received ? t->body_from : t->last;
    t->received += n;
    if (c->sink && c->status / 100 == 2) {
        wait_for_more(t);
        t->refused = !c->sink(c->user, data, n);
        return t->refused ? 0 : n;
    }
    if (c->text.length + n > MOST_TEXT)
        return 0;
    text_add_n(&c->text, data, n);
    return c->text.failed ? 0 : n;
}

static size_t on_send(char *data, size_t size, size_t count, void *user)
{
    struct transfer *t = user;
    size_t n = size * count, left = t->call->body_length - t->sent;
    n = n < left ? n : left;
    if (n)
        memcpy(data, (const char *)t->call->body + t->sent, n);
    t->sent += n;
    t->last = clock_ns();
    return n;
}

static int on_rewind(void *user, curl_off_t offset, int origin)
{
    struct transfer *t = user;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > t->call->body_length)
        return CURL_SEEKFUNC_FAIL;
    t->sent = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* ---- The call ---- */

static struct curl_slist *split_lines(const char *lines, bool *ret_failed)
{
    struct curl_slist *list = curl.slist_append(NULL, "Expect:"); /* no waiting for 100 Continue */
    *ret_failed = !list;
    while (lines && *lines && !*ret_failed) {
        size_t n = strcspn(lines, "\n");
        char *line = mem_strndup(lines, n);
        struct curl_slist *longer = line ? curl.slist_append(list, line) : NULL;
        *ret_failed = !longer;
        list = longer ? longer : list;
        if (line)
            explicit_bzero(line, n);
        mem_free(line);
        lines += n + (lines[n] == '\n');
    }
    return list;
}

/* The lines may have keys. */
static void free_lines(struct curl_slist *list)
{
    for (struct curl_slist *l = list; l; l = l->next)
        explicit_bzero(l->data, strlen(l->data));
    curl.slist_free_all(list);
}

static void set_up(CURL *easy, struct transfer *t, struct curl_slist *headers)
{
    struct http_call *c = t->call;
    curl.easy_setopt(easy, CURLOPT_URL, c->url);
    curl.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER);
    curl.easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, c->connect_seconds > 0 ? (long)(1000 * c->connect_seconds) : CONNECT_MS);
    curl.easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl.easy_setopt(easy, CURLOPT_HEADERDATA, t);
    curl.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl.easy_setopt(easy, CURLOPT_WRITEDATA, t);
    if (strcmp(c->method, "HEAD") == 0) {
        curl.easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else if (strcmp(c->method, "PUT") == 0) {
        curl.easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl.easy_setopt(easy, CURLOPT_READFUNCTION, on_send);
        curl.easy_setopt(easy, CURLOPT_READDATA, t);
        curl.easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_rewind);
        curl.easy_setopt(easy, CURLOPT_SEEKDATA, t);
        curl.easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)c->body_length);
    } else if (strcmp(c->method, "POST") == 0) {
        curl.easy_setopt(easy, CURLOPT_POST, 1L);
        curl.easy_setopt(easy, CURLOPT_POSTFIELDS, c->body ? c->body : "");
        curl.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body_length);
    } else if (strcmp(c->method, "GET")) {
        curl.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, c->method);
    }
    if (c->ca_file)
        curl.easy_setopt(easy, CURLOPT_CAINFO, c->ca_file);
    curl.easy_setopt(easy, CURLOPT_ERRORBUFFER, t->error);
    if (c->follow)
        curl.easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
}

static void say_why(struct http_call *c, const char *why)
{
    if (c->text.data)
        c->text.data[c->text.length = 0] = 0;
    text_add(&c->text, why);
}

static bool is_of_certificate(CURLcode result)
{
    return result == CURLE_PEER_FAILED_VERIFICATION || result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_ISSUER_ERROR ||
           result == CURLE_SSL_CRL_BADFILE || result == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
}

static void say_failure(struct transfer *t, CURLcode result)
{
    struct http_call *c = t->call;
    c->untrusted = is_of_certificate(result);
    say_why(c, c->untrusted && t->error[0] ? t->error : curl.easy_strerror(result));
    if (c->untrusted)
        text_add(&c->text, "; for a server with a certificate of your own, AWS_CA_BUNDLE (in C: ca_file) names the file with the certificate of its authority");
}

/* Returns whether the answer is no longer wanted. A process that is asked to stop still waits a little for uploads: one of them may be its last checkpoint. */
static bool is_given_up(const struct transfer *t)
{
    const struct http_call *c = t->call;
    if ((c->cancel && atomic_load(c->cancel)) || stop_thread_asked())
        return true;
    bool reads = strcmp(c->method, "GET") == 0 || strcmp(c->method, "HEAD") == 0;
    double silent = (double)(clock_ns() - t->last) * 1e-9;
    return silent > (reads ? STOP_SECONDS : WRITE_STOP_SECONDS) && stop_process_asked();
}

/* Returns false if the answer, or its next bytes, took too long. */
static bool within_time(const struct transfer *t, const char **ret_why)
{
    const struct http_call *c = t->call;
    uint64_t now = clock_ns();
    bool answered = c->status != 0;
    double limit = answered ? (c->stall_seconds > 0 ? c->stall_seconds : STALL_SECONDS)
                            : (c->first_seconds > 0 ? c->first_seconds : FIRST_SECONDS);
    *ret_why = answered ? "the transfer stalled" : "no answer in time";
    return (double)(now - t->last) * 1e-9 < limit;
}

static double latency_of(CURL *easy)
{
    curl_off_t sent = 0, first = 0; /* microseconds */
    bool known = curl.easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &sent) == CURLE_OK && curl.easy_getinfo(easy, CURLINFO_STARTTRANSFER_TIME_T, &first) == CURLE_OK;
    return known && first > sent ? (double)(first - sent) * 1e-6 : 0;
}

static void run(struct connection *conn, struct transfer *t)
{
    struct http_call *c = t->call;
    int running = 1;
    while (running) {
        const char *why;
        if (curl.multi_perform(conn->multi, &running) != CURLM_OK) {
            say_why(c, "libcurl failed");
            return;
        }
        if (!running)
            break;
        if (is_given_up(t)) {
            c->cancelled = true;
            return;
        }
        if (!within_time(t, &why)) {
            say_why(c, why);
            return;
        }
        int ready = 0;
        curl.multi_poll(conn->multi, NULL, 0, 50, &ready);
        if (!ready && t->low > 1)
            set_low(t, 1); /* it is not so fast any more */
    }
    int left;
    CURLMsg *message;
    while ((message = curl.multi_info_read(conn->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        c->complete = message->data.result == CURLE_OK;
        c->latency = c->complete ? latency_of(t->easy) : 0;
        if (!c->complete && !t->refused)
            say_failure(t, message->data.result);
    }
}

pst_status http_perform(struct http_call *c, pst_error *reterr)
{
    struct transfer t = {.call = c, .began = clock_ns()};
    bool failed;
    t.last = t.began;
    c->status = 0;
    c->complete = c->cancelled = c->ranged = c->untrusted = false;
    c->length = UINT64_MAX;
    c->etag[0] = 0;
    if (c->text.data)
        c->text.data[c->text.length = 0] = 0;
    bool loaded;
    struct connection *conn = connection_take(&loaded);
    if (!loaded)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, c->url, PST_NOWHERE, PST_NOWHERE,
                           "reading from the network needs libcurl, which is not installed (Debian: libcurl4)");
    if (!conn)
        return fail_memory(reterr, "opening a connection");
    struct curl_slist *headers = split_lines(c->headers, &failed);
    if (!failed) {
        t.easy = conn->easy;
        set_up(conn->easy, &t, headers);
        failed = curl.multi_add_handle(conn->multi, conn->easy) != CURLM_OK;
    }
    if (failed) {
        free_lines(headers);
        connection_close(conn);
        return fail_memory(reterr, "opening a connection");
    }
    run(conn, &t);
    curl.multi_remove_handle(conn->multi, conn->easy);
    if (c->complete)
        connection_return(conn);
    else
        connection_close(conn); /* whatever is left of the answer must not be read as the next one */
    free_lines(headers);
    return c->text.failed ? fail_memory(reterr, "reading an answer") : PST_OK;
}

void http_fork(enum fork_phase phase)
{
    fork_lock(&pool.lock, phase);
    if (phase == FORK_CHILD) { /* the parent's connections are left alone */
        pool.idle = NULL;
        pool.count = 0;
    }
}

#else

void http_fork(enum fork_phase phase)
{
    (void)phase;
}

pst_status http_perform(struct http_call *c, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_EUNSUPPORTED, c->url, PST_NOWHERE, PST_NOWHERE,
                       "this build cannot read from the network: it lacks libcurl");
}

#endif

void http_call_finish(struct http_call *c)
{
    text_finish(&c->text);
}
