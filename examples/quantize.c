/* quantize.c: makes an int8 model from a trained run, and says what that costs.
 *
 *     cc quantize.c -o quantize $(pkg-config --cflags --libs penstock)
 *     ./quantize runs/first runs/first-int8 && penstock predict runs/first-int8 photos/
 *
 * Samples for the ranges come from the run's own training pipeline; both models are evaluated on its validation pipeline. A third argument
 * names the calibration: minmax, percentile, entropy or mse. */
#include <penstock/penstock.h>
#include <stdio.h>
#include <string.h>

static int fail(const pst_error *error)
{
    char text[512];
    fprintf(stderr, "%s\n", pst_error_text(error, text, sizeof(text)));
    return 1;
}

static pst_calibration calibration_of(const char *name)
{
    static const char *const names[] = {"auto", "minmax", "percentile", "entropy", "mse"};
    for (int i = 0; i < 5; i++)
        if (strcmp(names[i], name) == 0)
            return (pst_calibration)i;
    return PST_CALIBRATION_AUTO;
}

/* Prints one line: accuracy, loss and bytes. */
static pst_status report(const char *name, const pst_network *n, const char *pipeline, pst_error *error)
{
    pst_pipeline *p = NULL;
    pst_evaluation e = {.size = sizeof(e)};
    pst_network_info info = {.size = sizeof(info)};
    pst_status st = pst_network_describe(n, &info, error);
    if (st == PST_OK)
        st = pst_pipeline_parse(&p, pipeline, &(pst_pipeline_options){.size = sizeof(pst_pipeline_options)}, error);
    if (st == PST_OK)
        st = pst_network_evaluate(n, p, NULL, 0, &e, error);
    if (st == PST_OK)
        printf("%-8s accuracy %.2f %%, loss %.4f, %llu bytes of weights\n", name, 100 * e.accuracy, e.loss, (unsigned long long)info.weight_bytes);
    pst_free(e.confusion);
    pst_pipeline_destroy(p);
    return st;
}

int main(int argc, char **argv)
{
    pst_error error;
    pst_network *n = NULL, *small = NULL;
    pst_pipeline *samples = NULL;
    pst_quantize_options o = {.size = sizeof(o), .calibration = argc > 3 ? calibration_of(argv[3]) : PST_CALIBRATION_AUTO};
    if (argc < 3) {
        fprintf(stderr, "usage: quantize RUN OUT [minmax|percentile|entropy|mse]\n");
        return 2;
    }
    pst_status st = pst_network_open(&n, argv[1], NULL, &error);
    const pst_run_record *r = st == PST_OK ? pst_network_record(n) : NULL;
    if (r && (!r->pipeline || !r->validation))
        st = pst_fail(&error, PST_EUNSUPPORTED, "the run has no pipelines for training and validation");
    if (st == PST_OK)
        st = pst_pipeline_parse(&samples, r->pipeline, &(pst_pipeline_options){.size = sizeof(pst_pipeline_options)}, &error);
    if (st == PST_OK)
        st = pst_quantize(&small, n, samples, &o, &error);
    if (st == PST_OK)
        st = report("float32", n, r->validation, &error);
    if (st == PST_OK)
        st = report("int8", small, r->validation, &error);
    if (st == PST_OK)
        st = pst_network_save(small, argv[2], true, &error);
    pst_pipeline_destroy(samples);
    pst_network_destroy(small);
    pst_network_destroy(n);
    return st < 0 ? fail(&error) : 0;
}
