/* source_lines.c: `lines`: text files, one element per line. */
#include "source/span_set.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

struct config {
    pst_strings paths;
    bool skip_empty;
    int io; /* enum span_io */
    uint64_t max_record;
};

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL,
     "files, folders (their .txt files) or patterns; - is standard input"},
    {"skip_empty", PST_PARAM_BOOL, offsetof(struct config, skip_empty), "false", 0, 0, NULL, "leaves empty lines out"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, span_io_names, SPAN_IO_DOC},
    {"max_record", PST_PARAM_BYTES, offsetof(struct config, max_record), "64MiB", 0, 0, NULL, "a longer line is an error"},
    {0},
};

struct lines {
    struct span_set set; /* first */
    bool skip_empty;
};

struct room {
    pst_bytes line;
};

/* Length of the line without its end. */
static size_t bare_length(const uint8_t *data, size_t length)
{
    if (length && data[length - 1] == '\n')
        length -= length > 1 && data[length - 2] == '\r' ? 2 : 1;
    return length;
}

static pst_status lines_cut(void *source, void *room, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                            enum span_found *ret, pst_error *reterr)
{
    const struct lines *l = source;
    size_t begin = 0;
    (void)room, (void)reterr;
    for (;;) {
        const uint8_t *at = w->data + begin;
        const uint8_t *line = begin < w->length ? memchr(at, '\n', w->length - begin) : NULL;
        size_t end = line ? (size_t)(line + 1 - w->data) : w->length;
        *ret_begin = begin;
        *ret_end = end;
        *ret = begin == w->length ? SPAN_END : SPAN_FOUND;
        if (!line && !w->ended)
            *ret = SPAN_MORE;
        if (*ret != SPAN_FOUND || !l->skip_empty || bare_length(at, end - begin) > 0)
            return PST_OK;
        begin = end;
    }
}

static pst_status lines_parse(const void *source, void *room, const struct span_window *w, pst_tensor *out, pst_error *reterr)
{
    struct room *r = room;
    if (w->length == 0 || (w->data[w->length - 1] != '\n' && !w->ended))
        return pst_fail(reterr, PST_ESTALE, "the file changed after its index was made; delete the index (….lines.pidx)");
    /* Empty lines that are left out stand after the line. */
    const uint8_t *end = ((const struct lines *)source)->skip_empty ? memchr(w->data, '\n', w->length) : NULL;
    r->line = (pst_bytes){w->data, bare_length(w->data, end ? (size_t)(end + 1 - w->data) : w->length)};
    out[0].data = &r->line;
    return PST_OK;
}

static const char *const extensions[] = {".txt", ".text", ".jsonl", NULL};

static const struct span_class class = {.kind = "lines",
                                        .extensions = extensions,
                                        .cut = lines_cut,
                                        .parse = lines_parse,
                                        .room_size = sizeof(struct room)};

static void lines_close(void *source)
{
    if (source)
        span_set_finish(source);
    mem_free(source);
}

static pst_status lines_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct lines *l = mem_zalloc(sizeof(*l));
    if (!l)
        return fail_memory(reterr, "opening the files");
    l->skip_empty = c->skip_empty;
    l->set.class = &class;
    l->set.io = (enum span_io)c->io;
    l->set.max_bytes = c->max_record;
    l->set.form = c->skip_empty;
    pst_status st = span_set_open(&l->set, &c->paths, env, reterr);
    if (st < 0) {
        lines_close(l);
        return st;
    }
    *ret = l;
    return PST_OK;
}

static void lines_spec(const void *source, pst_spec *ret)
{
    static const pst_field line = {.name = "line", .dtype = PST_DTYPE_BYTES, .alias = -1};
    (void)source;
    *ret = (pst_spec){.count = 1, .field = &line};
}

const struct source_class source_lines = {
    .op = {.size = sizeof(pst_op_class),
           .name = "lines",
           .doc = "The lines of text files, without their ends (LF or CRLF), in the field line. An index of the lines is made on "
                  "first use, so they can be read in any order; if one file is compressed or a pipe, all files are a stream.",
           .example = "lines books/ skip_empty=true | shuffle | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = lines_open,
    .close = lines_close,
    .spec = lines_spec,
    SPAN_SET_SOURCE(sizeof(struct room)),
};
