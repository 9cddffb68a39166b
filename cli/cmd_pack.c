/* cmd_pack.c: `penstock pack`: the options of pst_pack, its progress, and a summary. */
#include "cli/command.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/say.h"
#include <inttypes.h>
#include <penstock/pack.h>
#include <penstock/ranks.h>
#include <stdlib.h>
#include <string.h>

#define SKIPS_SHOWN 10
#define MAX_PARTS   100000

struct config {
    int from, format, compress;
    const char *columns, *delimiter, *name, *version, *features, *split, *resize, *bad;
    uint64_t shards, shard_size, seed, quality, augment, workers;
    int64_t level;
    bool no_header, shuffle, gray, rgb, force, no_sync, entropy, json, quiet, join;
    const char *part;
};

static const char *const source_kinds[] = {"auto", "folder", "list", "csv", "tar", "npy", "hdf5", "text", "tfrecord", NULL};
static const char *const formats[] = {"keep", "jpeg", "png", "webp", "raw", "yuv420", NULL};
static const char *const compressions[] = {"none", "gzip", "zlib", "zstd", NULL};

/* ---- From the command line to pst_pack_options ---- */

static bool parse_delimiter(const char *text, char *ret)
{
    if (!text)
        *ret = 0;
    else if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0)
        *ret = '\t';
    else if (text[0] && !text[1] && text[0] != '\n' && text[0] != '"')
        *ret = text[0];
    else
        return false;
    return true;
}

static bool parse_part(const char *text, pst_pack_options *ret)
{
    int length = 0;

    return strspn(text, "0123456789/") == strlen(text) && strlen(text) < 14 &&
           sscanf(text, "%" SCNu32 "/%" SCNu32 "%n", &ret->part, &ret->parts, &length) == 2 && !text[length] &&
           ret->part >= 1 && ret->part <= ret->parts && ret->parts <= MAX_PARTS;
}

/* Returns EXIT_DONE, or prints the error and returns EXIT_USAGE. */
static int translate(pst_pack_options *ret, const struct config *c)
{
    pst_pack_options o = {.size = sizeof(o)};
    pst_policy policy;
    pst_error error;

    if (c->gray && c->rgb)
        return say_usage(&command_pack, "--gray and --rgb exclude each other");
    if (c->shards && c->shard_size)
        return say_usage(&command_pack, "--shards and --shard-size exclude each other");
    if (!parse_delimiter(c->delimiter, &o.delimiter))
        return say_usage(&command_pack, "--delimiter %s: expected one character, or tab", c->delimiter);
    if (pst_policy_parse(&policy, c->bad, &error) < 0)
        return say_usage(&command_pack, "--bad %s: %s", c->bad, error.message);
    o.bad = c->bad;
    if (c->format && pst_image_format_parse(&o.format, formats[c->format], &error) < 0)
        return say_failure(&command_pack, &error, c->json);
    if (pst_compression_parse(&o.compression, compressions[c->compress], &error) < 0)
        return say_failure(&command_pack, &error, c->json);
    o.from = c->from ? source_kinds[c->from] : NULL;
    o.columns = c->columns;
    o.no_header = c->no_header;
    o.name = c->name;
    o.version = c->version;
    o.features = c->features;
    o.shards = (uint32_t)c->shards;
    o.shard_size = c->shard_size;
    o.split = c->split;
    o.shuffle = c->shuffle;
    o.seed = c->seed;
    o.level = (int)c->level;
    o.resize = c->resize;
    o.quality = (int)c->quality;
    o.channels = c->gray ? 1 : c->rgb ? 3 : 0;
    o.augment = (uint32_t)c->augment;
    o.workers = (unsigned)c->workers;
    o.force = c->force;
    o.no_sync = c->no_sync;
    o.entropy = c->entropy;
    o.join = c->join;
    if (c->part && !parse_part(c->part, &o))
        return say_usage(&command_pack, "--part %s: expected a part and their number, as 3/64", c->part);
    if (c->part && c->join)
        return say_usage(&command_pack, "--part and --join exclude each other; join once after all parts");
    *ret = o;
    return EXIT_DONE;
}

/* ---- The report ---- */

static void put_json(const pst_pack_report *r, const char *out)
{
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    json_string(&j, "command", "pack");
    json_string(&j, "out", out);
    json_uint(&j, "records", r->records);
    json_uint(&j, "bytes", r->bytes);
    json_uint(&j, "source_bytes", r->source_bytes);
    json_uint(&j, "classes", r->classes);
    json_number(&j, "seconds", r->seconds);
    json_bool(&j, "up_to_date", r->up_to_date);
    json_uint(&j, "resumed_shards", r->resumed_shards);
    json_begin_array(&j, "splits");
    for (size_t i = 0; i < r->splits; i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "name", r->split[i].name);
        json_uint(&j, "records", r->split[i].records);
        json_uint(&j, "bytes", r->split[i].bytes);
        json_uint(&j, "shards", r->split[i].shards);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_begin_array(&j, "skipped");
    for (size_t i = 0; i < r->skips; i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "key", r->skip[i].key);
        json_string(&j, "why", r->skip[i].why);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_begin_array(&j, "notes");
    for (size_t i = 0; i < r->notes; i++)
        json_string(&j, NULL, r->note[i]);
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

static int wider(int width, const char *text)
{
    int length = (int)strlen(text);

    return length > width ? length : width;
}

static void put_splits(const pst_pack_report *r)
{
    char records[AMOUNT_SIZE], shards[AMOUNT_SIZE], bytes[AMOUNT_SIZE];
    int name_width = 0, records_width = 0, shards_width = 0;

    for (size_t i = 0; i < r->splits; i++) {
        name_width = wider(name_width, r->split[i].name);
        records_width = wider(records_width, amount_count(records, r->split[i].records));
        shards_width = wider(shards_width, amount_count(shards, r->split[i].shards));
    }
    for (size_t i = 0; i < r->splits; i++) {
        const pst_pack_split *s = &r->split[i];

        printf("  %-*s  %*s %-7s  %*s %-6s  %s\n", name_width, s->name, records_width, amount_count(records, s->records),
               plural(s->records, "record", "records"), shards_width, amount_count(shards, s->shards),
               plural(s->shards, "shard", "shards"), amount_bytes(bytes, (double)s->bytes));
    }
}

/* Prints the time and, unless an earlier run made some of the shards, the speed. */
static void put_speed(const pst_pack_report *r)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE];

    if (r->resumed_shards)
        printf("  %s; %s %s there from an earlier run\n", amount_time(a, r->seconds), amount_count(b, r->resumed_shards),
               plural(r->resumed_shards, "shard was", "shards were"));
    else if (r->seconds > 0)
        printf("  %s: %s records/s, %s/s\n", amount_time(a, r->seconds),
               amount_count(b, (uint64_t)((double)r->records / r->seconds + 0.5)),
               amount_bytes(c, (double)r->bytes / r->seconds));
}

static void put_skips(const pst_pack_report *r)
{
    char count[AMOUNT_SIZE];

    if (r->skips == 0)
        return;
    printf("  skipped %s:\n", amount_count(count, r->skips));
    for (size_t i = 0; i < r->skips && i < SKIPS_SHOWN; i++) {
        fputs("    ", stdout);
        put_clean_string(stdout, r->skip[i].key);
        fputs(": ", stdout);
        put_clean_string(stdout, r->skip[i].why);
        putchar('\n');
    }
    if (r->skips > SKIPS_SHOWN)
        printf("    … and %s more\n", amount_count(count, r->skips - SKIPS_SHOWN));
}

static bool is_warning(const char *note)
{
    return strncmp(note, "warning: ", strlen("warning: ")) == 0;
}

/* Prints what the user must see even if no summary is printed. */
static void say_warnings(const pst_pack_report *r)
{
    char text[1024];

    for (size_t i = 0; i < r->notes; i++)
        if (is_warning(r->note[i]))
            say_note("%s", with_option_names(&command_pack, r->note[i], text, sizeof(text)));
}

/* `part`: as K/N; NULL: the whole dataset. */
static void put_summary(const pst_pack_report *r, const char *out, const char *part)
{
    char a[AMOUNT_SIZE], word[4200];

    printf("%s %s %s", r->up_to_date ? "up to date:" : "packed", amount_count(a, r->records),
           plural(r->records, "record", "records"));
    if (r->classes)
        printf(" of %s %s", amount_count(a, r->classes), plural(r->classes, "class", "classes"));
    fputs(r->up_to_date ? " in " : " into ", stdout);
    put_clean_string(stdout, out);
    if (part)
        printf(": part %s", part);
    putchar('\n');
    put_splits(r);
    if (!r->up_to_date)
        put_speed(r);
    put_skips(r);
    for (size_t i = 0; i < r->notes; i++) {
        fputs(is_warning(r->note[i]) ? "  " : "  note: ", stdout);
        put_clean_string(stdout, with_option_names(&command_pack, r->note[i], word, sizeof(word)));
        putchar('\n');
    }
    if (part) {
        printf("when all parts are packed: the same command with --join instead of --part %s\n", part);
        return;
    }
    fputs("look inside: penstock inspect ", stdout);
    put_clean_string(stdout, shell_word(word, sizeof(word), out));
    putchar('\n');
}

/* ---- The command ---- */

/* Seconds without a sign of life after which a rank counts as lost. */
static double patience(void)
{
    const char *given = getenv("PENSTOCK_RANK_TIMEOUT");
    double seconds = given ? atof(given) : 0;

    return seconds > 0 ? seconds : 30;
}

/* What the launcher calls this job: the same in all of its processes, and another one the next time. NULL: it does not say. Variables of Slurm may be
 * those of the shell in which another launcher was called, more than once. */
static const char *job(const pst_launch *launch)
{
    static char text[256];
    const char *id = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID"), *space = getenv("PMIX_NAMESPACE");
    const char *again = getenv("SLURM_RESTART_COUNT"); /* a job that is queued again keeps its id */

    if (strcmp(launch->launcher, "Slurm") != 0 || !id || !step)
        return space ? space : getenv("OMPI_MCA_ess_base_jobid");
    snprintf(text, sizeof(text), "%s.%s.%s", id, step, again ? again : "0");
    return text;
}

/* A process that mpirun or srun has started takes its part, and the first joins. Returns whether this one prints. */
static bool take_part(pst_pack_options *o)
{
    pst_launch launch = {.size = sizeof(launch)};

    if (o->part || o->join || !pst_launch_find(&launch))
        return true;
    o->part = launch.rank + 1;
    o->parts = launch.ranks;
    o->patience = patience();
    o->job = job(&launch);
    return launch.rank == 0;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    const char *out = operands[count - 1];
    struct progress progress;
    pst_pack_options options;
    pst_pack_report *report = NULL;
    pst_error error;
    pst_status status;
    bool last; /* of several processes, one prints */
    int code = translate(&options, c);

    if (code != EXIT_DONE)
        return code;
    progress_start(&progress, "records", c->quiet, c->json);
    options.progress = progress_report;
    options.user = &progress;
    last = take_part(&options);
    status = pst_pack(operands, count - 1, out, &options, &report, &error);
    progress_finish(&progress);
    if (status < 0) {
        code = say_failure(&command_pack, &error, c->json);
        if (status == PST_ECANCELLED)
            say_try("run the same command again; it resumes where this one stopped");
        else if (status == PST_EEXIST && strstr(error.message, "force")) /* but not if the cause is a file or another process */
            say_try("another OUT, or --force to replace what is there");
        return code;
    }
    if (c->json && last)
        put_json(report, out);
    else if (!c->quiet && last)
        put_summary(report, out, c->part);
    if (c->quiet && !c->json)
        say_warnings(report);
    pst_pack_report_destroy(report);
    return EXIT_DONE;
}

static const struct option options[] = {
    {"--from", .metavar = "KIND", .kind = OPTION_CHOICE, INTO(struct config, from), .choices = source_kinds, .initial = "auto",
     .doc = "kind of the sources; auto infers it from path and content", .group = "Sources"},
    {"--columns", .metavar = "LIST", .kind = OPTION_STRING, INTO(struct config, columns),
     .doc =
         "columns of a CSV table and their kinds, as id:int,price:float,name:string; micros stores whole millionths as int64",
     .absent = "inferred from the whole table"},
    {"--delimiter", .metavar = "CHAR", .kind = OPTION_STRING, INTO(struct config, delimiter),
     .doc = "separator of the fields of a CSV table or a list: one character, or tab", .absent = "detected"},
    {"--no-header", .kind = OPTION_FLAG, INTO(struct config, no_header),
     .doc = "the first row of a CSV table is data, not a header; the columns are named c0, c1, and so on"},

    {"--name", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, name),
     .doc = "name of the dataset; the names of its files begin with it", .absent = "the name of OUT", .group = "Output"},
    {"--dataset-version", .metavar = "X.Y.Z", .kind = OPTION_STRING, INTO(struct config, version), .initial = "1.0.0",
     .doc = "the version in dataset_info.json", .parameter = "version"},
    {"--features", .metavar = "LIST", .kind = OPTION_STRING, INTO(struct config, features),
     .doc = "rename features, or leave one out with an empty name: image=picture,key="},
    {"--shards", 'n', "N", OPTION_UINT, INTO(struct config, shards), .min = 1, .max = 100000,
     .doc = "number of shards per split", .absent = "chosen by --shard-size"},
    {"--shard-size", .metavar = "BYTES", .kind = OPTION_BYTES, INTO(struct config, shard_size), .min = 1,
     .doc = "approximate size of a shard", .absent = "256M"},
    {"--split", .metavar = "LIST", .kind = OPTION_STRING, INTO(struct config, split),
     .doc = "splits and their shares, such as train=0.9,val=0.1; the split of a record depends only on its key",
     .absent = "all records are in train"},
    {"--shuffle", .metavar = "SEED", .kind = OPTION_UINT, INTO(struct config, seed), .given = offsetof(struct config, shuffle),
     .doc = "store the records in a random order; the same SEED gives the same order; also the seed of --augment"},
    {"--compress", .metavar = "KIND", .kind = OPTION_CHOICE, INTO(struct config, compress), .choices = compressions,
     .initial = "none", .doc = "compress each shard; a compressed shard has no random access"},
    {"--level", .metavar = "N", .kind = OPTION_INT, INTO(struct config, level), .min = 1, .max = 22,
     .doc = "compression level: gzip and zlib up to 9, zstd up to 22", .absent = "the library's default"},

    {"--resize", .metavar = "SIZE", .kind = OPTION_STRING, INTO(struct config, resize),
     .doc = "resize images: 256 makes the shorter side 256 pixels, 320x240 makes them exactly that size", .group = "Images"},
    {"--format", .metavar = "FORMAT", .kind = OPTION_CHOICE, INTO(struct config, format), .choices = formats, .initial = "keep",
     .doc = "format of the stored images; keep: do not change it"},
    {"--quality", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, quality), .min = 1, .max = 100,
     .doc = "quality of re-encoded JPEG and WebP images", .absent = "90"},
    {"--gray", .kind = OPTION_FLAG, INTO(struct config, gray), .doc = "convert all images to grayscale"},
    {"--rgb", .kind = OPTION_FLAG, INTO(struct config, rgb), .doc = "convert all images to RGB"},
    {"--entropy", .kind = OPTION_FLAG, INTO(struct config, entropy),
     .doc = "also store entropy indexes: places inside JPEGs where decoding can start, so that crops decode faster"},
    {"--augment", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, augment), .max = 1000,
     .doc = "also store N augmented copies (flipped, cropped, other colours) of each image", .absent = "0"},

    {"--workers", 'j', "N", OPTION_UINT, INTO(struct config, workers), .min = 1, .max = 1024,
     .doc = "number of threads; does not affect the output", .absent = "one per core", .group = "Execution"},
    {"--bad", .metavar = "POLICY", .kind = OPTION_STRING, INTO(struct config, bad), .initial = "error",
     .doc = "items that cannot be read or decoded: error stops at the first, skip leaves them out, skip:20 and skip:0.5% set a "
            "limit"},
    {"--part", .metavar = "K/N", .kind = OPTION_STRING, INTO(struct config, part),
     .doc = "write only part K of N, from 1; N such commands, in any order and on any machine that sees OUT, share the work",
     .absent = "everything; under mpirun or srun, the part of this process"},
    {"--join", .kind = OPTION_FLAG, INTO(struct config, join),
     .doc = "complete OUT from its parts; the result is the same as that of one command without --part"},
    {"--force", 'f', .kind = OPTION_FLAG, INTO(struct config, force),
     .doc = "replace the output of another pack command in OUT"},
    {"--no-sync", .kind = OPTION_FLAG, INTO(struct config, no_sync),
     .doc = "do not wait until the data is on the disk: faster, but a crash of the machine may lose data"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print the summary as one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "print errors only: no progress, no summary"},
    {0},
};

static const struct example examples[] = {
    {"pack a folder of class folders into 16 shards, with smaller images",
     "penstock pack photos/ shards/ --resize 256 --shards 16"},
    {"split and shuffle, with the same result in every run",
     "penstock pack photos/ shards/ --split train=0.9,val=0.1 --shuffle 7"},
    {"pack the images listed in a CSV file of path,label", "penstock pack labels.csv shards/ --from list"},
    {"pack WebDataset tars and leave out up to 20 broken images", "penstock pack data-*.tar shards/ --bad skip:20"},
    {"share the work between three processes, then join the parts",
     "for k in 1 2 3; do penstock pack photos/ shards/ --part $k/3 & done; wait; penstock pack photos/ shards/ --join"},
    {"copy existing TFRecords into 64 compressed shards", "penstock pack 'old/*.tfrecord' new/ --shards 64 --compress zstd"},
    {0},
};

const struct command command_pack = {
    .name = "pack",
    .summary = "turn files, arrays and tables into shards",
    .usage = "SOURCE... OUT",
    .doc = "Packs every SOURCE into the folder OUT as shards: TFRecord files of tf.train.Example, each with an index beside "
           "it, and dataset_info.json, features.json and labels.txt, so that TensorFlow Datasets can open the folder "
           "too.\n\n"
           "A SOURCE is a folder with a subfolder for each class, a list or CSV of path,label, a WebDataset tar, "
           "an .npy or .npz array, a CSV table, an HDF5 file, a text file (one record per line), or existing TFRecord files. "
           "\"-\" is standard input and needs --from. Images are stored byte for byte as they are, unless an option changes "
           "them.\n\n"
           "Many processes can share the work: each packs one part (--part 3/64) with the same sources and options, and --join "
           "completes the dataset, byte for byte as one process would have written it. OUT may be in an object store. Under mpirun and srun this happens by "
           "itself.\n\n"
           "A shard file appears only when it is complete. After an interruption of any kind, run the same command again: it "
           "resumes where it stopped and writes the same bytes. Output of another command in OUT is replaced only with "
           "--force.",
    .options = options,
    .examples = examples,
    .min_operands = 2,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
