/* bench_image.c: what an image costs on its way into a batch, on one core, and where the time goes.
 *
 *     bench_image [--rounds N] [--images N] FOLDER        the JPEG files in it
 *
 * random_resized_crop 224 + flip + normalize to float32, from bytes in memory into the slots of a batch of 64. Every round runs
 * each case over all images, so that noise of the machine meets all of them; printed are best, median and worst. The cases
 * build on each other: a step costs what it adds to the one before. Crops are the same in every case. */
#include "codec/region.h"
#include "ops/ctx.h"
#include "ops/image_op.h"

#include <dirent.h>
#include <penstock/image.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MAX_ROUNDS 100
#define SIDE       224
#define BATCH      64
#define BATCHES    8 /* that take turns, as in a running pipeline */

struct photos {
    pst_bytes *bytes;
    size_t count;
};

static void die(const char *what, const pst_error *error)
{
    char text[512] = "";
    if (error)
        pst_error_text(error, text, sizeof(text));
    fprintf(stderr, "%s %s\n", what, text);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what others do on the machine counts less */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Photos ---- */

static bool read_photo(const char *path, pst_bytes *ret)
{
    struct stat about;
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    uint8_t *data = fstat(fileno(f), &about) == 0 && S_ISREG(about.st_mode) ? malloc((size_t)about.st_size + 1) : NULL;
    size_t length = data ? fread(data, 1, (size_t)about.st_size, f) : 0;
    pst_image_info info;
    fclose(f);
    if (!data || pst_image_probe(data, length, &info, NULL) < 0) {
        free(data);
        return false;
    }
    *ret = (pst_bytes){.data = data, .length = length};
    return true;
}

static struct photos read_photos(const char *folder, size_t most)
{
    struct dirent **names;
    struct photos p = {0};
    int n = scandir(folder, &names, NULL, alphasort);
    if (n < 0)
        die("cannot list the folder", NULL);
    p.bytes = calloc((size_t)n + 1, sizeof(*p.bytes));
    for (int i = 0; p.bytes && i < n; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        if (p.count < most && read_photo(path, &p.bytes[p.count]))
            p.count++;
        free(names[i]);
    }
    free(names);
    if (!p.count)
        die("no images there", NULL);
    return p;
}

/* ---- The chain ---- */

enum { DECODE, CROP, FLIP, NORMALIZE, PARTS };

struct rig {
    struct image_part parts[PARTS];
    void *program, *worker;
    pst_spec out;
    pst_ctx ctx;
    float *batches;
};

/* Parameters by name, as the language would set them. */
static void set(const pst_op_class *op, void *config, const char *name, const void *value, size_t size)
{
    for (const pst_param *p = op->params; p->name; p++)
        if (strcmp(p->name, name) == 0)
            memcpy((char *)config + p->offset, value, size);
}

static void add_part(struct rig *r, int i, const pst_op_class *op)
{
    static const char field[] = "image", *name = field;
    void *config = calloc(1, op->config_size);
    if (!config)
        die("out of memory", NULL);
    set(op, config, "field", &name, sizeof(name));
    r->parts[i] = (struct image_part){.op = op, .config = config, .ordinal = (uint32_t)i};
}

static void rig_init(struct rig *r)
{
    const pst_floats scale = {2, {0.08, 1}}, ratio = {2, {3.0 / 4, 4.0 / 3}};
    const pst_size2d size = {SIDE, 0};
    const uint64_t channels = 3;
    const char *shape = "";
    const double p = 0.5;
    const int imagenet = 2;
    pst_error error;
    *r = (struct rig){.ctx = {.seed = 1}};
    add_part(r, DECODE, &op_decode);
    set(&op_decode, (void *)r->parts[DECODE].config, "channels", &channels, sizeof(channels));
    set(&op_decode, (void *)r->parts[DECODE].config, "shape", &shape, sizeof(shape));
    add_part(r, CROP, &op_random_resized_crop.op);
    set(&op_random_resized_crop.op, (void *)r->parts[CROP].config, "size", &size, sizeof(size));
    set(&op_random_resized_crop.op, (void *)r->parts[CROP].config, "scale", &scale, sizeof(scale));
    set(&op_random_resized_crop.op, (void *)r->parts[CROP].config, "ratio", &ratio, sizeof(ratio));
    add_part(r, FLIP, &op_flip.op);
    set(&op_flip.op, (void *)r->parts[FLIP].config, "p", &p, sizeof(p));
    add_part(r, NORMALIZE, &op_normalize);
    set(&op_normalize, (void *)r->parts[NORMALIZE].config, "range", &imagenet, sizeof(imagenet));
    r->worker = calloc(1, op_image_program.worker_size);
    r->batches = aligned_alloc(64, (size_t)BATCHES * BATCH * SIDE * SIDE * 3 * sizeof(float));
    if (!r->worker || !r->batches)
        die("out of memory", NULL);
    (void)error;
}

/* The first `count` parts as one program. */
static void rig_use(struct rig *r, size_t count)
{
    pst_spec in = {.count = 1, .field = {{.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1}}};
    pst_error error;
    if (image_program_create(&r->program, r->parts, count, &error) < 0 ||
        op_image_program.plan(r->program, &in, &r->out, &error) < 0 || op_image_program.start(r->program, r->worker, &error) < 0)
        die("program:", &error);
}

static void rig_drop(struct rig *r)
{
    op_image_program.stop(r->program, r->worker);
    image_program_free(r->program);
}

static void run_program(struct rig *r, const struct photos *photos, size_t parts, bool into_batch)
{
    pst_error error;
    rig_use(r, parts);
    for (size_t i = 0; i < photos->count; i++) {
        pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &photos->bytes[i]};
        pst_tensor out = {.dtype = r->out.field[0].dtype, .rank = 3};
        r->ctx.sample = i;
        if (into_batch) {
            memcpy(out.shape, r->out.field[0].shape, sizeof(out.shape));
            out.data = (uint8_t *)(r->batches + i % (BATCH * BATCHES) * SIDE * SIDE * 3);
        }
        if (op_image_program.run(r->program, r->worker, &r->ctx, &in, &out, &error) < 0)
            die("run:", &error);
        arena_reset(&r->ctx.scratch);
    }
    rig_drop(r);
}

/* ---- Cases ---- */

static void run_whole(struct rig *r, const struct photos *photos)
{
    run_program(r, photos, 1, false);
}

/* The same rectangles as in the program, decoded and nothing else. */
static void run_region(struct rig *r, const struct photos *photos)
{
    struct region_decoder d;
    struct region_options options = decode_options(r->parts[DECODE].config);
    pst_error error;
    if (region_decoder_init(&d, &options, &error) < 0)
        die("decoder:", &error);
    for (size_t i = 0; i < photos->count; i++) {
        const pst_bytes *b = &photos->bytes[i];
        struct region_info info;
        struct geometry g;
        pst_image pixels;
        r->ctx.sample = i;
        ctx_enter(&r->ctx, CROP);
        if (region_probe(&d, b->data, b->length, &info, &error) < 0 ||
            op_random_resized_crop.geometry(r->parts[CROP].config, &r->ctx, info.width, info.height, &g, &error) < 0)
            die("probe:", &error);
        struct region part = {(uint32_t)g.x, (uint32_t)g.y, g.cut_width, g.cut_height};
        if (region_decode(&d, b->data, b->length, &info, &part, &pixels, &error) < 0)
            die("decode:", &error);
    }
    region_decoder_finish(&d);
}

static void run_resized(struct rig *r, const struct photos *photos)
{
    run_program(r, photos, 2, true);
}

static void run_all(struct rig *r, const struct photos *photos)
{
    run_program(r, photos, PARTS, true);
}

static const struct {
    const char *name;
    void (*run)(struct rig *r, const struct photos *photos);
} cases[] = {
    {"whole images decoded", run_whole},
    {"their crops decoded", run_region},
    {"… and resized to 224", run_resized},
    {"… flipped, normalised", run_all},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(struct rig *r, const struct photos *photos, int rounds)
{
    static double seconds[CASES][MAX_ROUNDS];
    for (int round = -1; round < rounds; round++) /* the first one warms up */
        for (size_t c = 0; c < CASES; c++) {
            double start = now();
            r->ctx.epoch = (uint64_t)(round + 1);
            cases[c].run(r, photos);
            if (round >= 0)
                seconds[c][round] = now() - start;
        }
    double n = (double)photos->count, before = 0;
    printf("%zu images, %d rounds, one core\n%-26s %24s %12s %10s\n", photos->count, rounds, "", "img/s best median worst",
           "\xc2\xb5s median", "step");
    for (size_t c = 0; c < CASES; c++) {
        double *t = seconds[c];
        qsort(t, (size_t)rounds, sizeof(*t), by_value);
        double median = t[rounds / 2];
        printf("%-26s %10.0f %6.0f %6.0f %11.1f", cases[c].name, n / t[0], n / median, n / t[rounds - 1], median / n * 1e6);
        printf(c > 1 ? " %+10.1f\n" : "\n", (median - before) / n * 1e6);
        before = median;
    }
}

int main(int argc, char **argv)
{
    const char *folder = NULL;
    size_t images = SIZE_MAX;
    int rounds = 7;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--images") == 0)
            images = strtoull(argv[++i], NULL, 10);
        else
            folder = argv[i];
    }
    if (!folder || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_image [--rounds 1..%d] [--images N] FOLDER\n", MAX_ROUNDS);
        return 2;
    }
    struct photos photos = read_photos(folder, images);
    struct rig rig;
    rig_init(&rig);
    bench(&rig, &photos, rounds);
    arena_finish(&rig.ctx.scratch);
    free(rig.batches);
    free(rig.worker);
    for (int i = 0; i < PARTS; i++)
        free((void *)rig.parts[i].config);
    for (size_t i = 0; i < photos.count; i++)
        free((void *)photos.bytes[i].data);
    free(photos.bytes);
    return 0;
}
