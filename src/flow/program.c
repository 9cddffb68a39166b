/* program.c: from a list of planned operations to flat instructions.
 *
 * Fields that no later operation needs are neither loaded nor computed. A field of fixed shape that reaches the batch
 * unchanged is written there by the operation that makes it; others are stored in the worker's workspace at places fixed
 * here. A cache must copy its elements from there: nothing before a cache is written in place. */
#include "flow/program.h"

#include "base/error.h"
#include "base/memory.h"
#include "flow/join_plan.h"
#include "ops/image/image_op.h"

#include <stdio.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

void program_init(struct program *p, const struct source_class *source_class, void *source, struct arena *memory)
{
    *p = (struct program){.source_class = source_class, .source = source, .cached = PROGRAM_NO_CACHE, .memory = memory};
    source_class->spec(source, &p->in);
}

pst_status program_push(struct program *p, const struct step *step, pst_error *reterr)
{
    if (mem_grow((void **)&p->steps, &p->capacity, p->count + 1, sizeof(*p->steps)) < 0)
        return fail_memory(reterr, "planning");
    p->steps[p->count++] = *step;
    return PST_OK;
}

void program_finish(struct program *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->steps[i].fused)
            image_program_free(p->steps[i].fused);
    mem_free(p->steps);
    batch_layout_finish(&p->layout);
    *p = (struct program){0};
}

/* Zeroed memory of the plan. */
static void *plan_array(const struct program *p, size_t count, size_t size)
{
    void *array = arena_alloc(p->memory, (count ? count : 1) * size);
    return array ? memset(array, 0, (count ? count : 1) * size) : NULL;
}

static bool list_fields(const struct program *p, const bool *wanted, size_t count, struct field_list *ret)
{
    *ret = (struct field_list){.number = plan_array(p, count, sizeof(*ret->number))};
    for (size_t f = 0; ret->number && f < count; f++)
        if (wanted[f])
            ret->number[ret->count++] = (uint16_t)f;
    return ret->number != NULL;
}

/* Follows the fields that are needed after a step to those that are needed before it. */
static void find_live_before(struct step *s, bool *before, size_t inputs)
{
    s->runs = false;
    for (size_t f = 0; f < s->out.count; f++) {
        if (s->live[f] && s->out.field[f].alias >= 0)
            before[s->out.field[f].alias] = true;
        s->runs |= s->live[f] && s->out.field[f].alias < 0;
    }
    for (size_t f = 0; s->runs && f < inputs; f++)
        before[f] |= pst_spec_reads(&s->out, f);
}

/* From the last step to the first: what is needed before a step follows from what is needed after it. Then the branches. */
static bool find_live(struct program *p, const bool *final)
{
    size_t count = program_spec(p, p->count)->count;
    bool *live = plan_array(p, count, sizeof(*live));
    if (live)
        memcpy(live, final, count * sizeof(*live));
    for (size_t i = p->count; live && i-- > 0;) {
        size_t inputs = program_spec(p, i)->count;
        bool *before = plan_array(p, inputs, sizeof(*before));
        struct step *s = &p->steps[i];
        s->live = live;
        if (!before || !list_fields(p, live, s->out.count, &s->kept))
            return false;
        find_live_before(s, before, inputs);
        live = before;
    }
    for (size_t i = 0; live && i < p->order_field_count; i++)
        live[p->order_fields[i]] = true;
    p->needed = live;
    bool whole = live && list_fields(p, live, p->in.count, &p->need);
    for (size_t b = 0; whole && p->join && b < p->join->count; b++)
        whole = find_live(p->join->branches[b].program, live + p->join->branches[b].first_field);
    return whole;
}

/* All final fields of the tree are needed. */
static bool find_all_live(struct program *p)
{
    size_t count = program_spec(p, p->count)->count;
    bool *final = plan_array(p, count, sizeof(*final));
    if (final)
        memset(final, true, count);
    return final && find_live(p, final);
}

/* From the first step to the last: where an error of a step is to be looked for. */
static bool find_origins(struct program *p)
{
    size_t *origins = plan_array(p, p->in.count, sizeof(*origins));
    for (size_t f = 0; origins && f < p->in.count; f++)
        origins[f] = f;
    for (size_t i = 0; origins && i < p->count; i++) {
        struct step *s = &p->steps[i];
        size_t *after = plan_array(p, s->out.count, sizeof(*after));
        s->origin = SOURCE_WHOLE;
        for (size_t f = 0; f < program_spec(p, i)->count; f++)
            if (pst_spec_reads(&s->out, f) && origins[f] < s->origin)
                s->origin = origins[f];
        for (size_t f = 0; after && f < s->out.count; f++)
            after[f] = s->out.field[f].alias >= 0 ? origins[s->out.field[f].alias] : s->origin;
        origins = after;
    }
    p->origins = origins;
    bool whole = origins != NULL;
    for (size_t b = 0; whole && p->join && b < p->join->count; b++)
        whole = find_origins(p->join->branches[b].program);
    return whole;
}

static void list_moves(struct step *s)
{
    s->moves = s->filled.count = 0;
    for (size_t k = 0; k < s->kept.count; k++) {
        uint16_t f = s->kept.number[k];
        if (s->out.field[f].alias < 0)
            s->filled.number[s->filled.count++] = f;
        else
            s->move[s->moves++] = (struct step_move){
                .from = (uint16_t)s->out.field[f].alias, .to = f, .whole = !field_is_fixed(&s->out.field[f])};
    }
}

static bool bind_field(struct program *p, size_t field, size_t column);

/* Binds field `field` of a join in the branches that it may come from; returns whether it is bound in all of them. */
static bool bind_branches(const struct join *j, size_t field, size_t column)
{
    bool all = j->count > 0;
    for (size_t b = 0; b < j->count; b++) {
        struct program *p = j->branches[b].program;
        size_t first = j->branches[b].first_field;
        if (j->facet->together && (field < first || field >= first + program_spec(p, p->count)->count))
            continue;
        all &= bind_field(p, field - first, column);
    }
    return all;
}

/* Follows a final field back to the step that writes it and binds it there; false: it comes from the source or a cache, or
 * the step's field already goes to another column. */
static bool bind_field(struct program *p, size_t field, size_t column)
{
    size_t first = p->cached == PROGRAM_NO_CACHE ? 0 : p->cached;
    for (size_t i = p->count; i-- > first;) {
        struct step *s = &p->steps[i];
        if (s->out.field[field].alias >= 0) {
            field = (size_t)s->out.field[field].alias;
            continue;
        }
        if (s->bound[field])
            return false;
        s->bound[field] = true;
        s->bind[s->binds++] = (struct step_bind){.field = (uint16_t)field, .column = (uint16_t)column};
        return true;
    }
    return p->join && p->cached == PROGRAM_NO_CACHE && bind_branches(p->join, field, column);
}

static bool bind_columns(struct program *p)
{
    bool *in_place = plan_array(p, p->layout.fields, sizeof(*in_place)),
         *copied = plan_array(p, p->layout.fields, sizeof(*copied));
    for (size_t c = 0; in_place && copied && c < p->layout.fields; c++) {
        const struct batch_column *column = &p->layout.column[c];
        bool slot = column->kind == COLUMN_FIXED && column->field.dtype != PST_DTYPE_BYTES;
        in_place[c] = slot && bind_field(p, c, c);
        copied[c] = !in_place[c];
    }
    p->in_place = in_place;
    return in_place && copied && list_fields(p, copied, p->layout.fields, &p->copied);
}

static pst_status place_locals(struct program *p, struct step *s, pst_error *reterr)
{
    s->locals = s->broughts = 0;
    s->out_bytes = 0;
    for (size_t f = 0; s->runs && f < s->out.count; f++) {
        const pst_field *field = &s->out.field[f];
        if (field->alias >= 0)
            continue;
        if (!field_is_fixed(field)) {
            s->brought[s->broughts++] = (uint16_t)f;
            continue;
        }
        size_t bytes = shape_bytes(field->dtype, field->rank, field->shape);
        if (bytes > PTRDIFF_MAX - ALIGNMENT - p->workspace)
            return pst_fail(reterr, PST_ELIMIT, "%s: field \"%s\" is larger than memory can hold", s->op->name, field->name);
        s->out_bytes += bytes;
        if (s->bound[f])
            continue;
        s->local[s->locals++] = (struct step_local){.field = (uint16_t)f, .offset = p->workspace};
        p->workspace += (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    }
    return PST_OK;
}

/* Makes room for the lists of every step; false: out of memory. */
static bool make_lists(struct program *p)
{
    for (size_t i = 0; i < p->count; i++) {
        struct step *s = &p->steps[i];
        size_t n = s->out.count;
        s->binds = 0;
        s->filled.number = plan_array(p, n, sizeof(*s->filled.number));
        s->move = plan_array(p, n, sizeof(*s->move));
        s->bind = plan_array(p, n, sizeof(*s->bind));
        s->local = plan_array(p, n, sizeof(*s->local));
        s->brought = plan_array(p, n, sizeof(*s->brought));
        s->bound = plan_array(p, n, sizeof(*s->bound));
        if (!s->filled.number || !s->move || !s->bind || !s->local || !s->brought || !s->bound)
            return false;
    }
    bool whole = true;
    for (size_t b = 0; whole && p->join && b < p->join->count; b++)
        whole = make_lists(p->join->branches[b].program);
    return whole;
}

void program_fit_name(char *to, size_t size, const char *names)
{
    static const char gap[] = "+\xe2\x80\xa6"; /* stands for the names between */
    size_t length = strlen(names), first = strcspn(names, "+"), room = size - 1;
    if (length <= room) {
        memcpy(to, names, length + 1);
        return;
    }
    const char *rest = names + first;
    while (*rest && first + sizeof(gap) - 1 + strlen(rest) > room)
        rest += 1 + strcspn(rest + 1, "+");
    if (first + sizeof(gap) - 1 <= room)
        snprintf(to, size, "%.*s%s%s", (int)first, names, gap, rest);
    else /* a single name that does not fit */
        snprintf(to, size, "%.*s\xe2\x80\xa6", (int)room - 3, names);
}

/* Names a stage per step that runs, branches first. Stages beyond what the statistics hold share the last one. */
static void name_steps(struct program *root, struct program *p)
{
    for (size_t b = 0; p->join && b < p->join->count; b++)
        name_steps(root, p->join->branches[b].program);
    for (size_t i = 0; i < p->count; i++) {
        if (!p->steps[i].runs)
            continue;
        if (root->stages < PST_MAX_STAGES - 1)
            memcpy(root->stage_name[root->stages++], p->steps[i].name, sizeof(root->stage_name[0]));
        p->steps[i].stage = (unsigned)root->stages - 1;
    }
}

static void name_stages(struct program *p)
{
    p->stages = 1;
    snprintf(p->stage_name[0], sizeof(p->stage_name[0]), "read");
    name_steps(p, p);
    snprintf(p->stage_name[p->stages++], sizeof(p->stage_name[0]), "batch");
}

/* Places what every step of the tree writes. */
static pst_status place_steps(struct program *p, pst_error *reterr)
{
    pst_status st = PST_OK;
    p->workspace = 0;
    for (size_t b = 0; p->join && b < p->join->count && st == PST_OK; b++)
        st = place_steps(p->join->branches[b].program, reterr);
    for (size_t i = 0; i < p->count && st == PST_OK; i++) {
        list_moves(&p->steps[i]);
        st = place_locals(p, &p->steps[i], reterr);
    }
    return st;
}

size_t program_grouped(const struct program *p, size_t capacity, size_t *ret_steps)
{
    size_t count = 0;
    for (size_t s = p->cache ? p->cached : 0; s < p->count; s++) { /* the cache takes elements that are computed alone */
        if (!p->steps[s].runs || !p->steps[s].op->prepare)
            continue;
        if (count < capacity)
            ret_steps[count] = s;
        count++;
    }
    return count;
}

size_t program_workspace(const struct program *p)
{
    size_t bytes = p->workspace;
    for (size_t b = 0; p->join && b < p->join->count; b++)
        bytes += program_workspace(p->join->branches[b].program);
    return bytes;
}

pst_status program_compile(struct program *p, uint64_t capacity, pst_error *reterr)
{
    if (!find_all_live(p) || !find_origins(p) || !make_lists(p))
        return fail_memory(reterr, "planning");
    pst_status st = batch_layout_init(&p->layout, program_spec(p, p->count), capacity, &p->style, reterr);
    if (st < 0)
        return st;
    if (!bind_columns(p))
        return fail_memory(reterr, "planning");
    st = place_steps(p, reterr);
    name_stages(p);
    return st;
}
