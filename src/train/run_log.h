/* run_log.h: what a run leaves for people in RUN/logs: TensorBoard events (scalars, distributions, pictures, graph, settings), and epochs.csv with one row per epoch.
 *
 * Logs are not part of the state. A run that is resumed begins a new event file, and rows of epochs that it repeats are replaced. */
#ifndef TRAIN_RUN_LOG_H
#define TRAIN_RUN_LOG_H

#include "record/event_writer.h"
#include "train/trainer.h"

struct run_log {
    struct event_writer events;
    bool open;
    char *table;      /* path of epochs.csv */
    struct text rows; /* all of it */
    size_t last_row;  /* where the last row begins */
    uint64_t last_epoch; /* of that row; 0: there is none */
    pst_loss loss;    /* decides which metrics of the validation are columns */
};

/* Opens the logs of a run that is at `step`. `loss` is that of the validation; PST_LOSS_CUSTOM: there are no other metrics. Zero-initialise
 * `l` first. */
pst_status run_log_open(struct run_log *l, const char *run, uint64_t step, pst_loss loss, pst_error *reterr);
/* Adds loss and learning rate of update `step`. */
void run_log_step(struct run_log *l, uint64_t step, const pst_step_result *r);
/* Adds an epoch, or the part of it with which the run ends, and writes everything that was collected. */
pst_status run_log_epoch(struct run_log *l, const pst_run_progress *p, pst_error *reterr);
/* Adds the graph, the settings and the text of the model: once per run. */
void run_log_model(struct run_log *l, const pst_trainer *t);
/* Adds the first samples of a batch, where they are pictures. */
void run_log_pictures(struct run_log *l, const pst_trainer *t, const pst_tensor *input);
/* Adds the distributions of all weights and of the latest gradients, which are those of the scaled loss. */
void run_log_histograms(struct run_log *l, const pst_trainer *t);
/* Adds a validation between the ends of epochs. */
void run_log_validation(struct run_log *l, const pst_run_progress *p);
void run_log_close(struct run_log *l); /* flushes; zeroed ok */

#endif
