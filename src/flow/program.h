/* program.h: the operations on single elements, compiled: flat lists of what to move, what to run and where results go. */
#ifndef FLOW_PROGRAM_H
#define FLOW_PROGRAM_H

#include "flow/batch.h"
#include "source/source.h"
#include <penstock/op.h>

#define PROGRAM_NO_CACHE SIZE_MAX

struct step {
    const pst_op_class *op;
    const void *config;
    void *fused;         /* the config when this step stands for several operations; owned */
    uint32_t ordinal;    /* keys its randomness */
    pst_cause cause;     /* what an element that it refuses is counted as; where it is fused, its ctx says */
    size_t first, count; /* nodes of the chain that it stands for */
    char name[48];       /* "decode+resize" */
    pst_spec out;

    /* Set by program_compile. */
    uint64_t live;    /* fields of `out` that anything behind needs */
    uint64_t origins; /* fields of the source that its input was made from */
    bool runs;        /* otherwise it only hands fields on */
    unsigned stage;
    struct {
        uint8_t from, to;
        bool whole; /* shape and data; otherwise only the data differ from element to element */
    } move[PST_MAX_FIELDS];
    struct {
        uint8_t field, column;
    } bind[PST_MAX_FIELDS]; /* fields that are written straight into the batch */
    struct {
        uint8_t field;
        size_t offset;
    } local[PST_MAX_FIELDS];         /* fields that are written into the worker's own memory */
    uint8_t brought[PST_MAX_FIELDS]; /* fields whose shape varies: the operation brings their memory */
    size_t moves, binds, locals, broughts;
    size_t out_bytes; /* written an element, where known */
};

struct program {
    const struct source_class *source_class;
    void *source;
    bool streamed;       /* elements come from a stream, not by their number */
    struct stream_damage *stream_damage; /* damage that the stream meets */
    pst_spec in;         /* what the source brings */
    struct step *steps;
    size_t count, capacity;
    size_t cached; /* steps in front of the cache */
    struct cache *cache;
    struct entropy *entropy; /* NULL: nothing is decoded */

    /* Set by program_compile. */
    uint64_t need;    /* fields of `in` */
    size_t workspace; /* bytes a worker */
    struct batch_layout layout;
    uint64_t copied; /* final fields that no step writes in place */
    size_t stages;   /* "read", a stage a step that runs, "batch" */
    char stage_name[PST_MAX_STAGES][48];
};

void program_init(struct program *p, const struct source_class *source_class, void *source);
pst_status program_push(struct program *p, const struct step *step, pst_error *reterr); /* takes `fused` on PST_OK */
/* What comes out behind step `i` - 1. */
static inline const pst_spec *program_spec(const struct program *p, size_t i)
{
    return i == 0 ? &p->in : &p->steps[i - 1].out;
}
/* Fields that are needed there. */
static inline uint64_t program_live(const struct program *p, size_t i)
{
    return i == 0 ? p->need : p->steps[i - 1].live;
}
static inline uint64_t spec_fields(const pst_spec *spec) /* a bit each */
{
    return spec->count < 64 ? (UINT64_C(1) << spec->count) - 1 : UINT64_MAX;
}
/* "decode+resize+flip+normalize+layout" in `size` bytes: where it does not fit, its first name and as many of the last as do,
 * "decode+…+normalize+layout". */
void program_fit_name(char *to, size_t size, const char *names);
/* Finds out what is needed and where everything goes, for batches of up to `capacity` elements. */
pst_status program_compile(struct program *p, uint64_t capacity, pst_error *reterr);
void program_finish(struct program *p);

#endif
