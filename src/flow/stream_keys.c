/* stream_keys.c: filters of a stream for which the data decides: batches of elements that belong together, elements that
 * were not seen before; and windows that overlap.
 *
 * Groups are what tf.data's group_by_window makes: an element joins the group of its key, and a group that is full comes out
 * at once. At the end the rest comes out in the order of the keys. All of it depends on the order of the elements alone. */
#include "base/cast.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/element.h"
#include "flow/stream_filters.h"

#include <inttypes.h>
#include <string.h>

/* Elements that wait for others with the same key. */
struct group {
    int64_t number; /* the key, if it is a number */
    uint8_t *bytes; /* the key, if it is bytes; owned */
    size_t length;  /* bytes of it */
    struct item *first, *last;
    uint64_t count;
    uint64_t longest; /* length of the longest element */
};

struct key_state {
    struct group *groups; /* in the order of their keys */
    size_t count, capacity;
    uint64_t bytes; /* of all items that wait */
    size_t flushed; /* at the end: groups that came out */
    bool ended;
    uint64_t *seen; /* unique: pairs of hashes; 0, 0: free */
    size_t slots, used;
};

static pst_status state_of(struct filter *f, struct key_state **ret, pst_error *reterr)
{
    if (!f->keys)
        f->keys = mem_zalloc(sizeof(*f->keys));
    *ret = f->keys;
    return f->keys ? PST_OK : fail_memory(reterr, "reading the stream");
}

void keys_clear(struct element_stream *s, struct filter *f)
{
    struct key_state *k = f->keys;
    if (!k)
        return;
    for (size_t i = 0; i < k->count; i++) {
        element_stream_release(s, k->groups[i].first);
        mem_free(k->groups[i].bytes);
    }
    k->count = k->flushed = k->used = 0;
    k->bytes = 0;
    k->ended = false;
    if (k->seen)
        memset(k->seen, 0, 2 * k->slots * sizeof(*k->seen));
}

void keys_finish(struct element_stream *s, struct filter *f)
{
    keys_clear(s, f);
    if (f->keys) {
        mem_free(f->keys->groups);
        mem_free(f->keys->seen);
    }
    mem_free(f->keys);
    f->keys = NULL;
}

/* ---- Groups ---- */

struct key {
    int64_t number;
    pst_bytes bytes;
    uint64_t length; /* of the element, where lengths count */
};

static size_t bucket_of(const struct key_rule *rule, uint64_t length)
{
    size_t low = 0, high = rule->boundary_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (length < rule->boundaries[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct key key_of(struct element_stream *s, const struct key_rule *rule, const struct item *item)
{
    struct key key = {0};
    item_view(s, item, s->out);
    const pst_tensor *t = &s->out[rule->field];
    if (rule->kind == KEY_LENGTH) {
        key.length = tensor_length(t);
        key.number = (int64_t)bucket_of(rule, key.length);
    } else if (t->dtype == PST_DTYPE_BYTES) {
        key.bytes = *(const pst_bytes *)t->data;
    } else {
        cast_values(&key.number, PST_DTYPE_I64, t->data, t->dtype, 1);
    }
    return key;
}

static int compare(const struct group *g, const struct key *key)
{
    if (!g->bytes)
        return g->number < key->number ? -1 : g->number > key->number;
    size_t common = g->length < key->bytes.length ? g->length : key->bytes.length;
    int order = common ? memcmp(g->bytes, key->bytes.data, common) : 0;
    return order ? order : g->length < key->bytes.length ? -1 : g->length > key->bytes.length;
}

/* The group of a key; it is made if there is none. NULL: out of memory. */
static struct group *group_of(struct key_state *k, const struct key *key)
{
    size_t low = 0, high = k->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare(&k->groups[middle], key);
        if (order == 0)
            return &k->groups[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct group fresh = {.number = key->number, .length = key->bytes.length};
    if (key->bytes.data && !(fresh.bytes = mem_alloc(fresh.length + 1)))
        return NULL;
    if (fresh.length)
        memcpy(fresh.bytes, key->bytes.data, fresh.length);
    if (mem_grow((void **)&k->groups, &k->capacity, k->count + 1, sizeof(*k->groups)) < 0) {
        mem_free(fresh.bytes);
        return NULL;
    }
    memmove(k->groups + low + 1, k->groups + low, (k->count - low) * sizeof(*k->groups));
    k->groups[low] = fresh;
    k->count++;
    return &k->groups[low];
}

static void join(struct key_state *k, struct group *g, struct item *item, uint64_t length)
{
    if (g->last)
        g->last->next = item;
    else
        g->first = item;
    g->last = item;
    g->count++;
    g->longest = length > g->longest ? length : g->longest;
    k->bytes += item->size + sizeof(*item);
}

static struct item *take_all(struct key_state *k, struct group *g)
{
    struct item *list = g->first;
    k->bytes -= item_list_bytes(list);
    g->first = g->last = NULL;
    g->count = g->longest = 0;
    return list;
}

static uint64_t size_of(const struct order_step *step, const struct group *g)
{
    return step->key->sizes ? step->key->sizes[g->number] : step->size;
}

/* Whether the budget has no room for one more element of this length: all of them are filled up to the longest. */
static bool is_over(const struct order_step *step, const struct group *g, uint64_t length)
{
    uint64_t longest = length > g->longest ? length : g->longest, total;
    return step->key->tokens && g->count > 0 &&
           (__builtin_mul_overflow(g->count + 1, longest, &total) || total > step->key->tokens);
}

/* One element joins its group. `*ret` is a group that is full thereby; otherwise NULL. */
static pst_status sort_in(struct element_stream *s, struct filter *f, struct item *item, struct item **ret, pst_error *reterr)
{
    struct key_state *k = f->keys;
    struct key key = key_of(s, f->step->key, item);
    struct group *g = group_of(k, &key);
    *ret = NULL;
    if (!g || k->bytes > f->step->limit) {
        uint64_t bytes = k->bytes;
        element_stream_release(s, item);
        return !g ? fail_memory(reterr, "sorting elements into batches")
                  : pst_fail(reterr, PST_ELIMIT,
                             "%zu groups have %" PRIu64 " bytes of elements that wait for others, more than the budget of "
                             "%" PRIu64 "; try smaller batches, fewer groups or a larger budget (ram)",
                             k->count, bytes, f->step->limit);
    }
    if (g->count >= size_of(f->step, g) || is_over(f->step, g, key.length))
        *ret = take_all(k, g);
    join(k, g, item, key.length);
    if (!*ret && g->count >= size_of(f->step, g))
        *ret = take_all(k, g);
    return PST_OK;
}

/* What is left at the end, in the order of the keys. */
static pst_status flush(struct element_stream *s, struct filter *f, struct item **ret)
{
    struct key_state *k = f->keys;
    while (k->flushed < k->count) {
        struct group *g = &k->groups[k->flushed++];
        if (g->count == 0)
            continue;
        bool is_short = g->count < size_of(f->step, g) && !f->step->key->tokens;
        struct item *list = take_all(k, g);
        if (!f->step->drop_remainder || !is_short) {
            *ret = list;
            return PST_OK;
        }
        element_stream_release(s, list);
    }
    return PST_END;
}

pst_status keyed_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    struct key_state *k;
    pst_status st = state_of(f, &k, reterr);
    *ret = NULL;
    while (st == PST_OK && !k->ended && !*ret) {
        struct item *item;
        st = filter_next(s, f->inner, &item, reterr);
        if (st == PST_OK)
            st = sort_in(s, f, item, ret, reterr);
        k->ended = st == PST_END;
    }
    if (st < 0 || *ret)
        return st;
    return flush(s, f, ret);
}

/* ---- Unique ---- */

static void hash_tensor(const pst_tensor *t, uint64_t h[2])
{
    size_t own = shape_bytes(t->dtype, t->rank, t->shape);
    for (int i = 0; i < 2; i++) {
        h[i] = hash_bytes(t->shape, t->rank * sizeof(*t->shape), h[i]);
        if (t->dtype != PST_DTYPE_BYTES)
            h[i] = hash_bytes(t->data, own, h[i]);
        for (size_t v = 0; t->dtype == PST_DTYPE_BYTES && v < own / sizeof(pst_bytes); v++) {
            const pst_bytes *b = (const pst_bytes *)t->data + v;
            h[i] = hash_combine(hash_bytes(b->data, b->length, h[i]), b->length);
        }
    }
}

static uint64_t *find_seen(uint64_t *seen, size_t slots, const uint64_t h[2])
{
    size_t i = (size_t)h[0] & (slots - 1);
    while ((seen[2 * i] || seen[2 * i + 1]) && (seen[2 * i] != h[0] || seen[2 * i + 1] != h[1]))
        i = (i + 1) & (slots - 1);
    return &seen[2 * i];
}

static pst_status make_room(struct key_state *k, uint64_t limit, pst_error *reterr)
{
    if (2 * (k->used + 1) <= k->slots)
        return PST_OK;
    size_t slots = k->slots ? 2 * k->slots : 1024;
    if (2 * slots * sizeof(*k->seen) > limit)
        return pst_fail(reterr, PST_ELIMIT,
                        "%zu different elements are more than the budget of %" PRIu64
                        " bytes can remember; try a larger budget (ram)",
                        k->used, limit);
    uint64_t *seen = mem_array(2 * slots, sizeof(*seen));
    if (!seen)
        return fail_memory(reterr, "remembering elements");
    for (size_t i = 0; i < k->slots; i++)
        if (k->seen[2 * i] || k->seen[2 * i + 1])
            memcpy(find_seen(seen, slots, &k->seen[2 * i]), &k->seen[2 * i], 2 * sizeof(*seen));
    mem_free(k->seen);
    k->seen = seen;
    k->slots = slots;
    return PST_OK;
}

pst_status unique_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    struct key_state *k;
    const struct key_rule *rule = f->step->key;
    pst_status st = state_of(f, &k, reterr);
    while (st == PST_OK) {
        struct item *item;
        uint64_t h[2] = {1, 2};
        st = make_room(k, f->step->limit, reterr);
        if (st == PST_OK)
            st = filter_next(s, f->inner, &item, reterr);
        if (st != PST_OK)
            break;
        item_view(s, item, s->out);
        for (size_t i = 0; i < rule->field_count; i++)
            hash_tensor(&s->out[rule->fields[i]], h);
        h[0] |= h[0] == 0 && h[1] == 0;
        uint64_t *slot = find_seen(k->seen, k->slots, h);
        if (!slot[0] && !slot[1]) {
            memcpy(slot, h, sizeof(h));
            k->used++;
            *ret = item;
            return PST_OK;
        }
        element_stream_release(s, item);
    }
    return st;
}

/* ---- Windows ---- */

/* A copy of one element: windows that overlap share elements. */
static struct item *copy_item(struct element_stream *s, const struct item *item)
{
    struct item *copy = item_create(s, item->block ? item->size ? item->size : 1 : 0);
    if (!copy)
        return NULL;
    if (item->block) {
        item_view(s, item, s->out);
        element_pack(copy->block, &s->program->in, &s->program->need, s->out);
    }
    copy->size = item->size;
    copy->place = item->place;
    copy->sample = item->sample;
    copy->pass = item->pass;
    memcpy(copy->numbers, item->numbers, sizeof(copy->numbers));
    return copy;
}

/* Fills the buffer with the elements that the next window spans. */
static pst_status fill_window(struct element_stream *s, struct filter *f, uint64_t span, pst_error *reterr)
{
    pst_status st = PST_OK;
    while (f->count > 0 && st == PST_OK && !f->ended) { /* elements between two windows */
        struct item *skipped = NULL;
        st = filter_next(s, f->inner, &skipped, reterr);
        element_stream_release(s, skipped);
        f->count -= st == PST_OK;
        f->ended = st == PST_END;
    }
    while (f->buffered < span && st == PST_OK && !f->ended) {
        if (f->bytes > f->step->limit)
            return pst_fail(reterr, PST_ELIMIT, "a window takes more than the budget of %" PRIu64 " bytes; try a smaller one",
                            f->step->limit);
        if (mem_grow((void **)&f->buffer, &f->room, f->buffered + 1, sizeof(*f->buffer)) < 0)
            return fail_memory(reterr, "window");
        st = filter_next(s, f->inner, &f->buffer[f->buffered], reterr);
        f->ended = st == PST_END;
        if (st == PST_OK)
            f->bytes += item_list_bytes(f->buffer[f->buffered++]);
    }
    return st < 0 ? st : PST_OK;
}

static void drop_front(struct element_stream *s, struct filter *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        f->bytes -= item_list_bytes(f->buffer[i]);
        element_stream_release(s, f->buffer[i]);
    }
    f->buffered -= n;
    memmove(f->buffer, f->buffer + n, f->buffered * sizeof(*f->buffer));
}

pst_status window_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    const struct order_step *w = f->step;
    struct item *first = NULL, **link = &first;
    uint64_t span = (w->size - 1) * w->stride + 1;
    pst_status st = fill_window(s, f, span, reterr);
    if (st < 0)
        return st;
    if (f->buffered == 0 || (f->buffered < span && w->drop_remainder))
        return PST_END;
    for (uint64_t i = 0; i < w->size && i * w->stride < f->buffered; i++) {
        *link = copy_item(s, f->buffer[i * w->stride]);
        if (!*link) {
            element_stream_release(s, first);
            return fail_memory(reterr, "window");
        }
        link = &(*link)->next;
    }
    size_t gone = w->shift < f->buffered ? (size_t)w->shift : f->buffered;
    f->count = w->shift - gone;
    drop_front(s, f, gone);
    *ret = first;
    return PST_OK;
}
