/* plan_memory.c: what a plan keeps in memory or on disk besides its batches: caches and entropy indexes, within the budget. */
#include "base/error.h"
#include "base/memory.h"
#include "flow/element_cache.h"
#include "flow/plan.h"
#include "flow/tune_workers.h"
#include "io/remote/remote.h"
#include "ops/image/image_op.h"
#include "ops/op_decl.h"
#include "source/jpeg_points.h"

#include <inttypes.h>

#define PROBES        1024
#define ENTROPY_SHARE 4   /* 1/ENTROPY_SHARE of the remaining memory is for points */
#define KEPT_SHARE    8   /* the same for copies of records */
#define ENTROPY_RATIO 25  /* an image's bytes to those of its points, at least; seldom less */
#define ENTROPY_FIXED 128 /* bytes an image beside its points */

/* Slots of the cache: the keys of lane_key. */
static pst_status cache_slots(const struct pipeline_plan *p, uint64_t *ret, pst_error *reterr)
{
    const struct join *j = p->join;
    *ret = p->program.streamed ? SOURCE_STREAM : j && !j->has_together ? j->numbers : p->order.source;
    if (j && j->has_together && (!j->fixed || j->length == JOIN_ENDLESS))
        return pst_fail(reterr, PST_EINVAL,
                        "the elements that zip puts together are others in every epoch, because a branch is shuffled or endless; "
                        "put cache into the branches");
    return PST_OK;
}

static pst_status cache_on_disk(struct pipeline_plan *p, const char *folder, uint64_t bytes, pst_error *reterr)
{
    uint64_t slots = 0, key[2];
    char *about = NULL;
    pst_status st = remote_is(folder) ? pst_fail(reterr, PST_EUNSUPPORTED,
                                                 "%.100s is a remote place; a cache needs a folder on a local disk", folder)
                                      : cache_slots(p, &slots, reterr);
    if (st == PST_OK)
        st = plan_cache_key(p, p->seed, key, &about, reterr);
    if (st == PST_OK)
        st = cache_create_on_disk(&p->cache, folder, key, about, slots, bytes, p->slots, reterr);
    p->program.cache = p->cache;
    mem_free(about);
    return st;
}

/* Creates the cache of the plan and those of its branches; `taken` is memory that they may not use. */
static pst_status plan_caches(struct pipeline_plan *p, uint64_t taken, pst_error *reterr)
{
    pst_status st = PST_OK;
    uint64_t slots = 0;
    for (size_t b = 0; p->join && b < p->join->count && st == PST_OK; b++) {
        struct pipeline_plan *branch = p->join->branches[b].plan;
        st = plan_caches(branch, 0, reterr);
        p->ram_branches += branch->ram_cache + branch->ram_branches;
    }
    if (st < 0 || !p->cache_node)
        return st;
    const struct node *cache = &p->chain->nodes[p->cache_node];
    uint64_t bytes = plan_resource(cache)->amount(cache->config);
    const char *folder = plan_resource(cache)->folder ? plan_resource(cache)->folder(cache->config) : NULL;
    if (folder)
        return plan_point(p->chain, p->cache_node, cache_on_disk(p, folder, bytes, reterr), reterr);
    taken += p->ram_branches;
    uint64_t left = taken < p->ram ? p->ram - taken : 0, wanted = bytes ? bytes : p->ram / 2;
    p->ram_cache = wanted < left ? wanted : left;
    st = cache_slots(p, &slots, reterr);
    if (st == PST_OK)
        st = cache_create(&p->cache, slots, p->ram_cache, p->slots, reterr);
    p->program.cache = p->cache;
    return plan_point(p->chain, p->cache_node, st, reterr);
}

pst_status plan_memory(struct pipeline_plan *p, pst_error *reterr)
{
    uint64_t batch = (uint64_t)p->program.layout.block + p->program.layout.tables;
    uint64_t batches = 2 * batch; /* the consumer's, and one in the making */
    if (batches > p->ram)
        return pst_fail(reterr, PST_ELIMIT,
                        "a batch takes %" PRIu64 " bytes and two of them must fit in the budget of %" PRIu64
                        "; try a smaller batch or a larger budget (ram)",
                        batch, p->ram);
    if (p->ram_stream > p->ram - batches)
        return pst_fail(reterr, PST_ELIMIT,
                        "shuffle buffers of %" PRIu64 " bytes do not fit in the budget of %" PRIu64
                        "; try a smaller buffer (buffer=) or a larger budget (ram)",
                        p->ram_stream, p->ram);
    return plan_caches(p, batches + p->ram_stream, reterr);
}

/* Where entropy indexes are stored, from elements spread evenly over the source. */
static void probe_entropy(struct pipeline_plan *p)
{
    uint64_t count = p->join ? p->join->numbers : p->order.source, probes = count < PROBES ? count : PROBES, found = 0;
    struct entropy_home home;
    for (uint64_t i = 0; p->source_class->entropy && i < probes; i++)
        found += p->source_class->entropy(p->source, (uint64_t)((double)i * (double)count / (double)probes), &home);
    p->entropy = found == 0 ? ENTROPY_MADE : found < probes ? ENTROPY_PARTLY : ENTROPY_STORED;
}

/* Whether the chain decodes images whose bytes have the numbers of the plan's elements: after zip those of its first branch. */
static bool decodes(const struct pipeline_plan *p)
{
    for (size_t i = 0; i < p->program.count; i++) {
        const struct step *s = &p->program.steps[i];
        const struct image_facet *image = op_image(op_decl_of(p->chain->nodes[s->first].op));
        size_t second = p->join && p->join->facet->together && p->join->count > 1 ? p->join->branches[1].first_field : SIZE_MAX;
        if (image && image->decodes && s->origin < second)
            return true;
    }
    return false;
}

/* A filter at the front: the source may keep copies of what it lets through, within a share of what everything else leaves. */
static void plan_kept(struct pipeline_plan *p)
{
    const struct order_step *first = p->order.count > 0 ? &p->order.steps[0] : NULL;
    if (p->join || p->program.streamed || p->cache_node || !p->source_class->keep || !first || first->kind != ORDER_FILTER || !first->bits)
        return;
    uint64_t taken = 2 * (uint64_t)p->program.layout.block + p->ram_stream + p->threads * tune_worker_bytes(p);
    p->ram_kept = p->source_class->keep(p->source, first->bits, taken < p->ram ? (p->ram - taken) / KEPT_SHARE : 0);
}

/* Points that are stored nowhere are made, within a share of what everything else leaves. */
pst_status plan_entropy(struct pipeline_plan *p, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t b = 0; p->join && b < p->join->count && st == PST_OK; b++) {
        st = plan_entropy(p->join->branches[b].plan, reterr);
        p->ram_branches += p->join->branches[b].plan->ram_entropy + p->join->branches[b].plan->ram_kept;
    }
    if (st < 0)
        return st;
    plan_kept(p);
    bool decoded = decodes(p);
    p->entropy = decoded && p->program.streamed ? ENTROPY_STREAM : ENTROPY_NONE;
    if (!decoded || p->program.streamed)
        return PST_OK;
    probe_entropy(p);
    uint64_t taken = 2 * (uint64_t)p->program.layout.block + p->ram_stream + p->ram_cache + p->ram_kept + p->ram_branches +
                     p->threads * tune_worker_bytes(p);
    uint64_t share = taken < p->ram ? (p->ram - taken) / ENTROPY_SHARE : 0;
    uint64_t count = p->join ? p->join->numbers : p->order.source;
    uint64_t most = count * (p->element_bytes / ENTROPY_RATIO + ENTROPY_FIXED);
    if (p->entropy != ENTROPY_STORED)
        p->ram_entropy = share < most ? share : most;
    return entropy_create(&p->program.entropy, p->source_class, p->source, count, p->ram_entropy, reterr);
}
