/* snapshot.c: see snapshot.h.
 *
 * One process makes a snapshot: it holds a lock on the folder, which goes with the process. The pipeline runs with
 * all its workers, and the thread that plans stores its elements in their order. After an interruption, a pipeline with an
 * index goes on at the first element that is missing; a stream is read again from its front. */
#include "flow/snapshot.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/cache_disk.h"
#include "flow/pipeline.h"
#include "flow/batch.h"
#include "io/remote/remote.h"
#include "ops/ctx.h"
#include "ops/op_decl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define WAIT_SECONDS 0.05

struct snapshot {
    struct snapshot_request request;
    uint64_t key[2];
    char *about;
    struct field_list fields; /* all of them */
    struct cache_disk *disk;
    uint64_t count;
    bool complete, made; /* made: by this process */
};

/* Opens the files that there are; a snapshot that is complete is found by its length. */
static pst_status look(struct snapshot *s, pst_error *reterr)
{
    const struct order *o = &s->request.pipeline->plan->order;
    bool known = !s->request.pipeline->plan->program.streamed && !s->request.tolerant;
    struct cache_disk_request request = {.dir = s->request.rule->path,
                                         .key = {s->key[0], s->key[1]},
                                         .about = s->about,
                                         .slots = known ? o->elements : 0,
                                         .grows = !known,
                                         .part = (size_t)s->request.rule->bytes,
                                         .workers = 1};
    cache_disk_close(s->disk);
    s->disk = NULL;
    pst_status st = cache_disk_open(&s->disk, &request, reterr);
    if (st < 0)
        return st;
    s->count = cache_disk_length(s->disk);
    s->complete = s->count != UINT64_MAX && cache_disk_elements(s->disk) == s->count;
    return PST_OK;
}

pst_status snapshot_open(struct snapshot **ret, const struct snapshot_request *r, pst_error *reterr)
{
    const struct pipeline_plan *plan = r->pipeline->plan;
    if (remote_is(r->rule->path))
        return pst_fail(reterr, PST_EUNSUPPORTED, "%.100s is a remote place; a snapshot needs a folder on a local disk",
                        r->rule->path);
    if (!*r->rule->path)
        return pst_fail(reterr, PST_EINVAL, "path is empty; expected the folder of the snapshot");
    if (plan->batched)
        return pst_fail(reterr, PST_EUNSUPPORTED, "a snapshot stores single elements; put snapshot before batch");
    if (plan->order.batches == ORDER_ENDLESS)
        return pst_fail(reterr, PST_EINVAL, "the elements before it never end; put snapshot before repeat");
    struct snapshot *s = mem_zalloc(sizeof(*s));
    uint16_t *numbers = mem_array(r->spec->count, sizeof(*numbers));
    if (s)
        s->fields = (struct field_list){.number = numbers, .count = r->spec->count};
    for (size_t f = 0; numbers && f < r->spec->count; f++)
        numbers[f] = (uint16_t)f;
    pst_status st = s && numbers ? PST_OK : fail_memory(reterr, "opening a snapshot");
    if (st == PST_OK) {
        s->request = *r;
        r->pipeline->once = true;
        st = plan_snapshot_key(plan, &s->fields, r->tolerant, s->key, &s->about, reterr);
    } else if (!s) {
        mem_free(numbers);
    }
    if (st == PST_OK)
        st = look(s, reterr);
    if (st < 0) {
        snapshot_close(s);
        return st;
    }
    *ret = s;
    return PST_OK;
}

struct snapshot *snapshot_close(struct snapshot *s)
{
    if (!s)
        return NULL;
    cache_disk_close(s->disk);
    mem_free(s->fields.number);
    mem_free(s->about);
    mem_free(s);
    return NULL;
}

/* ---- Making it ---- */

/* Waits until no other process makes it. `*ret_fd` is to be closed; -1: the file system has no locks, and two processes may
 * store the same. */
static pst_status lock(struct snapshot *s, int *ret_fd, pst_error *reterr)
{
    int fd = open(cache_disk_folder(s->disk), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pst_status st = PST_OK;
    bool waits = fd >= 0;
    while (waits && st == PST_OK) {
        waits = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (waits) {
            st = file_check_stop(&s->request.stop, NULL, reterr);
            usleep((useconds_t)(WAIT_SECONDS * 1e6));
        }
    }
    if (st < 0 && fd >= 0)
        close(fd);
    else
        *ret_fd = fd;
    return st;
}

/* The next batch of the pipeline; ends early when the outer one is stopped. */
static pst_status pull(struct snapshot *s, pst_batch **ret, pst_error *reterr)
{
    pst_pipeline *p = s->request.pipeline;
    pst_status st;
    do {
        st = file_check_stop(&s->request.stop, NULL, reterr);
        if (st == PST_OK)
            st = pst_pipeline_wait(p, WAIT_SECONDS, reterr);
    } while (st == PST_TIMEOUT);
    return st == PST_OK ? pst_pipeline_next(p, ret, reterr) : st;
}

static pst_status seek(struct snapshot *s, uint64_t batch, pst_error *reterr)
{
    pst_pipeline *p = s->request.pipeline;
    pst_cursor cursor;
    pst_cursor_set(&cursor, &(pst_position){.fingerprint = p->plan->fingerprint, .seed = p->options.seed, .next = batch});
    return pst_pipeline_seek(p, &cursor, reterr);
}

/* Moves the pipeline to the batch with the first element that is missing, and returns the number of its first element. */
static pst_status resume(struct snapshot *s, uint64_t *ret, pst_error *reterr)
{
    const struct pipeline_plan *plan = s->request.pipeline->plan;
    uint64_t size = plan->order.steps[plan->order.batch].size, first = 0;
    while (!plan->program.streamed && !s->request.tolerant && cache_disk_find(s->disk, first))
        first++;
    *ret = first / size * size;
    return seek(s, first / size, reterr);
}

static void keep_batch(struct snapshot *s, const pst_batch *b, uint64_t first, pst_tensor *tensors)
{
    for (size_t i = 0; i < pst_batch_size(b); i++) {
        if (cache_disk_find(s->disk, first + i))
            continue;
        for (size_t f = 0; f < s->fields.count; f++)
            tensors[f] = rows_at(b, f, i);
        cache_disk_keep(s->disk, 0, first + i, s->request.spec, &s->fields, tensors, NULL);
    }
}

/* Stores all elements that are missing, then their number. */
static pst_status fill(struct snapshot *s, pst_error *reterr)
{
    uint64_t k = 0;
    pst_tensor *tensors = mem_array(s->fields.count, sizeof(*tensors));
    pst_status st = tensors ? resume(s, &k, reterr) : fail_memory(reterr, "making a snapshot");
    while (st == PST_OK && !cache_disk_failed(s->disk)) {
        pst_batch *b = NULL;
        st = pull(s, &b, reterr);
        if (st == PST_OK) {
            keep_batch(s, b, k, tensors);
            k += pst_batch_size(b);
        }
        pst_batch_unref(b);
    }
    mem_free(tensors);
    if (st < 0)
        return st;
    st = cache_disk_settle(s->disk, reterr);
    if (st == PST_OK && cache_disk_elements(s->disk) != k)
        st = pst_fail(reterr, PST_ENOMEM, "making a snapshot: only %" PRIu64 " of %" PRIu64 " elements could be stored",
                      cache_disk_elements(s->disk), k);
    if (st == PST_OK)
        st = cache_disk_set_length(s->disk, k, reterr);
    if (st == PST_OK)
        st = seek(s, 0, reterr); /* stops its workers */
    s->made = s->complete = st == PST_OK;
    s->count = k;
    return st;
}

pst_status snapshot_complete(struct snapshot *s, pst_error *reterr)
{
    int fd = -1;
    if (s->complete)
        return PST_OK;
    pst_status st = lock(s, &fd, reterr);
    if (st == PST_OK)
        st = look(s, reterr); /* another process may have made it meanwhile */
    if (st == PST_OK && !s->complete)
        st = fill(s, reterr);
    if (fd >= 0) {
        flock(fd, LOCK_UN); /* a process forked meanwhile has a copy of fd: the lock must not last until it ends */
        close(fd);
    }
    return st;
}

/* ---- Reading it ---- */

uint64_t snapshot_count(const struct snapshot *s)
{
    return s->count;
}

pst_status snapshot_load(struct snapshot *s, uint64_t k, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    void *block = cache_disk_find(s->disk, k);
    if (block && cache_disk_view(s->disk, k, block, s->request.spec, &s->fields, out, &ctx->scratch))
        return PST_OK;
    if (cache_disk_find(s->disk, k))
        return fail_memory(reterr, "reading a snapshot");
    return pst_fail_at(reterr, PST_ECORRUPT, cache_disk_folder(s->disk), k, PST_NOWHERE,
                       "element %" PRIu64 " of the snapshot is damaged; remove the folder, and the snapshot is made again", k);
}

uint64_t snapshot_bytes_of(const struct snapshot *s, uint64_t k)
{
    return cache_disk_size(s->disk, k);
}

void snapshot_describe(struct snapshot *s, char *buffer, size_t size)
{
    char bytes[32];
    size_t parts = cache_disk_parts(s->disk);
    snprintf(buffer, size, "snapshot of %" PRIu64 " elements in %zu shard%s, %s: %s; by their number", s->count, parts,
             parts == 1 ? "" : "s", text_bytes(cache_disk_bytes(s->disk), bytes, sizeof(bytes)),
             s->made ? "made by this run" : "found");
}

const char *snapshot_folder(const struct snapshot *s)
{
    return cache_disk_folder(s->disk);
}
