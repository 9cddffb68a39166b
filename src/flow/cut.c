/* cut.c: where a chain is divided into segments.
 *
 * Operations say what they do with batches and elements (enum op_cut). The chain is divided at the last place where that is
 * more than one segment can do; planning what comes before divides it further. */
#include "base/error.h"
#include "flow/segment.h"
#include "ops/op_decl.h"

#include <string.h>

#define CHUNK 64 /* elements that are handed over at once where no batch was asked for */

struct cut {
    size_t end;    /* nodes of the inner chain; 0: there is no cut */
    size_t begin;  /* first node of the outer chain */
    size_t cutter; /* the node that made the cut */
    enum segment_mode mode;
    bool stream, batched;
};

static enum op_cut cut_of(const struct chain *c, size_t i)
{
    const struct op_decl *decl = op_decl_of(c->nodes[i].op);
    if (c->filters_cut && decl && decl->filter)
        return CUT_STREAM;
    return decl ? decl->cut : CUT_NONE;
}

/* `batched`: the segment has batches at this place. */
static bool cut_at(const struct chain *c, size_t i, bool batched, struct cut *ret)
{
    enum op_cut kind = cut_of(c, i);
    bool last_window = kind == CUT_WINDOW && c->ends_in_window && i + 1 == c->count;
    *ret = (struct cut){.end = i, .begin = i, .cutter = i, .batched = batched};
    if (kind == CUT_GATHER || last_window) {
        ret->mode = SEGMENT_WHOLE;
        return batched;
    }
    if (kind == CUT_WINDOW) {
        ret->end = ret->begin = i + 1;
        ret->mode = SEGMENT_WHOLE;
        ret->batched = true;
        return true;
    }
    if (kind == CUT_SNAPSHOT) {
        ret->begin = i + 1;
        ret->mode = SEGMENT_SNAPSHOT;
        return true;
    }
    if (kind == CUT_UNBATCH || kind == CUT_REBATCH) {
        ret->begin += kind == CUT_UNBATCH;
        ret->mode = batched ? SEGMENT_ROWS : SEGMENT_SPLIT;
        return true;
    }
    ret->mode = batched ? SEGMENT_WHOLE : SEGMENT_ROWS;
    ret->stream = true;
    return kind == CUT_KEYED || kind == CUT_STREAM;
}

static struct cut last_cut(const struct chain *c)
{
    struct cut found = {0}, cut;
    bool batched = false;
    for (size_t i = 1; i < c->count; i++) {
        enum op_cut kind = cut_of(c, i);
        if (cut_at(c, i, batched, &cut)) {
            found = cut;
            batched = false;
        }
        batched |= kind == CUT_GATHER || kind == CUT_REBATCH || kind == CUT_KEYED;
    }
    return found;
}

pst_status segment_cut(const struct chain *c, const pst_pipeline_options *options, bool tolerant, struct arena *memory,
                       struct chain *ret_outer, pst_error *reterr)
{
    struct cut cut = last_cut(c);
    *ret_outer = *c;
    if (cut.end == 0)
        return PST_OK;
    size_t rest = c->count - cut.begin;
    struct node *nodes = arena_alloc(memory, (rest + 1) * sizeof(*nodes));
    struct segment_config *config = arena_alloc(memory, sizeof(*config));
    if (!nodes || !config)
        return fail_memory(reterr, "planning");
    *config = (struct segment_config){.inner = *c,
                                      .options = *options,
                                      .mode = cut.mode,
                                      .stream = cut.stream,
                                      .tolerant = tolerant,
                                      .cutter = &c->nodes[cut.cutter]};
    config->inner.count = cut.end;
    config->inner.ends_in_window =
        cut_of(c, cut.end - 1) == CUT_WINDOW && cut.end == cut.begin && cut.cutter + 1 == cut.end;
    config->inner.loose = cut.mode != SEGMENT_WHOLE;
    config->inner.stacked = cut.mode == SEGMENT_WHOLE;
    config->inner.chunk = cut.batched ? 0 : CHUNK;
    nodes[0] =
        (struct node){.op = &source_segment.op, .kind = PST_OP_SOURCE, .written = config->cutter->written, .config = config};
    memcpy(nodes + 1, c->nodes + cut.begin, rest * sizeof(*nodes));
    ret_outer->nodes = nodes;
    ret_outer->count = rest + 1;
    return PST_OK;
}
