/* dump_formats.c: what the library finds in a file, for test_formats.py to compare with Python's own modules.
 *
 *   dump_formats tar FILE       a line a member: name (in hex), offset, size
 *   dump_formats zip FILE       the same with stored size, CRC and 1 where deflated
 *   dump_formats gzip|zlib|auto FILE   the bytes it holds
 * Errors go to stderr, with status 1. */
#include "codec/stream.h"
#include "io/file.h"
#include "io/tar.h"
#include "io/zip.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void print_name(const char *name)
{
    for (; *name; name++)
        printf("%02x", (unsigned char)*name);
}

static pst_status dump_tar(int fd, const char *path, pst_error *e)
{
    struct tar_walk *w = NULL;
    struct tar_member m;
    pst_status st = tar_walk_open(&w, fd, path, e);
    while (st == PST_OK && (st = tar_walk_next(w, &m, e)) == PST_OK) {
        print_name(m.name);
        printf(" %" PRIu64 " %" PRIu64 "\n", m.offset, m.size);
    }
    tar_walk_close(w);
    return st;
}

static pst_status dump_zip(int fd, const char *path, pst_error *e)
{
    struct zip z = {0};
    pst_status st = zip_read(&z, fd, path, e);
    for (size_t i = 0; i < z.count; i++) {
        const struct zip_member *m = &z.members[i];
        print_name(m->name);
        printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32 " %d\n", m->offset, m->size, m->stored_size, m->crc,
               m->deflated);
    }
    zip_finish(&z);
    return st;
}

static pst_status dump_stream(pst_compression kind, int fd, const char *path, pst_error *e)
{
    static uint8_t in[10000], out[30000];
    struct decompressor *d = NULL;
    uint64_t offset = 0;
    size_t got = 0;
    pst_status st = file_read_at(fd, path, in, sizeof(in), 0, &got, e);
    if (st == PST_OK)
        st = decompressor_create(&d, kind == PST_COMPRESSION_AUTO ? stream_sniff(in, got) : kind, e);
    while (st == PST_OK) {
        size_t consumed = 0, produced = 0;
        st = file_read_at(fd, path, in, sizeof(in), offset, &got, e);
        if (st == PST_OK)
            st = decompressor_run(d, in, got, &consumed, out, sizeof(out), &produced, e);
        offset += consumed;
        fwrite(out, 1, produced, stdout);
        if (st == PST_OK && got == 0 && produced == 0)
            st = pst_fail_at(e, PST_ECORRUPT, path, PST_NOWHERE, offset, "truncated");
    }
    decompressor_destroy(d);
    return st;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        pst_compression kind;
    } streams[] = {{"gzip", PST_COMPRESSION_GZIP}, {"zlib", PST_COMPRESSION_ZLIB}, {"auto", PST_COMPRESSION_AUTO}};
    if (argc != 3)
        return 2;
    pst_error e;
    int fd = -1;
    char text[512];
    pst_status st = file_open_read(&fd, argv[2], &e);
    if (st == PST_OK && strcmp(argv[1], "tar") == 0)
        st = dump_tar(fd, argv[2], &e);
    else if (st == PST_OK && strcmp(argv[1], "zip") == 0)
        st = dump_zip(fd, argv[2], &e);
    for (size_t i = 0; st == PST_OK && i < 3; i++)
        if (strcmp(argv[1], streams[i].name) == 0)
            st = dump_stream(streams[i].kind, fd, argv[2], &e);
    file_close(fd);
    if (st < 0)
        fprintf(stderr, "%s %s\n", pst_status_name(st), pst_error_text(&e, text, sizeof(text)));
    return st < 0;
}
