/* proto.c: see proto.h. */
#include "base/proto.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

#define MAX_VARINT 10

static size_t encode(uint64_t value, char to[MAX_VARINT])
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (char)(value | 0x80);
    to[n++] = (char)value;
    return n;
}

static void add_varint(struct text *to, uint64_t value)
{
    char bytes[MAX_VARINT];
    text_add_n(to, bytes, encode(value, bytes));
}

static void add_tag(struct text *to, unsigned field, unsigned type)
{
    add_varint(to, (uint64_t)field << 3 | type);
}

void proto_int(struct text *to, unsigned field, int64_t value)
{
    add_tag(to, field, VARINT);
    add_varint(to, (uint64_t)value);
}

void proto_float(struct text *to, unsigned field, float value)
{
    add_tag(to, field, FIXED32);
    text_add_n(to, (const char *)&value, sizeof(value));
}

void proto_double(struct text *to, unsigned field, double value)
{
    add_tag(to, field, FIXED64);
    text_add_n(to, (const char *)&value, sizeof(value));
}

void proto_announce(struct text *to, unsigned field, uint64_t length)
{
    add_tag(to, field, BYTES);
    add_varint(to, length);
}

void proto_bytes(struct text *to, unsigned field, const void *data, size_t length)
{
    proto_announce(to, field, length);
    if (length)
        text_add_n(to, data, length);
}

void proto_string(struct text *to, unsigned field, const char *value)
{
    proto_bytes(to, field, value, strlen(value));
}

void proto_doubles(struct text *to, unsigned field, const double *values, size_t count)
{
    proto_bytes(to, field, values, count * sizeof(*values));
}

size_t proto_begin(struct text *to, unsigned field)
{
    add_tag(to, field, BYTES);
    return to->length;
}

void proto_end(struct text *to, size_t begin)
{
    char bytes[MAX_VARINT];
    if (to->failed)
        return;
    size_t length = to->length - begin, n = encode(length, bytes);
    text_add_n(to, bytes, n); /* makes room */
    if (to->failed)
        return;
    memmove(to->data + begin + n, to->data + begin, length);
    memcpy(to->data + begin, bytes, n);
}
