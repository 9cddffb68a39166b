/* test_export.c: pst_trainer_export: the weights of a trainer as files, read back. */
#include "harness.h"
#include <penstock/export.h>

#include <stdlib.h>
#include <string.h>

static const char text[] = "conv 4 3 | batchnorm | relu | globalavgpool | dense 3";

static pst_trainer *trainer(const pst_model *model, uint64_t seed, double ema)
{
    pst_error error = {0};
    pst_trainer *t = NULL;
    pst_train_options o = {.size = sizeof(o), .batch = 4, .threads = 1, .seed = seed, .loss = PST_LOSS_SPARSE, .ema = ema};
    CHECK_STATUS(pst_trainer_create(&t, model, &o, &error), PST_OK, &error);
    return t;
}

static bool same_values(const pst_model *model, pst_trainer *a, pst_trainer *b)
{
    pst_model_param p = {.size = sizeof(p)};
    bool same = true;
    for (size_t i = 0; pst_model_param_at(model, i, &p); i++)
        same &= memcmp(pst_trainer_values(a, i), pst_trainer_values(b, i), p.count * sizeof(float)) == 0;
    return same;
}

static void weights_read_back(void)
{
    pst_error error = {0};
    pst_model *model = NULL;
    size_t loaded = 0;
    REQUIRE_OK(pst_model_parse(&model, text, &(pst_shape){.rank = 3, .size = {8, 8, 3}}, &error), &error);
    for (int ema = 0; ema < 2; ema++) {
        pst_trainer *a = trainer(model, 1, ema * 0.5), *b = trainer(model, 2, 0);
        pst_export_options o = {.size = sizeof(o), .overwrite = true};
        REQUIRE(a && b);
        CHECK(!same_values(model, a, b));
        CHECK_STATUS(pst_trainer_export(a, test_path("w.safetensors"), &o, &error), PST_OK, &error);
        CHECK_STATUS(pst_trainer_load_weights(b, test_path("w.safetensors"), &loaded, &error), PST_OK, &error);
        CHECK_INT(loaded, 8);
        CHECK(same_values(model, a, b));
        pst_trainer_values(a, 0)[0] += 1; /* the mean of the weights, where there is one, stays */
        CHECK_STATUS(pst_trainer_export(a, test_path("w.safetensors"), &o, &error), PST_OK, &error);
        CHECK_STATUS(pst_trainer_load_weights(b, test_path("w.safetensors"), NULL, &error), PST_OK, &error);
        CHECK(same_values(model, a, b) == (ema == 0));
        pst_trainer_destroy(a);
        pst_trainer_destroy(b);
    }
    pst_model_destroy(model);
}

static void names_choose_the_format(void)
{
    pst_error error = {0};
    pst_model *model = NULL;
    size_t length;
    REQUIRE_OK(pst_model_parse(&model, text, &(pst_shape){.rank = 3, .size = {8, 8, 3}}, &error), &error);
    pst_trainer *t = trainer(model, 1, 0);
    REQUIRE(t);
    CHECK_STATUS(pst_trainer_export(t, test_path("m.onnx"), NULL, &error), PST_OK, &error);
    CHECK_STATUS(pst_trainer_export(t, test_path("m.onnx"), NULL, &error), PST_EEXIST, &error);
    CHECK_STATUS(pst_trainer_export(t, test_path("m.pb"), NULL, &error), PST_EINVAL, &error);
    CHECK(strstr(error.message, ".onnx") != NULL);
    CHECK_STATUS(pst_trainer_export(t, test_path("m.pb"),
                                    &(pst_export_options){.size = sizeof(pst_export_options), .format = PST_EXPORT_ONNX},
                                    &error),
                 PST_OK, &error);
    uint8_t *a = test_read_file(test_path("m.onnx"), &length), *b = test_read_file(test_path("m.pb"), &length);
    CHECK(memcmp(a, b, length) == 0 && memmem(a, length, text, strlen(text)) != NULL);
    free(a);
    free(b);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){
                         {"weights read back", weights_read_back}, {"names choose the format", names_choose_the_format}, {0}});
}
