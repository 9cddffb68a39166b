/* generator.c: Python generators as sources. They are called by one worker at a time; what they yield is copied. */
#include "callback.h"

#include <stdlib.h>

static pst_status generator_open(void *user, void **ret, pst_error *reterr)
{
    struct pass *pass = calloc(1, sizeof(*pass));
    if (!pass)
        return pst_fail(reterr, PST_ENOMEM, "starting the generator: out of memory");
    pass->callback = user;
    struct entry entry = callback_enter(pass->callback);
    pass->iterator = PyObject_CallObject(pass->callback->run, NULL);
    pst_status st = pass->iterator ? PST_OK : callback_fail(pass->callback, reterr);
    if (st == PST_OK) {
        pass->next = pass->callback->passes;
        pass->callback->passes = pass;
    }
    callback_leave(pass->callback, entry);
    if (st < 0)
        free(pass);
    else
        *ret = pass;
    return st;
}

static pst_status generator_next(void *user, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct pass *pass = user;
    struct callback *c = pass->callback;
    struct entry entry = callback_enter(c);
    PyObject *iterator = Py_NewRef(pass->iterator); /* what runs is not garbage, whatever the collector finds meanwhile */
    PyObject *values = PyIter_Next(iterator);
    Py_DECREF(iterator);
    pst_status st = values ? PST_OK : PST_END;
    bool fine = values || !PyErr_Occurred();
    for (size_t f = 0; fine && values && f < c->out.count; f++) {
        PyObject *value = PyTuple_GetItem(values, (Py_ssize_t)f);
        out[f].data = NULL;
        fine = value && put_value(ctx, value, &c->out.field[f], &out[f]);
    }
    if (!fine)
        st = callback_fail(c, reterr);
    Py_XDECREF(values);
    callback_leave(c, entry);
    return st;
}

static void generator_close(void *user)
{
    struct pass *pass = user, **at = &pass->callback->passes;
    struct entry entry = callback_enter(pass->callback);
    while (*at != pass)
        at = &(*at)->next;
    *at = pass->next;
    Py_XDECREF(pass->iterator);
    callback_leave(pass->callback, entry);
    free(pass);
}

/* `source` has name, kind, fingerprint, fields ((name, -1, dtype, shape), …) and rows(): an iterator of tuples. */
pst_status callback_add_generator(pst_pipeline *p, PyObject *source, PyObject *failures, PyObject *lineage,
                                  struct callback **ret, pst_error *reterr)
{
    struct callback *c = callback_create(source, failures, lineage, "rows");
    if (!c)
        return PST_EINVAL;
    *ret = c;
    PyObject *fields = PyObject_GetAttrString(source, "fields"),
             *print = fields ? PyObject_GetAttrString(source, "fingerprint") : NULL;
    bool fine = print && take_fields(fields, NULL, &c->fields, &c->out.count);
    c->out.field = c->fields;
    pst_generator g = {
        .size = sizeof(g), .spec = c->out, .open = generator_open, .next = generator_next, .close = generator_close, .user = c};
    g.fingerprint = fine ? PyLong_AsUnsignedLongLong(print) : 0;
    Py_XDECREF(fields);
    Py_XDECREF(print);
    return PyErr_Occurred() ? PST_EINVAL : pst_pipeline_add_generator(p, &g, reterr);
}
