/* export.c: the weights that evaluation uses, as a file for other programs. */
#include <penstock/export.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "export/onnx.h"
#include "export/safetensors.h"
#include "io/publish.h"
#include "train/trainer.h"

#include <string.h>
#include <strings.h>

static bool ends_with(const char *s, const char *end)
{
    size_t length = strlen(s), n = strlen(end);
    return length > n && strcasecmp(s + length - n, end) == 0;
}

static pst_status choose_format(pst_export_format *format, const char *path, pst_error *reterr)
{
    if (*format == PST_EXPORT_AUTO)
        *format = ends_with(path, ".onnx")          ? PST_EXPORT_ONNX
                  : ends_with(path, ".safetensors") ? PST_EXPORT_SAFETENSORS
                                                    : PST_EXPORT_AUTO;
    if (*format == PST_EXPORT_ONNX || *format == PST_EXPORT_SAFETENSORS)
        return PST_OK;
    return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "the name should end with .onnx or .safetensors");
}

static pst_status write_safetensors(struct text *to, const struct graph *g, const float *params, pst_error *reterr)
{
    struct safetensor *list = mem_array(g->param_count + 1, sizeof(*list));
    for (size_t i = 0; list && i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        list[i] = (struct safetensor){
            .name = p->name, .dtype = "F32", .rank = p->layer.rank, .count = p->count, .data = params + p->offset};
        for (uint32_t k = 0; k < p->layer.rank; k++)
            list[i].shape[k] = p->layer.shape[k];
    }
    if (list)
        safetensors_write(to, list, g->param_count);
    bool whole = list && !to->failed;
    mem_free(list);
    return whole ? PST_OK : fail_memory(reterr, "exporting safetensors");
}

pst_status pst_trainer_export(pst_trainer *t, const char *path, const pst_export_options *options, pst_error *reterr)
{
    pst_export_options given = {0}, *o = &given;
    const float *mean = optimizer_state(t->optimizer, 2), *params = mean ? mean : t->params;
    struct text file = {0};
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    pst_export_format format = o->format;
    if (st == PST_OK)
        st = choose_format(&format, path, reterr);
    if (st == PST_OK && format == PST_EXPORT_ONNX)
        st = onnx_write(&file, t->model->graph, params,
                        &(struct onnx_options){.nhwc = o->nhwc,
                                               .classes = o->classes,
                                               .class_count = o->class_count,
                                               .preprocessing = o->preprocessing,
                                               .model = pst_model_text(t->model)},
                        reterr);
    else if (st == PST_OK)
        st = write_safetensors(&file, t->model->graph, params, reterr);
    if (st == PST_OK)
        st = publish_bytes(path, file.data, file.length, o->overwrite, true, reterr);
    text_finish(&file);
    return st;
}
