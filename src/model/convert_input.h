/* convert_input.h: input of any number type as the reals that the step computes with. */
#ifndef MODEL_CONVERT_INPUT_H
#define MODEL_CONVERT_INPUT_H

#include <penstock/op.h>

bool convert_takes(pst_dtype dtype);
void convert_to_real(void *to, size_t real_size, const void *from, pst_dtype dtype, size_t count);

#endif
