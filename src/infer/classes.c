/* classes.c: the order in which implementations are asked. */
#include "infer/infer.h"

const struct infer_class *const infer_classes[] = {&infer_i8_conv, &infer_i8_layer, &infer_i8_float, &infer_conv, &infer_layer, NULL};
