/* index_trust.c: see index_find.h. Whether the index beside a shard in a store belongs to it, without asking for samples all
 * over the shard.
 *
 * A store sets the time of each object itself, when it is uploaded. An index that is not older than its shard was not left over
 * from an earlier one. If it is wrong nevertheless, the headers of records say so when they are read. */
#include "record/index_find.h"

#include "base/memory.h"
#include "io/file.h"
#include "record/frame.h"

#include <string.h>

#define REQUEST ((uint64_t)8 << 20) /* shards up to this size are fetched whole: their samples cost nothing */
#define HEAD    ((size_t)64 << 10)

/* False also if a time is not known. */
static bool is_stored_later(const char *index, const char *shard)
{
    struct file_info a, b;
    return file_stat(index, &a, NULL) == PST_OK && file_stat(shard, &b, NULL) == PST_OK && b.mtime_ns > 0 &&
           a.mtime_ns >= b.mtime_ns;
}

void index_trust(struct shard_file *f)
{
    struct index x = {0};
    if (strncmp(f->path, "s3://", 5) || f->bytes <= REQUEST)
        return;
    char *path = index_sidecar_path(f->path);
    file_fetch(f->fd, 0, HEAD); /* on its way together with the index */
    bool ok = path && index_open_as(&x, path, f->hold, NULL) == PST_OK && x.count > 0 && x.gaps == 0 &&
              x.shard_bytes == f->bytes && is_stored_later(path, f->path);
    mem_free(path);
    if (ok)
        f->trusted = x;
    else
        index_finish(&x);
}

bool index_trust_head(struct shard_file *f, const uint8_t *head, size_t length)
{
    const struct index *x = &f->trusted;
    for (uint64_t i = 0; i < x->count && x->entries[i].offset <= length && length - x->entries[i].offset >= FRAME_HEADER; i++) {
        uint64_t told;
        if (!frame_get_header(head + x->entries[i].offset, &told) || told != x->entries[i].length) {
            index_finish(&f->trusted);
            return false;
        }
    }
    f->fingerprint = x->fingerprint;
    return true;
}
