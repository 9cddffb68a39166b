/* lang_table.h: a table of classes that take children, for tests of the language: layers, more or less. */
#ifndef TESTS_LANG_TABLE_H
#define TESTS_LANG_TABLE_H

#include "base/memory.h"
#include "lang/lang.h"

struct layer_config {
    uint64_t filters, kernel, stride, count;
    int activation, mode;
    const char *name;
    pst_strings words;
};

#define LAYER_PARAM(kind, field, ...)                                                                                          \
    {                                                                                                                          \
#field, PST_PARAM_##kind, offsetof(struct layer_config, field), __VA_ARGS__                                            \
    }

static const char *const layer_activations[] = {"none", "relu", "hard(sigmoid)", NULL};
static const char *const layer_modes[] = {"sum", "mean", NULL};
static const pst_param conv_params[] = {
    LAYER_PARAM(UINT, filters, NULL, 1, 4096, NULL, "number of filters"),
    LAYER_PARAM(UINT, kernel, NULL, 1, 31, NULL, "side of a filter"),
    LAYER_PARAM(CHOICE, activation, "none", 0, 0, layer_activations, "function of the result"),
    LAYER_PARAM(UINT, stride, "1", 1, 31, NULL, "step of the filter"), /* needs its name */
    LAYER_PARAM(STRING, name, "", 0, 0, NULL, "name of the weights"),  /* this too */
    {0},
};
static const pst_param say_params[] = {LAYER_PARAM(STRINGS, words, NULL, 0, 0, NULL, "anything"), {0}};
static const pst_param key_params[] = {LAYER_PARAM(STRING, name, NULL, 0, 0, NULL, "must be given, by its name"), {0}};
static const pst_param repeat_params[] = {LAYER_PARAM(UINT, count, NULL, 1, 1000, NULL, "how often"), {0}};
static const pst_param sum_params[] = {
    LAYER_PARAM(CHOICE, mode, "sum", 0, 0, layer_modes, "sum or mean"),
    LAYER_PARAM(STRINGS, words, "", 0, 0, NULL, "anything"),
    {0},
};

static const struct lang_class layer_classes[] = {
    {.name = "conv", .params = conv_params, .positional = 3, .config_size = sizeof(struct layer_config)},
    {.name = "relu"},
    {.name = "say", .params = say_params, .positional = LANG_ALL, .config_size = sizeof(struct layer_config)},
    {.name = "key", .params = key_params, .config_size = sizeof(struct layer_config)},
    {.name = "residual", .min_children = 1, .max_children = 2},
    {.name = "repeat",
     .params = repeat_params,
     .positional = LANG_ALL,
     .config_size = sizeof(struct layer_config),
     .min_children = 1,
     .max_children = 1},
    {.name = "sum",
     .params = sum_params,
     .positional = LANG_ALL,
     .config_size = sizeof(struct layer_config),
     .min_children = 0,
     .max_children = LANG_ALL},
    {.name = "beside", .min_children = 2, .max_children = LANG_ALL, .empty_child = true},
};

static inline bool layer_at(size_t i, struct lang_class *ret)
{
    if (i >= sizeof(layer_classes) / sizeof(layer_classes[0]))
        return false;
    *ret = layer_classes[i];
    return true;
}

static const struct language layers = {
    .at = layer_at, .whole = "a model", .one = "layer", .a_one = "a layer", .listing = "see the table"};

/* Adds the whole tree as canonical text. False: out of memory. */
static inline bool layers_text(const struct lang_tree *t, struct text *ret)
{
    for (size_t i = 0; i < t->top.count; i++) {
        char *one = lang_text(t->top.nodes[i]);
        ret->failed |= !one;
        text_add(ret, i ? " | " : "");
        text_add(ret, one ? one : "");
        mem_free(one);
    }
    return !ret->failed;
}

#endif
