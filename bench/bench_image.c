/* bench_image.c: what an image costs on its way into a batch, on one core, and where the time goes.
 *
 *     bench_image [--rounds N] [--images N] FOLDER        the images in it
 *     bench_image --psnr [--rounds N] [--images N] FOLDER how far fast is from exact, crops as in training
 *
 * From bytes in memory into the slots of batches of 64, the operations fused as the engine fuses them. Every round runs each
 * case over all images, so that noise of the machine meets all of them; printed are best, median and worst. The cases of the
 * training chain build on each other: a step costs what it adds to the one before, and crops are the same in all of them. */
#include "flow/node.h"
#include "ops/ctx.h"
#include "ops/spec_memory.h"
#include "ops/image/image_source.h"
#include "ops/op_list.h"

#include <dirent.h>
#include <math.h>
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
#define MAX_PARTS  8

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

/* ---- Running a chain ---- */

struct runner {
    struct chain chain;
    const pst_op_class *op;
    void *config, *worker;
    void *program; /* the config, where operations are fused */
    struct arena specs;
    pst_spec out;
    pst_ctx ctx;
};

static uint8_t *batches;

static void runner_init(struct runner *r, const char *text, uint64_t epoch)
{
    struct image_part parts[MAX_PARTS];
    static const pst_field image = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1};
    const pst_spec in = {.count = 1, .field = &image};
    pst_error error;
    *r = (struct runner){.ctx = {.seed = 1, .epoch = epoch}};
    if (chain_parse(&r->chain, text, &error) < 0)
        die(text, &error);
    for (size_t i = 0; i < r->chain.count; i++)
        parts[i] = (struct image_part){op_decl_of(r->chain.nodes[i].op), r->chain.nodes[i].config, r->chain.nodes[i].ordinal};
    if (r->chain.count > 1 && image_program_create(&r->program, parts, r->chain.count, false, &error) < 0)
        die(text, &error);
    r->op = r->program ? &op_image_program : r->chain.nodes[0].op;
    r->config = r->program ? r->program : r->chain.nodes[0].config;
    r->worker = calloc(1, r->op->worker_size);
    if (!r->worker || spec_init(&r->out, &r->specs, 1, &error) < 0 || r->op->plan(r->config, &in, &r->out, &error) < 0 ||
        r->op->start(r->config, r->worker, &error) < 0)
        die(text, &error);
}

static void runner_finish(struct runner *r)
{
    r->op->stop(r->config, r->worker);
    free(r->worker);
    image_program_free(r->program);
    arena_finish(&r->specs);
    arena_finish(&r->ctx.scratch);
    chain_finish(&r->chain);
}

/* One image; the result is where `out.data` says, or the worker's. */
static pst_tensor run_image(struct runner *r, const pst_bytes *bytes, size_t number, void *to)
{
    const pst_field *f = &r->out.field[0];
    pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = (void *)bytes}, out = {.dtype = f->dtype, .rank = 3};
    pst_error error;
    memcpy(out.shape, f->shape, sizeof(out.shape));
    if (f->shape[1] == SIDE)
        out.data = to;
    r->ctx.sample = number;
    arena_reset(&r->ctx.scratch);
    if (r->op->run(r->config, r->worker, &r->ctx, &in, &out, &error) < 0)
        die("run:", &error);
    return out;
}

static void run_chain(const char *text, const struct photos *photos, uint64_t epoch)
{
    struct runner r;
    runner_init(&r, text, epoch);
    for (size_t i = 0; i < photos->count; i++)
        run_image(&r, &photos->bytes[i], i, batches + i % (BATCH * BATCHES) * SIDE * SIDE * 3 * sizeof(float));
    runner_finish(&r);
}

/* The rectangles of random_resized_crop, decoded and nothing else: pixels, or planes. */
static void run_crops(const char *text, const struct photos *photos, uint64_t epoch)
{
    struct runner r;
    pst_error error;
    runner_init(&r, text, epoch);
    const struct decode_config *decode = r.chain.nodes[0].config;
    const struct node *crop = &r.chain.nodes[1];
    for (size_t i = 0; i < photos->count; i++) {
        pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &photos->bytes[i]};
        struct image_source source;
        struct image_planes planes;
        struct geometry g;
        pst_image pixels;
        r.ctx.sample = i;
        ctx_enter(&r.ctx, crop->ordinal);
        if (image_source_open(&source, decode, r.worker, &r.ctx, &in, &error) < 0 ||
            image_op_geometry(&op_random_resized_crop, crop->config, &r.ctx, source.info.width, source.info.height, &g,
                              &error) < 0)
            die("open:", &error);
        const struct region part = {(uint32_t)g.x, (uint32_t)g.y, g.cut_width, g.cut_height};
        pst_status st =
            decode->quality == QUALITY_EXACT ? PST_EUNSUPPORTED : image_source_planes(&source, &part, 8, true, &planes, &error);
        if (st == PST_EUNSUPPORTED)
            st = image_source_pixels(&source, &part, &pixels, &error);
        if (st < 0)
            die("decode:", &error);
    }
    runner_finish(&r);
}

/* ---- Cases ---- */

static const struct {
    const char *name, *text;
    void (*run)(const char *text, const struct photos *photos, uint64_t epoch);
    bool step; /* adds to the one before */
} cases[] = {
    {"whole images", "decode", run_chain, false},
    {"exact: crops", "decode quality=exact | random_resized_crop 224", run_crops, false},
    {"  resized to 224", "decode quality=exact | random_resized_crop 224", run_chain, true},
    {"  flipped, normalised", "decode quality=exact | random_resized_crop 224 | flip | normalize imagenet", run_chain, true},
    {"  as planes", "decode quality=exact | random_resized_crop 224 | flip | normalize imagenet | layout nchw", run_chain,
     true},
    {"fast: crops", "decode | random_resized_crop 224", run_crops, false},
    {"  resized to 224", "decode | random_resized_crop 224", run_chain, true},
    {"  flipped, normalised", "decode | random_resized_crop 224 | flip | normalize imagenet", run_chain, true},
    {"  as planes", "decode | random_resized_crop 224 | flip | normalize imagenet | layout nchw", run_chain, true},
    {"eval: 256, centre 224", "decode | resize short=256 | center_crop 224 | normalize imagenet", run_chain, false},
    {"directory: 224, float32", "decode | resize 224 bilinear | cast f32", run_chain, false},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

/* ---- Quality ---- */

static double psnr(const uint8_t *a, const uint8_t *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * (double)n / sum) : 99;
}

static void print_psnr(const struct photos *photos, int rounds)
{
    const size_t size = (size_t)SIDE * SIDE * 3;
    static const char *const methods[] = {"antialias", "bilinear", "bicubic", "area"};
    printf("%zu images, %d crops each to %d x %d, fast against exact\n%-10s %8s %8s %8s\n", photos->count, rounds, SIDE, SIDE,
           "method", "mean dB", "minimum", "equal");
    for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
        double sum = 0, least = 1e9;
        size_t count = 0, equal = 0;
        for (int epoch = 0; epoch < rounds; epoch++) {
            struct runner exact, fast;
            char text[128];
            snprintf(text, sizeof(text), "decode quality=exact | random_resized_crop 224 method=%s", methods[m]);
            runner_init(&exact, text, (uint64_t)epoch);
            snprintf(text, sizeof(text), "decode quality=fast | random_resized_crop 224 method=%s", methods[m]);
            runner_init(&fast, text, (uint64_t)epoch);
            for (size_t i = 0; i < photos->count; i++) {
                run_image(&exact, &photos->bytes[i], i, batches);
                run_image(&fast, &photos->bytes[i], i, batches + size);
                double db = psnr(batches, batches + size, size);
                sum += db;
                least = db < least ? db : least;
                equal += db == 99;
                count++;
            }
            runner_finish(&exact);
            runner_finish(&fast);
        }
        printf("%-10s %8.2f %8.2f %8zu\n", methods[m], sum / (double)count, least, equal);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(const struct photos *photos, int rounds)
{
    static double seconds[CASES][MAX_ROUNDS];
    for (int round = -1; round < rounds; round++) /* the first one warms up */
        for (size_t c = 0; c < CASES; c++) {
            double start = now();
            cases[c].run(cases[c].text, photos, (uint64_t)(round + 1));
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
        if (cases[c].step)
            printf(" %+10.1f", (median - before) / n * 1e6);
        printf("\n");
        before = median;
    }
}

int main(int argc, char **argv)
{
    const char *folder = NULL;
    size_t images = SIZE_MAX;
    int rounds = 7;
    bool quality = false;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--images") == 0)
            images = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--psnr") == 0)
            quality = true;
        else
            folder = argv[i];
    }
    if (!folder || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: bench_image [--psnr] [--rounds 1..%d] [--images N] FOLDER\n", MAX_ROUNDS);
        return 2;
    }
    struct photos photos = read_photos(folder, images);
    batches = aligned_alloc(64, (size_t)BATCHES * BATCH * SIDE * SIDE * 3 * sizeof(float));
    if (!batches)
        die("out of memory", NULL);
    if (quality)
        print_psnr(&photos, rounds);
    else
        bench(&photos, rounds);
    free(batches);
    for (size_t i = 0; i < photos.count; i++)
        free((void *)photos.bytes[i].data);
    free(photos.bytes);
    return 0;
}
