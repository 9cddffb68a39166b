/* report.c: see report.h. Everything that a report points to lives in its arena. */
#include "pack/report.h"

#include "base/clock.h"
#include "base/digits.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

pst_status pack_report_create(struct pack_report **ret, pst_error *reterr)
{
    struct pack_report *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory(reterr, "allocating the report");
    arena_init(&r->arena);
    *ret = r;
    return PST_OK;
}

pst_status pack_report_note(struct pack_report *r, pst_error *reterr, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = digits_vprint(NULL, 0, format, args);
    va_end(args);
    void *notes = r->notes;
    char *note = n < 0 ? NULL : arena_alloc(&r->arena, (size_t)n + 1);
    if (!note || mem_grow(&notes, &r->note_capacity, r->public.notes + 1, sizeof(*r->notes)) < 0)
        return fail_memory(reterr, "allocating the report");
    va_start(args, format);
    digits_vprint(note, (size_t)n + 1, format, args);
    va_end(args);
    r->notes = notes;
    r->notes[r->public.notes++] = note;
    r->public.note = r->notes;
    return PST_OK;
}

pst_status pack_report_skip(struct pack_report *r, const char *key, size_t key_length, const char *why, size_t why_length,
                            pst_error *reterr)
{
    void *skips = r->skips;
    char *key_copy = arena_strndup(&r->arena, key, key_length), *why_copy = arena_strndup(&r->arena, why, why_length);
    if (!key_copy || !why_copy || mem_grow(&skips, &r->skip_capacity, r->public.skips + 1, sizeof(*r->skips)) < 0)
        return fail_memory(reterr, "allocating the report");
    r->skips = skips;
    r->skips[r->public.skips++] = (pst_pack_skip){key_copy, why_copy};
    r->public.skip = r->skips;
    return PST_OK;
}

struct pack_report *pack_report_destroy(struct pack_report *r)
{
    if (!r)
        return NULL;
    mem_free(r->skips);
    mem_free(r->notes);
    mem_free(r->splits);
    arena_finish(&r->arena);
    mem_free(r);
    return NULL;
}

pst_pack_report *pst_pack_report_destroy(pst_pack_report *report)
{
    pack_report_destroy((struct pack_report *)report);
    return NULL;
}

/* ---- Progress ---- */

#define INTERVAL_NS UINT64_C(100000000)

pst_status pack_ticker_tell(struct pack_ticker *t, const char *stage, uint64_t done, uint64_t total, uint64_t bytes, bool now,
                            pst_error *reterr)
{
    if (!t->fn)
        return PST_OK;
    uint64_t clock = clock_ns();
    if (!now && clock < t->next_ns)
        return PST_OK;
    t->next_ns = clock + INTERVAL_NS;
    pst_progress progress = {.stage = stage, .done = done, .total = total, .bytes = bytes};
    if (t->fn(t->user, &progress))
        return pst_fail(reterr, PST_ECANCELLED, "stopped while %s, at %llu; run the same command again to resume", stage,
                        (unsigned long long)done);
    return PST_OK;
}
