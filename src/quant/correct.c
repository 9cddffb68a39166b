/* correct.c: biases that make up for rounded weights.
 *
 * A result is off by Σ (rounded − weight) · input. Its mean over the samples is that sum with the mean of each input channel: borders,
 * where some taps read padding, count as any other pixel. */
#include "quant/calibrate.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

#define MOST_BIAS (1 << 30)

/* Input channels that one output channel reads per tap, and the first of them. */
static size_t channels_read(const struct graph_node *n, size_t values, size_t taps, size_t o, size_t *ret_first)
{
    size_t channels = n->out.c, inputs = values / taps / channels, groups = inputs ? n->in[0].c / inputs : 1;
    *ret_first = o / (channels / groups) * inputs;
    return inputs;
}

static void correct_layer(struct quant_model *q, size_t node, const float *kernel, const double *means)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct graph_param *p = &q->graph->params[n->first_param];
    struct quant_layer *l = &q->layers[node];
    bool depthwise = strcmp(n->layer->name, "dwconv") == 0;
    size_t channels = quant_channels(n), taps = p->layer.rank == 2 ? 1 : (size_t)p->layer.shape[0] * p->layer.shape[1];
    double in = q->values[n->input[0]].scale;
    for (size_t o = 0; o < channels; o++) {
        size_t first = o, inputs = depthwise ? 1 : channels_read(n, p->count, taps, o, &first);
        double error = 0;
        for (size_t tap = 0; tap < taps; tap++)
            for (size_t c = 0; c < inputs; c++) {
                size_t at = (tap * inputs + c) * channels + o;
                error += ((double)l->weights[at] * (double)l->weight_scale[o] - (double)kernel[at]) * means[first + c];
            }
        double bias = l->bias[o] - nearbyint(error / (in * l->weight_scale[o]));
        if (fabs(bias) < MOST_BIAS)
            l->bias[o] = (int32_t)bias;
    }
}

pst_status quant_correct_biases(struct quant_model *q, const struct quant_calibration *c, const float *params, pst_error *reterr)
{
    for (size_t i = 0; i < q->graph->count; i++) {
        const struct graph_node *n = &q->graph->nodes[i];
        if (!q->layers[i].weights || n->params < 2)
            continue; /* without a bias there is nothing that an exported model could hold */
        double *means = mem_array(n->in[0].c, sizeof(double));
        if (!means)
            return fail_memory(reterr, "quantising");
        quant_calibration_means(c, n->input[0], means);
        correct_layer(q, i, params + q->graph->params[n->first_param].offset, means);
        mem_free(means);
    }
    return PST_OK;
}
