/* class_names.h: the names of classes that lie beside the data of a pipeline. */
#ifndef CLI_CLASS_NAMES_H
#define CLI_CLASS_NAMES_H

#include <stddef.h>

struct class_names {
    char **names;
    size_t count;
};

/* Looks for labels.txt beside shards, or for class folders, by the source of the pipeline. None found: count 0. */
void class_names_find(struct class_names *ret, const char *pipeline, const char *target);
void class_names_finish(struct class_names *c); /* Zeroed ok. */

#endif
