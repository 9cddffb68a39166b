/* onnx.c: the file around the layers: model, graph, input and result, metadata. See onnx.h. */
#include "export/onnx.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/proto.h"
#include "base/secret.h"
#include "export/onnx_graph.h"
#include "io/publish.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { IR_VERSION = 8, OPSET = 17 };
enum {
    MODEL_IR_VERSION = 1,
    MODEL_PRODUCER_NAME,
    MODEL_PRODUCER_VERSION,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_METADATA = 14
};
enum { OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE };
enum { GRAPH_NODE = 1, GRAPH_NAME, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT };
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTRIBUTE };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT, ATTRIBUTE_INT, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_INTS = 7 };
enum { TENSOR_DIMENSION = 1, TENSOR_TYPE, TENSOR_NAME = 8, TENSOR_DATA };
enum { VALUE_NAME = 1, VALUE_TYPE, TYPE_TENSOR = 1, TENSOR_ELEMENT = 1, TENSOR_SHAPE, SHAPE_DIMENSION = 1 };
enum { DIMENSION_VALUE = 1, DIMENSION_NAME };

#define SLACK ((uint64_t)16 << 20) /* room for everything that is not weights: nodes, names, metadata */

/* ---- Nodes and constants ---- */

static void add_attribute(struct text *to, const struct onnx_attribute *a)
{
    static const int types[] = {[ONNX_INT] = TYPE_INT, [ONNX_INTS] = TYPE_INTS, [ONNX_FLOAT] = TYPE_FLOAT};
    size_t begin = proto_begin(to, NODE_ATTRIBUTE);
    proto_string(to, ATTRIBUTE_NAME, a->name);
    if (a->kind == ONNX_FLOAT)
        proto_float(to, ATTRIBUTE_FLOAT, (float)a->value);
    else if (a->kind == ONNX_INT)
        proto_int(to, ATTRIBUTE_INT, a->ints[0]);
    for (size_t i = 0; a->kind == ONNX_INTS && i < a->count; i++)
        proto_int(to, ATTRIBUTE_INTS, a->ints[i]);
    proto_int(to, ATTRIBUTE_TYPE, types[a->kind]);
    proto_end(to, begin);
}

void onnx_node(struct onnx_graph *w, const char *op, const char *const *in, const char *out,
               const struct onnx_attribute *attributes)
{
    size_t begin = proto_begin(w->to, GRAPH_NODE);
    for (; *in; in++)
        proto_string(w->to, NODE_INPUT, *in);
    proto_string(w->to, NODE_OUTPUT, out);
    proto_string(w->to, NODE_NAME, out);
    proto_string(w->to, NODE_OP, op);
    for (; attributes && attributes->name; attributes++)
        add_attribute(w->to, attributes);
    proto_end(w->to, begin);
    w->used = true;
}

struct onnx_constant onnx_begin_constant(struct onnx_graph *w, const char *name, const uint64_t *shape, size_t rank)
{
    return onnx_begin_typed(w, ONNX_TYPE_FLOAT, name, shape, rank);
}

struct onnx_constant onnx_begin_typed(struct onnx_graph *w, enum onnx_type type, const char *name, const uint64_t *shape, size_t rank)
{
    struct onnx_constant c = {.begin = proto_begin(w->to, GRAPH_CONSTANT)};
    uint64_t values = 1;
    for (size_t i = 0; i < rank; i++) {
        proto_int(w->to, TENSOR_DIMENSION, (int64_t)shape[i]);
        values *= shape[i];
    }
    proto_int(w->to, TENSOR_TYPE, type);
    proto_string(w->to, TENSOR_NAME, name);
    proto_announce(w->to, TENSOR_DATA, values * (type == ONNX_TYPE_FLOAT || type == ONNX_TYPE_I32 ? 4 : 1));
    return c;
}

void onnx_end_constant(struct onnx_graph *w, struct onnx_constant c)
{
    proto_end(w->to, c.begin);
}

/* ---- Input and result ---- */

static void add_dimension(struct text *to, const char *name, uint64_t value)
{
    size_t begin = proto_begin(to, SHAPE_DIMENSION);
    if (name)
        proto_string(to, DIMENSION_NAME, name);
    else
        proto_int(to, DIMENSION_VALUE, (int64_t)value);
    proto_end(to, begin);
}

static void add_value(struct text *to, unsigned field, const char *name, const struct shape *s, bool nhwc)
{
    size_t value = proto_begin(to, field);
    proto_string(to, VALUE_NAME, name);
    size_t type = proto_begin(to, VALUE_TYPE), tensor = proto_begin(to, TYPE_TENSOR);
    proto_int(to, TENSOR_ELEMENT, ONNX_TYPE_FLOAT);
    size_t shape = proto_begin(to, TENSOR_SHAPE);
    add_dimension(to, "N", 0);
    if (s->rank == 3 && nhwc) {
        add_dimension(to, NULL, s->h);
        add_dimension(to, NULL, s->w);
    }
    add_dimension(to, NULL, s->c);
    if (s->rank == 3 && !nhwc) {
        add_dimension(to, NULL, s->h);
        add_dimension(to, NULL, s->w);
    }
    proto_end(to, shape);
    proto_end(to, tensor);
    proto_end(to, type);
    proto_end(to, value);
}

static void transpose(struct onnx_graph *w, const char *in, const char *out, bool to_nchw)
{
    static const struct onnx_attribute perms[2][2] = {
        {{.name = "perm", .kind = ONNX_INTS, .ints = {0, 2, 3, 1}, .count = 4}},
        {{.name = "perm", .kind = ONNX_INTS, .ints = {0, 3, 1, 2}, .count = 4}},
    };
    onnx_node(w, "Transpose", (const char *const[]){in, NULL}, out, perms[to_nchw]);
}

/* Writes nodes, constants, input and result into the graph's message. */
static pst_status add_graph(struct onnx_graph *w, bool nhwc, pst_error *reterr)
{
    const struct graph *g = w->graph;
    const struct shape *out = graph_shape(g, g->count);
    const char *input = g->input.rank == 3 ? ONNX_INPUT_IMAGE : ONNX_INPUT_VECTOR;
    pst_status st = PST_OK;
    proto_string(w->to, GRAPH_NAME, "penstock");
    snprintf(w->names[0], ONNX_NAME_SIZE, "%s", input);
    if (nhwc && g->input.rank == 3) {
        snprintf(w->names[0], ONNX_NAME_SIZE, ONNX_INPUT_IMAGE "/nchw");
        transpose(w, input, w->names[0], true);
    }
    if (w->quant && w->quant->values[0].form == QUANT_U8)
        onnx_quantise_value(w, 0);
    for (size_t i = 0; st == PST_OK && i < g->count; i++) {
        w->used = false;
        snprintf(w->names[i + 1], ONNX_NAME_SIZE, "%s/out", g->nodes[i].name);
        st = onnx_layer(w, i, reterr);
        if (!w->used)
            memcpy(w->names[i + 1], w->names[g->nodes[i].input[0]], ONNX_NAME_SIZE);
        else if (w->quant && w->quant->values[i + 1].form == QUANT_U8)
            onnx_quantise_value(w, i + 1);
    }
    if (nhwc && out->rank == 3)
        transpose(w, w->names[g->count], ONNX_OUTPUT, false);
    else
        onnx_node(w, "Identity", (const char *const[]){w->names[g->count], NULL}, ONNX_OUTPUT, NULL);
    add_value(w->to, GRAPH_INPUT, input, &g->input, nhwc);
    add_value(w->to, GRAPH_OUTPUT, ONNX_OUTPUT, out, nhwc);
    return st;
}

/* ---- The file ---- */

static void add_metadata(struct text *to, const char *key, const char *value)
{
    size_t begin = proto_begin(to, MODEL_METADATA);
    proto_string(to, ENTRY_KEY, key);
    proto_string(to, ENTRY_VALUE, value);
    proto_end(to, begin);
}

static void add_classes(struct text *to, const struct onnx_options *o)
{
    struct text list = {0};
    for (size_t i = 0; i < o->class_count; i++) {
        text_add(&list, i ? ", " : "[");
        text_add_json(&list, o->classes[i], strlen(o->classes[i]));
    }
    text_add(&list, o->class_count ? "]" : "[]");
    if (list.failed)
        to->failed = true;
    else
        add_metadata(to, "classes", list.data);
    text_finish(&list);
}

static pst_status check_size(const struct graph *g, pst_error *reterr)
{
    if (g->values > (PROTO_MAX_MESSAGE - SLACK) / sizeof(float))
        return pst_fail(reterr, PST_ELIMIT,
                        "the weights have %" PRIu64
                        " bytes, an ONNX file with its weights holds up to 2 GiB; export safetensors instead",
                        (uint64_t)g->values * sizeof(float));
    return PST_OK;
}

pst_status onnx_write(struct text *to, const struct graph *g, const float *params, const struct onnx_options *o,
                      pst_error *reterr)
{
    struct onnx_graph w = {.to = to, .graph = g, .params = params, .quant = o->quant, .names = mem_array(g->count + 1, ONNX_NAME_SIZE)};
    pst_status st = w.names ? check_size(g, reterr) : fail_memory(reterr, "exporting ONNX");
    if (st == PST_OK) {
        proto_int(to, MODEL_IR_VERSION, IR_VERSION);
        proto_string(to, MODEL_PRODUCER_NAME, "penstock");
        proto_string(to, MODEL_PRODUCER_VERSION, pst_version());
        size_t opset = proto_begin(to, MODEL_OPSET);
        proto_int(to, OPSET_VERSION, OPSET);
        proto_end(to, opset);
        if (o->model)
            add_metadata(to, "model", o->model);
        if (o->preprocessing) { /* a model is passed on: an address without its signature */
            struct text shown = {0};
            text_add_shown(&shown, o->preprocessing);
            to->failed |= shown.failed;
            add_metadata(to, "preprocessing", shown.data ? shown.data : "");
            text_finish(&shown);
        }
        if (o->classes)
            add_classes(to, o);
        size_t graph = proto_begin(to, MODEL_GRAPH);
        st = add_graph(&w, o->nhwc, reterr);
        proto_end(to, graph);
    }
    if (st == PST_OK && (to->failed || w.row.failed))
        st = fail_memory(reterr, "exporting ONNX");
    text_finish(&w.row);
    mem_free(w.names);
    return st;
}

pst_status onnx_save(const char *path, const struct graph *g, const float *params, const struct onnx_options *o, bool overwrite,
                     pst_error *reterr)
{
    struct text file = {0};
    pst_status st = onnx_write(&file, g, params, o, reterr);
    if (st == PST_OK)
        st = publish_bytes(path, file.data, file.length, overwrite, true, reterr);
    text_finish(&file);
    return st;
}
