/* apply.c: a remedy for real: the data in its new form, the changed text in a file, or more in the indexes beside the shards. The records and images
 * that are there are never touched. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"

#include <penstock/inspect.h>
#include <penstock/pack.h>
#include <stdio.h>
#include <string.h>

struct order {
    const char *id, *format;
    bool resize;
};

static const struct order orders[] = {
    {"pack", NULL, false}, {"resize-offline", NULL, true}, {"store-planes", "yuv420", true}, {"reshard", NULL, false}, {0}};

/* The short side that the remedy stores. */
static uint32_t side_of(const struct pst_doctor *d)
{
    bool random;
    uint32_t side = remedy_side(d, &random);
    return random ? (side * 8 / 7 + 1) / 2 * 2 : side;
}

static pst_status pack_files(struct pst_doctor *d, const struct order *o, const char *out, pst_progress_fn progress, void *user,
                             pst_error *reterr)
{
    char side[16], *path = draft_argument(&d->now.stage[0], "path", 0);
    const char *source = path;
    pst_pack_options options = {.size = sizeof(options), .bad = d->now.options.bad, .progress = progress, .user = user};
    snprintf(side, sizeof(side), "%u", side_of(d));
    options.resize = o->resize ? side : NULL;
    options.format = o->format ? PST_IMAGE_YUV420 : PST_IMAGE_UNKNOWN;
    pst_status st = path ? pst_pack(&source, 1, out, &options, NULL, reterr) : fail_memory(reterr, "packing");
    mem_free(path);
    return st;
}

/* Shards into plain shards, as they are or with images stored anew. */
static pst_status rewrite_records(struct pst_doctor *d, const struct order *o, const char *out, pst_progress_fn progress,
                                  void *user, pst_error *reterr)
{
    struct draft prefix;
    struct rewritten w;
    struct file_info info;
    size_t decode = draft_find(&d->now, "decode", 0);
    if (file_stat(out, &info, NULL) == PST_OK)
        return pst_fail_at(reterr, PST_EEXIST, out, PST_NOWHERE, PST_NOWHERE, "it exists already; choose another name");
    char *field = decode == DRAFT_NONE ? NULL : draft_argument(&d->now.stage[decode], "field", 0);
    remedy_prefix(d, false, &prefix);
    struct rewrite q = {.from = &prefix,
                        .folder = out,
                        .shards = 8,
                        .threads = d->limits.cores,
                        .sync = true,
                        .progress = progress,
                        .user = user,
                        .samples = d->facts.elements == PST_NOWHERE ? 0 : d->facts.elements};
    if (o->resize) {
        q.image = field ? field : "image";
        q.short_side = side_of(d);
        q.format = o->format ? PST_IMAGE_YUV420 : PST_IMAGE_UNKNOWN;
    }
    pst_status st = doctor_rewrite(&q, &w, reterr);
    draft_finish(&prefix);
    mem_free(field);
    return st;
}

/* The paths of a source of records. */
struct paths {
    const char **path;
    size_t count, capacity;
};

static void paths_finish(struct paths *p)
{
    for (size_t i = 0; i < p->count; i++)
        mem_free((void *)(uintptr_t)p->path[i]);
    mem_free(p->path);
}

static pst_status paths_read(const struct pst_doctor *d, struct paths *ret, pst_error *reterr)
{
    char *path;
    while ((path = draft_argument(&d->now.stage[0], "paths", ret->count))) {
        if (mem_grow((void **)&ret->path, &ret->capacity, ret->count + 1, sizeof(*ret->path)) < 0) {
            mem_free(path);
            return fail_memory(reterr, "applying a remedy");
        }
        ret->path[ret->count++] = path;
    }
    return ret->count ? PST_OK : pst_fail(reterr, PST_EINVAL, "the source has no paths");
}

static pst_status pack_records(struct pst_doctor *d, const char *out, pst_progress_fn progress, void *user, pst_error *reterr)
{
    struct paths source = {0};
    pst_pack_options options = {.size = sizeof(options), .from = "tfrecord", .progress = progress, .user = user};
    pst_status st = paths_read(d, &source, reterr);
    if (st == PST_OK)
        st = pst_pack(source.path, source.count, out, &options, NULL, reterr);
    paths_finish(&source);
    return st;
}

/* Adds the places inside JPEGs to the indexes of the shards, as `penstock index --entropy` does. */
static pst_status index_entropy(struct pst_doctor *d, pst_progress_fn progress, void *user, pst_error *reterr)
{
    struct paths source = {0};
    char **shard = NULL;
    size_t count = 0;
    pst_status st = paths_read(d, &source, reterr);
    if (st == PST_OK)
        st = pst_shards_find(&shard, &count, source.path, source.count, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        pst_entropy_report report = {.size = sizeof(report)};
        st = pst_index_entropy(shard[i], NULL, false, d->limits.cores, progress, user, &report, reterr);
    }
    pst_free(shard);
    paths_finish(&source);
    return st;
}

static pst_status write_text(const struct remedy *r, const char *out, pst_error *reterr)
{
    char *text = mem_format("%s\n", r->pipeline);
    pst_status st =
        text ? publish_bytes(out, text, strlen(text), false, true, reterr) : fail_memory(reterr, "writing the pipeline");
    mem_free(text);
    return st;
}

pst_status pst_doctor_apply(pst_doctor *d, const char *id, const char *out, pst_progress_fn progress, void *user,
                            pst_error *reterr)
{
    const struct remedy *r = NULL;
    const struct order *o = orders;
    for (size_t i = 0; i < d->remedies; i++)
        if (strcmp(d->remedy[i].id, id) == 0)
            r = &d->remedy[i];
    while (o->id && strcmp(o->id, id) != 0)
        o++;
    if (!r)
        return pst_fail(reterr, PST_ENOTFOUND, "the result has no remedy called %.60s", id);
    if (!r->available)
        return pst_fail(reterr, PST_EUNSUPPORTED, "%s: this version does not apply it", r->id);
    if (o->id && r->pipeline && !r->packed) /* the changed pipeline stores the data by itself */
        return write_text(r, out, reterr);
    if (o->id && d->survey.kind == SURVEY_FILES)
        return pack_files(d, o, out, progress, user, reterr);
    if (o->id && strcmp(id, "reshard") == 0)
        return pack_records(d, out, progress, user, reterr);
    if (o->id)
        return rewrite_records(d, o, out, progress, user, reterr);
    if (strcmp(id, "entropy-index") == 0)
        return index_entropy(d, progress, user, reterr);
    if (r->pipeline)
        return write_text(r, out, reterr);
    return pst_fail(reterr, PST_EUNSUPPORTED, "%s: %.120s%s%.60s", r->id, r->title, r->command ? "; use " : "",
                    r->command ? r->command : "");
}
