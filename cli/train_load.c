/* train_load.c: names of the classes of a trained model. */
#include "cli/train.h"
#include <stdio.h>

const char *class_name(const pst_run_record *r, size_t i, char buffer[CLASS_SIZE])
{
    if (i < r->class_count)
        return r->classes[i];
    snprintf(buffer, CLASS_SIZE, "%zu", i);
    return buffer;
}
