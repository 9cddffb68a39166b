/* sweep.h: several runs that differ in some options. */
#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

#include "cli/train_session.h"

/* All combinations of `--sweep NAME=A,B`, one after the other. Returns an exit code. */
int sweep(const struct train_config *c, const char *const *operands, size_t count);

/* cmd_train.c: one run, recorded with `arguments`; a run continued with its recorded command. `result` is filled by a run that ended
 * without an error. */
int train_once(const struct train_config *c, const char *const *operands, size_t count, struct option_list arguments, pst_run_result *result);
int train_again(const struct train_config *now, const char *path, const char *const *operands, size_t count, pst_run_result *result);

#endif
