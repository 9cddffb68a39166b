/* op.h: what an operation is. Built-in and custom operations are the same struct.
 *
 * An element is a list of named fields. `plan` says, before anything runs, which fields come out, of which type and shape;
 * `run` computes them for one element on a worker. One declaration of parameters feeds the pipeline text, the C calls, the
 * command line's help, the Python methods and the reference. */
#ifndef PENSTOCK_OP_H
#define PENSTOCK_OP_H

#include <penstock/base.h>
#include <penstock/example.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pst_dtype {
    PST_DTYPE_NONE = 0,
    PST_DTYPE_BYTES, /* pst_bytes elements: encoded images, text, anything */
    PST_DTYPE_U8,
    PST_DTYPE_I32,
    PST_DTYPE_I64,
    PST_DTYPE_F16,
    PST_DTYPE_BF16,
    PST_DTYPE_F32,
    PST_DTYPE_F64
} pst_dtype;
PST_API const char *pst_dtype_name(pst_dtype dtype); /* "bytes", "uint8", "float32", … as NumPy names them */
PST_API size_t pst_dtype_size(pst_dtype dtype);      /* sizeof(pst_bytes) for bytes */

#define PST_ANY        UINT64_MAX /* a dimension that differs from element to element */
#define PST_MAX_FIELDS 4096       /* the largest number of fields that an element can have */
#define PST_NAME_SIZE  64         /* bytes of a field's name, including the terminating NUL */

/* Data of one field: of one element, or of a whole batch (then the first dimension is the batch). */
typedef struct pst_tensor {
    pst_dtype dtype;
    uint32_t rank;
    uint64_t shape[PST_MAX_RANK];
    void *data;                /* rows without gaps, C order; 64-byte aligned in batches */
    const int64_t *row_splits; /* a batch of a field whose shape varies: where each element begins (batch + 1 entries, in
                                  units of the first varying dimension's rows); NULL otherwise */
} pst_tensor;

/* One field of an element, as planned. */
typedef struct pst_field {
    char name[PST_NAME_SIZE];     /* The name, 1 to PST_NAME_SIZE - 1 bytes; no two fields of an element share one. */
    pst_dtype dtype;              /* The type of the values. */
    uint32_t rank;                /* The number of dimensions, 0 for a single value. */
    uint64_t shape[PST_MAX_RANK]; /* The dimensions; PST_ANY where a dimension varies. */
    int alias; /* In the output of `plan`: the number of the input field that this field is, unchanged; -1: `run` writes it. */
} pst_field;

/* The fields of an element, in order. A program may make one from an array of its own, with `engine` NULL:
 *
 *     static const pst_field fields[] = {{.name = "x", .dtype = PST_DTYPE_F32, .alias = -1}};
 *     pst_spec spec = {.count = 1, .field = fields};
 *
 * The spec that `plan` fills belongs to the engine, as does its memory, which stays valid as long as the pipeline. Only the
 * functions below change it. */
typedef struct pst_spec {
    size_t count;                   /* The number of fields. */
    const pst_field *field;         /* The fields. */
    struct pst_spec_memory *engine; /* The engine's own notes; NULL in a spec that the program made. */
} pst_spec;

/* Returns the number of the field called `name`, or -1 if there is none. */
PST_API int pst_spec_find(const pst_spec *spec, const char *name);
/* Makes `out` a copy of `in` in which every field is an alias and none is read: the usual beginning of a `plan`. `in` and `out`
 * are the specs that `plan` was given. */
PST_API void pst_spec_pass(const pst_spec *in, pst_spec *out);
/* Appends a copy of `field` to `out`. PST_ELIMIT: there are PST_MAX_FIELDS already. PST_ENOMEM: out of memory. */
PST_API pst_status pst_spec_add(pst_spec *out, const pst_field *field, pst_error *reterr);
/* Appends field `i` of `in` to `out` as an alias. Returns what pst_spec_add returns. */
PST_API pst_status pst_spec_keep(pst_spec *out, const pst_spec *in, size_t i, pst_error *reterr);
/* Declares that `run` reads input field `i`. Fields that no operation reads and no batch contains are not loaded. */
PST_API void pst_spec_read(pst_spec *out, size_t i);
/* Declares that `run` writes field `i` of `out`, and returns the field, so that the caller can set its type and shape. The
 * pointer is valid until the next pst_spec_add or pst_spec_keep. `i` must be less than `out->count`. */
PST_API pst_field *pst_spec_write(pst_spec *out, size_t i);
/* Returns whether `run` reads input field `i`. */
PST_API bool pst_spec_reads(const pst_spec *out, size_t i);
/* Writes "image: uint8 [?,?,3], label: int64" into `buffer`, which has `size` bytes, and returns it. Control characters in
 * names are escaped (\n, \x1b); a text that does not fit ends with "…". */
PST_API char *pst_spec_text(const pst_spec *spec, char *buffer, size_t size);

/* ---- Parameters ---- */

typedef enum pst_param_kind {
    PST_PARAM_BOOL,   /* bool */
    PST_PARAM_INT,    /* int64_t */
    PST_PARAM_UINT,   /* uint64_t */
    PST_PARAM_FLOAT,  /* double */
    PST_PARAM_STRING, /* const char *, owned by the engine */
    PST_PARAM_CHOICE, /* int: number within `choices` */
    PST_PARAM_BYTES,  /* uint64_t, written as 64M, 1.5GiB */
    PST_PARAM_SIZE2D, /* pst_size2d: "224" (both, or the short side: the operation says) or "320x240" (width × height) */
    PST_PARAM_FLOATS, /* pst_floats: "0.5,0.5,0.5" */
    PST_PARAM_STRINGS, /* pst_strings: all remaining positional words */
    PST_PARAM_AMOUNT   /* pst_amount: "1000" is a number of elements, "64M" or "1.5GiB" a number of bytes */
} pst_param_kind;

/* How much: elements or bytes. At most one of the two is not 0. */
typedef struct pst_amount {
    uint64_t elements;
    uint64_t bytes;
} pst_amount;

typedef struct pst_size2d {
    uint32_t width, height; /* height 0: only one number was given */
} pst_size2d;

typedef struct pst_floats {
    size_t count;
    double value[8];
} pst_floats;

typedef struct pst_strings {
    size_t count;
    const char *const *value;
} pst_strings;

typedef struct pst_param {
    const char *name;
    pst_param_kind kind;
    size_t offset;        /* within the config struct */
    const char *fallback; /* the default as text; NULL: the parameter is required */
    double min, max;      /* of numbers; both 0: unbounded */
    const char *const *choices; /* ends with NULL */
    const char *doc;
} pst_param; /* the table ends with a NULL name; its order is the order of positional arguments */

/* ---- Operations ---- */

typedef struct pst_ctx pst_ctx; /* the element at hand, on its worker */

/* Uniform 64 bits, keyed by (seed, epoch, sample, operation): the same for any number of workers. */
PST_API uint64_t pst_random(pst_ctx *ctx);
PST_API double pst_random_unit(pst_ctx *ctx); /* [0, 1) */
/* Memory until the end of this element; 64-byte aligned. NULL: out of memory. */
PST_API void *pst_scratch(pst_ctx *ctx, size_t size);

#define PST_OP_ABI 2

enum { /* flags of an operation */
    PST_OP_RANDOM = 1 /* `run` draws random numbers: a cache behind it would freeze them, which the plan refuses */
};

typedef struct pst_op_class {
    uint32_t abi;        /* PST_OP_ABI */
    const char *name;    /* a verb or noun of lower-case letters, digits and _ */
    const char *doc;     /* first sentence: what it does; then what a user must know */
    const char *example; /* a line of pipeline text */
    const pst_param *params;
    size_t config_size, worker_size; /* allocated and zeroed by the engine */
    /* Fields out from fields in: fills `out`, which is empty, by the pst_spec functions. Checks everything that can be checked;
     * errors name the field, expected and found. The config is the pipeline's own: a plan may note in it what `run` has to
     * know, such as the number of a field. */
    pst_status (*plan)(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr);
    pst_status (*start)(const void *config, void *worker, pst_error *reterr); /* optional */
    /* `in` and `out` have a tensor a field. Aliases are set already. A field that `run` writes has its memory ready in
     * `out[i].data` when its planned shape has no PST_ANY; otherwise `data` is NULL, and run sets shape and data (pst_scratch,
     * or a view of an input). NULL: the operation only changes the plan (select, rename). PST_SKIP leaves the sample out,
     * whatever the policy for bad samples; any error but PST_ENOMEM, PST_ECANCELLED and PST_ESTALE makes it a bad sample. */
    pst_status (*run)(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr);
    void (*stop)(const void *config, void *worker); /* optional; accepts half-started */
    uint32_t flags;                                 /* PST_OP_RANDOM or 0 */
    /* What a cursor is checked against covers the operation's name and its `params`. An operation whose config says more than
     * they do returns a hash of that: equal work, equal value, in every process. Called once, behind `plan`. Optional. */
    uint64_t (*fingerprint)(const void *config);
} pst_op_class;

/* The built-in operations, for help, bindings and docs: every class, sources and structure too. NULL behind the last. */
PST_API const pst_op_class *pst_op_at(size_t i);
PST_API const pst_op_class *pst_op_find(const char *name);
typedef enum pst_op_kind { PST_OP_SOURCE, PST_OP_ORDER, PST_OP_SAMPLE, PST_OP_BATCHING } pst_op_kind;
PST_API pst_op_kind pst_op_kind_of(const pst_op_class *op);

#ifdef __cplusplus
}
#endif
#endif
