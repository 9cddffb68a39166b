/* onnx_file.c: see onnx_file.h. A message is read twice: its parts are counted, then arrays of that size are filled. */
#include "export/onnx_file.h"

#include "base/error.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/wire.h"
#include "io/file.h"

#include <inttypes.h>
#include <string.h>

#define MAX_FILE  ((size_t)INT32_MAX) /* bytes that protobuf allows */
#define MAX_PARTS 65536               /* nodes, constants, inputs… of one kind */
#define MAX_LINKS 4096                /* inputs, results and attributes of a node */

enum { MODEL_GRAPH = 7, MODEL_OPSET = 8, MODEL_METADATA = 14, MODEL_FUNCTION = 25 };
enum { OPSET_DOMAIN = 1, OPSET_VERSION };
enum { ENTRY_KEY = 1, ENTRY_VALUE };
enum { GRAPH_NODE = 1, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_SPARSE = 15 };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE, NODE_DOMAIN = 7 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_STRING, ATTRIBUTE_TENSOR, ATTRIBUTE_INTS = 8 };
enum {
    TENSOR_DIMENSION = 1,
    TENSOR_TYPE,
    TENSOR_SEGMENT,
    TENSOR_FLOATS,
    TENSOR_INT32S,
    TENSOR_INT64S = 7,
    TENSOR_NAME,
    TENSOR_RAW,
    TENSOR_DOUBLES,
    TENSOR_EXTERNAL = 13,
    TENSOR_LOCATION
};
enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE, SHAPE_DIMENSION = 1, DIMENSION_VALUE = 1 };

struct reader {
    struct onnx_file *file;
    const uint8_t *begin;
    struct onnx_outside *outside;
    pst_error *reterr;
};

/* A message that is being read, and its field. */
struct message {
    const uint8_t *at, *end;
    unsigned number;
    enum wire_type type;
    const uint8_t *data; /* of the field; it ends at `at` */
};

/* ---- Fields ---- */

static pst_status fail_at(const struct reader *r, pst_status st, const uint8_t *at, const char *what)
{
    return pst_fail_at(r->reterr, st, r->file->path, PST_NOWHERE, (uint64_t)(at - r->begin), "ONNX: %s", what);
}

static struct message message_of(const struct message *field)
{
    return (struct message){.at = field->data, .end = field->at};
}

/* PST_END after the last field. */
static pst_status next(const struct reader *r, struct message *m)
{
    struct wire_trouble trouble;
    struct wire_field field;
    if (m->at == m->end)
        return PST_END;
    const uint8_t *after = wire_next(m->at, m->end, &field, &trouble);
    if (!after)
        return fail_at(r, trouble.status, trouble.at, trouble.text);
    m->number = field.tag >> 3;
    m->type = field.tag & 7;
    m->data = field.data;
    m->at = after;
    return PST_OK;
}

static pst_status expect(const struct reader *r, const struct message *m, enum wire_type type)
{
    return m->type == type ? PST_OK : fail_at(r, PST_ECORRUPT, m->data, "a field has another wire type than ONNX gives it");
}

static pst_status get_int(const struct reader *r, const struct message *m, int64_t *ret)
{
    uint64_t v = 0;
    pst_status st = expect(r, m, WIRE_VARINT);
    if (st == PST_OK)
        wire_varint(m->data, m->at, WIRE_LONGEST_VARINT, &v);
    *ret = (int64_t)v;
    return st;
}

static pst_status get_string(const struct reader *r, const struct message *m, const char **ret)
{
    size_t length = (size_t)(m->at - m->data);
    pst_status st = expect(r, m, WIRE_BYTES);
    if (st < 0)
        return st;
    if (memchr(m->data, 0, length) || !text_is_utf8(m->data, length))
        return fail_at(r, PST_ECORRUPT, m->data, "a name that is not UTF-8 text");
    *ret = arena_strndup(&r->file->memory, (const char *)m->data, length);
    return *ret ? PST_OK : fail_memory_at(r->reterr, r->file->path, "reading ONNX");
}

/* Zeroed; PST_ELIMIT above `most` parts. */
static pst_status get_array(const struct reader *r, const struct message *m, void *ret, size_t count, size_t most, size_t size)
{
    if (count > most)
        return fail_at(r, PST_ELIMIT, m->at, "more parts than a model can have");
    void *p = arena_alloc(&r->file->memory, (count ? count : 1) * size);
    if (!p)
        return fail_memory_at(r->reterr, r->file->path, "reading ONNX");
    memset(p, 0, (count ? count : 1) * size);
    memcpy(ret, &p, sizeof(p));
    return PST_OK;
}

/* Counts the fields of a message with numbers below `most`. */
static pst_status count_fields(const struct reader *r, struct message m, size_t *counts, size_t most)
{
    pst_status st;
    while ((st = next(r, &m)) == PST_OK)
        if (m.number < most)
            counts[m.number]++;
    return st == PST_END ? PST_OK : st;
}

/* ---- Numbers: repeated fields, packed or one by one ---- */

struct numbers {
    uint8_t *to; /* NULL: they are counted */
    size_t count, width, room;
};

static size_t fixed_width(enum wire_type type)
{
    return type == WIRE_FIXED32 ? 4 : type == WIRE_FIXED64 ? 8 : 0;
}

/* Adds the values of one field; `type` is that of a single value. Integers keep their lower `width` bytes. */
static pst_status add_numbers(const struct reader *r, const struct message *m, enum wire_type type, struct numbers *n)
{
    size_t fixed = fixed_width(type);
    if (m->type != WIRE_BYTES && m->type != type)
        return expect(r, m, type);
    if (fixed && (size_t)(m->at - m->data) % fixed != 0)
        return fail_at(r, PST_ECORRUPT, m->data, "a list of numbers is cut short");
    for (const uint8_t *p = m->data; p < m->at; n->count++) {
        uint64_t v = 0;
        if (fixed) {
            memcpy(&v, p, fixed);
            p += fixed;
        } else if (!(p = wire_varint(p, m->at, WIRE_LONGEST_VARINT, &v))) {
            return fail_at(r, PST_ECORRUPT, m->data, "a list of numbers is cut short");
        }
        if (n->to && n->count < n->room)
            memcpy(n->to + n->count * n->width, &v, n->width);
    }
    return PST_OK;
}

/* All values of field `number`. */
static pst_status collect(const struct reader *r, struct message m, unsigned number, enum wire_type type, struct numbers *n)
{
    pst_status st;
    n->count = 0;
    while ((st = next(r, &m)) == PST_OK) {
        if (m.number == number)
            st = add_numbers(r, &m, type, n);
        if (st < 0)
            return st;
    }
    return st == PST_END ? PST_OK : st;
}

/* ---- Tensors ---- */

size_t onnx_type_width(int64_t type)
{
    switch (type) {
    case ONNX_UINT8:
    case ONNX_INT8:
        return 1;
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16:
        return 2;
    case ONNX_FLOAT32:
    case ONNX_INT32:
        return 4;
    case ONNX_INT64:
    case ONNX_FLOAT64:
        return 8;
    default:
        return 0;
    }
}

/* What a tensor says about its bytes. */
struct storage {
    bool raw, external;
    const uint8_t *data;
    size_t length;
    struct onnx_external where;
};

static pst_status add_dimension(const struct reader *r, const struct message *m, struct onnx_tensor *t)
{
    int64_t dims[ONNX_FILE_RANK + 1] = {0};
    struct numbers n = {.to = (uint8_t *)dims, .width = sizeof(int64_t), .room = ONNX_FILE_RANK + 1};
    pst_status st = add_numbers(r, m, WIRE_VARINT, &n);
    if (st == PST_OK && n.count + t->rank > ONNX_FILE_RANK)
        return fail_at(r, PST_ELIMIT, m->data, "a constant with more than 8 dimensions");
    for (size_t i = 0; st == PST_OK && i < n.count; i++) {
        if (dims[i] < 0)
            return fail_at(r, PST_ECORRUPT, m->data, "a constant with a negative dimension");
        t->dims[t->rank++] = (uint64_t)dims[i];
    }
    return st;
}

static bool parse_number(const char *s, uint64_t *ret)
{
    *ret = 0;
    for (; *s >= '0' && *s <= '9'; s++)
        if (__builtin_mul_overflow(*ret, 10, ret) || __builtin_add_overflow(*ret, (uint64_t)(*s - '0'), ret))
            return false;
    return *s == '\0';
}

static pst_status add_external(const struct reader *r, const struct message *m, struct onnx_external *e)
{
    struct message entry = message_of(m);
    const char *key = "", *value = "";
    pst_status st = expect(r, m, WIRE_BYTES);
    while (st == PST_OK && (st = next(r, &entry)) == PST_OK) {
        if (entry.number == ENTRY_KEY)
            st = get_string(r, &entry, &key);
        else if (entry.number == ENTRY_VALUE)
            st = get_string(r, &entry, &value);
    }
    if (st < 0)
        return st;
    if (strcmp(key, "location") == 0)
        e->location = value;
    else if (strcmp(key, "offset") == 0 && !parse_number(value, &e->offset))
        return fail_at(r, PST_ECORRUPT, m->data, "the offset of external data is not a number");
    else if (strcmp(key, "length") == 0 && !parse_number(value, &e->length))
        return fail_at(r, PST_ECORRUPT, m->data, "the length of external data is not a number");
    return PST_OK;
}

static pst_status tensor_field(const struct reader *r, const struct message *m, struct onnx_tensor *t, struct storage *s)
{
    int64_t v = 0;
    pst_status st = PST_OK;
    switch (m->number) {
    case TENSOR_DIMENSION:
        return add_dimension(r, m, t);
    case TENSOR_TYPE:
        return get_int(r, m, &t->type);
    case TENSOR_SEGMENT:
        return fail_at(r, PST_EUNSUPPORTED, m->data, "a constant in segments");
    case TENSOR_NAME:
        return get_string(r, m, &t->name);
    case TENSOR_RAW:
        s->raw = true;
        s->data = m->data;
        s->length = (size_t)(m->at - m->data);
        return expect(r, m, WIRE_BYTES);
    case TENSOR_EXTERNAL:
        return add_external(r, m, &s->where);
    case TENSOR_LOCATION:
        st = get_int(r, m, &v);
        s->external = v == 1;
        return st == PST_OK && v != 0 && v != 1 ? fail_at(r, PST_ECORRUPT, m->data, "an unknown location of data") : st;
    default:
        return PST_OK;
    }
}

static pst_status fail_tensor(const struct reader *r, const struct message *m, const struct onnx_tensor *t, pst_status st, const char *what)
{
    return pst_fail_at(r->reterr, st, r->file->path, PST_NOWHERE, (uint64_t)(m->at - r->begin), "ONNX: the constant \"%.60s\" %s", t->name, what);
}

/* The values of a tensor that has them in lists of numbers. */
static pst_status read_lists(const struct reader *r, const struct message *m, struct onnx_tensor *t)
{
    size_t width = onnx_type_width(t->type);
    unsigned field = t->type == ONNX_FLOAT32   ? TENSOR_FLOATS
                     : t->type == ONNX_FLOAT64 ? TENSOR_DOUBLES
                     : t->type == ONNX_INT64   ? TENSOR_INT64S
                                               : TENSOR_INT32S;
    enum wire_type type = t->type == ONNX_FLOAT32 ? WIRE_FIXED32 : t->type == ONNX_FLOAT64 ? WIRE_FIXED64 : WIRE_VARINT;
    struct numbers n = {.width = width};
    uint8_t *to = NULL;
    pst_status st = collect(r, *m, field, type, &n);
    if (st == PST_OK && n.count != t->count)
        st = fail_tensor(r, m, t, PST_ECORRUPT, "has another number of values than its shape");
    if (st == PST_OK)
        st = get_array(r, m, &to, t->count, SIZE_MAX, width); /* each value has a byte in the file at least */
    if (st < 0)
        return st;
    n.to = to;
    n.room = t->count;
    t->data = to;
    return collect(r, *m, field, type, &n);
}

static pst_status read_tensor(struct reader *r, const struct message *field, struct onnx_tensor *t)
{
    struct message m = message_of(field), whole = m;
    struct storage s = {.where = {.location = "", .length = UINT64_MAX}};
    pst_status st = expect(r, field, WIRE_BYTES);
    t->name = "";
    while (st == PST_OK && (st = next(r, &m)) == PST_OK)
        st = tensor_field(r, &m, t, &s);
    if (st < 0)
        return st;
    size_t width = onnx_type_width(t->type), bytes;
    if (width == 0)
        return fail_tensor(r, &whole, t, PST_EUNSUPPORTED, "has a type of numbers that is not read");
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(t->count, t->dims[i], &t->count))
            return fail_tensor(r, &whole, t, PST_ECORRUPT, "has more values than there are numbers");
    if (__builtin_mul_overflow(t->count, width, &bytes))
        return fail_tensor(r, &whole, t, PST_ECORRUPT, "has more values than there are numbers");
    if (s.external) {
        if (s.where.length != UINT64_MAX && s.where.length != bytes)
            return fail_tensor(r, &whole, t, PST_ECORRUPT, "has external data of another length than its shape");
        return onnx_external_read(r->file, &r->outside, &s.where, t->name, bytes, &t->data, r->reterr);
    }
    if (!s.raw)
        return read_lists(r, &whole, t);
    t->data = s.data;
    return s.length == bytes ? PST_OK : fail_tensor(r, &whole, t, PST_ECORRUPT, "has another number of bytes than its shape");
}

float onnx_tensor_float(const struct onnx_tensor *t, size_t i)
{
    const uint8_t *at = t->data + i * onnx_type_width(t->type);
    double wide;
    switch (t->type) {
    case ONNX_FLOAT32:
        return float_of_bits(le32(at));
    case ONNX_FLOAT16:
        return float_from_half(le16(at));
    case ONNX_BFLOAT16:
        return float_from_bfloat(le16(at));
    case ONNX_FLOAT64:
        memcpy(&wide, at, sizeof(wide));
        return (float)wide;
    default:
        return (float)onnx_tensor_int(t, i);
    }
}

int64_t onnx_tensor_int(const struct onnx_tensor *t, size_t i)
{
    const uint8_t *at = t->data + i * onnx_type_width(t->type);
    switch (t->type) {
    case ONNX_INT64:
        return (int64_t)le64(at);
    case ONNX_INT32:
        return (int32_t)le32(at);
    case ONNX_UINT8:
        return *at;
    case ONNX_INT8:
        return (int8_t)*at;
    default:
        return 0;
    }
}

/* ---- Nodes ---- */

static pst_status read_attribute(struct reader *r, const struct message *field, struct onnx_file_attribute *a)
{
    struct message m = message_of(field), whole = m;
    struct onnx_tensor *t = NULL;
    int64_t *ints = NULL;
    struct numbers n = {.width = sizeof(int64_t)};
    pst_status st = expect(r, field, WIRE_BYTES);
    a->name = a->s = "";
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == ATTRIBUTE_NAME)
            st = get_string(r, &m, &a->name);
        else if (m.number == ATTRIBUTE_INT)
            st = get_int(r, &m, &a->i);
        else if (m.number == ATTRIBUTE_FLOAT && (st = expect(r, &m, WIRE_FIXED32)) == PST_OK)
            a->f = float_of_bits(le32(m.data));
        else if (m.number == ATTRIBUTE_STRING && m.type == WIRE_BYTES && text_is_utf8(m.data, (size_t)(m.at - m.data)) &&
                 !memchr(m.data, 0, (size_t)(m.at - m.data))) /* strings of attributes may be any bytes; those that matter are text */
            st = get_string(r, &m, &a->s);
        else if (m.number == ATTRIBUTE_TENSOR && (st = get_array(r, &m, &t, 1, 1, sizeof(*t))) == PST_OK)
            st = read_tensor(r, &m, t);
    }
    a->t = t;
    if (st >= 0)
        st = collect(r, whole, ATTRIBUTE_INTS, WIRE_VARINT, &n);
    if (st == PST_OK)
        st = get_array(r, &whole, &ints, n.count, SIZE_MAX, sizeof(*ints));
    if (st < 0)
        return st;
    n.to = (uint8_t *)ints;
    n.room = n.count;
    a->ints = ints;
    a->ints_count = n.count;
    return collect(r, whole, ATTRIBUTE_INTS, WIRE_VARINT, &n);
}

static pst_status read_node(struct reader *r, const struct message *field, struct onnx_file_node *n)
{
    struct message m = message_of(field);
    size_t counts[NODE_ATTRIBUTE + 1] = {0};
    pst_status st = expect(r, field, WIRE_BYTES);
    n->name = n->op = n->domain = "";
    if (st == PST_OK)
        st = count_fields(r, m, counts, NODE_ATTRIBUTE + 1);
    if (st == PST_OK)
        st = get_array(r, &m, &n->in, counts[NODE_INPUT], MAX_LINKS, sizeof(*n->in));
    if (st == PST_OK)
        st = get_array(r, &m, &n->out, counts[NODE_OUTPUT], MAX_LINKS, sizeof(*n->out));
    if (st == PST_OK)
        st = get_array(r, &m, &n->attributes, counts[NODE_ATTRIBUTE], MAX_LINKS, sizeof(*n->attributes));
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == NODE_INPUT)
            st = get_string(r, &m, &n->in[n->ins++]);
        else if (m.number == NODE_OUTPUT)
            st = get_string(r, &m, &n->out[n->outs++]);
        else if (m.number == NODE_NAME)
            st = get_string(r, &m, &n->name);
        else if (m.number == NODE_OP)
            st = get_string(r, &m, &n->op);
        else if (m.number == NODE_DOMAIN)
            st = get_string(r, &m, &n->domain);
        else if (m.number == NODE_ATTRIBUTE)
            st = read_attribute(r, &m, &n->attributes[n->attribute_count++]);
    }
    return st == PST_END ? PST_OK : st;
}

const struct onnx_file_attribute *onnx_attribute_find(const struct onnx_file_node *n, const char *name)
{
    for (size_t i = 0; i < n->attribute_count; i++)
        if (strcmp(n->attributes[i].name, name) == 0)
            return &n->attributes[i];
    return NULL;
}

/* ---- Inputs and results ---- */

static pst_status read_shape(const struct reader *r, struct message shape, struct onnx_file_port *p)
{
    pst_status st = PST_OK;
    p->shaped = true;
    while (st == PST_OK && (st = next(r, &shape)) == PST_OK) {
        if (shape.number != SHAPE_DIMENSION)
            continue;
        if ((st = expect(r, &shape, WIRE_BYTES)) < 0)
            return st;
        if (p->rank == ONNX_FILE_RANK)
            return fail_at(r, PST_ELIMIT, shape.data, "an input with more than 8 dimensions");
        struct message dimension = message_of(&shape);
        int64_t *size = &p->dims[p->rank++];
        *size = -1;
        while (st == PST_OK && (st = next(r, &dimension)) == PST_OK)
            if (dimension.number == DIMENSION_VALUE)
                st = get_int(r, &dimension, size);
        if (st == PST_END)
            st = PST_OK;
        if (st == PST_OK && *size <= 0)
            *size = -1;
    }
    return st == PST_END ? PST_OK : st;
}

static pst_status read_port(struct reader *r, const struct message *field, struct onnx_file_port *p)
{
    struct message m = message_of(field);
    pst_status st = expect(r, field, WIRE_BYTES);
    p->name = "";
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == VALUE_NAME)
            st = get_string(r, &m, &p->name);
        if (st < 0 || m.number != VALUE_TYPE || (st = expect(r, &m, WIRE_BYTES)) < 0)
            continue;
        struct message type = message_of(&m);
        while (st == PST_OK && (st = next(r, &type)) == PST_OK) {
            if (type.number != TYPE_TENSOR || (st = expect(r, &type, WIRE_BYTES)) < 0)
                continue;
            struct message tensor = message_of(&type);
            while (st == PST_OK && (st = next(r, &tensor)) == PST_OK) {
                if (tensor.number == TENSOR_ELEMENT)
                    st = get_int(r, &tensor, &p->type);
                else if (tensor.number == TENSOR_SHAPE && (st = expect(r, &tensor, WIRE_BYTES)) == PST_OK)
                    st = read_shape(r, message_of(&tensor), p);
            }
            st = st == PST_END ? PST_OK : st;
        }
        st = st == PST_END ? PST_OK : st;
    }
    return st == PST_END ? PST_OK : st;
}

/* ---- The whole ---- */

static pst_status read_graph(struct reader *r, const struct message *field)
{
    struct onnx_file *f = r->file;
    struct message m = message_of(field);
    size_t counts[GRAPH_SPARSE + 1] = {0};
    pst_status st = expect(r, field, WIRE_BYTES);
    if (st == PST_OK)
        st = count_fields(r, m, counts, GRAPH_SPARSE + 1);
    if (st == PST_OK && counts[GRAPH_SPARSE])
        st = fail_at(r, PST_EUNSUPPORTED, m.at, "sparse constants");
    if (st == PST_OK)
        st = get_array(r, &m, &f->nodes, counts[GRAPH_NODE], MAX_PARTS, sizeof(*f->nodes));
    if (st == PST_OK)
        st = get_array(r, &m, &f->tensors, counts[GRAPH_CONSTANT], MAX_PARTS, sizeof(*f->tensors));
    if (st == PST_OK)
        st = get_array(r, &m, &f->inputs, counts[GRAPH_INPUT], MAX_PARTS, sizeof(*f->inputs));
    if (st == PST_OK)
        st = get_array(r, &m, &f->outputs, counts[GRAPH_OUTPUT], MAX_PARTS, sizeof(*f->outputs));
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == GRAPH_NODE)
            st = read_node(r, &m, &f->nodes[f->node_count++]);
        else if (m.number == GRAPH_CONSTANT)
            st = read_tensor(r, &m, &f->tensors[f->tensor_count++]);
        else if (m.number == GRAPH_INPUT)
            st = read_port(r, &m, &f->inputs[f->input_count++]);
        else if (m.number == GRAPH_OUTPUT)
            st = read_port(r, &m, &f->outputs[f->output_count++]);
    }
    return st == PST_END ? PST_OK : st;
}

static pst_status read_opset(const struct reader *r, const struct message *field)
{
    struct message m = message_of(field);
    const char *domain = "";
    int64_t version = 0;
    pst_status st = expect(r, field, WIRE_BYTES);
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == OPSET_DOMAIN)
            st = get_string(r, &m, &domain);
        else if (m.number == OPSET_VERSION)
            st = get_int(r, &m, &version);
    }
    if (st < 0)
        return st;
    if (domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
        r->file->opset = version;
    return PST_OK;
}

static pst_status read_note(const struct reader *r, const struct message *field, struct onnx_file_note *n)
{
    struct message m = message_of(field);
    pst_status st = expect(r, field, WIRE_BYTES);
    n->key = n->value = "";
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == ENTRY_KEY)
            st = get_string(r, &m, &n->key);
        else if (m.number == ENTRY_VALUE)
            st = get_string(r, &m, &n->value);
    }
    return st == PST_END ? PST_OK : st;
}

static pst_status read_model(struct reader *r, struct message m)
{
    struct onnx_file *f = r->file;
    size_t counts[MODEL_FUNCTION + 1] = {0};
    pst_status st = count_fields(r, m, counts, MODEL_FUNCTION + 1);
    if (st == PST_OK && counts[MODEL_GRAPH] != 1)
        st = fail_at(r, PST_ECORRUPT, m.at, counts[MODEL_GRAPH] ? "several graphs" : "there is no graph: not an ONNX model");
    if (st == PST_OK && counts[MODEL_FUNCTION])
        st = fail_at(r, PST_EUNSUPPORTED, m.at, "the model defines functions; export it with them inlined");
    if (st == PST_OK)
        st = get_array(r, &m, &f->notes, counts[MODEL_METADATA], MAX_PARTS, sizeof(*f->notes));
    while (st == PST_OK && (st = next(r, &m)) == PST_OK) {
        if (m.number == MODEL_GRAPH)
            st = read_graph(r, &m);
        else if (m.number == MODEL_OPSET)
            st = read_opset(r, &m);
        else if (m.number == MODEL_METADATA)
            st = read_note(r, &m, &f->notes[f->note_count++]);
    }
    return st == PST_END ? PST_OK : st;
}

pst_status onnx_file_parse(struct onnx_file *ret, const char *path, const uint8_t *bytes, size_t length, pst_error *reterr)
{
    *ret = (struct onnx_file){.path = path};
    arena_init(&ret->memory);
    struct reader r = {.file = ret, .begin = bytes, .reterr = reterr};
    pst_status st = read_model(&r, (struct message){.at = bytes, .end = bytes + length});
    onnx_outside_finish(r.outside);
    if (st < 0)
        onnx_file_finish(ret);
    return st;
}

pst_status onnx_file_open(struct onnx_file *ret, const char *path, pst_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t length = 0;
    *ret = (struct onnx_file){0};
    pst_status st = file_read_all(&bytes, &length, path, MAX_FILE, reterr);
    if (st == PST_OK)
        st = onnx_file_parse(ret, path, bytes, length, reterr);
    if (st == PST_OK)
        ret->bytes = bytes;
    else
        mem_free(bytes);
    return st;
}

void onnx_file_finish(struct onnx_file *f)
{
    arena_finish(&f->memory);
    mem_free(f->bytes);
    *f = (struct onnx_file){0};
}
