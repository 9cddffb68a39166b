/* mapping.c: mapped files, and the SIGBUS handler that a program may install for them.
 *
 * The handler finds the mapping in a fixed table without locks, marks it broken, and only then puts zero pages where the file
 * has none any more: a thread that reads zeros, whether it raised the signal or not, sees the mark afterwards. All pages up to
 * the end of the mapping are replaced at once, which takes one more entry of the system's table of mappings and no memory.
 *
 * Promises: nothing is installed unless the program asks for it; a fault elsewhere goes to the handler that was there before.
 */
#include "io/mapping.h"

#include "io/file.h"
#include "io/remote/object.h"
#include "io/remote/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 65536u /* about as many mappings as the system allows a process */

_Atomic uint32_t mapping_breaks;

static struct mapping_slot slots[SLOTS]; /* pages that are not used take no memory */
static _Atomic uint32_t next_slot;       /* where to look for a free one */
static _Atomic uint32_t used_slots;      /* later slots were never used */

/* ---- Mappings ---- */

static struct mapping_slot *take_slot(void)
{
    for (uint32_t tries = 0; tries < SLOTS; tries++) {
        uint32_t i = atomic_fetch_add_explicit(&next_slot, 1, memory_order_relaxed) % SLOTS;
        bool taken = false;
        if (!atomic_compare_exchange_strong(&slots[i].taken, &taken, true))
            continue;
        uint32_t used = atomic_load(&used_slots);
        while (used <= i && !atomic_compare_exchange_weak(&used_slots, &used, i + 1))
            ;
        atomic_store(&slots[i].broken, false);
        return &slots[i];
    }
    return NULL;
}

/* Called by the owner of the slot only. The handler ignores a slot whose version changes while it reads it. */
static void set_slot(struct mapping_slot *slot, uintptr_t begin, size_t length)
{
    atomic_fetch_add(&slot->version, 1);
    atomic_store(&slot->begin, begin);
    atomic_store(&slot->length, length);
    atomic_fetch_add(&slot->version, 1);
}

static void watch_handler(void);

pst_status mapping_open(struct mapping *ret, int fd, const char *path, size_t length, pst_error *reterr)
{
    struct object *remote = remote_of(fd);
    pst_error local;
    pst_status st = remote ? object_need_mapped(remote, length, reterr ? reterr : &local) : PST_OK;
    return st < 0 ? st : mapping_open_sparse(ret, fd, path, length, reterr);
}

pst_status mapping_open_sparse(struct mapping *ret, int fd, const char *path, size_t length, pst_error *reterr)
{
    struct mapping_slot *slot = take_slot();
    if (!slot)
        return file_fail(reterr, path, "mapping", ENOMEM);
    void *data = file_denied("mmap") ? MAP_FAILED : mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        pst_status st = file_fail(reterr, path, "mapping", errno);
        atomic_store(&slot->taken, false);
        return st;
    }
    set_slot(slot, (uintptr_t)data, length);
    watch_handler();
    *ret = (struct mapping){.data = data, .length = length, .slot = slot};
    return PST_OK;
}

void mapping_close(struct mapping *m)
{
    if (m->slot) {
        set_slot(m->slot, 0, 0);
        munmap((void *)(uintptr_t)m->data, m->length);
        atomic_store(&m->slot->taken, false);
    }
    *m = (struct mapping){0};
}

pst_status mapping_fail(const struct mapping *m, const char *path, uint64_t record, uint64_t offset, pst_error *reterr)
{
    struct file_info info;
    if (remote_is(path)) /* what the store has says nothing of the copy */
        return pst_fail_at(reterr, PST_EIO, path, record, offset,
                           "its local copy was cut short or could not be read: open it again, and what is missing is fetched; then check the storage of "
                           "the cache folder (without one: /tmp)");
    if (file_stat(path, &info, NULL) == PST_OK && info.size >= m->length)
        return pst_fail_at(reterr, PST_EIO, path, record, offset,
                           "a part of the mapped file could not be read; check the storage, or read it with io=read");
    return pst_fail_at(reterr, PST_ESTALE, path, record, offset,
                       "the file became shorter while it was read: it had %zu bytes when it was opened; open it again",
                       m->length);
}

/* ---- The guard ---- */

static struct sigaction before; /* written once, before the handler is in place */
static uintptr_t page_mask;
static _Atomic bool installed;
static _Atomic bool displaced;                  /* another handler was seen in place of this one */
static _Thread_local bool repeated              /* this thread was told to try its last access again */
    __attribute__((tls_model("initial-exec"))); /* exists before a handler asks for it */

/* The end of the mapping that holds the address, and its slot. NULL: there is none. */
static struct mapping_slot *find_slot(uintptr_t address, uintptr_t *ret_end)
{
    uint32_t used = atomic_load(&used_slots);
    for (uint32_t i = 0; i < used; i++) {
        uint32_t version = atomic_load(&slots[i].version);
        uintptr_t begin = atomic_load(&slots[i].begin);
        size_t length = atomic_load(&slots[i].length);
        bool torn = version % 2 || atomic_load(&slots[i].version) != version; /* it is not the faulting thread's, then */
        if (!torn && begin && address >= begin && address - begin < length) {
            *ret_end = begin + length;
            return &slots[i];
        }
    }
    return NULL;
}

static bool put_zeros(uintptr_t address)
{
    uintptr_t end, from = address & page_mask;
    struct mapping_slot *slot = find_slot(address, &end);
    if (!slot)
        return false;
    atomic_store(&slot->broken, true);
    atomic_fetch_add(&mapping_breaks, 1);
    /* The system call itself: nothing of the C library runs in a handler. Threads that read these pages meanwhile get the old bytes, a fault of
     * their own, or zeros, and the mapping is broken in each case; ThreadSanitizer would take mmap() for a write that they race with. */
    return syscall(SYS_mmap, from, end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != -1;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else if (before.sa_handler == SIG_DFL || info->si_code > 0) { /* the system does not let a process ignore a fault */
        struct sigaction plain;
        memset(&plain, 0, sizeof(plain));
        plain.sa_handler = SIG_DFL;
        sigaction(number, &plain, NULL);
        raise(number); /* pending until this handler returns */
    }
}

/* A handler that was installed after this one, such as that of Python's faulthandler, may put this one back and raise the
 * signal again, without the address. Then the access is tried once more: if it fails again, the signal comes here with its
 * address. */
static bool try_again(const siginfo_t *info)
{
    if (!displaced || repeated || info->si_code > 0 || info->si_pid != getpid())
        return false;
    repeated = true;
    return true;
}

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    int code = errno;
    if (info->si_code == BUS_ADRERR && put_zeros((uintptr_t)info->si_addr))
        repeated = false;
    else if (!try_again(info))
        pass_on(number, info, context);
    errno = code;
}

/* Called for every mapping. */
static void watch_handler(void)
{
    struct sigaction now;
    if (installed && !displaced && sigaction(SIGBUS, NULL, &now) == 0 &&
        !(now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_bus_error))
        displaced = true;
}

pst_status pst_guard_install(pst_error *reterr)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction action;
    int code = 0;
    memset(&action, 0, sizeof(action));
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&lock);
    page_mask = ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
    if (!installed && (sigaction(SIGBUS, NULL, &before) < 0 || sigaction(SIGBUS, &action, NULL) < 0))
        code = errno;
    if (code == 0)
        installed = true;
    pthread_mutex_unlock(&lock);
    return code ? file_fail(reterr, NULL, "installing the handler of SIGBUS", code) : PST_OK;
}
