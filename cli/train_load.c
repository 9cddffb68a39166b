/* train_load.c: a trained model from its run folder, for eval and predict. */
#include "cli/say.h"
#include "cli/train.h"
#include <string.h>

int loaded_open(struct loaded *ret, const struct command *command, const char *path, const char *which, size_t batch, unsigned threads,
                bool json)
{
    pst_error error;
    pst_status status = pst_run_record_read(&ret->record, path, which, &error);

    if (status == PST_OK)
        status = pst_model_parse(&ret->model, ret->record->model, &ret->record->input, &error);
    if (status == PST_OK) {
        pst_train_options o = {.size = sizeof(o), .batch = batch, .threads = threads, .loss = ret->record->loss};

        status = pst_trainer_create(&ret->trainer, ret->model, &o, &error);
    }
    if (status == PST_OK)
        status = pst_trainer_load_weights(ret->trainer, ret->record->folder, NULL, &error);
    return status < 0 ? say_failure(command, &error, json) : EXIT_DONE;
}

void loaded_close(struct loaded *l)
{
    pst_trainer_destroy(l->trainer);
    pst_model_destroy(l->model);
    pst_run_record_destroy(l->record);
    memset(l, 0, sizeof(*l));
}

const char *class_name(const pst_run_record *r, size_t i, char buffer[CLASS_SIZE])
{
    if (i < r->class_count)
        return r->classes[i];
    snprintf(buffer, CLASS_SIZE, "%zu", i);
    return buffer;
}
