/* trainer.h: the inside of a trainer, for checkpoints and runs. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "model/model.h"
#include "model/step.h"
#include "model/tap.h"
#include "train/fake_quant.h"
#include "train/loss.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/profile.h"
#include "train/prune.h"
#include "train/ranks.h"
#include "train/schedule.h"
#include <penstock/predict.h>

#include <stdbool.h>
#include <stdint.h>

/* The factor that keeps small gradients within the range of float16, by the rules of Keras: it starts at 2^15 and is
 * doubled after 2000 steps in a row with finite gradients; where a gradient is not finite, the update is left out and it is halved. */

#define LOSS_SCALE_START  32768.0
#define LOSS_SCALE_GROWTH 2000 /* finite steps in a row */
#define LOSS_SCALE_LEAST  0x1p-24 /* Keras has no limit; below this one a run would go on without ever learning */

struct loss_scale {
    double factor;    /* 1: not scaled */
    uint64_t finite;  /* steps in a row */
    uint64_t skipped; /* updates that were left out */
};

/* After the gradients of a step are known: whether to apply them. */
static inline bool loss_scale_judge(struct loss_scale *s, bool finite)
{
    if (!finite) {
        s->factor /= 2;
        s->finite = 0;
        s->skipped++;
        return false;
    }
    if (++s->finite == LOSS_SCALE_GROWTH) {
        s->factor *= 2;
        s->finite = 0;
    }
    return true;
}

struct pst_trainer {
    const pst_model *model;
    pst_train_options options; /* defaults filled in; `freeze` is not kept */
    struct step *step;
    struct optimizer *optimizer;
    struct prune *prune;  /* NULL: nothing is pruned */
    struct fake_quant *fake; /* NULL: weights are not rounded */
    size_t width;         /* results per sample */
    float *params, *grads;
    float *dout;          /* batch × width */
    int64_t *labels;      /* batch */
    float *values;        /* batch × width: targets */
    uint64_t steps;       /* updates so far */
    struct schedule_state schedule;
    double gradient_norm; /* of the last update */
    struct loss_scale scale;
    double *class_weights; /* NULL: none */
    float *weights;       /* batch: of the samples, class weights included */
    uint64_t accumulated; /* batches since the last update */
    uint64_t accumulated_samples;
    char **classes;       /* names of the classes, saved with the weights */
    size_t class_count;
    const char *instructions; /* name of the instruction set */
    struct graph *tapped; /* the graph of the step where it has taps; NULL: the model's */
    struct tap *taps;     /* one per feature */
    struct shape *feature_shapes; /* of the teacher's values */
    float **extras;       /* gradients that enter at the taps */
    struct text kernels;  /* the kernel of each shape of convolution */
    struct profile profile;
    uint64_t marks[PARTS + 1]; /* times within the step at hand, while measuring */
    struct ranks *ranks;  /* NULL: one process adds in the order of its batches */
    size_t computed;      /* samples that the gradients are the mean of */
    struct pst_predictor *predictor; /* of pst_trainer_predict; NULL: none yet */
    uint64_t predictor_hash;         /* of the weights that it has */
};

/* Batches per update, of all ranks. */
static inline uint64_t trainer_batches_per_step(const pst_trainer *t)
{
    return (uint64_t)t->options.accumulate * (t->ranks ? t->ranks->size : 1);
}
/* Makes a model of `text` and a trainer with the values `params` of its graph. */
pst_status trainer_of_text(pst_trainer **ret, pst_model **ret_model, const char *text, const struct shape *input, const float *params,
                           const pst_train_options *options, pst_error *reterr);
/* The targets of a batch as the loss takes them. */
pst_status trainer_target(pst_trainer *t, const pst_tensor *target, size_t n, struct loss_target *ret, pst_error *reterr);
/* The taps at the layers that a teacher guides: before the step is made, and after it is destroyed. */
pst_status trainer_make_taps(pst_trainer *t, pst_error *reterr);
void trainer_finish_taps(pst_trainer *t);
pst_status trainer_check_teacher(const pst_trainer *t, const pst_samples *samples, pst_error *reterr);
/* The loss with what the teacher says; `t->dout` and the taps get its gradient. */
double trainer_learn(pst_trainer *t, const pst_samples *samples, const float *out, const float *weights, size_t n, double plain);
/* Forward without training, with the weights that evaluation uses: `*ret` is n × width logits. */
pst_status trainer_infer(pst_trainer *t, const pst_tensor *input, const float **ret, pst_error *reterr);
/* pst_trainer_evaluate that leaves results and targets for further metrics. */
pst_status trainer_evaluate(pst_trainer *t, const pst_samples *samples, pst_step_result *ret, const float **ret_out,
                            struct loss_target *ret_target, pst_error *reterr);

/* A trainer's predictions by the inference engine. */

/* Computes the model's result for the samples of `input`, without an ending that the loss contains. The engine is planned for the weights
 * that the trainer evaluates with, and anew when they have changed. */
pst_status engine_predict(pst_trainer *t, const pst_tensor *input, float *out, pst_error *reterr);

#endif
