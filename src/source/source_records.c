/* source_records.c: `records`: files of records that all have the same length. */
#include "source/span_set.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>

struct config {
    pst_strings paths;
    uint64_t bytes, header, footer;
    int io; /* enum span_io */
};

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL,
     "files, folders (their .bin, .dat and .raw files) or patterns; - is standard input"},
    {"bytes", PST_PARAM_BYTES, offsetof(struct config, bytes), "0", 0, 0, NULL, "length of a record; must be given"},
    {"header", PST_PARAM_BYTES, offsetof(struct config, header), "0", 0, 0, NULL,
     "bytes to skip at the beginning of every file"},
    {"footer", PST_PARAM_BYTES, offsetof(struct config, footer), "0", 0, 0, NULL, "bytes to skip at the end of every file"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, span_io_names, SPAN_IO_DOC},
    {0},
};

struct records {
    struct span_set set; /* first */
};

struct room {
    pst_bytes record;
};

static pst_status fail_rest(const struct span_set *s, uint64_t rest, pst_error *reterr)
{
    return pst_fail(reterr, PST_ECORRUPT,
                    "the file ends %" PRIu64 " bytes after the last whole record of %" PRIu64
                    "; expected whole records and a footer of %" PRIu64,
                    rest, s->fixed, s->footer);
}

/* The footer is known only when the file ends. */
static pst_status records_cut(void *source, void *room, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                              enum span_found *ret, pst_error *reterr)
{
    const struct span_set *s = source;
    uint64_t skip = w->offset == 0 ? s->header : 0, left = w->length > skip ? w->length - skip : 0;
    (void)room;
    *ret_begin = (size_t)skip;
    *ret_end = (size_t)(skip + s->fixed);
    *ret = SPAN_FOUND;
    if (left >= s->fixed + s->footer)
        return PST_OK;
    *ret = w->ended ? SPAN_END : SPAN_MORE;
    bool whole = w->length >= skip && left == s->footer;
    return !w->ended || whole || (w->length == 0 && w->offset == 0) ? PST_OK : fail_rest(s, w->length, reterr);
}

static pst_status records_parse(const void *source, void *room, const struct span_window *w, pst_tensor *out, pst_error *reterr)
{
    struct room *r = room;
    (void)source, (void)reterr;
    r->record = (pst_bytes){w->data, w->length};
    out[0].data = &r->record;
    return PST_OK;
}

static const char *const extensions[] = {".bin", ".dat", ".raw", NULL};

static const struct span_class class = {.kind = "records",
                                        .extensions = extensions,
                                        .binary = true,
                                        .cut = records_cut,
                                        .parse = records_parse,
                                        .room_size = sizeof(struct room)};

static void records_close(void *source)
{
    if (source)
        span_set_finish(source);
    mem_free(source);
}

static pst_status records_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct records *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory(reterr, "opening the files");
    if (c->header > INT64_MAX || c->footer > PST_MAX_RECORD_BYTES || c->bytes == 0 || c->bytes > PST_MAX_RECORD_BYTES) {
        records_close(r);
        return pst_fail(reterr, PST_EINVAL, "bytes= must be given, 1 to %" PRIu64 ", and the footer is at most as long",
                        PST_MAX_RECORD_BYTES);
    }
    r->set.class = &class;
    r->set.io = (enum span_io)c->io;
    r->set.fixed = c->bytes;
    r->set.header = c->header;
    r->set.footer = c->footer;
    r->set.max_bytes = c->bytes + c->header + c->footer;
    pst_status st = span_set_open(&r->set, &c->paths, env, reterr);
    if (st < 0) {
        records_close(r);
        return st;
    }
    *ret = r;
    return PST_OK;
}

static void records_spec(const void *source, pst_spec *ret)
{
    static const pst_field record = {.name = "record", .dtype = PST_DTYPE_BYTES, .alias = -1};
    (void)source;
    *ret = (pst_spec){.count = 1, .field = &record};
}

const struct source_class source_records = {
    .op = {.size = sizeof(pst_op_class),
           .name = "records",
           .doc = "Records of one fixed length, as bytes in the field record. Plain files are read in any order and need no "
                  "index; if one file is compressed or a pipe, all files are a stream.",
           .example = "records cifar/ bytes=3073 | shuffle | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = records_open,
    .close = records_close,
    .spec = records_spec,
    SPAN_SET_SOURCE(sizeof(struct room)),
};
