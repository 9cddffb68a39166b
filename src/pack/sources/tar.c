/* tar.c: WebDataset archives. Consecutive members that share a name up to its first dot are one sample; the part after the
 * dot names the feature.
 *
 * jpg, jpeg, png, webp, bmp and gif are the image (the first of them in a sample), cls is the integer label, everything else
 * is bytes under its extension. Without cls members, samples that lie in several folders have those as classes. Members stay
 * where they are and are read straight into the records. */
#include "pack/sources/spool.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/names.h"
#include "io/parse_number.h"
#include "io/tar.h"
#include "pack/report.h"

#include <inttypes.h>
#include <string.h>

#define MAX_FIELDS 1000
#define MAX_LABEL  64 /* bytes of a cls member */

struct tar_entry {
    uint64_t offset, size;
    uint32_t field;
};

struct tar_item {
    const char *key;
    size_t first; /* entry; the next item's first is its end */
    uint32_t archive;
};

struct tars {
    struct spools archives;
    struct tar_item *items; /* one more than there are items, once complete */
    size_t item_capacity;
    struct tar_entry *entries;
    size_t entry_count, entry_capacity;
    bool by_folder;       /* the last field is the label, by the folder in the archive */
    struct names classes; /* those folders */
};

struct tar_scan {
    struct pack_source *s;
    struct tars *t;
    uint64_t *present; /* samples that have a field */
    size_t present_capacity;
    uint64_t nameless; /* members without an extension */
};

static pst_status tar_matches(const char *path, const struct file_info *info, bool *ret, pst_error *reterr)
{
    static const char *const extensions[] = {".tar", ".tgz", NULL};
    (void)reterr;
    *ret = info && info->is_regular && pack_source_has_extension(path, extensions);
    return PST_OK;
}

/* The field that an extension belongs to, added when it is new. */
static pst_status field_of(struct tar_scan *c, const char *extension, bool has_image, uint32_t *ret, pst_error *reterr)
{
    struct pack_source *s = c->s;
    bool image = !has_image && pack_source_is_image_extension(extension);
    bool label = strcmp(extension, "cls") == 0;
    bool text = strcmp(extension, "txt") == 0 || strcmp(extension, "json") == 0;
    const char *name = image ? "image" : label ? "label" : extension;
    enum pack_role role = image ? PACK_IMAGE : label ? PACK_LABEL : text ? PACK_TEXT : PACK_PLAIN;
    for (size_t i = 0; i < s->field_count; i++) {
        if (strcmp(s->fields[i].name, name))
            continue;
        if (s->fields[i].role != role)
            return pst_fail(reterr, PST_EINVAL, "the extension .%s collides with the feature \"%s\"", extension, name);
        *ret = (uint32_t)i;
        return PST_OK;
    }
    if (s->field_count == MAX_FIELDS)
        return pst_fail(reterr, PST_ELIMIT, "more than %d different extensions: is this a WebDataset archive?", MAX_FIELDS);
    void *present = c->present;
    if (!pack_source_add_field(s, name, role, label ? PST_INT64 : PST_BYTES,
                               image   ? "uint8"
                               : label ? "int64"
                                       : "string") ||
        mem_grow(&present, &c->present_capacity, MAX_FIELDS, sizeof(*c->present)) < 0)
        return fail_memory(reterr, "listing the archive");
    c->present = present;
    *ret = (uint32_t)(s->field_count - 1);
    c->present[*ret] = 0;
    return PST_OK;
}

/* Opens a new sample when the key changes. */
static pst_status sample_of(struct tar_scan *c, const char *name, size_t length, uint32_t archive, bool first,
                            pst_error *reterr)
{
    struct tars *t = c->t;
    if (!first) {
        const char *key = t->items[c->s->count - 1].key;
        if (strlen(key) == length && memcmp(key, name, length) == 0)
            return PST_OK;
    }
    void *items = t->items;
    char *key = arena_strndup(&c->s->arena, name, length);
    if (!key || mem_grow(&items, &t->item_capacity, c->s->count + 2, sizeof(*t->items)) < 0)
        return fail_memory(reterr, "listing the archive");
    t->items = items;
    t->items[c->s->count++] = (struct tar_item){key, t->entry_count, archive};
    return PST_OK;
}

static pst_status add_entry(struct tar_scan *c, const struct tar_member *m, const char *extension, pst_error *reterr)
{
    struct tars *t = c->t;
    size_t first = t->items[c->s->count - 1].first;
    bool has_image = false;
    uint32_t field = 0;
    for (size_t i = first; i < t->entry_count; i++)
        has_image |= c->s->fields[t->entries[i].field].role == PACK_IMAGE;
    pst_status st = field_of(c, extension, has_image, &field, reterr);
    if (st < 0)
        return st;
    for (size_t i = first; i < t->entry_count; i++)
        if (t->entries[i].field == field)
            return pst_fail(reterr, PST_ECORRUPT, "the sample \"%s\" has two members .%s", t->items[c->s->count - 1].key,
                            extension);
    void *entries = t->entries;
    if (mem_grow(&entries, &t->entry_capacity, t->entry_count + 1, sizeof(*t->entries)) < 0)
        return fail_memory(reterr, "listing the archive");
    t->entries = entries;
    t->entries[t->entry_count++] = (struct tar_entry){m->offset, m->size, field};
    c->present[field]++;
    return PST_OK;
}

/* Splits DIR/NAME.EXT at the first dot of the last component; false: there is none, or nothing before it. */
static bool cut_name(const char **name, size_t *ret_length, char *extension, size_t size)
{
    while ((*name)[0] == '.' && (*name)[1] == '/')
        *name += 2;
    const char *base = file_base(*name), *dot = strchr(base, '.');
    if (!dot || dot == base || !dot[1])
        return false;
    *ret_length = (size_t)(dot - *name);
    size_t i = 0;
    for (; dot[i + 1] && i + 1 < size; i++)
        extension[i] = dot[i + 1] >= 'A' && dot[i + 1] <= 'Z' ? (char)(dot[i + 1] + 32) : dot[i + 1];
    extension[i] = 0;
    return true;
}

static pst_status add_archive(struct tar_scan *c, const struct pack_opening *o, const char *path, pst_error *reterr)
{
    struct tar_walk *walk = NULL;
    struct tar_member m;
    char extension[256];
    bool first = true;
    uint32_t archive = (uint32_t)c->t->archives.count;
    struct spool *sp = spools_add(&c->t->archives);
    pst_status st = sp ? spool_open(sp, c->s, o, path, SPOOL_BINARY, reterr) : fail_memory(reterr, "listing the archive");
    if (st == PST_OK)
        st = tar_walk_open(&walk, sp->fd, sp->path, reterr);
    while (st == PST_OK && (st = tar_walk_next(walk, &m, reterr)) == PST_OK) {
        const char *name = m.name;
        size_t length = 0;
        if (!cut_name(&name, &length, extension, sizeof(extension))) {
            c->nameless++;
            continue;
        }
        st = sample_of(c, name, length, archive, first, reterr);
        if (st == PST_OK)
            st = add_entry(c, &m, extension, reterr);
        if (st < 0)
            st = pst_fail_at(reterr, st, sp->path, PST_NOWHERE, m.offset, "%s", reterr->message);
        else
            st = pack_ticker_tell(o->ticker, "listing", c->s->count, 0, c->s->bytes, false, reterr);
        first = false;
    }
    tar_walk_close(walk);
    return st == PST_END ? PST_OK : st;
}

/* ---- Class folders ---- */

/* Where no sample has a label of its own and all lie in folders, of which there are several, the folders are classes. */
static pst_status take_folders(struct tar_scan *c, const struct pack_opening *o, pst_error *reterr)
{
    struct pack_source *s = c->s;
    struct tars *t = c->t;
    bool image = false;
    for (size_t i = 0; i < s->field_count; i++) {
        image |= s->fields[i].role == PACK_IMAGE;
        if (strcmp(s->fields[i].name, "label") == 0)
            return PST_OK;
    }
    for (uint64_t i = 0; image && i < s->count; i++) {
        size_t length;
        const char *folder = tar_folder_of(t->items[i].key, &length);
        if (length == 0)
            return PST_OK;
        if (names_add(&t->classes, &s->arena, folder, length) < 0)
            return fail_memory(reterr, "listing the members");
    }
    names_number(&t->classes);
    if (t->classes.count < 2 || s->field_count == MAX_FIELDS)
        return PST_OK;
    s->class_names = names_keep(&t->classes, &s->arena);
    s->class_count = t->classes.count;
    if (!s->class_names || !pack_source_add_field(s, "label", PACK_LABEL, PST_INT64, "int64"))
        return fail_memory(reterr, "listing the members");
    t->by_folder = true;
    c->present[s->field_count - 1] = s->count;
    return pack_report_note(o->report, reterr, "labels are the %zu folders in the archives: %s, %s%s", s->class_count,
                            s->class_names[0], s->class_names[1], s->class_count > 2 ? ", \xe2\x80\xa6" : "");
}

static pst_status tell(const struct tar_scan *c, const struct pack_opening *o, pst_error *reterr)
{
    bool image = false, label = false;
    pst_status st = PST_OK;
    for (size_t i = 0; i < c->s->field_count; i++) {
        struct pack_field *f = &c->s->fields[i];
        f->optional = c->present[i] < c->s->count;
        image |= f->role == PACK_IMAGE;
        label |= f->role == PACK_LABEL;
        if (st == PST_OK && f->optional)
            st = pack_report_note(o->report, reterr,
                                  "%s is in %" PRIu64 " of %" PRIu64 " samples: records without it lack the feature", f->name,
                                  c->present[i], c->s->count);
    }
    if (st == PST_OK && image && !label)
        st = pack_report_note(o->report, reterr,
                              "the archives have neither .cls members nor several class folders, so the records have no label");
    if (st == PST_OK && c->nameless)
        st = pack_report_note(o->report, reterr, "left out: %" PRIu64 " member%s without an extension", c->nameless,
                              c->nameless == 1 ? "" : "s");
    return st;
}

static pst_status tar_open(struct pack_source *s, const struct pack_opening *o, pst_error *reterr)
{
    struct tars *t = s->state = mem_zalloc(sizeof(*t));
    struct tar_scan c = {.s = s, .t = t};
    pst_status st = t ? PST_OK : fail_memory(reterr, "listing the archive");
    s->stores_key = true;
    for (size_t i = 0; st == PST_OK && i < o->path_count; i++)
        st = add_archive(&c, o, o->paths[i], reterr);
    if (st == PST_OK && s->count)
        t->items[s->count].first = t->entry_count;
    if (st == PST_OK)
        st = take_folders(&c, o, reterr);
    if (st == PST_OK)
        st = tell(&c, o, reterr);
    mem_free(c.present);
    return st;
}

static void tar_close(struct pack_source *s)
{
    struct tars *t = s->state;
    if (!t)
        return;
    spools_close(&t->archives);
    names_finish(&t->classes);
    mem_free(t->items);
    mem_free(t->entries);
    mem_free(t);
}

static const char *tar_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    (void)buffer;
    return ((const struct tars *)s->state)->items[i].key;
}

static uint64_t tar_estimate(const struct pack_source *s, uint64_t i)
{
    const struct tars *t = s->state;
    uint64_t sum = 0;
    for (size_t e = t->items[i].first; e < t->items[i + 1].first; e++)
        sum += t->entries[e].size;
    return sum;
}

static pst_status load_label(const struct spool *sp, const struct tar_entry *e, int64_t *ret, pst_error *reterr)
{
    char text[MAX_LABEL];
    size_t got = 0;
    pst_status st =
        file_read_at(sp->fd, sp->path, text, e->size < sizeof(text) ? (size_t)e->size : sizeof(text), e->offset, &got, reterr);
    if (st < 0)
        return st;
    while (got && (text[got - 1] == '\n' || text[got - 1] == '\r'))
        got--;
    if (e->size > sizeof(text) || !number_int(text, got, ret))
        return pst_fail_at(reterr, PST_ETYPE, sp->path, PST_NOWHERE, e->offset,
                           "a .cls member is \"%.*s\", expected an integer", (int)(got < 32 ? got : 32), text);
    return PST_OK;
}

static pst_status tar_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr)
{
    const struct tars *t = s->state;
    const struct spool *sp = t->archives.list[t->items[i].archive];
    int64_t *label = worker;
    memset(values, 0, s->field_count * sizeof(*values));
    if (t->by_folder) { /* the last field */
        size_t length;
        const char *folder = tar_folder_of(t->items[i].key, &length);
        *label = names_find(&t->classes, folder, length);
        values[s->field_count - 1] = (struct pack_value){.present = true, .count = 1, .data = label};
    }
    for (size_t k = t->items[i].first; k < t->items[i + 1].first; k++) {
        const struct tar_entry *e = &t->entries[k];
        struct pack_value *v = &values[e->field];
        if (s->fields[e->field].role == PACK_LABEL) {
            pst_status st = load_label(sp, e, label, reterr);
            if (st < 0)
                return st;
            *v = (struct pack_value){.present = true, .count = 1, .data = label};
        } else if (e->size > PST_MAX_RECORD_BYTES) {
            return pst_fail_at(reterr, PST_ELIMIT, sp->path, PST_NOWHERE, e->offset,
                               "a member of %" PRIu64 " bytes is more than a record may hold (%" PRIu64 ")", e->size,
                               PST_MAX_RECORD_BYTES);
        } else {
            pack_value_in_file(v, sp->fd, sp->path, e->offset, (size_t)e->size);
        }
    }
    return PST_OK;
}

const struct pack_source_class pack_source_tar = {
    .name = "tar",
    .doc = "WebDataset archives: files of one name are a sample",
    .images = true,
    .matches = tar_matches,
    .open = tar_open,
    .close = tar_close,
    .key = tar_key,
    .estimate = tar_estimate,
    .worker_size = sizeof(int64_t),
    .load = tar_load,
};
