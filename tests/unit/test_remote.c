/* test_remote.c: the parts of remote access that are functions of their input: hashes, signatures, addresses, lists, profiles; and what
 * becomes of requests and of the room of a cache without a server. */
#include "harness.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/secret.h"
#include "io/mapping.h"
#include "io/remote/address.h"
#include "io/remote/blocks.h"
#include "io/remote/listing.h"
#include "io/remote/object_inside.h"
#include "io/remote/tuner.h"
#include "io/remote/roles.h"
#include "io/remote/settings.h"
#include "io/remote/sha256.h"
#include "io/remote/sigv4.h"
#include "io/stop.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void check_sha(const char *text, size_t times, const char *expected)
{
    struct sha256 s;
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];
    sha256_init(&s);
    for (size_t i = 0; i < times; i++)
        sha256_add(&s, text, strlen(text));
    sha256_finish(&s, digest);
    sha256_to_hex(digest, hex);
    CHECK_MSG(strcmp(hex, expected) == 0, "%.20s: %s", text, hex);
}

/* The examples of FIPS 180-4 and RFC 4231. */
static void hashes(void)
{
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX];
    check_sha("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, digest);
    sha256_to_hex(digest, hex);
    CHECK(strcmp(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843") == 0);
    char key[131];
    memset(key, 0xaa, sizeof(key));
    hmac_sha256(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54, digest);
    sha256_to_hex(digest, hex);
    CHECK(strcmp(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54") == 0);
}

/* The example that Amazon's description of the signature gives for a list. */
static void signature(void)
{
    struct text headers = {0};
    char empty[SHA256_HEX];
    sha256_hex("", 0, empty);
    struct sigv4_key key = {
        .access_key = "AKIAIOSFODNN7EXAMPLE", .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", .region = "us-east-1"};
    sigv4_sign(&headers,
               &(struct sigv4_request){.method = "GET",
                                       .host = "examplebucket.s3.amazonaws.com",
                                       .path = "/",
                                       .query = "max-keys=2&prefix=J",
                                       .payload_hash = empty},
               &key, 1369353600);
    CHECK(strstr(headers.data, "x-amz-date: 20130524T000000Z\n"));
    CHECK(strstr(headers.data, "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
    CHECK(!strstr(headers.data, key.secret_key));
    text_finish(&headers);
}

static void check_version(const char *path, const char *etag, const char *expected)
{
    char version[HTTP_ETAG];
    CHECK_MSG(store_version(path, etag, version) == (*expected != 0) && strcmp(version, expected) == 0, "%s: %s", etag, version);
}

/* An ETag of a bucket stands for the bytes of an object; one of a web server, and a weak one, do not. */
static void versions(void)
{
    check_version("s3://b/k", "\"d41d8cd9-2\"", "d41d8cd9-2");
    check_version("s3://b/k", "d41d8cd9", "d41d8cd9");
    check_version("s3://b/k", "W/\"d41d8cd9\"", "");
    check_version("s3://b/k", "", "");
    check_version("s3://b/k", "\"\"", "");
    check_version("http://h/k", "\"d41d8cd9\"", "");
}

static void addresses(void)
{
    struct address a;
    struct text t = {0};
    pst_error e;
    CHECK(address_is_remote("s3://b/k") && address_is_remote("https://h/x") && !address_is_remote("a/s3://b") &&
          !address_is_remote("s3:x"));
    CHECK(address_parse(&a, "s3://my-bucket/a b/c", &e) == PST_OK);
    CHECK(a.s3 && strcmp(a.bucket, "my-bucket") == 0 && strcmp(a.key, "a b/c") == 0);
    address_finish(&a);
    CHECK(address_parse(&a, "s3://bucket", &e) == PST_OK && *a.key == 0);
    address_finish(&a);
    CHECK(address_parse(&a, "https://host:9000/x?y=1", &e) == PST_OK && !a.s3);
    CHECK(strcmp(a.host, "https://host:9000") == 0 && strcmp(a.key, "/x?y=1") == 0);
    address_finish(&a);
    static const char *const bad[] = {"s3://", "s3:///key", "s3://ab/k", "s3://b@cket/k", "https://", "http:///x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_MSG(address_parse(&a, bad[i], &e) == PST_EINVAL, "%s", bad[i]);
    address_encode(&t, "a b/+=%\xc3\xbc~", 10, true);
    CHECK_MSG(strcmp(t.data, "a%20b/%2B%3D%25%C3%BC~") == 0, "%s", t.data);
    text_finish(&t);
}

/* The key of a copy: any signature is the same object, any other parameter another one. */
static void signed_addresses(void)
{
    static const char *const same[][2] = {
        {"https://h/k?X-Amz-Date=1&X-Amz-Signature=a", "https://h/k?x-amz-signature=b&X-Amz-Expires=9&X-Amz-Credential=c"},
        {"https://h/k?id=7&X-Goog-Signature=a&X-Goog-Date=1", "https://h/k?X-Goog-Date=2&id=7&X-Goog-Signature=b"},
        {"https://h/k?versionId=3&Signature=a&Expires=1&AWSAccessKeyId=x", "https://h/k?versionId=3&Signature=b&Expires=2&AWSAccessKeyId=y"},
        {"https://h/k?sv=1&se=2&sp=r&sig=a", "https://h/k?sv=1&se=3&sp=r&sig=b"},
        {"https://h/k?X-Amz-Signature=a", "https://h/k"}};
    static const char *const other[][2] = {{"https://h/k?id=1", "https://h/k?id=2"},
                                           {"https://h/k?id=1", "https://h/k"},
                                           {"https://h/k?id=1&sig=a", "https://h/k?id=2&sig=a"},
                                           {"https://h/k?Expires=1", "https://h/k?Expires=2"},
                                           {"https://h/k?a=1&b=2", "https://h/k?b=2&a=1"},
                                           {"s3://bucket/k?sig=1", "s3://bucket/k?sig=2"}};
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        CHECK_MSG(address_hash_unsigned(same[i][0]) == address_hash_unsigned(same[i][1]), "%s", same[i][0]);
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        CHECK_MSG(address_hash_unsigned(other[i][0]) != address_hash_unsigned(other[i][1]), "%s", other[i][0]);
}

struct seen {
    char text[512];
    size_t count;
};

static pst_status see(void *user, struct listed *l, pst_error *reterr)
{
    struct seen *s = user;
    size_t n = strlen(s->text);
    (void)reterr;
    snprintf(s->text + n, sizeof(s->text) - n, "%s %s %llu %s|", l->folder ? "folder" : "object", l->path,
             (unsigned long long)l->facts.size, l->facts.etag);
    s->count++;
    return PST_OK;
}

static void lists(void)
{
    static const char page[] =
        "<?xml "
        "version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>1&amp;2</"
        "NextContinuationToken>"
        "<Contents><Key>a&amp;b &lt;c&gt; &#x65e5;.jpg</Key><LastModified>2026-01-31T12:00:00.000Z</LastModified>"
        "<ETag>&quot;e1&quot;</ETag><Size>18446744073709551615</Size></Contents><Contents><Size>1</Size></Contents>"
        "<CommonPrefixes><Prefix>x/y/</Prefix></CommonPrefixes></ListBucketResult>";
    struct seen s = {0};
    char *token = NULL;
    pst_error e;
    CHECK(listing_read(page, sizeof(page) - 1, "b", see, &s, &token, &e) == PST_OK);
    CHECK_MSG(strcmp(s.text, "object s3://b/a&b <c> \xe6\x97\xa5.jpg 18446744073709551615 \"e1\"|folder s3://b/x/y 0 |") == 0,
              "%s", s.text);
    CHECK(token && strcmp(token, "1&2") == 0);
    mem_free(token);
    for (size_t n = 0; n < sizeof(page) - 1; n++) { /* every truncation ends well: an error, or what was whole */
        char *cut = mem_strndup(page, n);
        s = (struct seen){0};
        token = NULL;
        pst_status st = listing_read(cut, n, "b", see, &s, &token, &e);
        CHECK(st == PST_OK || st == PST_ECORRUPT);
        mem_free(token);
        mem_free(cut);
    }
}

static void profiles(void)
{
    static const char credentials[] =
        "# keys\n[default]\naws_access_key_id = first\naws_secret_access_key = one\n\n[other]\r\n"
        "aws_access_key_id=second\r\naws_secret_access_key= t=w/o+ \r\naws_session_token = t\r\n[half]\n"
        "aws_access_key_id = third\n";
    static const char config[] = "[default]\nregion = eu-1\n[profile other]\nregion=us-2\nendpoint_url = http://x\n";
    struct role_keys k = {0};
    struct role_profile facts = {0};
    pst_error e;
    CHECK(role_read_profile(&k, &facts, credentials, "", "nobody", &e) == PST_OK && !facts.found && !k.access_key);
    CHECK(role_read_profile(&k, &facts, "[profile x]\nsource_profile = y\nrole_arn=z\n[profile w]\ncredential_process=v\n", "profile ", "x", &e) == PST_OK);
    CHECK(facts.found && facts.other && strcmp(facts.other, "role_arn") == 0);
    CHECK(role_read_profile(&k, &facts, credentials, "", "other", &e) == PST_OK);
    CHECK(role_read_profile(&k, &facts, config, "profile ", "other", &e) == PST_OK);
    CHECK(strcmp(k.access_key, "second") == 0 && strcmp(k.secret_key, "t=w/o+") == 0 && strcmp(k.session_token, "t") == 0);
    CHECK(strcmp(k.region, "us-2") == 0 && strcmp(k.endpoint, "http://x") == 0);
    role_keys_finish(&k);
    CHECK(role_read_profile(&k, &facts, credentials, "", "half", &e) == PST_OK && !k.access_key);
    CHECK(role_read_profile(&k, &facts, config, "profile ", "default", &e) == PST_OK && strcmp(k.region, "eu-1") == 0);
    role_keys_finish(&k);
    static const char answer[] =
        "{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"2026-01-31T00:00:00Z\"}";
    CHECK(role_read_answer(&k, answer, sizeof(answer) - 1, &e) == PST_OK && k.expires == 1769817600 &&
          strcmp(k.session_token, "t") == 0);
    CHECK(role_read_answer(&k, "{}", 2, &e) == PST_ECORRUPT && strcmp(k.access_key, "a") == 0);
    role_keys_finish(&k);
}

/* Whether the pages of an address are left out of core dumps. */
static bool is_undumped(const void *at)
{
    char line[512];
    bool inside = false, found = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && fgets(line, sizeof(line), f)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
            inside = (uintptr_t)at >= begin && (uintptr_t)at < end;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, " dd") != NULL;
    }
    if (f)
        fclose(f);
    return found;
}

/* Keys lie where no core dump has them, also long ones and many; they are wiped when they are freed. */
static void hidden_keys(void)
{
    enum { KEYS = 100, LONG = 10000 };
    struct role_keys k[KEYS] = {{0}};
    static char token[LONG + 1];
    char *plain = mem_strdup("x");
    memset(token, 't', LONG);
    for (size_t i = 0; i < KEYS; i++) {
        struct role_keys from = {.secret_key = (char *)"secret", .session_token = i % 10 ? NULL : token};
        CHECK(role_keys_copy(&k[i], &from) && strcmp(k[i].secret_key, "secret") == 0 && is_undumped(k[i].secret_key));
        CHECK(!from.session_token || (strcmp(k[i].session_token, token) == 0 && is_undumped(k[i].session_token + LONG - 1)));
    }
    CHECK(!is_undumped(plain));
    const char *freed = k[0].secret_key;
    role_keys_finish(&k[0]);
    CHECK(memcmp(freed, "\0\0\0\0\0\0", 6) == 0);
    for (size_t i = 1; i < KEYS; i++)
        role_keys_finish(&k[i]);
    mem_free(plain);
}

static void check_shown(const char *text, const char *expected)
{
    char shown[1024];
    secret_hide(shown, text);
    CHECK_MSG(strcmp(shown, expected) == 0, "%s: %s", text, shown);
    CHECK_MSG(secret_shows(text) == (strcmp(text, expected) != 0) && !secret_shows(shown), "%s", text);
}

/* Signatures and passwords are hidden, also where the address is quoted and has characters that would end it otherwise. */
static void secrets(void)
{
    check_shown("tfrecord s3://b/k?x | batch 4", "tfrecord s3://b/k?x | batch 4");
    check_shown("tfrecord https://h/k | batch 4", "tfrecord https://h/k | batch 4");
    check_shown("tfrecord https://h/k?sig=1 | batch 4", "tfrecord https://h/k?… | batch 4");
    check_shown("tfrecord 'https://h/k?a=1,b|c d&sig=\"x' | batch 4", "tfrecord 'https://h/k?…' | batch 4");
    check_shown("tfrecord \"http://h/k?a=\\\"1|b'c\" | shuffle", "tfrecord \"http://h/k?…\" | shuffle");
    check_shown("f path=' x http://me:pw@h/k?s, http://h/z?t' | batch 4", "f path=' x http://…@h/k?…' | batch 4");
    check_shown("# don't\ntfrecord 'http://h/k?a|b' | batch 4", "# don't\ntfrecord 'http://h/k?…' | batch 4");
    check_shown("http://h/k?a,b\nnext", "http://h/k?…\nnext");
    CHECK(!secret_shows("http://h/k?****") && !secret_shows("http://h/k?…"));
    pst_error e;
    pst_fail(&e, PST_EINVAL, "no such list: %s", "https://h/k?sig=geheim");
    CHECK_MSG(strcmp(e.message, "no such list: https://h/k?…") == 0, "%s", e.message);
    CHECK(secret_free_length("https://h/k?sig") == 11 && secret_free_length("a?b") == 3 && secret_free_length("s3://b/k?x") == 10);
}

/* What the store has says nothing of a local copy that was cut short. */
static void cut_copies(void)
{
    struct mapping m = {.length = 5000};
    pst_error e = {0};
    CHECK(mapping_fail(&m, "s3://bucket/shard?x=secret", 3, 40, &e) == PST_EIO);
    CHECK_MSG(strstr(e.message, "local copy") && strstr(e.message, "open it again"), "%s", e.message);
    CHECK(e.record == 3 && e.offset == 40);
}

/* ---- Requests and room ---- */

#define MOST ((uint64_t)1 << 20)

/* An object of 8 blocks with a copy in a folder that has room for 16; nothing of it is there. */
static struct object *open_object(const char *folder, uint64_t most)
{
    struct room room = {.folder = (char *)(uintptr_t)test_path(folder), .most = most};
    struct store_facts facts = {.known = true, .size = 8 * CACHE_BLOCK, .etag = "\"e\""};
    struct object *o = NULL;
    char path[64];
    pst_error e;
    snprintf(path, sizeof(path), "http://127.0.0.1:9/%s", folder);
    return CHECK_STATUS(object_open(&o, path, &facts, &room, &e), PST_OK, &e) ? o : NULL;
}

/* A second request whose first one has failed is dropped from the queue: its blocks can be asked for again, and their room is free. */
static void dropped_twins(void)
{
    struct object *o = open_object("dropped", MOST);
    REQUIRE(o);
    struct part *p = part_make(o, 0, 8, NOW);
    object_mark(o, 0, 8, COMING);
    o->refs++; /* it is looked at after it was left */
    p->second = true;
    p->taken = cache_price(&o->cache, 0, 8);
    CHECK(room_take(&o->cache.room, p->taken) && !room_take(&o->cache.room, MOST / 2));
    test_fault_arm(FAULT_THREAD, 0, true);
    CHECK(!parts_add(p)); /* no thread: it stays in the queue */
    test_fault_clear();
    parts_leave(o);
    for (size_t i = 0; i < 8; i++)
        CHECK_INT(o->states[i], ABSENT);
    CHECK(room_take(&o->cache.room, MOST / 2));
    parts_release(o);
}

/* What a second request has inherited from a first one that failed is still there when it has begun. */
static void inherited_room(void)
{
    struct object *o = open_object("inherited", MOST);
    REQUIRE(o);
    struct part *p = part_make(o, 0, 8, NOW);
    pst_error e;
    p->second = true;
    p->taken = cache_price(&o->cache, 0, 8);
    atomic_store(&p->cancel, true);
    CHECK(room_take(&o->cache.room, p->taken));
    CHECK(part_bring(p, &e) < 0);
    CHECK_INT(p->taken, 8 * CACHE_BLOCK);
    part_give_room(p);
    CHECK(room_take(&o->cache.room, MOST / 2 + 8 * 4096));
    mem_free(p);
    object_close(o);
}

static void *need_all(void *o)
{
    pst_error e;
    CHECK_STATUS(object_need(o, 0, 8 * CACHE_BLOCK, &e), PST_OK, &e);
    return NULL;
}

static const char *find_map(const char *folder)
{
    static char path[4096];
    DIR *d = opendir(test_path(folder));
    path[0] = 0;
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strstr(entry->d_name, ".map"))
            snprintf(path, sizeof(path), "%s/%s", test_path(folder), entry->d_name);
    if (d)
        closedir(d);
    return path;
}

/* A request that waits for another process gets no second one beside it, which nobody would have taken room for. */
static void waiting_requests(void)
{
    struct object *o = open_object("waiting", MOST);
    REQUIRE(o);
    int other = open(find_map("waiting"), O_RDWR | O_CLOEXEC); /* its locks are those of another process */
    pthread_t reader;
    static uint8_t zeros[CACHE_BLOCK];
    CHECK(other >= 0 && room_lock(other, F_WRLCK, 64, 32, false) == 0);
    CHECK(pthread_create(&reader, NULL, need_all, o) == 0);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 700000000}, NULL);
    pthread_mutex_lock(&o->lock);
    CHECK_MSG(o->active && !o->active->next && !o->active->twin, "there is a second request");
    pthread_mutex_unlock(&o->lock);
    for (size_t i = 0; i < 8; i++) /* the other process has stored them: a sparse file is all zeros */
        atomic_store(&o->cache.sums[i], cache_sum(crc32c_extend(0, zeros, sizeof(zeros))));
    close(other);
    pthread_join(reader, NULL);
    object_close(o);
}

static const char *find_key(const char *folder)
{
    static char key[17];
    const char *map = find_map(folder), *slash = strrchr(map, '/');
    snprintf(key, sizeof(key), "%.16s", slash ? slash + 1 : "");
    return key;
}

/* A copy that a program removes gives its room to the processes that use the folder: to this one, and, if another one removes it, too. */
static void removed_copies(void)
{
    for (int other = 0; other < 2; other++) {
        char folder[4096], elsewhere[4096];
        pst_error e;
        bool removed = false;
        int status = 0;
        snprintf(folder, sizeof(folder), "%s", test_path(other ? "removed-by-another" : "removed"));
        snprintf(elsewhere, sizeof(elsewhere), "%s", test_path("elsewhere"));
        struct room room = {.folder = folder, .most = MOST};
        struct object *o = open_object(other ? "removed-by-another" : "removed", MOST);
        REQUIRE(o);
        uint8_t bytes[CACHE_BLOCK] = {1};
        object_keep_first(o, bytes, sizeof(bytes));
        object_close(o);
        while (room_take(&room, 4096))
            ;
        const char *key = find_key(other ? "removed-by-another" : "removed");
        pid_t child = other ? fork() : -1;
        if (child == 0) {
            (void)room_take(&(struct room){.folder = elsewhere, .most = MOST}, 1); /* it has looked at another folder */
            _exit(pst_store_cache_remove(folder, key, &removed, &e) == PST_OK && removed ? 0 : 1);
        }
        if (other)
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            CHECK(CHECK_STATUS(pst_store_cache_remove(folder, key, &removed, &e), PST_OK, &e) && removed);
        CHECK(room_take(&room, CACHE_BLOCK));
        CHECK(!room_take(&room, MOST / 2));
    }
}

/* What a process has claimed, and the copies that it uses, are free when it has ended, though a child that it forked lives on; the child holds what it uses. */
static void claims_of_the_dead(void)
{
    int pipes[2], status = 0;
    char byte = 0;
    (void)test_path("claims"); /* one folder for all of them */
    REQUIRE(pipe(pipes) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct object *o = open_object("claims", MOST);
        bool ok = o && cache_claim(&o->cache, 0, 8);
        pid_t child = ok ? fork() : -1;
        if (child == 0) { /* lives until the test has looked */
            close(pipes[1]);
            (void)read(pipes[0], &byte, 1);
            _exit(0);
        }
        _exit(child > 0 ? 0 : 1);
    }
    close(pipes[0]);
    CHECK(waitpid(parent, &status, 0) == parent && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct object *o = open_object("claims", MOST);
    REQUIRE(o);
    CHECK_MSG(cache_claim(&o->cache, 0, 8), "the claim outlives its process");
    cache_release(&o->cache, 0, 8);
    object_close(o);
    int map = open(find_map("claims"), O_RDWR | O_CLOEXEC);
    CHECK_MSG(map >= 0 && room_lock(map, F_WRLCK, 16, 16, false) < 0, "the child does not hold its copy");
    close(pipes[1]);
    close(map);
}

static _Atomic bool locking_ends;

static void *keep_locking(void *unused)
{
    (void)unused;
    while (!atomic_load(&locking_ends)) {
        struct room room;
        pst_store_stop(NULL, NULL);
        settings_cache(&room);
        mem_free(room.folder);
        blocks_expect(0);
    }
    return NULL;
}

static bool asks_for_nothing(void *unused)
{
    (void)unused;
    return false;
}

/* A child finds every lock free, whatever the threads of its parent were doing. */
static void forks_at_any_time(void)
{
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, keep_locking, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            struct room room;
            alarm(60); /* only a child that hangs sees its end */
            pst_store_stop(asks_for_nothing, NULL);
            settings_cache(&room);
            _exit(stop_process_asked() || blocks_most_bytes() == 0);
        }
        if (!CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0))
            break;
    }
    atomic_store(&locking_ends, true);
    pthread_join(thread, NULL);
}

/* As if a thread had taken it from the queue. */
static struct part *begin_part(struct object *o, size_t first, size_t count, enum urgency urgency)
{
    struct part *p = part_make(o, first, count, urgency);
    pthread_mutex_lock(&o->lock);
    object_mark(o, first, count, COMING);
    o->refs++;
    p->next = o->active;
    o->active = p;
    pthread_mutex_unlock(&o->lock);
    return p;
}

/* Whether the object's next block is, or will be, fetched ahead: a thread of another test may have taken it. Called with the lock of `filling`. */
static bool is_fetched(struct object *o, void *wanted)
{
    pthread_mutex_lock(&o->lock);
    bool found = o == wanted && (o->filling || o->states[0] == COMING);
    pthread_mutex_unlock(&o->lock);
    return found;
}

/* An object that is opened again while a request of its last user ends: what that one does not bring is fetched ahead. */
static void reopened_objects(void)
{
    struct object *o = open_object("reopened", MOST);
    REQUIRE(o);
    pst_error e = {.status = PST_ECANCELLED};
    struct part *p = begin_part(o, 0, 8, SOMETIME);
    o->until = 8;
    atomic_store(&o->all, true);
    test_fault_arm(FAULT_THREAD, 0, true);
    part_finish(p, PST_ECANCELLED, &e);
    test_fault_clear();
    CHECK(parts_visit(is_fetched, o));
    pthread_mutex_lock(&o->lock);
    CHECK_INT(o->failures, 0);
    pthread_mutex_unlock(&o->lock);
    object_close(o);
}

/* Who waits for a block that another request loses is not told why a third one failed: it asks again. */
static void errors_of_others(void)
{
    struct object *o = open_object("others", MOST);
    REQUIRE(o);
    pst_error e = {.status = PST_EIO, .message = "of the others"};
    struct part *p = begin_part(o, 0, 8, SOON);
    pthread_t reader;
    bool asked = false;
    CHECK(pthread_create(&reader, NULL, need_all, o) == 0);
    test_wait_until_idle(); /* it waits for `p` */
    part_finish(begin_part(o, 4, 1, SOON), PST_EIO, &e);
    pthread_mutex_lock(&o->lock);
    CHECK(o->failures == 1 && o->states[0] == COMING);
    object_mark(o, 1, 7, HERE);
    pthread_mutex_unlock(&o->lock);
    part_finish(p, PST_ECANCELLED, &e);
    for (unsigned i = 0; i < 3000 && !asked; i++) {
        pthread_mutex_lock(&o->lock);
        asked = o->states[0] == COMING;
        pthread_mutex_unlock(&o->lock);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    CHECK(asked);
    pthread_mutex_lock(&o->lock);
    object_mark(o, 0, 1, HERE);
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(reader, NULL);
    object_close(o);
}

static void *take_much(void *folder)
{
    struct room room = {.folder = folder, .most = MOST};
    static bool taken;
    taken = room_take(&room, MOST / 4);
    return &taken;
}

/* The process that counts the folder is killed while others wait for it: one of them counts. */
static void interrupted_count(void)
{
    static uint8_t bytes[MOST];
    char folder[4096], path[4200];
    pthread_t waiter;
    void *taken;
    snprintf(folder, sizeof(folder), "%s", test_path("counted"));
    CHECK(mkdir(folder, 0700) == 0);
    memset(bytes, 1, sizeof(bytes));
    snprintf(path, sizeof(path), "%s/x.data", folder);
    test_write_file(path, bytes, sizeof(bytes));
    snprintf(path, sizeof(path), "%s/room", folder);
    int other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(other >= 0 && room_lock(other, F_WRLCK, 0, 1, false) == 0);
    CHECK(pthread_create(&waiter, NULL, take_much, folder) == 0);
    test_wait_until_idle();
    close(other); /* without having counted */
    CHECK(pthread_join(waiter, &taken) == 0 && !*(bool *)taken);
}

/* ---- Blocks in memory ---- */

static struct object *open_private(const char *name, size_t blocks)
{
    struct store_facts facts = {.known = true, .size = blocks * CACHE_BLOCK - 100, .etag = "\"e\""};
    struct object *o = NULL;
    char path[64];
    pst_error e;
    snprintf(path, sizeof(path), "http://127.0.0.1:9/%s", name);
    return CHECK_STATUS(object_open(&o, path, &facts, &(struct room){0}, &e), PST_OK, &e) ? o : NULL;
}

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 7 + offset / CACHE_BLOCK);
}

/* As if the block had arrived. */
static void put_block(struct object *o, size_t i)
{
    uint8_t *block = blocks_take();
    for (size_t k = 0; block && k < CACHE_BLOCK; k++)
        block[k] = byte_at((uint64_t)i * CACHE_BLOCK + k);
    CHECK(block != NULL);
    object_mark(o, i, 1, COMING);
    object_attach(o, i, &block, false);
    object_mark(o, i, 1, HERE);
}

/* Reads into two pieces; false: other bytes. */
static bool reads_right(struct object *o, uint64_t offset, size_t length)
{
    static uint8_t bytes[4 * CACHE_BLOCK];
    struct iovec pieces[2] = {{bytes, length / 3}, {bytes + length / 3, length - length / 3}};
    size_t got;
    bool in_file;
    pst_error e;
    bool ok = CHECK_STATUS(object_read(o, pieces, 2, offset, &got, &in_file, &e), PST_OK, &e) && CHECK(!in_file);
    uint64_t size = object_size(o), want = offset + length < size ? length : size - offset;
    ok &= got == want;
    for (size_t i = 0; ok && i < got; i++)
        ok = bytes[i] == byte_at(offset + i);
    return ok;
}

/* The connections that a store gets which brings `each` bytes per second over one of them, and `all` over any number. */
static unsigned tuned(double each, double whole, unsigned most)
{
    struct tuner t = {0};
    double bytes = 0;
    unsigned n = TUNER_LEAST;
    for (uint64_t now = 1; now < 60; now++) {
        double rate = n * each < whole ? n * each : whole;
        bytes += rate / 2;
        n = tuner_step(&t, now * 500000000, (uint64_t)bytes, true, most);
    }
    return n;
}

/* Connections are added while they bring more, within bounds, and not while there is nothing to fetch. */
static void tuned_connections(void)
{
    struct tuner idle = {0};
    CHECK(tuned(100e6, 400e6, TUNER_MOST) == 8); /* four of them would do */
    CHECK(tuned(10e6, 105e6, TUNER_MOST) == 12);
    CHECK(tuned(10e6, 1e9, TUNER_MOST) == TUNER_MOST);
    CHECK(tuned(10e6, 1e9, 16) == 16 && tuned(10e6, 1e9, TUNER_LEAST) == TUNER_LEAST);
    for (uint64_t now = 1; now < 20; now++)
        CHECK(tuner_step(&idle, now * 1000000000, now * 1000000, now % 2 == 0, TUNER_MOST) == TUNER_LEAST);
}

/* The size of requests after 40 of them, each of whose bytes arrive at `each` per second; every fifth one was queued at the server for a second. */
static uint64_t tuned_size(double latency, double each)
{
    struct tuner t = {0};
    for (int i = 0; i < 40; i++)
        tuner_note(&t, latency + (i % 5 == 0), (double)TUNER_PART / each, TUNER_PART);
    return tuner_part(&t) >> 20;
}

/* Requests are so large that their latency hardly matters, and as many as there are connections take half of the memory. */
static void tuned_requests(void)
{
    struct tuner t = {0};
    CHECK_INT(tuner_part(&t), TUNER_PART);
    CHECK_INT(tuned_size(0.0005, 1e9), 8); /* the same machine */
    CHECK_INT(tuned_size(0.03, 12e6), 8);
    CHECK_INT(tuned_size(0.03, 80e6), 32); /* 17 MB */
    CHECK_INT(tuned_size(0.1, 20e6), 16);
    CHECK_INT(tuned_size(1, 100e6), 32);
    for (int i = 0; i < 8; i++) /* small ones show the latency, and no rate */
        tuner_note(&t, 0.2, 1e-6, 65536);
    CHECK_INT(tuner_part(&t), TUNER_PART);
    tuner_note(&t, 0.2, 0.5, 8 << 20);
    CHECK_INT(tuner_part(&t) >> 20, 32);
    for (int i = 0; i < 8; i++) /* the server came nearer */
        tuner_note(&t, 0.001, 0.5, 8 << 20);
    CHECK_INT(tuner_part(&t), TUNER_PART);
    for (int i = 0; i < 33; i++) /* and went away again */
        tuner_note(&t, 0.2, 0.5, 8 << 20);
    CHECK_INT(tuner_part(&t) >> 20, 32);
    CHECK_INT(tuner_part_within(32 << 20, 8, 512 << 20) >> 20, 32);
    CHECK_INT(tuner_part_within(32 << 20, 12, 512 << 20) >> 20, 16);
    CHECK_INT(tuner_part_within(TUNER_PART, 8, 16 << 20) >> 20, 1);
    CHECK_INT(tuner_part_within(TUNER_PART, 32, 16 << 20) >> 20, 1);
}

/* What does not fit is dropped when its last byte was read, and not before. */
static void blocks_that_were_read(void)
{
    enum { COUNT = 250, POOL = 256 };
    blocks_limit(POOL * CACHE_BLOCK);
    struct object *o = open_private("read", COUNT);
    REQUIRE(o && o->memory);
    for (size_t i = 0; i < COUNT; i++)
        put_block(o, i);
    CHECK(!object_is_here(o) && reads_right(o, 0, 3 * CACHE_BLOCK) && o->states[0] == HERE); /* it is only opened */
    object_expect_sequential(o);
    uint64_t size = object_size(o), step = 99999;
    for (uint64_t at = 0; at < size; at += step)
        CHECK_MSG(reads_right(o, at, step), "at %llu", (unsigned long long)at);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_MSG(o->states[i] == PASSED, "block %zu is %d", i, o->states[i]);
    CHECK(o->in_memory == 0 && o->here == 0 && o->ended);
    put_block(o, 150);
    CHECK(reads_right(o, 150 * CACHE_BLOCK, CACHE_BLOCK - 1) && o->states[150] == HERE);
    CHECK(reads_right(o, 151 * CACHE_BLOCK - 1, 1) && o->states[150] == PASSED);
    for (size_t i = 0; i < COUNT; i++)
        put_block(o, i);
    pst_error e;
    struct mapping m;
    REQUIRE_OK(object_need_mapped(o, size, &e), &e);
    CHECK(o->in_memory == 0 && object_is_here(o) && object_is_whole(o));
    REQUIRE_OK(mapping_open_sparse(&m, object_descriptor(o), o->path, (size_t)size, &e), &e);
    bool same = true;
    for (uint64_t at = 0; same && at < size; at++)
        same = m.data[at] == byte_at(at);
    CHECK(same && reads_right(o, size - 70000, 80000));
    mapping_close(&m);
    object_close(o);
    blocks_limit(0);
}

/* A request brings a block that was here before and passed meanwhile: its bytes were not kept, so it is not shown. */
static void blocks_that_passed_meanwhile(void)
{
    struct object *o = open_private("meanwhile", 40);
    REQUIRE(o);
    for (int again = 0; again < 2; again++) {
        struct part *p = part_make(o, 0, 3, SOON);
        REQUIRE(p);
        put_block(o, 1);
        object_mark(o, 0, 1, COMING);
        object_mark(o, 2, 1, COMING);
        for (size_t i = 0; i < 3; i++) {
            uint8_t *block = blocks_take();
            REQUIRE(block);
            object_attach(o, i, &block, false);
            CHECK(!block);
        }
        object_release_memory(o);
        put_block(o, 0);
        put_block(o, 2);
        object_mark(o, 1, 1, again ? PASSED : COMING); /* it was read; perhaps somebody asked for it again */
        part_show(p, 3);
        CHECK(p->done == 3);
        CHECK(o->states[0] == HERE && o->states[1] == (again ? PASSED : COMING) && o->states[2] == HERE);
        mem_free(p);
        object_release_memory(o);
        object_mark(o, 0, 3, ABSENT);
    }
    object_close(o);
}

/* Blocks that fit stay; when another object leaves too little room for them, they are dropped when they have been read once more, not before. */
static void blocks_that_fit_no_more(void)
{
    blocks_limit(256 * CACHE_BLOCK);
    struct object *o = open_private("first", 100);
    REQUIRE(o);
    object_expect_sequential(o);
    for (size_t i = 0; i < 100; i++)
        put_block(o, i);
    for (size_t i = 0; i < 100; i++)
        CHECK(reads_right(o, i * CACHE_BLOCK, CACHE_BLOCK) && o->states[i] == HERE);
    struct object *other = open_private("second", 150);
    REQUIRE(other);
    for (size_t i = 0; i < 99; i++) {
        CHECK_MSG(reads_right(o, i * CACHE_BLOCK, CACHE_BLOCK / 2) && o->states[i] == HERE, "block %zu is dropped half read", i);
        CHECK(reads_right(o, i * CACHE_BLOCK + CACHE_BLOCK / 2, CACHE_BLOCK / 2) && o->states[i] == PASSED);
    }
    object_close(other);
    object_close(o);
    blocks_limit(0);
}

/* A shard that is read again and again is fetched ahead in every epoch, from its eighth part on, and what was read already is not. */
static void epochs_without_room(void)
{
    enum { COUNT = 240 };
    blocks_limit(256 * CACHE_BLOCK);
    struct object *o = open_private("epochs", COUNT);
    REQUIRE(o);
    o->until = COUNT;
    atomic_store(&o->all, true);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        bool ahead = false;
        for (size_t i = 0; i < COUNT; i++) {
            if (o->states[i] != HERE) {
                struct part *p = object_ask_anew(o, i, i + 1) ? object_ask_once(o, COUNT - 1, COUNT, SOMETIME) : NULL;
                CHECK_MSG(!p || (epoch && !ahead && i == COUNT / 8), "epoch %u: fetched ahead at block %zu", epoch, i);
                CHECK(!p || (o->states[0] == PASSED && o->states[i + 1] == ABSENT));
                ahead |= p != NULL;
                mem_free(p);
                put_block(o, i);
            }
            CHECK(reads_right(o, (uint64_t)i * CACHE_BLOCK, CACHE_BLOCK) && o->states[i] == PASSED);
        }
        CHECK_MSG(ahead == (epoch > 0), "epoch %u", epoch);
    }
    atomic_store(&o->all, false);
    object_close(o);
    blocks_limit(0);
}

/* Two blocks that are here are no reason for two requests; three are. */
static void requests_with_gaps(void)
{
    struct object *o = open_private("gaps", 20);
    REQUIRE(o);
    put_block(o, 4);
    put_block(o, 5);
    put_block(o, 10);
    put_block(o, 11);
    put_block(o, 12);
    o->states[1] = PASSED;
    struct part *p = object_ask_once(o, 0, 20, SOON), *q = object_ask_once(o, 13, 20, SOMETIME);
    REQUIRE(p && q);
    CHECK(p->first == 0 && p->count == 10 && q->first == 13 && q->count == 7);
    CHECK(o->states[0] == COMING && o->states[1] == COMING && o->states[4] == HERE && o->states[9] == COMING && o->states[12] == HERE);
    mem_free(p);
    mem_free(q);
    object_close(o);
}

/* Blocks that were not asked for are fetched in pieces that end at multiples of their size; those that were asked for in one request, if they fit into one. */
static void requests_that_are_aligned(void)
{
    size_t part = parts_blocks(true);
    struct object *o = open_private("aligned", 3 * part);
    REQUIRE(o);
    struct part *p = object_ask_once(o, 1, 3 * part, SOMETIME), *q = object_ask_once(o, part, 3 * part, SOON);
    struct part *r = object_ask_once(o, 2 * part + 3, 3 * part, SOMETIME);
    REQUIRE(p && q && r);
    CHECK(p->count == part - 1 && q->count == part && r->count == part - 3);
    object_mark(o, 0, 3 * part, ABSENT);
    struct part *s = object_ask_once(o, part - 2, part + 2, SOON);
    REQUIRE(s);
    CHECK(s->count == 4);
    object_mark(o, 0, 3 * part, ABSENT);
    mem_free(p);
    mem_free(q);
    mem_free(r);
    mem_free(s);
    object_close(o);
}

/* What fits stays. */
static void blocks_that_fit(void)
{
    struct object *o = open_private("fits", 20);
    REQUIRE(o);
    for (size_t i = 0; i < 20; i++)
        put_block(o, i);
    for (unsigned times = 0; times < 3; times++)
        for (uint64_t at = 0; at < object_size(o); at += 50000)
            CHECK(reads_right(o, at, 50000));
    CHECK(o->here == 20 && o->in_memory == 20 && !object_is_here(o));
    CHECK(object_is_whole(o) && o->in_memory == 0 && reads_right(o, 3, 200000)); /* it may be mapped now */
    object_close(o);
}

/* Bytes that find no memory go to the file, and come from there. */
static void blocks_without_memory(void)
{
    enum { POOL = 256 };
    uint8_t *taken[POOL], bytes[CACHE_BLOCK];
    blocks_limit(POOL * CACHE_BLOCK);
    for (size_t i = 0; i < POOL; i++)
        CHECK((taken[i] = blocks_take()) != NULL);
    CHECK(blocks_take() == NULL);
    struct object *o = open_private("full", 2);
    REQUIRE(o);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = byte_at(i);
    object_keep_first(o, bytes, sizeof(bytes));
    CHECK(o->states[0] == HERE && o->in_memory == 0 && reads_right(o, 5, 60000) && reads_right(o, 0, CACHE_BLOCK));
    CHECK_INT(o->states[0], HERE);
    blocks_give(taken[3]);
    put_block(o, 1);
    CHECK(o->in_memory == 1 && reads_right(o, 1000, 2 * CACHE_BLOCK)); /* one of each, up to the end */
    object_close(o);
    for (size_t i = 0; i < POOL; i++)
        blocks_give(i == 3 ? NULL : taken[i]);
    blocks_limit(0);
}

/* ---- Disks that are full: the rest of the process drops what was read from them ---- */

#define LARGE 200u /* blocks: more than the least pool keeps */

static void write_to_file(struct object *o, uint64_t offset, size_t length)
{
    static uint8_t bytes[CACHE_BLOCK];
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(offset + i);
    CHECK(pwrite(o->cache.fd, bytes, length, (off_t)offset) == (ssize_t)length);
}

/* As if the block had arrived and found no memory. */
static void put_in_file(struct object *o, size_t i)
{
    write_to_file(o, (uint64_t)i * CACHE_BLOCK, cache_block_bytes(&o->cache, i));
    atomic_store(&o->cache.sums[i], cache_sum(0));
}

/* An object that is read from front to back, of which nothing fits into memory or stays on the disk. */
static struct object *open_on_full_disk(const char *name)
{
    blocks_limit(1);
    struct object *o = open_private(name, LARGE);
    spare_note_full();
    if (o)
        object_expect_sequential(o);
    return o;
}

/* A block stays while a request writes its bytes once more, and may be dropped after it. */
static void blocks_that_are_written_again(void)
{
    struct object *o = open_on_full_disk("written");
    REQUIRE(o);
    struct part *p = begin_part(o, 4, 3, SOON);
    put_in_file(o, 5);
    object_mark(o, 5, 1, HERE);
    put_in_file(o, 4);
    write_to_file(o, 5 * CACHE_BLOCK, CACHE_BLOCK / 2);
    CHECK(reads_right(o, 5 * CACHE_BLOCK, CACHE_BLOCK));
    CHECK_INT(o->states[5], HERE);
    write_to_file(o, 5 * CACHE_BLOCK + CACHE_BLOCK / 2, CACHE_BLOCK / 2);
    put_in_file(o, 6);
    part_show(p, 2);
    CHECK(reads_right(o, 4 * CACHE_BLOCK + 1, CACHE_BLOCK));
    CHECK(reads_right(o, 5 * CACHE_BLOCK, CACHE_BLOCK)); /* the request is past it */
    CHECK_INT(o->states[5], PASSED);
    part_show(p, 1);
    part_finish(p, PST_OK, NULL);
    CHECK(reads_right(o, 6 * CACHE_BLOCK, CACHE_BLOCK));
    CHECK_INT(o->states[6], PASSED);
    object_close(o);
    blocks_limit(0);
}

/* Both processes have the private file: neither drops what the other one may still read. */
static void blocks_of_two_processes(void)
{
    struct object *o = open_on_full_disk("forked");
    REQUIRE(o);
    struct wish w = {.first = 7, .end = 9};
    int status = 0;
    for (size_t i = 7; i < 9; i++) {
        put_in_file(o, i);
        object_mark(o, i, 1, HERE);
    }
    o->wishes = &w; /* of a thread that stays with the parent */
    pid_t child = fork();
    if (child == 0)
        _exit(!o->wishes && reads_right(o, 7 * CACHE_BLOCK, CACHE_BLOCK) && o->states[7] == HERE ? 0 : 1);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(o->wishes == &w);
    o->wishes = NULL;
    CHECK(reads_right(o, 7 * CACHE_BLOCK, 2 * CACHE_BLOCK));
    CHECK_INT(o->states[8], HERE);
    object_close(o);
    blocks_limit(0);
}

/* Takes all memory of the least pool. */
static void take_all(uint8_t *taken[256])
{
    blocks_limit(1);
    for (size_t i = 0; i < 256; i++)
        CHECK((taken[i] = blocks_take()) != NULL);
}

static void give_all(uint8_t *taken[256])
{
    for (size_t i = 0; i < 256; i++)
        blocks_give(taken[i]);
    blocks_limit(0);
}

/* Blocks that somebody is about to read make no room for others. */
static void blocks_that_can_be_spared(void)
{
    uint8_t *taken[256];
    take_all(taken);
    struct object *o = open_private("spared", 20);
    REQUIRE(o);
    for (size_t i = 0; i < 20; i++) {
        object_mark(o, i, 1, COMING);
        object_attach(o, i, &taken[i], true);
        object_mark(o, i, 1, HERE);
    }
    CHECK(spare_has(20) && !spare_has(21));
    struct wish w = {.first = 2, .end = 18};
    o->wishes = &w;
    o->memory[1].readers = 1;
    CHECK(spare_has(3) && !spare_has(4));
    o->wishes = NULL;
    o->memory[1].readers = 0;
    object_close(o);
    give_all(taken);
}

static bool is_asked_for(struct object *o)
{
    bool asked = false;
    for (unsigned i = 0; i < 3000 && !asked; i++) {
        pthread_mutex_lock(&o->lock);
        asked = o->states[0] == COMING || o->failures;
        pthread_mutex_unlock(&o->lock);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return asked;
}

/* An object that finds no memory does not keep others from being filled that lie in a cache. It goes on when memory is given back. */
static void objects_that_find_no_memory(void)
{
    uint8_t *taken[256];
    take_all(taken);
    struct object *o = open_private("waits", 8), *other = open_private("ends", LARGE), *cached = open_object("filled", MOST);
    REQUIRE(o && other && cached);
    spare_note_full();
    for (size_t i = 0; i < LARGE; i++) {
        object_mark(other, i, 1, COMING);
        object_attach(other, i, &taken[i], false);
        object_mark(other, i, 1, HERE);
    }
    object_expect(o, 0, 8 * CACHE_BLOCK);
    object_expect(cached, 0, 8 * CACHE_BLOCK);
    CHECK(is_asked_for(cached));
    CHECK_INT(o->states[0], ABSENT);
    object_close(cached);
    object_close(other);
    CHECK(is_asked_for(o));
    object_close(o);
    give_all(taken);
}

/* What has to be mapped moves to memory; the private copy stays where requests under way write to it. */
static void mapped_copies(void)
{
    struct object *o = open_private("moved", 3);
    REQUIRE(o);
    static uint8_t bytes[CACHE_BLOCK];
    pst_error e;
    REQUIRE_OK(cache_open(&o->own, NULL, o->path, &o->facts, &e), &e);
    struct cache before = o->own;
    int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    CHECK(full >= 0 && dup2(full, o->own.fd) >= 0);
    close(full);
    for (size_t i = 0; i < 3; i++)
        put_block(o, i);
    REQUIRE_OK(object_need_mapped(o, object_size(o), &e), &e);
    CHECK(o->own.fd == before.fd && o->own.sums == before.sums);
    CHECK(object_descriptor(o) != before.fd && object_descriptor(o) != o->cache.fd && o->in_memory == 0);
    for (size_t i = 0; i < 2; i++) {
        CHECK(pread(object_descriptor(o), bytes, sizeof(bytes), (off_t)(i * CACHE_BLOCK)) == (ssize_t)sizeof(bytes));
        CHECK_INT(bytes[i + 3], byte_at(i * CACHE_BLOCK + i + 3));
    }
    CHECK(reads_right(o, 9, 2 * CACHE_BLOCK));
    object_close(o);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"hashes", hashes}, {"versions", versions}, {"signature", signature}, {"addresses", addresses},
                                        {"lists", lists},   {"profiles", profiles},   {"secrets", secrets},
                                        {"cut_copies", cut_copies}, {"signed_addresses", signed_addresses},
                                        {"tuned_connections", tuned_connections}, {"tuned_requests", tuned_requests}, {"claims_of_the_dead", claims_of_the_dead}, {"forks_at_any_time", forks_at_any_time}, {"hidden_keys", hidden_keys}, {"dropped_twins", dropped_twins}, {"inherited_room", inherited_room}, {"waiting_requests", waiting_requests},
                                        {"reopened_objects", reopened_objects}, {"errors_of_others", errors_of_others},
                                        {"interrupted_count", interrupted_count}, {"removed_copies", removed_copies}, {"blocks_that_were_read", blocks_that_were_read},
                                        {"requests_with_gaps", requests_with_gaps},
                                        {"requests_that_are_aligned", requests_that_are_aligned},
                                        {"blocks_that_passed_meanwhile", blocks_that_passed_meanwhile}, {"blocks_that_fit_no_more", blocks_that_fit_no_more},
                                        {"epochs_without_room", epochs_without_room}, {"blocks_that_fit", blocks_that_fit}, {"blocks_without_memory", blocks_without_memory},
                                        {"blocks_that_are_written_again", blocks_that_are_written_again}, {"blocks_of_two_processes", blocks_of_two_processes},
                                        {"blocks_that_can_be_spared", blocks_that_can_be_spared}, {"objects_that_find_no_memory", objects_that_find_no_memory},
                                        {"mapped_copies", mapped_copies}, {NULL, NULL}};
    return test_main(argc, argv, tests);
}
