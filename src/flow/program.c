/* program.c: from a list of planned operations to flat instructions.
 *
 * Fields that nothing behind needs are neither loaded nor computed. A field of fixed shape that reaches the batch unchanged
 * is written there by the operation that makes it; others live in the worker's workspace at places fixed here. What a
 * cache keeps has to be copied out of it: nothing in front of a cache is written in place. */
#include "flow/program.h"

#include "base/memory.h"
#include "flow/element.h"
#include "ops/image/image_op.h"

#include <stdio.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

void program_init(struct program *p, const struct source_class *source_class, void *source)
{
    *p = (struct program){.source_class = source_class, .source = source, .cached = PROGRAM_NO_CACHE};
    source_class->spec(source, &p->in);
}

pst_status program_push(struct program *p, const struct step *step, pst_error *reterr)
{
    if (mem_grow((void **)&p->steps, &p->capacity, p->count + 1, sizeof(*p->steps)) < 0)
        return pst_fail(reterr, PST_ENOMEM, "planning: out of memory");
    p->steps[p->count++] = *step;
    return PST_OK;
}

void program_finish(struct program *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->steps[i].fused)
            image_program_free(p->steps[i].fused);
    mem_free(p->steps);
    *p = (struct program){0};
}

/* From the last step to the first: what is needed in front of a step follows from what is needed behind it. */
static void find_live(struct program *p)
{
    uint64_t live = spec_fields(program_spec(p, p->count));
    for (size_t i = p->count; i-- > 0;) {
        struct step *s = &p->steps[i];
        s->live = live;
        s->runs = false;
        live = 0;
        for (size_t f = 0; f < s->out.count; f++) {
            if (!(s->live >> f & 1))
                continue;
            if (s->out.field[f].alias >= 0)
                live |= UINT64_C(1) << s->out.field[f].alias;
            else
                s->runs = true;
        }
        if (s->runs)
            live |= s->out.reads;
    }
    p->need = live & spec_fields(&p->in);
}

/* From the first step to the last: where an error of a step is to be looked for. */
static void find_origins(struct program *p)
{
    uint64_t origins[PST_MAX_FIELDS], after[PST_MAX_FIELDS];
    for (size_t f = 0; f < p->in.count; f++)
        origins[f] = UINT64_C(1) << f;
    for (size_t i = 0; i < p->count; i++) {
        struct step *s = &p->steps[i];
        s->origins = 0;
        for (size_t f = 0; f < program_spec(p, i)->count; f++)
            s->origins |= s->out.reads >> f & 1 ? origins[f] : 0;
        for (size_t f = 0; f < s->out.count; f++)
            after[f] = s->out.field[f].alias >= 0 ? origins[s->out.field[f].alias] : s->origins;
        memcpy(origins, after, sizeof(origins));
    }
}

static void list_moves(struct step *s)
{
    s->moves = 0;
    for (size_t f = 0; f < s->out.count; f++) {
        if (s->out.field[f].alias < 0 || !(s->live >> f & 1))
            continue;
        s->move[s->moves].from = (uint8_t)s->out.field[f].alias;
        s->move[s->moves].to = (uint8_t)f;
        s->move[s->moves++].whole = !field_is_fixed(&s->out.field[f]);
    }
}

/* Follows a final field back to the step that writes it and binds it there; false: it comes from the source or a cache, or
 * the step's field already goes to another column. */
static bool bind_column(struct program *p, size_t column)
{
    size_t first = p->cached == PROGRAM_NO_CACHE ? 0 : p->cached;
    int field = (int)column;
    for (size_t i = p->count; i-- > first;) {
        struct step *s = &p->steps[i];
        if (s->out.field[field].alias >= 0) {
            field = s->out.field[field].alias;
            continue;
        }
        for (size_t b = 0; b < s->binds; b++)
            if (s->bind[b].field == field)
                return false;
        s->bind[s->binds].field = (uint8_t)field;
        s->bind[s->binds++].column = (uint8_t)column;
        return true;
    }
    return false;
}

static void bind_columns(struct program *p)
{
    for (size_t i = 0; i < p->count; i++)
        p->steps[i].binds = 0;
    p->copied = 0;
    for (size_t c = 0; c < p->layout.fields; c++) {
        const struct batch_column *column = &p->layout.column[c];
        bool slot = column->kind == COLUMN_FIXED && column->field.dtype != PST_DTYPE_BYTES;
        if (!slot || !bind_column(p, c))
            p->copied |= UINT64_C(1) << c;
    }
}

static bool is_bound(const struct step *s, size_t field)
{
    for (size_t b = 0; b < s->binds; b++)
        if (s->bind[b].field == field)
            return true;
    return false;
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
            s->brought[s->broughts++] = (uint8_t)f;
            continue;
        }
        size_t bytes = shape_bytes(field->dtype, field->rank, field->shape);
        if (bytes > PTRDIFF_MAX - ALIGNMENT - p->workspace)
            return pst_fail(reterr, PST_ELIMIT, "%s: field \"%s\" is larger than memory can hold", s->op->name, field->name);
        s->out_bytes += bytes;
        if (is_bound(s, f))
            continue;
        s->local[s->locals].field = (uint8_t)f;
        s->local[s->locals++].offset = p->workspace;
        p->workspace += (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    }
    return PST_OK;
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
    else /* a single name that is longer than anybody's */
        snprintf(to, size, "%.*s\xe2\x80\xa6", (int)room - 3, names);
}

/* Stages beyond what the statistics hold share the last one. */
static void name_stages(struct program *p)
{
    p->stages = 1;
    snprintf(p->stage_name[0], sizeof(p->stage_name[0]), "read");
    for (size_t i = 0; i < p->count; i++) {
        if (!p->steps[i].runs)
            continue;
        if (p->stages < PST_MAX_STAGES - 1)
            memcpy(p->stage_name[p->stages++], p->steps[i].name, sizeof(p->stage_name[0]));
        p->steps[i].stage = (unsigned)p->stages - 1;
    }
    snprintf(p->stage_name[p->stages++], sizeof(p->stage_name[0]), "batch");
}

pst_status program_compile(struct program *p, uint64_t capacity, pst_error *reterr)
{
    find_live(p);
    find_origins(p);
    pst_status st = batch_layout_init(&p->layout, program_spec(p, p->count), capacity, reterr);
    if (st < 0)
        return st;
    bind_columns(p);
    p->workspace = 0;
    for (size_t i = 0; i < p->count && st == PST_OK; i++) {
        list_moves(&p->steps[i]);
        st = place_locals(p, &p->steps[i], reterr);
    }
    name_stages(p);
    return st;
}
