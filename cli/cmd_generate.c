/* cmd_generate.c: `penstock generate`: draws a small labelled image set for experiments. */
#include "cli/command.h"
#include "cli/draw.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/say.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <penstock/image.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct config {
    uint64_t images, size, seed, classes;
    int format;
    bool force, json, quiet;
};

enum { FORMAT_MIXED, FORMAT_JPEG, FORMAT_PNG };
static const char *const formats[] = {"mixed", "jpeg", "png", NULL};

/* ---- Files ---- */

/* Reports errno for `path`. */
static int fail(const struct config *c, const char *path, const char *what)
{
    pst_error error;

    pst_fail_at(&error, PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "%s: %s", what, strerror(errno));
    return say_failure(&command_generate, &error, c->json);
}

static bool is_empty_folder(const char *path)
{
    DIR *folder = opendir(path);
    size_t entries = 0;

    if (!folder)
        return true; /* does not exist, or a later call reports a better error */
    for (struct dirent *e = readdir(folder); e; e = readdir(folder))
        entries += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(folder);
    return entries == 0;
}

static int write_all(const char *path, const uint8_t *data, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool failed = fd < 0;

    while (!failed && length > 0) {
        ssize_t n = write(fd, data, length);

        if (n > 0) {
            data += n;
            length -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            failed = true;
        }
    }
    if (fd >= 0 && close(fd) < 0)
        failed = true;
    return failed ? -1 : 0;
}

/* Writes a temporary file and renames it, so that a killed tool leaves no partial picture. */
static int save(const struct config *c, const char *path, const uint8_t *data, size_t length)
{
    char temporary[PATH_MAX];
    int code;

    if (snprintf(temporary, sizeof(temporary), "%s.tmp", path) >= (int)sizeof(temporary)) {
        errno = ENAMETOOLONG;
        return fail(c, path, "cannot be written");
    }
    if (write_all(temporary, data, length) == 0 && rename(temporary, path) == 0)
        return EXIT_DONE;
    code = fail(c, path, "cannot be written");
    unlink(temporary);
    return code;
}

/* ---- Pictures ---- */

static int make_image(const struct config *c, const char *out, uint64_t number, uint64_t *bytes)
{
    size_t class_ = (size_t)(number % c->classes);
    struct draw_random r;
    pst_image image = {0};
    pst_encode_options encoding = {.size = sizeof(encoding), .effort = 3}; /* more effort hardly makes noisy pictures smaller */
    pst_error error;
    uint8_t *data = NULL;
    size_t length = 0;
    uint32_t width = (uint32_t)c->size, height = width;
    char path[PATH_MAX];
    unsigned proportion;
    bool png;
    int code;

    draw_random_init(&r, c->seed, number, 1);
    proportion = draw_random_below(&r, 4); /* half are square, the rest wide or tall */
    width = proportion == 0 ? width * 4 / 3 : width;
    height = proportion == 1 ? height * 4 / 3 : height;
    encoding.quality = (int)draw_random_between(&r, 75, 96);
    png = draw_random_below(&r, 4) == 0;
    png = c->format == FORMAT_PNG || (c->format == FORMAT_MIXED && png);
    if (snprintf(path, sizeof(path), "%s/%s/%s-%05llu.%s", out, draw_class_name(class_), draw_class_name(class_),
                 (unsigned long long)(number / c->classes), png ? "png" : "jpg") >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return fail(c, out, "cannot be written");
    }
    if (pst_image_create(&image, width, height, 3, &error) < 0)
        return say_failure(&command_generate, &error, c->json);
    draw(&image, class_, c->seed, number);
    if (pst_image_encode(&data, &length, &image, png ? PST_IMAGE_PNG : PST_IMAGE_JPEG, &encoding, &error) < 0)
        code = say_failure(&command_generate, &error, c->json);
    else
        code = save(c, path, data, length);
    *bytes += length;
    pst_free(data);
    pst_image_finish(&image);
    return code;
}

static int make_folders(const struct config *c, const char *out)
{
    char path[PATH_MAX];

    if (strstr(out, "://"))
        return say_usage(&command_generate, "%s: images are drawn into a folder of this machine; `penstock pack FOLDER s3://…` puts them into a store", out);
    if (mkdir(out, 0777) < 0 && errno != EEXIST)
        return fail(c, out, "cannot create the folder");
    for (size_t i = 0; i < c->classes; i++) {
        if (snprintf(path, sizeof(path), "%s/%s", out, draw_class_name(i)) >= (int)sizeof(path))
            errno = ENAMETOOLONG;
        else if (mkdir(path, 0777) == 0 || errno == EEXIST)
            continue;
        return fail(c, out, "cannot create a folder in it");
    }
    return EXIT_DONE;
}

/* ---- The command ---- */

static void put_summary(const struct config *c, const char *out, uint64_t bytes)
{
    struct json j = json_to(stdout);
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], word[4200];

    if (c->json) {
        json_begin_object(&j, NULL);
        json_string(&j, "command", "generate");
        json_string(&j, "out", out);
        json_uint(&j, "images", c->images);
        json_uint(&j, "classes", c->classes);
        json_uint(&j, "bytes", bytes);
        json_end_object(&j);
        putchar('\n');
    } else if (!c->quiet) {
        shell_word(word, sizeof(word), out);
        printf("drew %s %s of %llu classes (%s) into ", amount_count(a, c->images), plural(c->images, "image", "images"),
               (unsigned long long)c->classes, amount_bytes(b, (double)bytes));
        put_clean_string(stdout, out);
        fputs("\npack them: penstock pack ", stdout);
        put_clean_string(stdout, word);
        puts(" shards/");
    }
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    const char *out = operands[0];
    struct progress progress;
    pst_progress now = {.stage = "drawing", .total = c->images};
    pst_error error;
    int code;

    (void)count;
    if (!c->force && !is_empty_folder(out)) {
        pst_fail_at(&error, PST_EEXIST, out, PST_NOWHERE, PST_NOWHERE, "the folder is not empty");
        code = say_failure(&command_generate, &error, c->json);
        say_try("another folder; or --force to write into this one and replace files of the same name");
        return code;
    }
    progress_start(&progress, "images", c->quiet, c->json);
    code = make_folders(c, out);
    while (code == EXIT_DONE && !progress_report(&progress, &now) && now.done < now.total) {
        code = make_image(c, out, now.done, &now.bytes);
        now.done++;
    }
    progress_finish(&progress);
    if (code != EXIT_DONE)
        return code;
    if (now.done < now.total) {
        say_note("interrupted after %llu of %llu images; the same command with --force completes the set",
                 (unsigned long long)now.done, (unsigned long long)now.total);
        return interrupt_exit_code();
    }
    put_summary(c, out, now.bytes);
    return EXIT_DONE;
}

static const struct option options[] = {
    {"--images", 'n', "N", OPTION_UINT, INTO(struct config, images), .initial = "1000", .min = 1, .max = 10000000,
     .doc = "number of images in total, divided evenly among the classes"},
    {"--classes", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, classes), .initial = "10", .min = 2,
     .max = DRAW_CLASSES, .doc = "number of classes"},
    {"--size", .metavar = "PX", .kind = OPTION_UINT, INTO(struct config, size), .initial = "96", .min = 16, .max = 4096,
     .doc = "length of the shorter side in pixels"},
    {"--seed", .metavar = "S", .kind = OPTION_UINT, INTO(struct config, seed), .initial = "0",
     .doc = "the same seed draws the same images"},
    {"--format", .metavar = "FORMAT", .kind = OPTION_CHOICE, INTO(struct config, format), .choices = formats,
     .initial = "mixed", .doc = "format of the images; mixed: three of four are JPEG, the others PNG"},
    {"--force", 'f', .kind = OPTION_FLAG, INTO(struct config, force), .doc = "write into a folder that is not empty"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print the summary as one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "print errors only: no progress, no summary"},
    {0},
};

static const struct example examples[] = {
    {"draw 1000 images of ten classes", "penstock generate pictures/"},
    {"draw a larger set for training", "penstock generate pictures/ --images 20000 --size 64 --seed 1"},
    {0},
};

const struct command command_generate = {
    .name = "generate",
    .summary = "draw a small labelled image set for experiments",
    .usage = "OUT",
    .doc = "Draws images into the folder OUT, with one subfolder per class: shapes (circle, star, ring, ...) and textures "
           "(stripes, checker, ...). Colours, positions, sizes, backgrounds, light and noise vary, so that a model "
           "has to learn the classes.\n\n"
           "The images depend only on the options and the seed. A file appears only when it is complete.",
    .options = options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = 1,
    .completion = COMPLETE_FOLDERS,
    .config_size = sizeof(struct config),
    .run = run,
};
