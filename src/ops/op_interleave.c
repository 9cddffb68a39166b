/* op_interleave.c: `interleave`: pipelines by turns, in the order of tf.data's interleave.
 *
 * There are `cycle` slots. A round visits each of them once and takes up to `block` elements from the pipeline in it. A slot
 * whose pipeline has ended stays empty for the rest of the visit; the next visit opens the next pipeline in it. So a pipeline of
 * n elements stays in its slot for n / block + 1 rounds, and gives `block` elements in each but the last, which gives the rest.
 *
 * The schedule therefore follows from the lengths alone. Between two rounds in which a slot changes, all rounds are alike. Each
 * such stretch has a tree over the slots with the number of elements that each gives; a stretch shares all but a path of its
 * tree with the one before. Element k: search the stretch, divide to find the round, descend to find the slot. */
#include "base/error.h"
#include "base/memory.h"
#include "ops/join_facet.h"
#include "ops/op_decl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct config {
    uint64_t cycle, block;
    const char *files;
    int64_t parallel; /* not used */
};

static const pst_param params[] = {
    {"cycle", PST_PARAM_UINT, offsetof(struct config, cycle), "0", 0, INFINITY, NULL,
     "pipelines that take turns at a time; 0: all of them"},
    {"block", PST_PARAM_UINT, offsetof(struct config, block), "1", 1, INFINITY, NULL, "elements taken at each turn"},
    {"files", PST_PARAM_STRING, offsetof(struct config, files), "", 0, 0, NULL,
     "a path with * ? [ ]: there must be one pipeline, which is used for every matching file, with its path for {}"},
    {"num_parallel_calls", PST_PARAM_INT, offsetof(struct config, parallel), "-1", -1, 1e9, NULL,
     "as in tf.data; changes nothing: workers always read in parallel, and the order stays the same"},
    {0},
};

struct tree_node {
    uint64_t sum;         /* elements per round */
    uint32_t left, right; /* of a leaf: the branch */
};

struct stretch {
    uint64_t round, before; /* first round; elements before it */
    uint32_t root;
};

struct schedule {
    size_t slots, width; /* width: a power of two, at least `slots` */
    uint64_t block;
    uint64_t *opened; /* round in which each branch is opened */
    struct tree_node *nodes;
    size_t node_count, node_room;
    struct stretch *stretches;
    size_t stretch_count, stretch_room;
};

struct event {
    uint64_t round, gives;
    uint32_t slot, branch, order;
};

static void destroy(void *schedule)
{
    struct schedule *s = schedule;
    if (!s)
        return;
    mem_free(s->opened);
    mem_free(s->nodes);
    mem_free(s->stretches);
    mem_free(s);
}

/* ---- Which slot each branch gets ---- */

struct slot {
    uint64_t free; /* round of the visit that opens the next branch in it */
    uint32_t number;
};

static bool earlier(const struct slot *a, const struct slot *b)
{
    return a->free != b->free ? a->free < b->free : a->number < b->number;
}

/* Restores the heap after its first slot has become later. */
static void sift(struct slot *heap, size_t count)
{
    for (size_t at = 0, child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!earlier(&heap[child], &heap[at]))
            return;
        struct slot other = heap[at];
        heap[at] = heap[child];
        heap[child] = other;
    }
}

static size_t add_event(struct event *events, size_t n, uint64_t round, uint64_t gives, uint32_t slot, size_t branch)
{
    events[n] =
        (struct event){.round = round, .gives = gives, .slot = slot, .branch = (uint32_t)branch, .order = (uint32_t)n};
    return n + 1;
}

/* Simulates the openings and stores up to three events per branch; returns their number. */
static size_t open_branches(struct schedule *s, struct slot *heap, const uint64_t *lengths, size_t count, struct event *events)
{
    size_t n = 0;
    for (size_t i = 0; i < s->slots; i++)
        heap[i] = (struct slot){.number = (uint32_t)i};
    for (size_t b = 0; b < count; b++) {
        uint64_t round = heap[0].free, full = lengths[b] / s->block, rest = lengths[b] % s->block;
        uint32_t slot = heap[0].number;
        bool endless = lengths[b] == JOIN_ENDLESS;
        s->opened[b] = round;
        if (round == UINT64_MAX) /* every slot has an endless branch: the others are never opened */
            break;
        n = add_event(events, n, round, endless || full ? s->block : rest, slot, b);
        if (!endless && full)
            n = add_event(events, n, round + full, rest, slot, b);
        if (!endless)
            n = add_event(events, n, round + full + 1, 0, slot, b);
        heap[0].free = endless ? UINT64_MAX : round + full + 1;
        sift(heap, s->slots);
    }
    return n;
}

static int compare_events(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->round != y->round)
        return x->round < y->round ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* ---- The stretches ---- */

/* A tree like `from` in which `slot` gives what the event says; 0: out of memory (node 0 is the empty tree). */
static uint32_t change(struct schedule *s, uint32_t from, size_t width, size_t slot, const struct event *e)
{
    if (s->node_count >= UINT32_MAX || mem_grow((void **)&s->nodes, &s->node_room, s->node_count + 1, sizeof(*s->nodes)) < 0)
        return 0;
    uint32_t made = (uint32_t)s->node_count++;
    struct tree_node node = s->nodes[from];
    if (width == 1) {
        s->nodes[made] = (struct tree_node){.sum = e->gives, .left = e->branch};
        return made;
    }
    bool right = slot >= width / 2;
    uint32_t child = change(s, right ? node.right : node.left, width / 2, right ? slot - width / 2 : slot, e);
    if (child == 0)
        return 0;
    *(right ? &node.right : &node.left) = child;
    node.sum = s->nodes[node.left].sum + s->nodes[node.right].sum;
    s->nodes[made] = node;
    return made;
}

static pst_status make_stretches(struct schedule *s, const struct event *events, size_t count, uint64_t *ret_length,
                                 pst_error *reterr)
{
    struct stretch at = {0};
    for (size_t i = 0; i < count;) {
        uint64_t round = events[i].round, rounds = round - at.round, gained;
        if (__builtin_mul_overflow(rounds, s->nodes[at.root].sum, &gained) || __builtin_add_overflow(at.before, gained, &at.before) ||
            at.before > INT64_MAX)
            return pst_fail(reterr, PST_EINVAL, "the branches together have too many elements to number");
        at.round = round;
        for (; i < count && events[i].round == round; i++) {
            at.root = change(s, at.root, s->width, events[i].slot, &events[i]);
            if (at.root == 0)
                return fail_memory(reterr, "planning");
        }
        if (mem_grow((void **)&s->stretches, &s->stretch_room, s->stretch_count + 1, sizeof(*s->stretches)) < 0)
            return fail_memory(reterr, "planning");
        s->stretches[s->stretch_count++] = at;
    }
    *ret_length = s->nodes[at.root].sum > 0 ? JOIN_ENDLESS : at.before;
    return PST_OK;
}

static pst_status create(const void *config, const struct join_env *env, const uint64_t *lengths, size_t count, void **ret,
                         uint64_t *ret_length, pst_error *reterr)
{
    const struct config *c = config;
    struct schedule *s = mem_zalloc(sizeof(*s));
    (void)env;
    if (!s)
        return fail_memory(reterr, "planning");
    s->slots = c->cycle == 0 || c->cycle > count ? count : (size_t)c->cycle;
    s->block = c->block;
    for (s->width = 1; s->width < s->slots; s->width *= 2)
        ;
    struct slot *heap = mem_array(s->slots, sizeof(*heap));
    struct event *events = mem_array(count, 3 * sizeof(*events));
    s->opened = mem_array(count, sizeof(*s->opened));
    pst_status st = heap && events && s->opened ? PST_OK : fail_memory(reterr, "planning");
    if (st == PST_OK && mem_grow((void **)&s->nodes, &s->node_room, 1, sizeof(*s->nodes)) < 0)
        st = fail_memory(reterr, "planning");
    if (st == PST_OK) {
        s->nodes[s->node_count++] = (struct tree_node){0};
        size_t n = open_branches(s, heap, lengths, count, events);
        qsort(events, n, sizeof(*events), compare_events);
        st = make_stretches(s, events, n, ret_length, reterr);
    }
    mem_free(heap);
    mem_free(events);
    if (st < 0)
        destroy(s);
    else
        *ret = s;
    return st;
}

/* ---- Elements ---- */

static const struct stretch *find_stretch(const struct schedule *s, uint64_t k)
{
    size_t low = 0, high = s->stretch_count - 1; /* the last with at most k elements before it */
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (s->stretches[middle].before <= k)
            low = middle;
        else
            high = middle - 1;
    }
    return &s->stretches[low];
}

static void map(const void *schedule, void *memo, size_t n, const uint64_t *position, uint32_t *ret_branch, uint64_t *ret_at)
{
    const struct schedule *s = schedule;
    (void)memo;
    for (size_t i = 0; i < n; i++) {
        const struct stretch *at = find_stretch(s, position[i]);
        const struct tree_node *node = &s->nodes[at->root];
        uint64_t k = position[i] - at->before, round = at->round + k / node->sum;
        k %= node->sum;
        for (size_t width = s->width; width > 1; width /= 2) {
            uint64_t left = s->nodes[node->left].sum;
            bool right = k >= left;
            k -= right ? left : 0;
            node = &s->nodes[right ? node->right : node->left];
        }
        ret_branch[i] = node->left;
        ret_at[i] = (round - s->opened[node->left]) * s->block + k;
    }
}

static const char *files(const void *config)
{
    const struct config *c = config;
    return *c->files ? c->files : NULL;
}

static const struct join_facet join = {.min_branches = 1,
                                       .max_branches = JOIN_MAX_BRANCHES,
                                       .files = files,
                                       .create = create,
                                       .destroy = destroy,
                                       .map = map};

const struct op_decl op_interleave = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "interleave",
            .doc = "Takes elements from pipelines by turns, in the order of tf.data's interleave: `block` elements from each of "
                   "`cycle` pipelines, and the next pipeline in the place of one that has ended. With files=, one pipeline is "
                   "used for every file of a list. They must have the same fields.",
            .example = "interleave (range 4) (range 10 13) (range 20 25) cycle=2 block=2 | batch 6",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_SOURCE,
    .join = &join,
};
