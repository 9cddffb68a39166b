/* walker.h: detects the kind of message of a record, and returns every feature in it, without a schema. One thread at a
 * time. */
#ifndef INSPECT_WALKER_H
#define INSPECT_WALKER_H

#include <penstock/inspect.h>

struct walker;

pst_status walker_create(struct walker **ret, pst_error *reterr);
struct walker *walker_destroy(struct walker *w);

/* EXAMPLES, SEQUENCES, EVENTS, OTHER, or EMPTY for a record without a byte, which would pass for any of the three. */
pst_status walker_content(struct walker *w, const void *data, size_t length, pst_content *ret, pst_error *reterr);

/* The features of an Example or SequenceExample, until the next call. From `*ret_context` on they come from feature
 * lists: the values of all steps in a row. PST_ECORRUPT, PST_ELIMIT: it is not such a message, or over a limit. */
pst_status walker_walk(struct walker *w, pst_content content, const void *data, size_t length, const pst_named_value **ret,
                       size_t *ret_count, size_t *ret_context, pst_error *reterr);

#endif
