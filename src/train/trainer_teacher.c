/* trainer_teacher.c: what a trainer learns from a teacher: logits, and values at the taps of its step. */
#include "base/error.h"
#include "base/memory.h"
#include "train/distil.h"
#include "train/trainer.h"

#include <string.h>

pst_status trainer_make_taps(pst_trainer *t, pst_error *reterr)
{
    const pst_train_options *o = &t->options;
    size_t count = o->feature_count;
    if (count == 0)
        return PST_OK;
    pst_status st = graph_tap(&t->tapped, &t->taps, t->model->graph, o->features, count, reterr);
    if (st < 0)
        return st;
    t->feature_shapes = mem_array(count, sizeof(*t->feature_shapes));
    t->extras = mem_array(count, sizeof(*t->extras));
    if (!t->feature_shapes || !t->extras)
        return fail_memory(reterr, "making the trainer");
    for (size_t i = 0; i < count; i++) {
        const pst_shape *s = &o->feature_shapes[i];
        struct shape *to = &t->feature_shapes[i], *mine = &t->taps[i].shape;
        *to = s->rank == 3 ? (struct shape){3, s->size[0], s->size[1], s->size[2]} : (struct shape){1, 1, 1, s->size[0]};
        if (!distil_comparable(mine, to))
            return pst_fail(reterr, PST_EINVAL, "%.60s has results of %ux%ux%u, the teacher's layer of %ux%ux%u; expected the same height and width",
                            o->features[i], mine->h, mine->w, mine->c, to->h, to->w, to->c);
        size_t bytes;
        if (__builtin_mul_overflow(o->batch, shape_values(mine) * sizeof(float), &bytes))
            return pst_fail(reterr, PST_ELIMIT, "%zu samples are too many for a step: choose a smaller batch", o->batch);
        t->taps[i].copy = mem_large(bytes);
        t->taps[i].extra = t->extras[i] = mem_large(bytes);
        if (!t->taps[i].copy || !t->extras[i])
            return fail_memory(reterr, "making the trainer");
        memset(t->extras[i], 0, bytes);
    }
    return PST_OK;
}

void trainer_finish_taps(pst_trainer *t)
{
    for (size_t i = 0; i < t->options.feature_count; i++) {
        mem_free(t->taps ? t->taps[i].copy : NULL);
        mem_free(t->extras ? t->extras[i] : NULL);
    }
    graph_destroy(t->tapped);
    mem_free(t->taps);
    mem_free(t->extras);
    mem_free(t->feature_shapes);
}

double trainer_learn(pst_trainer *t, const pst_samples *samples, const float *out, const float *weights, size_t n, double plain)
{
    const pst_train_options *o = &t->options;
    struct distil_options d = {.kind = o->loss, .temperature = o->temperature, .alpha = o->alpha};
    double loss = samples->teacher ? distil_logits(&d, plain, out, samples->teacher, weights, n, t->width, t->dout) : plain;
    for (size_t i = 0; i < o->feature_count; i++)
        if (samples->features)
            loss += o->feature_weight * distil_feature(&t->taps[i].shape, &t->feature_shapes[i], t->taps[i].copy, samples->features[i], n,
                                                       o->feature_weight * t->scale.factor, t->extras[i]);
        else
            memset(t->extras[i], 0, n * shape_values(&t->taps[i].shape) * sizeof(float));
    return loss;
}

pst_status trainer_check_teacher(const pst_trainer *t, const pst_samples *samples, pst_error *reterr)
{
    if (samples->teacher && t->options.loss == PST_LOSS_CUSTOM)
        return pst_fail(reterr, PST_EINVAL, "a teacher's logits need a loss of this library; a loss function of one's own can use them itself");
    return PST_OK;
}
