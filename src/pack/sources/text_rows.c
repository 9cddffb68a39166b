/* text_rows.c: finds the rows of text files, with one byte per row.
 *
 * Promises: any thread can read any row; sequential reads read ahead. A row may be as long as memory allows. Leaves to
 * others: what is in a row. */
#include "pack/sources/text_rows.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/csv.h"
#include "io/file.h"
#include "pack/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_BYTES ((size_t)1 << 20)

/* A row with its line break: found at `offset`, as long as `*ret_length`; 0 at the end of the file. */
static pst_status row_at(const struct rows *r, const struct spool *sp, struct file_window *w, uint64_t offset, const char **ret,
                         size_t *ret_length, pst_error *reterr)
{
    for (size_t want = 1;;) { /* the bytes at hand may be enough */
        const uint8_t *data = NULL;
        size_t available = 0, end;
        pst_status st = file_window_get(w, sp->fd, sp->path, sp->size, offset, want, &data, &available, reterr);
        if (st < 0)
            return st;
        if (r->quoted) {
            end = csv_row_end((const char *)data, available, 0);
        } else {
            const uint8_t *line = available ? memchr(data, '\n', available) : NULL;
            end = line ? (size_t)(line - data) + 1 : available;
        }
        if (end < available || offset + available == sp->size) {
            *ret = (const char *)data;
            *ret_length = end;
            return PST_OK;
        }
        if (__builtin_mul_overflow(available, 2, &want))
            return pst_fail_at(reterr, PST_ELIMIT, sp->path, PST_NOWHERE, offset, "a row without end");
    }
}

static size_t without_break(const char *row, size_t length)
{
    if (length && row[length - 1] == '\n')
        length--;
    if (length && row[length - 1] == '\r')
        length--;
    return length;
}

static pst_status byte_order_mark(const struct spool *sp, uint64_t *ret, pst_error *reterr)
{
    unsigned char head[3] = {0};
    size_t got = 0;
    pst_status st = file_read_at(sp->fd, sp->path, head, sizeof(head), 0, &got, reterr);
    if (st < 0)
        return st;
    if (got >= 2 && ((head[0] == 0xff && head[1] == 0xfe) || (head[0] == 0xfe && head[1] == 0xff)))
        return pst_fail_at(reterr, PST_EUNSUPPORTED, sp->path, PST_NOWHERE, 0,
                           "is UTF-16 text; convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8");
    *ret = got == 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    return PST_OK;
}

static uint64_t count_breaks(const char *data, size_t length)
{
    uint64_t breaks = 0;
    for (const char *at = data, *end = data + length; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        breaks++;
    return breaks;
}

static pst_status mark(struct rows *r, struct row_mark place, pst_error *reterr)
{
    void *marks = r->marks;
    if (mem_grow(&marks, &r->mark_capacity, r->mark_count + 1, sizeof(*r->marks)) < 0)
        return fail_memory(reterr, "counting the rows");
    r->marks = marks;
    r->marks[r->mark_count++] = place;
    return PST_OK;
}

static pst_status find_rows(struct rows *r, const struct pack_opening *o, const struct row_file *f, struct file_window *w,
                            const struct rows_visitor *v, pst_error *reterr)
{
    const struct spool *sp = f->spool;
    const uint8_t *head = NULL;
    const char *row = NULL;
    size_t length = 0;
    uint64_t offset = 0, number = 0, line = 1;
    bool header = v->header;
    pst_status st = byte_order_mark(sp, &offset, reterr);
    if (st == PST_OK && v->begin) {
        st = file_window_get(w, sp->fd, sp->path, sp->size, offset, HEAD_BYTES, &head, &length, reterr);
        if (st == PST_OK && r->quoted && offset + length < sp->size && csv_row_end((const char *)head, length, 0) == length)
            st = pst_fail_at(reterr, PST_ELIMIT, sp->path, 0, offset, "the first row has no end within %zu bytes", length);
        if (st == PST_OK)
            st = v->begin(v->user, (const char *)head, length, reterr);
    }
    while (st == PST_OK) {
        st = row_at(r, sp, w, offset, &row, &length, reterr);
        if (st < 0 || length == 0)
            break;
        struct row_mark place = {offset, line};
        offset += length;
        line += count_breaks(row, length);
        length = without_break(row, length);
        if (r->quoted && length == 0)
            continue;
        if (header) {
            header = false;
            continue;
        }
        if (number % ROWS_STRIDE == 0)
            st = mark(r, place, reterr);
        if (st == PST_OK && v->row)
            st = v->row(v->user, row, length, number, reterr);
        number++;
        r->count++;
        if (st == PST_OK && number % 1024 == 0)
            st = pack_ticker_tell(o->ticker, "listing", r->count, 0, r->bytes + offset, false, reterr);
    }
    r->bytes += offset;
    return st;
}

pst_status rows_add(struct rows *r, struct pack_source *s, const struct pack_opening *o, const char *path,
                    const struct rows_visitor *visitor, pst_error *reterr)
{
    struct file_window w = {0};
    struct spool *sp = spools_add(&r->spools);
    void *files = r->files;
    if (!sp || mem_grow(&files, &r->file_capacity, r->file_count + 1, sizeof(*r->files)) < 0)
        return fail_memory(reterr, "opening the rows");
    r->files = files;
    pst_status st = spool_open(sp, s, o, path, SPOOL_TEXT, reterr);
    if (st < 0)
        return st;
    struct row_file *f = &r->files[r->file_count++];
    *f = (struct row_file){sp, file_base(sp->path), r->count, r->mark_count};
    st = find_rows(r, o, f, &w, visitor, reterr);
    file_window_finish(&w);
    return st;
}

void rows_close(struct rows *r)
{
    mem_free(r->files);
    mem_free(r->marks);
    spools_close(&r->spools);
    *r = (struct rows){0};
}

static size_t file_of(const struct rows *r, uint64_t i)
{
    size_t low = 0, high = r->file_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (r->files[middle].first <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

pst_status rows_get(const struct rows *r, struct rows_worker *w, uint64_t i, const char **ret, size_t *ret_length,
                    pst_error *reterr)
{
    bool last = w->file + 1 == r->file_count;
    bool onward = w->next_row == i && i > r->files[w->file].first && (last || i < r->files[w->file + 1].first);
    if (!onward) {
        w->file = file_of(r, i);
        uint64_t local = i - r->files[w->file].first;
        w->next_row = i - local % ROWS_STRIDE;
        w->next_offset = r->marks[r->files[w->file].first_mark + local / ROWS_STRIDE].offset;
    }
    const struct spool *sp = r->files[w->file].spool;
    for (;;) {
        const char *row = NULL;
        size_t length = 0;
        pst_status st = row_at(r, sp, &w->window, w->next_offset, &row, &length, reterr);
        if (st == PST_OK && length == 0)
            st = pst_fail_at(reterr, PST_ESTALE, sp->path, PST_NOWHERE, w->next_offset,
                             "has fewer rows than when it was listed: it was changed while it was packed; run again");
        if (st < 0) {
            w->next_row = 0;
            return st;
        }
        w->next_offset += length;
        length = without_break(row, length);
        if (r->quoted && length == 0)
            continue;
        if (w->next_row++ == i) {
            *ret = row;
            *ret_length = length;
            return PST_OK;
        }
    }
}

const char *rows_key(const struct rows *r, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    const struct row_file *f = &r->files[file_of(r, i)];
    snprintf(buffer, PACK_KEY_BYTES, "%s#%" PRIu64, f->name, i - f->first);
    return buffer;
}

uint64_t rows_estimate(const struct rows *r)
{
    return r->count ? r->bytes / r->count : 0;
}

/* The line where a row begins; 0: it cannot be read again. */
static uint64_t line_of(const struct rows *r, const struct row_file *f, uint64_t number)
{
    struct row_mark at = r->marks[f->first_mark + number / ROWS_STRIDE];
    struct file_window w = {0};
    uint64_t left = number % ROWS_STRIDE;
    for (;;) {
        const char *row = NULL;
        size_t length = 0;
        if (row_at(r, f->spool, &w, at.offset, &row, &length, NULL) < 0 || length == 0)
            at.line = 0;
        bool counts = !r->quoted || without_break(row, length) > 0;
        if (at.line == 0 || (counts && left-- == 0))
            break;
        at.offset += length;
        at.line += count_breaks(row, length);
    }
    file_window_finish(&w);
    return at.line;
}

pst_status rows_blame(const struct rows *r, uint64_t i, pst_status status, pst_error *reterr)
{
    const struct row_file *f = &r->files[file_of(r, i)];
    const uint64_t line = line_of(r, f, i - f->first);
    char place[32] = "";
    if (line)
        snprintf(place, sizeof(place), "line %" PRIu64 ": ", line);
    return pst_fail_at(reterr, status, f->spool->path, i - f->first, PST_NOWHERE, "%s%s", place, reterr->message);
}
