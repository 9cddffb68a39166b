/* draft.c: see draft.h. Only the public functions of pipelines are used: texts are cut here, and judged by the library. */
#include "doctor/draft.h"

#include "base/error.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Cutting ---- */

/* Returns the end of the quoted text that begins at `s`. */
static const char *skip_quoted(const char *s)
{
    char quote = *s++;
    while (*s && *s != quote)
        s += quote == '"' && *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

/* Returns the end of the stage that begins at `s`: the next | outside of quotes and parentheses, or the end of the text. */
static const char *stage_end(const char *s)
{
    size_t depth = 0;
    while (*s && (depth > 0 || *s != '|')) {
        if (*s == '"' || *s == '\'') {
            s = skip_quoted(s);
            continue;
        }
        depth += *s == '(';
        depth -= *s == ')' && depth > 0;
        s++;
    }
    return s;
}

/* Whether the text has comments or inserted files, which only the library reads. */
static bool needs_library(const char *text)
{
    for (const char *s = text; *s;) {
        if (*s == '"' || *s == '\'') {
            s = skip_quoted(s);
            continue;
        }
        bool first = s == text || isspace((unsigned char)s[-1]) || s[-1] == '|' || s[-1] == '(';
        if (first && (*s == '#' || *s == '@'))
            return true;
        s++;
    }
    return false;
}

static void describe_stage(const struct draft *r, struct draft_stage *s)
{
    size_t n = strcspn(s->text, " \t\r\n(");
    n = n < sizeof(s->name) - 1 ? n : sizeof(s->name) - 1;
    memcpy(s->name, s->text, n);
    s->name[n] = '\0';
    const pst_op_class *op = pst_op_find(s->name);
    s->custom = !op && r->customs && r->customs->add;
    s->python = s->custom && r->customs->kind && r->customs->kind(r->customs->user, s->text) == PST_CUSTOM_PYTHON;
    s->kind = op ? pst_op_kind_of(op) : PST_OP_SAMPLE;
}

static void insert_text(struct draft *r, size_t at, char *text)
{
    if (!text || mem_grow((void **)&r->stage, &r->capacity, r->count + 1, sizeof(*r->stage)) < 0) {
        mem_free(text);
        r->failed = true;
        return;
    }
    memmove(&r->stage[at + 1], &r->stage[at], (r->count - at) * sizeof(*r->stage));
    r->stage[at] = (struct draft_stage){.text = text};
    r->count++;
    describe_stage(r, &r->stage[at]);
    if (at == 0)
        r->stage[at].kind = PST_OP_SOURCE;
}

static void cut(struct draft *r, const char *text)
{
    for (const char *s = text;; s++) {
        const char *end = stage_end(s), *last = end;
        while (s < last && isspace((unsigned char)*s))
            s++;
        while (last > s && isspace((unsigned char)last[-1]))
            last--;
        insert_text(r, r->count, mem_strndup(s, (size_t)(last - s)));
        s = end;
        if (!*s)
            return;
    }
}

/* The texts of the operations in the plan, joined. */
static char *join_operations(const char *json)
{
    struct json_document d = {0};
    struct text t = {0};
    if (json_parse(&d, json, strlen(json), NULL) == PST_OK) {
        size_t list = json_find(&d, 0, "operations"), item = list + 1;
        for (size_t i = 0; list != JSON_ABSENT && i < d.items[list].count; i++, item = d.items[item].next) {
            char *one = json_get_string(&d, json_find(&d, item, "text"));
            text_addf(&t, "%s%s", i ? " | " : "", one ? one : "");
            t.failed |= !one;
            mem_free(one);
        }
    }
    json_finish(&d);
    if (t.failed)
        text_finish(&t);
    return t.data;
}

/* Lets the library read the text with its files, and returns the canonical chain. */
static pst_status expand(const char *text, const pst_pipeline_options *options, char **ret, pst_error *reterr)
{
    pst_pipeline *p = NULL;
    char *json = NULL;
    pst_status st = pst_pipeline_parse(&p, text, options, reterr);
    if (st == PST_OK)
        st = pst_pipeline_describe(p, true, &json, reterr);
    if (st == PST_OK) {
        *ret = join_operations(json);
        st = *ret ? PST_OK : fail_memory(reterr, "reading the pipeline");
    }
    pst_free(json);
    pst_pipeline_destroy(p);
    return st;
}

/* The first `count` stages; NULL: out of memory. */
static char *join(const struct draft *r, size_t count)
{
    struct text t = {0};
    for (size_t i = 0; i < count; i++)
        text_addf(&t, "%s%s", i ? " | " : "", r->stage[i].text);
    if (t.failed || !t.data || r->failed) {
        text_finish(&t);
        return NULL;
    }
    return t.data;
}

static bool keeps_on_disk(const struct draft_stage *s)
{
    char *folder = strcmp(s->name, "cache") == 0 ? draft_argument(s, "path", 1) : NULL;
    bool keeps = strcmp(s->name, "snapshot") == 0 || (folder && folder[0]);
    mem_free(folder);
    return keeps;
}

static void note_stored(struct draft *r)
{
    for (size_t i = 1; i < r->count; i++)
        if (!r->stage[i].custom && keeps_on_disk(&r->stage[i])) {
            r->stage[i].stored = join(r, i + 1);
            r->failed |= !r->stage[i].stored;
        }
}

pst_status draft_parse(struct draft *ret, const char *text, const pst_pipeline_options *options, const pst_doctor_customs *customs,
                        pst_error *reterr)
{
    struct draft r = {.customs = customs, .options = {.size = sizeof(r.options)}};
    char *expanded = NULL;
    if (options) {
        size_t size = options->size < sizeof(r.options) ? options->size : sizeof(r.options);
        memcpy(&r.options, options, size);
        r.options.size = sizeof(r.options);
    }
    if (needs_library(text)) {
        pst_status st = expand(text, &r.options, &expanded, reterr);
        if (st < 0)
            return st;
    }
    cut(&r, expanded ? expanded : text);
    mem_free(expanded);
    note_stored(&r);
    if (r.failed) {
        draft_finish(&r);
        return fail_memory(reterr, "reading the pipeline");
    }
    *ret = r;
    return PST_OK;
}

void draft_copy(struct draft *ret, const struct draft *r)
{
    struct draft copy = {.options = r->options, .customs = r->customs, .failed = r->failed};
    for (size_t i = 0; i < r->count; i++) {
        insert_text(&copy, copy.count, mem_strdup(r->stage[i].text));
        if (!copy.failed && r->stage[i].stored)
            copy.failed = !(copy.stage[i].stored = mem_strdup(r->stage[i].stored));
    }
    *ret = copy;
}

void draft_finish(struct draft *r)
{
    while (r->count > 0)
        draft_remove(r, r->count - 1);
    mem_free(r->stage);
    *r = (struct draft){0};
}

/* ---- Editing ---- */

static char *format_text(const char *format, va_list list)
{
    va_list again;
    va_copy(again, list);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = n < 0 ? NULL : mem_alloc((size_t)n + 1);
    if (text)
        vsnprintf(text, (size_t)n + 1, format, list);
    return text;
}

void draft_set(struct draft *r, size_t at, const char *format, ...)
{
    va_list list;
    if (at >= r->count)
        return;
    draft_remove(r, at);
    va_start(list, format);
    insert_text(r, at, format_text(format, list));
    va_end(list);
}

void draft_insert(struct draft *r, size_t at, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    insert_text(r, at < r->count ? at : r->count, format_text(format, list));
    va_end(list);
}

void draft_remove(struct draft *r, size_t at)
{
    if (at >= r->count)
        return;
    mem_free(r->stage[at].text);
    mem_free(r->stage[at].stored);
    memmove(&r->stage[at], &r->stage[at + 1], (r->count - at - 1) * sizeof(*r->stage));
    r->count--;
}

void draft_truncate(struct draft *r, size_t count)
{
    while (r->count > count)
        draft_remove(r, r->count - 1);
}

bool draft_has_custom(const struct draft *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->stage[i].custom)
            return true;
    return false;
}

bool draft_stores(const struct draft *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->stage[i].stored)
            return true;
    return false;
}

size_t draft_find(const struct draft *r, const char *name, size_t from)
{
    for (size_t i = from; i < r->count; i++)
        if (strcmp(r->stage[i].name, name) == 0)
            return i;
    return DRAFT_NONE;
}

char *draft_text(const struct draft *r)
{
    return join(r, r->count);
}

char *draft_quote(const char *word)
{
    struct text t = {0};
    bool plain = word[0] != '\0' && word[0] != '#' && word[0] != '@' && !strpbrk(word, " \t\r\n\"'|()=\\");
    if (plain)
        return mem_strdup(word);
    text_add(&t, "\"");
    for (const char *s = word; *s; s++) {
        if (*s == '"' || *s == '\\')
            text_addf(&t, "\\%c", *s);
        else if ((unsigned char)*s < ' ')
            text_addf(&t, "\\x%02x", (unsigned char)*s);
        else
            text_add_n(&t, s, 1);
    }
    text_add(&t, "\"");
    if (t.failed)
        text_finish(&t);
    return t.data;
}

/* ---- Arguments ---- */

/* Returns the end of the word at `s`; quotes may begin anywhere inside of it. */
static const char *word_end(const char *s)
{
    while (*s && !isspace((unsigned char)*s) && *s != '(')
        s = *s == '"' || *s == '\'' ? skip_quoted(s) : s + 1;
    return s;
}

static char *unquote(const char *s, const char *end)
{
    struct text t = {0};
    while (s < end) {
        if (*s == '"' || *s == '\'') {
            const char *last = skip_quoted(s);
            last = last < end ? last : end;
            char quote = *s++;
            for (; s < last - 1; s++) {
                if (quote == '"' && *s == '\\' && s + 1 < last - 1)
                    s++;
                text_add_n(&t, s, 1);
            }
            s = last;
        } else {
            text_add_n(&t, s++, 1);
        }
    }
    if (t.failed)
        text_finish(&t);
    return t.data || t.failed ? t.data : mem_strdup("");
}

char *draft_argument(const struct draft_stage *stage, const char *name, size_t position)
{
    const char *s = word_end(stage->text);
    size_t at = 0, n = strlen(name);
    for (;;) {
        s += strspn(s, " \t\r\n");
        if (!*s || *s == '(')
            return NULL;
        const char *end = word_end(s), *equals = s;
        while (equals < end && (isalnum((unsigned char)*equals) || *equals == '_'))
            equals++;
        bool named = equals > s && equals < end && *equals == '=';
        if (named && (size_t)(equals - s) == n && strncmp(s, name, n) == 0)
            return position == 0 || strcmp(name, "paths") ? unquote(equals + 1, end) : NULL; /* a list in one argument is one path */
        if (!named && at++ == position)
            return unquote(s, end);
        s = end;
    }
}

/* ---- Building ---- */

/* Whether what the given pipeline keeps on disk is still what these stages make. */
static pst_status check_stored(const struct draft *r, pst_error *reterr)
{
    for (size_t i = 0; i < r->count; i++) {
        char *text = r->stage[i].stored ? join(r, i + 1) : NULL;
        bool same = text && strcmp(text, r->stage[i].stored) == 0;
        mem_free(text);
        if (r->stage[i].stored && !text)
            return fail_memory(reterr, "building the pipeline");
        if (r->stage[i].stored && !same)
            return pst_fail(reterr, PST_EUNSUPPORTED, "%s would store its elements a second time: the stages before it were changed", r->stage[i].name);
    }
    return PST_OK;
}

static pst_status add_stages(const struct draft *r, pst_pipeline *p, pst_error *reterr)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct draft_stage *s = &r->stage[i];
        const char *arguments = s->text + strcspn(s->text, " \t\r\n(");
        pst_status st = s->custom ? r->customs->add(r->customs->user, p, s->text, reterr)
                                  : pst_pipeline_add(p, s->name, arguments, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

pst_status draft_open(const struct draft *r, pst_pipeline **ret, pst_error *reterr)
{
    if (r->failed)
        return fail_memory(reterr, "changing the pipeline");
    pst_status st = check_stored(r, reterr);
    if (st < 0)
        return st;
    if (draft_has_custom(r)) {
        pst_pipeline *p = NULL;
        st = pst_pipeline_create(&p, &r->options, reterr);
        if (st == PST_OK)
            st = add_stages(r, p, reterr);
        if (st < 0) {
            pst_pipeline_destroy(p);
            return st;
        }
        *ret = p;
        return PST_OK;
    }
    char *text = draft_text(r);
    if (!text)
        return fail_memory(reterr, "building the pipeline");
    st = pst_pipeline_parse(ret, text, &r->options, reterr);
    mem_free(text);
    return st;
}
