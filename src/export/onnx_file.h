/* onnx_file.h: the contents of an ONNX file: nodes, constants, input, result and metadata, as they stand there.
 *
 * The reader is strict: it refuses what protobuf forbids, known fields of a wrong type, names that are not UTF-8, constants whose bytes do
 * not fit their shape, and more parts than a model can have. Every size is checked against the bytes that are there before memory is
 * allocated. What the operators mean is onnx_import.h's business. */
#ifndef EXPORT_ONNX_FILE_H
#define EXPORT_ONNX_FILE_H

#include "base/arena.h"
#include <penstock/base.h>

#define ONNX_FILE_RANK 8

/* Types of numbers, as ONNX numbers them. */
enum onnx_dtype {
    ONNX_FLOAT32 = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_FLOAT16 = 10,
    ONNX_FLOAT64 = 11,
    ONNX_BFLOAT16 = 16
};

struct onnx_tensor {
    const char *name; /* "" of an attribute */
    int64_t type;     /* enum onnx_dtype: no other is accepted */
    uint32_t rank;
    uint64_t dims[ONNX_FILE_RANK];
    size_t count;        /* values */
    const uint8_t *data; /* `count` of them, little-endian, at any alignment */
    const struct onnx_tensor *integers, *scales; /* of floats that DequantizeLinear makes: from integers without a zero point; else NULL */
};

struct onnx_file_attribute {
    const char *name;
    float f;
    int64_t i;
    const char *s; /* "" where there is none */
    const int64_t *ints;
    size_t ints_count;
    const struct onnx_tensor *t; /* NULL: none */
};

struct onnx_file_node {
    const char *name, *op, *domain; /* "" where the file has none */
    const char **in, **out;         /* "": an optional one that is absent */
    size_t ins, outs;
    struct onnx_file_attribute *attributes;
    size_t attribute_count;
};

/* An input or a result of the graph. */
struct onnx_file_port {
    const char *name;
    int64_t type;  /* 0: not stated */
    bool shaped;   /* the shape is stated */
    uint32_t rank;
    int64_t dims[ONNX_FILE_RANK]; /* −1: open */
};

struct onnx_file_note {
    const char *key, *value;
};

struct onnx_file {
    const char *path; /* the caller's; NULL: bytes in memory, which have no external data */
    struct arena memory;
    uint8_t *bytes; /* of the file; NULL: the caller's */
    int64_t opset;  /* version of the standard operators */
    struct onnx_file_node *nodes;
    struct onnx_tensor *tensors; /* initialisers */
    struct onnx_file_port *inputs, *outputs;
    struct onnx_file_note *notes; /* metadata */
    size_t node_count, tensor_count, input_count, output_count, note_count;
};

/* Reads a file. PST_ECORRUPT: damaged; PST_EUNSUPPORTED: it has parts that are not read; PST_ELIMIT: too large. */
pst_status onnx_file_open(struct onnx_file *ret, const char *path, pst_error *reterr);
/* The same for bytes, which must outlive `ret`. `path` is for errors and external data; NULL: none. */
pst_status onnx_file_parse(struct onnx_file *ret, const char *path, const uint8_t *bytes, size_t length, pst_error *reterr);
void onnx_file_finish(struct onnx_file *f); /* Zeroed ok. */

/* Bytes of a number; 0: the type is not read. */
size_t onnx_type_width(int64_t type);
/* The attribute called `name`; NULL: none. */
const struct onnx_file_attribute *onnx_attribute_find(const struct onnx_file_node *n, const char *name);
/* Value `i` of a tensor as float, or as a whole number (0 where it is none). */
float onnx_tensor_float(const struct onnx_tensor *t, size_t i);
int64_t onnx_tensor_int(const struct onnx_tensor *t, size_t i);

/* ---- For the parts of the reader ---- */

/* Where the bytes of a tensor outside of the file are: relative to the model's folder. */
struct onnx_external {
    const char *location;
    uint64_t offset, length; /* length UINT64_MAX: not stated */
};

/* A file outside, and how much of it was read. */
struct onnx_outside {
    char *path;
    uint64_t size, used;
    struct onnx_outside *next;
};

/* Reads `bytes` bytes into the memory of `f`. The file lies in the model's folder: neither "..", nor an absolute path, nor a link leads
 * out of it. */
pst_status onnx_external_read(struct onnx_file *f, struct onnx_outside **files, const struct onnx_external *e, const char *tensor, uint64_t bytes,
                              const uint8_t **ret, pst_error *reterr);
void onnx_outside_finish(struct onnx_outside *files); /* NULL ok */

#endif
