/* layer_list.c: see layer_list.h. */
#include "model/layer_list.h"

#include <string.h>

#define LAYER(name) extern const struct layer_class layer_##name##_f32, layer_##name##_f64;
#include "model/layer_list.inc"
#undef LAYER

#define LAYER(name) {&layer_##name##_f32, &layer_##name##_f64},
static const struct layer_class *const list[][2] = {
#include "model/layer_list.inc"
};
#undef LAYER

#define COUNT (sizeof(list) / sizeof(list[0]))

const struct layer_class *layer_at(size_t i)
{
    return i < COUNT ? list[i][0] : NULL;
}

const struct layer_class *layer_at_f64(size_t i)
{
    return i < COUNT ? list[i][1] : NULL;
}

const struct layer_class *layer_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(list[i][0]->name, name) == 0)
            return list[i][0];
    return NULL;
}

size_t layer_number(const struct layer_class *layer)
{
    size_t i = 0;
    while (i < COUNT && list[i][0] != layer)
        i++;
    return i;
}
