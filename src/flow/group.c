/* group.c: computes elements together for operations that have `prepare`, such as Python functions in other processes: a message to
 * another process then carries many elements.
 *
 * Between two parts, the fields of an element wait in a block, because the memory of the worker serves the next element. */
#include "flow/group.h"

#include "base/error.h"
#include "base/memory.h"
#include "flow/element.h"

#define GROUP_BYTES ((size_t)4 << 20) /* of fields that wait; a group ends with the element that exceeds it */

pst_status group_init(struct group *g, const struct program *p, pst_error *reterr)
{
    *g = (struct group){0};
    arena_init(&g->held);
    size_t count = program_grouped(p, 0, NULL);
    if (count == 0)
        return PST_OK;
    g->steps = mem_array(count, sizeof(*g->steps));
    g->members = mem_array(GROUP_MOST, sizeof(*g->members));
    if (!g->steps || !g->members)
        return fail_memory(reterr, "starting a worker");
    g->count = program_grouped(p, count, g->steps);
    return PST_OK;
}

void group_finish(struct group *g)
{
    arena_finish(&g->held);
    mem_free(g->steps);
    mem_free(g->members);
    *g = (struct group){0};
}

/* Keeps the fields before step `s`, and hands them to its operation. Returns the bytes that wait. */
static size_t hold(struct group *g, struct runner *r, size_t i, const struct item *item, size_t s, size_t place,
                   struct group_member *m)
{
    const pst_spec *spec = program_spec(r->program, s);
    const struct field_list *live = program_live(r->program, s);
    size_t size = element_size(spec, live, r->root.tensors[s]);
    m->block = size < SIZE_MAX ? arena_alloc(&g->held, size) : NULL;
    if (!m->block) {
        m->status = fail_memory(&m->error, "keeping an element");
        return 0;
    }
    element_pack(m->block, spec, live, r->root.tensors[s]);
    m->status = runner_prepare(r, i, item, s, place, &m->cause, &m->error);
    return size;
}

/* Runs one part of a member; at its end, hands the element to the next operation of the group, if there is one. */
static size_t run_part(struct group *g, struct runner *r, size_t k, size_t i, const struct item *item,
                       const struct runner_target *to, size_t *place, struct group_member *m)
{
    const struct program *p = r->program;
    size_t from = k == 0 ? RUNNER_FETCH : g->steps[k - 1], until = k < g->count ? g->steps[k] : p->count, size = 0;
    if (k > 0)
        element_view(m->block, program_spec(p, from), program_live(p, from), r->root.tensors[from]);
    m->status = runner_part(r, i, item, from, until, to, &m->cause, &m->error);
    if (m->status == PST_OK && k < g->count)
        size = hold(g, r, i, item, until, *place, m);
    *place += m->status == PST_OK;
    m->status = runner_end(r, i, m->status, &m->cause, &m->error);
    m->failed = runner_failed(r);
    return size;
}

size_t group_run(struct group *g, struct runner *r, size_t i, size_t count, struct item *const *items,
                 const struct runner_target *to, const _Atomic bool *stopped)
{
    size_t waiting = 0;
    arena_reset(&g->held);
    runner_begin(r, 1);
    count = count < GROUP_MOST ? count : GROUP_MOST;
    for (size_t k = 0; k <= g->count; k++) {
        size_t place = 0;
        for (size_t n = 0; n < count; n++) {
            struct group_member *m = &g->members[n];
            struct runner_target at = {.batch = to->batch, .slice = to->slice, .at = to->at + n};
            if (atomic_load_explicit(stopped, memory_order_relaxed))
                return 0;
            if (k == 0)
                runner_clear_error(&m->error);
            if (k == 0 || m->status == PST_OK)
                waiting += run_part(g, r, k, i + n, items ? items[n] : NULL, &at, &place, m);
            if (k == 0 && waiting > GROUP_BYTES)
                count = n + 1;
        }
    }
    return count;
}
