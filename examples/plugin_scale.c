/* plugin_scale.c: a plug-in with one operation: `scale_by FIELD FACTOR` multiplies a field of float32.
 *
 *     cc -shared -fPIC -O2 plugin_scale.c -o libscale.so $(pkg-config --cflags --libs penstock)
 *     penstock plan --plugin ./libscale.so "npy x.npy | scale_by x 0.5 | batch 4"
 *
 * Use this file as a template. */
#include <penstock/plugin.h>

struct config {
    const char *field;
    double factor;
    int number; /* of the field; noted by the plan */
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    struct config *c = config;
    c->number = pst_spec_find(in, c->field);
    if (c->number < 0)
        return pst_fail(reterr, PST_ENOTFOUND, "there is no field %s", c->field);
    if (in->field[c->number].dtype != PST_DTYPE_F32)
        return pst_fail(reterr, PST_ETYPE, "field %s is %s; expected float32", c->field,
                        pst_dtype_name(in->field[c->number].dtype));
    pst_spec_pass(in, out);
    pst_spec_read(out, (size_t)c->number);
    pst_spec_write(out, (size_t)c->number);
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    const pst_tensor *from = &in[c->number];
    pst_tensor *to = &out[c->number];
    size_t values = 1;
    (void)worker;
    for (uint32_t i = 0; i < from->rank; i++)
        values *= (size_t)from->shape[i];
    if (!to->data) { /* the shape varies: this element has its own */
        *to = *from;
        to->data = pst_scratch(ctx, values * sizeof(float));
        if (!to->data)
            return pst_fail(reterr, PST_ENOMEM, "out of memory for %zu values", values);
    }
    for (size_t i = 0; i < values; i++)
        ((float *)to->data)[i] = ((const float *)from->data)[i] * (float)c->factor;
    return PST_OK;
}

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct config, field), NULL, 0, 0, NULL, "the field"},
    {"factor", PST_PARAM_FLOAT, offsetof(struct config, factor), "1", -1e30, 1e30, NULL, "what it is multiplied with"},
    {0},
};

static const pst_op_class scale_by = {
    .size = sizeof(pst_op_class),
    .name = "scale_by",
    .doc = "Multiplies a field.",
    .example = "npy x.npy | scale_by x 0.5 | batch 4",
    .params = params,
    .config_size = sizeof(struct config),
    .plan = plan,
    .run = run,
};

static const pst_op_class *const ops[] = {&scale_by, NULL};

PST_PLUGIN const pst_plugin pst_plugin_entry = {
    .size = sizeof(pst_plugin), .abi = PST_PLUGIN_ABI, .name = "scale", .version = "1.0", .ops = ops};
