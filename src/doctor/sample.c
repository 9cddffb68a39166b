/* sample.c: a sample of the data, on which remedies are tried. Of files and records it is a stratified one in a temporary folder: elements are sorted by
 * size, and every n-th is taken, so that the sample has small and large ones in the proportion of the data. Of every other source, such as tables
 * and arrays, it is the first elements, read by that source itself. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES ((uint64_t)64 << 20)

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

void doctor_sample_finish(struct sample *s)
{
    if (s->folder)
        nftw(s->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mem_free(s->folder);
    mem_free(s->source);
    mem_free(s->path);
    *s = (struct sample){0};
}

static int by_size(const void *a, const void *b)
{
    const struct survey_item *x = a, *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* As many elements as can be decoded and encoded again in about a second. */
static size_t choose_count(const struct pst_doctor *d, size_t most)
{
    const struct survey *s = &d->survey;
    double seconds = doctor_span(d, 0.3, 1.2), us = d->costs.cpu_us > 1 ? d->costs.cpu_us : 1;
    double count = seconds * 1e6 * d->limits.cores / (4 * us);
    double fit = s->mean_bytes > 0 ? (double)MOST_BYTES / s->mean_bytes : 4096;
    count = count > fit ? fit : count;
    count = count < 16 ? 16 : count > 4096 ? 4096 : count;
    return (size_t)count < most ? (size_t)count : most;
}

static pst_status make_folder(struct pst_doctor *d, pst_error *reterr)
{
    char *folder = file_join(d->options.temp_dir ? d->options.temp_dir : "/tmp", "penstock-doctor-XXXXXX");
    if (!folder)
        return fail_memory(reterr, "writing the sample");
    if (!mkdtemp(folder)) {
        pst_status st = pst_fail_at(reterr, PST_EIO, folder, PST_NOWHERE, PST_NOWHERE, "no temporary folder can be made there");
        mem_free(folder);
        return st;
    }
    d->sample.folder = folder;
    return PST_OK;
}

/* A cache in memory that is limited holds the same part of the sample as of all data. */
static void scale_cache(struct pst_doctor *d)
{
    size_t at = draft_find(&d->sampled, "cache", 1);
    if (at == DRAFT_NONE || !(d->epoch_samples > 0))
        return;
    char *folder = draft_argument(&d->sampled.stage[at], "path", 1), *size = draft_argument(&d->sampled.stage[at], "bytes", 0);
    uint64_t bytes = d->now.options.ram / 2; /* as the cache does without a size */
    bool known = !folder && (!size || text_parse_bytes(&bytes, size, NULL) == PST_OK);
    if (known && bytes > 0)
        draft_set(&d->sampled, at, "cache %.0f", fmax(1, (double)bytes * fmin(1, (double)d->sample.count / d->epoch_samples)));
    mem_free(folder);
    mem_free(size);
}

/* The first elements of a source that is neither files nor records. */
static pst_status take_first(struct pst_doctor *d, pst_error *reterr)
{
    size_t count = choose_count(d, d->facts.elements == PST_NOWHERE ? 4096 : (size_t)d->facts.elements);
    if (count < 8)
        return PST_OK;
    pst_status st = make_folder(d, reterr);
    if (st < 0)
        return st;
    d->sample.count = count;
    d->sample.taken = true;
    draft_copy(&d->sampled, &d->now);
    draft_insert(&d->sampled, 1, "take %zu", count);
    scale_cache(d);
    return PST_OK;
}

static const struct survey_item *pick(const struct survey *s, size_t i, size_t count)
{
    return &s->item[(size_t)(((double)i + 0.5) * (double)s->count / (double)count)];
}

static void add_csv(struct text *t, const char *s)
{
    text_add(t, "\"");
    for (; *s; s++)
        text_addf(t, *s == '"' ? "\"\"" : "%c", *s);
    text_add(t, "\"");
}

static pst_status write_list(struct pst_doctor *d, pst_error *reterr)
{
    struct sample *to = &d->sample;
    struct text t = {0};
    bool labels = d->survey.item[0].label != INT64_MIN;
    text_add(&t, labels ? "path,label\n" : "path\n");
    for (size_t i = 0; i < to->count; i++) {
        const struct survey_item *item = pick(&d->survey, i, to->count);
        char *path = NULL;
        pst_status st = file_absolute(&path, item->path, reterr);
        if (st < 0) {
            text_finish(&t);
            return st;
        }
        add_csv(&t, path);
        if (labels)
            text_addf(&t, ",%lld", (long long)item->label);
        text_add(&t, "\n");
        to->bytes += item->bytes;
        mem_free(path);
    }
    to->path = file_join(to->folder, "sample.csv");
    pst_status st = t.failed || !to->path ? fail_memory(reterr, "writing the sample")
                                          : publish_bytes(to->path, t.data, t.length, true, false, reterr);
    text_finish(&t);
    return st;
}

static pst_status write_records(struct pst_doctor *d, pst_error *reterr)
{
    struct sample *to = &d->sample;
    pst_writer *writer = NULL;
    pst_writer_options o = {.size = sizeof(o), .compression = d->survey.compression, .no_sync = true};
    to->path = file_join(to->folder, "sample.tfrecord");
    pst_status st = to->path ? pst_writer_open(&writer, to->path, &o, reterr) : fail_memory(reterr, "writing the sample");
    for (size_t i = 0; st == PST_OK && i < to->count; i++) {
        const struct survey_item *item = pick(&d->survey, i, to->count);
        st = pst_writer_write(writer, item->data, (size_t)item->bytes, reterr);
        to->bytes += item->bytes;
    }
    if (st == PST_OK)
        st = pst_writer_commit(writer, reterr);
    pst_writer_close(writer);
    return st;
}

/* The pipeline on the sample; a source by number is shuffled as before. */
static pst_status make_draft(struct pst_doctor *d, pst_error *reterr)
{
    struct sample *s = &d->sample;
    char *word = draft_quote(s->path);
    s->source = word ? mem_format(d->survey.kind == SURVEY_FILES ? "files %s" : "tfrecord %s", word) : NULL;
    mem_free(word);
    if (!s->source)
        return fail_memory(reterr, "writing the sample");
    draft_copy(&d->sampled, &d->now);
    draft_set(&d->sampled, 0, "%s", s->source);
    scale_cache(d);
    return PST_OK;
}

pst_status doctor_sample_make(struct pst_doctor *d, pst_error *reterr)
{
    struct survey *s = &d->survey;
    if (draft_stores(&d->now) || s->count < 8) /* what the pipeline keeps on disk would be kept of the sample, too */
        return PST_OK;
    pst_status st = doctor_tick(d, "taking a sample", reterr);
    if (st == PST_OK && s->kind == SURVEY_NONE)
        return take_first(d, reterr);
    if (st == PST_OK)
        st = make_folder(d, reterr);
    if (st < 0)
        return st;
    qsort(s->item, s->count, sizeof(*s->item), by_size);
    d->sample.count = choose_count(d, s->count);
    st = s->kind == SURVEY_FILES ? write_list(d, reterr) : write_records(d, reterr);
    return st < 0 ? st : make_draft(d, reterr);
}
