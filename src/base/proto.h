/* proto.h: writes protobuf messages, field by field, at the end of a text.
 *
 * A message inside another one begins with proto_begin and ends with proto_end, which inserts its length. Fields with their
 * default value are written like any other. Failures are the text's. */
#ifndef BASE_PROTO_H
#define BASE_PROTO_H

#include "base/text.h"

#define PROTO_MAX_MESSAGE ((uint64_t)INT32_MAX) /* bytes that every protobuf implementation reads */

void proto_int(struct text *to, unsigned field, int64_t value); /* int32, int64, enum, bool */
void proto_float(struct text *to, unsigned field, float value);
void proto_double(struct text *to, unsigned field, double value);
void proto_bytes(struct text *to, unsigned field, const void *data, size_t length);
void proto_string(struct text *to, unsigned field, const char *value);
void proto_doubles(struct text *to, unsigned field, const double *values, size_t count); /* packed */

/* Begins a message; the result goes to proto_end. */
size_t proto_begin(struct text *to, unsigned field);
void proto_end(struct text *to, size_t begin);
/* Begins bytes of a known length, which the caller appends. */
void proto_announce(struct text *to, unsigned field, uint64_t length);

#endif
