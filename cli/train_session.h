/* train_session.h: what train and lr-find have in common: the options, the pipelines, the model and its trainer. */
#ifndef CLI_TRAIN_SESSION_H
#define CLI_TRAIN_SESSION_H

#include "cli/pipeline_options.h"
#include "cli/train.h"

struct train_config {
    struct pipeline_config pipeline; /* first: the shared options */
    const char *model, *val, *out, *resume, *weights, *input, *target, *sample_weight, *class_weight, *kernels, *teacher;
    uint64_t epochs, steps, steps_per_epoch, warmup, schedule_every, plateau_patience;
    uint64_t threads, keep, save_every, val_every, log_every, patience, accumulate, profile;
    double rate, momentum, weight_decay, clip, clip_value, smoothing, ema, gamma, min_rate;
    double temperature, alpha, feature_weight;
    double low, high; /* of lr-find */
    double rank_timeout;
    int optimizer, schedule, loss, monitor, mixed, gradients, bind;
    struct option_list freeze, sweep, features, prune_exclude, prune_layers;
    const char *prune; /* SHARE, N:M or keep */
    int prune_schedule;
    uint64_t prune_begin, prune_end, prune_every;
    double prune_initial, shrink;
    int shrink_norm;
    bool recompute, exact_ranks, sync_norm, json, quiet, qat;
    uint64_t qat_samples, qat_bits;
    bool epochs_given, steps_given, val_given, temperature_given, alpha_given, feature_weight_given;
};

extern const char *const train_optimizers[]; /* as pst_optimizer */
extern const char *const train_gradients[]; /* as pst_gradients */
extern const char *const train_bindings[];
extern const char *const train_mixed[];      /* as pst_mixed */
extern const char *const train_losses[];     /* as pst_loss */

/* Everything that a run needs. */
struct train_session {
    const struct command *command;
    const struct train_config *config;
    struct pipeline_config pipeline; /* the config's, with the rank of this process */
    pst_comm *comm;       /* NULL: this process alone */
    bool silent;          /* rank 0 speaks for this one */
    bool together;        /* the run is over on every rank: whatever fails now does not leave the others waiting */
    char *text;           /* of the training pipeline */
    const char *resume;   /* a run folder, or NULL; the model is then that of the checkpoint, whatever was done to it first */
    const char *const *arguments;
    size_t argument_count;
    const char **own_arguments; /* with what `auto` stood for; NULL: those of the caller */
    char hosts_text[32];
    pst_pipeline *training, *validation;
    pst_fields fields;
    pst_model *model;
    pst_trainer *trainer;
    pst_teacher *teacher; /* NULL: none */
    const char *kernels;   /* the recorded table of kernels, instead of the file of --kernels; NULL: none */
    double *class_weights; /* NULL: none */
    size_t class_weight_count;
    double *prune_shares; /* of --prune-layer */
    char **prune_names;
    const char *const *classes; /* the training pipeline's */
    size_t class_count;
};

/* Opens pipelines, model and trainer: every mistake is found here. Returns EXIT_DONE, or another exit code with the error printed. */
int session_open(struct train_session *s, const char *const *operands, size_t count);
/* `code`: how the session ends. Anything but EXIT_DONE before the run is over ends all ranks. */
void session_close(struct train_session *s, int code);

/* The options of pruning; `o->size` is 0 where there are none. The lists belong to the session. */
pst_status prune_options_read(struct train_session *s, pst_prune_options *o, pst_error *error);
void prune_options_free(struct train_session *s);

/* The weights of classes: `how` is "balanced" or a file. Sets `class_weights` of the session. */
pst_status class_weights_find(struct train_session *s, const char *how, pst_error *error);

#endif
