/* hidden.c: see hidden.h. A few pages, one string each; longer strings, and those for which no page is left, have a mapping of their own. */
#include "io/remote/hidden.h"

#include "base/fault.h"
#include "io/remote/fork.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE  ((size_t)4096)
#define PAGES 64u

static struct {
    pthread_mutex_t lock;
    char *pages;
    uint64_t used; /* a bit for each */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

void hidden_fork(enum fork_phase phase)
{
    fork_lock(&pool.lock, phase);
}

static char *map(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, bytes, MADV_DONTDUMP); /* where the system cannot, the keys work all the same */
    return p;
}

static char *take_page(void)
{
    char *page = NULL;
    pthread_mutex_lock(&pool.lock);
    if (!pool.pages)
        pool.pages = map(PAGES * PAGE);
    if (pool.pages && ~pool.used) {
        unsigned i = (unsigned)__builtin_ctzll(~pool.used);
        pool.used |= UINT64_C(1) << i;
        page = pool.pages + i * PAGE;
    }
    pthread_mutex_unlock(&pool.lock);
    return page;
}

/* False: it is not one of the pages. */
static bool give_page(const char *s)
{
    pthread_mutex_lock(&pool.lock);
    uintptr_t offset = (uintptr_t)s - (uintptr_t)pool.pages;
    bool ours = pool.pages && offset < PAGES * PAGE;
    if (ours)
        pool.used &= ~(UINT64_C(1) << offset / PAGE);
    pthread_mutex_unlock(&pool.lock);
    return ours;
}

static size_t in_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

char *hidden_copy(const char *s, size_t n)
{
    n = strnlen(s, n);
    if (fault_hit(FAULT_MEMORY, "mmap"))
        return NULL;
    char *copy = n < PAGE ? take_page() : NULL;
    copy = copy ? copy : map(in_pages(n + 1));
    if (!copy)
        return NULL;
    memcpy(copy, s, n);
    copy[n] = 0;
    return copy;
}

void hidden_free(char *s)
{
    if (!s)
        return;
    size_t n = strlen(s);
    explicit_bzero(s, n);
    if (!give_page(s))
        munmap(s, in_pages(n + 1));
}
