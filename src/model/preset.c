/* preset.c: see preset.h. */
#include "model/preset.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

#define MAX_CLASSES 1000000

static void cnn(struct text *t)
{
    text_add(t, "conv 32 3 relu pad=same | conv 32 3 relu pad=same | maxpool 2 | conv 64 3 relu pad=same | conv 64 3 relu pad=same | "
                "maxpool 2 | conv 128 3 relu pad=same | maxpool 2 | flatten");
}

static void separable(struct text *t)
{
    text_add(t, "conv 32 3 pad=same bias=false | batchnorm | relu");
    for (unsigned n = 64; n <= 256; n *= 2)
        text_addf(t, " | sepconv %u 3 pad=same bias=false | batchnorm | relu | maxpool 2", n);
    text_add(t, " | globalavgpool");
}

static void mobilenet(struct text *t)
{
    static const unsigned blocks[][2] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                                         {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
    text_add(t, "conv 32 3 stride=2 pad=same bias=false | batchnorm | relu6");
    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
        text_addf(t, " | dwconv 3 stride=%u pad=same bias=false | batchnorm | relu6 | conv %u 1 bias=false | batchnorm | relu6",
                  blocks[i][1], blocks[i][0]);
    text_add(t, " | globalavgpool");
}

/* `count` residual blocks of two convolutions; the first has the stride. */
static void stage(struct text *t, unsigned channels, unsigned stride, unsigned count)
{
    for (unsigned i = 0; i < 2 && count > i; i++) {
        unsigned repeat = i || stride == 1 ? count - i : 1;
        text_add(t, " | ");
        if (repeat > 1)
            text_addf(t, "repeat %u ( ", repeat);
        text_addf(t, "residual relu ( conv %u 3", channels);
        if (i == 0 && stride > 1)
            text_addf(t, " stride=%u", stride);
        text_addf(t, " pad=same bias=false | batchnorm | relu | conv %u 3 pad=same bias=false | batchnorm )", channels);
        if (repeat > 1)
            text_add(t, " )");
        if (stride == 1)
            return;
    }
}

static void resnet20(struct text *t)
{
    text_add(t, "conv 16 3 pad=same bias=false | batchnorm | relu");
    stage(t, 16, 1, 3);
    stage(t, 32, 2, 3);
    stage(t, 64, 2, 3);
    text_add(t, " | globalavgpool");
}

static void resnet18(struct text *t)
{
    text_add(t, "conv 64 7 stride=2 pad=3 bias=false | batchnorm | relu | maxpool 3 stride=2 pad=same");
    for (unsigned n = 64; n <= 512; n *= 2)
        stage(t, n, n == 64 ? 1 : 2, 2);
    text_add(t, " | globalavgpool");
}

static const struct {
    const char *name, *doc;
    void (*put)(struct text *t);
} presets[] = {
    {"cnn", "five 3×3 convolutions with pooling, for small images", cnn},
    {"separable", "separable convolutions with batch normalisation, for small images", separable},
    {"mobilenet", "MobileNetV1, for images of 96 to 224 pixels", mobilenet},
    {"resnet20", "ResNet-20 of the CIFAR experiments, for images of 32 pixels", resnet20},
    {"resnet18", "ResNet-18, for images of about 224 pixels", resnet18},
};
#define COUNT (sizeof(presets) / sizeof(presets[0]))

bool preset_at(size_t i, const char **ret_name, const char **ret_doc)
{
    if (i >= COUNT)
        return false;
    *ret_name = presets[i].name;
    *ret_doc = presets[i].doc;
    return true;
}

/* The number after the colon; 0: not a number of classes. */
static unsigned classes_of(const char *colon)
{
    unsigned n = 0;
    if (!colon)
        return 10;
    for (const char *s = colon + 1; *s; s++) {
        if (*s < '0' || *s > '9' || n > MAX_CLASSES)
            return 0;
        n = n * 10 + (unsigned)(*s - '0');
    }
    return n <= MAX_CLASSES ? n : 0;
}

pst_status preset_text(char **ret, const char *name, pst_error *reterr)
{
    const char *colon = strchr(name, ':');
    size_t n = colon ? (size_t)(colon - name) : strlen(name);
    struct text t = {0};
    for (size_t i = 0; i < COUNT; i++) {
        if (strlen(presets[i].name) != n || memcmp(presets[i].name, name, n) != 0)
            continue;
        unsigned classes = classes_of(colon);
        if (!classes)
            return pst_fail(reterr, PST_EINVAL, "preset %.60s: expected a number of classes from 1 to %d after the colon", name, MAX_CLASSES);
        presets[i].put(&t);
        text_addf(&t, " | dense %u", classes);
        if (t.failed) {
            text_finish(&t);
            return fail_memory(reterr, "writing a preset");
        }
        *ret = t.data;
        return PST_OK;
    }
    return pst_fail(reterr, PST_ENOTFOUND, "there is no preset %.60s; `penstock model --presets` lists them", name);
}

pst_status preset_expand(char **ret, const char *text, pst_error *reterr)
{
    size_t n = strcspn(text, ":");
    for (size_t i = 0; i < COUNT; i++)
        if (strlen(presets[i].name) == n && memcmp(presets[i].name, text, n) == 0)
            return preset_text(ret, text, reterr);
    char *same = mem_strdup(text);
    if (!same)
        return fail_memory(reterr, "building the model");
    *ret = same;
    return PST_OK;
}
