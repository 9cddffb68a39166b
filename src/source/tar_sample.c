/* tar_sample.c: consecutive members of a tar that share a name up to its first dot, as WebDataset groups them.
 *
 * Promises: what a member claims is checked against the sample's bytes; two members of one sample for the same field are an
 * error, as in webdataset. Leaves to others: the headers (io/tar.c), and which fields there are (tar_schema.c). */
#include "source/tar_sample.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/parse_number.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#define SHOWN 40

/* ---- Names ---- */

/* "__index__", "__meta__/x": members that webdataset leaves out. */
static bool is_meta(const char *name)
{
    size_t n = strcspn(name, "/");
    return n >= 4 && name[0] == '_' && name[1] == '_' && name[n - 1] == '_' && name[n - 2] == '_';
}

bool tar_split_name(const char *name, size_t *ret_key_length, const char **ret_extension)
{
    const char *base = file_base(name), *dot = strchr(base, '.');
    if (!dot || dot == base || is_meta(name))
        return false;
    *ret_key_length = (size_t)(dot - name);
    *ret_extension = dot + 1;
    return true;
}

static bool same_key(const struct tar_room *r, const char *name, size_t length)
{
    return strlen(r->key) == length && memcmp(r->key, name, length) == 0;
}

static pst_status keep_key(struct tar_room *r, const char *path, const char *name, size_t length, pst_error *reterr)
{
    if (mem_grow((void **)&r->key, &r->key_size, length + 1, 1) < 0)
        return fail_memory_at(reterr, path, "reading a sample");
    memcpy(r->key, name, length);
    r->key[length] = '\0';
    return PST_OK;
}

void tar_room_stop(void *room)
{
    struct tar_room *r = room;
    tar_walk_close(r->walk);
    mem_free(r->key);
    mem_free(r->values);
}

static pst_status begin_walk(struct tar_room *r, const struct span_window *w, pst_error *reterr)
{
    pst_status st = r->walk ? PST_OK : tar_walk_create(&r->walk, w->path, reterr);
    if (st == PST_OK)
        tar_walk_set(r->walk, w->path, w->data, w->length, w->offset);
    return st;
}

/* ---- Cutting ---- */

static pst_status fail_globals(const char *path, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                       "tar: a global pax header changes names or sizes of all members after it; write the archive without it");
}

pst_status tar_sample_cut(struct tar_room *r, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                          enum span_found *ret, pst_error *reterr)
{
    struct tar_member m;
    bool open = false;
    pst_error e = {0};
    pst_status st = begin_walk(r, w, reterr);
    if (st < 0)
        return st;
    while ((st = tar_walk_next(r->walk, &m, &e)) == PST_OK) {
        size_t length;
        const char *extension;
        if (tar_walk_has_globals(r->walk))
            return fail_globals(w->path, reterr);
        if (!tar_split_name(m.name, &length, &extension))
            continue;
        if (open && !same_key(r, m.name, length)) {
            *ret_end = (size_t)(m.start - w->offset);
            *ret = SPAN_FOUND;
            return PST_OK;
        }
        if (!open) {
            *ret_begin = (size_t)(m.start - w->offset);
            st = keep_key(r, w->path, m.name, length, reterr);
            if (st < 0)
                return st;
        }
        open = true;
    }
    if (tar_walk_ran_short(r->walk) && !w->ended) {
        *ret = SPAN_MORE;
        return PST_OK;
    }
    if (st < 0) {
        if (reterr)
            *reterr = e;
        return st;
    }
    *ret_end = w->length;
    *ret = open ? SPAN_FOUND : SPAN_END;
    return PST_OK;
}

/* More folders than are numbered: the note is two empty names, which no archive has otherwise. */
static pst_status note_folders(struct names *folders, struct span_builder *b, pst_error *reterr)
{
    pst_status st = PST_OK;
    names_number(folders);
    if (folders->count > TAR_MOST_FOLDERS)
        return span_builder_note(b, "\0", 2, reterr);
    for (size_t i = 0; i < folders->count && st == PST_OK; i++)
        st = span_builder_note(b, folders->names[i], strlen(folders->names[i]) + 1, reterr);
    return st;
}

static pst_status keep_folder(struct names *folders, struct arena *arena, const char *path, const char *name, pst_error *reterr)
{
    size_t length;
    const char *folder = tar_folder_of(name, &length);
    if (folders->sorted > TAR_MOST_FOLDERS || names_add(folders, arena, folder, length) == 0)
        return PST_OK;
    return fail_memory_at(reterr, path, "reading the folders");
}

/* Adds a sample once the next one begins or the archive ends: what is cut off by damage is not one. */
pst_status tar_sample_scan(int fd, const char *path, const struct file_stop *stop, struct span_builder *b, uint64_t *ret_end,
                           pst_error *reterr)
{
    struct tar_walk *walk = NULL;
    struct tar_member m;
    struct tar_room key = {0};
    struct names folders = {0};
    struct arena arena;
    uint64_t samples = 0, begin = 0;
    bool open = false;
    arena_init(&arena);
    pst_status st = tar_walk_open(&walk, fd, path, reterr);
    while (st == PST_OK && (st = tar_walk_next(walk, &m, reterr)) == PST_OK) {
        size_t length;
        const char *extension;
        if (tar_walk_has_globals(walk))
            st = fail_globals(path, reterr);
        if (st < 0 || !tar_split_name(m.name, &length, &extension) || (open && same_key(&key, m.name, length)))
            continue;
        st = open ? span_builder_add(b, begin, reterr) : PST_OK;
        samples += open;
        *ret_end = begin = m.start;
        open = true;
        if (st == PST_OK)
            st = file_check_stop(stop, path, reterr);
        if (st == PST_OK)
            st = keep_key(&key, path, m.name, length, reterr);
        if (st == PST_OK)
            st = keep_folder(&folders, &arena, path, m.name, reterr);
    }
    if (st == PST_END && open) {
        st = span_builder_add(b, begin, reterr);
        struct file_info info;
        if (st == PST_OK)
            st = file_fstat(fd, path, &info, reterr);
        *ret_end = st == PST_OK ? info.size : begin;
    }
    pst_status noted = st == PST_ENOMEM ? PST_OK : note_folders(&folders, b, reterr); /* what damage left has folders, too */
    st = noted < 0 ? noted : st;
    if (st < 0 && reterr && reterr->record == PST_NOWHERE)
        reterr->record = samples;
    tar_walk_close(walk);
    mem_free(key.key);
    names_finish(&folders);
    arena_finish(&arena);
    return st == PST_END ? PST_OK : st;
}

/* ---- Values ---- */

static pst_status set_number(const struct tar_field *f, const char *text, size_t length, union tar_value *v, pst_error *reterr)
{
    double real = 0;
    size_t shown = length < SHOWN ? length : SHOWN;
    while (length && strchr(" \t\r\n", text[length - 1]) && text[length - 1])
        length--;
    bool ok = f->type == TAR_INT64 ? number_int(text, length, &v->whole) : number_float(text, length, &real) && number_fits_float(real);
    if (f->type == TAR_FLOAT)
        v->real = (float)real;
    return ok ? PST_OK
              : pst_fail(reterr, PST_ECORRUPT, "member .%s is \"%.*s\", expected %s; fields= declares another type",
                         f->extensions[0], (int)shown, text, f->type == TAR_INT64 ? "a whole number" : "a number within float32");
}

static bool has_extension(const struct tar_field *f, const char *extension, size_t *ret_rank)
{
    for (size_t i = 0; i < f->extension_count; i++)
        if (strcasecmp(f->extensions[i], extension) == 0) {
            *ret_rank = i;
            return true;
        }
    return false;
}

static pst_status set_member(const struct tar_schema *s, struct tar_room *r, const struct span_window *w,
                             const struct tar_member *m, const char *extension, pst_tensor *out, pst_error *reterr)
{
    const char *data = (const char *)w->data + (m->offset - w->offset);
    for (size_t i = 0; i < s->count; i++) {
        const struct tar_field *f = &s->fields[i];
        size_t rank;
        if (!f->extensions || !has_extension(f, extension, &rank))
            continue;
        if (out[i].data)
            return pst_fail(reterr, PST_ECORRUPT, "the sample \"%.*s\" has two members for the field %s, the second is .%s",
                            SHOWN, r->key, f->name, extension);
        out[i].data = &r->values[i];
        if (f->type != TAR_BYTES)
            return set_number(f, data, (size_t)m->size, &r->values[i], reterr);
        r->values[i].bytes = (pst_bytes){(const uint8_t *)data, (size_t)m->size};
        return PST_OK;
    }
    return PST_OK;
}

/* Fields that no member gave. */
static pst_status complete(const struct tar_schema *s, struct tar_room *r, pst_tensor *out, pst_error *reterr)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct tar_field *f = &s->fields[i];
        if (out[i].data)
            continue;
        if (f->extensions && !f->optional)
            return pst_fail(reterr, PST_ECORRUPT,
                            "the sample \"%.*s\" has no member .%s for the field %s; fields=\"… %s=%s?\" lets it be missing",
                            SHOWN, r->key, f->extensions[0], f->name, f->name, f->extensions[0]);
        r->values[i] = (union tar_value){.bytes = {(const uint8_t *)"", 0}};
        if (f->type == TAR_FOLDER) {
            size_t length;
            const char *folder = tar_folder_of(r->key, &length);
            r->values[i].whole = length ? names_find(&s->folders, folder, length) : -1;
            if (r->values[i].whole < 0)
                return pst_fail(reterr, PST_ECORRUPT, "the sample \"%.*s\" lies in no folder, but %s is the number of the folder", SHOWN,
                                r->key, f->name);
        } else if (!f->extensions)
            r->values[i].bytes = (pst_bytes){(const uint8_t *)r->key, strlen(r->key)};
        else if (f->type == TAR_INT64)
            r->values[i].whole = 0;
        else if (f->type == TAR_FLOAT)
            r->values[i].real = NAN;
        out[i].data = &r->values[i];
    }
    return PST_OK;
}

pst_status tar_sample_parse(const struct tar_schema *s, struct tar_room *r, const struct span_window *w, pst_tensor *out,
                            pst_error *reterr)
{
    struct tar_member m;
    bool open = false;
    pst_status st = begin_walk(r, w, reterr);
    if (st == PST_OK && !r->values) {
        r->values = mem_array(s->count, sizeof(*r->values));
        st = r->values ? PST_OK : fail_memory(reterr, "reading a sample");
    }
    for (size_t i = 0; i < s->count; i++)
        out[i].data = NULL;
    while (st == PST_OK && (st = tar_walk_next(r->walk, &m, reterr)) == PST_OK) {
        size_t length;
        const char *extension;
        if (!tar_split_name(m.name, &length, &extension))
            continue;
        if (!open)
            st = keep_key(r, w->path, m.name, length, reterr);
        else if (!same_key(r, m.name, length))
            st = pst_fail(reterr, PST_ESTALE, "the file changed after its index was made; delete the index (….samples.pidx)");
        open = true;
        if (st == PST_OK)
            st = set_member(s, r, w, &m, extension, out, reterr);
    }
    return st == PST_END ? complete(s, r, out, reterr) : st;
}
