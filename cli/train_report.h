/* train_report.h: how far a training run is: a line on a terminal, lines in a log, JSON. */
#ifndef CLI_TRAIN_REPORT_H
#define CLI_TRAIN_REPORT_H

#include "cli/json.h"
#include <penstock/train.h>

struct train_report {
    bool json, quiet, terminal;
    bool shows_f1; /* also of classes */
    uint64_t log_every; /* steps; 0: only at the end of epochs */
    uint64_t epochs;
    double painted; /* when the line was written last */
    bool on_screen;
};

void train_report_start(struct train_report *r, bool json, bool quiet, uint64_t log_every, uint64_t epochs);
/* Adds the numbers of an epoch to an object. */
void train_report_numbers(struct json *j, const pst_run_progress *p);
/* A pst_run_fn; `user` is the struct train_report. True once the user interrupted. */
bool train_report_progress(void *user, const pst_run_progress *p);
/* Prints the measured times of layers. False: nothing was measured. */
bool train_profile(const pst_trainer *t, bool json);
void train_report_finish(struct train_report *r);

#endif
