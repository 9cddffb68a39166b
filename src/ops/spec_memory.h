/* spec_memory.h: memory of the specs that `plan` fills. It comes from an arena, so that specs may be copied as plain
 * structs; freeing the arena frees all of them. */
#ifndef OPS_SPEC_MEMORY_H
#define OPS_SPEC_MEMORY_H

#include "base/arena.h"
#include <penstock/op.h>

/* Makes `spec` empty and ready for a `plan` whose input has `inputs` fields: pst_spec_pass and pst_spec_read cannot fail. */
pst_status spec_init(pst_spec *spec, struct arena *memory, size_t inputs, pst_error *reterr);
/* Returns whether every pst_spec_read named a field of the input. */
bool spec_reads_valid(const pst_spec *spec);

#endif
