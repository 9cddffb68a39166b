/* locate.h: an error of an operation names the file, record and byte of the element that it failed on. */
#ifndef FLOW_LOCATE_H
#define FLOW_LOCATE_H

#include "flow/program.h"

struct item;

/* Adds the place of element `index` of the source (of a stream: of `item`) to an error that has none. `fields` of the source
 * are what it is about. */
void locate_error(const struct program *p, uint64_t fields, uint64_t index, const struct item *item, pst_error *error);

#endif
