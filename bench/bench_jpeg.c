/* bench_jpeg.c: what decoding a JPEG costs, stage by stage, on one core; and whether our decoder has libjpeg-turbo's bits.
 *
 *     bench_jpeg [--rounds N] [--images N] [--only WORD] FILE|FOLDER…   microseconds an image: best and median round
 *     bench_jpeg --epochs N [--rounds N] [--images N] FILE|FOLDER…      microseconds a crop, epoch by epoch
 *     bench_jpeg --check [--images N] FILE|FOLDER…       coefficients, pixels, parts, points: every difference
 *
 * Folders are walked; files that are no JPEGs, or not of the kind that our decoder reads, are counted and left out. Every
 * round runs each case over all images. Crops are those of a random resized crop, the same in all cases; epochs have their own,
 * and keep points from one to the next as pipelines do where nothing is stored. */
#include "base/random.h"
#include "codec/image_codec.h"
#include "codec/jpeg/planes.h"
#include "codec/libjpeg.h"
#include "source/jpeg_points.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ROUNDS 200
#define MAX_EPOCHS 20

struct photo {
    uint8_t *data;
    size_t length;
    char *path;
    pst_image_info info;
    struct region crop;
    struct jpeg_points points;
};

static struct photo *photos;
static size_t count, capacity, most = SIZE_MAX, left_out;
static struct jpeg_decoder *decoder;

static void die(const char *what, const pst_error *error)
{
    char text[512] = "";
    if (error)
        pst_error_text(error, text, sizeof(text));
    fprintf(stderr, "%s %s\n", what, text);
    exit(1);
}

static void *need(void *p)
{
    if (!p)
        die("out of memory", NULL);
    return p;
}

/* ---- Files ---- */

/* torchvision's rule, roughly: an area of 8…100 %, sides 3:4…4:3. */
static struct region random_crop(uint32_t width, uint32_t height, uint64_t epoch, uint64_t number)
{
    struct random r;
    random_init(&r, 1, epoch, number, 0);
    for (int i = 0; i < 10; i++) {
        double area = (double)width * height * random_between(&r, 0.08, 1),
               ratio = exp(random_between(&r, log(0.75), log(4.0 / 3)));
        uint32_t w = (uint32_t)lround(sqrt(area * ratio)), h = (uint32_t)lround(sqrt(area / ratio));
        if (w >= 1 && h >= 1 && w <= width && h <= height)
            return (struct region){(uint32_t)random_below(&r, width - w + 1), (uint32_t)random_below(&r, height - h + 1), w, h};
    }
    return (struct region){0, 0, width, height};
}

static bool open_photo(struct photo *p)
{
    struct jpeg_frame frame;
    if (pst_image_probe(p->data, p->length, &p->info, NULL) < 0 ||
        jpeg_decoder_open(decoder, p->data, p->length, &frame, NULL) < 0)
        return false;
    size_t n = jpeg_points_count(decoder);
    struct jpeg_point *points = need(malloc(n * sizeof(*points)));
    if (jpeg_points_find(decoder, points, NULL) < 0) {
        free(points);
        return false;
    }
    p->points = (struct jpeg_points){
        .step = JPEG_POINT_STEP, .count = (uint32_t)n, .known = (uint32_t)n, .sound = true, .point = points};
    p->crop = random_crop(p->info.width, p->info.height, 0, count);
    return true;
}

static int add_file(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)where;
    if (kind != FTW_F || count >= most || about->st_size == 0)
        return 0;
    if (count == capacity)
        photos = need(realloc(photos, (capacity = 2 * capacity + 64) * sizeof(*photos)));
    struct photo *p = &photos[count];
    *p = (struct photo){
        .data = need(malloc((size_t)about->st_size)), .length = (size_t)about->st_size, .path = need(strdup(path))};
    FILE *f = fopen(path, "rb");
    if (!f || fread(p->data, 1, p->length, f) != p->length)
        die("cannot read", NULL);
    fclose(f);
    if (open_photo(p)) {
        count++;
    } else {
        left_out++;
        free(p->data);
        free(p->path);
    }
    return 0;
}

/* ---- Cases ---- */

static pst_decode_options decode_options = {.size = sizeof(decode_options), .channels = 3, .max_scans = PST_MAX_SCANS};
static struct region_memory memory;

static void turbo_part(const struct photo *p, const struct region *part, pst_image *ret)
{
    pst_error error;
    if (jpeg_read(ret, p->data, p->length, &p->info, part, &decode_options, &memory, &error) < 0)
        die(p->path, &error);
}

static void own_open(const struct photo *p)
{
    struct jpeg_frame frame;
    pst_error error;
    if (jpeg_decoder_open(decoder, p->data, p->length, &frame, &error) < 0)
        die(p->path, &error);
}

static void own_part(const struct photo *p, const struct region *part, struct jpeg_points *points, pst_image *ret)
{
    pst_error error;
    own_open(p);
    if (jpeg_decode_pixels(decoder, part, 3, points, ret, &error) < 0)
        die(p->path, &error);
}

static void own_planes(const struct photo *p, const struct region *part, struct jpeg_points *points)
{
    struct jpeg_plane planes[3];
    pst_error error;
    own_open(p);
    if (jpeg_decode_planes(decoder, part, 0, 8, points, planes, &error) < 0)
        die(p->path, &error);
}

static struct region whole(const struct photo *p)
{
    return (struct region){.width = p->info.width, .height = p->info.height};
}

static void case_turbo_entropy(const struct photo *p)
{
    struct jpeg_reader r;
    jpeg_reader_init(&r, PST_MAX_SCANS);
    if (setjmp(r.trouble.jump))
        die(p->path, NULL);
    jpeg_reader_open(&r, p->data, p->length);
    jpeg_read_coefficients(&r.info);
    jpeg_destroy_decompress(&r.info);
}

static void case_turbo_whole(const struct photo *p)
{
    pst_image image;
    struct region part = whole(p);
    turbo_part(p, &part, &image);
}

static void case_turbo_crop(const struct photo *p)
{
    pst_image image;
    turbo_part(p, &p->crop, &image);
}

static void case_open(const struct photo *p)
{
    own_open(p);
}

static void case_skip(const struct photo *p)
{
    own_open(p);
    if (!jpeg_entropy_start(decoder, &decoder->stage[0].place) ||
        !jpeg_entropy_skip(decoder, &decoder->stage[0].place, NULL, decoder->frame.mcus_x * decoder->frame.mcus_y))
        die(p->path, NULL);
}

/* The next MCUs, up to a restart marker, to the stage's coefficients. */
static bool read_mcus(uint32_t mcus)
{
    struct jpeg_run r;
    return jpeg_run_begin(decoder, &r, &decoder->stage[0], NULL, mcus) && decoder->kernels->read_one(decoder, &r) &&
           jpeg_run_end(decoder, &r);
}

static void case_entropy(const struct photo *p)
{
    own_open(p);
    bool fine = jpeg_entropy_start(decoder, &decoder->stage[0].place);
    for (uint32_t all = decoder->frame.mcus_x * decoder->frame.mcus_y; fine && decoder->stage[0].place.mcu < all;)
        fine = read_mcus(all - decoder->stage[0].place.mcu);
    if (!fine)
        die(p->path, NULL);
}

static void case_points(const struct photo *p)
{
    own_open(p);
    if (jpeg_points_find(decoder, (struct jpeg_point *)p->points.point, NULL) < 0)
        die(p->path, NULL);
}

static void case_planes(const struct photo *p)
{
    struct region part = whole(p);
    own_planes(p, &part, NULL);
}

static void case_planes_points(const struct photo *p)
{
    struct region part = whole(p);
    struct jpeg_points points = p->points;
    own_planes(p, &part, &points);
}

static void case_whole(const struct photo *p)
{
    pst_image image;
    struct region part = whole(p);
    own_part(p, &part, NULL, &image);
}

static void case_planes_crop(const struct photo *p)
{
    own_planes(p, &p->crop, NULL);
}

static void case_planes_crop_points(const struct photo *p)
{
    struct jpeg_points points = p->points;
    own_planes(p, &p->crop, &points);
}

static void case_crop(const struct photo *p)
{
    pst_image image;
    own_part(p, &p->crop, NULL, &image);
}

static void case_crop_points(const struct photo *p)
{
    pst_image image;
    struct jpeg_points points = p->points;
    own_part(p, &p->crop, &points, &image);
}

static const struct bench_case {
    const char *name;
    void (*run)(const struct photo *p);
} cases[] = {
    {"whole: libjpeg-turbo, coefficients only", case_turbo_entropy},
    {"whole: libjpeg-turbo, RGB", case_turbo_whole},
    {"whole: header and tables", case_open},
    {"whole: … and entropy, passed over", case_skip},
    {"whole: … and entropy, read", case_entropy},
    {"whole: … and transformed: planes", case_planes},
    {"whole: … and upsampled and converted: RGB", case_whole},
    {"whole: planes, by points", case_planes_points},
    {"whole: points found", case_points},
    {"crop: libjpeg-turbo, RGB", case_turbo_crop},
    {"crop: planes", case_planes_crop},
    {"crop: RGB", case_crop},
    {"crop: planes, by points", case_planes_crop_points},
    {"crop: RGB, by points", case_crop_points},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* what others do on the machine counts less */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run_cases(unsigned rounds, const char *only)
{
    static double times[CASES][MAX_ROUNDS];
    for (unsigned round = 0; round < rounds; round++)
        for (size_t c = 0; c < CASES; c++) {
            if (!strstr(cases[c].name, only))
                continue;
            double begin = now();
            for (size_t i = 0; i < count; i++)
                cases[c].run(&photos[i]);
            times[c][round] = (now() - begin) * 1e6 / (double)count;
        }
    printf("%-46s %10s %10s\n", "microseconds an image", "best", "median");
    for (size_t c = 0; c < CASES; c++) {
        if (!strstr(cases[c].name, only))
            continue;
        qsort(times[c], rounds, sizeof(double), by_size);
        printf("%-46s %10.1f %10.1f\n", cases[c].name, times[c][0], times[c][rounds / 2]);
    }
}

/* ---- Epochs ---- */

static void epoch_crop(struct entropy *e, uint64_t epoch, size_t i)
{
    const struct photo *p = &photos[i];
    struct region crop = random_crop(p->info.width, p->info.height, epoch, i);
    struct entropy_use use;
    own_open(p);
    bool points = entropy_begin(e, i, decoder, p->data, p->length, &use);
    struct jpeg_plane planes[3];
    pst_error error;
    if (jpeg_decode_planes(decoder, &crop, 0, 8, points ? &use.points : NULL, planes, &error) < 0)
        die(p->path, &error);
    if (points)
        entropy_done(e, &use);
}

static void run_epochs(unsigned rounds, unsigned epochs)
{
    static const struct source_class nowhere = {.op = {.name = "nowhere"}};
    static double times[MAX_EPOCHS][MAX_ROUNDS];
    for (unsigned round = 0; round < rounds; round++) {
        struct entropy *e = NULL;
        pst_error error;
        if (entropy_create(&e, &nowhere, NULL, count, UINT64_MAX, &error) < 0)
            die("entropy indexes", &error);
        for (unsigned epoch = 0; epoch < epochs; epoch++) {
            double begin = now();
            for (size_t i = 0; i < count; i++)
                epoch_crop(e, epoch, i);
            times[epoch][round] = (now() - begin) * 1e6 / (double)count;
        }
        entropy_destroy(e);
    }
    printf("%-46s %10s %10s\n", "microseconds a crop, planes", "best", "median");
    for (unsigned epoch = 0; epoch < epochs; epoch++) {
        qsort(times[epoch], rounds, sizeof(double), by_size);
        printf("epoch %-40u %10.1f %10.1f\n", epoch + 1, times[epoch][0], times[epoch][rounds / 2]);
    }
}

/* ---- Check ---- */

static size_t differences;

static void differs(const struct photo *p, const char *what)
{
    printf("%s: %s\n", p->path, what);
    differences++;
}

static void check_coefficients(const struct photo *p)
{
    struct jpeg_reader r;
    jpeg_reader_init(&r, PST_MAX_SCANS);
    if (setjmp(r.trouble.jump))
        die(p->path, NULL);
    jpeg_reader_open(&r, p->data, p->length);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&r.info);
    own_open(p);
    const struct jpeg_frame *f = &decoder->frame;
    bool fine = jpeg_entropy_start(decoder, &decoder->stage[0].place);
    for (uint32_t mcu = 0; fine && mcu < f->mcus_x * f->mcus_y; mcu++) {
        fine = read_mcus(1);
        const int16_t *block = decoder->stage[0].coefficients;
        for (uint32_t c = 0; c < f->components; c++)
            for (uint32_t y = 0; y < (c ? 1u : f->v); y++)
                for (uint32_t x = 0; x < (c ? 1u : f->h); x++, block += 64) {
                    uint32_t bx = mcu % f->mcus_x * (c ? 1 : f->h) + x, by = mcu / f->mcus_x * (c ? 1 : f->v) + y;
                    jpeg_component_info *info = &r.info.comp_info[c];
                    if (bx >= info->width_in_blocks || by >= info->height_in_blocks)
                        continue;
                    JBLOCKARRAY row = r.info.mem->access_virt_barray((j_common_ptr)&r.info, arrays[c], by, 1, FALSE);
                    fine &= memcmp(row[0][bx], block, 128) == 0;
                }
    }
    if (!fine || decoder->stage[0].place.mcu != f->mcus_x * f->mcus_y)
        differs(p, "other coefficients");
    jpeg_destroy_decompress(&r.info);
}

static bool same_image(const pst_image *a, const pst_image *b)
{
    bool same = a->width == b->width && a->height == b->height;
    for (uint32_t y = 0; same && y < a->height; y++)
        same = memcmp(a->pixels + y * a->stride, b->pixels + y * b->stride, (size_t)a->width * 3) == 0;
    return same;
}

static void check_pixels(const struct photo *p)
{
    pst_image want, got;
    struct region part = whole(p);
    turbo_part(p, &part, &want);
    own_part(p, &part, NULL, &got);
    if (!same_image(&want, &got))
        differs(p, "other pixels");
    want.pixels += p->crop.y * want.stride + (size_t)p->crop.x * 3;
    want.width = p->crop.width;
    want.height = p->crop.height;
    own_part(p, &p->crop, NULL, &got);
    if (!same_image(&want, &got))
        differs(p, "other pixels in a part");
    struct jpeg_points points = p->points;
    own_part(p, &p->crop, &points, &got);
    if (!same_image(&want, &got))
        differs(p, "other pixels in a part by points");
}

int main(int argc, char **argv)
{
    unsigned rounds = 5, epochs = 0;
    bool check = false;
    const char *only = "";
    decoder = need(jpeg_decoder_create());
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--check") == 0)
            check = true;
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            rounds = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--epochs") == 0 && i + 1 < argc)
            epochs = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--images") == 0 && i + 1 < argc)
            most = (size_t)atoll(argv[++i]);
        else if (nftw(argv[i], add_file, 16, FTW_PHYS) < 0)
            die(argv[i], NULL);
    }
    if (!count || !rounds || rounds > MAX_ROUNDS || epochs > MAX_EPOCHS)
        die("usage: bench_jpeg [--check] [--epochs N] [--rounds N] [--images N] [--only WORD] FILE|FOLDER…; no JPEGs that our "
            "decoder reads",
            NULL);
    double bytes = 0, pixels = 0, points = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += (double)photos[i].length;
        pixels += (double)photos[i].info.width * photos[i].info.height;
        points += (double)photos[i].points.count * sizeof(struct jpeg_point);
    }
    printf("%zu images, %zu left out; mean %.0f bytes, %.3f megapixels, points %.2f %% of the bytes\n", count, left_out,
           bytes / (double)count, pixels / (double)count * 1e-6, 100 * points / bytes);
    if (!check) {
        if (epochs)
            run_epochs(rounds, epochs);
        else
            run_cases(rounds, only);
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        check_coefficients(&photos[i]);
        check_pixels(&photos[i]);
    }
    printf("%zu differences\n", differences);
    return differences != 0;
}
