/* comm_sum.c: sums over the ranks. Each rank owns one chunk of a piece: it gets the others' values of that chunk, adds them in the fixed
 * order of comm_post_sum, and sends the sums to all. So every byte goes as far as in a ring, and one rank alone decides the bits. */
#include "dist/comm_inside.h"

#include "base/cast.h"
#include "base/denormals.h"
#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

static void add(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

size_t comm_halve_leaves(float *const *leaves, size_t n, size_t count)
{
    unsigned before = flush_denormals();
    for (; n > 1 && n % 2 == 0; n /= 2)
        for (size_t i = 0; i < n / 2; i++)
            add(leaves[i], leaves[i + n / 2], count);
    restore_denormals(before);
    return n;
}

void comm_sum_leaves(float *const *leaves, size_t n, size_t count)
{
    n = comm_halve_leaves(leaves, n, count);
    unsigned before = flush_denormals();
    for (size_t i = 1; i < n; i++)
        add(leaves[0], leaves[i], count);
    restore_denormals(before);
}

/* ---- Values on the way ---- */

/* Bytes of `count` values in a message. */
static size_t message_bytes(enum comm_number number, size_t count)
{
    return number == COMM_F16 ? sizeof(float) + count * sizeof(uint16_t) : count * sizeof(float);
}

static float largest(const float *x, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        float a = fabsf(x[i]);
        most = a > most ? a : most;
    }
    return most;
}

/* Writes values as float16 after the power of two that they were divided by; `room` is as large as the values. */
static void pack_halves(const float *from, size_t count, char *to, float *room)
{
    float most = largest(from, count), scale = 1;
    int exponent = 0;
    if (most > 0 && most < INFINITY) {
        frexpf(most, &exponent);
        exponent = exponent < -110 ? -110 : exponent;
        scale = ldexpf(1, exponent - 14); /* the largest becomes 2^13 to 2^14, which float16 holds */
    }
    memcpy(to, &scale, sizeof(scale));
    for (size_t i = 0; i < count; i++)
        room[i] = from[i] / scale;
    cast_values(to + sizeof(scale), PST_DTYPE_F16, room, PST_DTYPE_F32, count);
}

static void unpack_halves(const char *from, size_t count, float *to)
{
    float scale;
    memcpy(&scale, from, sizeof(scale));
    cast_values(to, PST_DTYPE_F32, from + sizeof(scale), PST_DTYPE_F16, count);
    for (size_t i = 0; i < count; i++)
        to[i] *= scale;
}

/* ---- Memory ---- */

static size_t slot_bytes(const pst_comm *c)
{
    return PIECE_FLOATS * sizeof(float) + (size_t)c->size * (COMM_MOST_LEAVES + 1) * 128;
}

pst_status sums_create(pst_comm *c, pst_error *reterr)
{
    for (size_t i = 0; i < SLOTS && c->size > 1; i++) {
        struct slot *s = &c->slots[i];
        s->requests = mem_array(2 * (size_t)c->size, sizeof(*s->requests));
        s->in = mem_aligned(slot_bytes(c));
        s->out = mem_aligned(slot_bytes(c));
        s->work = mem_aligned(slot_bytes(c));
        if (!s->requests || !s->in || !s->out || !s->work)
            return fail_memory(reterr, "joining the ranks");
    }
    return PST_OK;
}

void sums_destroy(pst_comm *c)
{
    for (size_t i = 0; i < SLOTS; i++) {
        mem_free(c->slots[i].requests);
        mem_free(c->slots[i].in);
        mem_free(c->slots[i].out);
        mem_free(c->slots[i].work);
    }
}

/* ---- Pieces ---- */

static size_t chunk_begin(const pst_comm *c, size_t count, unsigned rank)
{
    return count * rank / c->size;
}

static size_t chunk_count(const pst_comm *c, size_t count, unsigned rank)
{
    return chunk_begin(c, count, rank + 1) - chunk_begin(c, count, rank);
}

/* Room for the message from or to a rank; `leaves` of them follow one another, each at a multiple of 64 bytes. */
static size_t leaf_pitch(const pst_comm *c, const struct slot *s)
{
    size_t most = s->count / c->size + 1;
    return (message_bytes(s->job->number, most) + 63) / 64 * 64;
}

static char *message_at(const pst_comm *c, const struct slot *s, char *block, unsigned rank)
{
    return block + rank * s->job->leaves * leaf_pitch(c, s);
}

/* Sends to every owner the values of its chunk. */
static void start_scatter(pst_comm *c, struct slot *s, int tag)
{
    const struct job *j = s->job;
    size_t pitch = leaf_pitch(c, s), mine = chunk_count(c, s->count, c->rank);
    bool direct = j->leaves == 1 && j->number == COMM_F32; /* from where the values are */
    for (unsigned r = 0; r < c->size; r++) {
        size_t first = s->first + chunk_begin(c, s->count, r), count = chunk_count(c, s->count, r);
        if (r == c->rank)
            continue;
        if (mine)
            comm_receive(c, r, tag, message_at(c, s, s->in, r), direct ? mine * sizeof(float) : j->leaves * pitch, &s->requests[r]);
        if (!count)
            continue;
        char *out = message_at(c, s, s->out, r);
        for (size_t l = 0; !direct && l < j->leaves; l++)
            if (j->number == COMM_F16)
                pack_halves(j->leaf[l] + first, count, out + l * pitch, s->work);
            else
                memcpy(out + l * pitch, j->leaf[l] + first, count * sizeof(float));
        comm_send(c, r, tag, direct ? (const void *)(j->leaf[0] + first) : out, direct ? count * sizeof(float) : j->leaves * pitch,
                  &s->requests[c->size + r]);
    }
    s->state = SLOT_SCATTER;
}

/* All values of our chunk are here: adds them, leaf by leaf of all ranks. */
static void add_up(pst_comm *c, struct slot *s)
{
    struct job *j = s->job;
    size_t pitch = leaf_pitch(c, s), count = chunk_count(c, s->count, c->rank), first = s->first + chunk_begin(c, s->count, c->rank);
    float *leaves[COMM_MOST_LEAVES * 64], **all = leaves;
    size_t n = j->leaves * c->size;
    if (!count)
        return;
    if (n > sizeof(leaves) / sizeof(leaves[0]) && !(all = mem_array(n, sizeof(*all)))) {
        comm_fail(c, PST_ENOMEM, "out of memory while adding gradients of %u ranks", c->size);
        return;
    }
    for (unsigned r = 0; r < c->size; r++)
        for (size_t l = 0; l < j->leaves; l++) {
            char *message = message_at(c, s, s->in, r) + l * pitch;
            float *values = r == c->rank ? j->leaf[l] + first : (float *)message;
            if (r != c->rank && j->number == COMM_F16) {
                values = s->work + (r * j->leaves + l) * (s->count / c->size + 16);
                unpack_halves(message, count, values);
            }
            all[l * c->size + r] = values;
        }
    comm_sum_leaves(all, n, count);
    if (all[0] != j->to + first)
        memcpy(j->to + first, all[0], count * sizeof(float));
    if (all != leaves)
        mem_free(all);
}

/* Sends the sums of our chunk to all. */
static void start_sums(pst_comm *c, struct slot *s, int tag)
{
    struct job *j = s->job;
    size_t mine = chunk_count(c, s->count, c->rank), first = s->first + chunk_begin(c, s->count, c->rank);
    const void *out = j->to + first;
    if (j->number == COMM_F16 && mine) {
        pack_halves(j->to + first, mine, s->out, s->work);
        unpack_halves(s->out, mine, j->to + first); /* what the others get */
        out = s->out;
    }
    for (unsigned r = 0; r < c->size; r++) {
        size_t count = chunk_count(c, s->count, r);
        if (r == c->rank)
            continue;
        if (count)
            comm_receive(c, r, tag, j->number == COMM_F16 ? message_at(c, s, s->in, r) : (char *)(j->to + s->first + chunk_begin(c, s->count, r)),
                         message_bytes(j->number, count), &s->requests[r]);
        if (mine)
            comm_send(c, r, tag, out, message_bytes(j->number, mine), &s->requests[c->size + r]);
    }
    s->state = SLOT_SUMS;
}

static void finish_piece(pst_comm *c, struct slot *s)
{
    struct job *j = s->job;
    for (unsigned r = 0; r < c->size && j->number == COMM_F16; r++)
        if (r != c->rank)
            unpack_halves(message_at(c, s, s->in, r), chunk_count(c, s->count, r), j->to + s->first + chunk_begin(c, s->count, r));
    j->done += s->count;
    s->state = SLOT_IDLE;
}

/* Takes the next piece; false: there is none. */
static bool begin_piece(pst_comm *c, struct slot *s)
{
    struct job *j = comm_next(c);
    if (!j || j->kind != JOB_SUM || s != &c->slots[c->pieces % SLOTS])
        return false;
    c->pieces++;
    c->dropping &= !j->always;
    size_t piece = PIECE_FLOATS / j->leaves / 64 * 64, left = j->count - j->issued;
    s->job = j;
    s->first = j->issued;
    s->count = left < piece ? left : piece;
    j->issued += s->count;
    if (j->issued == j->count)
        c->begun++;
    return true;
}

/* Sums of one rank, sums that are not wanted, and sums after a failure. */
static void skip_piece(pst_comm *c, struct slot *s)
{
    struct job *j = s->job;
    if (c->size == 1 && !c->dropping) {
        float *leaves[COMM_MOST_LEAVES];
        for (size_t l = 0; l < j->leaves; l++)
            leaves[l] = j->leaf[l] + s->first;
        comm_sum_leaves(leaves, j->leaves, s->count);
        if (leaves[0] != j->to + s->first)
            memcpy(j->to + s->first, leaves[0], s->count * sizeof(float));
    }
    j->done += s->count;
}

/* Completes jobs in their order. */
static void complete_jobs(pst_comm *c, uint64_t *completed)
{
    while (*completed < c->begun && c->queue[*completed % QUEUE].done == c->queue[*completed % QUEUE].count) {
        ++*completed;
        comm_complete(c);
    }
}

void sums_run(pst_comm *c)
{
    uint64_t completed = c->begun; /* of the jobs before, all are */
    for (;;) {
        bool busy = false, broken = comm_is_broken(c);
        for (unsigned i = 0; i < SLOTS; i++) {
            struct slot *s = &c->slots[i];
            while (s->state == SLOT_IDLE && begin_piece(c, s)) {
                if (c->size > 1 && !c->dropping && !broken)
                    start_scatter(c, s, TAG_SCATTER + (int)i);
                else
                    skip_piece(c, s);
            }
            if (s->state == SLOT_SCATTER && !broken && comm_test(c, s->requests, 2 * c->size)) {
                add_up(c, s);
                start_sums(c, s, TAG_SUMS + (int)i);
            }
            if (s->state == SLOT_SUMS && !broken && comm_test(c, s->requests, 2 * c->size))
                finish_piece(c, s);
            if (broken && s->state != SLOT_IDLE) {
                s->job->done += s->count;
                s->state = SLOT_IDLE;
            }
            busy |= s->state != SLOT_IDLE;
        }
        complete_jobs(c, &completed);
        if (!busy && completed == c->begun) {
            struct job *next = comm_next(c);
            if (!next || next->kind != JOB_SUM)
                return;
        }
        if (busy)
            comm_pause(c);
    }
}
