/* callback.h: what the operations that the extension brings share: functions (callback.c), generators (generator.c) and views
 * (view.c). */
#ifndef PYTHON_CALLBACK_H
#define PYTHON_CALLBACK_H

#include "core.h"

#include <stdatomic.h>

typedef int (*compiled_fn)(const void *const *in, void *const *out, const int64_t *sizes);

/* One pass over a generator; listed in its callback, so that the garbage collector sees the iterator. */
struct pass {
    struct callback *callback;
    PyObject *iterator;
    struct pass *next;
};

struct callback {
    PyObject *object, *run; /* the Python side; NULL for views */
    PyObject *failures;
    PyObject *lineage;   /* identities of its pipeline and of those whose functions made that one, or NULL */
    struct pass *passes; /* under the GIL */
    char name[128], kind[16];
    compiled_fn compiled;
    bool seeded;
    uint64_t fingerprint; /* of the function */
    size_t *reads, read_count;                       /* owned */
    pst_spec out;                                    /* as planned: the engine's, or of `fields` */
    pst_field *fields;                               /* owned; of a generator, or the one that a view makes */
    char dtype[16], shape[64], field[PST_NAME_SIZE]; /* of a view, as written */
    size_t number;                                   /* of its field */
    _Atomic unsigned inside;                         /* threads that are in the function */
};

/* `object` has name, kind, and the method `run`. NULL with an exception. */
struct callback *callback_create(PyObject *object, PyObject *failures, PyObject *lineage, const char *run);
/* Around every call of the function: the GIL, and a note that it is running. */
struct entry {
    PyGILState_STATE gil;
    PyObject *outer; /* lineage of the function that the thread was inside before; borrowed */
};
struct entry callback_enter(struct callback *c);
void callback_leave(struct callback *c, struct entry entry);
/* Keeps the exception that is set, and turns it into an error of the engine. None is set: memory ran out. */
pst_status callback_fail(struct callback *c, pst_error *reterr);

/* Values (value.c); all raise. */
bool take_shape(PyObject *shape, pst_field *f);
/* ((name, alias, dtype, shape), …); `*ret` is to be freed, also on failure. */
bool take_fields(PyObject *list, const pst_spec *in, pst_field **ret, size_t *ret_count);
bool put_value(pst_ctx *ctx, PyObject *value, const pst_field *f, pst_tensor *out);

#endif
