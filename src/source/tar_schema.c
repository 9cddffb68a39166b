/* tar_schema.c: which members of a sample become which fields.
 *
 * Without a declaration: jpg, jpeg, png, webp, bmp and gif are the image, cls is the label, every other extension is a field
 * of bytes under its own name, as `pack` names them; the sample's key is the field key. Images without a label that lie in
 * several folders have the number of their folder as the label. */
#include "source/tar_sample.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/list.h"

#include <string.h>
#include <strings.h>

#define MOST_FIELDS 256
#define MOST_WORD   256

void tar_schema_finish(struct tar_schema *s)
{
    mem_free(s->fields);
    mem_free(s->planned);
    names_finish(&s->folders);
    arena_finish(&s->memory);
}

/* ---- Making fields ---- */

static pst_status add_field(struct tar_schema *s, const char *name, size_t length, struct tar_field **ret, pst_error *reterr)
{
    if (length == 0 || length >= PST_NAME_SIZE)
        return pst_fail(reterr, PST_EINVAL, "field %.*s…: a name has 1 to %d bytes; fields= names others",
                        (int)(length < 32 ? length : 32), name, PST_NAME_SIZE - 1);
    for (size_t i = 0; i < s->count; i++)
        if (strlen(s->fields[i].name) == length && memcmp(s->fields[i].name, name, length) == 0)
            return pst_fail(reterr, PST_EINVAL, "two fields are called \"%.*s\"; fields=\"name=ext …\" gives them other names",
                            (int)length, name);
    if (s->count == MOST_FIELDS)
        return pst_fail(reterr, PST_ELIMIT, "more than %d fields: is this a WebDataset archive? fields= selects some",
                        MOST_FIELDS);
    if (mem_grow((void **)&s->fields, &s->capacity, s->count + 1, sizeof(*s->fields)) < 0)
        return fail_memory(reterr, "reading the fields");
    *ret = &s->fields[s->count++];
    **ret = (struct tar_field){0};
    memcpy((*ret)->name, name, length);
    return PST_OK;
}

static pst_status add_extension(struct tar_schema *s, struct tar_field *f, const char *extension, size_t length,
                                pst_error *reterr)
{
    const char **grown = arena_alloc(&s->memory, (f->extension_count + 1) * sizeof(*grown));
    char *copy = arena_strndup(&s->memory, extension, length);
    if (!grown || !copy)
        return fail_memory(reterr, "reading the fields");
    if (f->extension_count)
        memcpy(grown, f->extensions, f->extension_count * sizeof(*grown));
    grown[f->extension_count++] = copy;
    f->extensions = grown;
    return PST_OK;
}

static pst_status add_key(struct tar_schema *s, pst_error *reterr)
{
    struct tar_field *f;
    return add_field(s, "key", 3, &f, reterr);
}

/* ---- Declarations ---- */

static pst_status fail_text(const char *text, const char *at, const char *expected, pst_error *reterr)
{
    return pst_fail(reterr, PST_EINVAL,
                    "fields, position %zu: expected %s, as in \"image=jpg,png label=cls:int64 caption=txt?\"",
                    (size_t)(at - text) + 1, expected);
}

static pst_status read_field(struct tar_schema *s, const char *text, const char **at, pst_error *reterr)
{
    struct tar_field *f;
    const char *p = *at;
    size_t n = strcspn(p, "= \t\n:?");
    bool key = n == 3 && memcmp(p, "key", 3) == 0 && p[n] != '=';
    pst_status st = add_field(s, p, n, &f, reterr);
    p += n;
    if (st == PST_OK && !key && *p != '=')
        st = add_extension(s, f, f->name, n, reterr); /* the field is called as its extension */
    while (st == PST_OK && (*p == '=' || *p == ',')) {
        n = strcspn(++p, ", \t\n:?");
        st = n ? add_extension(s, f, p, n, reterr) : fail_text(text, p, "an extension", reterr);
        p += n;
    }
    if (st == PST_OK && *p == ':') {
        static const char *const types[] = {"bytes", "int64", "float", "folder"};
        size_t t = 0;
        n = strcspn(++p, " \t\n?");
        while (t < 4 && (strlen(types[t]) != n || memcmp(types[t], p, n) != 0))
            t++;
        if (t == 4)
            return fail_text(text, p, "a type: bytes, int64, float or folder", reterr);
        f->type = (enum tar_type)t;
        if (f->type == TAR_FOLDER && (key || f->extension_count > 1 || strcmp(f->extensions[0], f->name) != 0))
            return fail_text(text, p, "no extension before :folder, the number of a sample's folder", reterr);
        if (f->type == TAR_FOLDER)
            f->extensions = NULL;
        p += n;
    }
    if (st == PST_OK && *p == '?' && f->type == TAR_FOLDER)
        return fail_text(text, p, "a blank: every sample lies in a folder", reterr);
    if (st == PST_OK && *p == '?') {
        f->optional = true;
        p++;
    }
    if (st == PST_OK && *p && !strchr(" \t\n", *p))
        st = fail_text(text, p, "a blank between fields", reterr);
    *at = p;
    return st;
}

pst_status tar_schema_declare(struct tar_schema *s, const char *text, pst_error *reterr)
{
    pst_status st = PST_OK;
    bool key = false;
    for (const char *at = text; st == PST_OK;) {
        at += strspn(at, " \t\n");
        if (!*at)
            break;
        st = read_field(s, text, &at, reterr);
    }
    for (size_t i = 0; i < s->count; i++)
        key |= strcmp(s->fields[i].name, "key") == 0;
    return st == PST_OK && s->count && !key ? add_key(s, reterr) : st;
}

/* ---- Inference ---- */

struct learning {
    struct tar_schema *schema;
    size_t *seen; /* samples that have a field */
    size_t samples;
    uint64_t in_sample[MOST_FIELDS / 64]; /* fields of the current sample */
};

static pst_status learn_member(struct learning *l, const char *extension, pst_error *reterr)
{
    struct tar_schema *s = l->schema;
    char lower[MOST_WORD];
    size_t n = strlen(extension), i, rank = 0;
    if (n >= sizeof(lower) || n == 0)
        return PST_OK; /* not a field; a sample may have such a member */
    for (i = 0; i <= n; i++)
        lower[i] = extension[i] >= 'A' && extension[i] <= 'Z' ? (char)(extension[i] + 32) : extension[i];
    bool image = list_is_image_extension(lower, n), label = strcmp(lower, "cls") == 0;
    const char *name = image ? "image" : label ? "label" : lower;
    for (i = 0; i < s->count; i++)
        if (strcmp(s->fields[i].name, name) == 0)
            break;
    pst_status st = PST_OK;
    if (i == s->count) {
        struct tar_field *f = NULL;
        st = add_field(s, name, strlen(name), &f, reterr);
        if (st == PST_OK && label)
            f->type = TAR_INT64;
    }
    for (rank = 0; st == PST_OK && rank < s->fields[i].extension_count; rank++)
        if (strcmp(s->fields[i].extensions[rank], lower) == 0)
            break;
    if (st == PST_OK && rank == s->fields[i].extension_count)
        st = add_extension(s, &s->fields[i], lower, n, reterr);
    if (st == PST_OK)
        l->in_sample[i / 64] |= UINT64_C(1) << i % 64;
    return st;
}

static void end_sample(struct learning *l)
{
    for (size_t i = 0; i < l->schema->count; i++)
        l->seen[i] += l->in_sample[i / 64] >> i % 64 & 1;
    memset(l->in_sample, 0, sizeof(l->in_sample));
    l->samples++;
}

/* The key of the current sample. */
struct sample_key {
    char *at;
    size_t size;
};

static pst_status learn_all(struct learning *l, struct tar_walk *walk, struct sample_key *key, const struct span_window *head,
                            pst_error *reterr)
{
    struct tar_member m;
    pst_error e = {0};
    bool open = false;
    pst_status st;
    while ((st = tar_walk_next(walk, &m, &e)) == PST_OK) {
        size_t length;
        const char *extension;
        if (!tar_split_name(m.name, &length, &extension))
            continue;
        if (open && (strlen(key->at) != length || memcmp(key->at, m.name, length) != 0))
            end_sample(l);
        if (mem_grow((void **)&key->at, &key->size, length + 1, 1) < 0)
            return fail_memory_at(reterr, head->path, "reading the first samples");
        memcpy(key->at, m.name, length);
        key->at[length] = '\0';
        open = true;
        st = learn_member(l, extension, reterr);
        if (st < 0)
            return st;
    }
    if (st == PST_END && (head->ended || !tar_walk_ran_short(walk)) && open)
        end_sample(l);
    bool damaged = st < 0 && l->samples == 0 && (head->ended || !tar_walk_ran_short(walk));
    if (damaged && open)
        end_sample(l); /* it tells the fields; the damage is found again when the samples are */
    else if (damaged) {
        if (reterr)
            *reterr = e;
        return st;
    }
    return PST_OK;
}

pst_status tar_schema_learn(struct tar_schema *s, const struct span_window *head, enum span_found *ret, pst_error *reterr)
{
    struct learning l = {.schema = s, .seen = mem_array(MOST_FIELDS, sizeof(*l.seen))};
    struct sample_key key = {0};
    struct tar_walk *walk = NULL;
    pst_status st = l.seen ? tar_walk_create(&walk, head->path, reterr) : fail_memory_at(reterr, head->path, "reading samples");
    s->count = 0; /* an earlier look at less of it */
    if (st == PST_OK)
        tar_walk_set(walk, head->path, head->data, head->length, head->offset);
    if (st == PST_OK)
        st = learn_all(&l, walk, &key, head, reterr);
    /* A field that is seen only in a sample that is not whole here may be missing in others. */
    for (size_t i = 0; st == PST_OK && i < s->count; i++)
        s->fields[i].optional = l.seen[i] < l.samples && s->fields[i].type == TAR_BYTES; /* a missing label is an error */
    if (st == PST_OK && l.samples)
        st = add_key(s, reterr);
    *ret = l.samples ? SPAN_FOUND : head->ended ? SPAN_END : SPAN_MORE;
    tar_walk_close(walk);
    mem_free(key.at);
    mem_free(l.seen);
    return st;
}

/* ---- Folders ---- */

static pst_status take_note(struct tar_schema *s, const struct span_index *x, const char *path, pst_error *reterr)
{
    if (x->note_bytes == 2 && memcmp(x->note, "\0", 2) == 0)
        s->crowded = path;
    for (size_t at = 0; at < x->note_bytes;) {
        size_t length = strnlen(x->note + at, x->note_bytes - at);
        if (names_add(&s->folders, &s->memory, x->note + at, length) < 0)
            return fail_memory(reterr, "reading the folders");
        at += length + 1;
    }
    return PST_OK;
}

/* Adds the field label before the key. */
static pst_status infer_label(struct tar_schema *s, pst_error *reterr)
{
    bool image = false, label = false;
    for (size_t i = 0; i < s->count; i++) {
        image |= strcmp(s->fields[i].name, "image") == 0;
        label |= strcmp(s->fields[i].name, "label") == 0;
    }
    if (!image || label || s->crowded || s->folders.count < 2 || !*s->folders.names[0] || s->count == MOST_FIELDS)
        return PST_OK;
    struct tar_field *f, key;
    pst_status st = add_field(s, "label", 5, &f, reterr);
    if (st < 0)
        return st;
    f->type = TAR_FOLDER;
    key = f[-1];
    f[-1] = *f;
    *f = key;
    return PST_OK;
}

pst_status tar_schema_number_folders(struct tar_schema *s, const struct span_set *set, bool inferred, pst_error *reterr)
{
    pst_status st = PST_OK;
    bool used = false;
    for (size_t k = 0; k < set->paths.count && st == PST_OK && !set->streamed; k++)
        st = take_note(s, &set->files[k].index, set->paths.paths[k], reterr);
    names_number(&s->folders);
    if (st == PST_OK && inferred && s->count)
        st = infer_label(s, reterr);
    if (s->folders.count && !*s->folders.names[0]) { /* samples in no folder have no class */
        memmove(s->folders.names, s->folders.names + 1, --s->folders.count * sizeof(*s->folders.names));
        s->folders.sorted = s->folders.count;
    }
    for (size_t i = 0; i < s->count && st == PST_OK; i++) {
        used |= s->fields[i].type == TAR_FOLDER;
        if (s->fields[i].type == TAR_FOLDER && set->streamed)
            st = pst_fail_at(
                reterr, PST_EUNSUPPORTED, set->paths.paths[set->stream_reason], PST_NOWHERE, PST_NOWHERE,
                "is compressed or a pipe: its folders are not known before it was read, and %s is their number; unpack the "
                "archive first, or let `penstock pack` make shards of it",
                s->fields[i].name);
        else if (s->fields[i].type == TAR_FOLDER && s->crowded)
            st = pst_fail_at(reterr, PST_ELIMIT, s->crowded, PST_NOWHERE, PST_NOWHERE,
                             "has more than %u folders, and %s is their number; store the classes as numbers in members .cls",
                             TAR_MOST_FOLDERS, s->fields[i].name);
    }
    if (!used)
        names_finish(&s->folders);
    return st;
}

pst_status tar_schema_settle(struct tar_schema *s, pst_error *reterr)
{
    static const pst_dtype dtypes[] = {PST_DTYPE_BYTES, PST_DTYPE_I64, PST_DTYPE_F32, PST_DTYPE_I64};
    if (s->count == 0)
        return pst_fail(reterr, PST_EINVAL, "the archives hold no samples: fields=\"image=jpg label=cls:int64\" declares them");
    s->planned = mem_array(s->count, sizeof(*s->planned));
    if (!s->planned)
        return fail_memory(reterr, "opening the archives");
    for (size_t i = 0; i < s->count; i++) {
        s->planned[i] = (pst_field){.dtype = dtypes[s->fields[i].type], .alias = -1};
        memcpy(s->planned[i].name, s->fields[i].name, PST_NAME_SIZE);
    }
    return PST_OK;
}
