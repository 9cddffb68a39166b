/* tuning.c: the file with the table of the fastest kernels. */
#include "base/cpu.h"
#include "base/error.h"
#include "base/options.h"
#include "io/publish.h"
#include "model/model.h"
#include "model/tune.h"

#include <penstock/train.h>

pst_status pst_model_tune(const pst_model *model, const char *path, const pst_tune_options *options, pst_error *reterr)
{
    pst_tune_options given = {0};
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st < 0)
        return st;
    options = &given;
    struct tune_options o = {.batch = options->batch ? options->batch : 64,
                             .threads = options->threads ? options->threads : cpu_cores(),
                             .features = cpu_features(),
                             .passes = options->passes,
                             .store = options->mixed == PST_MIXED_FLOAT16    ? NUMBER_F16
                                      : options->mixed == PST_MIXED_BFLOAT16 ? NUMBER_BF16
                                                                             : NUMBER_F32,
                             .progress = options->progress,
                             .user = options->user};
    struct text t = {0};
    text_addf(&t, "# Kernels for batches of %zu on %u threads, measured by penstock %s; milliseconds are of one layer, forward and backward.\n", o.batch,
              o.threads, pst_version());
    st = tune_kernels(model->graph, &o, &t, reterr);
    if (st == PST_OK)
        st = publish_bytes(path, t.data, t.length, true, false, reterr);
    text_finish(&t);
    return st;
}
