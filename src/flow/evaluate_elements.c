/* evaluate_elements.c: see evaluate_elements.h.
 *
 * The bits of a filter are stored in a file named by a hash of the data, of the operations before the filter and of its
 * expression: beside the shards, or in the cache folder. The file is published as a whole, so that processes may race: all of
 * them write the same bytes. An element that is damaged keeps its bit where damage is tolerated: the run counts it. */
#include "flow/evaluate_elements.h"

#include "base/cast.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/pipeline.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/remote/remote.h"
#include "ops/expr_op.h"
#include "ops/op_list.h"

#include <inttypes.h>
#include <string.h>

#define BATCH      "1024"
#define MAGIC      UINT64_C(0x3153544942545350) /* "PSTBITS1" */
#define RESULT     "filter"
#define MOST_MEMBERS (UINT64_C(16) << 20) /* that are stored as numbers, too */
#define FILE_WORDS 6 /* magic, data, operations, count, members, checksum; then the bits */

struct kept_bits *kept_bits_destroy(struct kept_bits *b)
{
    if (!b)
        return NULL;
    mem_free(b->words);
    mem_free(b->rank);
    mem_free(b->hint);
    mem_free(b->members);
    mem_free(b);
    return NULL;
}

static bool clone_nodes(struct chain *to, const struct chain *from, size_t count)
{
    const struct chain *root = from->root ? from->root : from;
    void *nodes = to->nodes;
    bool whole = mem_grow(&nodes, &to->capacity, count + 1, sizeof(*to->nodes)) >= 0;
    to->nodes = nodes;
    to->root = root;
    for (size_t i = 0; whole && i < count; i++) {
        struct node *n = &to->nodes[to->count++];
        *n = from->nodes[i];
        n->branch_count = 0;
        n->branches = NULL;
        if (from->nodes[i].branch_count == 0)
            continue;
        n->branches = mem_array(from->nodes[i].branch_count, sizeof(*n->branches));
        for (size_t b = 0; n->branches && whole && b < from->nodes[i].branch_count; b++) {
            n->branch_count++;
            whole = clone_nodes(&n->branches[b], &from->nodes[i].branches[b], from->nodes[i].branches[b].count);
        }
        whole &= n->branches != NULL;
    }
    return whole;
}

/* Makes a pipeline of the first `count` nodes of the chain and those of `tail`, which must outlive it. */
static pst_status make_pipeline(pst_pipeline **ret, const struct chain *c, size_t count, const struct chain *tail, uint64_t ram,
                                const struct plan_env *env, pst_error *reterr)
{
    pst_pipeline_options o = *env->options;
    o.size = sizeof(o);
    o.ram = ram;
    o.rank = o.world = 0;
    o.prefetch = 0;
    o.bad = env->account->policy.skip ? "skip" : NULL;
    pst_pipeline *p = NULL;
    pst_status st = pst_pipeline_create(&p, &o, reterr);
    if (st < 0)
        return st;
    p->once = true;
    void *nodes;
    bool whole = clone_nodes(&p->chain, c, count);
    nodes = p->chain.nodes;
    whole = whole && mem_grow(&nodes, &p->chain.capacity, count + tail->count, sizeof(*p->chain.nodes)) >= 0;
    p->chain.nodes = nodes;
    for (size_t i = 0; whole && i < tail->count; i++)
        p->chain.nodes[p->chain.count++] = tail->nodes[i];
    st = whole ? pst_pipeline_plan(p, reterr) : fail_memory(reterr, "planning");
    if (st < 0)
        pst_pipeline_destroy(p);
    else
        *ret = p;
    return st;
}

typedef void (*visit_fn)(void *user, const pst_tensor *values, uint64_t first, const pst_batch *b);

/* Runs one epoch and shows the first field of every batch. */
static pst_status run_all(pst_pipeline *p, const struct plan_env *env, visit_fn visit, void *user, pst_error *reterr)
{
    for (;;) {
        pst_batch *b = NULL;
        pst_status st = pst_pipeline_next(p, &b, reterr);
        if (st != PST_OK)
            return st == PST_END ? PST_OK : st;
        visit(user, pst_batch_at(b, 0), b->where.begin, b);
        pst_batch_unref(b);
        if (env->stop.asked && env->stop.asked(env->stop.user))
            return pst_fail(reterr, PST_ECANCELLED, "the pipeline was stopped");
    }
}

/* ---- A field ---- */

struct field_values {
    uint64_t *values;
    bool missing;
};

static void take_values(void *user, const pst_tensor *values, uint64_t first, const pst_batch *b)
{
    struct field_values *f = user;
    cast_values(f->values + first, PST_DTYPE_I64, values->data, values->dtype, pst_batch_size(b));
    f->missing |= b->size < b->where.size;
}

pst_status evaluate_field(uint64_t **ret, uint64_t *ret_count, const struct chain *c, const char *field, uint64_t ram,
                          const struct plan_env *env, pst_error *reterr)
{
    struct chain tail = {0};
    pst_pipeline *p = NULL;
    struct field_values f = {0};
    const struct strings_config {
        pst_strings fields;
    } select = {{1, &field}};
    pst_status st = chain_add_class(&tail, &op_select.op, &select, reterr);
    if (st == PST_OK)
        st = chain_add(&tail, "batch", BATCH, reterr);
    if (st == PST_OK)
        st = make_pipeline(&p, c, c->count, &tail, ram, env, reterr);
    const pst_field *of = st == PST_OK ? &pst_pipeline_spec(p)->field[0] : NULL;
    if (of && (of->rank != 1 || of->dtype == PST_DTYPE_BYTES))
        st = pst_fail(reterr, PST_ETYPE, "field %.40s is not a single number", field);
    else if (of && p->plan->order.elements >= ORDER_UNKNOWN)
        st = pst_fail(reterr, PST_EINVAL, "the elements with field %.40s must have an end and an index", field);
    else if (of && !(f.values = mem_array(p->plan->order.elements, sizeof(*f.values))))
        st = fail_memory(reterr, "planning");
    if (st == PST_OK)
        st = run_all(p, env, take_values, &f, reterr);
    if (st == PST_OK && f.missing)
        st = pst_fail(reterr, PST_ECORRUPT, "an element is damaged, and field %.40s of every element must be known", field);
    if (st == PST_OK) {
        *ret = f.values;
        *ret_count = p->plan->order.elements;
    } else {
        mem_free(f.values);
    }
    pst_pipeline_destroy(p);
    chain_finish(&tail);
    return st;
}

/* ---- Bits ---- */

static pst_status bits_create(struct kept_bits **ret, uint64_t count, pst_error *reterr)
{
    struct kept_bits *b = mem_zalloc(sizeof(*b));
    if (b) {
        b->words = mem_array(bitmap_word_count(count) + 1, sizeof(*b->words));
        b->rank = mem_array(bitmap_block_count(count) + 1, sizeof(*b->rank));
    }
    if (!b || !b->words || !b->rank) {
        kept_bits_destroy(b);
        return pst_fail(reterr, PST_ENOMEM, "filter: out of memory for %" PRIu64 " bits", count);
    }
    b->map.count = count;
    *ret = b;
    return PST_OK;
}

/* Makes the directory, once the bits are set. */
static pst_status bits_settle(struct kept_bits *b, pst_error *reterr)
{
    b->map.words = b->words;
    b->map.rank = b->rank;
    b->map.ones = bitmap_fill_rank(b->words, b->map.count, b->rank);
    b->hint = mem_array(bitmap_hint_count(b->map.ones), sizeof(*b->hint));
    b->map.hint = b->hint;
    if (!b->hint)
        return fail_memory(reterr, "planning a filter");
    bitmap_fill_hint(b->rank, b->map.count, b->map.ones, b->hint);
    if (b->map.count <= UINT32_MAX && b->map.ones <= MOST_MEMBERS)
        b->members = mem_array((size_t)b->map.ones + 1, sizeof(*b->members)); /* without it, members are counted */
    if (b->members)
        bitmap_fill_members(b->words, b->map.count, b->members);
    b->map.members = b->members;
    return PST_OK;
}

static void take_bits(void *user, const pst_tensor *values, uint64_t first, const pst_batch *b)
{
    struct kept_bits *bits = user;
    const uint8_t *set = values->data;
    for (size_t i = 0; i < b->size; i++) {
        uint64_t at = first + batch_place_before(b, i);
        if (!set[i])
            bits->words[at / 64] &= ~(UINT64_C(1) << at % 64);
    }
}

static pst_status compute_bits(struct kept_bits *b, const struct pipeline_plan *p, size_t i, const char *expression,
                               const struct plan_env *env, pst_error *reterr)
{
    struct chain tail = {0};
    pst_pipeline *sub = NULL;
    const char *field = RESULT;
    struct expr_config *expr = mem_zalloc(sizeof(*expr));
    const struct strings_config {
        pst_strings fields;
    } select = {{1, &field}};
    if (!expr)
        return fail_memory(reterr, "planning a filter");
    expr->expr = expression;
    expr->field = RESULT;
    expr->dtype = EXPR_DTYPE_U8;
    expr->truth = true;
    pst_op_class test = op_expr.op; /* its errors name the filter */
    test.name = p->chain->nodes[i].op->name;
    pst_status st = chain_add_class(&tail, &test, expr, reterr);
    if (st == PST_OK)
        st = chain_add_class(&tail, &op_select.op, &select, reterr);
    if (st == PST_OK)
        st = chain_add(&tail, "batch", BATCH, reterr);
    if (st == PST_OK)
        st = make_pipeline(&sub, p->chain, i, &tail, p->ram / 2, env, reterr);
    if (st == PST_OK && pst_pipeline_spec(sub)->field[0].rank != 1)
        st = pst_fail(reterr, PST_ETYPE, "the expression has many values per element; make one of them with any(…) or all(…)");
    if (st == PST_OK) {
        for (uint64_t at = 0; at < b->map.count; at++)
            b->words[at / 64] |= UINT64_C(1) << at % 64;
        st = run_all(sub, env, take_bits, b, reterr);
    }
    pst_pipeline_destroy(sub);
    chain_finish(&tail);
    mem_free(expr);
    return st;
}

/* ---- In a file ---- */

/* The path of the file; NULL: it can be stored nowhere, or memory is short. */
static char *bits_path(const struct pipeline_plan *p, const char *cache_dir, uint64_t data, uint64_t ops)
{
    const struct pipeline_plan *of = p;
    struct source_place at = {0};
    char *folder = NULL, *path;
    while (of->join)
        of = of->join->branches[0].plan;
    bool elements = of->order.source > 0 && of->order.source < ORDER_UNKNOWN;
    if (!cache_dir && elements && of->source_class->locate)
        of->source_class->locate(of->source, 0, SOURCE_WHOLE, &at);
    if (!cache_dir &&
        (!at.path || at.offset == PST_NOWHERE || remote_is(at.path))) /* files as elements: their folders are the user's */
        return NULL;
    if (!cache_dir) {
        size_t length = (size_t)(file_base(at.path) - at.path);
        folder = length ? mem_strndup(at.path, length) : mem_strdup("./");
    }
    path = mem_format("%s%s.penstock-filter-%016" PRIx64 "%016" PRIx64,
                      cache_dir ? cache_dir
                      : folder  ? folder
                                : "",
                      cache_dir ? "/" : "", data, ops);
    bool whole = cache_dir || folder;
    mem_free(folder);
    if (whole)
        return path;
    mem_free(path);
    return NULL;
}

static uint64_t checksum(const uint64_t *words, uint64_t count)
{
    return hash_bytes(words, (size_t)bitmap_word_count(count) * sizeof(*words), MAGIC);
}

/* Reads the bits; false: there are none, or the file is not a whole one of these. */
static bool load_bits(struct kept_bits *b, const char *path, uint64_t data, uint64_t ops)
{
    uint8_t *file = NULL;
    size_t length = 0;
    uint64_t head[FILE_WORDS], words = bitmap_word_count(b->map.count);
    size_t expected = (FILE_WORDS + (size_t)words) * sizeof(uint64_t);
    if (file_read_all(&file, &length, path, expected, NULL) < 0)
        return false;
    bool good = length == expected;
    if (good) {
        memcpy(head, file, sizeof(head));
        memcpy(b->words, file + sizeof(head), (size_t)words * sizeof(*b->words));
        good = head[0] == MAGIC && head[1] == data && head[2] == ops && head[3] == b->map.count &&
               head[5] == checksum(b->words, b->map.count);
    }
    if (!good)
        memset(b->words, 0, (size_t)words * sizeof(*b->words));
    mem_free(file);
    return good;
}

/* Writes the bits where they can be written; if not, they are computed again next time. */
static bool store_bits(const struct kept_bits *b, const char *path, uint64_t data, uint64_t ops)
{
    uint64_t words = bitmap_word_count(b->map.count);
    uint64_t *file = mem_array(FILE_WORDS + (size_t)words, sizeof(*file));
    if (!file)
        return false;
    const uint64_t head[FILE_WORDS] = {MAGIC, data, ops, b->map.count, b->map.ones, checksum(b->words, b->map.count)};
    memcpy(file, head, sizeof(head));
    memcpy(file + FILE_WORDS, b->words, (size_t)words * sizeof(*file));
    pst_status st = publish_bytes(path, file, (FILE_WORDS + (size_t)words) * sizeof(*file), true, false, NULL);
    mem_free(file);
    return st == PST_OK;
}

pst_status evaluate_filter(struct kept_bits **ret, const struct pipeline_plan *p, size_t i, uint64_t count,
                           const struct plan_env *env, pst_error *reterr)
{
    const struct node *n = &p->chain->nodes[i];
    const char *expression = op_decl_of(n->op)->filter(n->config), *cache_dir = env->options->cache_dir;
    struct kept_bits *b = NULL;
    uint64_t data, ops;
    pst_status st = plan_hash(p, i + 1, &data, &ops, reterr);
    if (st == PST_OK)
        st = bits_create(&b, count, reterr);
    if (st < 0)
        return st;
    if (cache_dir)
        (void)file_make_folder(cache_dir, NULL);
    char *path = bits_path(p, cache_dir, data, ops);
    b->stored = path && load_bits(b, path, data, ops);
    bool found = b->stored;
    if (!found)
        st = compute_bits(b, p, i, expression, env, reterr);
    if (st == PST_OK)
        st = bits_settle(b, reterr);
    if (st == PST_OK && !found && path)
        b->stored = store_bits(b, path, data, ops);
    mem_free(path);
    if (st < 0)
        kept_bits_destroy(b);
    else
        *ret = b;
    return st;
}
