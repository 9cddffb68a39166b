/* setups.c: see setups.h. */
#include "doctor/setups.h"

#include "harness.h"

#include <errno.h>
#include <penstock/example.h>
#include <penstock/image.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- Data ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static uint8_t *encode(uint32_t size, bool png, uint32_t seed, size_t *ret_length)
{
    pst_image image;
    uint8_t *data = NULL;
    pst_error error = {0};
    if (pst_image_create(&image, size, size, 3, &error) < 0)
        abort();
    for (uint32_t y = 0; y < size; y++)
        for (uint32_t x = 0; x < size * 3; x++) /* soft shapes and some noise, as photos have */
            image.pixels[y * image.stride + x] = (uint8_t)(128 + 100 * ((x / 24 + y / 16 + seed) % 2) - 50 + next_random(&seed) % 12);
    if (pst_image_encode(&data, ret_length, &image, png ? PST_IMAGE_PNG : PST_IMAGE_JPEG, NULL, &error) < 0)
        abort();
    pst_image_finish(&image);
    return data;
}

void setup_images(const char *folder, unsigned count, uint32_t size, bool png)
{
    char path[700];
    mkdir(folder, 0755);
    for (unsigned c = 0; c < 2; c++) {
        snprintf(path, sizeof(path), "%s/%c", folder, 'a' + (int)c);
        mkdir(path, 0755);
        for (unsigned i = 0; i < count; i++) {
            size_t length;
            uint8_t *data = encode(size, png, i * 2 + c, &length);
            snprintf(path, sizeof(path), "%s/%c/%05u.%s", folder, 'a' + (int)c, i, png ? "png" : "jpg");
            test_write_file(path, data, length);
            pst_free(data);
        }
    }
}

static void write_example(pst_writer *w, pst_builder *b)
{
    pst_bytes record;
    if (pst_builder_finish(b, &record, NULL) < 0 || pst_writer_write(w, record.data, record.length, NULL) < 0)
        abort();
    pst_builder_reset(b);
}

void setup_lumps(const char *path, unsigned count, uint32_t size, uint32_t lump)
{
    pst_writer_options o = {.size = sizeof(o), .no_sync = true};
    pst_writer *w = NULL;
    pst_builder *b = NULL;
    size_t length[2];
    uint8_t *data[2] = {encode(size, true, 1, &length[0]), encode(lump, true, 2, &length[1])};
    if (pst_writer_open(&w, path, &o, NULL) < 0 || pst_builder_create(&b, NULL) < 0)
        abort();
    for (unsigned i = 0; i < count; i++) {
        pst_bytes image = {.data = data[i % 8 == 7], .length = length[i % 8 == 7]};
        pst_builder_add_bytes(b, "image", &image, 1, NULL);
        write_example(w, b);
    }
    pst_writer_commit(w, NULL);
    pst_writer_close(w);
    pst_builder_destroy(b);
    pst_free(data[0]);
    pst_free(data[1]);
}

void setup_shard(const char *path, unsigned count, uint32_t size, size_t extra, pst_compression compression)
{
    pst_writer_options o = {.size = sizeof(o), .compression = compression, .no_sync = true};
    pst_writer *w = NULL;
    pst_builder *b = NULL;
    uint32_t seed = 1;
    uint8_t *blob = malloc(extra + 1);
    if (!blob || pst_writer_open(&w, path, &o, NULL) < 0 || pst_builder_create(&b, NULL) < 0)
        abort();
    for (unsigned i = 0; i < count; i++) {
        size_t length;
        uint8_t *data = encode(size, false, i, &length);
        pst_bytes image = {.data = data, .length = length}, more = {.data = blob, .length = extra};
        int64_t label = i % 2;
        for (size_t k = 0; k < extra; k++)
            blob[k] = (uint8_t)next_random(&seed);
        pst_builder_add_bytes(b, "image", &image, 1, NULL);
        pst_builder_add_int64s(b, "label", &label, 1, NULL);
        if (extra)
            pst_builder_add_bytes(b, "extra", &more, 1, NULL);
        write_example(w, b);
        pst_free(data);
    }
    pst_writer_commit(w, NULL);
    pst_writer_close(w);
    pst_builder_destroy(b);
    free(blob);
}

void setup_copies(const char *path, unsigned count, uint32_t size, unsigned distinct)
{
    pst_writer_options o = {.size = sizeof(o), .no_sync = true};
    pst_writer *w = NULL;
    pst_builder *b = NULL;
    size_t length;
    uint8_t *data = encode(size, false, 1, &length);
    if (pst_writer_open(&w, path, &o, NULL) < 0 || pst_builder_create(&b, NULL) < 0)
        abort();
    for (unsigned i = 0; i < count; i++) {
        pst_bytes image = {.data = data, .length = length};
        int64_t label = i % distinct;
        pst_builder_add_bytes(b, "image", &image, 1, NULL);
        pst_builder_add_int64s(b, "label", &label, 1, NULL);
        write_example(w, b);
    }
    pst_writer_commit(w, NULL);
    pst_writer_close(w);
    pst_builder_destroy(b);
    pst_free(data);
}

void setup_floats(const char *path, unsigned count, size_t floats, pst_compression compression)
{
    pst_writer_options o = {.size = sizeof(o), .compression = compression, .no_sync = true};
    pst_writer *w = NULL;
    pst_builder *b = NULL;
    uint32_t seed = 1;
    float *x = calloc(floats, sizeof(*x));
    if (!x || pst_writer_open(&w, path, &o, NULL) < 0 || pst_builder_create(&b, NULL) < 0)
        abort();
    for (unsigned i = 0; i < count; i++) {
        int64_t label = i % 2;
        for (size_t k = 0; k < floats; k++)
            x[k] = (float)next_random(&seed) / 16777216;
        pst_builder_add_floats(b, "x", x, floats, NULL);
        pst_builder_add_int64s(b, "label", &label, 1, NULL);
        write_example(w, b);
    }
    pst_writer_commit(w, NULL);
    pst_writer_close(w);
    pst_builder_destroy(b);
    free(x);
}

/* ---- Operations ---- */

struct config {
    uint64_t us;
};

static const pst_param params[] = {{.name = "us", .kind = PST_PARAM_UINT, .offset = offsetof(struct config, us), .doc = "microseconds"}, {0}};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static pst_status plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    (void)config;
    (void)reterr;
    pst_spec_pass(in, out);
    int i = pst_spec_find(in, "image");
    i = i < 0 ? 0 : i;
    pst_spec_read(out, (size_t)i);
    pst_spec_write(out, (size_t)i);
    return PST_OK;
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void burn(uint64_t us)
{
    volatile uint64_t x = 1;
    for (uint64_t end = thread_ns() + us * 1000; thread_ns() < end;)
        for (int i = 0; i < 2000; i++)
            x = x * 6364136223846793005u + 1;
}

static void nap(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static size_t bytes_of(const pst_tensor *t)
{
    size_t n = pst_dtype_size(t->dtype);
    for (uint32_t i = 0; i < t->rank; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* The field that is written is the one that is not an alias. */
static pst_status copy(pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, size_t at)
{
    size_t n = bytes_of(&in[at]);
    if (!out[at].data) {
        out[at] = in[at];
        out[at].data = pst_scratch(ctx, n);
    }
    if (!out[at].data)
        return PST_ENOMEM;
    memcpy(out[at].data, in[at].data, n);
    return PST_OK;
}

static pst_status run_burn(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    (void)reterr;
    burn(((const struct config *)config)->us);
    return copy(ctx, in, out, 0);
}

static pst_status run_locked(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    (void)reterr;
    pthread_mutex_lock(&lock);
    burn(((const struct config *)config)->us);
    pthread_mutex_unlock(&lock);
    return copy(ctx, in, out, 0);
}

static pst_status run_nap(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    (void)reterr;
    nap(((const struct config *)config)->us);
    return copy(ctx, in, out, 0);
}

/* Other bytes in each epoch. */
static pst_status run_noise(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    pst_status st = run_burn(config, worker, ctx, in, out, reterr);
    if (st == PST_OK && bytes_of(&out[0]) > 0)
        ((uint8_t *)out[0].data)[0] = (uint8_t)pst_random(ctx);
    return st;
}

#define OP(op_name, function)                                                                                                                        \
    {.size = sizeof(pst_op_class), .name = op_name, .doc = "For tests.", .params = params, .config_size = sizeof(struct config), .plan = plan, .run = function}
#define RANDOM_OP(op_name, function)                                                                                                                 \
    {.size = sizeof(pst_op_class), .name = op_name, .doc = "For tests.", .params = params, .config_size = sizeof(struct config), .plan = plan,       \
     .run = function, .flags = PST_OP_RANDOM}
static const pst_op_class classes[] = {RANDOM_OP("noise", run_noise),
                                       OP("burn", run_burn), OP("locked", run_locked), OP("nap", run_nap), OP("python", run_locked),
                                       OP("sleepy", run_nap), OP("cv2", run_burn)};

/* ---- A slow source ---- */

static const pst_field fields[] = {{.name = "x", .dtype = PST_DTYPE_F32, .rank = 1, .shape = {16}, .alias = -1}};

struct pass {
    uint64_t us, left;
    float x[16];
};

static pst_status open_pass(void *user, void **ret_pass, pst_error *reterr)
{
    struct pass *p = calloc(1, sizeof(*p));
    (void)reterr;
    if (!p)
        return PST_ENOMEM;
    p->us = (uint64_t)(uintptr_t)user;
    p->left = 2000;
    *ret_pass = p;
    return PST_OK;
}

static pst_status next_element(void *pass, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct pass *p = pass;
    (void)ctx;
    (void)reterr;
    if (p->left-- == 0)
        return PST_END;
    nap(p->us);
    if (out[0].data)
        memcpy(out[0].data, p->x, sizeof(p->x));
    else
        out[0].data = p->x;
    return PST_OK;
}

static pst_status add(void *user, pst_pipeline *p, const char *stage, pst_error *reterr)
{
    char name[32] = "";
    unsigned long us = 0;
    (void)user;
    if (sscanf(stage, "%31s %lu", name, &us) < 1)
        return pst_fail(reterr, PST_EINVAL, "no such operation");
    if (strcmp(name, "source") == 0) {
        pst_generator g = {.size = sizeof(g), .spec = {.count = 1, .field = fields}, .open = open_pass, .next = next_element, .close = free,
                           .user = (void *)(uintptr_t)us};
        return pst_pipeline_add_generator(p, &g, reterr);
    }
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (strcmp(classes[i].name, name) == 0)
            return pst_pipeline_add_op(p, &classes[i], &(struct config){.us = us}, reterr);
    return pst_fail(reterr, PST_EINVAL, "no operation is called %s", name);
}

static pst_custom_kind kind(void *user, const char *stage)
{
    (void)user;
    return strncmp(stage, "python", 6) == 0 || strncmp(stage, "cv2", 3) == 0 || strncmp(stage, "sleepy", 6) == 0 ? PST_CUSTOM_PYTHON
                                                                                                                 : PST_CUSTOM_NATIVE;
}

const pst_doctor_customs setup_customs = {.size = sizeof(pst_doctor_customs), .add = add, .kind = kind};
