/* train.h: trains a model: loss, gradients, optimiser, checkpoints, and whole runs fed by a pipeline.
 *
 *     pst_trainer_create(&t, model, &(pst_train_options){.size = sizeof(pst_train_options), .batch = 64}, &err);
 *     pst_trainer_step(t, &samples, &result, &err);         one's own loop, or
 *     pst_trainer_run(t, pipeline, NULL, &run, &end, &err); epochs, validation, checkpoints
 *
 * A given seed and data give the same bits for any number of threads. Several processes train together through a communicator
 * (ranks.h): every one calls the same functions with its own share of the batches. */
#ifndef PENSTOCK_TRAIN_H
#define PENSTOCK_TRAIN_H

#include <penstock/model.h>
#include <penstock/pipeline.h>
#include <penstock/ranks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What training minimises. */
typedef enum pst_loss {
    PST_LOSS_AUTO = 0,    /* Chosen by the target's type and the model's last layer. */
    PST_LOSS_SPARSE,      /* Categorical cross-entropy, integer labels. */
    PST_LOSS_CATEGORICAL, /* Categorical cross-entropy, one probability per class. */
    PST_LOSS_BINARY,      /* Binary cross-entropy, targets from 0 to 1. */
    PST_LOSS_MSE,         /* Mean squared error. */
    PST_LOSS_CUSTOM       /* `loss_fn` of the options. */
} pst_loss;

/* How weights are updated from gradients. */
typedef enum pst_optimizer {
    PST_OPTIMIZER_ADAM = 0, /* Adam as in Keras: epsilon is added to the uncorrected root. */
    PST_OPTIMIZER_ADAMW,    /* Adam with weight decay. */
    PST_OPTIMIZER_SGD,      /* Gradient descent, with momentum if that is not 0. */
    PST_OPTIMIZER_NESTEROV, /* Gradient descent with Nesterov momentum. */
    PST_OPTIMIZER_LION      /* Lion: steps of the size of the rate, by the sign of a mean of the gradients. */
} pst_optimizer;

/* How the learning rate changes. */
typedef enum pst_schedule {
    PST_SCHEDULE_CONSTANT = 0, /* The learning rate stays. */
    PST_SCHEDULE_STEP,         /* Multiplied by `gamma` after every `schedule_every` steps. */
    PST_SCHEDULE_COSINE,       /* Falls along half a cosine to `min_rate` at `total_steps`. */
    PST_SCHEDULE_ONE_CYCLE,    /* Rises from 1/25 for 30 % of `total_steps`, then falls to almost 0, both along cosines. */
    PST_SCHEDULE_PLATEAU       /* Multiplied by `gamma` when the monitored loss has not improved for `plateau_patience` epochs. */
} pst_schedule;

struct pst_samples;
/* A loss of the caller's own. `out` holds the model's results (`n` samples × `width` values, a last softmax or sigmoid included).
 * Returns the loss; `gradient`, unless it is NULL, receives the gradient of the loss with respect to `out`. */
typedef double (*pst_loss_fn)(void *user, const struct pst_samples *samples, const float *out, size_t n, size_t width, float *gradient);

/* The type in which values and gradients are stored between layers. */
typedef enum pst_mixed {
    PST_MIXED_NONE = 0, /* Values and gradients are stored as float32. */
    PST_MIXED_FLOAT16,  /* They are stored as float16, with dynamic scaling of the loss as in Keras. */
    PST_MIXED_BFLOAT16  /* They are stored as bfloat16. */
} pst_mixed;

/* How the share of zeros grows while a model is pruned. */
typedef enum pst_prune_schedule {
    PST_PRUNE_POLYNOMIAL = 0, /* From `initial` at `begin` to `sparsity` at `end`: fast at first, then slower. */
    PST_PRUNE_CONSTANT,       /* `sparsity` from `begin` on. */
    PST_PRUNE_KEEP            /* Weights that are zero at the start stay zero; no others go. */
} pst_prune_schedule;

/* Magnitude pruning: the smallest weights of each convolution (except depthwise ones) and dense layer become zero and stay zero. The
 * schedules are those of TensorFlow's model optimisation toolkit. A member that is 0 has its default. */
typedef struct pst_prune_options {
    size_t size;                 /* sizeof(pst_prune_options). */
    double sparsity;             /* The share of zeros in the end, from 0 to less than 1. */
    double initial;              /* The share at `begin`, of PST_PRUNE_POLYNOMIAL. */
    pst_prune_schedule schedule; /* How the share grows. */
    uint64_t begin, end;         /* The first and last update after which weights are chosen. `end` 0: no end; of PST_PRUNE_POLYNOMIAL,
                                    three quarters of `total_steps`. */
    uint64_t every;              /* Updates between two choices; 0: 100. */
    double power;                /* The exponent of PST_PRUNE_POLYNOMIAL; 0: 3. */
    unsigned group_keep, group;  /* N:M sparsity: of each `group` inputs in a row (4), `group_keep` (2) stay; `sparsity` is not used then.
                                    0: none. */
    const char *const *exclude;  /* Names of layers that are not pruned; * and ? stand for parts of names. Copied. */
    size_t exclude_count;        /* The number of names. */
    const char *const *layers;   /* Names of layers with a share of their own, in the order in which they apply. Copied. */
    const double *layer_sparsity; /* Their shares; 0: the layer is not pruned. Copied. */
    size_t layer_count;          /* The number of both. */
} pst_prune_options;

/* How gradients travel between ranks. */
typedef enum pst_gradients {
    PST_GRADIENTS_FLOAT32 = 0, /* As they are. */
    PST_GRADIENTS_FLOAT16      /* As float16 with a scale per message: half the bytes, rounded. */
} pst_gradients;

/* How a model is trained. A member that is 0 has its default; a negative rate, beta or weight decay is exactly 0. */
typedef struct pst_train_options {
    size_t size;              /* sizeof(pst_train_options). */
    size_t batch;             /* The largest number of samples of a step. Required. */
    unsigned threads;         /* Threads of the step; 0: one per core. Does not affect the result. */
    uint64_t seed;            /* The seed of start weights and dropout. */
    pst_loss loss;            /* The loss; not PST_LOSS_AUTO. pst_fields_find chooses one. */
    double label_smoothing;   /* From 0 to 1, of categorical and binary losses. */
    pst_optimizer optimizer;  /* The optimiser. */
    double rate;              /* The learning rate; 0: 1e-3. */
    double momentum;          /* The momentum of gradient descent. */
    double beta1, beta2;      /* The decay rates of Adam; 0: 0.9 and 0.999. Of Lion; 0: 0.9 and 0.99. */
    double epsilon;           /* The epsilon of Adam; 0: 1e-7. */
    double weight_decay;      /* Decoupled, of kernels only; with PST_OPTIMIZER_ADAMW, 0 means 0.004. */
    double clip_norm;         /* The largest norm of all gradients together; 0: any. */
    double clip_value;        /* The largest absolute value of a gradient; 0: any. */
    double ema;               /* Decay of a moving mean of the weights that evaluation uses; 0: none. */
    pst_schedule schedule;    /* How the learning rate changes. */
    uint64_t warmup_steps;    /* Steps during which the learning rate rises linearly from 0. */
    uint64_t total_steps;     /* Steps of the whole run, for PST_SCHEDULE_COSINE and PST_SCHEDULE_ONE_CYCLE. */
    uint64_t schedule_every;  /* The steps between two changes of PST_SCHEDULE_STEP; 0: 1000. */
    double gamma;             /* The factor of PST_SCHEDULE_STEP and PST_SCHEDULE_PLATEAU; 0: 0.1. */
    double min_rate;          /* The lowest rate of PST_SCHEDULE_COSINE and PST_SCHEDULE_PLATEAU. */
    unsigned plateau_patience; /* The judgements without improvement before PST_SCHEDULE_PLATEAU lowers the rate; 0: 5. */
    const char *const *freeze; /* Names of layers that are not trained; * and ? stand for parts of names. */
    size_t freeze_count;      /* The number of names. */
    bool portable;            /* Use no kernels for special instruction sets. */
    unsigned accumulate;      /* Batches per update on each rank: gradients are the mean over all their samples; 0: 1. */
    const double *class_weights; /* One factor per class for the loss of its samples, when training; NULL: 1. Copied. */
    size_t class_count;       /* The number of class weights: the model's results, or 2 for one result with PST_LOSS_BINARY. */
    pst_loss_fn loss_fn;      /* The function of PST_LOSS_CUSTOM. */
    void *loss_user;          /* Handed to `loss_fn`. */
    pst_mixed mixed;          /* How values and gradients between layers are stored; weights and computing stay float32. */
    bool recompute;           /* Keep few values for the backward pass and compute the others again: less memory, more time, the same result. */
    double temperature;       /* The temperature of a teacher's logits; 0: 3. */
    double alpha;             /* The share of the loss by the targets where there is a teacher, from 0 to 1; 0: 0.5, negative: 0. */
    const char *const *features; /* Layers whose results a teacher guides. Copied. */
    const pst_shape *feature_shapes; /* The shape of the teacher's values for each of them: the same, or the same height and width. */
    size_t feature_count;     /* The number of these layers. */
    double feature_weight;    /* The factor of their loss; 0: 1. */
    const char *kernels;      /* A table of kernels as pst_model_tune writes it and pst_trainer_kernels returns it; kernels that this machine
                                 does not have are left out. NULL: the usual ones. Copied. */
    const pst_prune_options *prune; /* Prune the model while it is trained; NULL: do not. Copied. */
    pst_comm *comm;           /* The ranks that train together; NULL: this process alone. Must outlive the trainer. */
    bool exact_ranks;         /* The same bits for any number of ranks with the same number of batches per update, `accumulate` × ranks. */
    pst_gradients gradients;  /* How gradients travel between ranks. */
    bool sync_norm;           /* Batch normalisation takes its statistics over the batches of all ranks. Every rank must have a batch in
                                 every step: PST_UNEVEN_DROP. Not with `exact_ranks`. */
} pst_train_options;

typedef struct pst_trainer pst_trainer;

/* Samples of one step. */
typedef struct pst_samples { /* `weights` and class weights multiply; the loss is the weighted sum divided by the number of samples. */
    size_t size;              /* sizeof(pst_samples). */
    const pst_tensor *input;  /* The inputs; the first dimension is the batch. Any numeric type. */
    const pst_tensor *target; /* Labels (integers, one per sample) or values (one row per sample). NULL: none, for predictions. */
    const float *weights;     /* One weight per sample; NULL: 1. */
    const float *teacher;     /* When training: the teacher's logits, a row of the model's results per sample (before a softmax or sigmoid at
                                 its end). The loss is alpha times that by the target plus (1 - alpha) times T² · KL(teacher ‖ model), both
                                 at temperature T; for PST_LOSS_MSE, the mean squared difference. NULL: none. */
    const float *const *features; /* When training: the teacher's values for each of the options' `features`. NULL: none. */
} pst_samples;

/* The result of a step or of an evaluation of one batch. */
typedef struct pst_step_result {
    size_t size;           /* sizeof(pst_step_result), set by the caller. */
    size_t samples;        /* The number of samples. */
    double loss;           /* The mean loss. */
    uint64_t correct;      /* Samples whose class was predicted; of binary targets, samples that are right in every value. */
    uint64_t correct_top5; /* Samples whose class is among the five most likely. */
    double absolute_error; /* The sum of |result − target| over all values, of PST_LOSS_MSE. */
    double gradient_norm;  /* The norm of all gradients; 0 unless clipping by norm is on. */
    double rate;           /* The learning rate of the step. */
    bool updated;          /* Whether the weights were updated: with `accumulate`, not by every batch. */
} pst_step_result;

/* How kernels are measured. A member that is 0 has its default. */
typedef struct pst_tune_options {
    size_t size;       /* sizeof(pst_tune_options). */
    size_t batch;      /* Samples of a step; 0: 64. */
    unsigned threads;  /* Threads of the step; 0: one per core. */
    unsigned passes;   /* Steps that are measured for each candidate; 0: 5. */
    pst_mixed mixed;   /* How values are stored between layers. */
    bool (*progress)(void *user, unsigned done, unsigned total); /* Called after each round; returns true to stop. NULL: none. */
    void *user;        /* Handed to `progress`. */
} pst_tune_options;
/* Measures which kernel is the fastest for each convolution of the model on this machine, and writes the table to the file `path`.
 * PST_ECANCELLED: `progress` asked to stop. */
PST_API pst_status pst_model_tune(const pst_model *model, const char *path, const pst_tune_options *options, pst_error *reterr);

/* Makes a trainer with fresh weights. `model` must outlive it. */
PST_API pst_status pst_trainer_create(pst_trainer **ret, const pst_model *model, const pst_train_options *options, pst_error *reterr);
/* Frees the trainer and returns NULL. `t` may be NULL. */
PST_API pst_trainer *pst_trainer_destroy(pst_trainer *t);
/* Computes loss and gradients and updates the weights. A loss that is not finite is PST_ETYPE; the message names the first layer
 * with a value that is not finite, and the weights stay as they were. A label out of range, and an input with a value that is not finite,
 * is PST_EINVAL; `reterr->record` is the number of the sample within the batch. `ret` may be NULL. */
PST_API pst_status pst_trainer_step(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr);
/* The first half of pst_trainer_step: loss and gradients, no update. */
PST_API pst_status pst_trainer_compute(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr);
/* The second half: updates the weights from the gradients. With `accumulate`, adds the gradients, and updates after so many calls. */
PST_API pst_status pst_trainer_apply(pst_trainer *t, pst_error *reterr);
/* Updates the weights from the batches that were accumulated since the last update. Does nothing if there are none. */
PST_API pst_status pst_trainer_flush(pst_trainer *t, pst_error *reterr);
/* Computes loss and metrics without training, with the moving mean of the weights where that is kept. */
PST_API pst_status pst_trainer_evaluate(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr);
/* Computes the model's result for the samples of `input` into `out` (samples × output values). `probabilities` applies softmax (or
 * sigmoid, of PST_LOSS_BINARY) where the model ends with logits; otherwise the model's own result is stored. */
PST_API pst_status pst_trainer_predict(pst_trainer *t, const pst_tensor *input, bool probabilities, float *out, pst_error *reterr);

/* The same without a softmax or sigmoid at the model's end, where the loss is computed from logits: what a teacher says. */
PST_API pst_status pst_trainer_logits(pst_trainer *t, const pst_tensor *input, float *out, pst_error *reterr);

/* Returns the values of parameter `i` of the model: writable, valid until the trainer is destroyed. */
PST_API float *pst_trainer_values(pst_trainer *t, size_t i);
/* Call after writing to pst_trainer_values: the moving mean of the weights, where it is kept, starts again from them. */
PST_API void pst_trainer_restart_mean(pst_trainer *t);
/* Returns the gradients of parameter `i` after pst_trainer_compute: writable until pst_trainer_apply. */
PST_API float *pst_trainer_gradients(pst_trainer *t, size_t i);
/* Returns the factor that the loss is multiplied with before gradients are computed: gradients are those of the scaled loss. 1 except for
 * PST_MIXED_FLOAT16. `*ret_skipped` (NULL ok) is the number of updates that were left out because a gradient was not finite. */
PST_API double pst_trainer_loss_scale(const pst_trainer *t, uint64_t *ret_skipped);
/* Returns the number of updates so far. */
PST_API uint64_t pst_trainer_steps(const pst_trainer *t);
/* Returns the share of zeros among the weights that are pruned; 0 where none are. */
PST_API double pst_trainer_sparsity(const pst_trainer *t);
/* Returns the bytes of the step, the weights, gradients and the optimiser's state. */
PST_API uint64_t pst_trainer_bytes(const pst_trainer *t);

/* The parts of a training step; means per step in seconds. */
typedef struct pst_train_stats {
    size_t size;     /* sizeof(pst_train_stats), set by the caller. */
    uint64_t steps;  /* The number of steps that were measured. */
    double samples;  /* The mean number of samples per step. */
    double forward, loss, backward, update; /* The passes, the loss with its metrics, and the optimiser. */
} pst_train_stats;

/* A group of layers that is computed together; means per step. */
typedef struct pst_layer_stats {
    size_t size;                /* sizeof(pst_layer_stats), set by the caller. */
    const char *layer;          /* The name of its first layer. */
    size_t layers;              /* The number of its layers. */
    const char *implementation; /* What computes it… */
    const char *why;            /* …and why. */
    double forward, backward;   /* Seconds of each pass. */
    uint64_t forward_flops, backward_flops; /* Multiplications and additions of each pass, as the plain formulas have them. */
    uint64_t forward_bytes, backward_bytes; /* Bytes of inputs, results, parameters and gradients that a pass reads or writes at least. */
} pst_layer_stats;

/* Starts measuring steps, from zero; `on` false ends it, and the results stay. Measuring does not affect the result of training. */
PST_API pst_status pst_trainer_measure(pst_trainer *t, bool on, pst_error *reterr);
/* Fills `ret` with the means of the measured steps. Returns false if there are none. */
PST_API bool pst_trainer_stats(const pst_trainer *t, pst_train_stats *ret);
/* Fills `ret` for group `i` of layers, in the order of computation. Returns false after the last group, or if nothing was measured. */
PST_API bool pst_trainer_stats_at(const pst_trainer *t, size_t i, pst_layer_stats *ret);
/* Writes the measured steps as a trace for chrome://tracing or Perfetto. */
PST_API pst_status pst_trainer_write_trace(const pst_trainer *t, const char *path, pst_error *reterr);

/* Changes the learning rate that the schedule starts from. */
PST_API void pst_trainer_set_rate(pst_trainer *t, double rate);
/* Returns the name of the instruction set that the trainer's kernels use: "avx512", "avx2", "portable".
 * AVX2 and AVX-512 give the same bits, portable kernels others. */
PST_API const char *pst_trainer_instructions(const pst_trainer *t);
/* Returns the kernel of each shape of convolution, one line each. Another choice gives other bits. Valid until the trainer is destroyed. */
PST_API const char *pst_trainer_kernels(const pst_trainer *t);
/* Keeps a copy of the names of the classes, which pst_trainer_save stores. NULL: none. */
PST_API pst_status pst_trainer_set_classes(pst_trainer *t, const char *const *classes, size_t count, pst_error *reterr);
/* Tells PST_SCHEDULE_PLATEAU the monitored loss of an epoch, in one's own loop; pst_trainer_run does it by itself. */
PST_API void pst_trainer_end_epoch(pst_trainer *t, double loss);

/* Writes a checkpoint into the folder `path`, whole or not at all. */
PST_API pst_status pst_trainer_save(pst_trainer *t, const char *path, pst_error *reterr);
/* Reads a checkpoint: weights, optimiser state and number of steps. PST_ECORRUPT: it is damaged; PST_EUNSUPPORTED: written by a newer
 * version; PST_ETYPE: it belongs to another model. On failure the trainer is as it was. */
PST_API pst_status pst_trainer_load(pst_trainer *t, const char *path, pst_error *reterr);
/* Reads weights only: from a checkpoint folder, a run folder, a safetensors or ONNX file, or an HDF5 file of Keras (*.weights.h5). Arrays with
 * the names of our parameters are taken by name. Otherwise layers are taken in their order, as Keras and PyTorch number them, and
 * PyTorch's layouts are converted. A last layer of another shape starts fresh. Parameters that the file does not have keep their
 * values; `*ret_loaded` (NULL ok) is the number of parameters that were read. Another shape before the last layer is PST_ETYPE. On failure nothing
 * changes. */
PST_API pst_status pst_trainer_load_weights(pst_trainer *t, const char *path, size_t *ret_loaded, pst_error *reterr);

/* ---- Fewer channels ---- */

/* What a channel's importance is measured by. */
typedef enum pst_channel_norm {
    PST_CHANNEL_L1 = 0, /* The sum of the absolute values of its kernel. */
    PST_CHANNEL_L2,     /* The root of the sum of their squares. */
    PST_CHANNEL_SCALE   /* The scale of the batch normalisation after it; where there is none, L1. */
} pst_channel_norm;

/* How channels are removed. A member that is 0 has its default. */
typedef struct pst_shrink_options {
    size_t size;           /* sizeof(pst_shrink_options). */
    double flops;          /* The share of the operations that is left; 0: 0.5. */
    pst_channel_norm norm; /* Which channels go first. */
    const char *const *exclude; /* Names of layers that keep all their channels, and with them the layers whose channels are tied to theirs; * stands
                                   for any part. */
    size_t exclude_count;  /* The number of names. */
} pst_shrink_options;
/* Makes a smaller model, and a trainer of it, from the weights that `from` evaluates with: the least important channels go until at most
 * the given share of the operations is left. Channels that an addition ties together go together; a quarter of each layer stays.
 * The result is an ordinary model with smaller layers. `options` are those of the new trainer. The caller destroys both results, the
 * trainer first. PST_ELIMIT: the model cannot be made so small. */
PST_API pst_status pst_trainer_shrink(pst_trainer **ret, pst_model **ret_model, const pst_trainer *from, const pst_train_options *options,
                                      const pst_shrink_options *shrink, pst_error *reterr);

/* ---- Quantisation-aware training ---- */

/* How a model is prepared for it. A member that is 0 has its default. */
typedef struct pst_qat_options {
    size_t size;              /* sizeof(pst_qat_options). */
    uint64_t samples;         /* Samples to calibrate with; 0: 512, or all where the pipeline has fewer. */
    unsigned weight_bits;     /* Bits of the kernels: 7 or 8; 0: 7. */
    const struct pst_fields *fields; /* The fields of the pipeline. Required. */
} pst_qat_options;
/* Makes a model and a trainer for quantisation-aware training from the weights that `from` evaluates with. Batch normalisation is
 * folded; `fakequant` layers round the values between layers to the ranges that occur in the samples of `calibration`, which afterwards is
 * where it was before; the trainer rounds kernels and biases, and gradients pass straight through. `options` are those of the new
 * trainer. The caller destroys both results, the trainer first. */
PST_API pst_status pst_trainer_prepare_qat(pst_trainer **ret, pst_model **ret_model, const pst_trainer *from, const pst_train_options *options,
                                           pst_pipeline *calibration, const pst_qat_options *qat, pst_error *reterr);

/* ---- Runs ---- */

/* The fields of a pipeline that a model is trained on. */
typedef struct pst_fields {
    size_t size;                 /* sizeof(pst_fields), set by the caller. */
    char input[PST_NAME_SIZE];   /* The field of the input. */
    char target[PST_NAME_SIZE];  /* The field of the target; empty: none. */
    pst_shape shape;             /* The shape of one sample of the input. */
    size_t batch;                /* Samples per batch. */
    bool labels;                 /* Whether the target is one integer per sample. */
    uint64_t width;              /* Values of the target per sample. */
} pst_fields;
/* Plans the pipeline and finds its fields. `input` NULL: the only image or numeric field besides the target. `target` NULL: "label".
 * `needs_target` false: a missing target is fine. Errors say what to add to the pipeline. */
PST_API pst_status pst_fields_find(pst_pipeline *p, const char *input, const char *target, bool needs_target, pst_fields *ret,
                                   pst_error *reterr);
/* Leaves out of the batches of `p`, which is not planned yet, all fields but the input, the target and the weights, so that what nobody
 * learns from need not be there: see pst_pipeline_keep. `input` and `target` as for pst_fields_find. `weights` is the field with one weight
 * per sample; NULL: none. Where one of them is missing, all fields stay, and pst_fields_find names them. */
PST_API pst_status pst_fields_keep(pst_pipeline *p, const char *input, const char *target, bool needs_target, const char *weights, pst_error *reterr);
/* Returns the loss for these fields and this model: integer labels are sparse categorical, or binary where the model has one
 * result; other targets are categorical after softmax, binary after sigmoid, and mean squared error otherwise. */
PST_API pst_loss pst_loss_choose(const pst_model *model, const pst_fields *fields);

/* The results over a whole pipeline. */
typedef struct pst_evaluation {
    size_t size;           /* sizeof(pst_evaluation), set by the caller. */
    uint64_t samples;      /* The number of samples. */
    double loss;           /* The mean loss. */
    double accuracy;       /* The share of samples that are right; NaN for PST_LOSS_MSE. */
    double top5;           /* The share of samples whose class is among the five most likely; NaN without classes. */
    double mae, r2;        /* Mean absolute error and coefficient of determination, the mean over the results; NaN except for PST_LOSS_MSE. */
    double auc;            /* Area under the ROC curve, of several results the mean over those with both classes; NaN except for
                              PST_LOSS_BINARY. */
    double f1;             /* F1 score: of the positive class, or the mean over results or classes; NaN for PST_LOSS_MSE. */
    size_t classes;        /* The number of classes; 0: none. */
    uint64_t *confusion;   /* classes × classes: row true class, column predicted. Free with pst_free. NULL: none. */
} pst_evaluation;
/* Evaluates one pass over the pipeline. `fields` must come from this pipeline. */
PST_API pst_status pst_trainer_evaluate_pipeline(pst_trainer *t, pst_pipeline *p, const pst_fields *fields, pst_evaluation *ret,
                                                 pst_error *reterr);

/* Metrics over batches of one's own loop. */
typedef struct pst_metrics pst_metrics;
/* Makes metrics for the loss and the results of `t`, and of other trainers with the same. */
PST_API pst_status pst_metrics_create(pst_metrics **ret, const pst_trainer *t, pst_error *reterr);
/* Frees the metrics and returns NULL. `m` may be NULL. */
PST_API pst_metrics *pst_metrics_destroy(pst_metrics *m);
/* Evaluates a batch as pst_trainer_evaluate does, and adds it. `ret` may be NULL. */
PST_API pst_status pst_metrics_add(pst_metrics *m, pst_trainer *t, const pst_samples *samples, pst_step_result *ret, pst_error *reterr);
/* Fills `ret` with the results over all batches, and begins anew. */
PST_API pst_status pst_metrics_result(pst_metrics *m, pst_evaluation *ret, pst_error *reterr);

/* How far a run is; numbers are those of the current epoch. */
typedef struct pst_run_progress {
    size_t size;           /* sizeof(pst_run_progress) of the library. */
    bool epoch_end;        /* Whether an epoch has just ended: the validation is in. */
    bool validated;        /* Whether a validation has just ended: `val_loss` and others are new. */
    bool ended;            /* Whether the run has just ended within an epoch, whose numbers so far these are. */
    uint64_t epoch;        /* From 1. */
    uint64_t step;         /* Updates since the beginning of the run. */
    uint64_t epoch_step;   /* Updates since the beginning of the epoch. */
    uint64_t epoch_steps;  /* Steps of an epoch; PST_NOWHERE: unknown. */
    double loss, accuracy; /* Means of the epoch so far; the accuracy is NaN where there is none. */
    double val_loss, val_accuracy; /* The results of the newest validation; NaN: there is none. */
    double val_auc, val_f1, val_mae, val_r2; /* The same; NaN where the loss has no such metric. */
    double rate;           /* The learning rate. */
    double samples_per_second; /* The speed of the epoch so far, validation excluded. */
    double wait_share;     /* The share of the time that was spent waiting for data. */
    double seconds;        /* Since the run began or was resumed. */
    double seconds_left;   /* Estimated; NaN: unknown. */
    uint64_t bytes;        /* pst_trainer_bytes. */
    double loss_scale;     /* pst_trainer_loss_scale. */
    uint64_t skipped;      /* Updates left out since the beginning of the run because a gradient was not finite. */
    bool saved, best;      /* Whether a checkpoint was written just now; whether it is the best. */
    double sparsity;       /* pst_trainer_sparsity. */
} pst_run_progress;
/* Called on the thread of the run. Returns true to save and stop. */
typedef bool (*pst_run_fn)(void *user, const pst_run_progress *progress);

/* The value that decides which checkpoint is the best, when `patience` ends a run, and PST_SCHEDULE_PLATEAU. */
typedef enum pst_monitor {
    PST_MONITOR_AUTO = 0,     /* The validation's loss, or the training loss where there is no validation. */
    PST_MONITOR_LOSS,         /* The training loss of an epoch. */
    PST_MONITOR_ACCURACY,     /* The training accuracy of an epoch. */
    PST_MONITOR_VAL_LOSS,     /* The validation's loss. */
    PST_MONITOR_VAL_ACCURACY, /* The validation's accuracy; more is better, as for AUC, F1 and R². */
    PST_MONITOR_VAL_AUC,      /* The validation's area under the ROC curve. */
    PST_MONITOR_VAL_F1,       /* The validation's F1 score. */
    PST_MONITOR_VAL_MAE,      /* The validation's mean absolute error. */
    PST_MONITOR_VAL_R2        /* The validation's R². */
} pst_monitor;

typedef struct pst_teacher pst_teacher;

/* How a teacher is opened. A member that is 0 has its default. */
typedef struct pst_teacher_options {
    size_t size;             /* sizeof(pst_teacher_options). */
    unsigned threads;        /* Threads; 0: one per core. Does not affect the result. */
    const char *checkpoint;  /* Of a run folder: "best", "latest" or a number of steps; NULL: best if there is one, otherwise latest. */
    const char *const *features; /* Layers of the teacher whose values guide the student's, in the order of the trainer's `features`. */
    size_t feature_count;    /* The number of these layers. */
    const char *cache;       /* The folder for computed logits where they cannot lie beside the shards; NULL: they are kept in memory. */
    bool no_cache;           /* Compute the logits of every batch. */
    bool (*progress)(void *user, uint64_t done, uint64_t total); /* Called while logits are computed ahead; returns true to stop. NULL: none. */
    void *user;              /* Handed to `progress`. */
} pst_teacher_options;
/* Opens a teacher: everything that pst_predictor_open opens, or an .npy file with a row of logits for each element of the training data
 * in the order of its source. The logits of a pipeline without random augmentation are computed once, and stored beside its shards under a
 * hash of data, pipeline and teacher. */
PST_API pst_status pst_teacher_open(pst_teacher **ret, const char *path, const pst_teacher_options *options, pst_error *reterr);
/* Frees the teacher and returns NULL. `t` may be NULL. */
PST_API pst_teacher *pst_teacher_destroy(pst_teacher *t);
/* Returns the shape of the values of feature `i`; the rank is 0 where there is none. */
PST_API pst_shape pst_teacher_feature(const pst_teacher *t, size_t i);

/* A run: epochs over a pipeline. */
typedef struct pst_run_options {
    size_t size;              /* sizeof(pst_run_options). */
    uint64_t epochs;          /* Epochs; 0: as many as `steps` takes. */
    uint64_t steps;           /* Updates at most; 0: any number. */
    uint64_t steps_per_epoch; /* An epoch ends after this many steps; 0: with the pipeline's epoch. */
    const pst_fields *fields; /* The fields of the training pipeline. */
    const char *out;          /* The run folder; NULL: nothing is saved. */
    bool resume;              /* Continue from the newest sound checkpoint in `out`. */
    unsigned keep;            /* Checkpoints kept besides the best; 0: 2. */
    uint64_t save_every;      /* Steps between checkpoints; 0: only at the end of each epoch. */
    unsigned patience;        /* Validations (epochs where there is none) without an improvement of the monitored value after which the
                                 run stops; 0: any number. */
    pst_monitor monitor;      /* The monitored value. */
    uint64_t validate_every;  /* Steps between validations; 0: after each epoch. A run ends with a validation. */
    pst_teacher *teacher;     /* What the model learns from besides the targets; NULL: nothing. It must outlive the run. */
    const char *weight_field; /* Field of the training pipeline with one weight per sample; NULL: none. */
    const char *const *arguments; /* The command line, recorded for a resume; NULL: none. */
    size_t argument_count;    /* The number of arguments. */
    const char *folder;       /* The folder that relative paths in the command start from, recorded; NULL: none. */
    const char *pipeline;     /* The text of the training pipeline, recorded; NULL: none. */
    const char *validation;   /* The text of the validation pipeline, recorded; NULL: none. */
    const char *const *classes; /* Names of the classes, recorded; NULL: none. */
    size_t class_count;       /* The number of names. */
    pst_run_fn progress;      /* Called after every step; NULL: none. */
    void *user;               /* Handed to `progress`. */
} pst_run_options;

/* How a run ended. */
typedef struct pst_run_result {
    size_t size;            /* sizeof(pst_run_result), set by the caller. */
    uint64_t best_step;     /* The step of the best checkpoint; 0: none. */
    double best_loss;       /* Its monitored value. */
    bool stopped;           /* Whether `progress` asked to stop. */
    bool early;             /* Whether `patience` ended the run. */
    pst_run_progress last;  /* The last progress. It grows, so it stays the last member. */
} pst_run_result;

/* Trains. The monitored loss is the validation's, or the training loss where `validation` is NULL. With `out`, checkpoints are written
 * to OUT/step_NNNNNNNN, and OUT/latest and OUT/best are links to them. A run that is resumed continues bit-identically. */
PST_API pst_status pst_trainer_run(pst_trainer *t, pst_pipeline *training, pst_pipeline *validation, const pst_run_options *options,
                                   pst_run_result *ret, pst_error *reterr);

/* A search for the learning rate: it rises from step to step, and the loss shows where learning begins and where it breaks down. */
typedef struct pst_rate_options {
    size_t size;              /* sizeof(pst_rate_options). */
    const pst_fields *fields; /* The fields of the pipeline. */
    double low, high;         /* The first and the last rate; 0: 1e-7 and 10. */
    uint64_t steps;           /* Steps from `low` to `high`; 0: 100. */
    const char *page;         /* An HTML page with the curve; NULL: none. */
    pst_run_fn progress;      /* Called after every step; NULL: none. */
    void *user;               /* Handed to `progress`. */
} pst_rate_options;

/* The result of a search. */
typedef struct pst_rate_result {
    size_t size;            /* sizeof(pst_rate_result), set by the caller. */
    size_t count;           /* Steps that were made: the search ends when the loss explodes. */
    double *rates, *losses; /* One per step; losses are smoothed. Free both with pst_free. */
    double suggested;       /* The rate where the loss falls fastest, once it has begun to fall; NaN: it fell no deeper than its noise. */
    double lowest;          /* The rate of the lowest loss. */
} pst_rate_result;
/* Trains `t` with rising rates on the batches of `p`, repeating it as needed. The trainer's weights are worthless afterwards.
 * PST_ECANCELLED: `progress` asked to stop. */
PST_API pst_status pst_trainer_find_rate(pst_trainer *t, pst_pipeline *p, const pst_rate_options *options, pst_rate_result *ret,
                                         pst_error *reterr);

/* Facts that a checkpoint stores about its run. */
typedef struct pst_run_record {
    size_t size;             /* sizeof(pst_run_record). */
    char *folder;            /* The folder of the checkpoint. */
    uint64_t step, epoch;    /* When it was written. */
    char **arguments;        /* The command line. */
    size_t argument_count;   /* The number of arguments. */
    char *start;             /* The folder that relative paths in the command start from; NULL: not recorded. */
    char *instructions;      /* pst_trainer_instructions of the run; NULL: not recorded. */
    unsigned threads;        /* Threads of the step; 0: not recorded. */
    char *kernels;           /* pst_trainer_kernels of the run; NULL: not recorded. */
    unsigned batches_per_step; /* Batches per update: `accumulate` times the ranks of the run. */
    char *model;             /* The text of the model. */
    pst_shape input;         /* The shape of its input. */
    char *pipeline;          /* The text of the training pipeline; NULL: not recorded. */
    char *validation;        /* The text of the validation pipeline; NULL: none. */
    char *input_field;       /* The field of the input; NULL: not recorded. */
    char *target_field;      /* The field of the target; NULL: not recorded. */
    pst_loss loss;           /* The loss. */
    char **classes;          /* Names of the classes. */
    size_t class_count;      /* The number of names; 0: not known. */
    bool foreign;            /* Read from an ONNX file: `pipeline` comes from its author. Use its preprocessing only; never run it as a source of data. */
} pst_run_record;
/* Returns whether `model` names a run folder, a checkpoint folder or an ONNX file, here or in an object store; false: it is the text of a model. The
 * name of a preset is a text, whatever folders there are. */
PST_API bool pst_run_record_is(const char *model);
/* Reads the record of `path`: a checkpoint folder, an ONNX file, or a run folder, where `which` is "best", "latest" or a number of steps (NULL: best
 * if there is one, otherwise latest). */
PST_API pst_status pst_run_record_read(pst_run_record **ret, const char *path, const char *which, pst_error *reterr);
/* Frees the record and returns NULL. `r` may be NULL. */
PST_API pst_run_record *pst_run_record_destroy(pst_run_record *r);

#ifdef __cplusplus
}
#endif
#endif
