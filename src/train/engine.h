/* engine.h: a trainer's predictions by the inference engine. */
#ifndef TRAIN_ENGINE_H
#define TRAIN_ENGINE_H

#include "train/trainer.h"
#include <penstock/predict.h>

/* Computes the model's result for the samples of `input`, without an ending that the loss contains. The engine is planned for the weights
 * that the trainer evaluates with, and anew when they have changed. */
pst_status engine_predict(pst_trainer *t, const pst_tensor *input, float *out, pst_error *reterr);

#endif
