/* train_check.h: mistakes in a training command that are not about the model or the data. */
#ifndef CLI_TRAIN_CHECK_H
#define CLI_TRAIN_CHECK_H

#include "cli/command.h"
#include "cli/train_session.h"
#include <limits.h>

/* Fails if the command line has options that a resume of `run` would not follow. All return EXIT_DONE, or print the error. */
int train_check_resume(const struct command *command, const char *run);
/* Fails if `out` is a folder with files that are not of a run. */
int train_check_out(const char *out);
/* The folder of a run from its own path or that of its newest checkpoint. */
int train_find_run(const struct command *command, const char *path, char run[PATH_MAX]);
/* Says so where --freeze leaves nothing to train. */
void train_note_frozen(const struct train_config *c, const pst_model *model);

#endif
