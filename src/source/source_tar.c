/* source_tar.c: `tar`: WebDataset archives, one element per sample. Files and indexes are span_set.c's, samples tar_sample.c's,
 * fields tar_schema.c's. */
#include "source/tar_sample.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

struct config {
    pst_strings paths;
    const char *fields;
    int io; /* enum span_io */
    uint64_t max_record;
};

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL,
     "files, folders (their .tar and .tgz files), patterns, or numbers in braces as in x-{000..009}.tar; - is standard input"},
    {"fields", PST_PARAM_STRING, offsetof(struct config, fields), "", 0, 0, NULL,
     "the members to read, as name=extension, separated by blanks: several extensions are separated by commas, :int64 or "
     ":float reads a number from text, ? lets the member be missing; name:folder is the number of the sample's folder. Empty: "
     "what the first samples have"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, span_io_names, SPAN_IO_DOC},
    {"max_record", PST_PARAM_BYTES, offsetof(struct config, max_record), "1GiB", 0, 0, NULL, "a longer sample is an error"},
    {0},
};

struct tar {
    struct span_set set; /* first */
    struct tar_schema schema;
    bool declared;
};

static pst_status tar_look(void *source, const struct span_window *head, enum span_found *ret, pst_error *reterr)
{
    struct tar *t = source;
    *ret = SPAN_FOUND;
    return t->declared ? PST_OK : tar_schema_learn(&t->schema, head, ret, reterr);
}

static pst_status tar_cut(void *source, void *room, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                          enum span_found *ret, pst_error *reterr)
{
    (void)source;
    return tar_sample_cut(room, w, ret_begin, ret_end, ret, reterr);
}

static pst_status tar_scan(void *source, int fd, const char *path, struct span_builder *b, uint64_t *ret_end, pst_error *reterr)
{
    return tar_sample_scan(fd, path, &((struct tar *)source)->set.stop, b, ret_end, reterr);
}

static pst_status tar_parse(const void *source, void *room, const struct span_window *w, pst_tensor *out, pst_error *reterr)
{
    return tar_sample_parse(&((const struct tar *)source)->schema, room, w, out, reterr);
}

static const char *const extensions[] = {".tar", ".tgz", NULL};

static const struct span_class class = {.kind = "samples",
                                        .extensions = extensions,
                                        .look = tar_look,
                                        .cut = tar_cut,
                                        .scan = tar_scan,
                                        .parse = tar_parse,
                                        .room_stop = tar_room_stop,
                                        .room_size = sizeof(struct tar_room)};

static void tar_close(void *source)
{
    struct tar *t = source;
    if (!t)
        return;
    span_set_finish(&t->set);
    tar_schema_finish(&t->schema);
    mem_free(t);
}

static pst_status tar_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct tar *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "opening the archives");
    arena_init(&t->schema.memory);
    t->set.class = &class;
    t->set.io = (enum span_io)c->io;
    t->set.form = hash_bytes("folders", 7, 0); /* the note of the index */
    t->set.max_bytes = c->max_record;
    pst_status st = tar_schema_declare(&t->schema, c->fields, reterr);
    t->declared = t->schema.count > 0;
    if (st == PST_OK)
        st = span_set_open(&t->set, &c->paths, env, reterr);
    if (st == PST_OK)
        st = tar_schema_number_folders(&t->schema, &t->set, !t->declared, reterr);
    if (st == PST_OK)
        st = tar_schema_settle(&t->schema, reterr);
    t->set.classes = t->schema.folders.count;
    if (st < 0) {
        tar_close(t);
        return st;
    }
    *ret = t;
    return PST_OK;
}

static void tar_spec(const void *source, pst_spec *ret)
{
    const struct tar_schema *s = &((const struct tar *)source)->schema;
    *ret = (pst_spec){.count = s->count, .field = s->planned};
}

static pst_status tar_class_names(const void *source, struct path_list *ret, pst_error *reterr)
{
    const struct tar_schema *s = &((const struct tar *)source)->schema;
    pst_status st = PST_OK;
    for (size_t i = 0; i < s->count && st == PST_OK; i++)
        for (size_t k = 0;
             s->fields[i].type == TAR_FOLDER && strcmp(s->fields[i].name, "label") == 0 && k < s->folders.count && st == PST_OK;
             k++)
            st = path_list_add(ret, s->folders.names[k], reterr);
    return st;
}

const struct source_class source_tar = {
    .op = {.size = sizeof(pst_op_class),
           .name = "tar",
           .doc =
               "The samples of tar archives as WebDataset writes them: consecutive members that share a name up to its first "
               "dot, one field per extension. An image is the field image, cls the number label, any other member bytes "
               "under its extension; the shared name is the field key. Images without cls that lie in several folders "
               "have the number of their folder, in byte order, as the label. An index of the samples is made on first use, so "
               "they can be read in any order; if one file is compressed or a pipe, all files are a stream.",
           .example = "tar shards/ fields='image=jpg,png label=cls:int64' | shuffle | decode | resize 224 | batch 64",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = tar_open,
    .close = tar_close,
    .spec = tar_spec,
    .class_names = tar_class_names,
    SPAN_SET_SOURCE(sizeof(struct tar_room)),
};
