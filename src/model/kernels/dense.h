/* dense.h: products of matrices for dense layers, over a range of the inputs: x (n × k), kernel (k × co), gradient g (n × co).
 *
 * A range of the inputs needs that range of the kernel only, so a kernel that does not fit into a cache is read once per pass.
 * One thread, no allocation; pitches in floats. */
#ifndef MODEL_KERNELS_DENSE_H
#define MODEL_KERNELS_DENSE_H

#include <stdbool.h>
#include <stddef.h>

#define DENSE_PANEL 16

struct dense_job {
    size_t n, k, co;
    const float *kernel; /* k × co */
    const float *x;      /* n × k */
    size_t x_pitch;
    const float *g;      /* n × co, without gaps */
};

struct dense_kernels {
    size_t (*scratch_bytes)(size_t n, size_t co); /* aligned to 64 bytes */
    /* sum += x · kernel, as [⌈co / 16⌉][n][16] */
    void (*forward)(const struct dense_job *j, float *sum, void *scratch);
    /* dx (n × k) = [dx +] g · kernelᵀ */
    void (*data)(const struct dense_job *j, bool adds, float *dx, size_t pitch, void *scratch);
    /* The same in two steps, for callers that take some samples at a time: the kernel turned around (`turned_floats`), then dx of j->n
     * samples from it; j->kernel is not read. */
    size_t (*turned_floats)(size_t inputs, size_t co);
    void (*turn)(const float *kernel, size_t inputs, size_t co, float *turned);
    void (*data_turned)(const struct dense_job *j, bool adds, const float *turned, float *dx, size_t pitch);
    /* gradient (k × co) = xᵀ · g */
    void (*weights)(const struct dense_job *j, float *gradient, void *scratch);
};

static inline size_t dense_panels(size_t co)
{
    return (co + DENSE_PANEL - 1) / DENSE_PANEL;
}

/* NULL: none for these CPU features (enum cpu_feature). */
const struct dense_kernels *dense_kernels(unsigned features);

#endif
