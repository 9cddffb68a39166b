/* locate.h: where elements are stored: an error of an operation names the file, record and byte of the failed element, and a
 * batch records enough to locate all of its elements (pst_pipeline_locate). */
#ifndef FLOW_LOCATE_H
#define FLOW_LOCATE_H

#include "flow/order.h"
#include "flow/program.h"

struct item;
struct pipeline_plan;

/* Adds the place of element `index` of the source (of a stream: of `item`) to an error that has none. `field` is the field
 * of the source that the error is about; SOURCE_WHOLE: the element as a whole. */
void locate_error(const struct program *p, size_t field, uint64_t index, const struct item *item, pst_error *error);
/* The same for element `at` of the batch `where` of a plan whose source has an index. */
void locate_at(const struct pipeline_plan *p, struct order_state *order, const struct order_batch *where, size_t at,
               pst_error *error);
/* Records which elements a batch has: a range of the order, or the `count` items of a stream (otherwise NULL). */
void locate_keep(pst_batch *b, const struct order_batch *where, struct item *const *items, size_t count);

#endif
