/* message.h: the fields of a protobuf message one by one, over the record room's wire format. */
#ifndef INSPECT_MESSAGE_H
#define INSPECT_MESSAGE_H

#include "base/wire.h"
#include <penstock/example.h>

struct field {
    uint32_t tag;   /* WIRE_TAG(number, type) */
    pst_bytes data; /* the bytes after the length of a length-delimited field, else those of the number */
};

/* Reads and removes the first field of `rest`. PST_END: it is empty; PST_ECORRUPT: `trouble` has the reason. */
static inline pst_status message_next(pst_bytes *rest, struct field *ret, struct wire_trouble *trouble)
{
    if (!rest->length)
        return PST_END;
    struct wire_field f;
    const uint8_t *end = rest->data + rest->length, *next = wire_next(rest->data, end, &f, trouble);
    if (!next)
        return PST_ECORRUPT;
    *ret = (struct field){f.tag, {f.data, (size_t)(next - f.data)}};
    *rest = (pst_bytes){next, (size_t)(end - next)};
    return PST_OK;
}

#endif
