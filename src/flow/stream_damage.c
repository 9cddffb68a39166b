/* stream_damage.c: see stream_damage.h. A place is all that is kept of damage: hostile data may consist of nothing else. */
#include "flow/stream_damage.h"

#include "base/memory.h"
#include "record/damage.h"

static pst_status receive(void *user, const pst_damage *damage, const char *why, pst_error *reterr)
{
    struct stream_damage *b = user;
    const char *path = path_list_keep(&b->paths, damage->path ? damage->path : ""); /* the reader's ends with it */
    if (!path || mem_grow((void **)&b->damage, &b->capacity, b->count + 1, sizeof(*b->damage)) < 0)
        return pst_fail_at(reterr, PST_ENOMEM, damage->path, damage->record, damage->offset, "noting damage: out of memory");
    b->damage[b->count] = *damage;
    b->damage[b->count++].path = path;
    b->total++;
    return b->tolerant ? PST_OK : damage_fail(damage, why, reterr);
}

pst_status stream_damage_init(struct stream_damage *b, bool tolerant, pst_error *reterr)
{
    b->tolerant = tolerant;
    return damage_log_divert(&b->log, &(struct damage_sink){.tolerant = tolerant, .add = receive, .user = b}, reterr);
}

void stream_damage_finish(struct stream_damage *b)
{
    pst_damage_log_destroy(b->log);
    path_list_finish(&b->paths);
    mem_free(b->damage);
    *b = (struct stream_damage){0};
}
