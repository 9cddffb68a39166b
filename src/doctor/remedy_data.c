/* remedy_data.c: remedies that store the data in another form, once. Each is tried on the sample. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static pst_status or_memory(const void *p, pst_error *reterr)
{
    return p ? PST_OK : fail_memory(reterr, "describing a remedy");
}

static bool has_images(const struct pst_doctor *d)
{
    return d->sample.folder && d->survey.images > 0 && draft_find(&d->now, "decode", 0) != DRAFT_NONE;
}

/* What it costs to store all data in the new form. */
static void set_price(const struct pst_doctor *d, struct remedy *r, const struct rewritten *w)
{
    double total = d->distinct_samples > 0 ? d->distinct_samples : (double)d->sample.count, each = w->samples ? 1 / (double)w->samples : 0;
    char bytes[32];
    r->disk_bytes = (double)w->bytes * each * total;
    r->seconds = w->seconds * each * total;
    r->psnr = w->psnr;
    text_bytes((uint64_t)r->disk_bytes, bytes, sizeof(bytes));
    int n = snprintf(r->price, sizeof(r->price), "%s on disk, about %s once", bytes, FIGURE_TIME(r->seconds));
    if (w->psnr > 0 && n > 0 && (size_t)n < sizeof(r->price))
        snprintf(r->price + n, sizeof(r->price) - (size_t)n, ", pixels differ (%.0f dB PSNR)", w->psnr);
}

/* Stores the sample in the new form and tries the pipeline on it. */
static pst_status try_rewrite(struct pst_doctor *d, struct remedy *r, struct rewrite *q, pst_error *reterr)
{
    struct draft prefix;
    struct rewritten w;
    pst_error error = {0};
    if (!doctor_has_time(d, 4))
        return PST_SKIP;
    char *folder = file_join(d->sample.folder, r->id);
    if (!folder)
        return fail_memory(reterr, "trying a remedy");
    remedy_prefix(d, true, &prefix);
    q->from = &prefix;
    q->folder = folder;
    q->shards = 1;
    q->threads = d->limits.cores;
    pst_status st = doctor_rewrite(q, &w, &error);
    draft_finish(&prefix);
    if (st == PST_OK) {
        set_price(d, r, &w);
        memcpy(r->picture, w.picture, sizeof(r->picture));
        remedy_repacked(d, folder, &r->variant);
        r->on_sample = r->packed = true;
        st = remedy_probe(d, r, reterr);
    } else if (st == PST_ENOMEM || st == PST_ECANCELLED) {
        if (reterr)
            *reterr = error;
    } else {
        st = PST_SKIP; /* images of this kind cannot be stored so */
    }
    mem_free(folder);
    return st;
}

/* This examination again, which then stores all data. */
static char *command_of(const struct pst_doctor *d, const char *id, const char *out)
{
    char *rest = mem_format(" --apply %s --out %s", id, out), *command = rest ? doctor_command(d, rest) : NULL;
    mem_free(rest);
    return command;
}

/* The pipeline and the command for the real data. */
static pst_status describe(struct pst_doctor *d, struct remedy *r, const char *suffix, const char *arguments, pst_error *reterr)
{
    char *out = remedy_out(d, suffix), *source = remedy_source(d), *shell = out ? remedy_shell(out) : NULL, *folder = out ? mem_format("%s/", out) : NULL;
    struct draft after = {0};
    pst_status st = or_memory(shell && source && folder ? out : NULL, reterr);
    if (st == PST_OK) {
        bool pack = d->survey.kind == SURVEY_FILES, foreign = draft_has_custom(&d->now); /* the tool does not know those */
        snprintf(r->out, sizeof(r->out), "%s", out);
        const char *bad = d->now.options.bad && strcmp(d->now.options.bad, "error") != 0 ? d->now.options.bad : NULL;
        r->command = pack ? mem_format("penstock pack %s %s%s%s%s", source, shell, arguments, bad ? " --bad " : "", bad ? bad : "")
                     : foreign ? NULL
                               : command_of(d, r->id, shell);
        remedy_repacked(d, folder, &after);
        remedy_text(d, r, &after);
        draft_finish(&after);
        st = foreign && !pack ? PST_OK : or_memory(r->command, reterr);
    }
    mem_free(out);
    mem_free(source);
    mem_free(shell);
    mem_free(folder);
    return st;
}

/* ---- Packing ---- */

/* Whether reading is enough of the work for another form of the data to bring `least`; where it is not, what brief runs show is chance. */
static bool reading_matters(const struct pst_doctor *d, double least)
{
    return d->read_share > (d->contended ? 0.5 : 1 - 1 / least);
}

static bool is_flawed(const struct pst_doctor *d, const char *id)
{
    for (size_t i = 0; i < d->remedies; i++)
        if (d->remedy[i].flaw && strcmp(d->remedy[i].id, id) == 0)
            return true;
    return false;
}

/* The cause that another form of the data removes. A stream that is not the limit, and yet keeps each epoch waiting: its buffer is filled first. */
static void set_read_cause(const struct pst_doctor *d, struct remedy *r)
{
    double epoch = d->epoch_samples > 0 ? d->epoch_samples / d->run.rate : INFINITY, workers = fmin(d->costs.workers, d->limits.cores);
    bool fills = d->run.streamed && draft_find(&d->now, "shuffle", 0) != DRAFT_NONE && d->run.first_batch > 0.25 * epoch;
    r->flaw = reading_matters(d, r->least);
    r->cause = d->run.streamed ? "compressed-stream" : "slow-format";
    if (fills && !is_flawed(d, "reorder") && (d->costs.serial_us < 0.75 * d->costs.cpu_us / fmax(workers, 1) || r->warm_gain < r->least)) {
        r->flaw = true;
        r->cause = "shuffle-buffer";
        r->least = 0.95;
        r->rate = fmax(r->rate, d->run.rate); /* the rate stays as it is; the first batch comes sooner */
    }
}

/* Tables, arrays, archives: whatever is neither files nor records is stored by `snapshot`, as it is. */
static pst_status find_pack_format(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    if (!d->sample.taken || !(d->epoch_samples > 0) || draft_find(&d->now, "cache", 0) != DRAFT_NONE || !doctor_has_time(d, 4))
        return PST_SKIP;
    char *folder = file_join(d->sample.folder, "snapshot"), *word = folder ? draft_quote(folder) : NULL;
    char *out = remedy_out(d, "shards"), *quoted = out ? draft_quote(out) : NULL;
    pst_status st = or_memory(word && quoted ? out : NULL, reterr);
    if (st == PST_OK) {
        draft_copy(&r->variant, &d->sampled);
        draft_insert(&r->variant, 2, "snapshot %s", word);
        r->on_sample = r->packed = true;
        st = remedy_fill(d, &r->variant, reterr);
    }
    if (st == PST_OK)
        st = remedy_probe(d, r, reterr);
    if (st == PST_OK) {
        struct draft after;
        char bytes[32], name[64];
        r->disk_bytes = remedy_stored_bytes(folder) / (double)d->sample.count * d->distinct_samples;
        text_bytes((uint64_t)r->disk_bytes, bytes, sizeof(bytes));
        draft_copy(&after, &d->now);
        draft_insert(&after, 1, "snapshot %s", quoted);
        remedy_text(d, r, &after);
        draft_finish(&after);
        set_read_cause(d, r);
        snprintf(r->title, sizeof(r->title), "store what \"%s\" reads in shards, once: any worker reads any sample from there", remedy_stage_words(&d->now.stage[0], name));
        snprintf(r->price, sizeof(r->price), "%s on disk; the first epoch is as slow as now", bytes);
        r->packed = false; /* the text stores them by itself */
        st = or_memory(r->pipeline, reterr);
    }
    mem_free(folder);
    mem_free(word);
    mem_free(out);
    mem_free(quoted);
    return st;
}

static pst_status find_pack(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct rewrite q = {0};
    if (d->sample.taken)
        return find_pack_format(d, r, reterr);
    if (!d->survey.file_per_element || !d->sample.folder || draft_find(&d->now, "decode", 0) == DRAFT_NONE)
        return PST_SKIP;
    pst_status st = try_rewrite(d, r, &q, reterr);
    if (st != PST_OK)
        return st;
    double most = d->run.rate / fmax(1 - 1.5 * d->read_share, 0.05); /* all that packing saves is reading */
    r->rate = fmin(r->rate, most);
    r->low = fmin(r->low, most);
    r->high = fmin(r->high, most);
    r->flaw = d->survey.mean_bytes < 262144 && reading_matters(d, r->least);
    r->cause = "many-small-files";
    snprintf(r->title, sizeof(r->title), "pack the files into shards: one read instead of opening, reading and closing each file");
    return describe(d, r, "shards", "", reterr);
}

static pst_status copy_plain(struct pst_doctor *d, const char *path, struct rewritten *w, pst_error *reterr)
{
    pst_reader *reader = NULL;
    pst_writer *writer = NULL;
    pst_record record;
    pst_writer_options o = {.size = sizeof(o), .no_sync = true, .overwrite = true};
    double begin = doctor_elapsed(d);
    pst_status st = pst_reader_open(&reader, d->sample.path, NULL, reterr);
    if (st == PST_OK)
        st = pst_writer_open(&writer, path, &o, reterr);
    while (st == PST_OK && (st = pst_reader_next(reader, &record, reterr)) == PST_OK) {
        st = pst_writer_write(writer, record.data, record.length, reterr);
        w->samples++;
        w->bytes += record.length + 16;
    }
    if (st == PST_END)
        st = pst_writer_commit(writer, reterr);
    pst_writer_close(writer);
    pst_reader_close(reader);
    w->seconds = doctor_elapsed(d) - begin;
    return st;
}

/* Compressed shards as plain ones, which any worker can read anywhere. */
static pst_status find_reshard(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct rewritten w = {0};
    if (d->facts.indexed || d->survey.kind != SURVEY_RECORDS || !d->sample.folder)
        return PST_SKIP;
    char *path = file_join(d->sample.folder, "plain.tfrecord"), *word = path ? draft_quote(path) : NULL;
    char *out = remedy_out(d, "plain"), *source = remedy_source(d), *shell = out ? remedy_shell(out) : NULL, *after = out ? draft_quote(out) : NULL;
    pst_status st = or_memory(word && source && shell && after ? path : NULL, reterr);
    if (st == PST_OK)
        st = copy_plain(d, path, &w, reterr);
    if (st == PST_OK) {
        set_price(d, r, &w);
        draft_copy(&r->variant, &d->now);
        draft_set(&r->variant, 0, "tfrecord %s", word);
        r->on_sample = r->packed = true;
        st = remedy_probe(d, r, reterr);
    }
    if (st == PST_OK) {
        struct draft text;
        draft_copy(&text, &d->now);
        draft_set(&text, 0, "tfrecord %s/", after);
        remedy_text(d, r, &text);
        draft_finish(&text);
        set_read_cause(d, r);
        snprintf(r->out, sizeof(r->out), "%s", out);
        snprintf(r->title, sizeof(r->title), "store the shards without compression: every worker reads any record, and the shuffle is exact");
        r->command = mem_format("penstock pack %s %s", source, shell);
        st = or_memory(r->command, reterr);
    }
    mem_free(path);
    mem_free(word);
    mem_free(out);
    mem_free(source);
    mem_free(shell);
    mem_free(after);
    return st;
}

/* ---- Images ---- */

static uint32_t stored_side(const struct pst_doctor *d, uint32_t *ret_used)
{
    bool random;
    uint32_t side = remedy_side(d, &random);
    *ret_used = side;
    return random ? (side * 8 / 7 + 1) / 2 * 2 : side; /* 224 of 256, as is usual: crops need a margin */
}

static char *image_field(const struct pst_doctor *d)
{
    size_t decode = draft_find(&d->now, "decode", 0);
    char *field = decode == DRAFT_NONE ? NULL : draft_argument(&d->now.stage[decode], "field", 0);
    return field ? field : mem_strdup("image");
}

static pst_status find_resize_offline(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    uint32_t used, side = has_images(d) ? stored_side(d, &used) : 0;
    double smaller = d->survey.width < d->survey.height ? d->survey.width : d->survey.height;
    if (side == 0 || smaller < 1.25 * side)
        return PST_SKIP;
    char *field = image_field(d), arguments[64], suffix[32];
    struct rewrite q = {.image = field, .short_side = side, .compare = used};
    pst_status st = field ? try_rewrite(d, r, &q, reterr) : fail_memory(reterr, "trying a remedy");
    mem_free(field);
    if (st != PST_OK)
        return st;
    r->flaw = smaller >= 1.9 * side; /* a quarter of the pixels would do */
    r->cause = "large-images";
    snprintf(r->title, sizeof(r->title), "store the images with a short side of %u instead of %.0f pixels: training uses %u", side, smaller, used);
    snprintf(r->risk, sizeof(r->risk), "crops of small parts of the original are coarser; keep the originals");
    snprintf(arguments, sizeof(arguments), " --resize %u", side);
    snprintf(suffix, sizeof(suffix), "%u", side);
    return describe(d, r, suffix, arguments, reterr);
}

static pst_status find_store_planes(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    uint32_t used, side = has_images(d) ? stored_side(d, &used) : 0;
    if (side == 0 || d->survey.jpeg_share < 0.5)
        return PST_SKIP;
    char *field = image_field(d), arguments[64];
    struct rewrite q = {.image = field, .short_side = side, .compare = used, .format = PST_IMAGE_YUV420};
    pst_status st = field ? try_rewrite(d, r, &q, reterr) : fail_memory(reterr, "trying a remedy");
    mem_free(field);
    if (st != PST_OK)
        return st;
    snprintf(r->title, sizeof(r->title), "store the images as planes that need no decoding (yuv420), with a short side of up to %u", side);
    snprintf(r->risk, sizeof(r->risk), "the data takes more room, and storage must deliver it");
    snprintf(arguments, sizeof(arguments), " --resize %u --format yuv420", side);
    return describe(d, r, "planes", arguments, reterr);
}

static pst_status find_entropy_index(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    bool random;
    struct rewritten w = {0};
    pst_entropy_report report = {.size = sizeof(report)};
    if (!has_images(d) || d->survey.kind != SURVEY_RECORDS || !d->facts.indexed || d->survey.jpeg_share < 0.5 ||
        remedy_side(d, &random) == 0 || !random || strstr(d->facts.entropy, "in the sidecars"))
        return PST_SKIP;
    char *path = file_join(d->sample.folder, "entropy.tfrecord"), *word = path ? draft_quote(path) : NULL, *source = remedy_source(d);
    pst_status st = or_memory(word && source ? path : NULL, reterr);
    if (st == PST_OK)
        st = copy_plain(d, path, &w, reterr);
    if (st == PST_OK)
        st = pst_index_entropy(path, NULL, false, d->limits.cores, NULL, NULL, &report, reterr);
    if (st == PST_OK) {
        double total = d->distinct_samples > 0 ? d->distinct_samples : (double)w.samples;
        draft_copy(&r->variant, &d->now);
        draft_set(&r->variant, 0, "tfrecord %s", word);
        r->on_sample = true;
        r->disk_bytes = (double)report.bytes * total / (double)(w.samples ? w.samples : 1);
        r->elsewhere = true;
        st = remedy_probe(d, r, reterr);
    }
    if (st == PST_OK) {
        snprintf(r->title, sizeof(r->title), "store where decoding can begin inside JPEGs, so that the first epoch skips as much as later ones");
        r->in_place = true;
        r->command = mem_format("penstock index --entropy %s", source);
        st = or_memory(r->command, reterr);
    }
    mem_free(path);
    mem_free(word);
    mem_free(source);
    return st;
}

const struct remedy_class remedy_data[] = {
    {"resize-offline", 3, find_resize_offline, GROUP_DATA},
    {"reshard", 3, find_reshard, GROUP_DATA},
    {"pack", 3, find_pack, GROUP_DATA},
    {0},
};

const struct remedy_class remedy_forms[] = {
    {"store-planes", 3, find_store_planes, GROUP_DATA},
    {"entropy-index", 3, find_entropy_index, GROUP_DATA},
    {0},
};
