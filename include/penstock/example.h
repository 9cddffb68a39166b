/* example.h: tf.train.Example and SequenceExample: schema, bounded zero-copy parsing, building.
 *
 * A schema declares features; a parser turns one serialized Example into one pst_value per declared feature. Values
 * point into the input wherever its encoding allows, else into memory of the parser; both hold until the next parse. */
#ifndef PENSTOCK_EXAMPLE_H
#define PENSTOCK_EXAMPLE_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pst_kind { PST_KIND_NONE = 0, PST_BYTES = 1, PST_FLOAT = 2, PST_INT64 = 3 } pst_kind;
PST_API const char *pst_kind_name(pst_kind kind); /* "bytes", "float", "int64" */

typedef struct pst_bytes {
    const uint8_t *data;
    size_t length;
} pst_bytes;

typedef struct pst_value {
    pst_kind kind;
    bool present; /* false: missing in the Example; count is 0 or the default's */
    size_t count;
    const void *data; /* pst_bytes[], int64_t[] (aligned) or little-endian float[] (may be unaligned: memcpy) */
} pst_value;

typedef enum pst_layout {
    PST_FIXED,    /* exactly the shape's product of values */
    PST_VARIABLE, /* any number; missing is an empty row; no shape */
    PST_RAGGED    /* any number of whole inner rows (the shape's product); batches carry row splits. Rank 0 is variable */
} pst_layout;

#define PST_MAX_RANK 8

typedef struct pst_feature {
    const char *name;
    pst_kind kind;
    pst_layout layout;
    size_t rank; /* 0: one value */
    uint64_t shape[PST_MAX_RANK];
    bool has_default; /* fixed only: used where the feature is missing */
    pst_value fallback; /* count 1 is repeated over the shape; count 0 lets a feature list be missing: it has no steps then */
} pst_feature;

/* Caps that an Example must keep; the zeroed struct means the defaults. */
typedef struct pst_limits {
    size_t max_features; /* entries of one features map; 0: 100,000 */
    size_t max_values;   /* values of one feature; 0: 2^28 */
} pst_limits;

/* ---- Schema ---- */

typedef struct pst_schema pst_schema;
/* Copies everything. Names must be unique. */
PST_API pst_status pst_schema_create(pst_schema **ret, const pst_feature *features, size_t count, pst_error *reterr);
/* Text: "image:bytes label:int64 x:float[32] tags:bytes[*] boxes:float[*,4] w:float=1.5"; [*] is variable, [*,…] ragged.
 * Names and bytes with odd characters are quoted, "\"a b\":bytes"; several default values are =[1,2,3]; see docs/example.md. */
PST_API pst_status pst_schema_parse(pst_schema **ret, const char *text, pst_error *reterr);
/* The inverse. Always NUL-terminated; what does not fit is cut and ends in " …", which no longer reads as a schema. */
PST_API char *pst_schema_text(const pst_schema *schema, char *buffer, size_t size);
PST_API size_t pst_schema_count(const pst_schema *schema);
PST_API const pst_feature *pst_schema_feature(const pst_schema *schema, size_t i);
PST_API int pst_schema_find(const pst_schema *schema, const char *name); /* -1: none */
PST_API pst_schema *pst_schema_destroy(pst_schema *schema);

/* Inference: feed Examples, then ask. A feature with one count everywhere is fixed, otherwise variable; one that is
 * missing in some Examples or empty in all is variable too. A kind that changes is an error naming both. Features sort
 * by name. An Example that fails changes nothing. */
typedef struct pst_inference pst_inference;
PST_API pst_status pst_inference_create(pst_inference **ret, const pst_limits *limits, pst_error *reterr);
PST_API pst_status pst_inference_add(pst_inference *inference, const void *data, size_t length, pst_error *reterr);
PST_API pst_status pst_inference_schema(const pst_inference *inference, pst_schema **ret, pst_error *reterr);
PST_API pst_inference *pst_inference_destroy(pst_inference *inference);

/* ---- Parsing ---- */

typedef struct pst_parser pst_parser; /* one thread at a time */
/* Copies the schema; NULL is one without features, for walking. */
PST_API pst_status pst_parser_create(pst_parser **ret, const pst_schema *schema, const pst_limits *limits, pst_error *reterr);
/* `values` has pst_schema_count elements, in the schema's order, and is written only on success. PST_ECORRUPT: not an
 * Example. PST_ENOTFOUND: a feature is missing. PST_ETYPE: its kind or count is not as declared. PST_ELIMIT: see
 * pst_limits. Features that are not declared are skipped by their length: damage inside of them goes unnoticed. */
PST_API pst_status pst_parser_parse(pst_parser *parser, const void *data, size_t length, pst_value *values, pst_error *reterr);
PST_API pst_parser *pst_parser_destroy(pst_parser *parser);

/* Walks every feature without a schema: for inspection. Names point into the input and need not be UTF-8; a feature whose
 * kind is unset has PST_KIND_NONE. In the order of the input, the last of each name. Valid until the next call. */
typedef struct pst_named_value {
    pst_bytes name;
    pst_value value;
} pst_named_value;
PST_API pst_status pst_parser_walk(pst_parser *parser, const void *data, size_t length, const pst_named_value **ret,
                                   size_t *ret_count, pst_error *reterr);

/* A batch of Examples as columns. Fixed features are dense (count = batch × product); the others carry row_splits
 * (batch + 1 entries, counted in values for variable, in inner rows for ragged). */
typedef struct pst_column {
    pst_value values;
    size_t rows; /* Examples, or steps of a feature list */
    const int64_t *row_splits; /* rows + 1 of them; NULL for fixed features of a batch */
} pst_column;
PST_API pst_status pst_parser_parse_batch(pst_parser *parser, const pst_bytes *examples, size_t count, pst_column *columns,
                                          pst_error *reterr);

/* SequenceExample: `context` has its schema; each feature list becomes a column whose row_splits hold a row a step. A
 * fixed feature of the list schema must have its shape's product of values in every step, and its list must be there
 * unless it has the empty default (x:float[2]=[]). Any other list that is missing has no steps. */
typedef struct pst_sequence_parser pst_sequence_parser;
PST_API pst_status pst_sequence_parser_create(pst_sequence_parser **ret, const pst_schema *context, const pst_schema *lists,
                                              const pst_limits *limits, pst_error *reterr);
PST_API pst_status pst_sequence_parser_parse(pst_sequence_parser *parser, const void *data, size_t length, pst_value *context,
                                             pst_column *lists, pst_error *reterr);
PST_API pst_sequence_parser *pst_sequence_parser_destroy(pst_sequence_parser *parser);

/* ---- Building ---- */

typedef struct pst_builder pst_builder; /* reusable; one thread at a time */
/* A name is UTF-8 and new to the Example, otherwise PST_EINVAL; no feature is added by a call that fails. */
PST_API pst_status pst_builder_create(pst_builder **ret, pst_error *reterr);
PST_API void pst_builder_reset(pst_builder *builder);
PST_API pst_status pst_builder_add_bytes(pst_builder *builder, const char *name, const pst_bytes *values, size_t count, pst_error *reterr);
PST_API pst_status pst_builder_add_floats(pst_builder *builder, const char *name, const float *values, size_t count, pst_error *reterr);
PST_API pst_status pst_builder_add_int64s(pst_builder *builder, const char *name, const int64_t *values, size_t count, pst_error *reterr);
/* The serialized Example; valid until the next call on the builder. Features keep the order in which they were added. */
PST_API pst_status pst_builder_finish(pst_builder *builder, pst_bytes *ret, pst_error *reterr);
PST_API pst_builder *pst_builder_destroy(pst_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
