/* events.c: see events.h. Field numbers are those of TensorFlow's event.proto, summary.proto and tensor.proto. */
#include "inspect/events.h"

#include "inspect/message.h"

#include <math.h>
#include <string.h>

#define DT_FLOAT        1u
#define DT_DOUBLE       2u
#define SOURCE_METADATA 10u /* goes along with something else that happened */

static const char *const happenings[] = {
    [3] = "file version", [4] = "graph",        [5] = "summary",    [6] = "log message",
    [7] = "session",      [8] = "run metadata", [9] = "meta graph", [SOURCE_METADATA] = "source metadata"};
#define HAPPENINGS (sizeof(happenings) / sizeof(happenings[0]))

static uint64_t varint_of(pst_bytes bytes)
{
    uint64_t value = 0;
    wire_varint(bytes.data, bytes.data + bytes.length, WIRE_LONGEST_VARINT, &value);
    return value;
}

static double double_at(const uint8_t *p)
{
    double number;
    memcpy(&number, p, sizeof(number));
    return number;
}

static double float_at(const uint8_t *p)
{
    float number;
    memcpy(&number, p, sizeof(number));
    return (double)number;
}

bool event_parse(struct event *ret, const void *data, size_t length)
{
    struct event e = {.wall_time = NAN, .rest = {data, length}};
    pst_bytes rest = e.rest;
    struct field f;
    struct wire_trouble t;
    pst_status st;
    while ((st = message_next(&rest, &f, &t)) == PST_OK) {
        uint32_t number = f.tag >> 3;
        if (f.tag == WIRE_TAG(1, WIRE_FIXED64))
            e.wall_time = double_at(f.data.data);
        else if (f.tag == WIRE_TAG(2, WIRE_VARINT))
            e.step = (int64_t)varint_of(f.data);
        else if (number < 3)
            return false; /* those two have no other form in an Event */
        else if (number < HAPPENINGS && (f.tag & 7) == WIRE_BYTES && (number < SOURCE_METADATA || !e.what))
            e.what = happenings[number];
        if (f.tag == WIRE_TAG(3, WIRE_BYTES))
            e.file_version = f.data;
    }
    if (st < 0 || !isfinite(e.wall_time) || !e.what)
        return false;
    *ret = e;
    return true;
}

const char *event_value_kind_name(enum event_value_kind kind)
{
    static const char *const names[] = {"value", "scalar", "tensor", "image", "histogram", "audio"};
    return names[kind];
}

/* True if the TensorProto is one number; newer writers keep scalars so. */
static bool tensor_scalar(pst_bytes tensor, double *ret)
{
    uint64_t type = 0;
    pst_bytes content = {0}, floats = {0}, doubles = {0};
    struct field f;
    struct wire_trouble t;
    while (message_next(&tensor, &f, &t) == PST_OK) {
        uint32_t number = f.tag >> 3;
        if (f.tag == WIRE_TAG(1, WIRE_VARINT))
            type = varint_of(f.data);
        else if (f.tag == WIRE_TAG(2, WIRE_BYTES) && f.data.length > 0)
            return false; /* it has a shape */
        else if (f.tag == WIRE_TAG(4, WIRE_BYTES))
            content = f.data;
        else if (number == 5)
            floats = f.data; /* packed or not: the same bytes */
        else if (number == 6)
            doubles = f.data;
    }
    pst_bytes values = content.length ? content : type == DT_FLOAT ? floats : doubles;
    if (type == DT_FLOAT && values.length == sizeof(float))
        *ret = float_at(values.data);
    else if (type == DT_DOUBLE && values.length == sizeof(double))
        *ret = double_at(values.data);
    else
        return false;
    return true;
}

/* encoded_image_string of a Summary.Image. */
static pst_bytes picture_of(pst_bytes image)
{
    pst_bytes picture = {0};
    struct field f;
    struct wire_trouble t;
    while (message_next(&image, &f, &t) == PST_OK)
        picture = f.tag == WIRE_TAG(4, WIRE_BYTES) ? f.data : picture;
    return picture;
}

static bool value_parse(struct event_value *ret, pst_bytes value)
{
    struct field f;
    struct wire_trouble t;
    pst_status st;
    *ret = (struct event_value){0};
    while ((st = message_next(&value, &f, &t)) == PST_OK) {
        switch (f.tag) {
        case WIRE_TAG(1, WIRE_BYTES):
            ret->tag = f.data;
            break;
        case WIRE_TAG(2, WIRE_FIXED32):
            ret->kind = EVENT_SCALAR;
            ret->number = float_at(f.data.data);
            break;
        case WIRE_TAG(4, WIRE_BYTES):
            ret->kind = EVENT_IMAGE;
            ret->image = picture_of(f.data);
            break;
        case WIRE_TAG(5, WIRE_BYTES):
            ret->kind = EVENT_HISTOGRAM;
            break;
        case WIRE_TAG(6, WIRE_BYTES):
            ret->kind = EVENT_AUDIO;
            break;
        case WIRE_TAG(8, WIRE_BYTES):
            ret->kind = tensor_scalar(f.data, &ret->number) ? EVENT_SCALAR : EVENT_TENSOR;
            break;
        default:
            break;
        }
    }
    return st == PST_END;
}

/* Takes fields off the front of `message` up to the next one with this tag. */
static bool take_field(pst_bytes *message, uint32_t tag, pst_bytes *ret)
{
    struct field f;
    struct wire_trouble t;
    while (message_next(message, &f, &t) == PST_OK) {
        if (f.tag == tag) {
            *ret = f.data;
            return true;
        }
    }
    return false;
}

bool event_next_value(struct event *e, struct event_value *ret)
{
    pst_bytes value;
    while (!take_field(&e->summary, WIRE_TAG(1, WIRE_BYTES), &value)) {
        if (!take_field(&e->rest, WIRE_TAG(5, WIRE_BYTES), &e->summary))
            return false;
    }
    return value_parse(ret, value);
}
