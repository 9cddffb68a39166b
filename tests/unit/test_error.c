/* test_error.c: how failures are written down and read out. */
#include "base/error.h"
#include "harness.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const pst_error *e)
{
    static char buffer[640];
    return pst_error_text(e, buffer, sizeof(buffer));
}

static void test_names(void)
{
    static const pst_status all[] = {PST_OK,         PST_END,    PST_EINVAL, PST_ENOMEM,    PST_EIO,
                                     PST_ECORRUPT,   PST_ELIMIT, PST_EEXIST, PST_ENOTFOUND, PST_EUNSUPPORTED,
                                     PST_ECANCELLED, PST_ETYPE,  PST_ESTALE};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        CHECK(strncmp(pst_status_name(all[i]), "PST_", 4) == 0);
        for (size_t k = 0; k < i; k++)
            CHECK(strcmp(pst_status_name(all[i]), pst_status_name(all[k])) != 0);
    }
    CHECK_STR(pst_status_name(PST_ECORRUPT), "PST_ECORRUPT");
    CHECK_STR(pst_status_name((pst_status)-99), "PST_UNKNOWN");
    char version[32];
    snprintf(version, sizeof(version), "%d.%d.%d", PST_VERSION_MAJOR, PST_VERSION_MINOR, PST_VERSION_PATCH);
    CHECK_STR(pst_version(), version); /* meson.build's */
    CHECK_STR(PST_VERSION, version);
}

static void test_places(void)
{
    pst_error e;
    CHECK_INT(pst_fail_at(&e, PST_ECORRUPT, "shards/a.tfrecord", 17, 2650, "data crc %08x", 0xabcu), PST_ECORRUPT);
    CHECK_INT(e.status, PST_ECORRUPT);
    CHECK_STR(text_of(&e), "shards/a.tfrecord: record 17 at byte 2650: data crc 00000abc");
    pst_fail_at(&e, PST_EIO, "a", 0, PST_NOWHERE, "short");
    CHECK_STR(text_of(&e), "a: record 0: short");
    pst_fail_at(&e, PST_EIO, "a", PST_NOWHERE, 0, "short");
    CHECK_STR(text_of(&e), "a: at byte 0: short");
    pst_fail_at(&e, PST_EIO, NULL, PST_NOWHERE, PST_NOWHERE, "short");
    CHECK_STR(text_of(&e), "short");
    pst_fail(&e, PST_EINVAL, "no %s", "good");
    CHECK_STR(text_of(&e), "no good");
    CHECK(e.record == PST_NOWHERE && e.offset == PST_NOWHERE && !e.path[0] && !e.op[0] && e.sys_errno == 0);
    strcpy(e.op, "resize");
    CHECK_STR(text_of(&e), "resize: no good");
    pst_fail_at(&e, PST_ECORRUPT, "a.tfrecord", 17, 2650, "cut off");
    strcpy(e.op, "decode");
    CHECK_STR(text_of(&e), "a.tfrecord: record 17 at byte 2650: decode: cut off");
    CHECK_INT(pst_fail(NULL, PST_ENOMEM, "nobody listens"), PST_ENOMEM);
    CHECK_INT(pst_fail_at(NULL, PST_ENOMEM, "a", 1, 2, "nobody listens"), PST_ENOMEM);
}

static void test_wrapping(void)
{
    pst_error e;
    pst_fail_at(&e, PST_ECORRUPT, "x.pidx", 3, 4, "inner");
    pst_fail_at(&e, PST_ESTALE, e.path, e.record, e.offset, "outer: %s", e.message);
    CHECK_STR(text_of(&e), "x.pidx: record 3 at byte 4: outer: inner");
}

static void test_system_reason(void)
{
    pst_error e;
    pst_fail_at(&e, PST_EIO, "a", PST_NOWHERE, PST_NOWHERE, "writing failed");
    e.sys_errno = ENOSPC;
    CHECK_STR(text_of(&e), "a: writing failed: No space left on device");
    pst_fail(&e, PST_EIO, "writing: No space left on device; free some");
    e.sys_errno = ENOSPC;
    CHECK_STR(text_of(&e), "writing: No space left on device; free some"); /* said once */
    pst_fail(&e, PST_EIO, "%s", "");
    CHECK_STR(text_of(&e), "PST_EIO");
}

static void test_long_path(void)
{
    pst_error e;
    char path[400];
    for (size_t n = 180; n < 300; n++) {
        memset(path, 'x', n);
        path[n] = '\0';
        memcpy(path + n - 4, "/end", 4);
        pst_fail_at(&e, PST_EIO, path, 1, 2, "m");
        size_t kept = strlen(e.path);
        if (n < sizeof(e.path)) {
            CHECK_STR(e.path, path);
        } else {
            CHECK_INT(kept, sizeof(e.path) - 1);
            CHECK(memcmp(e.path, "…", 3) == 0);
            CHECK_STR(e.path + 3, path + n - (kept - 3));
        }
    }
    for (size_t n = 0; n < 4; n++) { /* a cut never splits a character */
        for (size_t i = 0; i < 60; i++)
            memcpy(path + 4 * i, "\xf0\x9f\x98\x80", 5);
        memcpy(path + 240, "/end", n + 1);
        path[240 + n] = '\0';
        pst_fail_at(&e, PST_EIO, path, 1, 2, "m");
        CHECK(memcmp(e.path, "…\xf0", 4) == 0);
        CHECK(strlen(e.path) > sizeof(e.path) - 5);
        CHECK_STR(e.path + 3, path + 240 + n - strlen(e.path + 3));
    }
}

static void test_long_message(void)
{
    pst_error e;
    char long_text[600] = "";
    for (size_t lead = 0; lead < 3; lead++) {
        memset(long_text, 'x', lead);
        for (size_t i = 0; i < 150; i++)
            memcpy(long_text + lead + 3 * i, "…", 4);
        pst_fail(&e, PST_EINVAL, "%s", long_text);
        CHECK_INT((strlen(e.message) - lead) % 3, 0);
        CHECK(strlen(e.message) > sizeof(e.message) - 4);
        CHECK(strncmp(e.message, long_text, strlen(e.message)) == 0);
    }
}

static void test_small_buffers(void)
{
    pst_error e;
    char whole[640], part[640];
    pst_fail_at(&e, PST_ECORRUPT, "päth/ü", 1, 2, "größer als erlaubt … ");
    strcpy(e.op, "op");
    e.sys_errno = EIO;
    pst_error_text(&e, whole, sizeof(whole));
    for (size_t size = 1; size <= strlen(whole) + 1; size++) {
        memset(part, '#', sizeof(part));
        CHECK(pst_error_text(&e, part, size) == part);
        CHECK(strlen(part) < size && strlen(part) + 4 > size);
        CHECK(strncmp(part, whole, strlen(part)) == 0);
        CHECK(part[size] == '#');
    }
    part[0] = '#';
    pst_error_text(&e, part, 0);
    CHECK(part[0] == '#');
}

static void test_lines(void)
{
    pst_error e;
    pst_fail_at(&e, PST_EIO, "a\nb\x1b[31m", PST_NOWHERE, PST_NOWHERE, "tab\there\x7f");
    CHECK_STR(text_of(&e), "a\\nb\\x1b[31m: tab\\there\\x7f");
    pst_fail_at(&e, PST_EINVAL, "p\nq", PST_NOWHERE, 3, "no such operation\n  tfrecrd x\n  ^\r");
    CHECK_STR(text_of(&e), "p\\nq: at byte 3: no such operation\n  tfrecrd x\n  ^\\x0d"); /* a drawing stays one */
    pst_fail(&e, PST_EIO,
             "\xc2\x9b"
             "31m caf\xc3\xa9 \xc2\xa0 \xc2"); /* U+009B is ESC [ in one character */
    CHECK_STR(text_of(&e), "\\x9b31m caf\xc3\xa9 \xc2\xa0 \xc2");
}

static void test_memory(void)
{
    pst_error e = {0};
    CHECK_INT(fail_memory(&e, "opening %d shards", 3), PST_ENOMEM);
    CHECK_STR(text_of(&e), "opening 3 shards: out of memory");
    CHECK_INT(e.status, PST_ENOMEM);
    CHECK_INT(fail_memory_at(&e, "a/b", "reading it"), PST_ENOMEM);
    CHECK_STR(text_of(&e), "a/b: reading it: out of memory");
    CHECK_INT(fail_memory(NULL, "x"), PST_ENOMEM);
    CHECK_INT(fail_memory_at(NULL, "a", "x"), PST_ENOMEM);
}

static const struct test tests[] = {
    {"out of memory", test_memory},
    {"status names", test_names},
    {"the place, as far as it applies", test_places},
    {"wrapping one's own message", test_wrapping},
    {"the system's reason", test_system_reason},
    {"a long path keeps its end", test_long_path},
    {"a long message is cut between characters", test_long_message},
    {"buffers of every size", test_small_buffers},
    {"lines, and nothing for the terminal to obey", test_lines},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
