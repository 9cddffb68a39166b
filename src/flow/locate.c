/* locate.c: combines the error of an operation with the place of the element, which the source provides. A delivered batch
 * has the places too, for users that process whole batches.
 *
 * A byte offset reported by an operation is relative to its field. If the field is a file, it is the offset in the file;
 * otherwise it goes into the message, and the offset of the error is the start of the record. An element that is not in a
 * file has its number in the source as its record. */
#include "flow/locate.h"

#include "base/memory.h"
#include "flow/join_plan.h"
#include "flow/pipeline.h"
#include "flow/stream_filters.h"

#include <inttypes.h>
#include <string.h>

static void place_error(const struct source_place *at, pst_error *error)
{
    char message[sizeof(error->message)];
    memcpy(message, error->message, sizeof(message));
    if (at->offset == PST_NOWHERE)
        pst_fail_at(error, error->status, at->path, at->record, error->offset, "%s", message);
    else if (error->offset == PST_NOWHERE)
        pst_fail_at(error, error->status, at->path, at->record, at->offset, "%s", message);
    else
        pst_fail_at(error, error->status, at->path, at->record, at->offset, "%s (byte %" PRIu64 " of the field)", message,
                    error->offset);
}

void locate_error(const struct program *p, size_t field, uint64_t index, const struct item *item, pst_error *error)
{
    struct source_place at = {0};
    pst_error inner = *error;
    if (error->path[0] || error->record != PST_NOWHERE)
        return;
    if (item)
        at = item->place;
    else if (p->source_class->locate && !p->streamed)
        p->source_class->locate(p->source, index, field, &at);
    if (at.path)
        place_error(&at, error);
    else
        pst_fail_at(error, inner.status, NULL, index, inner.offset, "%s", inner.message);
    memcpy(error->op, inner.op, sizeof(error->op));
    error->sys_errno = inner.sys_errno;
}

void locate_at(const struct pipeline_plan *p, struct order_state *order, const struct order_batch *where, size_t at,
               pst_error *error)
{
    const struct program *program = &p->program;
    uint64_t index, pass, sample;
    size_t field = SOURCE_WHOLE;
    order_elements(&p->order, order, where, at, 1, &index, &pass);
    if (join_resolve(&program, &index, &pass, &field, &sample, NULL) == PST_OK)
        locate_error(program, field, index, NULL, error);
}

/* ---- Elements of a batch ---- */

void locate_keep(pst_batch *b, const struct order_batch *where, struct item *const *items, size_t count)
{
    b->where = *where;
    if (!items)
        return;
    if (!b->origins) {
        b->origins = mem_array(b->layout->capacity, sizeof(*b->origins));
        batch_recount(b);
    }
    for (size_t i = 0; b->origins && i < count; i++)
        b->origins[i] = (struct batch_origin){.sample = items[i]->sample, .place = items[i]->place};
}

pst_status pst_pipeline_locate(pst_pipeline *p, const pst_batch *b, size_t element, pst_place *ret, pst_error *reterr)
{
    if (b->pool != p->pool)
        return pst_fail(reterr, PST_EINVAL, "the batch belongs to another pipeline");
    if (element >= b->size)
        return pst_fail(reterr, PST_EINVAL, "element %zu of a batch of %zu", element, b->size);
    const struct program *program = &p->plan->program;
    struct source_place at = {0};
    uint64_t pass, sample;
    size_t place = batch_place_before(b, element);
    if (program->streamed) {
        if (!b->origins)
            return pst_fail(reterr, PST_ENOMEM, "out of memory while recording the positions of the elements of the batch");
        sample = b->origins[place].sample;
        at = b->origins[place].place;
    } else {
        struct order_state state = {0};
        pst_status st = order_state_init(&state, &p->plan->order, reterr);
        if (st < 0)
            return st;
        uint64_t index;
        size_t field = SOURCE_WHOLE;
        order_elements(&p->plan->order, &state, &b->where, place, 1, &index, &pass);
        order_state_finish(&state);
        st = join_resolve(&program, &index, &pass, &field, &sample, reterr);
        if (st < 0)
            return st;
        if (program->source_class->locate)
            program->source_class->locate(program->source, index, field, &at);
    }
    *ret = at.path ? (pst_place){at.path, at.record, at.offset} : (pst_place){NULL, sample, PST_NOWHERE};
    return PST_OK;
}
