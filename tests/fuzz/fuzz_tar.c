/* fuzz_tar.c: members lie inside the archive, and the walk ends. Each input is walked as it is and with every block's
 * checksum made right, for mutants would seldom get past it otherwise. */
#include "expect.h"
#include "memory_file.h"

#include "io/tar.h"

#include <stdio.h>
#include <string.h>

#define BLOCK 512u

static void walk(const uint8_t *data, size_t size)
{
    struct tar_walk *w = NULL;
    struct tar_member m;
    pst_error e;
    int fd = memory_file(data, size);
    EXPECT(tar_walk_open(&w, fd, "fuzz.tar", &e) == PST_OK);
    pst_status st;
    size_t members = 0;
    while ((st = tar_walk_next(w, &m, &e)) == PST_OK) {
        EXPECT(m.offset <= size && m.size <= size - m.offset);
        EXPECT(strlen(m.name) <= 1 << 20);
        EXPECT(++members <= size / BLOCK);
    }
    EXPECT(st == PST_END || st == PST_ECORRUPT || st == PST_ELIMIT);
    tar_walk_close(w);
    close(fd);
}

static void seal(uint8_t *block)
{
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? 0 : block[i];
    char digits[8];
    snprintf(digits, sizeof(digits), "%06o", sum);
    memcpy(block + 148, digits, sizeof(digits));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    walk(data, size);
    uint8_t *sealed = malloc(size + 1);
    memcpy(sealed, data, size);
    for (size_t at = 0; at + BLOCK <= size; at += BLOCK)
        seal(sealed + at);
    walk(sealed, size);
    free(sealed);
    return 0;
}
