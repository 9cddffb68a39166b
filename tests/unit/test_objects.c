/* test_objects.c: requests for blocks of remote objects, the room and the claims of a cache, forks, and the tuning of requests, without a server. */
#include "object_fixture.h"

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/memory.h"
#include "io/remote/blocks.h"
#include "io/remote/settings.h"
#include "io/remote/tuner.h"
#include "io/stop.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A second request whose first one has failed is dropped from the queue: its blocks can be asked for again, and their room is free. */
static void dropped_twins(void)
{
    struct object *o = open_object("dropped", MOST);
    REQUIRE(o);
    struct part *p = part_make(o, 0, 8, NOW);
    object_mark(o, 0, 8, COMING);
    o->refs++; /* it is looked at after it was left */
    p->second = true;
    p->taken = cache_price(&o->cache, 0, 8);
    CHECK(room_take(&o->cache.room, p->taken) && !room_take(&o->cache.room, MOST / 2));
    test_fault_arm(FAULT_THREAD, 0, true);
    CHECK(!parts_add(p)); /* no thread: it stays in the queue */
    test_fault_clear();
    parts_leave(o);
    for (size_t i = 0; i < 8; i++)
        CHECK_INT(o->states[i], ABSENT);
    CHECK(room_take(&o->cache.room, MOST / 2));
    parts_release(o);
}

/* What a second request has inherited from a first one that failed is still there when it has begun. */
static void inherited_room(void)
{
    struct object *o = open_object("inherited", MOST);
    REQUIRE(o);
    struct part *p = part_make(o, 0, 8, NOW);
    pst_error e;
    p->second = true;
    p->taken = cache_price(&o->cache, 0, 8);
    atomic_store(&p->cancel, true);
    CHECK(room_take(&o->cache.room, p->taken));
    CHECK(part_bring(p, &e) < 0);
    CHECK_INT(p->taken, 8 * CACHE_BLOCK);
    part_give_room(p);
    CHECK(room_take(&o->cache.room, MOST / 2 + 8 * 4096));
    mem_free(p);
    object_close(o);
}

static void *need_all(void *o)
{
    pst_error e;
    CHECK_STATUS(object_need(o, 0, 8 * CACHE_BLOCK, &e), PST_OK, &e);
    return NULL;
}

static const char *find_map(const char *folder)
{
    static char path[4096];
    DIR *d = opendir(test_path(folder));
    path[0] = 0;
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (strstr(entry->d_name, ".map"))
            snprintf(path, sizeof(path), "%s/%s", test_path(folder), entry->d_name);
    if (d)
        closedir(d);
    return path;
}

/* A request that waits for another process gets no second one beside it, for which no room would have been taken. */
static void waiting_requests(void)
{
    struct object *o = open_object("waiting", MOST);
    REQUIRE(o);
    int other = open(find_map("waiting"), O_RDWR | O_CLOEXEC); /* its locks are those of another process */
    pthread_t reader;
    static uint8_t zeros[CACHE_BLOCK];
    CHECK(other >= 0 && room_lock(other, F_WRLCK, 64, 32, false) == 0);
    CHECK(pthread_create(&reader, NULL, need_all, o) == 0);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 700000000}, NULL);
    pthread_mutex_lock(&o->lock);
    CHECK_MSG(o->active && !o->active->next && !o->active->twin, "there is a second request");
    pthread_mutex_unlock(&o->lock);
    for (size_t i = 0; i < 8; i++) /* the other process has stored them: a sparse file is all zeros */
        atomic_store(&o->cache.sums[i], cache_sum(crc32c_extend(0, zeros, sizeof(zeros))));
    close(other);
    pthread_join(reader, NULL);
    object_close(o);
}

static const char *find_key(const char *folder)
{
    static char key[17];
    const char *map = find_map(folder), *slash = strrchr(map, '/');
    snprintf(key, sizeof(key), "%.16s", slash ? slash + 1 : "");
    return key;
}

/* A copy that a program removes gives its room to the processes that use the folder: to this one, and, if another one removes it, too. */
static void removed_copies(void)
{
    for (int other = 0; other < 2; other++) {
        char folder[4096], elsewhere[4096];
        pst_error e;
        bool removed = false;
        int status = 0;
        snprintf(folder, sizeof(folder), "%s", test_path(other ? "removed-by-another" : "removed"));
        snprintf(elsewhere, sizeof(elsewhere), "%s", test_path("elsewhere"));
        struct room room = {.folder = folder, .most = MOST};
        struct object *o = open_object(other ? "removed-by-another" : "removed", MOST);
        REQUIRE(o);
        uint8_t bytes[CACHE_BLOCK] = {1};
        object_keep_first(o, bytes, sizeof(bytes));
        object_close(o);
        while (room_take(&room, 4096))
            ;
        const char *key = find_key(other ? "removed-by-another" : "removed");
        pid_t child = other ? fork() : -1;
        if (child == 0) {
            (void)room_take(&(struct room){.folder = elsewhere, .most = MOST}, 1); /* it has looked at another folder */
            _exit(pst_store_cache_remove(folder, key, &removed, &e) == PST_OK && removed ? 0 : 1);
        }
        if (other)
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        else
            CHECK(CHECK_STATUS(pst_store_cache_remove(folder, key, &removed, &e), PST_OK, &e) && removed);
        CHECK(room_take(&room, CACHE_BLOCK));
        CHECK(!room_take(&room, MOST / 2));
    }
}

/* What a process has claimed, and the copies that it uses, are free when it has ended, though a child that it forked lives on; the child holds what it uses. */
static void claims_of_the_dead(void)
{
    int pipes[2], status = 0;
    char byte = 0;
    (void)test_path("claims"); /* one folder for all of them */
    REQUIRE(pipe(pipes) == 0);
    pid_t parent = fork();
    if (parent == 0) {
        struct object *o = open_object("claims", MOST);
        bool ok = o && cache_claim(&o->cache, 0, 8);
        pid_t child = ok ? fork() : -1;
        if (child == 0) { /* lives until the test has looked */
            close(pipes[1]);
            (void)read(pipes[0], &byte, 1);
            _exit(0);
        }
        _exit(child > 0 ? 0 : 1);
    }
    close(pipes[0]);
    CHECK(waitpid(parent, &status, 0) == parent && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct object *o = open_object("claims", MOST);
    REQUIRE(o);
    CHECK_MSG(cache_claim(&o->cache, 0, 8), "the claim outlives its process");
    cache_release(&o->cache, 0, 8);
    object_close(o);
    int map = open(find_map("claims"), O_RDWR | O_CLOEXEC);
    CHECK_MSG(map >= 0 && room_lock(map, F_WRLCK, 16, 16, false) < 0, "the child does not hold its copy");
    close(pipes[1]);
    close(map);
}

static _Atomic bool locking_ends;

static void *keep_locking(void *unused)
{
    (void)unused;
    while (!atomic_load(&locking_ends)) {
        struct room room;
        pst_store_stop(NULL, NULL);
        settings_cache(&room);
        mem_free(room.folder);
        blocks_expect(0);
    }
    return NULL;
}

static bool asks_for_nothing(void *unused)
{
    (void)unused;
    return false;
}

/* A child finds every lock free, whatever the threads of its parent were doing. */
static void forks_at_any_time(void)
{
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, keep_locking, NULL) == 0);
    for (int i = 0; i < 300; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            struct room room;
            alarm(60); /* only a child that hangs sees its end */
            pst_store_stop(asks_for_nothing, NULL);
            settings_cache(&room);
            _exit(stop_process_asked() || blocks_most_bytes() == 0);
        }
        if (!CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0))
            break;
    }
    atomic_store(&locking_ends, true);
    pthread_join(thread, NULL);
}

/* Returns whether the object's next block is, or will be, fetched ahead: a thread of another test may have taken it. Called with the lock of `filling`. */
static bool is_fetched(struct object *o, void *wanted)
{
    pthread_mutex_lock(&o->lock);
    bool found = o == wanted && (o->filling || o->states[0] == COMING);
    pthread_mutex_unlock(&o->lock);
    return found;
}

/* An object that is opened again while a request of its last user ends: what that one does not bring is fetched ahead. */
static void reopened_objects(void)
{
    struct object *o = open_object("reopened", MOST);
    REQUIRE(o);
    pst_error e = {.status = PST_ECANCELLED};
    struct part *p = begin_part(o, 0, 8, SOMETIME);
    o->until = 8;
    atomic_store(&o->all, true);
    test_fault_arm(FAULT_THREAD, 0, true);
    part_finish(p, PST_ECANCELLED, &e);
    test_fault_clear();
    CHECK(parts_visit(is_fetched, o));
    pthread_mutex_lock(&o->lock);
    CHECK_INT(o->failures, 0);
    pthread_mutex_unlock(&o->lock);
    object_close(o);
}

/* Who waits for a block that another request loses is not told why a third one failed: it asks again. */
static void errors_of_others(void)
{
    struct object *o = open_object("others", MOST);
    REQUIRE(o);
    pst_error e = {.status = PST_EIO, .message = "of the others"};
    struct part *p = begin_part(o, 0, 8, SOON);
    pthread_t reader;
    bool asked = false;
    CHECK(pthread_create(&reader, NULL, need_all, o) == 0);
    test_wait_until_idle(); /* it waits for `p` */
    part_finish(begin_part(o, 4, 1, SOON), PST_EIO, &e);
    pthread_mutex_lock(&o->lock);
    CHECK(o->failures == 1 && o->states[0] == COMING);
    object_mark(o, 1, 7, HERE);
    pthread_mutex_unlock(&o->lock);
    part_finish(p, PST_ECANCELLED, &e);
    for (unsigned i = 0; i < 3000 && !asked; i++) {
        pthread_mutex_lock(&o->lock);
        asked = o->states[0] == COMING;
        pthread_mutex_unlock(&o->lock);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    CHECK(asked);
    pthread_mutex_lock(&o->lock);
    object_mark(o, 0, 1, HERE);
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    pthread_join(reader, NULL);
    object_close(o);
}

static void *take_much(void *folder)
{
    struct room room = {.folder = folder, .most = MOST};
    static bool taken;
    taken = room_take(&room, MOST / 4);
    return &taken;
}

/* The process that counts the folder is killed while others wait for it: one of them counts. */
static void interrupted_count(void)
{
    static uint8_t bytes[MOST];
    char folder[4096], path[4200];
    pthread_t waiter;
    void *taken;
    snprintf(folder, sizeof(folder), "%s", test_path("counted"));
    CHECK(mkdir(folder, 0700) == 0);
    memset(bytes, 1, sizeof(bytes));
    snprintf(path, sizeof(path), "%s/x.data", folder);
    test_write_file(path, bytes, sizeof(bytes));
    snprintf(path, sizeof(path), "%s/room", folder);
    int other = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(other >= 0 && room_lock(other, F_WRLCK, 0, 1, false) == 0);
    CHECK(pthread_create(&waiter, NULL, take_much, folder) == 0);
    test_wait_until_idle();
    close(other); /* without having counted */
    CHECK(pthread_join(waiter, &taken) == 0 && !*(bool *)taken);
}

/* ---- Tuning ---- */

/* The connections that a store gets which brings `each` bytes per second over one of them, and `all` over any number. */
static unsigned tuned(double each, double whole, unsigned most)
{
    struct tuner t = {0};
    double bytes = 0;
    unsigned n = TUNER_LEAST;
    for (uint64_t now = 1; now < 60; now++) {
        double rate = n * each < whole ? n * each : whole;
        bytes += rate / 2;
        n = tuner_step(&t, now * 500000000, (uint64_t)bytes, true, most);
    }
    return n;
}

/* Connections are added while they bring more, within bounds, and not while there is nothing to fetch. */
static void tuned_connections(void)
{
    struct tuner idle = {0};
    CHECK(tuned(100e6, 400e6, TUNER_MOST) == 8); /* four of them would do */
    CHECK(tuned(10e6, 105e6, TUNER_MOST) == 12);
    CHECK(tuned(10e6, 1e9, TUNER_MOST) == TUNER_MOST);
    CHECK(tuned(10e6, 1e9, 16) == 16 && tuned(10e6, 1e9, TUNER_LEAST) == TUNER_LEAST);
    for (uint64_t now = 1; now < 20; now++)
        CHECK(tuner_step(&idle, now * 1000000000, now * 1000000, now % 2 == 0, TUNER_MOST) == TUNER_LEAST);
}

/* The size of requests after 40 of them, each of whose bytes arrive at `each` per second; every fifth one was queued at the server for a second. */
static uint64_t tuned_size(double latency, double each)
{
    struct tuner t = {0};
    for (int i = 0; i < 40; i++)
        tuner_note(&t, latency + (i % 5 == 0), (double)TUNER_PART / each, TUNER_PART);
    return tuner_part(&t) >> 20;
}

/* Requests are so large that their latency hardly matters, and as many as there are connections take half of the memory. */
static void tuned_requests(void)
{
    struct tuner t = {0};
    CHECK_INT(tuner_part(&t), TUNER_PART);
    CHECK_INT(tuned_size(0.0005, 1e9), 8); /* the same machine */
    CHECK_INT(tuned_size(0.03, 12e6), 8);
    CHECK_INT(tuned_size(0.03, 80e6), 32); /* 17 MB */
    CHECK_INT(tuned_size(0.1, 20e6), 16);
    CHECK_INT(tuned_size(1, 100e6), 32);
    for (int i = 0; i < 8; i++) /* small ones show the latency, and no rate */
        tuner_note(&t, 0.2, 1e-6, 65536);
    CHECK_INT(tuner_part(&t), TUNER_PART);
    tuner_note(&t, 0.2, 0.5, 8 << 20);
    CHECK_INT(tuner_part(&t) >> 20, 32);
    for (int i = 0; i < 8; i++) /* the server came nearer */
        tuner_note(&t, 0.001, 0.5, 8 << 20);
    CHECK_INT(tuner_part(&t), TUNER_PART);
    for (int i = 0; i < 33; i++) /* and went away again */
        tuner_note(&t, 0.2, 0.5, 8 << 20);
    CHECK_INT(tuner_part(&t) >> 20, 32);
    CHECK_INT(tuner_part_within(32 << 20, 8, 512 << 20) >> 20, 32);
    CHECK_INT(tuner_part_within(32 << 20, 12, 512 << 20) >> 20, 16);
    CHECK_INT(tuner_part_within(TUNER_PART, 8, 16 << 20) >> 20, 1);
    CHECK_INT(tuner_part_within(TUNER_PART, 32, 16 << 20) >> 20, 1);
}

/* Requests for a cache of little room are shorter: the first of 32 MiB would have the object leave it for good. */
static void requests_within_the_room(void)
{
    static const uint64_t mosts[] = {(uint64_t)24 << 20, (uint64_t)128 << 20, ROOM_UNLIMITED};
    static const unsigned sizes[] = {2, 16, 32}; /* MiB */
    for (int i = 0; i < 33; i++)
        parts_note(0.2, 0.5, 8 << 20);
    CHECK_INT(parts_blocks(false) * CACHE_BLOCK >> 20, 32);
    for (size_t i = 0; i < 3; i++) {
        struct room room = {.folder = (char *)(uintptr_t)test_path("little"), .most = mosts[i]};
        struct store_facts facts = {.known = true, .size = (uint64_t)64 << 20, .etag = "\"e\""};
        struct object *o = NULL;
        char path[64];
        pst_error e;
        snprintf(path, sizeof(path), "http://127.0.0.1:9/little/%zu", i);
        REQUIRE_OK(object_open(&o, path, &facts, &room, &e), &e);
        CHECK(o->memory == NULL);
        struct part *p = object_ask_once(o, 0, o->cache.blocks, SOMETIME);
        REQUIRE(p);
        CHECK_INT(p->count * CACHE_BLOCK >> 20, sizes[i]);
        mem_free(p);
        object_close(o);
    }
    for (int i = 0; i < 33; i++) /* as before */
        parts_note(0.001, 0.5, 8 << 20);
    CHECK_INT(parts_blocks(false) * CACHE_BLOCK, TUNER_PART);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"dropped_twins", dropped_twins},
        {"inherited_room", inherited_room},
        {"waiting_requests", waiting_requests},
        {"removed_copies", removed_copies},
        {"claims_of_the_dead", claims_of_the_dead},
        {"forks_at_any_time", forks_at_any_time},
        {"reopened_objects", reopened_objects},
        {"errors_of_others", errors_of_others},
        {"interrupted_count", interrupted_count},
        {"tuned_connections", tuned_connections},
        {"tuned_requests", tuned_requests},
        {"requests_within_the_room", requests_within_the_room},
        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
