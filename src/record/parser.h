/* parser.h: internals of a pst_parser: a plan, and the buffers that walking and batches reuse. */
#ifndef RECORD_PARSER_H
#define RECORD_PARSER_H

#include "record/feature.h"
#include "record/example_plan.h"

/* A feature found by walking. */
struct walked {
    pst_bytes name;
    struct feature_values values;
};

struct pst_parser {
    struct plan plan;

    struct walked *walked; /* every entry of the map, duplicates included */
    size_t walked_capacity;
    pst_named_value *named; /* without duplicates, in the order of the input */
    size_t named_capacity;
    const pst_named_value **sorted; /* the same sorted by name; used before that to find duplicates */
    size_t sorted_capacity;

    struct column *columns; /* one per feature; NULL before the first batch */
    pst_value *values;      /* values values values values of one Example of a batch */
};

/* pst_parser_walk; `*ret_sorted` has the same elements by the bytes of their names. */
pst_status parser_walk(pst_parser *parser, const void *data, size_t length, const pst_named_value **ret,
                       const pst_named_value *const **ret_sorted, size_t *ret_count, pst_error *reterr);

/* Reads a Features message into the plan; `*entries` counts against max_features. On false, see plan_fail. */
bool parser_read_features(struct plan *plan, const uint8_t *p, const uint8_t *end, size_t *entries);
/* Checks the values of a plan against its schema and returns them. */
pst_status parser_deliver(const struct plan *plan, pst_value *values, pst_error *reterr);

#endif
