/* train.c: trains a small network on the images of shards, and says how good it is.
 *
 *     cc train.c -o train $(pkg-config --cflags --libs penstock)
 *     penstock pack photos/ shards/ && ./train shards/ */
#include <penstock/penstock.h>
#include <stdio.h>

static bool show(void *user, const pst_run_progress *p)
{
    (void)user;
    if (p->epoch_end)
        printf("epoch %llu: loss %.4f, %.0f images/s, waiting %.0f %%\n", (unsigned long long)p->epoch, p->loss, p->samples_per_second,
               100 * p->wait_share);
    return false; /* true would save and stop */
}

static int fail(const pst_error *error)
{
    char text[512];
    fprintf(stderr, "%s\n", pst_error_text(error, text, sizeof(text)));
    return 1;
}

int main(int argc, char **argv)
{
    const char *shards = argc > 1 ? argv[1] : "shards/";
    char text[512];
    pst_error error;
    pst_pipeline *data = NULL;
    pst_model *model = NULL;
    pst_trainer *trainer = NULL;
    pst_fields fields = {.size = sizeof(fields)};
    pst_evaluation result = {.size = sizeof(result)};
    pst_pipeline_options po = {.size = sizeof(po), .seed = 1};

    snprintf(text, sizeof(text), "tfrecord \"%s\" | shuffle | example | decode | resize 32 | normalize imagenet | batch 32", shards);
    pst_status st = pst_pipeline_parse(&data, text, &po, &error);
    if (st == PST_OK)
        st = pst_fields_find(data, NULL, NULL, true, &fields, &error);
    if (st == PST_OK)
        st = pst_model_parse(&model, "conv 16 3 relu | maxpool 2 | conv 32 3 relu | maxpool 2 | flatten | dense 4", &fields.shape, &error);
    pst_train_options to = {.size = sizeof(to), .batch = fields.batch, .loss = PST_LOSS_SPARSE, .rate = 2e-3, .seed = 1};
    if (st == PST_OK)
        st = pst_trainer_create(&trainer, model, &to, &error);
    pst_run_options ro = {.size = sizeof(ro), .epochs = 6, .fields = &fields, .progress = show};
    if (st == PST_OK)
        st = pst_trainer_run(trainer, data, NULL, &ro, NULL, &error);
    if (st == PST_OK)
        st = pst_trainer_evaluate_pipeline(trainer, data, &fields, &result, &error);
    if (st == PST_OK)
        printf("%.1f %% of %llu images are right\n", 100 * result.accuracy, (unsigned long long)result.samples);
    pst_free(result.confusion);
    pst_trainer_destroy(trainer);
    pst_model_destroy(model);
    pst_pipeline_destroy(data);
    return st < 0 ? fail(&error) : 0;
}
