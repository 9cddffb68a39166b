/* locate.h: where elements lie: an error of an operation names the file, record and byte of the element that it failed on, and
 * a batch is told enough to find all of its own (pst_pipeline_locate). */
#ifndef FLOW_LOCATE_H
#define FLOW_LOCATE_H

#include "flow/order.h"
#include "flow/program.h"

struct item;

/* Adds the place of element `index` of the source (of a stream: of `item`) to an error that has none. `fields` of the source
 * are what it is about. */
void locate_error(const struct program *p, uint64_t fields, uint64_t index, const struct item *item, pst_error *error);
/* Notes which elements a batch has: a range of the order, or the `count` items of a stream (otherwise NULL). */
void locate_keep(pst_batch *b, const struct order_batch *where, struct item *const *items, size_t count);

#endif
