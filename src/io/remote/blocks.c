/* blocks.c: see blocks.h. Memory comes from the system in large pieces; the block that was given back last is taken first. */
#include "io/remote/blocks.h"

#include "base/cpu.h"
#include "base/fault.h"
#include "io/remote/cache.h"

#include <sys/mman.h>

#define PIECE   ((size_t)16 << 20)
#define PIECES  4096u
#define SHARE   8u /* a pool has this part of the available memory… */
#define DEFAULT ((uint64_t)512 << 20) /* …but no more than this */

struct free_block { /* lies in the block itself */
    struct free_block *next;
};

static struct {
    pthread_mutex_t lock;
    struct free_block *free;
    uint8_t *pieces[PIECES];
    size_t piece_count;
    size_t most_pieces;              /* 0: not known yet */
    size_t fresh;                    /* bytes of the last piece that were never used */
    size_t used;                     /* blocks */
    int64_t expected;                /* bytes of open objects */
    uint64_t limit;                  /* as it was set; 0: it was not */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

void blocks_fork(enum fork_phase phase)
{
    fork_lock(&pool.lock, phase);
}

/* Locked. */
static size_t most_pieces(void)
{
    if (!pool.most_pieces) {
        uint64_t available = pool.limit ? 0 : cpu_memory_available() / SHARE;
        uint64_t n = (pool.limit ? pool.limit : available < DEFAULT ? available : DEFAULT) / PIECE;
        pool.most_pieces = n < 1 ? 1 : n < PIECES ? (size_t)n : PIECES;
    }
    return pool.most_pieces;
}

/* Has ordinary pages: the system has to clear large ones, which takes longer than they save, as the blocks are used again and again. Locked. */
static bool add_piece(void)
{
    if (pool.piece_count >= PIECES || fault_hit(FAULT_MEMORY, "mmap"))
        return false;
    uint8_t *piece = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (piece == MAP_FAILED)
        return false;
    pool.pieces[pool.piece_count++] = piece;
    pool.fresh = PIECE;
    return true;
}

/* Locked. */
static size_t room(void)
{
    size_t most = most_pieces() * (PIECE / CACHE_BLOCK);
    return most > pool.used ? most - pool.used : 0;
}

size_t blocks_room(void)
{
    pthread_mutex_lock(&pool.lock);
    size_t n = room();
    pthread_mutex_unlock(&pool.lock);
    return n;
}

static uint8_t *take(bool past_limit)
{
    uint8_t *block = NULL;
    pthread_mutex_lock(&pool.lock);
    if (!past_limit && !room()) {
        ; /* the free blocks were taken past the limit */
    } else if (pool.free) {
        block = (uint8_t *)pool.free;
        pool.free = pool.free->next;
    } else if (pool.fresh || add_piece()) {
        block = pool.pieces[pool.piece_count - 1] + (PIECE - pool.fresh);
        pool.fresh -= CACHE_BLOCK;
    }
    pool.used += block != NULL;
    pthread_mutex_unlock(&pool.lock);
    return block;
}

uint8_t *blocks_take(void)
{
    return take(false);
}

uint8_t *blocks_take_more(void)
{
    return take(true);
}

/* Gives the memory back to the system when no object is open. Locked. */
static void end_use(void)
{
    if (pool.used || pool.expected > 0)
        return;
    while (pool.piece_count)
        munmap(pool.pieces[--pool.piece_count], PIECE);
    pool.free = NULL;
    pool.fresh = pool.most_pieces = 0;
}

/* Locked. */
static void put(uint8_t *block)
{
    struct free_block *f = (struct free_block *)(void *)block;
    f->next = pool.free;
    pool.free = f;
    pool.used--;
    end_use();
}

void blocks_give(uint8_t *block)
{
    if (!block)
        return;
    pthread_mutex_lock(&pool.lock);
    put(block);
    pthread_mutex_unlock(&pool.lock);
}

void blocks_give_forked(uint8_t *block)
{
    if (block)
        put(block);
}

void blocks_expect(int64_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    pool.expected += bytes;
    end_use();
    pthread_mutex_unlock(&pool.lock);
}

/* Locked. */
static uint64_t kept_bytes(void)
{
    return most_pieces() * PIECE / 4 * 3;
}

uint64_t blocks_kept_bytes(void)
{
    fork_watch();
    pthread_mutex_lock(&pool.lock);
    uint64_t bytes = kept_bytes();
    pthread_mutex_unlock(&pool.lock);
    return bytes;
}

uint64_t blocks_most_bytes(void)
{
    fork_watch();
    pthread_mutex_lock(&pool.lock);
    uint64_t bytes = most_pieces() * PIECE;
    pthread_mutex_unlock(&pool.lock);
    return bytes;
}

bool blocks_keep(void)
{
    pthread_mutex_lock(&pool.lock);
    bool keep = pool.expected <= (int64_t)kept_bytes();
    pthread_mutex_unlock(&pool.lock);
    return keep;
}

void blocks_limit(uint64_t bytes)
{
    pthread_mutex_lock(&pool.lock);
    pool.limit = bytes;
    pool.most_pieces = 0;
    pthread_mutex_unlock(&pool.lock);
}
