/* damage_judge.c: the policy for damage, applied in the order of delivery, to each damage once.
 *
 * A worker or a stream only records damage in the entry that it works on: what is tolerated must not depend on which worker
 * was first. The consumer judges each entry in its turn, so that an exhausted budget fails at the same batch for any number
 * of workers. Damage is identified by a key: the number of an element, or the place of damage that belongs to no element. */
#include "flow/damage_judge.h"

#include "base/hash.h"
#include "base/memory.h"
#include "flow/ring.h"

#include <stdio.h>
#include <string.h>

#define FIRST_SLOTS   64u
#define BEFORE_ALL    0                   /* the turn of what a stream found; that of element i is i + 1 */
#define PLACE_KEY     (UINT64_C(1) << 63) /* numbers of elements do not reach so high */
#define WHY_OF_STREAM "`penstock inspect --verify` lists it"

/* ---- What is known ---- */

/* Returns the slot of the key, or the slot where it would be stored. */
static uint64_t *find(uint64_t *slots, size_t capacity, uint64_t key)
{
    size_t i = (size_t)hash_combine(key, 0) & (capacity - 1);
    while (slots[i] && slots[i] != key)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static bool grow(struct damage_known *k)
{
    size_t capacity = k->capacity ? 2 * k->capacity : FIRST_SLOTS;
    uint64_t *slots = mem_array(capacity, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < k->capacity; i++)
        if (k->slots[i])
            *find(slots, capacity, k->slots[i]) = k->slots[i];
    mem_free(k->slots);
    k->slots = slots;
    k->capacity = capacity;
    return true;
}

pst_status damage_known_add(struct damage_known *k, uint64_t key, bool *ret_new)
{
    if (key == 0) {
        *ret_new = !k->zero;
        k->zero = true;
        return PST_OK;
    }
    if (2 * k->count >= k->capacity && !grow(k))
        return PST_ENOMEM;
    uint64_t *slot = find(k->slots, k->capacity, key);
    *ret_new = *slot == 0;
    k->count += *ret_new;
    *slot = key;
    return PST_OK;
}

void damage_known_finish(struct damage_known *k)
{
    mem_free(k->slots);
    *k = (struct damage_known){0};
}

static uint64_t key_of_place(const pst_damage *d)
{
    uint64_t place[] = {d->record, d->offset};
    const char *path = d->path ? d->path : "";
    return hash_bytes(path, strlen(path), hash_bytes(place, sizeof(place), 0)) | PLACE_KEY;
}

/* ---- The account ---- */

pst_status damage_account_init(struct damage_account *a, const pst_policy *policy, pst_error *reterr)
{
    *a = (struct damage_account){.policy = *policy};
    return pst_damage_log_create(&a->log, policy, reterr);
}

void damage_account_finish(struct damage_account *a)
{
    pst_damage_log_destroy(a->log);
    damage_known_finish(&a->known);
}

/* Counts damage unless it was counted before, and applies the policy to it. An exhausted budget stays exhausted, also after
 * a seek to the same damage. */
static pst_status count(struct damage_account *a, const struct damage_item *item, pst_error *reterr)
{
    const pst_damage *d = &item->damage;
    const char *why = item->why ? item->why : WHY_OF_STREAM;
    bool is_new;
    pst_status st = damage_known_add(&a->known, item->key, &is_new);
    if (st < 0)
        return pst_fail(reterr, st, "noting damage: out of memory");
    if (is_new)
        return pst_damage_log_add(a->log, d, why, reterr);
    if (!a->policy.skip)
        return damage_fail(d, why, reterr);
    if (!damage_spent(a->log))
        return PST_OK;
    st = pst_fail_at(reterr, PST_ECORRUPT, d->path, d->record, d->offset, "the damage budget is exhausted: %s", why);
    if (reterr)
        snprintf(reterr->op, sizeof(reterr->op), "%s", d->op);
    return st;
}

/* ---- Where it is found ---- */

static pst_status receive_opening(void *user, const pst_damage *damage, const char *why, pst_error *reterr)
{
    struct damage_opening *o = user;
    struct damage_item item = {.damage = *damage, .why = why, .key = key_of_place(damage)};
    item.damage.op = o->op;
    o->found++;
    return count(o->account, &item, reterr);
}

pst_status damage_opening_init(struct damage_opening *o, struct damage_account *a, const char *op, pst_error *reterr)
{
    *o = (struct damage_opening){.account = a, .op = op};
    return damage_log_divert(&o->log, &(struct damage_sink){.tolerant = a->policy.skip, .add = receive_opening, .user = o},
                             reterr);
}

void damage_opening_finish(struct damage_opening *o)
{
    o->log = pst_damage_log_destroy(o->log);
}

/* Keeps no detail: hostile data may consist of nothing but damage. */
static pst_status receive_stream(void *user, const pst_damage *damage, const char *why, pst_error *reterr)
{
    struct damage_intake *i = user;
    struct damage_item item = {.damage = *damage, .key = key_of_place(damage), .at = BEFORE_ALL};
    item.damage.op = i->op;
    if (damage_list_add(&i->waiting, &item) < 0)
        return pst_fail_at(reterr, PST_ENOMEM, damage->path, damage->record, damage->offset, "noting damage: out of memory");
    i->total++;
    return i->tolerant ? PST_OK : damage_fail(damage, why, reterr);
}

pst_status damage_intake_init(struct damage_intake *i, const char *op, bool tolerant, pst_error *reterr)
{
    *i = (struct damage_intake){.op = op, .tolerant = tolerant};
    return damage_log_divert(&i->log, &(struct damage_sink){.tolerant = tolerant, .add = receive_stream, .user = i}, reterr);
}

void damage_intake_finish(struct damage_intake *i)
{
    pst_damage_log_destroy(i->log);
    damage_list_finish(&i->waiting);
    *i = (struct damage_intake){0};
}

void damage_intake_drop(struct damage_intake *i)
{
    damage_list_clear(&i->waiting);
}

void damage_intake_hand_over(struct damage_intake *i, struct entry *e)
{
    struct damage_list empty = e->damage;
    if (i->waiting.count == 0)
        return;
    e->damage = i->waiting;
    i->waiting = empty;
}

pst_cause damage_of_load(pst_cause declared, pst_status st)
{
    return st == PST_ECORRUPT ? declared : st == PST_ELIMIT ? PST_CAUSE_TOO_LARGE : PST_CAUSES;
}

pst_cause damage_of_step(pst_cause declared, pst_status st)
{
    bool of_data = st < 0 && st != PST_ENOMEM && st != PST_ECANCELLED && st != PST_ESTALE;
    return of_data ? declared : PST_CAUSES;
}

pst_status damage_note(struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error)
{
    struct damage_item item = {
        .damage = damage_of_error(cause, error), .why = error->message, .key = sample, .at = (uint64_t)at + 1};
    return damage_list_add(&e->damage, &item);
}

/* ---- Where it is judged ---- */

/* Elements after the one that an entry failed at were not delivered, and are not judged. */
static bool has_turn(const struct entry *e, const struct damage_item *item)
{
    return item->at == BEFORE_ALL || item->at - 1 <= e->failed_at;
}

pst_status damage_judge(struct damage_account *a, struct entry *e, pst_error *reterr)
{
    if (e->met > a->met) {
        pst_damage_log_seen(a->log, e->met - a->met);
        a->met = e->met;
    }
    damage_list_sort(&e->damage);
    for (size_t i = 0; i < e->damage.count && has_turn(e, &e->damage.items[i]); i++) {
        bool says_more = !a->policy.skip && e->status < 0; /* the entry failed by it */
        pst_status st = count(a, &e->damage.items[i], says_more ? NULL : reterr);
        if (st < 0 && !says_more)
            return st;
    }
    if (e->status < 0 && reterr)
        *reterr = e->error;
    return e->status;
}
