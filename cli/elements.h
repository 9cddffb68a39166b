/* elements.h: elements and batches on stdout, in readable form or as a line of JSON each. */
#ifndef CLI_ELEMENTS_H
#define CLI_ELEMENTS_H

#include <penstock/pipeline.h>

/* `values`: how many values of a field are written out; longer fields are summarized after the first values. */
void put_element(const pst_batch *batch, size_t i, uint64_t number, uint64_t values);
void put_batch(const pst_batch *batch, uint64_t number, uint64_t values);

/* {"element": N, "fields": {…}}. A number is a number, a field with a shape nested arrays or, beyond `values` numbers,
 * {"dtype", "shape", "min", "max", "mean", "digest"}; bytes are a string where they are text, otherwise
 * {"bytes", "digest", …}. */
void put_element_json(const pst_batch *batch, size_t i, uint64_t number, uint64_t values);
void put_batch_json(const pst_batch *batch, uint64_t number, uint64_t values);

#endif
