/* train.h: what model, train, eval and predict share. */
#ifndef CLI_TRAIN_H
#define CLI_TRAIN_H

#include "cli/command.h"
#include <penstock/train.h>

#define SHAPE_SIZE 40
/* "32x32x3" or "10". Returns `buffer`. */
char *shape_text(char buffer[SHAPE_SIZE], const pst_shape *s);

/* The text of the file of --kernels, to be freed. */
pst_status kernels_read(char **ret, const char *path, pst_error *error);
/* Says which entries of a table of kernels were not used. `origin` is where the table comes from. */
void kernels_compare(const char *given, const char *used, const char *origin);

/* What a MODEL of the command line may be. */
#define MODEL_DOC "MODEL is the folder of a run, of one checkpoint, or of a model that `penstock compress` wrote; or an ONNX file."

/* The name of class `i`: recorded, or its number. Returns `buffer`, or the name. */
#define CLASS_SIZE 24
const char *class_name(const pst_run_record *r, size_t i, char buffer[CLASS_SIZE]);

#endif
