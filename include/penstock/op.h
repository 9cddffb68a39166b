/* op.h: operations. Built-in and custom operations are declared by the same struct.
 *
 * An element is a list of named fields. `plan` declares, before anything runs, which fields come out and of which type and
 * shape; `run` computes them for one element on a worker. One declaration of parameters feeds the pipeline text, the C calls,
 * the help of the command line, the Python methods and the reference. */
#ifndef PENSTOCK_OP_H
#define PENSTOCK_OP_H

#include <penstock/base.h>
#include <penstock/example.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types ---- */

/* The type of the values of a field. */
typedef enum pst_dtype {
    PST_DTYPE_NONE = 0, /* The type is not known. */
    PST_DTYPE_BYTES,    /* Values are of type pst_bytes: encoded images, text, anything. */
    PST_DTYPE_U8,       /* Values are of type uint8_t. */
    PST_DTYPE_I32,      /* Values are of type int32_t. */
    PST_DTYPE_I64,      /* Values are of type int64_t. */
    PST_DTYPE_F16,      /* Values are of IEEE half precision, in 16 bits. */
    PST_DTYPE_BF16,     /* Values are the upper half of a float, in 16 bits. */
    PST_DTYPE_F32,      /* Values are of type float. */
    PST_DTYPE_F64       /* Values are of type double. */
} pst_dtype;

/* Returns the name of a type as NumPy spells it: "uint8", "float32"; "bytes" for bytes, "none" for an unknown type. */
PST_API const char *pst_dtype_name(pst_dtype dtype);
/* Returns the number of bytes of one value; sizeof(pst_bytes) for bytes, 0 for an unknown type. */
PST_API size_t pst_dtype_size(pst_dtype dtype);

#define PST_ANY        UINT64_MAX /* a dimension that differs from element to element */
#define PST_MAX_FIELDS 4096       /* the largest number of fields that an element can have */
#define PST_NAME_SIZE  64         /* bytes of a field's name, including the terminating NUL */

/* The data of one field: of one element, or of a whole batch, whose first dimension then counts the elements. */
typedef struct pst_tensor {
    pst_dtype dtype;              /* The type of the values. */
    uint32_t rank;                /* The number of dimensions. */
    uint64_t shape[PST_MAX_RANK]; /* The dimensions. */
    void *data;                   /* The values, in C order and without gaps; in batches aligned to 64 bytes. */
    const int64_t *row_splits;    /* In a batch of a field whose first dimension varies: where the rows of each element begin,
                                     one entry per element and one for the end. NULL otherwise. */
} pst_tensor;

/* ---- Fields ---- */

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

/* The kind of a parameter decides how its text is read and which type its member of the config has. */
typedef enum pst_param_kind {
    PST_PARAM_BOOL,    /* The member is a bool, the text "true" or "false". */
    PST_PARAM_INT,     /* The member is an int64_t. */
    PST_PARAM_UINT,    /* The member is a uint64_t. */
    PST_PARAM_FLOAT,   /* The member is a double. */
    PST_PARAM_STRING,  /* The member is a const char *, whose text the engine owns. */
    PST_PARAM_CHOICE,  /* The member is an int: the number of the text within `choices`. */
    PST_PARAM_BYTES,   /* The member is a uint64_t, the text a number of bytes such as 64M or 1.5GiB. */
    PST_PARAM_SIZE2D,  /* The member is a pst_size2d, the text "224" or "320x240" (width × height). */
    PST_PARAM_FLOATS,  /* The member is a pst_floats, the text "0.5,0.5,0.5". */
    PST_PARAM_STRINGS, /* The member is a pst_strings and takes all remaining positional words. */
    PST_PARAM_AMOUNT   /* The member is a pst_amount: "1000" is a number of elements, "64M" or "1.5GiB" a number of bytes. */
} pst_param_kind;

/* How much: elements or bytes. At most one of the two is not 0. */
typedef struct pst_amount {
    uint64_t elements; /* The number of elements; 0: `bytes` counts. */
    uint64_t bytes;    /* The number of bytes; 0: `elements` counts. */
} pst_amount;

/* A width and a height. */
typedef struct pst_size2d {
    uint32_t width;  /* The first number. */
    uint32_t height; /* The second number; 0: only one number was given, and the operation says what it means. */
} pst_size2d;

/* Up to eight numbers. */
typedef struct pst_floats {
    size_t count;    /* The number of values. */
    double value[8]; /* The values. */
} pst_floats;

/* Any number of texts, owned by the engine. */
typedef struct pst_strings {
    size_t count;             /* The number of texts. */
    const char *const *value; /* The texts. */
} pst_strings;

/* One parameter. A table of them ends with a NULL name; its order is the order of positional arguments. */
typedef struct pst_param {
    const char *name;           /* The name, in lower-case letters, digits and _. */
    pst_param_kind kind;        /* The kind of its value. */
    size_t offset;              /* Where its member is in the config struct. */
    const char *fallback;       /* The default as text; NULL: the parameter is required. */
    double min, max;            /* The range of a number, both ends included; both 0: unbounded. */
    const char *const *choices; /* The texts of a choice, ending with NULL. */
    const char *doc;            /* What the parameter does. */
} pst_param;

/* ---- Operations ---- */

/* The element that is being computed, on its worker. */
typedef struct pst_ctx pst_ctx;

/* Returns 64 random bits, keyed by seed, epoch, sample and operation: the same for any number of workers. */
PST_API uint64_t pst_random(pst_ctx *ctx);
/* Returns a random number of at least 0 and less than 1, keyed in the same way. */
PST_API double pst_random_unit(pst_ctx *ctx);
/* Returns `size` bytes that stay valid until the end of this element, aligned to 64 bytes; NULL: out of memory. */
PST_API void *pst_scratch(pst_ctx *ctx, size_t size);

/* Flags of an operation. */
enum {
    PST_OP_RANDOM = 1, /* `run` draws random numbers; a cache after it would repeat the first result, which the plan refuses. */
    PST_OP_ONE_FIELD = 2, /* It changes the one field that its parameter `field` names, and leaves all others as they are. */
    PST_OP_PARSES = 4,    /* It makes fields from the bytes of a record. */
    PST_OP_DECODES = 8,   /* It makes pixels from the bytes of an image. */
    PST_OP_CUTS = 16,     /* It keeps a part of an image. */
    PST_OP_SIZES = 32,    /* It makes images of the size that its parameter `size` or `short` names, from images of any size. */
    PST_OP_CONVERTS = 64  /* It changes the type or the layout of values, or scales them. */
};

/* An operation. The struct is constant and outlives every pipeline that has it; a worker never writes to it. */
typedef struct pst_op_class {
    size_t size;             /* sizeof(pst_op_class); a class of an older version ends earlier, and the rest reads as zeros. */
    const char *name;        /* The name: a verb or noun of lower-case letters, digits and _. */
    const char *doc;         /* What it does in the first sentence; then what a user must know. */
    const char *example;     /* A line of pipeline text. */
    const pst_param *params; /* The table of parameters; NULL: none. */
    size_t config_size;      /* Bytes of the config, which the engine allocates and fills from the parameters. */
    size_t worker_size;      /* Bytes of the state per worker, which the engine allocates and zeroes. */
    /* Declares the fields that come out: fills `out`, which is empty, by the pst_spec functions. Checks everything that can be
     * checked before the start; errors name the field, what was expected and what was found. `config` belongs to this pipeline:
     * `plan` may write to it what `run` has to know, such as the number of a field. */
    pst_status (*plan)(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr);
    /* Prepares the state of one worker. Optional. */
    pst_status (*start)(const void *config, void *worker, pst_error *reterr);
    /* Computes one element. `in` and `out` have one tensor per field; those of aliases are set already. A field that `run`
     * writes has its memory in `out[i].data` if its planned shape has no PST_ANY; otherwise `data` is NULL, and `run` sets
     * shape and data, in pst_scratch or as a view of an input. Returning PST_SKIP leaves the sample out, whatever
     * the policy for bad samples is; any failure but PST_ENOMEM, PST_ECANCELLED and PST_ESTALE makes it a bad sample. NULL: the
     * operation changes only the plan, as select and rename do. */
    pst_status (*run)(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr);
    /* Releases what `start` acquired, also after a `start` that failed halfway. Optional. */
    void (*stop)(const void *config, void *worker);
    uint32_t flags; /* Any of the flags above, or 0. */
    /* Returns a hash of what the config contains beyond the parameters: equal work, equal value, in every process. A cursor is
     * checked against the names, the parameters and these values of all operations. Called once, after `plan`. Optional. */
    uint64_t (*fingerprint)(const void *config);
    /* Takes the input of an element that `run` will compute later, so that an operation can compute several elements together,
     * as another process or a device does. The engine may call it for up to 64 elements of a worker, with `place` 0, 1, …, and
     * then calls `run` for each of them in the same order, with equal `in`. It may also call `run` without `prepare`. `place` 0
     * begins a new group: if it failed or was stopped, elements of the group before it were not run. `in` is valid during the
     * call only. Optional. */
    pst_status (*prepare)(const void *config, void *worker, pst_ctx *ctx, size_t place, const pst_tensor *in,
                          pst_error *reterr);
    /* The name of the operation that does the same without random numbers and has the same parameters as far as they apply.
     * NULL: without random numbers there is nothing to do, as with flip. */
    const char *steady;
} pst_op_class;

/* ---- The operations that texts can use ---- */

/* What an operation does to the stream of elements. */
typedef enum pst_op_kind {
    PST_OP_SOURCE,  /* It delivers elements and stands at the beginning. */
    PST_OP_ORDER,   /* It decides which elements come, and in which order. */
    PST_OP_SAMPLE,  /* It computes one element from one element. */
    PST_OP_BATCHING /* It gathers elements into batches, or prepares them ahead. */
} pst_op_kind;

/* Returns operation `i`: the built-in ones in the order of the reference, then those of plug-ins; NULL after the last one. */
PST_API const pst_op_class *pst_op_at(size_t i);
/* Returns the operation called `name`, built-in or of a plug-in; or NULL. */
PST_API const pst_op_class *pst_op_find(const char *name);
/* Returns the kind of an operation; every custom operation is a PST_OP_SAMPLE. */
PST_API pst_op_kind pst_op_kind_of(const pst_op_class *op);

#ifdef __cplusplus
}
#endif
#endif
