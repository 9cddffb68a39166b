/* train_models.c: see train_models.h. */
#include "train_models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char s1[] = "conv 32 3 relu | maxpool 2 | flatten | dense 10";
static const char s2[] = "conv 32 3 relu pad=same | maxpool 2 | dwconv 3 relu pad=same | conv 64 1 relu | maxpool 2 | flatten | dense 10";

/* MobileNetV1 of half the width. */
static const char *mobilenet(unsigned classes)
{
    static char text[8192];
    static const int blocks[][2] = {{32, 1},  {64, 2},  {64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},
                                    {256, 1}, {256, 1}, {256, 1}, {256, 1}, {512, 2}, {512, 1}};
    int n = snprintf(text, sizeof(text), "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6");
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      " | dwconv 3 stride=%d pad=same bias=false | batchnorm | relu6 | conv %d 1 bias=false | batchnorm | relu6", blocks[i][1],
                      blocks[i][0]);
    snprintf(text + n, sizeof(text) - (size_t)n, " | globalavgpool | dense %u", classes);
    return text;
}

const char *train_model_text(const char *name, uint32_t *ret_side)
{
    bool large = strcmp(name, "S1") == 0 || strcmp(name, "S2") == 0, mobile = strcmp(name, "M") == 0 || strcmp(name, "E") == 0;
    *ret_side = large ? 224 : mobile ? 96 : 32;
    return strcmp(name, "S1") == 0   ? s1
           : strcmp(name, "S2") == 0 ? s2
           : strcmp(name, "S3") == 0 ? "cnn"
           : strcmp(name, "R") == 0  ? "resnet20"
           : strcmp(name, "M") == 0  ? mobilenet(TRAIN_CLASSES)
           : strcmp(name, "E") == 0  ? mobilenet(1000)
                                     : NULL;
}

static float uniform(uint32_t seed, uint32_t i)
{
    uint32_t x = i * 2654435761u + seed * 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    x ^= x >> 16;
    return (float)(x >> 8) / 16777216.0f;
}

/* Kernels are numbered in the order of the layers. */
void train_start_weights(const struct graph *g, float *params)
{
    uint32_t seed = 2;
    for (size_t i = 0; i < g->param_count; i++) {
        const struct layer_param *p = &g->params[i].layer;
        float *values = params + g->params[i].offset, limit = sqrtf(6.0f / (float)(p->fan_in + p->fan_out));
        if (p->init != INIT_GLOROT_UNIFORM)
            continue;
        for (size_t k = 0; k < g->params[i].count; k++)
            values[k] = (2 * uniform(seed, (uint32_t)k) - 1) * limit;
        seed++;
    }
}

void train_start_data(size_t batch, size_t values, float *images, int64_t *labels)
{
    for (size_t i = 0; i < batch * values; i++)
        images[i] = uniform(0, (uint32_t)i);
    for (size_t i = 0; i < batch; i++)
        labels[i] = (int64_t)(uniform(1, (uint32_t)i) * TRAIN_CLASSES);
}
