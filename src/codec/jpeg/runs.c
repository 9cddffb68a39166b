/* runs.c: runs of Huffman-coded MCUs without a restart marker between them, read or skipped. Compiled once for any machine
 * and once for those with three-operand shifts (BMI2), which are much of what it does.
 *
 * Where a block ends is no more predictable than its contents, and a wrong guess costs as much as three symbols. So the loops
 * do not guess: block after block is one stream of steps (huffman.h), each looked up both as what goes on and as what begins a
 * block, and which it is shows in time. What is left is the chain from one step to the next: bits → table → length → bits. The
 * bits stay in registers: no function that is not inlined gets their address. */
#include "codec/jpeg/state.h"

#define INLINE static inline __attribute__((always_inline))

/* Values without bits go to where the next block begins, and are overwritten when it does. */
#define NOWHERE_16 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64
static const uint8_t order[128] = {JPEG_CODING_ORDER, NOWHERE_16, NOWHERE_16, NOWHERE_16, NOWHERE_16};

/* Block by block: number `i`, and its coefficient `k` that is next. `follows` is the number of the block that would have begun
 * now if the last step had ended one: the tables for either case are known before it is clear which it is. */
struct steps {
    struct bits bits;
    uint64_t i, k, follows;
};

/* One symbol, where two would reach beyond the block or where it is not in the lookup. Returns its entry, which takes no more
 * than the block has left; 0: trouble. */
static __attribute__((noinline)) uint64_t single(const struct jpeg_decoder *d, uint64_t i, uint64_t k, uint64_t buffer)
{
    const struct jpeg_component *c = &d->component[d->tables.component[i]];
    const struct huffman_dc *dc = &d->dc[c->dc];
    const struct huffman_ac *ac = &d->ac[c->ac];
    uint64_t e = k ? huffman_alone(ac->read[buffer >> (64 - HUFFMAN_AC_BITS)]) : HUFFMAN_RARE << 8;
    if ((e >> 8 & 255) == HUFFMAN_RARE) {
        unsigned found = k ? huffman_find(&ac->code, &ac->lengths, (uint32_t)(buffer >> 48))
                           : huffman_find(&dc->code, &dc->lengths, (uint32_t)(buffer >> 48));
        e = !found ? 0 : k ? huffman_ac_entry(found >> 8, found & 255) : huffman_dc_entry(found >> 8, found & 255);
    }
    return k + (e >> 8 & 255) > 64 ? 0 : e;
}

/* Goes on by an entry to coefficient `k`. */
INLINE void advance(struct steps *s, uint64_t entry, uint64_t k)
{
    uint64_t goes_on = (uint64_t)((int64_t)(k + (entry & HUFFMAN_END) - 64) >> 63);
    bits_drop(&s->bits, entry & 63);
    s->k = k & goes_on;
    s->follows = s->i + 1;
    s->i += 1 + goes_on;
}

/* The value of A is in the first of the bits after its code. */
INLINE int16_t value_of(uint64_t entry, uint64_t buffer)
{
    uint64_t top = buffer << (entry >> 24 & 63);
    return (int16_t)((top >> (entry >> 32 & 63)) + (~(uint64_t)((int64_t)top >> 63) & entry >> 48));
}

INLINE bool read_step(const struct jpeg_decoder *d, struct steps *s, int16_t *blocks, uint8_t *flat)
{
    const uint64_t *ac = d->tables.ac_before[s->follows], *dc = d->tables.dc[s->follows];
    uint64_t going_on = ac[s->bits.buffer >> (64 - HUFFMAN_AC_BITS)], beginning = dc[s->bits.buffer >> (64 - HUFFMAN_DC_BITS)];
    uint64_t e = s->k ? going_on : beginning, k = s->k + (e >> 8 & 255);
    if (__builtin_expect(k > 64, 0)) {
        e = single(d, s->i, s->k, s->bits.buffer);
        k = s->k + (e >> 8 & 255);
        if (!e)
            return false;
    }
    int16_t *block = blocks + 64 * s->i;
    block[order[k - 1]] = (int8_t)(e >> 40);
    block[order[s->k + (e >> 16 & 255)]] = value_of(e, s->bits.buffer);
    flat[s->i] = (uint8_t)k;
    advance(s, e, k);
    return true;
}

INLINE struct steps resume(const struct jpeg_run *run)
{
    return (struct steps){.bits = run->place->stream.bits, .i = run->i, .k = run->k, .follows = run->follows};
}

INLINE void suspend(const struct steps *s, struct jpeg_run *run)
{
    run->place->stream.bits = s->bits;
    run->i = s->i;
    run->k = s->k;
    run->follows = s->follows;
}

/* Bits for two steps. */
INLINE bool prepare(struct steps *s, struct stream *from)
{
    if (__builtin_expect(s->bits.next > from->comfortable, 0)) {
        from->bits = s->bits;
        if (!stream_more(from))
            return false;
        s->bits = from->bits;
    }
    bits_fill(&s->bits);
    return true;
}

static bool read_one(const struct jpeg_decoder *d, struct jpeg_run *run)
{
    struct steps s = resume(run);
    int16_t *const blocks = run->blocks;
    uint8_t *const flat = run->flat;
    const uint64_t end = run->end;
    do {
        if (!prepare(&s, &run->place->stream) || !read_step(d, &s, blocks, flat))
            return false;
        if (s.i == end)
            break;
        if (!read_step(d, &s, blocks, flat))
            return false;
    } while (s.i != end);
    suspend(&s, run);
    return true;
}

static bool read_two(const struct jpeg_decoder *d, struct jpeg_run *one, struct jpeg_run *two)
{
    struct steps s = resume(one), t = resume(two);
    int16_t *const s_blocks = one->blocks, *const t_blocks = two->blocks;
    uint8_t *const s_flat = one->flat, *const t_flat = two->flat;
    const uint64_t s_end = one->end, t_end = two->end;
    do {
        if (!prepare(&s, &one->place->stream) || !prepare(&t, &two->place->stream) || !read_step(d, &s, s_blocks, s_flat) ||
            !read_step(d, &t, t_blocks, t_flat))
            return false;
        if (s.i == s_end || t.i == t_end)
            break;
        if (!read_step(d, &s, s_blocks, s_flat) || !read_step(d, &t, t_blocks, t_flat))
            return false;
    } while (s.i != s_end && t.i != t_end);
    suspend(&s, one);
    suspend(&t, two);
    return true;
}

/* ---- Passed over ---- */

INLINE bool skip_step(const struct jpeg_decoder *d, struct steps *s)
{
    const uint16_t *ac = d->tables.ac_skip_before[s->follows], *dc = d->tables.dc_skip[s->follows];
    uint64_t going_on = ac[s->bits.buffer >> (64 - HUFFMAN_SKIP_BITS)],
             beginning = dc[s->bits.buffer >> (64 - HUFFMAN_DC_BITS)];
    uint64_t e = s->k ? going_on : beginning, k = s->k + (e >> 8);
    if (__builtin_expect(k > 64, 0)) {
        e = single(d, s->i, s->k, s->bits.buffer);
        k = s->k + (e >> 8 & 255);
        if (!e)
            return false;
    }
    advance(s, e, k);
    return true;
}

/* The differences, from the bits that each block began with. */
static bool sum_up_skipped(const struct jpeg_decoder *d, struct jpeg_place *p, uint64_t blocks, const uint64_t *began)
{
    int32_t wrong = 0;
    for (uint64_t i = 0; i < blocks; i++) {
        int32_t *dc = &p->dc[d->tables.component[i]];
        uint64_t e = d->tables.dc[i][began[i] >> (64 - HUFFMAN_DC_BITS)];
        if (__builtin_expect((e >> 8 & 255) == HUFFMAN_RARE, 0))
            e = single(d, i, 0, began[i]);
        *dc += (e >> 16 & 255) == HUFFMAN_NOWHERE ? 0 : value_of(e, began[i]);
        wrong |= *dc ^ (int16_t)*dc;
    }
    return wrong == 0;
}

static bool skip_run(const struct jpeg_decoder *d, struct jpeg_place *p, uint32_t mcus)
{
    uint64_t began[JPEG_GROUP_BLOCKS + 1]; /* a step writes where the next block would begin; the last one to do so is right */
    const uint64_t end = mcus * d->blocks;
    struct steps s = {.bits = p->stream.bits};
    for (;;) {
        if (!prepare(&s, &p->stream))
            return false;
        began[s.follows] = s.bits.buffer;
        if (s.i == end)
            break;
        if (!skip_step(d, &s))
            return false;
        began[s.follows] = s.bits.buffer;
        if (s.i == end)
            break;
        if (!skip_step(d, &s))
            return false;
    }
    p->stream.bits = s.bits;
    return sum_up_skipped(d, p, end, began);
}

#if defined(__BMI2__)
void jpeg_kernels_init_runs_bmi2(struct jpeg_kernels *k)
#else
void jpeg_kernels_init_runs_c(struct jpeg_kernels *k)
#endif
{
    k->read_one = read_one;
    k->read_two = read_two;
    k->skip_run = skip_run;
}
