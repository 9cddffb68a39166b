/* test_source_guard.c: files that are cut short or written to while they are mapped. Nothing that was lost is delivered, the
 * error names the file, and the process lives. */
#include "source_shards.h"

#include "io/file.h"
#include "io/mapping.h"
#include "record/frame.h"
#include "record/index.h"

#include <fcntl.h>
#include <penstock/pipeline.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The guard itself ---- */

static sigjmp_buf way_back;

static void take_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
    siglongjmp(way_back, 1);
}

static struct mapping map_file(const char *path, size_t length)
{
    struct mapping m = {0};
    pst_error error;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_STATUS(mapping_open(&m, fd, path, length, &error), PST_OK, &error);
    close(fd);
    return m;
}

static void write_letters(const char *path, size_t length)
{
    char *letters = malloc(length);
    memset(letters, 'x', length);
    test_write_file(path, letters, length);
    free(letters);
}

static void test_zeros(void)
{
    pst_error error;
    const char *path = test_path("letters");
    REQUIRE_OK(pst_guard_install(&error), &error);
    REQUIRE_OK(pst_guard_install(&error), &error);
    write_letters(path, 40000);
    struct mapping m = map_file(path, 40000), other = map_file(path, 4000);
    REQUIRE(truncate(path, 5000) == 0);
    CHECK(m.data[4999] == 'x' && !mapping_broken(&m));
    CHECK(*(volatile const uint8_t *)&m.data[20000] == 0);
    CHECK(mapping_broken(&m) && !mapping_broken(&other));
    CHECK(m.data[39999] == 0 && m.data[4999] == 'x');
    CHECK_STATUS(mapping_fail(&m, path, 3, 20000, &error), PST_ESTALE, &error);
    CHECK_STR(error.path, path);
    CHECK_INT(error.record, 3);
    mapping_close(&m);
    mapping_close(&other);
    for (int i = 0; i < 70000; i++) { /* more than there are slots: they are used again, and are whole then */
        m = map_file(path, 5000);
        if (!CHECK(m.slot && !mapping_broken(&m)))
            break;
        mapping_close(&m);
    }
}

/* ---- Other handlers: each in a process of its own, before the guard is installed here ---- */

static void be_quiet(void)
{
    struct rlimit none = {0};
    setrlimit(RLIMIT_CORE, &none);
}

/* Runs `body` in a child with `first` as its handler of SIGBUS, then the guard. Returns the status of waitpid. */
static int in_child(void (*body)(void), void (*first)(int))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        be_quiet();
        signal(SIGBUS, first);
        if (pst_guard_install(NULL) < 0)
            test_exit(3);
        body();
        test_exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static struct sigaction guard; /* of the child */

/* As Python's faulthandler does it. */
static void restore_and_raise(int number)
{
    sigaction(number, &guard, NULL);
    raise(number);
}

static void read_lost_page(void)
{
    const char *path = test_path("child");
    write_letters(path, 40000);
    struct mapping m = map_file(path, 40000);
    if (truncate(path, 100) < 0 || *(volatile const uint8_t *)&m.data[20000] != 0 || !mapping_broken(&m))
        test_exit(4);
    mapping_close(&m);
}

static void read_lost_page_twice(void)
{
    struct sigaction later = {.sa_handler = restore_and_raise};
    sigaction(SIGBUS, &later, &guard);
    read_lost_page();
    sigaction(SIGBUS, &later, &guard);
    read_lost_page();
}

/* The first is taken for a handler that repeats a fault; the second ends the process. */
static void raise_twice(void)
{
    read_lost_page_twice();
    raise(SIGBUS);
    raise(SIGBUS);
}

static void read_foreign_page(void)
{
    const char *path = test_path("foreign child");
    struct sigaction later = {.sa_handler = restore_and_raise};
    write_letters(path, 40000);
    struct mapping m = map_file(path, 40000);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    volatile char *mine = mmap(NULL, 40000, PROT_READ, MAP_PRIVATE, fd, 0);
    sigaction(SIGBUS, &later, &guard);
    mapping_close(&m);
    m = map_file(path, 40000);
    if (truncate(path, 100) < 0 || mine[30000] == 'x')
        test_exit(4);
}

static void send_signal(void)
{
    kill(getpid(), SIGBUS);
}

static void test_other_handlers(void)
{
    int status = in_child(read_lost_page, SIG_DFL);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = in_child(read_lost_page_twice, SIG_DFL);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = in_child(raise_twice, SIG_DFL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = in_child(read_foreign_page, SIG_DFL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = in_child(send_signal, SIG_IGN); /* ignored before, ignored now */
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    status = in_child(read_foreign_page, SIG_IGN); /* but a fault cannot be ignored */
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    status = in_child(send_signal, SIG_DFL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/* A fault that is not ours goes to the handler that was there before. */
static void test_chain(void)
{
    pst_error error;
    const char *path = test_path("foreign");
    REQUIRE_OK(pst_guard_install(&error), &error);
    write_letters(path, 40000);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *mine = mmap(NULL, 40000, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    REQUIRE(mine != MAP_FAILED && truncate(path, 100) == 0);
    bool caught = sigsetjmp(way_back, 1);
    if (!caught) {
        char c = *(volatile char *)&mine[30000];
        CHECK_MSG(false, "read %d where there is nothing", c);
    }
    CHECK(caught);
    munmap(mine, 40000);
}

/* ---- Pipelines ---- */

/* Delivers batches until the end or an error; `cut` is done after the first. Every record that comes is the one that is due. */
static pst_status run_and_cut(const char *text, void (*cut)(const char *path), const char *path, uint64_t records,
                              pst_error *error)
{
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    uint64_t at = 0;
    pst_pipeline_options options = {.size = sizeof(options), .workers = 2};
    pst_status st = pst_pipeline_parse(&p, text, &options, error);
    while (st == PST_OK && at < 100 * records) {
        st = pst_pipeline_next(p, &batch, error);
        if (st != PST_OK)
            break;
        const pst_bytes *values = pst_batch_get(batch, "record")->data;
        for (size_t i = 0; i < pst_batch_size(batch); i++)
            CHECK_MSG(is_record(values[i], (at + i) % records), "element %d is not what was written", (int)(at + i));
        if (at == 0)
            cut(path);
        at += pst_batch_size(batch);
        batch = pst_batch_unref(batch);
    }
    pst_pipeline_destroy(p);
    return st;
}

static void cut_to_page(const char *path)
{
    if (truncate(path, 8192) < 0)
        abort();
}

static void test_pipeline(void)
{
    pst_error error;
    REQUIRE_OK(pst_guard_install(&error), &error);
    for (int i = 0; i < 24; i++) {
        char text[512], path[256];
        snprintf(path, sizeof(path), "%s", test_path("run.tfrecord"));
        unlink(path);
        write_shard(path, 0, 200, PST_COMPRESSION_NONE);
        snprintf(text, sizeof(text), "tfrecord %s io=%s | repeat | batch 8", path, ios[i % 2]);
        CHECK_STATUS(run_and_cut(text, cut_to_page, path, 200, &error), PST_ESTALE, &error);
        CHECK_STR(error.path, path);
    }
}

/* ---- Indexes ---- */

#define MANY 5000 /* records: their index is more than what is copied in any case */

static const char *write_many(const char *name)
{
    pst_writer *w;
    pst_error error;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .overwrite = true};
    const char *path = test_path(name);
    if (pst_writer_open(&w, path, &options, &error) < 0)
        abort();
    for (uint64_t i = 0; i < MANY; i++)
        if (pst_writer_write(w, &i, sizeof(i), &error) < 0)
            abort();
    if (pst_writer_commit(w, &error) < 0)
        abort();
    pst_writer_close(w);
    return path;
}

static bool is_number(struct opened *o, uint64_t i)
{
    pst_bytes b = opened_bytes(o, "record");
    return b.length == sizeof(i) && memcmp(b.data, &i, sizeof(i)) == 0;
}

/* Writes over the second half of the index' entries, or cuts it there. */
static void spoil_index(const char *path, const struct index_entry *with)
{
    char index[512];
    snprintf(index, sizeof(index), "%s.pidx", path);
    if (!with) {
        if (truncate(index, MANY / 2 * 16) < 0)
            abort();
        return;
    }
    int fd = open(index, O_WRONLY | O_CLOEXEC);
    for (uint64_t i = MANY / 2; i < MANY; i++)
        if (pwrite(fd, with, sizeof(*with), (off_t)(128 + i * sizeof(*with))) != sizeof(*with))
            abort();
    close(fd);
}

static void test_index(void)
{
    static const struct index_entry wrong[] = {
        {UINT64_C(1) << 50, 8}, {0, UINT64_C(1) << 29}, {UINT64_MAX - 4, 8}, {0, UINT64_MAX}, {24, 8}};
    pst_error error;
    REQUIRE_OK(pst_guard_install(&error), &error);
    for (size_t k = 0; k < IOS; k++) {
        for (size_t w = 0; w <= sizeof(wrong) / sizeof(wrong[0]); w++) {
            struct opened o;
            const char *path = write_many("many.tfrecord");
            struct source_setup s = setup_for(&path, ios[k]);
            setup_text(&s, "max_record", w % 2 ? "18446744073709551615" : "1G");
            REQUIRE_OK(opened_open(&o, &s, &error), &error);
            spoil_index(path, w ? &wrong[w - 1] : NULL);
            uint64_t index[] = {MANY - 5, 3, MANY - 4};
            opened_ahead(&o, index, 3);
            for (size_t i = 0; i < 3; i++) {
                pst_status st = opened_load(&o, index[i], &error);
                if (mapping_any_broken() && o.class->intact(o.source, index[i], &error) < 0)
                    st = PST_ESTALE;
                if (strcmp(ios[k], "map") != 0 && CHECK_STATUS(st, PST_OK, &error))
                    CHECK(is_number(&o, index[i]));
                else if (strcmp(ios[k], "map") == 0 && w < 5 && index[i] != 3)
                    CHECK_STATUS(st, PST_ESTALE, &error);
            }
            opened_close(&o);
        }
    }
}

/* A long JPEG section stays mapped, the entries do not; cut, the section is an error and not a crash. */
static void test_jpeg_section(void)
{
    pst_error error;
    struct index x = {.shard_bytes = 24, .count = 1}, opened;
    struct index_entry entry = {0, 8};
    uint8_t *section = calloc(1, 200000);
    const char *path = test_path("long.pidx");
    REQUIRE_OK(pst_guard_install(&error), &error);
    memset(section, 7, 200000);
    x.entries = &entry;
    x.jpegs = section;
    x.jpegs_length = 200000;
    x.note = "note";
    x.note_length = 4;
    for (int hold = INDEX_VIEWED; hold <= INDEX_MAPPED; hold++) {
        REQUIRE_OK(index_publish(path, &x, false, &error), &error);
        REQUIRE_OK(index_open_as(&opened, path, (enum index_hold)hold, &error), &error);
        CHECK((opened.mapping.data != NULL) == (hold != INDEX_COPIED));
        CHECK_INT(opened.jpegs_length, 200000);
        CHECK(memcmp(opened.jpegs, section, 200000) == 0 && memcmp(opened.note, "note", 4) == 0);
        CHECK_STATUS(index_check_sections(&opened, path, &error), PST_OK, &error);
        REQUIRE(truncate(path, 4096) == 0);
        CHECK_STATUS(index_check_sections(&opened, path, NULL) == PST_OK, hold == INDEX_COPIED, &error);
        CHECK_INT(opened.count, 1);
        CHECK_INT(opened.entries[0].length, 8);
        index_finish(&opened);
    }
    free(section);
}

/* ---- Arrays ---- */

static void put_array(const char *path)
{
    char bytes[128 + 40000] = "\x93NUMPY\x01\0v\0{'descr': '<i4', 'fortran_order': False, 'shape': (10000,), }";
    for (int32_t i = 0; i < 10000; i++)
        memcpy(bytes + 128 + 4 * i, &i, 4);
    size_t n = 10 + strlen(bytes + 10);
    memset(bytes + n, ' ', 127 - n);
    bytes[127] = '\n';
    test_write_file(path, bytes, sizeof(bytes));
}

static void test_array(void)
{
    static const char *const array_ios[] = {"auto", "map", "read"};
    pst_error error;
    REQUIRE_OK(pst_guard_install(&error), &error);
    for (size_t k = 0; k < 3; k++) {
        struct opened o;
        const char *path = test_path("x.npy");
        put_array(path);
        struct source_setup s = setup_make(&source_npy);
        setup_words(&s, "paths", &path, 1);
        setup_text(&s, "io", array_ios[k]);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        for (uint64_t i = 0; i < 10000; i += 1111) {
            REQUIRE_OK(opened_load(&o, i, &error), &error);
            CHECK_INT(*(const int32_t *)o.out[0].data, (int)i);
        }
        REQUIRE(truncate(path, 4096) == 0);
        pst_status st = opened_load(&o, 9000, &error);
        if (st == PST_OK) {
            CHECK(k < 2);
            CHECK_INT(*(volatile const int32_t *)o.out[0].data, 0);
            REQUIRE(mapping_any_broken());
            st = o.class->intact(o.source, 9000, &error);
        }
        CHECK_STATUS(st, PST_ESTALE, &error);
        CHECK_STR(error.path, path);
        opened_close(&o);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"beside handlers of the program", test_other_handlers},
        {"lost pages become zeros, and the mapping is broken", test_zeros},
        {"other faults go to the handler before", test_chain},
        {"a pipeline whose shard is cut", test_pipeline},
        {"an index that others write to", test_index},
        {"a long JPEG section", test_jpeg_section},
        {"an array that is cut", test_array},
        {NULL, NULL},
    };
    struct sigaction mine = {.sa_sigaction = take_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &mine, NULL);
    return test_main(argc, argv, tests);
}
