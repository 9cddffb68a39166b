/* test_blocks.c: blocks of remote objects in memory and in private files: which stay, which are dropped, and what readers see of them. */
#include "object_fixture.h"

#include "base/memory.h"
#include "io/mapping.h"
#include "io/remote/blocks.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct object *open_private(const char *name, size_t blocks)
{
    struct store_facts facts = {.known = true, .size = blocks * CACHE_BLOCK - 100, .etag = "\"e\""};
    struct object *o = NULL;
    char path[64];
    pst_error e;
    snprintf(path, sizeof(path), "http://127.0.0.1:9/%s", name);
    return CHECK_STATUS(object_open(&o, path, &facts, &(struct room){0}, &e), PST_OK, &e) ? o : NULL;
}

static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 7 + offset / CACHE_BLOCK);
}

/* As if the block had arrived. */
static void put_block(struct object *o, size_t i)
{
    uint8_t *block = blocks_take();
    for (size_t k = 0; block && k < CACHE_BLOCK; k++)
        block[k] = byte_at((uint64_t)i * CACHE_BLOCK + k);
    CHECK(block != NULL);
    object_mark(o, i, 1, COMING);
    object_attach(o, i, &block, false);
    object_mark(o, i, 1, HERE);
}

/* Reads into two pieces; false: other bytes. */
static bool reads_right(struct object *o, uint64_t offset, size_t length)
{
    static uint8_t bytes[4 * CACHE_BLOCK];
    struct iovec pieces[2] = {{bytes, length / 3}, {bytes + length / 3, length - length / 3}};
    size_t got;
    bool in_file;
    pst_error e;
    bool ok = CHECK_STATUS(object_read(o, pieces, 2, offset, &got, &in_file, &e), PST_OK, &e) && CHECK(!in_file);
    uint64_t size = object_size(o), want = offset + length < size ? length : size - offset;
    ok &= got == want;
    for (size_t i = 0; ok && i < got; i++)
        ok = bytes[i] == byte_at(offset + i);
    return ok;
}

/* What does not fit is dropped when its last byte was read, and not before. */
static void blocks_that_were_read(void)
{
    enum { COUNT = 250, POOL = 256 };
    blocks_limit(POOL * CACHE_BLOCK);
    struct object *o = open_private("read", COUNT);
    REQUIRE(o && o->memory);
    for (size_t i = 0; i < COUNT; i++)
        put_block(o, i);
    CHECK(!object_is_here(o) && reads_right(o, 0, 3 * CACHE_BLOCK) && o->states[0] == HERE); /* it is only opened */
    object_expect_sequential(o);
    uint64_t size = object_size(o), step = 99999;
    for (uint64_t at = 0; at < size; at += step)
        CHECK_MSG(reads_right(o, at, step), "at %llu", (unsigned long long)at);
    for (size_t i = 0; i < COUNT; i++)
        CHECK_MSG(o->states[i] == PASSED, "block %zu is %d", i, o->states[i]);
    CHECK(o->in_memory == 0 && o->here == 0 && o->ended);
    put_block(o, 150);
    CHECK(reads_right(o, 150 * CACHE_BLOCK, CACHE_BLOCK - 1) && o->states[150] == HERE);
    CHECK(reads_right(o, 151 * CACHE_BLOCK - 1, 1) && o->states[150] == PASSED);
    for (size_t i = 0; i < COUNT; i++)
        put_block(o, i);
    pst_error e;
    struct mapping m;
    REQUIRE_OK(object_need_mapped(o, size, &e), &e);
    CHECK(o->in_memory == 0 && object_is_here(o) && object_is_whole(o));
    REQUIRE_OK(mapping_open_sparse(&m, object_descriptor(o), o->path, (size_t)size, &e), &e);
    bool same = true;
    for (uint64_t at = 0; same && at < size; at++)
        same = m.data[at] == byte_at(at);
    CHECK(same && reads_right(o, size - 70000, 80000));
    mapping_close(&m);
    object_close(o);
    blocks_limit(0);
}

/* A request brings a block that was here before and passed meanwhile: its bytes were not kept, so it is not shown. */
static void blocks_that_passed_meanwhile(void)
{
    struct object *o = open_private("meanwhile", 40);
    REQUIRE(o);
    for (int again = 0; again < 2; again++) {
        struct part *p = part_make(o, 0, 3, SOON);
        REQUIRE(p);
        put_block(o, 1);
        object_mark(o, 0, 1, COMING);
        object_mark(o, 2, 1, COMING);
        for (size_t i = 0; i < 3; i++) {
            uint8_t *block = blocks_take();
            REQUIRE(block);
            object_attach(o, i, &block, false);
            CHECK(!block);
        }
        object_release_memory(o);
        put_block(o, 0);
        put_block(o, 2);
        object_mark(o, 1, 1, again ? PASSED : COMING); /* it was read; perhaps another thread asked for it again */
        part_show(p, 3);
        CHECK(p->done == 3);
        CHECK(o->states[0] == HERE && o->states[1] == (again ? PASSED : COMING) && o->states[2] == HERE);
        mem_free(p);
        object_release_memory(o);
        object_mark(o, 0, 3, ABSENT);
    }
    object_close(o);
}

/* Blocks that fit stay; when another object leaves too little room for them, they are dropped when they have been read once more, not before. */
static void blocks_that_fit_no_more(void)
{
    blocks_limit(256 * CACHE_BLOCK);
    struct object *o = open_private("first", 100);
    REQUIRE(o);
    object_expect_sequential(o);
    for (size_t i = 0; i < 100; i++)
        put_block(o, i);
    for (size_t i = 0; i < 100; i++)
        CHECK(reads_right(o, i * CACHE_BLOCK, CACHE_BLOCK) && o->states[i] == HERE);
    struct object *other = open_private("second", 150);
    REQUIRE(other);
    for (size_t i = 0; i < 99; i++) {
        CHECK_MSG(reads_right(o, i * CACHE_BLOCK, CACHE_BLOCK / 2) && o->states[i] == HERE, "block %zu is dropped half read", i);
        CHECK(reads_right(o, i * CACHE_BLOCK + CACHE_BLOCK / 2, CACHE_BLOCK / 2) && o->states[i] == PASSED);
    }
    object_close(other);
    object_close(o);
    blocks_limit(0);
}

/* A shard that is read again and again is fetched ahead in every epoch, from its eighth part on, and what was read already is not. */
static void epochs_without_room(void)
{
    enum { COUNT = 240 };
    blocks_limit(256 * CACHE_BLOCK);
    struct object *o = open_private("epochs", COUNT);
    REQUIRE(o);
    o->until = COUNT;
    atomic_store(&o->all, true);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        bool ahead = false;
        for (size_t i = 0; i < COUNT; i++) {
            if (o->states[i] != HERE) {
                struct part *p = object_ask_anew(o, i, i + 1) ? object_ask_once(o, COUNT - 1, COUNT, SOMETIME) : NULL;
                CHECK_MSG(!p || (epoch && !ahead && i == COUNT / 8), "epoch %u: fetched ahead at block %zu", epoch, i);
                CHECK(!p || (o->states[0] == PASSED && o->states[i + 1] == ABSENT));
                ahead |= p != NULL;
                mem_free(p);
                put_block(o, i);
            }
            CHECK(reads_right(o, (uint64_t)i * CACHE_BLOCK, CACHE_BLOCK) && o->states[i] == PASSED);
        }
        CHECK_MSG(ahead == (epoch > 0), "epoch %u", epoch);
    }
    atomic_store(&o->all, false);
    object_close(o);
    blocks_limit(0);
}

/* Two blocks that are here are no reason for two requests; three are. */
static void requests_with_gaps(void)
{
    struct object *o = open_private("gaps", 20);
    REQUIRE(o);
    put_block(o, 4);
    put_block(o, 5);
    put_block(o, 10);
    put_block(o, 11);
    put_block(o, 12);
    o->states[1] = PASSED;
    struct part *p = object_ask_once(o, 0, 20, SOON), *q = object_ask_once(o, 13, 20, SOMETIME);
    REQUIRE(p && q);
    CHECK(p->first == 0 && p->count == 10 && q->first == 13 && q->count == 7);
    CHECK(o->states[0] == COMING && o->states[1] == COMING && o->states[4] == HERE && o->states[9] == COMING && o->states[12] == HERE);
    mem_free(p);
    mem_free(q);
    object_close(o);
}

/* Blocks that were not asked for are fetched in pieces that end at multiples of their size; those that were asked for in one request, if they fit into one. */
static void requests_that_are_aligned(void)
{
    blocks_limit((uint64_t)512 << 20);
    struct object *before = open_private("before", 1); /* from here on, the size of requests fits the limit */
    REQUIRE(before);
    size_t part = parts_blocks(true);
    struct object *o = open_private("aligned", 3 * part);
    REQUIRE(o);
    struct part *p = object_ask_once(o, 1, 3 * part, SOMETIME), *q = object_ask_once(o, part, 3 * part, SOON);
    struct part *r = object_ask_once(o, 2 * part + 3, 3 * part, SOMETIME);
    REQUIRE(p && q && r);
    CHECK(p->count == part - 1 && q->count == part && r->count == part - 3);
    object_mark(o, 0, 3 * part, ABSENT);
    struct part *s = object_ask_once(o, part - 2, part + 2, SOON);
    REQUIRE(s);
    CHECK(s->count == 4);
    object_mark(o, 0, 3 * part, ABSENT);
    mem_free(p);
    mem_free(q);
    mem_free(r);
    mem_free(s);
    object_close(o);
    object_close(before);
    blocks_limit(0);
}

/* What fits stays. */
static void blocks_that_fit(void)
{
    struct object *o = open_private("fits", 20);
    REQUIRE(o);
    for (size_t i = 0; i < 20; i++)
        put_block(o, i);
    for (unsigned times = 0; times < 3; times++)
        for (uint64_t at = 0; at < object_size(o); at += 50000)
            CHECK(reads_right(o, at, 50000));
    CHECK(o->here == 20 && o->in_memory == 20 && !object_is_here(o));
    CHECK(object_is_whole(o) && o->in_memory == 0 && reads_right(o, 3, 200000)); /* it may be mapped now */
    object_close(o);
}

/* Bytes that find no memory go to the file, and come from there. */
static void blocks_without_memory(void)
{
    enum { POOL = 256 };
    uint8_t *taken[POOL], bytes[CACHE_BLOCK];
    blocks_limit(POOL * CACHE_BLOCK);
    for (size_t i = 0; i < POOL; i++)
        CHECK((taken[i] = blocks_take()) != NULL);
    CHECK(blocks_take() == NULL);
    struct object *o = open_private("full", 2);
    REQUIRE(o);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = byte_at(i);
    object_keep_first(o, bytes, sizeof(bytes));
    CHECK(o->states[0] == HERE && o->in_memory == 0 && reads_right(o, 5, 60000) && reads_right(o, 0, CACHE_BLOCK));
    CHECK_INT(o->states[0], HERE);
    blocks_give(taken[3]);
    put_block(o, 1);
    CHECK(o->in_memory == 1 && reads_right(o, 1000, 2 * CACHE_BLOCK)); /* one of each, up to the end */
    object_close(o);
    for (size_t i = 0; i < POOL; i++)
        blocks_give(i == 3 ? NULL : taken[i]);
    blocks_limit(0);
}

/* ---- Disks that are full: the rest of the process drops what was read from them ---- */

#define LARGE 200u /* blocks: more than the least pool keeps */

static void write_to_file(struct object *o, uint64_t offset, size_t length)
{
    static uint8_t bytes[CACHE_BLOCK];
    for (size_t i = 0; i < length; i++)
        bytes[i] = byte_at(offset + i);
    CHECK(pwrite(o->cache.fd, bytes, length, (off_t)offset) == (ssize_t)length);
}

/* As if the block had arrived and found no memory. */
static void put_in_file(struct object *o, size_t i)
{
    write_to_file(o, (uint64_t)i * CACHE_BLOCK, cache_block_bytes(&o->cache, i));
    atomic_store(&o->cache.sums[i], cache_sum(0));
}

/* An object that is read from front to back, of which nothing fits into memory or stays on the disk. */
static struct object *open_on_full_disk(const char *name)
{
    blocks_limit(1);
    struct object *o = open_private(name, LARGE);
    spare_note_full();
    if (o)
        object_expect_sequential(o);
    return o;
}

/* A block stays while a request writes its bytes once more, and may be dropped after it. */
static void blocks_that_are_written_again(void)
{
    struct object *o = open_on_full_disk("written");
    REQUIRE(o);
    struct part *p = begin_part(o, 4, 3, SOON);
    put_in_file(o, 5);
    object_mark(o, 5, 1, HERE);
    put_in_file(o, 4);
    write_to_file(o, 5 * CACHE_BLOCK, CACHE_BLOCK / 2);
    CHECK(reads_right(o, 5 * CACHE_BLOCK, CACHE_BLOCK));
    CHECK_INT(o->states[5], HERE);
    write_to_file(o, 5 * CACHE_BLOCK + CACHE_BLOCK / 2, CACHE_BLOCK / 2);
    put_in_file(o, 6);
    part_show(p, 2);
    CHECK(reads_right(o, 4 * CACHE_BLOCK + 1, CACHE_BLOCK));
    CHECK(reads_right(o, 5 * CACHE_BLOCK, CACHE_BLOCK)); /* the request is past it */
    CHECK_INT(o->states[5], PASSED);
    part_show(p, 1);
    part_finish(p, PST_OK, NULL);
    CHECK(reads_right(o, 6 * CACHE_BLOCK, CACHE_BLOCK));
    CHECK_INT(o->states[6], PASSED);
    object_close(o);
    blocks_limit(0);
}

/* Both processes have the private file: neither drops what the other one may still read. */
static void blocks_of_two_processes(void)
{
    struct object *o = open_on_full_disk("forked");
    REQUIRE(o);
    struct wish w = {.first = 7, .end = 9};
    int status = 0;
    for (size_t i = 7; i < 9; i++) {
        put_in_file(o, i);
        object_mark(o, i, 1, HERE);
    }
    o->wishes = &w; /* of a thread that stays with the parent */
    pid_t child = fork();
    if (child == 0)
        _exit(!o->wishes && reads_right(o, 7 * CACHE_BLOCK, CACHE_BLOCK) && o->states[7] == HERE ? 0 : 1);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(o->wishes == &w);
    o->wishes = NULL;
    CHECK(reads_right(o, 7 * CACHE_BLOCK, 2 * CACHE_BLOCK));
    CHECK_INT(o->states[8], HERE);
    object_close(o);
    blocks_limit(0);
}

/* Takes all memory of the least pool. */
static void take_all(uint8_t *taken[256])
{
    blocks_limit(1);
    for (size_t i = 0; i < 256; i++)
        CHECK((taken[i] = blocks_take()) != NULL);
}

static void give_all(uint8_t *taken[256])
{
    for (size_t i = 0; i < 256; i++)
        blocks_give(taken[i]);
    blocks_limit(0);
}

/* Blocks that a thread is about to read make no room for others. */
static void blocks_that_can_be_spared(void)
{
    uint8_t *taken[256];
    take_all(taken);
    struct object *o = open_private("spared", 20);
    REQUIRE(o);
    for (size_t i = 0; i < 20; i++) {
        object_mark(o, i, 1, COMING);
        object_attach(o, i, &taken[i], true);
        object_mark(o, i, 1, HERE);
    }
    CHECK(spare_has(20) && !spare_has(21));
    struct wish w = {.first = 2, .end = 18};
    o->wishes = &w;
    o->memory[1].readers = 1;
    CHECK(spare_has(3) && !spare_has(4));
    o->wishes = NULL;
    o->memory[1].readers = 0;
    object_close(o);
    give_all(taken);
}

static bool is_asked_for(struct object *o)
{
    bool asked = false;
    for (unsigned i = 0; i < 3000 && !asked; i++) {
        pthread_mutex_lock(&o->lock);
        asked = o->states[0] == COMING || o->failures;
        pthread_mutex_unlock(&o->lock);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return asked;
}

/* An object that finds no memory does not keep others from being filled that lie in a cache. It goes on when memory is given back. */
static void objects_that_find_no_memory(void)
{
    uint8_t *taken[256];
    take_all(taken);
    struct object *o = open_private("waits", 8), *other = open_private("ends", LARGE), *cached = open_object("filled", MOST);
    REQUIRE(o && other && cached);
    spare_note_full();
    for (size_t i = 0; i < LARGE; i++) {
        object_mark(other, i, 1, COMING);
        object_attach(other, i, &taken[i], false);
        object_mark(other, i, 1, HERE);
    }
    object_expect(o, 0, 8 * CACHE_BLOCK);
    object_expect(cached, 0, 8 * CACHE_BLOCK);
    CHECK(is_asked_for(cached));
    CHECK_INT(o->states[0], ABSENT);
    object_close(cached);
    object_close(other);
    CHECK(is_asked_for(o));
    object_close(o);
    give_all(taken);
}

/* What has to be mapped moves to memory; the private copy stays where requests under way write to it. */
static void mapped_copies(void)
{
    struct object *o = open_private("moved", 3);
    REQUIRE(o);
    static uint8_t bytes[CACHE_BLOCK];
    pst_error e;
    REQUIRE_OK(cache_open(&o->own, NULL, o->path, &o->facts, &e), &e);
    struct cache before = o->own;
    int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    CHECK(full >= 0 && dup2(full, o->own.fd) >= 0);
    close(full);
    for (size_t i = 0; i < 3; i++)
        put_block(o, i);
    REQUIRE_OK(object_need_mapped(o, object_size(o), &e), &e);
    CHECK(o->own.fd == before.fd && o->own.sums == before.sums);
    CHECK(object_descriptor(o) != before.fd && object_descriptor(o) != o->cache.fd && o->in_memory == 0);
    for (size_t i = 0; i < 2; i++) {
        CHECK(pread(object_descriptor(o), bytes, sizeof(bytes), (off_t)(i * CACHE_BLOCK)) == (ssize_t)sizeof(bytes));
        CHECK_INT(bytes[i + 3], byte_at(i * CACHE_BLOCK + i + 3));
    }
    CHECK(reads_right(o, 9, 2 * CACHE_BLOCK));
    object_close(o);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"blocks_that_were_read", blocks_that_were_read},
        {"blocks_that_passed_meanwhile", blocks_that_passed_meanwhile},
        {"blocks_that_fit_no_more", blocks_that_fit_no_more},
        {"epochs_without_room", epochs_without_room},
        {"requests_with_gaps", requests_with_gaps},
        {"requests_that_are_aligned", requests_that_are_aligned},
        {"blocks_that_fit", blocks_that_fit},
        {"blocks_without_memory", blocks_without_memory},
        {"blocks_that_are_written_again", blocks_that_are_written_again},
        {"blocks_of_two_processes", blocks_of_two_processes},
        {"blocks_that_can_be_spared", blocks_that_can_be_spared},
        {"objects_that_find_no_memory", objects_that_find_no_memory},
        {"mapped_copies", mapped_copies},
        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
