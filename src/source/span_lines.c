/* span_lines.c: the number of a line, for errors.
 *
 * A file full of bad rows asks once per row. The lines before every 64 KiB are counted once and kept, so that the answer reads one such piece,
 * not the file from its beginning. Without locks: threads that count the same piece store the same number. */
#include "source/span_set.h"

#include "base/memory.h"

#define GRAIN     ((uint64_t)64 << 10)
#define MOST_MARK 256u /* grains; lines after that many are not numbered */

struct span_lines {
    _Atomic uint64_t before[MOST_MARK + 1]; /* line breaks before each grain, plus 1; 0: not counted yet */
};

static struct span_lines *marks_of(struct span_file *f)
{
    struct span_lines *known = atomic_load(&f->lines), *made;
    if (known)
        return known;
    made = mem_zalloc(sizeof(*made));
    if (!made)
        return NULL;
    atomic_store(&made->before[0], 1);
    if (atomic_compare_exchange_strong(&f->lines, &known, made))
        return made;
    mem_free(made); /* another thread was faster */
    return known;
}

/* Adds the line breaks of [begin, end), which lie in one grain. */
static pst_status count(int fd, const char *path, uint8_t *piece, uint64_t begin, uint64_t end, uint64_t *breaks)
{
    while (begin < end) {
        size_t got = 0;
        pst_status st = file_read_at(fd, path, piece, (size_t)(end - begin), begin, &got, NULL);
        if (st < 0 || got == 0)
            return st < 0 ? st : PST_ESTALE;
        for (size_t i = 0; i < got; i++)
            *breaks += piece[i] == '\n';
        begin += got;
    }
    return PST_OK;
}

uint64_t span_line_at(struct span_file *f, const char *path, uint64_t offset)
{
    struct span_lines *l = offset <= MOST_MARK * GRAIN ? marks_of(f) : NULL;
    uint8_t *piece = l ? mem_alloc(GRAIN) : NULL;
    uint64_t breaks = 0, last = offset / GRAIN, known = last;
    int fd = -1;
    pst_status st = piece ? file_open_read(&fd, path, NULL) : PST_ELIMIT;
    while (l && known > 0 && !atomic_load(&l->before[known]))
        known--;
    if (l)
        breaks = atomic_load(&l->before[known]) - 1;
    for (; st == PST_OK && known < last; known++) {
        st = count(fd, path, piece, known * GRAIN, (known + 1) * GRAIN, &breaks);
        if (st == PST_OK)
            atomic_store(&l->before[known + 1], breaks + 1);
    }
    if (st == PST_OK)
        st = count(fd, path, piece, last * GRAIN, offset, &breaks);
    file_close(fd);
    mem_free(piece);
    return st == PST_OK ? breaks + 1 : 0;
}

void span_lines_finish(struct span_file *f)
{
    mem_free(atomic_load(&f->lines));
}
