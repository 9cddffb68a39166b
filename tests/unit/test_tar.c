/* test_tar.c: members of archives built here byte by byte: every dialect, every truncation, every bit flip. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "io/tar.h"
#include "memory_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOCK 512

struct archive {
    uint8_t data[64 * BLOCK];
    size_t length;
};

static void seal(uint8_t *h)
{
    unsigned sum = 0;
    memset(h + 148, ' ', 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += h[i];
    snprintf((char *)h + 148, 8, "%06o", sum);
}

/* A header in the oldest dialect; the caller may change it and seal it again. */
static uint8_t *header(struct archive *a, const char *name, uint64_t size, char type)
{
    uint8_t *h = a->data + a->length;
    memset(h, 0, BLOCK);
    strncpy((char *)h, name, 100);
    snprintf((char *)h + 100, 8, "%07o", 0644);
    snprintf((char *)h + 124, 12, "%011" PRIo64, size);
    h[156] = (uint8_t)type;
    seal(h);
    a->length += BLOCK;
    return h;
}

static uint8_t *ustar(struct archive *a, const char *name, uint64_t size, char type)
{
    uint8_t *h = header(a, name, size, type);
    memcpy(h + 257, "ustar\00000", 8);
    seal(h);
    return h;
}

static void content(struct archive *a, const void *data, size_t length)
{
    memset(a->data + a->length, 0, (length + BLOCK - 1) / BLOCK * BLOCK);
    memcpy(a->data + a->length, data, length);
    a->length += (length + BLOCK - 1) / BLOCK * BLOCK;
}

static void file(struct archive *a, const char *name, const char *text)
{
    ustar(a, name, strlen(text), '0');
    content(a, text, strlen(text));
}

static void extension(struct archive *a, char type, const void *data, size_t length)
{
    ustar(a, "extension", length, type);
    content(a, data, length);
}

static void finish(struct archive *a)
{
    memset(a->data + a->length, 0, 2 * BLOCK);
    a->length += 2 * BLOCK;
}

/* Walks to the end: "name=content name=content", cut to 24 characters each. The status of the last call is the result. */
static pst_status walk(const struct archive *a, size_t length, char *text, size_t room, pst_error *e)
{
    struct tar_walk *w = NULL;
    struct tar_member m;
    int fd = memory_file(a->data, length);
    size_t at = 0;
    text[0] = 0;
    pst_status st = tar_walk_open(&w, fd, "test.tar", e);
    while (st == PST_OK && (st = tar_walk_next(w, &m, e)) == PST_OK) {
        CHECK(m.offset <= length && m.size <= length - m.offset);
        if (m.offset > length || m.size > length - m.offset)
            break;
        int n = snprintf(text + at, room - at, "%s%.24s=%.*s", at ? " " : "", m.name, m.size < 24 ? (int)m.size : 24,
                         (const char *)a->data + m.offset);
        at += n < 0 || (size_t)n >= room - at ? 0 : (size_t)n;
    }
    tar_walk_close(w);
    close(fd);
    return st;
}

static void check(const struct archive *a, pst_status want, const char *want_text)
{
    char text[1024];
    pst_error e = {0};
    CHECK_STATUS(walk(a, a->length, text, sizeof(text), &e), want, &e);
    CHECK_STR(text, want_text);
    if (want < 0)
        CHECK(strcmp(e.path, "test.tar") == 0 && e.offset != PST_NOWHERE && strncmp(e.message, "tar: ", 5) == 0);
}

static void plain(void)
{
    static struct archive a;
    a.length = 0;
    file(&a, "one.txt", "first");
    file(&a, "empty", "");
    ustar(&a, "folder/", 0, '5');
    header(&a, "v7", 3, 0);
    content(&a, "old", 3);
    header(&a, "v7folder/", 0, 0);
    header(&a, "link", 500, '1'); /* no data follows, whatever its size */
    header(&a, "device", 0, '3');
    file(&a, "two", "second");
    check(&a, PST_END, "one.txt=first empty= v7=old two=second"); /* the end of file ends it too */
    finish(&a);
    check(&a, PST_END, "one.txt=first empty= v7=old two=second");
    file(&a, "behind", "the end");
    check(&a, PST_END, "one.txt=first empty= v7=old two=second");
    a.length = 0;
    check(&a, PST_END, "");
    finish(&a);
    check(&a, PST_END, "");
}

static void a_lone_zero_block(void)
{
    static struct archive a;
    a.length = 0;
    file(&a, "one", "1");
    content(&a, "", 1);
    file(&a, "two", "2");
    check(&a, PST_END, "one=1 two=2");
}

static void prefixes(void)
{
    static struct archive a;
    a.length = 0;
    char full[101];
    memset(full, 'n', 100); /* no NUL behind a full name */
    full[100] = 0;
    uint8_t *h = ustar(&a, "name", 0, '0');
    memcpy(h + 345, "deep/er", 7);
    seal(h);
    h = ustar(&a, full, 0, '0');
    memset(h + 345, 'p', 155);
    seal(h);
    h = header(&a, "gnu", 0, '0'); /* GNU keeps times where ustar keeps the prefix */
    memcpy(h + 257, "ustar  ", 8);
    memcpy(h + 345, "14500000000", 12);
    seal(h);
    check(&a, PST_END, "deep/er/name= pppppppppppppppppppppppp= gnu=");
}

static void long_names(void)
{
    static struct archive a;
    a.length = 0;
    char name[2000];
    memset(name, 'g', sizeof(name));
    name[sizeof(name) - 1] = 0;
    extension(&a, 'L', name, sizeof(name));
    file(&a, "short", "data");
    file(&a, "next", "own name");
    extension(&a, 'K', name, 700);  /* a link's target means nothing here */
    extension(&a, 'L', "brief", 5); /* without its NUL */
    file(&a, "short", "x");
    check(&a, PST_END, "gggggggggggggggggggggggg=data next=own name brief=x");
}

static void pax(void)
{
    static struct archive a;
    a.length = 0;
    static const char global[] = "20 comment=anything\n";
    static const char one[] = "20 path=pax/\xc3\xa9t\xc3\xa9 1\n9 size=4\n27 SCHILY.xattr.user.a=b=c\n";
    extension(&a, 'g', global, strlen(global));
    extension(&a, 'x', one, strlen(one));
    ustar(&a, "short", 0, '0');
    content(&a, "data", 4);
    file(&a, "plain", "unchanged");
    extension(&a, 'x', "9 size=3\n\0\0\0", 12); /* padding counted in */
    ustar(&a, "padded", 9, '0');
    content(&a, "abc", 3);
    extension(&a, 'g', "15 path=global\n9 size=2\n", 24);
    ustar(&a, "a", 0, '0');
    content(&a, "gs", 2);
    extension(&a, 'x', "14 path=local\n", 14);
    ustar(&a, "b", 0, '0');
    content(&a, "gs", 2);
    extension(&a, 'g', "8 path=\n8 size=\n", 16); /* empty takes back */
    file(&a, "c", "own");
    check(&a, PST_END, "pax/\xc3\xa9t\xc3\xa9 1=data plain=unchanged padded=abc global=gs local=gs c=own");
}

static void wide_sizes(void)
{
    static struct archive a;
    a.length = 0;
    uint8_t *h = ustar(&a, "base256", 0, '0');
    memset(h + 124, 0, 12);
    h[124] = 0x80;
    h[135] = 5;
    seal(h);
    content(&a, "12345", 5);
    h = ustar(&a, "blanks", 0, '0');
    memcpy(h + 124, "         3 \0", 12);
    seal(h);
    content(&a, "abc", 3);
    check(&a, PST_END, "base256=12345 blanks=abc");

    static const struct {
        const char *field, *text;
    } bad[] = {
        {"\x80\0\0\1\0\0\0\0\0\0\0\0", "not a number"},                       /* 2^64 */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "not a number"}, /* -1 */
        {"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", "truncated"},       /* 2^63 - 1 */
        {"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", "truncated"},       /* 2^64 - 1 */
        {"777777777777", "truncated"},
        {"12x", "not a number"},
        {"9", "not a number"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[100];
        pst_error e = {0};
        a.length = 0;
        h = ustar(&a, "bad", 0, '0');
        memset(h + 124, 0, 12);
        memcpy(h + 124, bad[i].field, i < 5 ? 12 : strlen(bad[i].field));
        seal(h);
        CHECK_STATUS(walk(&a, a.length, text, sizeof(text), &e), PST_ECORRUPT, &e);
        CHECK_MSG(strstr(e.message, bad[i].text) != NULL, "%zu: %s", i, e.message);
    }
}

static void passed_over(void)
{
    static struct archive a;
    a.length = 0;
    uint8_t *h = header(&a, "sparse", 3, 'S');
    h[482] = 1; /* two more maps follow */
    seal(h);
    uint8_t map[BLOCK] = {0};
    map[504] = 1;
    content(&a, map, BLOCK);
    map[504] = 0;
    content(&a, map, BLOCK);
    content(&a, "abc", 3);
    extension(&a, 'x', "22 GNU.sparse.major=1\n", 22);
    file(&a, "GNUSparseFile.0/x", "map and data");
    extension(&a, 'V', "", 0);
    extension(&a, 'Z', "vendor", 6);
    ustar(&a, "contiguous", 2, '7');
    content(&a, "ok", 2);
    check(&a, PST_END, "contiguous=ok");
}

static void hostile(void)
{
    static const struct {
        char type;
        const char *data;
        size_t length;
        const char *message;
    } cases[] = {
        {'x', "12 path=a\0b\n", 12, "NUL"},
        {'L', "a\0b", 3, "NUL"},
        {'x', "99 path=abc\n", 12, "wrong length"},
        {'x', "3 path=abc\n", 11, "wrong length"},
        {'x', "99999999999999999999999 path=abc\n", 32, "wrong length"},
        {'x', "11 path=abc", 11, "wrong length"},
        {'x', "path=abc\n", 9, "wrong length"},
        {'x', "12", 2, "wrong length"},
        {'x', "2 ", 2, "wrong length"},
        {'x', "9 nothing\n", 10, "wrong length"},
        {'x', "10 equals\n", 10, "no '='"},
        {'x', "11 size=-1\n", 11, "not a number"},
        {'x', "30 size=99999999999999999999\n\n", 30, "not a number"},
        {'g', "29 size=18446744073709551615\n", 29, "not a number"},
        {'x', "28 size=9223372036854775807\n", 28, "truncated"},
    };
    static struct archive a;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[100];
        pst_error e = {0};
        a.length = 0;
        extension(&a, cases[i].type, cases[i].data, cases[i].length);
        file(&a, "name", "x");
        CHECK_STATUS(walk(&a, a.length, text, sizeof(text), &e), PST_ECORRUPT, &e);
        CHECK_MSG(strstr(e.message, cases[i].message) != NULL, "%zu: %s", i, e.message);
    }
    /* Over the cap: refused before it is read. The file is large enough, but a hole. */
    a.length = 0;
    ustar(&a, "extension", (1 << 20) + 1, 'x');
    int fd = memory_file(a.data, a.length);
    struct tar_walk *w = NULL;
    struct tar_member m;
    pst_error e = {0};
    REQUIRE(ftruncate(fd, 4 << 20) == 0);
    REQUIRE_OK(tar_walk_open(&w, fd, "big", &e), &e);
    CHECK_STATUS(tar_walk_next(w, &m, &e), PST_ELIMIT, &e);
    tar_walk_close(w);
    close(fd);
    int pipes[2];
    REQUIRE(pipe(pipes) == 0);
    CHECK_STATUS(tar_walk_open(&w, pipes[0], "pipe", &e), PST_EINVAL, &e);
    close(pipes[0]);
    close(pipes[1]);
}

static void not_a_tar(void)
{
    static struct archive a;
    char text[100];
    pst_error e = {0};
    memset(a.data, 'x', sizeof(a.data));
    CHECK_STATUS(walk(&a, 5000, text, sizeof(text), &e), PST_ECORRUPT, &e);
    CHECK(strstr(e.message, "not a tar") != NULL);
    memcpy(a.data, "\x1f\x8b", 2);
    CHECK_STATUS(walk(&a, 5000, text, sizeof(text), &e), PST_ECORRUPT, &e);
    CHECK(strstr(e.message, "decompress") != NULL);
}

static void sample(struct archive *a)
{
    a->length = 0;
    file(a, "one", "some text");
    extension(a, 'x', "17 path=pax/name\n", 17);
    file(a, "two", "more text");
    extension(a, 'L', "long", 5);
    file(a, "three", "last");
}

/* A cut archive is a shorter one or an error; it never tells more than the whole. */
static void every_truncation(void)
{
    static struct archive a;
    static const char whole[] = "one=some text pax/name=more text long=last";
    char text[256];
    sample(&a);
    check(&a, PST_END, whole);
    for (size_t n = 0; n < a.length; n++) {
        pst_error e = {0};
        pst_status st = walk(&a, n, text, sizeof(text), &e);
        CHECK(st == PST_END || st == PST_ECORRUPT);
        CHECK(strncmp(text, whole, strlen(text)) == 0);
        if (n % BLOCK && n < a.length - BLOCK && a.data[n / BLOCK * BLOCK + 257] == 'u')
            CHECK_STATUS(st, PST_ECORRUPT, &e); /* inside a header */
    }
}

static void every_flip(void)
{
    static struct archive a;
    char text[256];
    sample(&a);
    for (size_t bit = 0; bit < 8 * a.length; bit++) {
        pst_error e = {0};
        a.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        pst_status st = walk(&a, a.length, text, sizeof(text), &e);
        CHECK(st == PST_END || st == PST_ECORRUPT || st == PST_ELIMIT);
        size_t in_block = bit / 8 % BLOCK;
        bool is_header = a.data[bit / 8 / BLOCK * BLOCK + 148] == '0' && in_block != 148;
        if (is_header && (in_block < 148 || in_block >= 156))
            CHECK_STATUS(st, PST_ECORRUPT, &e);
        a.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void every_fault(void)
{
    static struct archive a;
    char text[256];
    pst_error e;
    sample(&a);
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
        for (uint64_t n = 0;; n++) {
            uint64_t live = mem_live();
            test_fault_arm(kind, n, false);
            pst_status st = walk(&a, a.length, text, sizeof(text), &e);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            CHECK_INT(mem_live(), live);
            if (!hit) {
                CHECK(n > 5 && st == PST_END);
                break;
            }
            CHECK_STATUS(st, kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO, &e);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"plain members and ends", plain},
        {"a lone zero block", a_lone_zero_block},
        {"prefixes", prefixes},
        {"GNU long names", long_names},
        {"pax headers", pax},
        {"wide sizes", wide_sizes},
        {"what is passed over", passed_over},
        {"hostile headers", hostile},
        {"not a tar", not_a_tar},
        {"every truncation", every_truncation},
        {"every bit flip", every_flip},
        {"every fault is an error and leaks nothing", every_fault},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
