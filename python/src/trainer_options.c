/* trainer_options.c: keyword arguments of Python as pst_train_options, by one table. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

enum option_kind { REAL, EXACT, COUNT, NUMBER, FLAG, CHOICE };

struct option {
    const char *name;
    enum option_kind kind;
    size_t offset;
    const char *const *choices; /* the numbers of the enumeration, in order */
};

#define AT(member) offsetof(pst_train_options, member)
static const char *const optimizers[] = {"adam", "adamw", "sgd", "nesterov", "lion", NULL};
static const char *const schedules[] = {"constant", "step", "cosine", "one_cycle", "plateau", NULL};
static const char *const mixed[] = {"none", "float16", "bfloat16", NULL};
static const struct option options[] = {
    {"batch", COUNT, AT(batch), NULL},
    {"threads", NUMBER, AT(threads), NULL},
    {"seed", COUNT, AT(seed), NULL},
    {"loss", CHOICE, AT(loss), python_losses},
    {"label_smoothing", REAL, AT(label_smoothing), NULL},
    {"optimizer", CHOICE, AT(optimizer), optimizers},
    {"learning_rate", EXACT, AT(rate), NULL},
    {"momentum", REAL, AT(momentum), NULL},
    {"beta1", EXACT, AT(beta1), NULL},
    {"beta2", EXACT, AT(beta2), NULL},
    {"epsilon", REAL, AT(epsilon), NULL},
    {"weight_decay", EXACT, AT(weight_decay), NULL},
    {"clip_norm", REAL, AT(clip_norm), NULL},
    {"clip_value", REAL, AT(clip_value), NULL},
    {"ema", REAL, AT(ema), NULL},
    {"schedule", CHOICE, AT(schedule), schedules},
    {"warmup_steps", COUNT, AT(warmup_steps), NULL},
    {"total_steps", COUNT, AT(total_steps), NULL},
    {"schedule_every", COUNT, AT(schedule_every), NULL},
    {"gamma", REAL, AT(gamma), NULL},
    {"min_rate", REAL, AT(min_rate), NULL},
    {"plateau_patience", NUMBER, AT(plateau_patience), NULL},
    {"temperature", REAL, AT(temperature), NULL},
    {"alpha", EXACT, AT(alpha), NULL},
    {"accumulate", NUMBER, AT(accumulate), NULL},
    {"mixed", CHOICE, AT(mixed), mixed},
    {"recompute", FLAG, AT(recompute), NULL},
    {"portable", FLAG, AT(portable), NULL},
    {0},
};
_Static_assert(sizeof(uint64_t) == sizeof(size_t) && sizeof(pst_loss) == sizeof(unsigned), "options are stored by their kind");

static bool take_choice(const struct option *o, PyObject *value, unsigned *ret)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    char known[128] = "";
    for (unsigned i = 0; o->choices[i]; i++) {
        if (text && strcmp(text, o->choices[i]) == 0) {
            *ret = i;
            return true;
        }
        strcat(strcat(known, i ? ", " : ""), o->choices[i]);
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "%s=%R; expected one of %s", o->name, value, known);
    return false;
}

static bool take_option(const struct option *o, PyObject *value, void *to)
{
    if (o->kind == CHOICE)
        return take_choice(o, value, to);
    if (o->kind == EXACT && value == Py_None)
        return true; /* the default */
    if (o->kind == REAL || o->kind == EXACT) {
        double number = PyFloat_AsDouble(value);
        if (PyErr_Occurred())
            return false;
        if (!(number >= 0))
            return PyErr_Format(PyExc_ValueError, "%s=%R; expected 0 or more", o->name, value), false;
        *(double *)to = o->kind == EXACT && number == 0 ? -1 : number; /* 0 would stand for the default */
        return true;
    }
    if (o->kind == FLAG) {
        int truth = PyObject_IsTrue(value);
        *(bool *)to = truth > 0;
        return truth >= 0;
    }
    uint64_t number;
    if (!number_option(o->name, value, o->kind == COUNT ? UINT64_MAX : 1024, &number))
        return false;
    if (o->kind == COUNT)
        *(uint64_t *)to = number;
    else
        *(unsigned *)to = (unsigned)number;
    return true;
}

bool names_take(const char *what, PyObject *tuple, const char ***ret, size_t *ret_count)
{
    Py_ssize_t count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : -1;
    *ret = count >= 0 ? calloc((size_t)count + 1, sizeof(**ret)) : NULL;
    if (!*ret)
        return PyErr_Format(PyExc_TypeError, "%s=%R; expected names", what, tuple), false;
    for (Py_ssize_t i = 0; i < count; i++) {
        (*ret)[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if (!(*ret)[i])
            return false;
    }
    *ret_count = (size_t)count;
    return true;
}

bool trainer_options(PyObject *kwargs, pst_train_options *ret, const char ***ret_freeze)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        const struct option *o = options;
        if (PyUnicode_CompareWithASCIIString(key, "freeze") == 0) {
            if (!names_take("freeze", value, ret_freeze, &ret->freeze_count))
                return false;
            ret->freeze = *ret_freeze;
            continue;
        }
        while (o->name && PyUnicode_CompareWithASCIIString(key, o->name) != 0)
            o++;
        if (!o->name)
            return PyErr_Format(PyExc_TypeError, "no option %U", key), false;
        if (!take_option(o, value, (char *)ret + o->offset))
            return false;
    }
    return true;
}
