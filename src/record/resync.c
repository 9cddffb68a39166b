/* resync.c: scans for the next valid record.
 *
 * Nearly every offset fails the cheap test, that its length is possible at all, before any CRC. A length and its CRC agree
 * by chance at one offset in 2^32, so the payload after them is nearly always right; a file crafted to announce large
 * payloads at every offset could still cost unlimited time, hence the bound on wasted work. */
#include "record/resync.h"

#include "record/frame.h"

#define WASTE_FREE  (UINT64_C(1) << 30) /* bytes of denied payloads that are read without asking… */
#define WASTE_RATIO 64                  /* …and how many more for each byte scanned */

/* Returns the first of the `count` offsets of `data` at which a possible length matches its CRC; `count` if there is none.
 * 11 bytes after the last offset are readable. */
static size_t find_header(const uint8_t *data, size_t count, uint64_t max_length)
{
    uint64_t length;
    for (size_t i = 0; i < count; i++)
        if (le64(data + i) <= max_length && frame_get_header(data + i, &length))
            return i;
    return count;
}

static uint64_t max_length_here(const struct source *s, uint64_t max_record_bytes)
{
    if (s->size == SOURCE_UNKNOWN)
        return max_record_bytes;
    uint64_t left = s->size - s->offset - FRAME_BYTES;
    return left < max_record_bytes ? left : max_record_bytes;
}

pst_status resync_find(struct resync *r, struct source *s, uint64_t max_record_bytes, pst_error *reterr)
{
    for (;;) {
        pst_status st = source_need(s, FRAME_BYTES, reterr);
        if (st < 0)
            return st;
        size_t available = source_available(s);
        if (available < FRAME_BYTES || r->wasted > WASTE_FREE + WASTE_RATIO * r->scanned) {
            st = source_skip(s, UINT64_MAX, reterr);
            return st < 0 ? st : PST_END;
        }
        size_t count = available - FRAME_BYTES + 1,
               found = find_header(source_data(s), count, max_length_here(s, max_record_bytes));
        source_advance(s, found);
        r->scanned += found;
        if (found == count)
            continue;

        uint64_t length = le64(source_data(s));
        enum load load;
        st = source_load(s, length, true, &load, reterr);
        if (st < 0)
            return st;
        if (load == LOAD_SOUND)
            return PST_OK;
        r->wasted += load == LOAD_DAMAGED ? length : source_available(s);
        r->scanned++;
        source_advance(s, 1);
    }
}
