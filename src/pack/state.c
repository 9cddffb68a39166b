/* state.c: see steps.h. The files are JSON with one member per line, written only by this code: they are compared line by
 * line, and never need a parser. Only files with names that only pack uses are removed. */
#include "pack/steps.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/parse_number.h"
#include "io/publish.h"
#include "io/remote/remote.h"
#include "io/walk.h"
#include "pack/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WORKING   ".penstock-pack"
#define DONE      "pack.json"
#define MAX_BYTES ((size_t)64 << 20)
#define MAX_ANEW  ((size_t)1 << 20) /* memory for this is taken before the size is known */

/* ---- Lines ---- */

/* The line `    "name": "value",` of `text`: its value without the quotes, still escaped. NULL: there is none. */
static const char *find_value(const char *text, const char *name, size_t name_length, size_t *ret_length)
{
    const char *next = text;
    while (next && *next) {
        const char *at = next + strspn(next, " ");
        next = strchr(next, '\n');
        if (next)
            next++;
        if (*at++ != '"' || strncmp(at, name, name_length) || strncmp(at + name_length, "\": \"", 4))
            continue;
        at += name_length + 4;
        size_t n = strcspn(at, "\n");
        while (n && at[n - 1] != '"')
            n--;
        *ret_length = n ? n - 1 : 0;
        return at;
    }
    return NULL;
}

/* Compares every line of the identity with the one of that name in `found`. */
static bool is_same(const struct text *identity, const char *found, const char **ret_name, size_t *ret_name_length)
{
    for (const char *line = identity->data; *line; line = strchr(line, '\n') + 1) {
        const char *name = line + strspn(line, " ") + 1;
        size_t n = strcspn(name, "\""), now_length = 0, then_length = 0;
        const char *now = find_value(line, name, n, &now_length), *then = find_value(found, name, n, &then_length);
        if (then && now_length == then_length && memcmp(now, then, now_length) == 0)
            continue;
        *ret_name = name;
        *ret_name_length = n;
        return false;
    }
    return true;
}

static void describe(struct pack_state *s, const struct pack_source *source)
{
    struct text *t = &s->identity;
    text_addf(
        t, "    \"pack\": \"1\",\n    \"source\": \"%s\",\n    \"items\": \"%" PRIu64 "\",\n    \"bytes\": \"%" PRIu64 "\",\n",
        source->class->name, source->count, source->bytes);
    text_addf(t, "    \"fingerprint\": \"%016" PRIx64 "\",\n", source->fingerprint);
    pack_config_describe(s->config, t);
}

/* ---- What others packed here ---- */

/* NAME-SPLIT.tfrecord-00000-of-00016, its index, or its hidden note. */
static bool is_shard_of(const char *file, const char *name, size_t name_length)
{
    file += *file == '.';
    const char *at = strstr(file, ".tfrecord-");
    if (strncmp(file, name, name_length) || file[name_length] != '-' || !at)
        return false;
    at += strlen(".tfrecord-");
    size_t n = strspn(at, "0123456789");
    if (n < 5 || strncmp(at + n, "-of-", 4))
        return false;
    at += n + 4;
    n = strspn(at, "0123456789");
    return n >= 5 && (at[n] == 0 || strcmp(at + n, ".pidx") == 0 || strcmp(at + n, PACK_NOTE_SUFFIX) == 0);
}

static bool is_description(const char *file)
{
    size_t n = strlen(file), m = strlen(".labels.txt");
    return strcmp(file, "dataset_info.json") == 0 || strcmp(file, "features.json") == 0 || strcmp(file, "labels.txt") == 0 ||
           (n > m && strcmp(file + n - m, ".labels.txt") == 0);
}

struct belongings {
    struct path_list files;
    const char *folder;
    const char *name[2]; /* of the dataset that is to be made, and of the one that is there */
    size_t name_length[2];
    bool dataset; /* there is something that no other command may add to */
};

static pst_status look_at_file(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct belongings *b = user;
    (void)folder_fd;
    bool shard =
        is_shard_of(entry->d_name, b->name[0], b->name_length[0]) || is_shard_of(entry->d_name, b->name[1], b->name_length[1]);
    bool description = is_description(entry->d_name);
    b->dataset |= shard || description;
    if (!shard && !description)
        return PST_OK;
    char *path = file_join(b->folder, entry->d_name);
    pst_status st = path ? path_list_add(&b->files, path, reterr) : fail_memory(reterr, "allocating the state of the folder");
    mem_free(path);
    return st;
}

/* The folder holds the output of another or an unknown command: it is removed if forced, else an error. A command that
 * failed before it wrote anything is ignored. */
static pst_status make_way(struct pack_state *s, const char *found, pst_error *reterr)
{
    const struct pack_config *c = s->config;
    size_t n = strlen(c->name), was_length = 0, now_length = 0;
    struct belongings b = {.folder = s->folder, .name = {c->name, c->name}, .name_length = {n, n}};
    const char *differs = NULL, *name = found ? find_value(found, "name", 4, &n) : NULL;
    if (name) {
        b.name[1] = name;
        b.name_length[1] = n;
    }
    pst_status st = walk_names(s->folder, look_at_file, &b, reterr);
    if (st == PST_OK && s->force) {
        for (size_t i = 0; st == PST_OK && i < b.files.count; i++)
            st = disk_remove(b.files.paths[i], reterr);
        if (st == PST_OK && remote_is(s->folder)) /* their shards are among those */
            st = pack_part_remove(c, reterr);
    } else if (st == PST_OK && b.dataset && found) {
        is_same(&s->identity, found, &differs, &n);
        const char *was = find_value(found, differs, n, &was_length),
                   *now = find_value(s->identity.data, differs, n, &now_length);
        st = pst_fail_at(reterr, PST_EEXIST, s->folder, PST_NOWHERE, PST_NOWHERE,
                         "holds what another command packed (%.*s was \"%.*s\" and is \"%.*s\"); choose another folder, or "
                         "replace it with force",
                         (int)n, differs, (int)(was_length < 40 ? was_length : 40), was ? was : "",
                         (int)(now_length < 40 ? now_length : 40), now ? now : "");
    } else if (st == PST_OK && b.dataset) {
        st = pst_fail_at(reterr, PST_EEXIST, s->folder, PST_NOWHERE, PST_NOWHERE,
                         "holds a dataset that pack did not make; choose another folder, or replace it with force");
    }
    path_list_finish(&b.files);
    return st;
}

/* As it is now: in a store, other processes write it meanwhile. */
static pst_status read_state(char **ret, const char *path, pst_error *reterr)
{
    uint8_t *data = NULL;
    size_t length = 0;
    pst_status st = remote_is(path) ? remote_read_anew(&data, &length, path, MAX_ANEW, reterr)
                                    : file_read_all(&data, &length, path, MAX_BYTES, reterr);
    if (st == PST_OK)
        *ret = (char *)data;
    return st;
}

pst_status pack_state_open(struct pack_state *s, const struct pack_source *source, const char *folder, bool force,
                           pst_error *reterr)
{
    char *found = NULL;
    size_t length = 0;
    const char *differs;
    s->config = source->config;
    s->folder = folder;
    s->force = force;
    describe(s, source);
    s->working_path = file_join(folder, WORKING);
    s->done_path = file_join(folder, DONE);
    if (s->identity.failed || !s->working_path || !s->done_path)
        return fail_memory(reterr, "allocating the state of the folder");
    pst_status st = read_state(&found, s->done_path, reterr);
    s->complete = st == PST_OK;
    if (st == PST_ENOTFOUND)
        st = read_state(&found, s->working_path, reterr);
    if (st == PST_ENOTFOUND)
        return make_way(s, NULL, reterr);
    if (st < 0)
        return st;
    if (!find_value(found, "pack", 4, &length)) { /* not even by force */
        mem_free(found);
        return pst_fail_at(reterr, PST_EEXIST, s->complete ? s->done_path : s->working_path, PST_NOWHERE, PST_NOWHERE,
                           "is not a file that pack wrote, and would be replaced; choose another folder, or move it away");
    }
    if (is_same(&s->identity, found, &differs, &length)) {
        s->found = found;
        return PST_OK;
    }
    s->complete = false;
    st = make_way(s, found, reterr);
    mem_free(found);
    return st;
}

uint64_t pack_state_command(const struct pack_state *s)
{
    uint64_t command = hash_bytes(s->identity.data, s->identity.length, 0);
    return command ? command : 1;
}

pst_status pack_state_still(const struct pack_state *s, pst_error *reterr)
{
    char *found = NULL;
    size_t length = 0;
    const char *differs = NULL;
    pst_status st = read_state(&found, s->done_path, reterr);
    if (st == PST_ENOTFOUND)
        st = read_state(&found, s->working_path, reterr);
    if (st == PST_ENOTFOUND)
        st = pst_fail_at(reterr, PST_EEXIST, s->folder, PST_NOWHERE, PST_NOWHERE, "was emptied while this part was packed; pack it again");
    else if (st == PST_OK && !is_same(&s->identity, found, &differs, &length))
        st = pst_fail_at(reterr, PST_EEXIST, s->folder, PST_NOWHERE, PST_NOWHERE,
                         "was taken by another command while this part was packed (%.*s differs); its shards may have been replaced by this part's: pack "
                         "again what is to stay",
                         (int)length, differs);
    mem_free(found);
    return st;
}

pst_status pack_state_check(const struct pack_state *s, const char *folder, pst_error *reterr)
{
    char *found = NULL;
    size_t length = 0;
    const char *differs;
    char *path = file_join(folder, DONE);
    pst_status st = path ? read_state(&found, path, reterr) : fail_memory(reterr, "reading the parts");
    if (st == PST_OK && !is_same(&s->identity, found, &differs, &length))
        st = pst_fail_at(reterr, PST_EEXIST, folder, PST_NOWHERE, PST_NOWHERE,
                         "was packed by another command (%.*s differs); pack this part again", (int)length, differs);
    mem_free(found);
    mem_free(path);
    return st;
}

pst_status pack_state_remove(const char *folder, pst_error *reterr)
{
    pst_status st = PST_OK;
    static const char *const names[] = {WORKING, DONE}; /* the mark of a complete part last */
    for (size_t i = 0; st == PST_OK && i < sizeof(names) / sizeof(names[0]); i++) {
        char *path = file_join(folder, names[i]);
        st = path ? disk_remove(path, reterr) : fail_memory(reterr, "removing the parts");
        mem_free(path);
    }
    return st;
}

pst_status pack_state_complete(const char *folder, bool *ret, pst_error *reterr)
{
    char *found = NULL, *path = file_join(folder, DONE);
    pst_status st = path ? read_state(&found, path, reterr) : fail_memory(reterr, "reading the parts");
    *ret = st == PST_OK;
    mem_free(found);
    mem_free(path);
    return st == PST_ENOTFOUND ? PST_OK : st;
}

bool pack_state_shards(const struct pack_state *s, const char *split, uint64_t *ret)
{
    size_t length = 0, n = strlen(split);
    const char *at = s->found ? find_value(s->found, "plan", 4, &length) : NULL;
    while (at) {
        uint64_t value = 0;
        bool here = strncmp(at, split, n) == 0 && at[n] == '=';
        const char *digit = at + strcspn(at, "=\"\n");
        while (*digit && is_digit(*++digit) && value < UINT32_MAX)
            value = value * 10 + (uint64_t)(*digit - '0');
        if (here) {
            *ret = value;
            return true;
        }
        at = *digit == ',' ? digit + 1 : NULL;
    }
    return false;
}

static pst_status publish(const struct pack_state *s, const char *path, const struct pack_plan *p, pst_error *reterr)
{
    struct text t = {0};
    text_add(&t, "{\n");
    text_add_n(&t, s->identity.data, s->identity.length);
    text_add(&t, "    \"plan\": \"");
    for (size_t i = 0; i < p->split_count; i++)
        text_addf(&t, "%s%s=%" PRIu32, i ? "," : "", p->splits[i].name, p->splits[i].shards);
    text_add(&t, "\"\n}\n");
    pst_status st = t.failed ? fail_memory(reterr, "allocating the state of the folder")
                             : publish_bytes(path, t.data, t.length, true, !s->config->options.no_sync, reterr);
    text_finish(&t);
    return st;
}

pst_status pack_state_begin(struct pack_state *s, const struct pack_plan *p, pst_error *reterr)
{
    pst_status st = publish(s, s->working_path, p, reterr);
    return st == PST_OK ? disk_remove(s->done_path, reterr) : st;
}

pst_status pack_state_end(struct pack_state *s, const struct pack_plan *p, pst_error *reterr)
{
    pst_status st = publish(s, s->done_path, p, reterr);
    return st == PST_OK ? disk_remove(s->working_path, reterr) : st;
}

pst_status pack_state_tidy(struct pack_state *s, pst_error *reterr)
{
    struct file_info info; /* looked for first: a finished folder may be read-only */
    return file_stat(s->working_path, &info, NULL) == PST_OK ? disk_remove(s->working_path, reterr) : PST_OK;
}

void pack_state_finish(struct pack_state *s)
{
    text_finish(&s->identity);
    mem_free(s->working_path);
    mem_free(s->done_path);
    mem_free(s->found);
    *s = (struct pack_state){0};
}
