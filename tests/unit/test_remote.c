/* test_remote.c: the parts of remote access that are functions of their input: hashes, signatures, addresses, lists, profiles. */
#include "harness.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"
#include "io/mapping.h"
#include "io/remote/address.h"
#include "io/remote/listing.h"
#include "io/remote/roles.h"
#include "io/remote/sha256.h"
#include "io/remote/sigv4.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"hashes", hashes},
        {"signature", signature},
        {"versions", versions},
        {"addresses", addresses},
        {"signed_addresses", signed_addresses},
        {"lists", lists},
        {"profiles", profiles},
        {"hidden_keys", hidden_keys},
        {"secrets", secrets},
        {"cut_copies", cut_copies},
        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
