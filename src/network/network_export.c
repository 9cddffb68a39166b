/* network_export.c: networks as files for other programs. */
#include "network/network.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "export/onnx.h"
#include "export/stored_weights.h"
#include "io/publish.h"

#include <string.h>
#include <strings.h>

static bool ends_with(const char *s, const char *end)
{
    size_t length = strlen(s), n = strlen(end);
    return length > n && strcasecmp(s + length - n, end) == 0;
}

pst_status pst_network_export(const pst_network *n, const char *path, const pst_export_options *options, pst_error *reterr)
{
    const pst_run_record *r = n->record;
    pst_export_options given = {0}, *o = &given;
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st < 0)
        return st;
    if (!options)
        given = (pst_export_options){.classes = r->class_count ? (const char *const *)r->classes : NULL,
                                     .class_count = r->class_count,
                                     .preprocessing = r->validation ? r->validation : r->pipeline};
    bool onnx = o->format == PST_EXPORT_ONNX || (o->format == PST_EXPORT_AUTO && ends_with(path, ".onnx"));
    bool tensors = o->format == PST_EXPORT_SAFETENSORS || (o->format == PST_EXPORT_AUTO && ends_with(path, ".safetensors"));
    struct text file = {0};
    if (!onnx && !tensors)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "the name should end with .onnx or .safetensors");
    struct onnx_options to = {.nhwc = o->nhwc,
                              .classes = o->classes,
                              .class_count = o->class_count,
                              .preprocessing = o->preprocessing,
                              .model = pst_model_text(n->model),
                              .quant = n->quant};
    st = onnx ? onnx_write(&file, n->model->graph, n->params, &to, reterr)
                         : stored_write(&file, n->model->graph, n->params, PST_WEIGHTS_FLOAT32, NULL, false, reterr);
    if (st == PST_OK)
        st = publish_bytes(path, file.data, file.length, o->overwrite, true, reterr);
    text_finish(&file);
    return st;
}
