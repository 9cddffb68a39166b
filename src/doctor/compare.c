/* compare.c: what a change brought: two results side by side. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct side {
    struct json_document doc;
    double rate, low, high, epoch, wait;
    char *cause, *class_name;
};

static double number(const struct json_document *d, size_t at, const char *key)
{
    double v;
    return json_get_number(d, json_find(d, at, key), &v) ? v : NAN;
}

static void finish(struct side *s)
{
    json_finish(&s->doc);
    mem_free(s->cause);
    mem_free(s->class_name);
}

static pst_status read_side(struct side *s, const char *text, const char *which, pst_error *reterr)
{
    double schema = NAN;
    pst_status st = json_parse(&s->doc, text, strlen(text), reterr);
    if (st < 0)
        return st;
    size_t verdict = json_find(&s->doc, 0, "verdict"), now = json_find(&s->doc, 0, "now");
    schema = number(&s->doc, 0, "schema");
    if (verdict == JSON_ABSENT || now == JSON_ABSENT || !(schema >= 1))
        return pst_fail(reterr, PST_EINVAL, "the result %s is not a doctor's answer; `penstock doctor --json` writes one", which);
    s->rate = number(&s->doc, now, "samples_per_s");
    s->low = number(&s->doc, now, "low");
    s->high = number(&s->doc, now, "high");
    s->epoch = number(&s->doc, now, "epoch_seconds");
    s->wait = number(&s->doc, verdict, "wait_share");
    s->cause = json_get_string(&s->doc, json_find(&s->doc, verdict, "cause"));
    s->class_name = json_get_string(&s->doc, json_find(&s->doc, verdict, "class"));
    return s->cause && s->class_name ? PST_OK : fail_memory(reterr, "comparing results");
}

/* The cost of the stage called `name`; NaN: it has none. */
static double stage_cost(const struct side *s, const char *name)
{
    size_t list = json_find(&s->doc, 0, "stages"), item = list + 1;
    double us = NAN;
    for (size_t i = 0; list != JSON_ABSENT && s->doc.items[list].kind == JSON_ARRAY && i < s->doc.items[list].count;
         i++, item = s->doc.items[item].next) {
        char *other = json_get_string(&s->doc, json_find(&s->doc, item, "name"));
        if (other && strcmp(other, name) == 0)
            us = number(&s->doc, item, "us_per_sample");
        mem_free(other);
    }
    return us;
}

/* Calls `fn` for each stage of both results: those of `b`, then those that only `a` has. */
static void each_stage(const struct side *a, const struct side *b, void (*fn)(void *to, const char *name, double before, double after), void *to)
{
    for (int k = 0; k < 2; k++) {
        const struct side *s = k ? a : b;
        size_t list = json_find(&s->doc, 0, "stages"), item = list + 1;
        for (size_t i = 0; list != JSON_ABSENT && s->doc.items[list].kind == JSON_ARRAY && i < s->doc.items[list].count;
             i++, item = s->doc.items[item].next) {
            char *name = json_get_string(&s->doc, json_find(&s->doc, item, "name"));
            if (name && (k == 0 || isnan(stage_cost(b, name))))
                fn(to, name, stage_cost(a, name), stage_cost(b, name));
            mem_free(name);
        }
    }
}

static void put_stage(void *to, const char *name, double before, double after)
{
    text_addf(to, "  %-40.40s %12s %12s\n", name, isfinite(before) ? FIGURE(before) : "-", isfinite(after) ? FIGURE(after) : "-");
}

/* Whether the ranges of both rates leave room for no difference. */
static bool overlap(const struct side *a, const struct side *b)
{
    return a->high >= b->low && b->high >= a->low;
}

static void put_text(struct text *t, const struct side *a, const struct side *b)
{
    char before[32], after[32];
    double gain = b->rate / a->rate;
    text_addf(t, "The change made it %s times as fast: %s instead of %s samples/s%s.\n\n", FIGURE(gain), doctor_figure(after, sizeof(after), b->rate),
              doctor_figure(before, sizeof(before), a->rate),
              overlap(a, b) ? "; the ranges overlap, so it may have made no difference" : "");
    text_addf(t, "  %-40s %12s %12s\n", "", "before", "after");
    text_addf(t, "  %-40s %12s %12s\n", "samples/s", FIGURE(a->rate), FIGURE(b->rate));
    if (isfinite(a->epoch) && isfinite(b->epoch))
        text_addf(t, "  %-40s %12s %12s\n", "one epoch", FIGURE_TIME(a->epoch), FIGURE_TIME(b->epoch));
    if (isfinite(a->wait) && isfinite(b->wait))
        text_addf(t, "  %-40s %11.0f%% %11.0f%%\n", "waiting for data", 100 * a->wait, 100 * b->wait);
    text_addf(t, "  %-40s %12.12s %12.12s\n  %-40s %12.20s %12.20s\n", "class", a->class_name, b->class_name, "cause", a->cause, b->cause);
    text_addf(t, "  %-40s\n", "stages, µs per sample");
    each_stage(a, b, put_stage, t);
}

static void put_stage_json(void *to, const char *name, double before, double after)
{
    struct json *j = to;
    json_begin_object(j, NULL);
    json_string(j, "name", name);
    json_number(j, "before_us", before);
    json_number(j, "after_us", after);
    json_end_object(j);
}

static void put_json(struct text *t, const struct side *a, const struct side *b)
{
    struct json j = {.put = text_put, .to = t, .indent = 2};
    json_begin_object(&j, NULL);
    json_lines(&j);
    json_uint(&j, "schema", 1);
    json_number(&j, "gain", b->rate / a->rate);
    json_bool(&j, "ranges_overlap", overlap(a, b));
    for (int k = 0; k < 2; k++) {
        const struct side *s = k ? b : a;
        json_begin_object(&j, k ? "after" : "before");
        json_number(&j, "samples_per_s", s->rate);
        json_number(&j, "epoch_seconds", s->epoch);
        json_number(&j, "wait_share", s->wait);
        json_string(&j, "class", s->class_name);
        json_string(&j, "cause", s->cause);
        json_end_object(&j);
    }
    json_begin_array(&j, "stages");
    each_stage(a, b, put_stage_json, &j);
    json_end_array(&j);
    json_end_object(&j);
    text_add(t, "\n");
}

pst_status pst_doctor_compare(char **ret, const char *before, const char *after, bool json, pst_error *reterr)
{
    struct side a = {0}, b = {0};
    struct text t = {0};
    pst_status st = read_side(&a, before, "before the change", reterr);
    if (st == PST_OK)
        st = read_side(&b, after, "after the change", reterr);
    if (st == PST_OK) {
        (json ? put_json : put_text)(&t, &a, &b);
        if (t.failed) {
            text_finish(&t);
            st = fail_memory(reterr, "comparing results");
        } else {
            *ret = t.data;
        }
    }
    finish(&a);
    finish(&b);
    return st;
}
