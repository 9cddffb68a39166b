/* program.h: the operations on single elements, compiled: flat lists of fields to move, steps to run and places of results. */
#ifndef FLOW_PROGRAM_H
#define FLOW_PROGRAM_H

#include "base/arena.h"
#include "flow/batch.h"
#include "flow/element.h"
#include "source/source.h"
#include <limits.h>
#include <penstock/op.h>

#define PROGRAM_NO_CACHE SIZE_MAX
#define STEP_NO_NUMBER   UINT_MAX

struct join;

struct step {
    const pst_op_class *op;
    const void *config;
    void *fused;         /* config if this step is a fusion of several operations; owned */
    uint32_t ordinal;    /* keys its randomness */
    pst_cause cause;     /* cause counted for an element that it refuses; a fused step sets it in the ctx */
    size_t first, count; /* nodes of the chain that it implements */
    char name[48];       /* "decode+resize" */
    unsigned number;     /* which of the element's numbers it gets (order.h); STEP_NO_NUMBER: none */
    pst_spec out;

    /* Set by program_compile. */
    bool *bound;              /* one per field of `out`: whether the field is written directly into the batch */
    const bool *live;         /* one per field of `out`: whether a later step needs the field */
    struct field_list kept;   /* the live fields */
    struct field_list filled; /* the live fields that `run` writes */
    size_t origin;            /* the first field of the source that its input was made from; SOURCE_WHOLE: none */
    bool runs;                /* otherwise it only passes fields on */
    unsigned stage;
    struct step_move {
        uint16_t from, to;
        bool whole; /* shape and data differ between elements; otherwise only the data */
    } * move;
    struct step_bind {
        uint16_t field, column;
    } * bind; /* fields that are written directly into the batch */
    struct step_local {
        uint16_t field;
        size_t offset;
    } * local;         /* fields that are written into the worker's own memory */
    uint16_t *brought; /* fields of varying shape: the operation provides their memory */
    size_t moves, binds, locals, broughts;
    size_t out_bytes; /* written per element, where known */
};

struct program {
    const struct source_class *source_class;
    void *source;
    bool streamed;       /* elements come from a stream, not by their number */
    const struct join *join;      /* elements come from branches; NULL: from the source */
    unsigned numbers;             /* that an element takes with it */
    struct damage_intake *intake; /* takes the damage that a stream reports */
    pst_spec in;         /* fields of the source */
    struct step *steps;
    size_t count, capacity;
    size_t cached; /* number of steps before the cache */
    struct cache *cache;
    struct entropy *entropy; /* NULL: nothing is decoded */
    struct arena *memory;    /* owned by the plan: specs and everything that program_compile sets */

    /* Set by program_compile. */
    const bool *needed;     /* one per field of `in` */
    struct field_list need; /* the needed fields */
    const size_t *origins;  /* one per final field: the first field of the source that it was made from; SOURCE_WHOLE: none */
    struct batch_style style; /* of the batches; set before program_compile */
    const size_t *order_fields; /* fields of `in` that the order looks at; set before program_compile */
    size_t order_field_count;
    size_t workspace;       /* bytes per worker */
    struct batch_layout layout;
    const bool *in_place;     /* one per final field: whether a step writes it in place, for every element */
    struct field_list copied; /* the other fields; those of some branches may still be in place */
    size_t stages;   /* "read", one stage per step that runs, "batch" */
    char stage_name[PST_MAX_STAGES][48];
};

void program_init(struct program *p, const struct source_class *source_class, void *source, struct arena *memory);
pst_status program_push(struct program *p, const struct step *step, pst_error *reterr); /* takes `fused` on PST_OK */
/* Returns the fields after step `i` - 1. */
static inline const pst_spec *program_spec(const struct program *p, size_t i)
{
    return i == 0 ? &p->in : &p->steps[i - 1].out;
}
/* Returns the fields that are needed there. */
static inline const struct field_list *program_live(const struct program *p, size_t i)
{
    return i == 0 ? &p->need : &p->steps[i - 1].kept;
}
/* Writes a name such as "decode+resize+flip+normalize+layout" in `size` bytes. If it does not fit, keeps the first part and
 * as many of the last parts as fit: "decode+…+normalize+layout". */
void program_fit_name(char *to, size_t size, const char *names);
/* Computes which fields are needed and where each is stored, for batches of up to `capacity` elements, in the branches too. */
pst_status program_compile(struct program *p, uint64_t capacity, pst_error *reterr);
/* Stores up to `capacity` numbers of the steps at which elements are grouped (group.h); returns how many there are. */
size_t program_grouped(const struct program *p, size_t capacity, size_t *ret_steps);
size_t program_workspace(const struct program *p); /* bytes per worker, branches included */
void program_finish(struct program *p);

#endif
