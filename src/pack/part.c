/* part.c: see steps.h. A part's pack.json says that it is complete; it is removed last, so that an interrupted join goes on. */
#include "pack/steps.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"
#include "io/remote/remote.h"
#include "io/walk.h"
#include "pack/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAMED_PARTS 8 /* incomplete parts that an error names */

static void range_of(const struct pack_plan *p, uint32_t part, uint32_t parts, size_t *ret_begin, size_t *ret_end)
{
    *ret_begin = (size_t)((uint64_t)p->shard_count * (part - 1) / parts);
    *ret_end = (size_t)((uint64_t)p->shard_count * part / parts);
}

void pack_part_range(const struct pack_plan *p, size_t *ret_begin, size_t *ret_end)
{
    const pst_pack_options *o = &p->source->config->options;
    range_of(p, o->part ? o->part : 1, o->part ? o->parts : 1, ret_begin, ret_end);
}

bool pack_parts_share(const struct pack_config *c)
{
    return c->options.part && c->shard_folder == c->whole;
}

/* ---- Which parts there are ---- */

static bool is_part(const char *name, uint32_t *ret_part, uint32_t *ret_parts)
{
    int length = 0;
    return sscanf(name, PACK_PART_SCAN "%n", ret_part, ret_parts, &length) == 2 && !name[length] && *ret_part && *ret_part <= *ret_parts;
}

struct found_parts {
    const char *folder;
    uint32_t parts; /* 0: none were found */
};

static pst_status look_at_name(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct found_parts *f = user;
    uint32_t part, parts;
    (void)folder_fd;
    if (!is_part(entry->d_name, &part, &parts))
        return PST_OK;
    if (f->parts && f->parts != parts)
        return pst_fail_at(reterr, PST_EEXIST, f->folder, PST_NOWHERE, PST_NOWHERE,
                           "holds parts of two divisions, by %" PRIu32 " and by %" PRIu32 "; remove the folders of one of them",
                           f->parts, parts);
    f->parts = parts;
    return PST_OK;
}

static pst_status count_parts(const char *folder, uint32_t *ret, pst_error *reterr)
{
    struct found_parts f = {.folder = folder};
    pst_status st = walk_names(folder, look_at_name, &f, reterr);
    *ret = f.parts;
    return st;
}

/* ---- Joining ---- */

static pst_status check_parts(const struct pack_state *s, uint32_t parts, pst_error *reterr)
{
    const char *out = s->folder;
    struct text names = {0};
    uint32_t missing = 0;
    pst_status st = PST_OK;
    for (uint32_t i = 1; st == PST_OK && i <= parts; i++) {
        char *folder = pack_part_folder(out, i, parts);
        st = folder ? pack_state_check(s, folder, reterr) : fail_memory(reterr, "joining the parts");
        if (st == PST_ENOTFOUND) {
            st = PST_OK;
            if (missing++ < NAMED_PARTS)
                text_addf(&names, "%s%" PRIu32, missing > 1 ? ", " : "", i);
        }
        mem_free(folder);
    }
    if (st == PST_OK && names.failed)
        st = fail_memory(reterr, "joining the parts");
    if (st == PST_OK && missing)
        st = pst_fail_at(reterr, PST_ENOTFOUND, out, PST_NOWHERE, PST_NOWHERE,
                         "%" PRIu32 " of %" PRIu32 " parts are not complete (%s%s); pack them, then join again", missing, parts,
                         names.data, missing > NAMED_PARTS ? ", …" : "");
    text_finish(&names);
    return st;
}

static pst_status move_into(const char *folder, const char *to, pst_error *reterr)
{
    char *from = file_join(folder, file_base(to));
    pst_status st = from ? disk_move(from, to, reterr) : fail_memory(reterr, "joining the parts");
    mem_free(from);
    return st == PST_ENOTFOUND ? PST_OK : st; /* moved before */
}

/* The shard before the file beside it: a shard without that file is not complete. */
static pst_status move_shards(const char *folder, const struct out_shard *shards, size_t count, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        st = move_into(folder, shards[i].path, reterr);
        if (st == PST_OK)
            st = move_into(folder, shards[i].note_path, reterr);
    }
    return st;
}

pst_status pack_part_gather(struct pack_state *s, const struct pack_plan *p, const struct out_shard *shards, pst_error *reterr)
{
    uint32_t parts = 0;
    pst_status st = count_parts(s->folder, &parts, reterr);
    if (st == PST_OK && !parts && !s->complete)
        st = pst_fail_at(reterr, PST_ENOTFOUND, s->folder, PST_NOWHERE, PST_NOWHERE,
                         "holds no part; pack all parts into it, then join");
    if (st == PST_OK)
        st = check_parts(s, parts, reterr);
    if (st == PST_OK)
        st = pack_state_begin(s, p, reterr);
    for (uint32_t i = 1; st == PST_OK && !remote_is(s->folder) && i <= parts; i++) {
        size_t begin, end;
        range_of(p, i, parts, &begin, &end);
        char *folder = pack_part_folder(s->folder, i, parts);
        st = folder ? move_shards(folder, shards + begin, end - begin, reterr) : fail_memory(reterr, "joining the parts");
        mem_free(folder);
    }
    return st;
}

struct part_folders {
    const char *whole;
    struct path_list folders;
};

static pst_status collect_folder(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct part_folders *p = user;
    uint32_t part, parts;
    (void)folder_fd;
    if (!is_part(entry->d_name, &part, &parts))
        return PST_OK;
    char *folder = file_join(p->whole, entry->d_name);
    pst_status st = folder ? path_list_add(&p->folders, folder, reterr) : fail_memory(reterr, "removing the parts");
    mem_free(folder);
    return st;
}

/* A folder without a sign of completion may be that of a process that has just begun, and finds the whole complete. */
static pst_status remove_part(const char *folder, pst_error *reterr)
{
    bool complete = false;
    int lock = -1;
    pst_status st = pack_state_complete(folder, &complete, reterr);
    if (st == PST_OK && !complete && disk_lock(&lock, folder, &(pst_error){0}) < 0)
        return PST_OK;
    if (st == PST_OK)
        st = pack_state_remove(folder, reterr);
    if (st == PST_OK)
        disk_remove_folder(folder);
    file_close(lock);
    return st;
}

pst_status pack_part_remove(const struct pack_config *c, pst_error *reterr)
{
    struct part_folders p = {.whole = c->whole};
    pst_status st = walk_names(c->whole, collect_folder, &p, reterr);
    for (size_t i = 0; st == PST_OK && i < p.folders.count; i++)
        st = remove_part(p.folders.paths[i], reterr);
    path_list_finish(&p.folders);
    return st;
}
