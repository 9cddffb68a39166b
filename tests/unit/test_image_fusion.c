/* test_image_fusion.c: image operations run together give the bits that they give one by one, at every SIMD level.
 *
 * Chains, images and seeds are random, from a fixed seed. `--plain` runs everything without SIMD. */
#include "base/cpu.h"
#include "base/fault.h"
#include "harness.h"
#include "image_samples.h"
#include "jpeg_samples.h"
#include "unit/image_rig.h"

#include <unistd.h>

#define CHAINS 400

/* ---- Images ---- */

#define IMAGES 28

struct sample {
    char name[64];
    pst_bytes bytes;
};

static struct sample samples[IMAGES];

static void add_sample(size_t i, const char *name, uint8_t *data, size_t length)
{
    snprintf(samples[i].name, sizeof(samples[i].name), "%s", name);
    samples[i].bytes = (pst_bytes){data, length};
}

/* JPEGs of every kind, and the formats that always are there. Some are damaged. */
static void make_samples(void)
{
    static const uint32_t sizes[][2] = {{61, 47}, {40, 90}, {17, 16}, {129, 33}, {7, 5}, {64, 64}};
    for (size_t i = 0; i < IMAGES; i++) {
        const struct jpeg_kind *kind = &jpeg_kinds[i % JPEG_KINDS];
        const uint32_t *size = sizes[i % 6];
        bool planes = i >= IMAGES - 5 && i < IMAGES - 1;
        pst_image image = sample_image(size[0], size[1],
                                       i < JPEG_KINDS    ? (uint32_t)kind->channels
                                       : i == IMAGES - 2 ? 1
                                                         : 3,
                                       i);
        uint8_t *data;
        size_t length;
        if (i < JPEG_KINDS) {
            length = jpeg_sample(&data, &image, kind, 85);
            add_sample(i, kind->name, data, length);
        } else {
            data = encode_image(&image, planes ? PST_IMAGE_YUV420 : PST_IMAGE_BMP, &length);
            add_sample(i, planes ? "yuv420" : "bmp", data, length - (i == IMAGES - 1 ? 10 : 0));
        }
        pst_image_finish(&image);
    }
    uint8_t *data = (uint8_t *)samples[2].bytes.data; /* 4:2:0 with damage in the middle of the data */
    for (size_t i = 0; i < 5; i++)
        data[samples[2].bytes.length * 2 / 3 + i] ^= 0x55;
    samples[4].bytes.length -= 30; /* cut off */
}

static void free_samples(void)
{
    for (size_t i = 0; i < IMAGES; i++)
        free((void *)samples[i].bytes.data);
}

/* ---- Chains ---- */

static const char *const methods[] = {"antialias", "bilinear", "bicubic", "nearest", "area"};
static const char *const for_pixels[] = {"keyscubic", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"};
static const char *const fits[] = {"stretch", "crop", "pad"};

static void add_geometric(struct random *r, char *text, size_t size)
{
    size_t n = strlen(text);
    unsigned a = 1 + (unsigned)random_below(r, 50), b = 1 + (unsigned)random_below(r, 40);
    const char *method = methods[random_below(r, 5)];
    switch (random_below(r, 9)) {
    case 0:
        if (random_below(r, 4) == 0)
            method = for_pixels[random_below(r, 5)];
        snprintf(text + n, size - n, " | resize %ux%u %s fit=%s", a, b, method, fits[random_below(r, 3)]);
        break;
    case 1:
        snprintf(text + n, size - n, " | resize short=%u method=%s", a, method);
        break;
    case 2:
        snprintf(text + n, size - n, " | crop %u %u %u %u", a % 7, b % 5, 1 + a / 8, 1 + b / 8);
        break;
    case 3:
        snprintf(text + n, size - n, " | center_crop %ux%u", a, b);
        break;
    case 4:
        snprintf(text + n, size - n, " | random_crop %ux%u padding=%u", 1 + a / 4, 1 + b / 4, (unsigned)random_below(r, 3) * 5);
        break;
    case 5:
    case 6:
        snprintf(text + n, size - n, " | random_resized_crop %ux%u scale=0.1,1 method=%s", a, b, method);
        break;
    default:
        snprintf(text + n, size - n, " | flip %s", random_below(r, 2) ? "0.5" : "1");
    }
}

static void add_last(struct random *r, char *text, size_t size)
{
    static const char *const lasts[] = {"",
                                        " | normalize imagenet",
                                        " | normalize -1..1 | flip",
                                        " | cast f32",
                                        " | normalize | cast f16",
                                        " | cast bf16 | center_crop 20 | flip",
                                        " | layout nchw",
                                        " | normalize imagenet | layout nchw",
                                        " | normalize mean=0.4,0.5,0.6 std=0.2 | cast bf16 | layout nchw",
                                        " | layout nhwc | normalize mean=0.5 std=0.25 | crop 0 0 1 1",
                                        " | cast f32 | layout nchw | cast f16",
                                        " | cast f16 | cast f32 | flip",
                                        " | layout nchw | layout nhwc | flip 1",
                                        " | cast i32 | flip 1"};
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s", lasts[random_below(r, sizeof(lasts) / sizeof(lasts[0]))]);
}

static void random_chain(struct random *r, char *text, size_t size)
{
    static const char *const decodes[] = {"decode",
                                          "decode recover=true",
                                          "decode channels=1",
                                          "decode channels=4",
                                          "decode channels=0",
                                          "decode exif=true recover=true",
                                          "decode quality=exact",
                                          "decode quality=fast",
                                          "decode recover=true quality=fast",
                                          "decode channels=1 quality=fast",
                                          "decode channels=0 recover=true quality=fast",
                                          "decode channels=4 quality=fast",
                                          "decode exif=true recover=true quality=fast"};
    snprintf(text, size, "%s", decodes[random_below(r, sizeof(decodes) / sizeof(decodes[0]))]);
    for (uint64_t n = random_below(r, 5); n > 0; n--)
        add_geometric(r, text, size);
    add_last(r, text, size);
}

static struct rig_result run_sample(struct image_rig *rig, size_t i, uint64_t epoch)
{
    pst_bytes bytes = samples[i].bytes;
    pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &bytes};
    return image_rig_run(rig, &in, epoch, i);
}

static const pst_spec *encoded_spec(void)
{
    static const pst_field image = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1};
    static const pst_spec spec = {.count = 1, .field = &image};
    return &spec;
}

/* ---- Fused and not ---- */

static size_t compared, failed_alike;

static void check_chain(const char *text, uint64_t epoch)
{
    struct image_rig plain, fused;
    pst_error error, error2;
    pst_status st = image_rig_init(&plain, text, encoded_spec(), false, &error);
    pst_status st2 = image_rig_init(&fused, text, encoded_spec(), true, &error2);
    CHECK_MSG(st == st2, "%s: %s one by one, %s together", text, pst_status_name(st), pst_status_name(st2));
    for (size_t i = 0; i < IMAGES && st == PST_OK && st2 == PST_OK; i++) {
        struct rig_result a = run_sample(&plain, i, epoch), b = run_sample(&fused, i, epoch);
        if (!CHECK_MSG(same_result(&a, &b), "%s of %s: %s one by one, %s together, in %zu steps: %s / %s", text,
                       samples[i].name, pst_status_name(a.status), pst_status_name(b.status), fused.count,
                       a.status < 0 ? a.error.message : "", b.status < 0 ? b.error.message : ""))
            break;
        compared++;
        failed_alike += a.status < 0;
    }
    image_rig_finish(&plain);
    image_rig_finish(&fused);
}

static void test_random_chains(void)
{
    struct random r;
    char text[1024];
    random_init(&r, 7, 0, 0, 0);
    for (uint64_t i = 0; i < CHAINS; i++) {
        random_chain(&r, text, sizeof(text));
        check_chain(text, i);
    }
    CHECK_MSG(compared > 5000 && failed_alike < compared / 2, "%zu images compared, %zu failed", compared, failed_alike);
    printf("# %zu images compared, %zu of them errors\n", compared, failed_alike);
}

/* What the tutorials write. */
static void test_usual_chains(void)
{
    static const char *const chains[] = {
        "decode | random_resized_crop 24 | flip | normalize imagenet",
        "decode | random_resized_crop 24 | flip | normalize imagenet | layout nchw | cast f16",
        "decode | resize short=32 | center_crop 28 | normalize imagenet",
        "decode | flip 1 | random_resized_crop 24 method=nearest | flip 1 | normalize",
        "decode | flip 1 | resize 23x29 bicubic | crop 1 2 20 21 | flip 1",
        "decode | flip 1 | resize 23x29 area | center_crop 40 | flip 1 | cast f32",
        "decode | random_crop 32 padding=40 | flip | normalize 0..1",
        "decode | resize 24 | cast f32",
        "decode recover=true | random_resized_crop 24 | flip | normalize imagenet | layout nchw",
        "decode recover=true | flip 1 | random_resized_crop 5x4 | crop 1 1 3 2 | normalize imagenet | cast f16",
        "decode recover=true | random_crop 7x5 | flip | resize 3x2 | flip 1",
        "decode recover=true | random_crop 7x5 | resize 7x5 | flip",
        "decode quality=fast recover=true | crop 1 2 5 3 | flip 1",
        "decode quality=fast recover=true | random_crop 32 padding=40 | flip | normalize 0..1",
        "decode quality=fast recover=true | resize short=20 | center_crop 16",
        "decode quality=fast recover=true | random_crop 9x9 padding=2 | resize 5",
        "decode quality=fast recover=true | layout nhwc | resize 9",
        "decode quality=fast recover=true",
        "decode quality=fast recover=true | resize 40x30 bicubic | crop 0 0 3 2",
        "decode quality=fast recover=true | resize 40x30 bicubic | crop 37 28 3 2",
        "decode quality=fast recover=true | resize 3x2 area | crop 1 1 1 1",
        "decode | flip 1 | resize 30x20 fit=pad | crop 2 1 24 17 | flip 1 | normalize imagenet",
        "decode quality=fast recover=true | random_crop 9x7 | flip | resize 20 fit=pad | flip 1",
        "decode recover=true | random_crop 9x7 | resize 20 lanczos3 fit=crop | flip",
        "decode quality=fast recover=true | resize 20 lanczos5 fit=pad | center_crop 30 | cast f32",
        "decode | resize 400x300 fit=pad | center_crop 16 | normalize",
        "decode | resize 10x12 fit=pad | resize 30 fit=pad",
    };
    for (size_t i = 0; i < sizeof(chains) / sizeof(chains[0]); i++)
        for (uint64_t epoch = 0; epoch < 8; epoch++)
            check_chain(chains[i], epoch);
}

/* Arrays that are images already, without a decode in front. */
static void test_arrays(void)
{
    static const char *const chains[] = {
        "random_crop 12 padding=4 | flip | normalize mean=0.5 std=0.25", "resize 9x20 | flip 1 | layout nchw",
        "crop 1 1 5 5 | normalize | layout nchw | cast bf16", "cast f32 | flip 1 | center_crop 20"};
    static const pst_field images[2] = {
        {.name = "image", .dtype = PST_DTYPE_U8, .rank = 3, .shape = {PST_ANY, PST_ANY, PST_ANY}, .alias = -1},
        {.name = "image", .dtype = PST_DTYPE_U8, .rank = 3, .shape = {13, 17, 3}, .alias = -1}};
    static const pst_spec specs[2] = {{.count = 1, .field = &images[0]}, {.count = 1, .field = &images[1]}};
    pst_image image = sample_image(17, 13, 3, 5);
    pst_tensor in = {.dtype = PST_DTYPE_U8, .rank = 3, .shape = {13, 17, 3}, .data = image.pixels};
    for (size_t i = 0; i < 8; i++) {
        struct image_rig plain, fused;
        pst_error error;
        REQUIRE_OK(image_rig_init(&plain, chains[i / 2], &specs[i % 2], false, &error), &error);
        REQUIRE_OK(image_rig_init(&fused, chains[i / 2], &specs[i % 2], true, &error), &error);
        CHECK_INT(fused.count, 1);
        for (uint64_t epoch = 0; epoch < 20; epoch++) {
            struct rig_result a = image_rig_run(&plain, &in, epoch, 0), b = image_rig_run(&fused, &in, epoch, 0);
            CHECK_MSG(a.status == PST_OK && same_result(&a, &b), "%s", chains[i / 2]);
        }
        image_rig_finish(&plain);
        image_rig_finish(&fused);
    }
    pst_image_finish(&image);
}

static void test_raw(void)
{
    static const char *const chains[] = {"decode format=raw shape=13x17x3",
                                         "decode image raw 13x17x3 | random_resized_crop 9 | flip",
                                         "decode format=raw shape=13x17x3 | normalize imagenet | layout nchw"};
    pst_image image = sample_image(17, 13, 3, 6);
    for (size_t i = 0; i < 6; i++) {
        struct image_rig rig, other;
        pst_error error;
        pst_bytes bytes = {image.pixels, 17 * 13 * 3};
        pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &bytes};
        REQUIRE_OK(image_rig_init(&rig, chains[i / 2], encoded_spec(), false, &error), &error);
        REQUIRE_OK(image_rig_init(&other, chains[i / 2], encoded_spec(), true, &error), &error);
        bytes.length -= i % 2;
        struct rig_result a = image_rig_run(&rig, &in, i, 0), b = image_rig_run(&other, &in, i, 0);
        CHECK_MSG(same_result(&a, &b), "%s", chains[i / 2]);
        CHECK_STATUS(a.status, i % 2 ? PST_ECORRUPT : PST_OK, &a.error);
        if (i == 0)
            CHECK(a.tensor.data == image.pixels); /* a view */
        image_rig_finish(&rig);
        image_rig_finish(&other);
    }
    pst_image_finish(&image);
}

/* ---- What is fused ---- */

static void check_steps(const char *text, size_t want)
{
    struct image_rig rig;
    pst_error error;
    if (test_check_status(image_rig_init(&rig, text, encoded_spec(), true, &error), PST_OK, &error, __FILE__, __LINE__, text))
        CHECK_MSG(rig.count == want, "%s: %zu steps, expected %zu", text, rig.count, want);
    image_rig_finish(&rig);
}

static void test_steps(void)
{
    check_steps("decode | random_resized_crop 24 | flip | normalize imagenet | layout nchw | cast f16", 1);
    check_steps("decode | crop 0 0 9 9 | flip | resize 20 | center_crop 15 | flip | cast f32 | crop 0 0 3 3", 1);
    check_steps("decode", 1);
    check_steps("decode | resize 20 | resize 10", 2);
    check_steps("decode | center_crop 20 | resize 10 | flip", 2);
    check_steps("decode | random_crop 20 padding=4 | resize 10", 2);
    check_steps("decode | random_crop 5 | resize 10", 1);
    check_steps("decode | resize 20 | cast f16 | cast f32", 2);
    check_steps("decode | resize 20 | cast i32", 2);
    check_steps("decode | layout nchw | layout nhwc | flip", 3); /* a pass begins with images whose channels are last */
    check_steps("decode channels=0 | crop 0 0 3 3 | layout nchw", 1);
    check_steps("decode quality=fast | crop 0 0 3 3 | resize 10 | normalize", 1);
    check_steps("decode quality=fast | layout nhwc | resize 10 | flip", 2); /* planes are pixels by then */
}

/* What cannot be taken apart even without fusion, and the quality that is chosen. */
static void check_unit(const char *text, size_t want, bool fast)
{
    struct chain chain = {0};
    struct image_part parts[RIG_MAX];
    pst_error error;
    REQUIRE_OK(chain_parse(&chain, text, &error), &error);
    struct arena specs = {0};
    REQUIRE_OK(rig_plan_nodes(&chain, &specs, encoded_spec(), &error), &error);
    for (size_t i = 0; i < chain.count; i++)
        parts[i] = (struct image_part){op_decl_of(chain.nodes[i].op), chain.nodes[i].config, chain.nodes[i].ordinal};
    size_t unit = image_program_unit(parts, chain.count);
    CHECK_MSG(unit == want, "%s: a unit of %zu, expected %zu", text, unit, want);
    struct decode_config *c = chain.nodes[0].config;
    image_program_choose(c, parts, chain.count);
    const char *reason = NULL, *choice = op_decode.choice(c, &reason);
    CHECK_MSG(c->fast == fast && choice && reason && strstr(choice, fast ? "fast" : "exact"), "%s", text);
    CHECK_INT(op_decode.op.fingerprint(c), fast);
    arena_finish(&specs);
    chain_finish(&chain);
}

static void test_units(void)
{
    check_unit("decode", 0, false);
    check_unit("decode quality=fast", 1, true);
    check_unit("decode quality=fast | crop 0 0 3 3 | flip", 1, true);
    check_unit("decode | resize 9", 0, false);
    check_unit("decode | resize 9 | random_crop 5", 0, false);
    check_unit("decode | random_crop 5", 0, false);
    check_unit("decode | random_crop 5 padding=2 | resize 9", 0, false);
    check_unit("decode quality=fast | random_crop 5 padding=2 | resize 9", 1, true);
    check_unit("decode | random_resized_crop 9 | flip | normalize", 2, true);
    check_unit("decode | flip | random_crop 5 | flip | resize 9 | flip", 5, true);
    check_unit("decode | layout nhwc | random_resized_crop 9", 0, false);
    check_unit("decode quality=fast | layout nhwc | random_resized_crop 9", 1, true);
    check_unit("decode quality=exact | random_resized_crop 9", 0, false);
    check_unit("decode quality=fast | resize 9 | normalize", 2, true);
}

/* ---- Levels ---- */

static uint64_t digest_of_everything(void)
{
    struct random r;
    char text[1024];
    uint64_t digest = 0;
    random_init(&r, 8, 0, 0, 0);
    for (uint64_t k = 0; k < 120; k++) {
        struct image_rig rig;
        random_chain(&r, text, sizeof(text));
        pst_status st = image_rig_init(&rig, text, encoded_spec(), k % 2, NULL);
        digest = hash_combine(digest, (uint64_t)st);
        for (size_t i = 0; i < IMAGES && st == PST_OK; i += 1 + k % 5) {
            struct rig_result result = run_sample(&rig, i, k);
            digest = hash_combine(digest, result_digest(&result));
        }
        image_rig_finish(&rig);
    }
    return digest;
}

static int child_digest = -1; /* the reading end of a child without SIMD; kernel tables are made once a process */

static void start_child(void)
{
    int ends[2];
    if (pipe(ends) < 0)
        abort();
    if (fork() == 0) {
        cpu_set_mask(0);
        uint64_t digest = digest_of_everything();
        test_exit(write(ends[1], &digest, sizeof(digest)) != sizeof(digest));
    }
    close(ends[1]);
    child_digest = ends[0];
}

static void test_levels(void)
{
    uint64_t plain = 0;
    CHECK(read(child_digest, &plain, sizeof(plain)) == sizeof(plain));
    CHECK_INT(digest_of_everything(), plain);
    close(child_digest);
}

/* ---- Damage ---- */

/* Every cut and some flips of a small JPEG: the same outcome, whatever part is decoded. */
static void test_damage(void)
{
    static const char *const chains[] = {"decode quality=exact | random_resized_crop 9",
                                         "decode recover=true | crop 3 20 9 9 | cast f32",
                                         "decode recover=true | resize 9x40 | center_crop 7", "decode | random_resized_crop 9",
                                         "decode recover=true | random_resized_crop 3"};
    struct random r;
    size_t broken = 0, sound = 0;
    random_init(&r, 9, 0, 0, 0);
    for (size_t c = 0; c < sizeof(chains) / sizeof(chains[0]); c++) {
        struct image_rig plain, fused;
        REQUIRE_OK(image_rig_init(&plain, chains[c], encoded_spec(), false, NULL), NULL);
        REQUIRE_OK(image_rig_init(&fused, chains[c], encoded_spec(), true, NULL), NULL);
        for (size_t k = 0; k < 5; k++) {
            size_t which[] = {0, 2, 3, 12, 15}, length = samples[which[k]].bytes.length;
            uint8_t *data = malloc(length);
            for (size_t i = 0; data && i < 120; i++) {
                pst_bytes bytes = {data, length};
                pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &bytes};
                memcpy(data, samples[which[k]].bytes.data, length);
                if (i % 2)
                    bytes.length = random_below(&r, length);
                else
                    data[random_below(&r, length)] ^= (uint8_t)(1u << random_below(&r, 8));
                struct rig_result a = image_rig_run(&plain, &in, i, i), b = image_rig_run(&fused, &in, i, i);
                CHECK_MSG(same_result(&a, &b), "%s of %s, %s %zu: %s / %s", chains[c], samples[which[k]].name,
                          i % 2 ? "cut" : "flip", i, a.status < 0 ? a.error.message : "ok",
                          b.status < 0 ? b.error.message : "ok");
                CHECK(a.status == PST_OK || a.status == PST_ECORRUPT || a.status == PST_EUNSUPPORTED || a.status == PST_ETYPE ||
                      a.status == PST_ELIMIT);
                broken += a.status < 0;
                sound += a.status == PST_OK;
            }
            free(data);
        }
        image_rig_finish(&plain);
        image_rig_finish(&fused);
    }
    CHECK_MSG(broken > 300 && sound > 300, "%zu broken, %zu sound", broken, sound);
}

/* ---- Faults ---- */

/* Every allocation of planning and running fails once: an error, no leak, and the next run is right. */
static void test_faults(void)
{
    static const char chain[] =
        "decode exif=true | flip 1 | resize 40 bicubic | center_crop 50 | normalize | layout nchw | cast f16";
    pst_error error;
    const uint64_t live = mem_live();
    uint64_t calls = UINT64_MAX, want = 0;
    for (uint64_t n = 0; n < calls; n++) {
        struct image_rig rig;
        struct rig_result result = {.status = PST_OK};
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = image_rig_init(&rig, chain, encoded_spec(), true, &error);
        if (st == PST_OK) {
            result = run_sample(&rig, IMAGES - 2, 1);
            st = result.status;
        }
        bool done = test_fault_calls() <= n;
        if (done)
            calls = n;
        test_fault_clear();
        CHECK_STATUS(st, done ? PST_OK : PST_ENOMEM, &error);
        if (done)
            want = result_digest(&result);
        image_rig_finish(&rig);
        CHECK_MSG(mem_live() == live, "allocation %llu fails: %lld blocks leak", (unsigned long long)n,
                  (long long)(mem_live() - live));
    }
    struct image_rig again;
    REQUIRE_OK(image_rig_init(&again, chain, encoded_spec(), false, &error), &error);
    struct rig_result result = run_sample(&again, IMAGES - 2, 1);
    CHECK_INT(result_digest(&result), want);
    image_rig_finish(&again);
    CHECK_MSG(calls > 10, "%llu allocations", (unsigned long long)calls);
}

static const struct test tests[] = {
    {"without SIMD", test_levels},
    {"random chains", test_random_chains},
    {"usual chains", test_usual_chains},
    {"arrays", test_arrays},
    {"raw pixels", test_raw},
    {"what goes together", test_steps},
    {"what cannot be taken apart", test_units},
    {"damaged images", test_damage},
    {"failing allocations", test_faults},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--plain") == 0) {
        cpu_set_mask(0);
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    make_samples();
    start_child();
    int failed = test_main(argc, argv, tests);
    free_samples();
    return failed;
}
