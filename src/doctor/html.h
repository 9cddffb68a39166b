/* html.h: inside the doctor's page: the JSON being read and the page being written.
 *
 * Strings live in the arena until the page is done. A failed allocation sets `failed`; the rest then works with empty strings.
 */
#ifndef DOCTOR_HTML_H
#define DOCTOR_HTML_H

#include "base/arena.h"
#include "base/json_read.h"
#include "report/chart.h"

struct sheet {
    struct page page;
    struct json_document doc;
    struct arena arena;
    bool failed;
};

/* ---- Reading; absent values are "", NAN, JSON_ABSENT, 0 ---- */

const char *sheet_text(struct sheet *s, size_t at, const char *key);
double sheet_number(const struct sheet *s, size_t at, const char *key);
size_t sheet_child(const struct sheet *s, size_t at, const char *key);
/* Returns the number of items if `at` is an array. */
size_t sheet_count(const struct sheet *s, size_t at);
/* Items one after the other: begins with `at + 1`, then the `next` of each. */
size_t sheet_next(const struct sheet *s, size_t item);

/* ---- Words ---- */

void *sheet_alloc(struct sheet *s, size_t count, size_t size); /* zeroed; NULL: out of memory */
const char *sheet_format(struct sheet *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sheet_figure(struct sheet *s, double value); /* all digits of a whole number, otherwise three; "" if not finite */
const char *sheet_sentence(struct sheet *s, const char *text); /* begins with a capital letter */
const char *sheet_rate(struct sheet *s, double value);         /* three digits */
const char *sheet_duration(struct sheet *s, double seconds);   /* "236 h", "3.2 min", "45 ms"; "" if not finite */
const char *sheet_date(struct sheet *s, double seconds);       /* since 1970; "2026-11-19 19:57 UTC" */
const char *sheet_bytes(struct sheet *s, double bytes);
const char *sheet_share(struct sheet *s, double share); /* "62 %" */
const char *sheet_times(struct sheet *s, double gain);  /* "3.20 ×" */

/* ---- Sections; each writes nothing where the answer has nothing for it ---- */

void sheet_waterfall(struct sheet *s);
void sheet_what_if(struct sheet *s);
void sheet_commands(struct sheet *s);
void sheet_step(struct sheet *s);
void sheet_stages(struct sheet *s);
void sheet_stacks(struct sheet *s);
void sheet_timeline(struct sheet *s);
void sheet_sweeps(struct sheet *s);
void sheet_images(struct sheet *s);
/* A table of everything inside the member `key`, names of nested members joined. */
void sheet_members(struct sheet *s, const char *key, const char *title);

#endif
