/* wire.c: the parts of wire.h that are rare: long numbers, odd fields, and what to say when they are wrong. */
#include "base/wire.h"

#include "base/digits.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

const uint8_t *wire_fail(struct wire_trouble *t, pst_status status, const uint8_t *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    digits_vprint(t->text, sizeof(t->text), format, args);
    va_end(args);
    t->status = status;
    t->at = at;
    return NULL;
}

const uint8_t *wire_varint(const uint8_t *p, const uint8_t *end, unsigned longest, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < longest && p < end; i++) {
        uint8_t byte = *p++;
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            *ret = value;
            return p;
        }
    }
    return NULL;
}

static const uint8_t *fail_varint(struct wire_trouble *t, const uint8_t *p, const uint8_t *end, unsigned longest,
                                  const char *what)
{
    if ((size_t)(end - p) >= longest)
        return wire_fail(t, PST_ECORRUPT, p, "a %s of over %u bytes", what, longest);
    return wire_fail(t, PST_ECORRUPT, p, "a %s is cut short", what);
}

static const uint8_t *take(const uint8_t *p, const uint8_t *end, uint64_t length, struct wire_trouble *t)
{
    size_t left = (size_t)(end - p);
    if (length > left)
        return wire_fail(t, PST_ECORRUPT, p, "a field of %" PRIu64 " bytes where %zu are left", length, left);
    return p + length;
}

const uint8_t *wire_next(const uint8_t *p, const uint8_t *end, struct wire_field *ret, struct wire_trouble *t)
{
    uint64_t tag = p[0], value;
    const uint8_t *data = tag < 0x80 ? p + 1 : wire_varint(p, end, WIRE_LONGEST_LENGTH, &tag), *after;
    if (!data)
        return fail_varint(t, p, end, WIRE_LONGEST_LENGTH, "tag");
    if (tag > UINT32_MAX)
        return wire_fail(t, PST_ECORRUPT, p, "a tag of over 32 bits");
    if (tag >> 3 == 0)
        return wire_fail(t, PST_ECORRUPT, p, "field number 0, which protobuf forbids");
    ret->tag = (uint32_t)tag;
    ret->data = data;

    switch (tag & 7) {
    case WIRE_VARINT:
        after = wire_varint(data, end, WIRE_LONGEST_VARINT, &value);
        return after ? after : fail_varint(t, data, end, WIRE_LONGEST_VARINT, "varint");
    case WIRE_FIXED64:
        return take(data, end, 8, t);
    case WIRE_BYTES:
        after = wire_varint(data, end, WIRE_LONGEST_LENGTH, &value);
        if (!after)
            return fail_varint(t, data, end, WIRE_LONGEST_LENGTH, "length");
        ret->data = after;
        return take(after, end, value, t);
    case WIRE_FIXED32:
        return take(data, end, 4, t);
    case 3:
    case 4:
        return wire_fail(t, PST_ECORRUPT, p, "a group, which is not read");
    default:
        return wire_fail(t, PST_ECORRUPT, p, "wire type %u, which protobuf does not have", (unsigned)(tag & 7));
    }
}

bool wire_entry_read_any(struct wire_entry *ret, const uint8_t *p, const uint8_t *end, struct wire_trouble *t)
{
    *ret = (struct wire_entry){.key = p, .p = p, .end = end};
    while (p < end) {
        struct wire_field field;
        p = wire_next(p, end, &field, t);
        if (!p)
            return false;
        if (field.tag == WIRE_TAG(1, WIRE_BYTES)) {
            ret->key = field.data;
            ret->key_length = (size_t)(p - field.data);
        } else if (field.tag == WIRE_TAG(2, WIRE_BYTES)) {
            ret->values++;
        }
    }
    return true;
}

void wire_entry_take(struct wire_entry *entry)
{
    struct wire_trouble unused; /* the entry was read once already */
    struct wire_field field = {0};
    while (field.tag != WIRE_TAG(2, WIRE_BYTES))
        entry->p = wire_next(entry->p, entry->end, &field, &unused);
    entry->value = field.data;
    entry->value_end = entry->p;
}
