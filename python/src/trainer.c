/* trainer.c: _core.Trainer: steps, predictions, weights and checkpoints as Python sees them.
 *
 * One thread at a time computes: a lock, waited for without the GIL. In a fork the threads of the parent's trainer do not
 * exist: using it there is an error that says so. */
#include "model.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject base;
    Model *model;
    pst_trainer *trainer;
    size_t batch; /* samples of a step at most */
    pthread_mutex_t lock;
    unsigned generation;
} Trainer;

static PyObject *trainer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *model;
    pst_train_options o = {.size = sizeof(o)};
    const char **freeze = NULL;
    pst_error e;
    if (!PyArg_ParseTuple(args, "O!:Trainer", model_type, &model))
        return NULL;
    Trainer *self =
        trainer_options(kwargs, &o, &freeze) ? (Trainer *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0) : NULL;
    if (self) {
        pthread_mutex_init(&self->lock, NULL);
        self->generation = fork_generation();
        self->model = (Model *)Py_NewRef(model);
        self->batch = o.batch;
        PyThreadState *gil = PyEval_SaveThread();
        pst_status st = pst_trainer_create(&self->trainer, self->model->model, &o, &e);
        PyEval_RestoreThread(gil);
        if (st < 0) {
            Py_DECREF((PyObject *)self);
            self = (Trainer *)(void *)raise_error(&e);
        }
    }
    free(freeze);
    return (PyObject *)self;
}

static void trainer_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Trainer *self = (Trainer *)object;
    if (self->generation == fork_generation()) { /* in a fork there is nothing to join */
        pst_trainer_destroy(self->trainer);
        pthread_mutex_destroy(&self->lock);
    }
    Py_XDECREF((PyObject *)self->model);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Releases the GIL and takes the lock. NULL: an exception is set. */
static PyThreadState *enter(Trainer *self)
{
    if (self->generation != fork_generation())
        return (PyThreadState *)(void *)raise_status(
            PST_EINVAL, "the model belongs to the process that this one was forked from; make or load it in this process");
    PyThreadState *gil = PyEval_SaveThread();
    pthread_mutex_lock(&self->lock);
    return gil;
}

static void leave(Trainer *self, PyThreadState *gil)
{
    pthread_mutex_unlock(&self->lock);
    PyEval_RestoreThread(gil);
}

/* ---- Samples ---- */

struct samples {
    Py_buffer views[4];
    size_t view_count;
    pst_tensor input, target;
    pst_samples given;
};

static void samples_finish(struct samples *s)
{
    for (size_t i = 0; i < s->view_count; i++)
        PyBuffer_Release(&s->views[i]);
}

static bool take_array(struct samples *s, PyObject *array, const char *what, pst_tensor *ret)
{
    Py_buffer *view = &s->views[s->view_count];
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_ND) < 0)
        return false;
    s->view_count++;
    *ret =
        (pst_tensor){.dtype = dtype_of_format(view->format, view->itemsize), .rank = (uint32_t)view->ndim, .data = view->buf};
    if (ret->dtype == PST_DTYPE_NONE || view->ndim < 1 || view->ndim > PST_MAX_RANK)
        return PyErr_Format(PyExc_ValueError,
                            "%s: an array of format %s and %d dimensions; expected 1 to %d dimensions of uint8, int32, int64, "
                            "float16, float32 or float64",
                            what, view->format ? view->format : "B", view->ndim, PST_MAX_RANK),
               false;
    for (int d = 0; d < view->ndim; d++)
        ret->shape[d] = (uint64_t)view->shape[d];
    return true;
}

/* Whether samples have the dimensions of the model's input, dimensions of 1 aside: a transposed image is a mistake. */
static bool fits(const pst_tensor *t, const pst_shape *shape)
{
    uint32_t d = 1, i = 0;
    for (;;) {
        while (d < t->rank && t->shape[d] == 1)
            d++;
        while (i < shape->rank && shape->size[i] == 1)
            i++;
        if (d == t->rank || i == shape->rank)
            return d == t->rank && i == shape->rank;
        if (t->shape[d++] != shape->size[i++])
            return false;
    }
}

static bool take_input(Trainer *self, PyObject *array, struct samples *s)
{
    pst_shape shape = pst_model_input(self->model->model);
    if (!take_array(s, array, "input", &s->input))
        return false;
    if (fits(&s->input, &shape))
        return true;
    PyObject *found = PyTuple_New((Py_ssize_t)s->input.rank - 1), *wanted = shape_object(&shape);
    for (uint32_t d = 1; found && d < s->input.rank; d++)
        if (PyTuple_SetItem(found, d - 1, PyLong_FromUnsignedLongLong(s->input.shape[d])) < 0)
            Py_CLEAR(found);
    if (found && wanted && s->input.rank <= shape.rank) /* one sample: also of a dataset without batches */
        PyErr_Format(PyExc_ValueError,
                     "there is no batch: an array of %u dimensions, and samples have %R; add .batch() to the dataset",
                     (unsigned)s->input.rank, wanted);
    else if (found && wanted)
        PyErr_Format(PyExc_ValueError, "samples of shape %R; the model takes %R", found, wanted);
    Py_XDECREF(found);
    Py_XDECREF(wanted);
    return false;
}

static bool take_samples(Trainer *self, PyObject *args, struct samples *s)
{
    PyObject *input, *target, *weights = Py_None, *teacher = Py_None;
    pst_shape out = pst_model_output(self->model->model);
    pst_tensor w, logits;
    if (!PyArg_ParseTuple(args, "OO|OO", &input, &target, &weights, &teacher) || !take_input(self, input, s) ||
        !take_array(s, target, "target", &s->target))
        return false;
    s->given = (pst_samples){.size = sizeof(s->given), .input = &s->input, .target = &s->target};
    if (teacher != Py_None) {
        if (!take_array(s, teacher, "teacher", &logits))
            return false;
        if (logits.dtype != PST_DTYPE_F32 || logits.rank != 2 || logits.shape[0] != s->input.shape[0] ||
            logits.shape[1] != out.size[0])
            return PyErr_Format(PyExc_ValueError, "the teacher's logits are one float32 row of %u results per sample",
                                out.size[0]),
                   false;
        s->given.teacher = logits.data;
    }
    if (weights == Py_None)
        return true;
    if (!take_array(s, weights, "weights", &w))
        return false;
    if (w.dtype != PST_DTYPE_F32 || w.rank != 1 || w.shape[0] != s->input.shape[0])
        return PyErr_Format(PyExc_ValueError, "weights are one float32 number per sample"), false;
    s->given.weights = w.data;
    return true;
}

typedef pst_status (*work)(pst_trainer *, const pst_samples *, pst_step_result *, pst_error *);

/* `metrics` not NULL: adds the batch to them; `function` is then that of an evaluation. */
static PyObject *run_with(PyObject *object, PyObject *args, work function, pst_metrics *metrics)
{
    Trainer *self = (Trainer *)object;
    struct samples s = {.view_count = 0};
    pst_step_result r = {.size = sizeof(r)};
    pst_error e;
    PyObject *result = NULL;
    PyThreadState *gil = take_samples(self, args, &s) ? enter(self) : NULL;
    if (gil) {
        pst_status st =
            metrics ? pst_metrics_add(metrics, self->trainer, &s.given, &r, &e) : function(self->trainer, &s.given, &r, &e);
        leave(self, gil);
        result = st < 0 ? raise_error(&e)
                        : Py_BuildValue("{s:K,s:d,s:K,s:K,s:d,s:d,s:d}", "samples", (unsigned long long)s.input.shape[0],
                                        "loss", r.loss, "correct", (unsigned long long)r.correct, "correct_top5",
                                        (unsigned long long)r.correct_top5, "absolute_error", r.absolute_error, "gradient_norm",
                                        r.gradient_norm, "learning_rate", r.rate);
    }
    samples_finish(&s);
    return result;
}

static PyObject *run(PyObject *object, PyObject *args, work function)
{
    return run_with(object, args, function, NULL);
}

static PyObject *trainer_metrics(PyObject *object, PyObject *ignored)
{
    Trainer *self = (Trainer *)object;
    pst_metrics *m = NULL;
    pst_error e;
    (void)ignored;
    PyThreadState *gil = enter(self);
    if (!gil)
        return NULL;
    pst_status st = pst_metrics_create(&m, self->trainer, &e);
    leave(self, gil);
    return st < 0 ? raise_error(&e) : metrics_object(m);
}

/* judge(metrics, input, target, weights, teacher): as evaluate, and adds the batch to the metrics. */
static PyObject *trainer_judge(PyObject *self, PyObject *args)
{
    PyObject *capsule = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : NULL;
    pst_metrics *m = capsule ? metrics_take(capsule) : NULL;
    PyObject *rest = m ? PyTuple_GetSlice(args, 1, PyTuple_Size(args)) : NULL;
    PyObject *result = rest ? run_with(self, rest, NULL, m) : NULL;
    Py_XDECREF(rest);
    if (m)
        metrics_give(capsule);
    if (!result && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "judge takes metrics, input and target");
    return result;
}

static PyObject *trainer_step(PyObject *self, PyObject *args)
{
    return run(self, args, pst_trainer_step);
}

static PyObject *trainer_compute(PyObject *self, PyObject *args)
{
    return run(self, args, pst_trainer_compute);
}

static PyObject *trainer_evaluate(PyObject *self, PyObject *args)
{
    return run(self, args, pst_trainer_evaluate);
}

static PyObject *trainer_apply(PyObject *object, PyObject *unused)
{
    Trainer *self = (Trainer *)object;
    pst_error e;
    PyThreadState *gil = enter(self);
    (void)unused;
    if (!gil)
        return NULL;
    pst_status st = pst_trainer_apply(self->trainer, &e);
    leave(self, gil);
    return st < 0 ? raise_error(&e) : Py_NewRef(Py_None);
}

enum { RESULT, PROBABILITIES, LOGITS }; /* what is predicted */

/* Any number of samples, in parts that the trainer takes. False: an exception is set. */
static bool predict(Trainer *self, const pst_tensor *input, int kind, float *out, size_t width)
{
    size_t row = input->shape[0] ? values_bytes(input) / (size_t)input->shape[0] : 0;
    for (uint64_t done = 0; done < input->shape[0];) {
        pst_tensor part = *input;
        pst_error e;
        part.shape[0] = input->shape[0] - done < self->batch ? input->shape[0] - done : self->batch;
        part.data = (uint8_t *)input->data + done * row;
        PyThreadState *gil = enter(self);
        if (!gil)
            return false;
        pst_status st = kind == LOGITS
                            ? pst_trainer_logits(self->trainer, &part, out + done * width, &e)
                            : pst_trainer_predict(self->trainer, &part, kind == PROBABILITIES, out + done * width, &e);
        leave(self, gil);
        if (st < 0)
            return raise_error(&e), false;
        if (PyErr_CheckSignals() < 0)
            return false;
        done += part.shape[0];
    }
    return true;
}

static PyObject *trainer_predict(PyObject *object, PyObject *args)
{
    Trainer *self = (Trainer *)object;
    struct samples s = {.view_count = 0};
    PyObject *input, *result = NULL;
    int kind = RESULT;
    pst_shape shape = pst_model_output(self->model->model);
    if (!PyArg_ParseTuple(args, "O|i:predict", &input, &kind))
        return NULL;
    if (take_input(self, input, &s)) {
        pst_tensor out = {.dtype = PST_DTYPE_F32, .rank = 1 + shape.rank, .shape = {s.input.shape[0]}};
        size_t width = 1;
        for (uint32_t i = 0; i < shape.rank; i++)
            width *= (size_t)(out.shape[1 + i] = shape.size[i]);
        struct block *b = block_create(values_bytes(&out));
        keeper k = {.block = b};
        out.data = b ? block_data(b) : NULL;
        if (!b)
            PyErr_NoMemory();
        else if (predict(self, &s.input, kind, out.data, width))
            result = tensor_create(&out, k);
        else
            keeper_unref(&k);
    }
    samples_finish(&s);
    return result;
}

/* ---- Weights ---- */

/* A copy of the values of parameter `i`, or of its gradients. */
static PyObject *copy_param(Trainer *self, size_t i, bool gradients)
{
    pst_model_param p = {.size = sizeof(p)};
    if (!pst_model_param_at(self->model->model, i, &p))
        return PyErr_Format(PyExc_IndexError, "parameter %zu", i);
    pst_tensor t = {.dtype = PST_DTYPE_F32, .rank = p.rank};
    for (uint32_t d = 0; d < p.rank; d++)
        t.shape[d] = p.shape[d];
    struct block *b = block_create((size_t)p.count * sizeof(float));
    if (!b)
        return PyErr_NoMemory();
    keeper k = {.block = b};
    t.data = block_data(b);
    PyThreadState *gil = enter(self);
    if (!gil)
        return keeper_unref(&k), NULL;
    const float *from = gradients ? pst_trainer_gradients(self->trainer, i) : pst_trainer_values(self->trainer, i);
    memcpy(t.data, from, (size_t)p.count * sizeof(float));
    leave(self, gil);
    return tensor_create(&t, k);
}

static PyObject *trainer_values(PyObject *self, PyObject *args)
{
    Py_ssize_t i;
    return PyArg_ParseTuple(args, "n:values", &i) ? copy_param((Trainer *)self, (size_t)i, false) : NULL;
}

static PyObject *trainer_gradients(PyObject *self, PyObject *args)
{
    Py_ssize_t i;
    return PyArg_ParseTuple(args, "n:gradients", &i) ? copy_param((Trainer *)self, (size_t)i, true) : NULL;
}

static bool same_shape(const pst_tensor *t, const pst_model_param *p)
{
    bool same = t->rank == p->rank && (t->dtype == PST_DTYPE_F32 || t->dtype == PST_DTYPE_F64);
    for (uint32_t d = 0; same && d < p->rank; d++)
        same = t->shape[d] == p->shape[d];
    return same;
}

static PyObject *trainer_set_values(PyObject *object, PyObject *args)
{
    Trainer *self = (Trainer *)object;
    struct samples s = {.view_count = 0};
    pst_model_param p = {.size = sizeof(p)};
    PyObject *array, *result = NULL;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "nO:set_values", &i, &array) || !take_array(&s, array, "weights", &s.input))
        return samples_finish(&s), NULL;
    PyThreadState *gil = NULL;
    if (!pst_model_param_at(self->model->model, (size_t)i, &p) || !same_shape(&s.input, &p))
        PyErr_Format(PyExc_ValueError, "%s: the array has another shape, or is not float32 or float64", p.name ? p.name : "?");
    else
        gil = enter(self);
    if (gil) {
        float *to = pst_trainer_values(self->trainer, (size_t)i);
        const double *wide = s.input.data;
        for (uint64_t k = 0; s.input.dtype == PST_DTYPE_F64 && k < p.count; k++)
            to[k] = (float)wide[k];
        if (s.input.dtype == PST_DTYPE_F32)
            memcpy(to, s.input.data, (size_t)p.count * sizeof(float));
        pst_trainer_restart_mean(self->trainer);
        leave(self, gil);
        result = Py_NewRef(Py_None);
    }
    samples_finish(&s);
    return result;
}

/* Gradients that a loop of one's own has changed. They are not scaled; the engine's are. */
static PyObject *trainer_set_gradients(PyObject *object, PyObject *args)
{
    Trainer *self = (Trainer *)object;
    struct samples s = {.view_count = 0};
    pst_model_param p = {.size = sizeof(p)};
    PyObject *array, *result = NULL;
    Py_ssize_t i;
    if (!PyArg_ParseTuple(args, "nO:set_gradients", &i, &array) || !take_array(&s, array, "gradients", &s.input))
        return samples_finish(&s), NULL;
    PyThreadState *gil = NULL;
    if (!pst_model_param_at(self->model->model, (size_t)i, &p) || !same_shape(&s.input, &p) || s.input.dtype != PST_DTYPE_F32)
        PyErr_Format(PyExc_ValueError, "%s: the gradients have another shape, or are not float32", p.name ? p.name : "?");
    else
        gil = enter(self);
    if (gil) {
        float *to = pst_trainer_gradients(self->trainer, (size_t)i), scale = (float)pst_trainer_loss_scale(self->trainer, NULL);
        const float *from = s.input.data;
        for (uint64_t k = 0; k < p.count; k++)
            to[k] = from[k] * scale;
        leave(self, gil);
        result = Py_NewRef(Py_None);
    }
    samples_finish(&s);
    return result;
}

static PyObject *trainer_flush(PyObject *object, PyObject *unused)
{
    Trainer *self = (Trainer *)object;
    pst_error e;
    PyThreadState *gil = enter(self);
    (void)unused;
    if (!gil)
        return NULL;
    pst_status st = pst_trainer_flush(self->trainer, &e);
    leave(self, gil);
    return st < 0 ? raise_error(&e) : Py_NewRef(Py_None);
}

static PyObject *with_number(PyObject *object, PyObject *args, void (*function)(pst_trainer *, double))
{
    Trainer *self = (Trainer *)object;
    double number;
    if (!PyArg_ParseTuple(args, "d", &number))
        return NULL;
    PyThreadState *gil = enter(self);
    if (!gil)
        return NULL;
    function(self->trainer, number);
    leave(self, gil);
    return Py_NewRef(Py_None);
}

static PyObject *trainer_set_rate(PyObject *self, PyObject *args)
{
    return with_number(self, args, pst_trainer_set_rate);
}

static PyObject *trainer_end_epoch(PyObject *self, PyObject *args)
{
    return with_number(self, args, pst_trainer_end_epoch);
}

static PyObject *trainer_set_classes(PyObject *object, PyObject *args)
{
    Trainer *self = (Trainer *)object;
    const char **names = NULL;
    size_t count;
    PyObject *tuple, *result = NULL;
    pst_error e;
    if (!PyArg_ParseTuple(args, "O:set_classes", &tuple) || !names_take("classes", tuple, &names, &count))
        return free(names), NULL;
    PyThreadState *gil = enter(self);
    if (gil) {
        pst_status st = pst_trainer_set_classes(self->trainer, names, count, &e);
        leave(self, gil);
        result = st < 0 ? raise_error(&e) : Py_NewRef(Py_None);
    }
    free(names);
    return result;
}

/* ---- Files ---- */

static PyObject *with_path(PyObject *object, PyObject *args, pst_status (*function)(pst_trainer *, const char *, pst_error *))
{
    Trainer *self = (Trainer *)object;
    PyObject *path;
    pst_error e;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    PyThreadState *gil = enter(self);
    pst_status st = PST_OK;
    if (gil) {
        st = function(self->trainer, PyBytes_AsString(path), &e);
        leave(self, gil);
    }
    Py_DECREF(path);
    if (!gil)
        return NULL;
    return st < 0 ? raise_error(&e) : Py_NewRef(Py_None);
}

static pst_status load_weights(pst_trainer *t, const char *path, pst_error *reterr)
{
    size_t loaded = 0;
    pst_status st = pst_trainer_load_weights(t, path, &loaded, reterr);
    return st == PST_OK && loaded == 0 ? pst_fail(reterr, PST_ETYPE, "%s has none of the model's parameters", path) : st;
}

static PyObject *trainer_save(PyObject *self, PyObject *args)
{
    return with_path(self, args, pst_trainer_save);
}

static PyObject *trainer_load(PyObject *self, PyObject *args)
{
    return with_path(self, args, pst_trainer_load);
}

static PyObject *trainer_load_weights(PyObject *self, PyObject *args)
{
    return with_path(self, args, load_weights);
}

enum number { STEPS, BYTES, LOSS_SCALE }; /* that Python can ask for */

static PyObject *get_number(PyObject *object, void *closure)
{
    Trainer *self = (Trainer *)object;
    enum number which = (enum number)(intptr_t)closure;
    PyThreadState *gil = enter(self);
    if (!gil)
        return NULL;
    double scale = which == LOSS_SCALE ? pst_trainer_loss_scale(self->trainer, NULL) : 0;
    uint64_t whole = which == BYTES ? pst_trainer_bytes(self->trainer) : pst_trainer_steps(self->trainer);
    leave(self, gil);
    return which == LOSS_SCALE ? PyFloat_FromDouble(scale) : PyLong_FromUnsignedLongLong(whole);
}

static PyMethodDef trainer_methods[] = {
    {"step", trainer_step, METH_VARARGS, NULL},
    {"compute", trainer_compute, METH_VARARGS, NULL},
    {"apply", trainer_apply, METH_NOARGS, NULL},
    {"evaluate", trainer_evaluate, METH_VARARGS, NULL},
    {"metrics", trainer_metrics, METH_NOARGS, NULL},
    {"judge", trainer_judge, METH_VARARGS, NULL},
    {"predict", trainer_predict, METH_VARARGS, NULL},
    {"values", trainer_values, METH_VARARGS, NULL},
    {"gradients", trainer_gradients, METH_VARARGS, NULL},
    {"set_values", trainer_set_values, METH_VARARGS, NULL},
    {"set_gradients", trainer_set_gradients, METH_VARARGS, NULL},
    {"flush", trainer_flush, METH_NOARGS, NULL},
    {"set_rate", trainer_set_rate, METH_VARARGS, NULL},
    {"end_epoch", trainer_end_epoch, METH_VARARGS, NULL},
    {"set_classes", trainer_set_classes, METH_VARARGS, NULL},
    {"save", trainer_save, METH_VARARGS, NULL},
    {"load", trainer_load, METH_VARARGS, NULL},
    {"load_weights", trainer_load_weights, METH_VARARGS, NULL},
    {0},
};

static PyGetSetDef trainer_getset[] = {
    {"steps", get_number, NULL, "The number of updates so far.", (void *)STEPS},
    {"loss_scale", get_number, NULL, "The factor of the loss that gradients are computed with.", (void *)LOSS_SCALE},
    {"bytes", get_number, NULL, "Bytes of the step, the weights, gradients and the optimiser's state.", (void *)BYTES},
    {0},
};

static PyType_Slot trainer_slots[] = {
    {Py_tp_new, trainer_new},
    {Py_tp_dealloc, trainer_dealloc},
    {Py_tp_methods, trainer_methods},
    {Py_tp_getset, trainer_getset},
    {0},
};

static PyType_Spec trainer_spec = {.name = "penstock._core.Trainer",
                                   .basicsize = sizeof(Trainer),
                                   .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                                   .slots = trainer_slots};

bool trainer_type_create(PyObject *module)
{
    return type_add(module, &trainer_spec) != NULL;
}
