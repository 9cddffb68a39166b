/* wire.h: the protobuf wire format, read within bounds, and written.
 *
 * A message is the bytes [p, end). wire_next takes one field off its front and gives the field's payload as bytes, so that
 * unknown fields are skipped, and a single value of a repeated field reads like a packed chunk of one value. Nothing here
 * recurses, allocates or reads past `end`. The caller interprets the fields. */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include "base/le.h"
#include <penstock/base.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
#define WIRE_TAG(number, type) ((uint32_t)(number) << 3 | (uint32_t)(type))

/* Why reading stopped; written only on failure. */
struct wire_trouble {
    pst_status status;
    const uint8_t *at; /* the byte that is wrong */
    char text[128];
};

/* Fills `t` and returns NULL, so that a failure is one statement. */
const uint8_t *wire_fail(struct wire_trouble *t, pst_status status, const uint8_t *at, const char *format, ...)
    __attribute__((cold, format(printf, 4, 5)));

#define WIRE_LONGEST_VARINT 10u
#define WIRE_LONGEST_LENGTH 5u /* bytes of a tag or a length: accepted by every protobuf implementation */

/* Reads a varint of up to `longest` bytes. Bits beyond the 64th are dropped, as protobuf does. NULL: truncated or too long. */
const uint8_t *wire_varint(const uint8_t *p, const uint8_t *end, unsigned longest, uint64_t *ret);

struct wire_field {
    uint32_t tag;
    const uint8_t
        *data; /* the payload, up to the next field: after the length of a length-delimited field, else the number itself */
};

/* Reads the field at `p` (p < end) and returns where it ends; NULL when it is malformed. */
const uint8_t *wire_next(const uint8_t *p, const uint8_t *end, struct wire_field *ret, struct wire_trouble *t);

/* The same for the field that is expected, if it is there and short: length-delimited, with that tag of one byte and a
 * length of one or two. NULL for anything else; then call wire_next. */
static inline const uint8_t *wire_expect(const uint8_t *p, const uint8_t *end, uint8_t tag, const uint8_t **ret_data)
{
    size_t size = (size_t)(end - p), length;
    if (size < 2 || p[0] != tag)
        return NULL;
    length = p[1];
    p += 2;
    if (length >= 0x80) {
        if (size < 3 || p[0] >= 0x80)
            return NULL;
        length = (length & 0x7f) | (size_t)p[0] << 7;
        p++;
    }
    *ret_data = p;
    return length <= (size_t)(end - p) ? p + length : NULL;
}

/* Returns the payload of an expected field that fills [p, end) to its last byte, as most messages of an Example do; or NULL. */
static inline const uint8_t *wire_sole(const uint8_t *p, const uint8_t *end, uint8_t tag)
{
    const uint8_t *data;
    return wire_expect(p, end, tag, &data) == end ? data : NULL;
}

/* An entry of a protobuf map: key = 1, value = 2, in any order and number. If there are several keys, the last is used;
 * several values are merged, and the caller reads them one by one. */
struct wire_entry {
    const uint8_t *key; /* never NULL; a missing key is "" */
    size_t key_length;
    const uint8_t *value, *value_end; /* the value read last */
    size_t values;                    /* values not read yet */
    const uint8_t *p, *end;           /* the remaining fields; p is NULL when the only value was read already */
};

bool wire_entry_read_any(struct wire_entry *ret, const uint8_t *p, const uint8_t *end, struct wire_trouble *t);

/* Reads all fields of the entry [p, end). False when one is malformed. */
static inline bool wire_entry_read(struct wire_entry *ret, const uint8_t *p, const uint8_t *end, struct wire_trouble *t)
{
    /* The usual form: a short key, then a value up to the end. */
    if (end - p >= 2 && p[0] == WIRE_TAG(1, WIRE_BYTES) && p[1] < 0x80 && end - p - 2 >= p[1]) {
        ret->key = p + 2;
        ret->key_length = p[1];
        ret->value = wire_sole(ret->key + ret->key_length, end, WIRE_TAG(2, WIRE_BYTES));
        if (ret->value) {
            ret->value_end = end;
            ret->values = 1;
            ret->p = NULL;
            return true;
        }
    }
    return wire_entry_read_any(ret, p, end, t);
}

void wire_entry_take(struct wire_entry *entry);

/* Makes the next value [value, value_end); false when none is left. */
static inline bool wire_entry_next(struct wire_entry *entry)
{
    if (entry->values == 0)
        return false;
    entry->values--;
    if (entry->p)
        wire_entry_take(entry);
    return true;
}

/* ---- Writing ---- */

#define WIRE_MOST_BYTES ((size_t)INT32_MAX) /* of a message: protobuf readers refuse more */

static inline size_t wire_varint_size(uint64_t value)
{
    return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}

/* The writers return where the next byte goes. */
static inline uint8_t *wire_put_varint(uint8_t *p, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *p++ = (uint8_t)(value | 0x80);
    *p++ = (uint8_t)value;
    return p;
}

/* Size of a length-delimited field with a one-byte tag, around `length` bytes. */
static inline size_t wire_field_size(size_t length)
{
    return 1 + wire_varint_size(length) + length;
}

/* Writes its tag and length. */
static inline uint8_t *wire_put_field(uint8_t *p, unsigned number, size_t length)
{
    *p++ = (uint8_t)WIRE_TAG(number, WIRE_BYTES);
    return wire_put_varint(p, length);
}

#endif
