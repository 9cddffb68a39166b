/* i8.h: kernels on 8-bit integers, and the table of candidates for convolutions.
 *
 * Kernels know pointers and counts: one thread, no allocation. Images are NHWC without gaps. Every kernel computes the integers of
 * the reference (i8_c.c) exactly. Inputs and packed weights are readable for I8_SLACK bytes beyond their end. */
#ifndef QUANT_KERNELS_I8_H
#define QUANT_KERNELS_I8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define I8_SLACK 64

struct i8_shape {
    size_t size, stride, dilation, groups;
    size_t ci, co;
    bool depthwise; /* ci = co, one kernel per channel: HWC */
    int most;       /* no weight is larger in size */
    int64_t sum;    /* no output channel's weights have a larger sum of sizes */
};

/* Output rows [row, row_end) of each image. The window of output (0, 0) begins `top` rows above and `left` columns before pixel
 * (0, 0); pixels outside of in_h × in_w read as in_zero. */
struct i8_job {
    struct i8_shape shape;
    const uint8_t *in;
    size_t images, in_h, in_w, top, left;
    uint8_t in_zero;
    const void *weights;  /* packed */
    const int32_t *bias;  /* per output channel: as `pack` left it */
    const float *factors; /* per output channel */
    size_t h, w, row, row_end; /* of the output */
    uint8_t zero, low, high;   /* of the output */
    float least, most;         /* of a float output */
    uint8_t *out;              /* clamp(rint(acc · factor) + zero, low, high); NULL: to out_real */
    float *out_real;           /* clamp(acc · factor, least, most) */
};

struct i8_kernel {
    const char *name;
    size_t tile; /* rows of outputs that are computed together; 0: 1 */
    bool (*takes)(const struct i8_shape *s);
    size_t (*weights_bytes)(const struct i8_shape *s); /* of packed weights */
    size_t (*scratch_bytes)(const struct i8_job *j);   /* for any rows of such a job */
    /* `kernel` is HWIO, or HWC of a depthwise one. Changes `bias` to what the kernel adds: less in_zero · Σ weights where it
     * multiplies inputs as they are. */
    void (*pack)(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias);
    void (*conv)(const struct i8_job *j, void *scratch);
};

/* Candidate number `i` with these CPU features (base/cpu.h), in the order of preference; the last one is the reference, which
 * takes everything. NULL: there are no more. `small`: only those whose packed weights are about as large as the weights. */
const struct i8_kernel *i8_kernel_at(size_t i, unsigned features, bool small);

extern const struct i8_kernel i8_conv_c;
#ifdef __x86_64__
extern const struct i8_kernel i8_gemm_vnni, i8_depthwise3_vnni;
extern const struct i8_kernel i8_gemm7_avx2, i8_gemm8_avx2, i8_wino4_avx2, i8_depthwise3_avx2, i8_depthwise_avx2;
#endif

/* ---- The others ---- */

#define I8_MAX_TERMS 16

/* out = clamp(rint(Σ (in[k] − zeros[k]) · factors[k]) + zero, low, high), summed in order. */
struct i8_add {
    size_t terms;
    const uint8_t *in[I8_MAX_TERMS];
    uint8_t zeros[I8_MAX_TERMS];
    float factors[I8_MAX_TERMS];
    uint8_t zero, low, high;
};

/* Windows of size × size over rows [row, row_end) of each output image. */
struct i8_pool {
    size_t images, in_h, in_w, channels, size, stride, top, left;
    size_t h, w, row, row_end;
    const uint8_t *in;
    uint8_t *out;
    uint8_t in_zero, zero; /* averages; a maximum of nothing is in_zero */
    float in_scale, out_scale; /* averages */
    bool counts_padding;   /* averages: divide by size² always */
};

struct i8_kernels {
    void (*add)(const struct i8_add *a, size_t count, uint8_t *out);
    void (*maxpool)(const struct i8_pool *p);
    void (*globalavgpool)(const struct i8_pool *p); /* the mean over all pixels */
    void (*quantise)(const float *in, size_t count, float scale, uint8_t zero, uint8_t *out);
    void (*dequantise)(const uint8_t *in, size_t count, float scale, uint8_t zero, float *out);
};

void i8_kernels_init(struct i8_kernels *k, unsigned features);
void i8_kernels_c(struct i8_kernels *k);
#ifdef __x86_64__
void i8_kernels_avx2(struct i8_kernels *k);
void i8_kernels_avx512(struct i8_kernels *k);
#endif

void i8_avgpool(const struct i8_pool *p);

/* ---- What the kernels share ---- */

/* One integer of a result. */
uint8_t i8_requantise(int64_t acc, float factor, uint8_t zero, uint8_t low, uint8_t high);

#endif
