/* tree.c: see tree.h. Only stages whose effect is known are moved: operations that change one field, and stages that look at others. A join
 * is cut into its branches; what all of them compute last is computed after the join instead, where it can be passed by. */
#include "doctor/tree.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>

#define MOST_BRANCHES 64
#define MOST_DEPTH    8

/* ---- What stages touch ---- */

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

static uint32_t flags_of(const struct draft_stage *s)
{
    const pst_op_class *op = s->custom ? NULL : pst_op_find(s->name);
    return op ? op->flags : 0;
}

/* The field of a stage that changes only one, for mem_free; NULL: it may change others. */
static char *only_field(const struct draft_stage *s)
{
    const pst_param *p = flags_of(s) & PST_OP_ONE_FIELD ? pst_op_find(s->name)->params : NULL;
    size_t place = 0;
    for (; p && p->name && strcmp(p->name, "field") != 0; p++)
        place++;
    if (!p || !p->name || !p->fallback)
        return NULL;
    char *field = draft_argument(s, "field", place);
    return field ? field : mem_strdup(p->fallback);
}

static bool mentions(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool begins = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (begins && !isalnum((unsigned char)at[n]) && at[n] != '_')
            return true;
    }
    return false;
}

/* Whether `s` gives the same samples before `over` as after it. */
static bool passes(const struct draft_stage *s, const struct draft_stage *over)
{
    static const char *const by_place[] = {"shuffle", "take", "skip", "shard", NULL}, *const by_value[] = {"filter", "unique", NULL};
    if (is_one_of(s->name, by_place))
        return over->kind == PST_OP_SAMPLE && !over->custom;
    if (!is_one_of(s->name, by_value) || !strpbrk(s->text, " \t"))
        return false; /* without arguments all fields are compared */
    char *field = only_field(over);
    bool free = field && !mentions(s->text, field);
    mem_free(field);
    return free;
}

static void move(struct draft *r, size_t from, size_t to)
{
    struct draft_stage s = r->stage[from];
    memmove(&r->stage[to + 1], &r->stage[to], (from - to) * sizeof(s));
    r->stage[to] = s;
}

/* Moves what can be moved in one chain. */
static void reorder_chain(struct draft *r, struct tree_moves *m)
{
    for (size_t i = 1; i < r->count; i++) {
        size_t to = i;
        while (to > 1 && passes(&r->stage[i], &r->stage[to - 1]))
            to--;
        if (to == i)
            continue;
        if (!m->first[0])
            memcpy(m->first, r->stage[i].name, sizeof(m->first));
        bool shuffle = strcmp(r->stage[i].name, "shuffle") == 0;
        m->shuffles += shuffle;
        m->choices += !shuffle;
        move(r, i, to);
    }
}

/* ---- Joins ---- */

struct join {
    struct draft branch[MOST_BRANCHES];
    size_t count;
    struct text rest; /* name and arguments: everything outside of the branches */
};

static void join_finish(struct join *j)
{
    for (size_t i = 0; i < j->count; i++)
        draft_finish(&j->branch[i]);
    text_finish(&j->rest);
    mem_free(j);
}

static const char *skip_quoted(const char *s)
{
    char quote = *s++;
    while (*s && *s != quote)
        s += quote == '"' && *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

/* Returns the parenthesis that closes the one at `s`; NULL: there is none. */
static const char *closing(const char *s)
{
    for (size_t depth = 0; *s;) {
        if (*s == '"' || *s == '\'') {
            s = skip_quoted(s);
            continue;
        }
        depth += *s == '(';
        if (*s == ')' && --depth == 0)
            return s;
        s++;
    }
    return NULL;
}

/* Cuts the text of a join; false: it is not one that can be changed. */
static bool join_cut(struct join *j, const struct draft *r)
{
    static const char *const names[] = {"zip", "concatenate", "sample", "choose", "interleave", NULL};
    const char *s = r->stage[0].text;
    if (!is_one_of(r->stage[0].name, names))
        return false;
    while (*s) {
        const char *end = *s == '(' ? closing(s) : NULL, *from = s;
        if (*s == '(') {
            char *text = end && j->count < MOST_BRANCHES ? mem_strndup(s + 1, (size_t)(end - s - 1)) : NULL;
            bool whole = text && draft_parse(&j->branch[j->count], text, &r->options, r->customs, NULL) == PST_OK;
            mem_free(text);
            if (!whole)
                return false;
            j->count++;
            s = end + 1;
            continue;
        }
        s = *s == '"' || *s == '\'' ? skip_quoted(s) : s + 1;
        text_add_n(&j->rest, from, (size_t)(s - from));
    }
    return j->count > 0 && !j->rest.failed;
}

/* Writes the join anew: its name, the branches, the other arguments. */
static void join_write(const struct join *j, struct draft *r)
{
    const char *name = r->stage[0].name;
    size_t n = strlen(name);
    struct text t = {0};
    text_add(&t, name);
    for (size_t i = 0; i < j->count; i++) {
        char *branch = draft_text(&j->branch[i]);
        text_addf(&t, " (%s)", branch ? branch : "");
        t.failed |= !branch;
        mem_free(branch);
    }
    const char *rest = j->rest.data + n;
    size_t length = strlen(rest);
    while (length > 0 && isspace((unsigned char)rest[length - 1]))
        length--;
    size_t blanks = strspn(rest, " \t\r\n");
    if (blanks < length)
        text_addf(&t, " %.*s", (int)(length - blanks), rest + blanks);
    if (t.failed)
        r->failed = true;
    else
        draft_set(r, 0, "%s", t.data);
    text_finish(&t);
}

static struct draft_stage *last_of(struct draft *r)
{
    return r->count > 1 ? &r->stage[r->count - 1] : NULL;
}

/* Moves the last stage of branch `b` behind the join. */
static void hoist(struct join *j, size_t b, struct draft *r)
{
    struct draft *branch = &j->branch[b];
    draft_insert(r, 1, "%s", branch->stage[branch->count - 1].text);
    draft_truncate(branch, branch->count - 1);
}

static bool decodes(const struct draft *branch, const char *field)
{
    bool found = false;
    for (size_t i = 0; i < branch->count && !found; i++) {
        char *own = flags_of(&branch->stage[i]) & PST_OP_DECODES ? only_field(&branch->stage[i]) : NULL;
        found = own && strcmp(own, field) == 0;
        mem_free(own);
    }
    return found;
}

/* Whether the last stage may be computed after the join. One that converts may be what makes the types of the branches equal,
 * unless its field is an image that the branch decodes. */
static bool can_leave(const struct draft *branch, const struct draft_stage *last)
{
    char *field = last ? only_field(last) : NULL;
    bool ret = field && (!(flags_of(last) & PST_OP_CONVERTS) || decodes(branch, field));
    mem_free(field);
    return ret;
}

/* What every branch computes last on one field; in zip, where fields stand side by side, what any branch does. */
static unsigned hoist_all(struct join *j, struct draft *r)
{
    bool together = strcmp(r->stage[0].name, "zip") == 0;
    unsigned count = 0;
    for (size_t b = 0; together && b < j->count; b++)
        for (; can_leave(&j->branch[b], last_of(&j->branch[b])); count++)
            hoist(j, b, r);
    while (!together) {
        const struct draft_stage *last = last_of(&j->branch[0]);
        bool same = can_leave(&j->branch[0], last);
        for (size_t b = 1; b < j->count && same; b++) {
            const struct draft_stage *other = last_of(&j->branch[b]);
            same = other && strcmp(other->text, last->text) == 0;
        }
        if (!same)
            break;
        for (size_t b = 1; b < j->count; b++)
            draft_truncate(&j->branch[b], j->branch[b].count - 1);
        hoist(j, 0, r);
        count++;
    }
    return count;
}

static void reorder(struct draft *r, struct tree_moves *m, unsigned depth)
{
    struct join *j = r->count && depth < MOST_DEPTH ? mem_zalloc(sizeof(*j)) : NULL;
    if (j && join_cut(j, r)) {
        for (size_t b = 0; b < j->count; b++)
            reorder(&j->branch[b], m, depth + 1);
        m->hoisted += hoist_all(j, r);
        join_write(j, r);
    }
    if (j)
        join_finish(j);
    reorder_chain(r, m);
}

void tree_reorder(struct draft *r, struct tree_moves *ret)
{
    *ret = (struct tree_moves){0};
    reorder(r, ret, 0);
}
