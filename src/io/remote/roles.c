/* roles.c: see roles.h. Only called after pst_store_use_environment: the library does not look at the environment by itself. */
#include "io/remote/roles.h"

#include "base/error.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/remote/hidden.h"
#include "io/remote/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MOST_BYTES      ((size_t)1 << 20)
#define CONNECT_SECONDS 1.0 /* where there is no service, nothing answers at this address */
#define SERVICE_SECONDS 5.0 /* one that is there may be busy: all tasks of a machine start at once */

void role_keys_finish(struct role_keys *k)
{
    char *secrets[] = {k->access_key, k->secret_key, k->session_token}, *others[] = {k->region, k->endpoint, k->ca_file};
    for (size_t i = 0; i < 3; i++) {
        hidden_free(secrets[i]);
        mem_free(others[i]);
    }
    *k = (struct role_keys){0};
}

bool role_keys_copy(struct role_keys *to, const struct role_keys *from)
{
    char *const secrets[] = {from->access_key, from->secret_key, from->session_token}, *const others[] = {from->region, from->endpoint, from->ca_file};
    *to = (struct role_keys){.expires = from->expires};
    char **const hidden[] = {&to->access_key, &to->secret_key, &to->session_token}, **const plain[] = {&to->region, &to->endpoint, &to->ca_file};
    bool ok = true;
    for (size_t i = 0; i < 3; i++) {
        ok = ok && (!secrets[i] || (*hidden[i] = hidden_copy(secrets[i], SIZE_MAX)));
        ok = ok && (!others[i] || (*plain[i] = mem_strdup(others[i])));
    }
    if (!ok)
        role_keys_finish(to);
    return ok;
}

static pst_status take(char **to, const char *value, size_t n, pst_error *reterr)
{
    if (*to || !n)
        return PST_OK;
    *to = hidden_copy(value, n);
    return *to ? PST_OK : fail_memory(reterr, "reading the keys of the store");
}

/* The same for a value that is not a secret. */
static pst_status take_plain(char **to, const char *value, size_t n, pst_error *reterr)
{
    if (*to || !n)
        return PST_OK;
    *to = mem_strndup(value, n);
    return *to ? PST_OK : fail_memory(reterr, "reading the settings of the store");
}

static pst_status take_variable(char **to, const char *name, pst_status (*take_value)(char **, const char *, size_t, pst_error *), pst_error *reterr)
{
    const char *value = getenv(name);
    return value ? take_value(to, value, strlen(value), reterr) : PST_OK;
}

const char *role_ca_file(void)
{
    static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++) {
        found = getenv(names[i]);
        found = found && *found ? found : NULL;
    }
    return found;
}

pst_status role_from_variables(struct role_keys *k, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (getenv("AWS_ACCESS_KEY_ID") && !k->access_key) { /* the three belong together */
        st = take_variable(&k->access_key, "AWS_ACCESS_KEY_ID", take, reterr);
        if (st == PST_OK)
            st = take_variable(&k->secret_key, "AWS_SECRET_ACCESS_KEY", take, reterr);
        if (st == PST_OK)
            st = take_variable(&k->session_token, "AWS_SESSION_TOKEN", take, reterr);
        if (st == PST_OK && k->access_key && !k->secret_key)
            st = pst_fail(reterr, PST_EINVAL, "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not; set both or neither");
    }
    static const char *const regions[] = {"AWS_REGION", "AWS_DEFAULT_REGION"};
    static const char *const endpoints[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};
    for (size_t i = 0; st == PST_OK && i < 2; i++)
        st = take_variable(&k->region, regions[i], take_plain, reterr);
    for (size_t i = 0; st == PST_OK && i < 2; i++)
        st = take_variable(&k->endpoint, endpoints[i], take_plain, reterr);
    if (st == PST_OK && role_ca_file())
        st = take_plain(&k->ca_file, role_ca_file(), strlen(role_ca_file()), reterr);
    return st;
}

/* ---- Files ---- */

static bool is_section(const char *line, size_t n, const char *prefix, const char *profile)
{
    size_t p = strlen(prefix), m = strlen(profile);
    if (n < 2 || line[0] != '[')
        return false;
    line++, n--;
    while (n && (line[n - 1] == ']' || line[n - 1] == ' ' || line[n - 1] == '\r'))
        n--;
    bool bare = strcmp(profile, "default") == 0 && n == m && strncmp(line, profile, m) == 0;
    return bare || (n == p + m && strncmp(line, prefix, p) == 0 && strncmp(line + p, profile, m) == 0);
}

static pst_status take_line(struct role_keys *k, struct role_keys *own, const char *line, size_t n, pst_error *reterr)
{
    const struct {
        const char *name;
        char **to;
        bool secret;
    } names[] = {{"aws_access_key_id", &own->access_key, true},
                 {"aws_secret_access_key", &own->secret_key, true},
                 {"aws_session_token", &own->session_token, true},
                 {"region", &k->region, false},
                 {"endpoint_url", &k->endpoint, false},
                 {"ca_bundle", &k->ca_file, false}};
    size_t name = strcspn(line, " \t=\n"), at = name;
    while (at < n && (line[at] == ' ' || line[at] == '\t'))
        at++;
    if (at >= n || line[at] != '=')
        return PST_OK;
    at++;
    while (at < n && (line[at] == ' ' || line[at] == '\t'))
        at++;
    while (n > at && (line[n - 1] == ' ' || line[n - 1] == '\t' || line[n - 1] == '\r'))
        n--;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i].name) == name && strncasecmp(line, names[i].name, name) == 0)
            return (names[i].secret ? take : take_plain)(names[i].to, line + at, n - at, reterr);
    return PST_OK;
}

/* A role to assume counts more than keys beside it, as with Amazon's own tools. */
static void note_other(struct role_profile *facts, const char *line)
{
    static const char *const names[] = {"role_arn", "credential_process", "sso_session", "sso_start_url"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcspn(line, " \t=\r\n") == strlen(names[i]) && strncasecmp(line, names[i], strlen(names[i])) == 0 && (!facts->other || i == 0))
            facts->other = names[i];
}

pst_status role_read_profile(struct role_keys *k, struct role_profile *facts, const char *text, const char *prefix, const char *profile, pst_error *reterr)
{
    struct role_keys own = {0};
    pst_status st = PST_OK;
    bool inside = false;
    while (st == PST_OK && *text) {
        size_t n = strcspn(text, "\n");
        if (text[0] == '[')
            inside = is_section(text, n, prefix, profile);
        else if (inside && n && text[0] != '#' && text[0] != ';')
            st = take_line(k, &own, text, n, reterr);
        facts->found |= inside;
        if (inside)
            note_other(facts, text);
        text += n + (text[n] == '\n');
    }
    if (st == PST_OK && !k->access_key && own.access_key && own.secret_key) {
        k->access_key = own.access_key;
        k->secret_key = own.secret_key;
        k->session_token = own.session_token;
        own = (struct role_keys){0};
    }
    role_keys_finish(&own);
    return st;
}

static const char *profile_name(void)
{
    const char *profile = getenv("AWS_PROFILE");
    return profile && *profile ? profile : "default";
}

static pst_status read_file(struct role_keys *k, struct role_profile *facts, const char *variable, const char *name, const char *prefix, pst_error *reterr)
{
    const char *path = getenv(variable), *home = getenv("HOME");
    char *built = path || !home ? NULL : mem_format("%s/.aws/%s", home, name);
    uint8_t *text = NULL;
    size_t length;
    path = path ? path : built;
    if (!path)
        return PST_OK;
    pst_status st = file_read_all(&text, &length, path, MOST_BYTES, reterr);
    if (st == PST_ENOTFOUND)
        st = PST_OK;
    else if (st == PST_OK)
        st = role_read_profile(k, facts, (const char *)text, prefix, profile_name(), reterr);
    if (text)
        explicit_bzero(text, length);
    mem_free(text);
    mem_free(built);
    return st;
}

pst_status role_from_files(struct role_keys *k, pst_error *reterr)
{
    const char *profile = profile_name();
    struct role_profile facts = {0};
    bool given = k->access_key != NULL;
    pst_status st = read_file(k, &facts, "AWS_SHARED_CREDENTIALS_FILE", "credentials", "", reterr);
    if (st == PST_OK)
        st = read_file(k, &facts, "AWS_CONFIG_FILE", "config", "profile ", reterr);
    if (st < 0 || given)
        return st;
    if (!facts.found && strcmp(profile, "default"))
        return pst_fail(reterr, PST_EINVAL, "there is no profile \"%.100s\" in ~/.aws/credentials and ~/.aws/config; check AWS_PROFILE", profile);
    if (facts.other && (!k->access_key || strcmp(facts.other, "role_arn") == 0))
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "the profile \"%.100s\" gets its keys by %s, which is not supported; `aws configure export-credentials --profile %.100s --format env` prints "
                        "variables with keys",
                        profile, facts.other, profile);
    return st;
}

/* ---- Services ---- */

/* "2026-01-31T23:59:59Z" */
static time_t read_time(const char *s)
{
    struct tm t = {0};
    if (!s || sscanf(s, "%d-%d-%dT%d:%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec) != 6)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon--;
    return timegm(&t);
}

static pst_status take_answer(struct role_keys *k, const char *key, const char *secret, const char *token, const char *expires, pst_error *reterr)
{
    struct role_keys new = {0}, old = {.access_key = k->access_key, .secret_key = k->secret_key, .session_token = k->session_token};
    pst_status st = take(&new.access_key, key, strlen(key), reterr);
    if (st == PST_OK)
        st = take(&new.secret_key, secret, strlen(secret), reterr);
    if (st == PST_OK && token)
        st = take(&new.session_token, token, strlen(token), reterr);
    if (st < 0) {
        role_keys_finish(&new);
        return st;
    }
    role_keys_finish(&old);
    k->access_key = new.access_key;
    k->secret_key = new.secret_key;
    k->session_token = new.session_token;
    k->expires = read_time(expires);
    return PST_OK;
}

static void wipe(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    mem_free(s);
}

pst_status role_read_answer(struct role_keys *k, const char *text, size_t length, pst_error *reterr)
{
    struct json_document d = {0};
    pst_status st = json_parse(&d, text, length, reterr);
    if (st < 0)
        return st;
    char *key = json_get_string(&d, json_find(&d, 0, "AccessKeyId"));
    char *secret = json_get_string(&d, json_find(&d, 0, "SecretAccessKey"));
    char *token = json_get_string(&d, json_find(&d, 0, "Token"));
    char *expires = json_get_string(&d, json_find(&d, 0, "Expiration"));
    st = key && secret ? take_answer(k, key, secret, token, expires, reterr)
                       : pst_fail(reterr, PST_ECORRUPT, "the service of this machine's role answered without keys");
    wipe(key);
    wipe(secret);
    wipe(token);
    mem_free(expires);
    json_finish(&d);
    return st;
}

/* One small request to a service nearby; false: there is none. */
static bool ask(struct http_call *c, const char *method, const char *url, const char *headers)
{
    *c = (struct http_call){.method = method,
                            .url = url,
                            .headers = headers,
                            .ca_file = role_ca_file(),
                            .connect_seconds = CONNECT_SECONDS,
                            .first_seconds = SERVICE_SECONDS,
                            .stall_seconds = SERVICE_SECONDS,
                            .text.secret = true};
    return http_perform(c, NULL) == PST_OK && c->complete && c->status == 200 && c->text.length;
}

static pst_status ask_container(struct role_keys *k, pst_error *reterr)
{
    const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
               *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN"), *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    struct http_call c = {0};
    uint8_t *text = NULL;
    size_t length = 0;
    if (!token && file) { /* its content changes: it is read each time */
        pst_status read = file_read_all(&text, &length, file, MOST_BYTES, reterr);
        if (read < 0)
            return read;
        text[strcspn((char *)text, "\r\n")] = 0;
        token = (const char *)text;
    }
    char *url = relative ? mem_format("http://169.254.170.2%s", relative) : mem_strdup(full);
    char *headers = token ? mem_format("Authorization: %s\n", token) : mem_strdup("Accept: application/json\n");
    pst_status st = PST_OK;
    if (!url || !headers)
        st = fail_memory(reterr, "reading the keys of the store");
    else if (ask(&c, "GET", url, headers))
        st = role_read_answer(k, c.text.data, c.text.length, reterr);
    else
        st = pst_fail(reterr, PST_EIO, "the service of this container's role does not answer");
    if (text)
        explicit_bzero(text, length);
    mem_free(text);
    http_call_finish(&c);
    mem_free(url);
    wipe(headers);
    return st;
}

static pst_status ask_machine(struct role_keys *k, pst_error *reterr)
{
    static const char roles[] = "/latest/meta-data/iam/security-credentials/";
    const char *endpoint = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"), *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    struct http_call token = {0}, role = {0}, keys = {0};
    pst_status st = PST_OK;
    bool answered = false;
    if (disabled && strcasecmp(disabled, "true") == 0)
        return PST_OK;
    endpoint = endpoint ? endpoint : "http://169.254.169.254";
    char *url = mem_format("%s/latest/api/token", endpoint), *list = mem_format("%s%s", endpoint, roles);
    char *headers = NULL, *one = NULL;
    if (!url || !list)
        st = fail_memory(reterr, "reading the keys of the store");
    else if (ask(&token, "PUT", url, "X-aws-ec2-metadata-token-ttl-seconds: 21600\n")) {
        headers = mem_format("X-aws-ec2-metadata-token: %s\n", token.text.data);
        if (headers && ask(&role, "GET", list, headers)) {
            one = mem_format("%s%.*s", list, (int)strcspn(role.text.data, "\r\n"), role.text.data);
            if ((answered = one && ask(&keys, "GET", one, headers)))
                st = role_read_answer(k, keys.text.data, keys.text.length, reterr);
        }
    }
    if (st == PST_OK && !answered && k->access_key) /* without keys before, this machine has no role */
        st = pst_fail(reterr, PST_EIO, "the service of this machine's role does not answer any more");
    http_call_finish(&token);
    http_call_finish(&role);
    http_call_finish(&keys);
    mem_free(url);
    mem_free(list);
    wipe(headers);
    mem_free(one);
    return st;
}

pst_status role_from_services(struct role_keys *k, pst_error *reterr)
{
    bool container = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") || getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    return container ? ask_container(k, reterr) : ask_machine(k, reterr);
}
