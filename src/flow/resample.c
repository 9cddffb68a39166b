/* resample.c: see resample.h. */
#include "flow/resample.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "flow/evaluate_elements.h"
#include "flow/segment.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CLASSES 4096
#define LEAST_BLOCK  1000 /* positions: shares are exact to a thousandth */

struct class
{
    int64_t label;
    uint64_t first, count; /* in `members` */
    double share;
    uint64_t slots, slot; /* in a block: how many, and the first in `places` */
};

struct slot {
    double key;           /* the pattern is sorted by it */
    uint32_t class, rank; /* rank: among the slots of its class */
};

struct resample {
    struct class *classes;
    size_t class_count;
    uint64_t *members; /* elements, by class */
    uint64_t block, length, seed;
    struct slot *pattern; /* the slots of a block in their order */
    uint32_t *places;     /* where the slots of each class are in the pattern */
};

struct resample *resample_destroy(struct resample *r)
{
    if (!r)
        return NULL;
    mem_free(r->classes);
    mem_free(r->members);
    mem_free(r->pattern);
    mem_free(r->places);
    mem_free(r);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static struct class *find(const struct resample *r, int64_t label)
{
    return bsearch(&label, r->classes, r->class_count, sizeof(*r->classes), compare); /* a class begins with its label */
}

/* Finds the classes that there are, and sorts the elements into them. */
static pst_status sort_classes(struct resample *r, const uint64_t *labels, uint64_t count, pst_error *reterr)
{
    for (uint64_t i = 0; i < count; i++) {
        int64_t label = (int64_t)labels[i];
        struct class *c = find(r, label);
        if (c) {
            c->count++;
            continue;
        }
        if (r->class_count == MOST_CLASSES)
            return pst_fail(reterr, PST_ELIMIT, "more than %d classes; the field has to be a label", MOST_CLASSES);
        size_t at = 0;
        while (at < r->class_count && r->classes[at].label < label)
            at++;
        memmove(r->classes + at + 1, r->classes + at, (r->class_count - at) * sizeof(*r->classes));
        r->classes[at] = (struct class){.label = label, .count = 1};
        r->class_count++;
    }
    uint64_t first = 0;
    for (size_t c = 0; c < r->class_count; c++) {
        r->classes[c].first = first;
        first += r->classes[c].count;
        r->classes[c].count = 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct class *c = find(r, (int64_t)labels[i]);
        r->members[c->first + c->count++] = i;
    }
    return PST_OK;
}

static pst_status read_target(struct resample *r, const char *target, pst_error *reterr)
{
    size_t n = 0;
    double sum = 0;
    for (const char *at = target; *at; n++) {
        char *end;
        double share = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(share >= 0) || isinf(share))
            return pst_fail(reterr, PST_EINVAL, "target: \"%s\" is not a list of shares such as 0.7,0.3", target);
        if (n < r->class_count)
            r->classes[n].share = share;
        sum += share;
        at = *end ? end + 1 : end;
    }
    if (*target && n != r->class_count)
        return pst_fail(reterr, PST_EINVAL, "target: %zu shares, and the data has %zu classes", n, r->class_count);
    if (*target && sum <= 0)
        return pst_fail(reterr, PST_EINVAL, "target: all shares are 0");
    for (size_t c = 0; c < r->class_count; c++)
        r->classes[c].share = *target ? r->classes[c].share / sum : 1.0 / (double)r->class_count;
    return PST_OK;
}

/* Gives every class its slots in a block: as many as its share, the rest to those that miss most; one at least. */
static pst_status fill_block(struct resample *r, pst_error *reterr)
{
    uint64_t taken = 0;
    r->block = r->class_count * 16 > LEAST_BLOCK ? r->class_count * 16 : LEAST_BLOCK;
    for (size_t c = 0; c < r->class_count; c++) {
        r->classes[c].slots = (uint64_t)floor(r->classes[c].share * (double)r->block);
        r->classes[c].slots += r->classes[c].slots == 0 && r->classes[c].share > 0;
        taken += r->classes[c].slots;
    }
    while (taken < r->block) {
        struct class *most = r->classes;
        for (size_t c = 1; c < r->class_count; c++)
            if (r->classes[c].share * (double)r->block - (double)r->classes[c].slots >
                most->share * (double)r->block - (double)most->slots)
                most = &r->classes[c];
        most->slots++;
        taken++;
    }
    r->block = taken;
    r->pattern = mem_array(r->block, sizeof(*r->pattern));
    r->places = mem_array(r->block, sizeof(*r->places));
    return r->pattern && r->places ? PST_OK : fail_memory(reterr, "resampling");
}

static int compare_slots(const void *a, const void *b)
{
    const struct slot *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->class < y->class ? -1 : x->class > y->class;
}

/* Spreads the slots of every class over the block: slot i of n is somewhere in the n-th part i. So every part of a block
 * has nearly the shares, too. */
static void order_block(struct resample *r)
{
    struct random random;
    uint64_t slot = 0;
    random_init(&random, r->seed, 0, 0, 0);
    for (size_t c = 0; c < r->class_count; c++) {
        r->classes[c].slot = slot;
        for (uint64_t i = 0; i < r->classes[c].slots; i++)
            r->pattern[slot++] = (struct slot){.key = ((double)i + random_unit(&random)) / (double)r->classes[c].slots,
                                               .class = (uint32_t)c,
                                               .rank = (uint32_t)i};
    }
    qsort(r->pattern, r->block, sizeof(*r->pattern), compare_slots);
    for (size_t i = 0; i < r->block; i++) {
        struct slot *s = &r->pattern[i];
        r->places[r->classes[s->class].slot + s->rank] = (uint32_t)i;
    }
}

pst_status resample_create(struct resample **ret, const uint64_t *labels, uint64_t count, const char *target, uint64_t length,
                           uint64_t seed, pst_error *reterr)
{
    struct resample *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory(reterr, "resampling");
    r->length = count == 0 ? 0 : length ? length : count;
    r->seed = seed;
    r->classes = mem_array(MOST_CLASSES + 1, sizeof(*r->classes));
    r->members = mem_array(count, sizeof(*r->members));
    pst_status st = r->classes && r->members ? sort_classes(r, labels, count, reterr) : fail_memory(reterr, "resampling");
    if (st == PST_OK && count > 0)
        st = read_target(r, target, reterr);
    if (st == PST_OK && count > 0)
        st = fill_block(r, reterr);
    if (st < 0) {
        resample_destroy(r);
        return st;
    }
    if (count > 0)
        order_block(r);
    *ret = r;
    return PST_OK;
}

uint64_t resample_length(const struct resample *r)
{
    return r->length;
}

/* Returns how many slots of the class are before `place` of the pattern. */
static uint64_t slots_before(const struct resample *r, const struct class *c, uint64_t place)
{
    uint64_t low = 0, high = c->slots;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (r->places[c->slot + middle] < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t resample_at(const struct resample *r, uint64_t k, uint64_t *pass)
{
    struct permutation order;
    struct random random;
    uint64_t block = k / r->block;
    random_init(&random, r->seed, *pass, block, 1);
    uint64_t begin = random_below(&random, r->block); /* every block begins elsewhere in the pattern */
    const struct slot *s = &r->pattern[(k % r->block + begin) % r->block];
    const struct class *c = &r->classes[s->class];
    uint64_t rank = block * c->slots + (s->rank + c->slots - slots_before(r, c, begin)) % c->slots, round = rank / c->count;
    permutation_init(&order, c->count, hash_combine(r->seed, (uint64_t)c->label), hash_combine(*pass, round));
    *pass = (*pass << 32) + round; /* as of an endless repeat: an element that comes again is changed in another way */
    return r->members[c->first + permutation_at(&order, rank % c->count)];
}

pst_status plan_resample(struct pipeline_plan *p, size_t i, const struct plan_env *env, pst_error *reterr)
{
    struct chain before = *p->chain;
    uint64_t *labels = NULL, count, seed;
    const struct node *n = &p->chain->nodes[i];
    const struct resample_rule *rule = op_decl_of(n->op)->resample(n->config, env->options->seed, &seed);
    if (p->program.streamed || p->source_class->inner)
        return pst_fail(
            reterr, PST_EUNSUPPORTED,
            "resample needs an index, and here is a stream or a segment; put it before operations that join or divide "
            "elements, or make shards with `penstock pack`");
    if (p->order.batch != SIZE_MAX)
        return pst_fail(reterr, PST_EINVAL, "resample draws single elements; put it before batch");
    if (p->order.batches == ORDER_ENDLESS)
        return pst_fail(reterr, PST_EINVAL, "the elements before it never end; put resample before repeat");
    if (p->resample || !order_is_fixed(&p->order) || (p->join && !p->join->fixed))
        return pst_fail(
            reterr, PST_EINVAL,
            "the elements before it come in another order in every epoch; resample also shuffles: remove the others");
    before.count = i;
    pst_status st = evaluate_field(&labels, &count, &before, rule->field, p->ram / 2, env, reterr);
    if (st == PST_OK)
        st = resample_create(&p->resample, labels, count, rule->target, rule->length, seed, reterr);
    mem_free(labels);
    return st < 0 ? st : order_push(&p->order, &(struct order_step){.kind = ORDER_RESAMPLE, .resample = p->resample}, reterr);
}
