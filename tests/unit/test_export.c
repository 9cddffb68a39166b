/* test_export.c: pst_trainer_export: the weights of a trainer as files, read back. */
#include "config.h"
#include "harness.h"
#include <penstock/export.h>

#ifdef HAVE_HDF5
#define H5_USE_110_API
#include <hdf5.h>
#endif

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

#ifdef HAVE_HDF5

static void put_array(hid_t file, const char *name, const float *values, int rank, const hsize_t *dims)
{
    hid_t groups = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(rank, dims, NULL);
    H5Pset_create_intermediate_group(groups, 1);
    hid_t d = H5Dcreate2(file, name, H5T_IEEE_F64BE, space, groups, H5P_DEFAULT, H5P_DEFAULT); /* another type, which is converted */
    CHECK(d >= 0 && H5Dwrite(d, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(d), H5Sclose(space), H5Pclose(groups);
}

/* The parameters of `t` as Keras and PyTorch name and arrange them; `channels` of the convolution. */
static void put_weights(const char *path, pst_trainer *t, bool torch, hsize_t channels)
{
    static const char *const names[2][8] = {
        {"layers/conv2d/vars/0", "layers/conv2d/vars/1", "layers/batch_normalization/vars/0", "layers/batch_normalization/vars/1",
         "layers/batch_normalization/vars/2", "layers/batch_normalization/vars/3", "layers/dense/vars/0", "layers/dense/vars/1"},
        {"stem.conv.weight", "stem.conv.bias", "stem.norm.weight", "stem.norm.bias", "stem.norm.running_mean", "stem.norm.running_var",
         "head.weight", "head.bias"}};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const float *kernel = pst_trainer_values(t, 0), *dense = pst_trainer_values(t, 6);
    float turned[108], rows[12];
    for (int i = 0; i < 108; i++) /* (3, 3, 3, 4) to (4, 3, 3, 3) */
        turned[(i % 4 * 3 + i / 4 % 3) * 9 + i / 12] = kernel[i];
    for (int i = 0; i < 12; i++)
        rows[i % 3 * 4 + i / 3] = dense[i];
    if (torch)
        put_array(file, names[1][0], turned, 4, (const hsize_t[]){channels, 3, 3, 108 / 9 / channels});
    else
        put_array(file, names[0][0], kernel, 4, (const hsize_t[]){3, 3, 108 / 9 / channels, channels});
    for (size_t i = 1; i < 6; i++)
        put_array(file, names[torch][i], pst_trainer_values(t, i), 1, (const hsize_t[]){4});
    put_array(file, names[torch][6], torch ? rows : dense, 2, torch ? (const hsize_t[]){3, 4} : (const hsize_t[]){4, 3});
    put_array(file, names[torch][7], pst_trainer_values(t, 7), 1, (const hsize_t[]){3});
    put_array(file, "optimizer/vars/0", kernel, 1, (const hsize_t[]){108});
    H5Fclose(file);
}

static void weights_of_others_are_read(void)
{
    pst_error error = {0};
    pst_model *model = NULL;
    REQUIRE_OK(pst_model_parse(&model, text, &(pst_shape){.rank = 3, .size = {8, 8, 3}}, &error), &error);
    pst_trainer *a = trainer(model, 1, 0);
    REQUIRE(a);
    for (size_t i = 0; i < 8; i++)
        pst_trainer_values(a, i)[1] += 0.25f * (float)(i + 1); /* not what a fresh model has */
    for (int torch = 0; torch < 2; torch++) {
        pst_trainer *b = trainer(model, 2, 0);
        size_t loaded = 0;
        put_weights(test_path("w.h5"), a, torch, 4);
        CHECK_STATUS(pst_trainer_load_weights(b, test_path("w.h5"), &loaded, &error), PST_OK, &error);
        CHECK_INT(loaded, 8);
        CHECK_MSG(same_values(model, a, b), "torch %d", torch);
        put_weights(test_path("w.h5"), a, torch, 6);
        CHECK_STATUS(pst_trainer_load_weights(b, test_path("w.h5"), &loaded, &error), PST_ETYPE, &error);
        CHECK_MSG(strstr(error.message, "the file belongs to another model"), "%s", error.message);
        pst_trainer_destroy(b);
    }
    test_write_file(test_path("broken.h5"), "\x89HDF\r\n\x1a\n and nothing else", 26);
    CHECK_STATUS(pst_trainer_load_weights(a, test_path("broken.h5"), NULL, &error), PST_ECORRUPT, &error);
    pst_trainer_destroy(a);
    pst_model_destroy(model);
}

#else

static void weights_of_others_are_read(void)
{
}

#endif

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){
                         {"weights read back", weights_read_back}, {"names choose the format", names_choose_the_format},
                         {"weights of other programs are read", weights_of_others_are_read}, {0}});
}
