/* core.h: what the parts of the extension share. Everything below `Pipeline` is C; Python objects are made when they are asked
 * for, and the memory of a batch is held by counting references of the batch itself, so that no deleter needs the GIL. */
#ifndef CORE_H
#define CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <penstock/penstock.h>

/* ---- Errors (module.c) ---- */

/* Raises penstock.Error with everything that the error holds; returns NULL. */
PyObject *raise_error(const pst_error *error);
PyObject *text_or_none(const char *text);  /* a path or name, also one that is not UTF-8; None for an empty one or NULL */
PyObject *number_or_none(uint64_t number); /* a record or byte, or None for PST_NOWHERE */
/* Raises penstock.Error of this status for a mistake that the extension found; returns NULL. */
PyObject *raise_status(pst_status status, const char *format, ...) PST_PRINTF(2, 3);
extern PyObject *skip_type; /* penstock.Skip */
/* How often this process is a fork of the one that loaded the module: what was made in another one is not touched. */
unsigned fork_generation(void);

/* ---- Memory of tensors: a reference to a batch, or to a block of our own ---- */

struct block; /* reference-counted, 64-byte aligned */
struct block *block_create(size_t size);
void *block_data(struct block *b);

typedef struct keeper {
    pst_batch *batch;
    struct block *block;
    unsigned generation; /* of the process whose batch it is */
} keeper;
keeper keeper_ref(const keeper *k);
void keeper_unref(keeper *k); /* needs no GIL */

/* ---- Types ---- */

extern PyTypeObject *tensor_type, *batch_type, *pipeline_type, *iterator_type;

/* A tensor that keeps its memory by `k`, whose reference it takes. */
PyObject *tensor_create(const pst_tensor *t, keeper k);
/* A tensor with a copy of the data; bytes and numbers without dimensions become Python objects. */
PyObject *tensor_copy(const pst_tensor *t);
PyObject *tensor_row(const pst_tensor *t, const keeper *k, Py_ssize_t i); /* of the first dimension */
/* The only row of a batch of one: a tensor, also of a single number; single bytes become a Python object. */
PyObject *tensor_element(const pst_tensor *t, const keeper *k);
pst_dtype dtype_of_format(const char *format, Py_ssize_t itemsize);       /* PEP 3118; PST_DTYPE_NONE: none of ours */
pst_dtype dtype_of_name(PyObject *name);                                  /* raises */
size_t values_bytes(const pst_tensor *t);                                 /* of its values */

/* Takes `batch`. `names` is the tuple of its fields. `batched` false: its fields are those of its only element. */
PyObject *batch_create(pst_batch *batch, PyObject *names, bool batched);
pst_batch *batch_of(PyObject *batch); /* borrowed; raises where it is none, or of another process */

/* ---- Python functions in pipelines (callback.c) ---- */

struct callback; /* what a pipeline needs to call one; owned by its Pipeline object */
void callback_destroy(struct callback *c);
int callback_traverse(struct callback *c, visitproc visit, void *arg); /* for the garbage collector */
/* A new tuple: an identity, and the lineage of the function that the thread is inside, if any. */
PyObject *lineage_create(void);
/* Whether the thread is inside a function of the pipeline with this lineage, or of one that such a function made. */
bool lineage_is_inside(PyObject *lineage);
/* `plan` and `run` of the object do the work; see _functions.py. `failures` collects what they raise. */
pst_status callback_add_map(pst_pipeline *p, PyObject *function, PyObject *failures, PyObject *lineage, struct callback **ret,
                            pst_error *reterr);
pst_status callback_add_generator(pst_pipeline *p, PyObject *source, PyObject *failures, PyObject *lineage,
                                  struct callback **ret, pst_error *reterr);
pst_status callback_add_view(pst_pipeline *p, PyObject *arguments, struct callback **ret, pst_error *reterr);
PyObject *spec_object(const pst_spec *spec); /* ((name, dtype, shape), …); None where a dimension varies */

/* ---- The rest of the module ---- */

/* A whole number from 0 to `most`, also one of NumPy's; raises TypeError or ValueError with `name`. */
bool number_option(const char *name, PyObject *value, uint64_t most, uint64_t *ret);
PyGILState_STATE enter_python(void); /* from any thread; never returns when the interpreter is gone */
bool interpreter_exits(void);        /* from the shutdown on */
bool is_last_thread(void);           /* the one that shuts down, and still runs handlers, finalizers and generators' ends */
void pipelines_shutdown(void);       /* stops and destroys every pipeline; at the interpreter's exit */
bool types_create(PyObject *module);
bool tensor_type_create(PyObject *module);
bool batch_type_create(PyObject *module);
bool pipeline_types_create(PyObject *module);
bool record_types_create(PyObject *module);
bool model_types_create(PyObject *module);
PyObject *params_object(const pst_param *p); /* [(name, kind, default, choices, doc), …] */
/* layers(), layers_add(text, kind, args, chains) (model.c) */
PyObject *core_layers(PyObject *self, PyObject *unused);
PyObject *core_layers_add(PyObject *self, PyObject *args);
PyObject *core_read_run(PyObject *self, PyObject *args);
PyObject *core_pack(PyObject *self, PyObject *args, PyObject *kwargs);
/* doctor_run(text, …), doctor_page(json) (doctor.c) */
PyObject *core_doctor_run(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *core_doctor_page(PyObject *self, PyObject *args);
PyObject *core_encode_png(PyObject *self, PyObject *args);
/* compress(model, out, data, validation, …) (compress.c) */
PyObject *core_compress(PyObject *self, PyObject *args, PyObject *kwargs);

PyTypeObject *type_add(PyObject *module, PyType_Spec *spec); /* NULL with an error set */

#endif
