/* example.h: tf.train.Example and SequenceExample: schemas, parsing without copies and within limits, building.
 *
 * A schema declares features; a parser turns one serialized Example into one pst_value per declared feature. Values point into
 * the input where its encoding allows that, and otherwise into memory of the parser; both stay valid until the next parse. */
#ifndef PENSTOCK_EXAMPLE_H
#define PENSTOCK_EXAMPLE_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a feature's values. */
typedef enum pst_kind {
    PST_KIND_NONE = 0, /* The feature has no values: its kind is not set. */
    PST_BYTES = 1,     /* Values are of type pst_bytes. */
    PST_FLOAT = 2,     /* Values are of type float. */
    PST_INT64 = 3      /* Values are of type int64_t. */
} pst_kind;

/* Returns "bytes", "float" or "int64"; "none" for an unknown kind. */
PST_API const char *pst_kind_name(pst_kind kind);

/* A run of bytes that belongs to someone else. */
typedef struct pst_bytes {
    const uint8_t *data; /* The first byte; may be NULL if there are none. */
    size_t length;       /* The number of bytes. */
} pst_bytes;

/* The values of one feature. */
typedef struct pst_value {
    pst_kind kind;    /* The kind of the values. */
    bool present;     /* False: the Example does not have the feature; `count` is 0, or that of the default. */
    size_t count;     /* The number of values. */
    const void *data; /* pst_bytes[], int64_t[] (aligned) or little-endian float[] (may be unaligned: use memcpy). */
} pst_value;

/* How many values a feature has. */
typedef enum pst_layout {
    PST_FIXED,    /* Exactly as many as the shape says. */
    PST_VARIABLE, /* Any number; a missing feature has none. There is no shape. */
    PST_RAGGED    /* Any number of inner rows of the given shape; batches carry row splits. Without a shape it is variable. */
} pst_layout;

#define PST_MAX_RANK 8 /* the largest number of dimensions */

/* The declaration of one feature. */
typedef struct pst_feature {
    const char *name;             /* The name, in UTF-8. */
    pst_kind kind;                /* The kind of its values. */
    pst_layout layout;            /* How many values it has. */
    size_t rank;                  /* The number of dimensions of `shape`; 0: one value. */
    uint64_t shape[PST_MAX_RANK]; /* The shape; of a ragged feature that of an inner row. */
    bool has_default;             /* Uses `fallback` where the feature is missing; for fixed features only. */
    pst_value fallback;           /* The default. A count of 1 is repeated over the shape; a count of 0 lets a feature list be
                                     missing, which then has no steps. */
} pst_feature;

/* Limits that an Example must keep. */
typedef struct pst_limits {
    size_t size;         /* sizeof(pst_limits). */
    size_t max_features; /* The largest number of entries in one map of features; 0: 100,000. */
    size_t max_values;   /* The largest number of values of one feature; 0: 2^28. */
} pst_limits;

/* ---- Schemas ---- */

typedef struct pst_schema pst_schema;

/* Creates a schema of `count` features and copies everything. PST_EINVAL: two features share a name, or one contradicts
 * itself. */
PST_API pst_status pst_schema_create(pst_schema **ret, const pst_feature *features, size_t count, pst_error *reterr);
/* Creates a schema from text: "image:bytes label:int64 x:float[32] tags:bytes[*] boxes:float[*,4] w:float=1.5"; [*] is
 * variable,
 * [*,…] is ragged. Names and bytes with unusual characters are quoted, "\"a b\":bytes"; several default values are written
 * =[1,2,3]; see docs/example.md. */
PST_API pst_status pst_schema_parse(pst_schema **ret, const char *text, pst_error *reterr);
/* Writes the schema as text into `buffer`, which has `size` bytes, and returns it. The text always ends with a NUL; a text that
 * does not fit is cut and ends with " …", which does not parse. */
PST_API char *pst_schema_text(const pst_schema *schema, char *buffer, size_t size);
/* Returns the number of features. */
PST_API size_t pst_schema_count(const pst_schema *schema);
/* Returns feature `i`, valid as long as the schema. `i` must be less than the number of features. */
PST_API const pst_feature *pst_schema_feature(const pst_schema *schema, size_t i);
/* Returns the number of the feature called `name`, or -1 if there is none. */
PST_API int pst_schema_find(const pst_schema *schema, const char *name);
/* Frees a schema. Accepts NULL; returns NULL. */
PST_API pst_schema *pst_schema_destroy(pst_schema *schema);

/* Infers a schema from Examples. A feature with the same number of values everywhere is fixed, every other one is variable, as
 * is one that is missing in some Examples or empty in all. Features are sorted by name. */
typedef struct pst_inference pst_inference;

/* Creates an inference without Examples. `limits` may be NULL. */
PST_API pst_status pst_inference_create(pst_inference **ret, const pst_limits *limits, pst_error *reterr);
/* Adds the serialized Example of `length` bytes at `data`. PST_ETYPE: a feature changes its kind; the message names both. An
 * Example that fails changes nothing. */
PST_API pst_status pst_inference_add(pst_inference *inference, const void *data, size_t length, pst_error *reterr);
/* Creates the schema of all Examples that were added. */
PST_API pst_status pst_inference_schema(const pst_inference *inference, pst_schema **ret, pst_error *reterr);
/* Frees an inference. Accepts NULL; returns NULL. */
PST_API pst_inference *pst_inference_destroy(pst_inference *inference);

/* ---- Parsing ---- */

/* Parses Examples; used by one thread at a time. */
typedef struct pst_parser pst_parser;

/* Creates a parser for a schema, which is copied; NULL is a schema without features, for walking. `limits` may be NULL. */
PST_API pst_status pst_parser_create(pst_parser **ret, const pst_schema *schema, const pst_limits *limits, pst_error *reterr);
/* Parses the serialized Example of `length` bytes at `data` into `values`, one per feature in the order of the schema.
 * PST_ECORRUPT: it is not an Example. PST_ENOTFOUND: a feature is missing. PST_ETYPE: a kind or a count is not as declared.
 * PST_ELIMIT: a limit is exceeded. Features that are not declared are skipped; damage within them is not noticed. */
PST_API pst_status pst_parser_parse(pst_parser *parser, const void *data, size_t length, pst_value *values, pst_error *reterr);
/* Frees a parser. Accepts NULL; returns NULL. */
PST_API pst_parser *pst_parser_destroy(pst_parser *parser);

/* A feature as it is in the data. */
typedef struct pst_named_value {
    pst_bytes name;  /* The name, in the input; it need not be UTF-8. */
    pst_value value; /* The values; PST_KIND_NONE if the kind is not set. */
} pst_named_value;

/* Stores every feature of an Example, without a schema, in the order of the input; of several with one name, the last. `*ret`
 * has `*ret_count` entries and stays valid until the next call. */
PST_API pst_status pst_parser_walk(pst_parser *parser, const void *data, size_t length, const pst_named_value **ret,
                                   size_t *ret_count, pst_error *reterr);

/* One feature of many Examples. */
typedef struct pst_column {
    pst_value values;          /* The values of all rows. */
    size_t rows;               /* The number of Examples, or of steps of a feature list. */
    const int64_t *row_splits; /* Where each row begins, and the end: rows + 1 entries, counted in values of a variable feature
                                  and in inner rows of a ragged one; NULL for the fixed features of a batch. */
} pst_column;

/* Parses `count` Examples into `columns`, one per feature. Fixed features are dense: as many values as rows × shape. */
PST_API pst_status pst_parser_parse_batch(pst_parser *parser, const pst_bytes *examples, size_t count, pst_column *columns,
                                          pst_error *reterr);

/* Parses SequenceExamples; used by one thread at a time. */
typedef struct pst_sequence_parser pst_sequence_parser;

/* Creates a parser with a schema of the context and one of the feature lists. A fixed feature of a list must have the values of
 * its shape in every step, and its list must be present unless it has the empty default (x:float[2]=[]). Any other missing list
 * has no steps. `limits` may be NULL. */
PST_API pst_status pst_sequence_parser_create(pst_sequence_parser **ret, const pst_schema *context, const pst_schema *lists,
                                              const pst_limits *limits, pst_error *reterr);
/* Parses the serialized SequenceExample of `length` bytes at `data`: `context` has one value per feature of its schema, `lists`
 * one column per feature list with one row per step. Fails as pst_parser_parse does. */
PST_API pst_status pst_sequence_parser_parse(pst_sequence_parser *parser, const void *data, size_t length, pst_value *context,
                                             pst_column *lists, pst_error *reterr);
/* Frees a parser. Accepts NULL; returns NULL. */
PST_API pst_sequence_parser *pst_sequence_parser_destroy(pst_sequence_parser *parser);

/* ---- Building ---- */

/* Builds Examples, one after the other; used by one thread at a time. */
typedef struct pst_builder pst_builder;

/* Creates a builder with an empty Example. */
PST_API pst_status pst_builder_create(pst_builder **ret, pst_error *reterr);
/* Begins a new Example. */
PST_API void pst_builder_reset(pst_builder *builder);
/* Sets whether names of features may be any bytes but NUL, so that a parsed Example with such names can be written again. By
 * default they must be UTF-8, as protobuf requires: programs that check it refuse other Examples. */
PST_API void pst_builder_allow_any_names(pst_builder *builder, bool any);
/* Adds a feature of `count` values, which are copied. PST_EINVAL: the name is not UTF-8, or the Example has it already. A call
 * that fails adds nothing. */
PST_API pst_status pst_builder_add_bytes(pst_builder *builder, const char *name, const pst_bytes *values, size_t count,
                                         pst_error *reterr);
/* Does the same for floats. */
PST_API pst_status pst_builder_add_floats(pst_builder *builder, const char *name, const float *values, size_t count,
                                          pst_error *reterr);
/* Does the same for integers. */
PST_API pst_status pst_builder_add_int64s(pst_builder *builder, const char *name, const int64_t *values, size_t count,
                                          pst_error *reterr);
/* Stores the serialized Example, valid until the next call on the builder. Features keep the order in which they were added. */
PST_API pst_status pst_builder_finish(pst_builder *builder, pst_bytes *ret, pst_error *reterr);
/* Frees a builder. Accepts NULL; returns NULL. */
PST_API pst_builder *pst_builder_destroy(pst_builder *builder);

#ifdef __cplusplus
}
#endif
#endif
