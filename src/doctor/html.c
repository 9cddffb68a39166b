/* html.c: the doctor's answer as one page: verdict, picture, what-if table, commands, then the evidence.
 *
 * It reads the JSON contract only, so that it draws answers of the tool, of the Python module and of older runs alike. Members
 * that are absent, or of another kind, are left out. */
#include "doctor/html.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/publish.h"

#include <math.h>
#include <penstock/report.h>
#include <string.h>

#define NEWEST_SCHEMA 1

static void add_facts(struct sheet *s)
{
    size_t verdict = sheet_child(s, 0, "verdict"), now = sheet_child(s, 0, "now");
    struct page_fact all[6], shown[6];
    size_t count = 0, n = 0;
    const char *cause = sheet_text(s, verdict, "cause"), *stage = sheet_text(s, verdict, "stage");
    const char *class_name = sheet_text(s, verdict, "class");
    bool known = strcmp(class_name, "unknown") != 0;
    all[n++] = (struct page_fact){"Verdict", class_name, known};
    all[n++] = (struct page_fact){"Waiting for data", sheet_share(s, sheet_number(s, verdict, "wait_share")), false};
    all[n++] = (struct page_fact){"Cause", stage[0] && cause[0] && strcmp(cause, "none") != 0 ? sheet_format(s, "%s (%s)", cause, stage) : cause, !known};
    all[n++] = (struct page_fact){"Samples per second", sheet_rate(s, sheet_number(s, now, "samples_per_s")), false};
    all[n++] = (struct page_fact){"One epoch", sheet_duration(s, sheet_number(s, now, "epoch_seconds")), false};
    all[n++] = (struct page_fact){"All epochs", sheet_duration(s, sheet_number(s, now, "total_seconds")), false};
    for (size_t i = 0; i < n; i++)
        if (all[i].value[0])
            shown[count++] = all[i];
    if (count)
        page_facts(&s->page, shown, count);
}

static void write_page(struct sheet *s, struct text *to)
{
    size_t verdict = sheet_child(s, 0, "verdict");
    const char *subject = sheet_text(s, 0, "subject"), *pipeline = sheet_text(s, 0, "pipeline");
    const char *sentence = sheet_text(s, verdict, "sentence");
    page_begin(&s->page, to, subject[0] ? sheet_format(s, "Penstock doctor: %s", subject) : "Penstock doctor");
    page_sentence(&s->page, sentence[0] ? sentence : "The answer has no sentence.");
    add_facts(s);
    sheet_waterfall(s);
    sheet_what_if(s);
    sheet_commands(s);
    sheet_step(s);
    sheet_stages(s);
    sheet_stacks(s);
    sheet_timeline(s);
    sheet_sweeps(s);
    sheet_images(s);
    if (pipeline[0]) {
        page_heading(&s->page, "Pipeline");
        page_command(&s->page, pipeline);
    }
    page_heading(&s->page, "Machine and settings");
    sheet_members(s, "limits", "Measured limits");
    sheet_members(s, "data", "Data");
    sheet_members(s, "machine", "Machine");
    sheet_members(s, "settings", "Settings");
    sheet_members(s, "gpu", "Graphics processors");
    page_paragraph(&s->page, "Solid bars are measured, hatched ones predicted; a thin line is the range of an uncertain value. "
                             "Each remedy stands for itself unless the picture says that they add up.");
    page_end(&s->page);
}

static pst_status check(const struct sheet *s, pst_error *reterr)
{
    double schema = sheet_number(s, 0, "schema");
    if (s->doc.items[0].kind != JSON_OBJECT || sheet_child(s, 0, "verdict") == JSON_ABSENT || !isfinite(schema))
        return pst_fail(
            reterr, PST_EINVAL,
            "not a doctor's answer: expected a JSON object with schema and verdict; `penstock doctor --json` writes one");
    if (schema > NEWEST_SCHEMA || schema < 1)
        return pst_fail(reterr, PST_EUNSUPPORTED, "the answer has schema %g; this version reads %d", schema, NEWEST_SCHEMA);
    return PST_OK;
}

static pst_status make_page(struct text *to, const char *json, size_t length, pst_error *reterr)
{
    struct sheet s = {0};
    arena_init(&s.arena);
    pst_status st = json_parse(&s.doc, json, length, reterr);
    if (st == PST_OK)
        st = check(&s, reterr);
    if (st == PST_OK) {
        write_page(&s, to);
        if (s.failed || to->failed)
            st = fail_memory(reterr, "writing the doctor's page");
    }
    json_finish(&s.doc);
    arena_finish(&s.arena);
    return st;
}

pst_status pst_doctor_page(char **ret, const char *json, size_t length, pst_error *reterr)
{
    struct text page = {0};
    pst_status st = make_page(&page, json, length, reterr);
    if (st < 0)
        text_finish(&page);
    else
        *ret = page.data;
    return st;
}

pst_status pst_doctor_report(const char *path, const char *json, size_t length, bool overwrite, pst_error *reterr)
{
    struct text page = {0};
    pst_status st = make_page(&page, json, length, reterr);
    if (st == PST_OK)
        st = publish_bytes(path, page.data, page.length, overwrite, false, reterr);
    text_finish(&page);
    return st;
}
