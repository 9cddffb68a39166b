/* entropy_make.c: the entropy index of a shard that is there: `penstock index --entropy`.
 *
 * Promises: the sidecar is replaced as a whole or not at all, and keeps what else it holds; the result does not depend on the
 * number of workers. Leaves to others: what is in a record (entropy_scan.c), and the bytes of the section (entropy.c). */
#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "io/file.h"
#include "record/entropy_section.h"
#include "record/frame.h"
#include "record/index_find.h"
#include "base/options.h"

#include <inttypes.h>
#include <string.h>

#define TASK_BYTES   ((uint64_t)4 << 20)
#define TASK_RECORDS 4096u

struct making {
    const struct shard_file *file;
    const struct index *index;
    uint64_t max_record_bytes;
    uint64_t step; /* records a task */
    struct entropy_builder *parts;
    _Atomic uint64_t bad_records;
};

/* ---- Looking into the records ---- */

struct looker { /* of one task */
    struct entropy_scanner *scanner;
    uint8_t *frame;
    size_t capacity;
};

static pst_status look_at(struct making *m, struct looker *l, uint64_t record, struct entropy_builder *ret, pst_error *reterr)
{
    const struct index_entry *e = &m->index->entries[record];
    size_t want = (size_t)e->length + FRAME_BYTES, got = 0;
    void *frame = l->frame;
    if (e->length > m->max_record_bytes)
        return PST_OK;
    if (mem_grow(&frame, &l->capacity, want, 1) < 0)
        return fail_memory_at(reterr, m->file->path, "making the entropy index");
    l->frame = frame;
    pst_status st = file_read_at(m->file->fd, m->file->path, l->frame, want, e->offset, &got, reterr);
    if (st < 0)
        return st;
    if (got < want || !frame_is_sound(l->frame, e->length, true)) {
        atomic_fetch_add_explicit(&m->bad_records, 1, memory_order_relaxed);
        return PST_OK;
    }
    return entropy_scanner_add(l->scanner, ret, record, l->frame + FRAME_HEADER, (size_t)e->length, reterr);
}

static pst_status run_task(void *user, size_t task, struct meter *meter, pst_error *reterr)
{
    struct making *m = user;
    struct looker l = {0};
    uint64_t begin = task * m->step, end = begin + m->step < m->index->count ? begin + m->step : m->index->count;
    pst_status st = entropy_scanner_create(&l.scanner, reterr);
    for (uint64_t i = begin; i < end && st == PST_OK; i++) {
        st = look_at(m, &l, i, &m->parts[task], reterr);
        if (st == PST_OK)
            st = meter_add(meter, 1, m->index->entries[i].length + FRAME_BYTES, reterr);
    }
    entropy_scanner_destroy(l.scanner);
    mem_free(l.frame);
    return st;
}

/* Joins all parts, one after the other, to the section's bytes. */
static pst_status join_parts(const struct making *m, size_t tasks, uint8_t **ret, size_t *ret_length, pst_error *reterr)
{
    struct entropy_builder whole = {0};
    pst_status st = PST_OK;
    for (size_t i = 0; i < tasks && st == PST_OK; i++)
        st = entropy_builder_append(&whole, &m->parts[i], 0, reterr);
    if (st == PST_OK)
        st = entropy_builder_bytes(&whole, ret, ret_length, reterr);
    entropy_builder_finish(&whole);
    return st;
}

/* ---- One shard ---- */

static pst_status check_unchanged(const struct shard_file *f, pst_error *reterr)
{
    uint64_t bytes, fingerprint;
    pst_status st = index_fingerprint(f->fd, f->path, &bytes, &fingerprint, reterr);
    if (st == PST_OK && (bytes != f->bytes || fingerprint != f->fingerprint))
        st = pst_fail_at(reterr, PST_ESTALE, f->path, PST_NOWHERE, PST_NOWHERE,
                         "was written to while it was read; try again when its writer is done");
    return st;
}

static pst_status make_section(struct making *m, unsigned workers, pst_progress_fn progress, void *user, uint8_t **ret,
                               size_t *ret_length, pst_error *reterr)
{
    const struct index *x = m->index;
    uint64_t mean = x->count ? x->shard_bytes / x->count + 1 : 1, step = TASK_BYTES / mean;
    m->step = step < 1 ? 1 : step > TASK_RECORDS ? TASK_RECORDS : step;
    size_t tasks = (size_t)((x->count + m->step - 1) / m->step);
    struct parallel p = {.tasks = tasks,
                         .workers = workers,
                         .run = run_task,
                         .user = m,
                         .stage = "looking at JPEGs",
                         .total = x->count,
                         .progress = progress,
                         .progress_user = user};
    m->parts = mem_array(tasks, sizeof(*m->parts));
    pst_status st = m->parts ? parallel_run(&p, reterr) : fail_memory_at(reterr, m->file->path, "making the entropy index");
    if (st == PST_OK)
        st = check_unchanged(m->file, reterr);
    if (st == PST_OK)
        st = join_parts(m, tasks, ret, ret_length, reterr);
    for (size_t i = 0; m->parts && i < tasks; i++)
        entropy_builder_finish(&m->parts[i]);
    mem_free(m->parts);
    return st;
}

static void tell(const void *section, size_t length, pst_entropy_report *r)
{
    struct entropy_section s;
    if (!entropy_section_open(&s, section, length))
        return;
    r->jpegs = s.sums.jpegs;
    r->jpeg_bytes = s.sums.bytes;
    r->indexed = s.count;
    r->points = s.point_count;
    r->foreign = s.sums.foreign;
    r->damaged = s.sums.damaged;
    r->small = r->jpegs - r->indexed - r->foreign - r->damaged;
    r->bytes = length;
}

/* An index that has a file of its own in our format. */
static pst_status own_index(struct found_index *x, struct shard_file *f, const pst_shard_options *o, pst_error *reterr)
{
    pst_status st = index_find(x, f, o, NULL);
    if (st == PST_OK && x->place == PST_INDEX_TEXT) {
        found_index_finish(x);
        st = PST_ENOTFOUND;
    }
    if (st != PST_OK)
        st = index_make(x, f, o, true, reterr);
    if (st == PST_OK && !x->path && x->index.count > 0)
        st = pst_fail_at(reterr, PST_EINVAL, f->path, PST_NOWHERE, PST_NOWHERE,
                         "its index is in memory only (no_write), so an entropy index cannot be stored");
    return st;
}

static bool entries_equal(const struct entropy_section *a, const struct entropy_entry *e, const struct entropy_section *b,
                          const struct entropy_entry *o)
{
    struct jpeg_points points, others;
    return e->record == o->record && e->offset == o->offset && e->length == o->length && e->hash == o->hash &&
           e->count == o->count && entropy_section_points(a, e, &points) && entropy_section_points(b, o, &others) &&
           memcmp(points.point, others.point, e->count * sizeof(*points.point)) == 0;
}

/* Whether the record is listed and damaged: its JPEGs have stored points and no new ones. */
static pst_status record_is_damaged(const struct making *m, uint64_t record, bool *ret, pst_error *reterr)
{
    *ret = false;
    if (record >= m->index->count || m->index->entries[record].length > m->max_record_bytes)
        return PST_OK;
    const struct index_entry *e = &m->index->entries[record];
    size_t want = (size_t)e->length + FRAME_BYTES, got = 0;
    uint8_t *frame = mem_alloc(want);
    pst_status st = frame ? file_read_at(m->file->fd, m->file->path, frame, want, e->offset, &got, reterr)
                          : fail_memory_at(reterr, m->file->path, "checking the entropy index");
    *ret = st == PST_OK && (got < want || !frame_is_sound(frame, e->length, true));
    mem_free(frame);
    return st;
}

/* Stores the record of the first entry that differs, or PST_NOWHERE. */
static pst_status find_difference(const struct making *m, const struct entropy_section *kept,
                                  const struct entropy_section *made, uint64_t *ret, pst_error *reterr)
{
    uint64_t i = 0, j = 0;
    while (i < kept->count || j < made->count) {
        const struct entropy_entry *e = i < kept->count ? &kept->entries[i] : NULL;
        const struct entropy_entry *o = j < made->count ? &made->entries[j] : NULL;
        bool damaged = false;
        if (e && o && entries_equal(kept, e, made, o)) {
            i++;
            j++;
            continue;
        }
        *ret = !o || (e && e->record < o->record) ? e->record : o->record;
        if (e && e->record == *ret && (!o || o->record != *ret)) {
            pst_status st = record_is_damaged(m, *ret, &damaged, reterr);
            if (st < 0)
                return st;
        }
        if (!damaged)
            return PST_OK;
        i++;
    }
    *ret = PST_NOWHERE;
    return PST_OK;
}

pst_status entropy_check(const struct found_index *x, const struct shard_file *f, const pst_shard_options *options,
                         unsigned workers, pst_progress_fn progress, void *user, pst_error *reterr)
{
    struct making m = {.file = f, .index = &x->index, .max_record_bytes = options->max_record_bytes};
    struct entropy_section kept, made;
    uint8_t *section = NULL;
    size_t length = 0;
    if (!x->index.jpegs)
        return PST_OK;
    pst_status st = make_section(&m, workers, progress, user, &section, &length, reterr);
    if (st == PST_OK) {
        uint64_t record = 0;
        if (entropy_section_open(&kept, x->index.jpegs, x->index.jpegs_length) && entropy_section_open(&made, section, length))
            st = find_difference(&m, &kept, &made, &record, reterr);
        if (st == PST_OK && record != PST_NOWHERE)
            st = pst_fail_at(reterr, PST_ESTALE, x->path, record, PST_NOWHERE,
                             "the stored entropy points differ from those of the record's JPEGs; "
                             "`penstock index --entropy --rebuild` replaces them");
    }
    mem_free(section);
    return st;
}

static bool has_section(const struct index *x)
{
    struct entropy_section s;
    return x->jpegs && entropy_section_open(&s, x->jpegs, x->jpegs_length) && index_check_sections(x, "", NULL) == PST_OK;
}

pst_status pst_index_entropy(const char *path, const pst_shard_options *options, bool rebuild, unsigned workers,
                             pst_progress_fn progress, void *user, pst_entropy_report *ret, pst_error *reterr)
{
    pst_shard_options o = {0};
    struct shard_file f = {0};
    struct found_index x = {0};
    pst_entropy_report report = {0};
    uint8_t *section = NULL;
    size_t length = 0;
    pst_status st = options_take(&o, sizeof(o), options, reterr);
    if (st == PST_OK)
        st = result_check(ret, reterr);
    if (st < 0)
        return st;
    o.max_record_bytes = o.max_record_bytes ? o.max_record_bytes : PST_MAX_RECORD_BYTES;
    st = shard_file_open(&f, path, reterr);
    if (st == PST_OK)
        st = own_index(&x, &f, &o, reterr);
    if (st == PST_OK && x.path && (rebuild || !has_section(&x.index))) {
        struct making m = {.file = &f, .index = &x.index, .max_record_bytes = o.max_record_bytes};
        st = make_section(&m, workers, progress, user, &section, &length, reterr);
        if (st == PST_OK) {
            struct index with = x.index;
            with.jpegs = section;
            with.jpegs_length = length;
            index_set_version(&with, f.version);
            st = index_publish(x.path, &with, false, reterr);
        }
        report.bad_records = atomic_load(&m.bad_records);
        report.written = true;
    }
    if (st == PST_OK) {
        tell(section ? section : x.index.jpegs, section ? length : x.index.jpegs_length, &report);
        result_give(ret, &report, sizeof(report));
    }
    mem_free(section);
    found_index_finish(&x);
    shard_file_close(&f);
    return st;
}
