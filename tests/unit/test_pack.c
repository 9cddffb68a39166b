/* test_pack.c: the machinery of pack: what is written does not depend on how it came to be written. */
#include "pack_fixture.h"

#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>

static const char *classes;

static void folder_is_packed(void)
{
    const char *out = test_path("basic");
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    o.shards = 3;
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    CHECK_INT(r->records, 36);
    CHECK_INT(r->classes, 4);
    CHECK_INT(r->splits, 1);
    CHECK_STR(r->split[0].name, "train");
    CHECK_INT(r->split[0].shards, 3);
    CHECK_INT(r->skips, 0);
    CHECK(!r->up_to_date);
    struct packed *p = packed_open(out, "train");
    CHECK_INT(p->count, 36);
    static const char *const names[] = {"ape", "bee", "cat", "dog"};
    for (size_t i = 0; i < p->count; i++) {
        char key[64], path[512];
        size_t length;
        pst_image_info info;
        snprintf(key, sizeof(key), "%s/%03zu.%s", names[i / 9], i % 9, i % 9 % 2 ? "png" : "jpg");
        snprintf(path, sizeof(path), "%s/%s", classes, key);
        uint8_t *data = test_read_file(path, &length);
        pst_bytes image = packed_bytes(p, i, "image");
        CHECK(image.length == length && memcmp(image.data, data, length) == 0);
        CHECK_MSG(packed_is(p, i, "key", key), "key of record %zu is not %s", i, key);
        CHECK_INT(packed_int(p, i, "label"), i / 9);
        REQUIRE_OK(pst_image_probe(data, length, &info, &e), &e);
        CHECK_INT(packed_int(p, i, "width"), info.width);
        CHECK_INT(packed_int(p, i, "height"), info.height);
        free(data);
    }
    packed_close(p);
    pst_pack_report_destroy(r);
    static const char *const files[] = {"dataset_info.json",
                                        "features.json",
                                        "labels.txt",
                                        "label.labels.txt",
                                        "pack.json",
                                        "set-train.tfrecord-00000-of-00003",
                                        "set-train.tfrecord-00002-of-00003.pidx"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", out, files[i]);
        CHECK_MSG(access(path, F_OK) == 0, "%s is missing", files[i]);
    }
}

/* An image whose Example has another length of its length than guessed: sizes below 128 pixels take one byte. Around
 * 128 and 16384 bytes the outermost length grows by one, and all of it moves. */
static void lengths_are_exact(void)
{
    const char *source = test_path("sizes"), *out = test_path("sizes-out");
    char path[512];
    pst_error e;
    pst_pack_options o = fast();
    make_folder(source);
    pst_bytes p = picture(4, 4, 1, PST_IMAGE_JPEG, 1);
    uint8_t *padded = calloc(1, 70000);
    memcpy(padded, p.data, p.length);
    size_t n = 0;
    for (size_t length = 16200; length < 16450; length++, n++) {
        snprintf(path, sizeof(path), "%s/%05zu.jpg", source, n);
        test_write_file(path, padded, length); /* what is behind the end marker does not matter to a header */
    }
    REQUIRE_OK(pack_one(source, out, &o, NULL, &e), &e);
    struct packed *packed = packed_open(out, "train");
    CHECK_INT(packed->count, n);
    for (size_t i = 0; i < packed->count; i++) {
        pst_bytes image = packed_bytes(packed, i, "image");
        CHECK_INT(image.length, 16200 + i);
        CHECK(image.data && memcmp(image.data, padded, image.length) == 0);
        CHECK_INT(packed_int(packed, i, "width"), 4);
    }
    packed_close(packed);
    pst_free((void *)(uintptr_t)p.data);
    free(padded);
}

static void output_does_not_depend_on_workers(void)
{
    static const unsigned workers[] = {1, 2, 3, 8};
    pst_error e;
    for (int variant = 0; variant < 5; variant++) {
        uint64_t hash = 0;
        for (size_t i = 0; i < 4; i++) {
            const char *out = test_path("workers");
            pst_pack_options o = fast();
            o.workers = workers[i];
            o.shards = variant == 1 ? 1 : 3;
            o.shuffle = variant > 0;
            o.seed = 7;
            o.split = variant % 2 ? "train=0.7,val=0.3" : NULL;
            o.compression = variant == 2 ? PST_COMPRESSION_GZIP : variant == 3 ? PST_COMPRESSION_ZSTD : PST_COMPRESSION_NONE;
            o.resize = variant == 4 ? "9" : NULL;
            o.augment = variant == 4 ? 2 : 0;
            REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
            uint64_t got = folder_hash(out);
            CHECK_MSG(i == 0 || got == hash, "variant %d with %u workers differs from one", variant, workers[i]);
            hash = got;
            remove_folder(out);
        }
    }
}

/* Shards of many chunks each, which workers frame and write in any order. */
static void many_chunks_keep_their_order(void)
{
    enum { LINES = 60000 };
    static const pst_compression compressions[] = {PST_COMPRESSION_NONE, PST_COMPRESSION_GZIP, PST_COMPRESSION_ZSTD};
    char source[512];
    pst_error e;
    snprintf(source, sizeof(source), "%s", test_path("lines.txt"));
    FILE *f = fopen(source, "w");
    for (int i = 0; i < LINES; i++)
        fprintf(f, "line %d\n", i);
    fclose(f);
    for (int variant = 0; variant < 6; variant++) {
        uint64_t hash = 0;
        for (unsigned workers = 1; workers <= 5; workers += 2) {
            const char *out = test_path("chunks");
            pst_pack_options o = fast();
            o.workers = workers;
            o.shards = variant < 3 ? 1 : 4;
            o.compression = compressions[variant % 3];
            REQUIRE_OK(pack_one(source, out, &o, NULL, &e), &e);
            uint64_t got = folder_hash(out);
            CHECK_MSG(workers == 1 || got == hash, "variant %d with %u workers differs from one", variant, workers);
            hash = got;
            if (workers == 5 && variant < 3) {
                char path[512];
                pst_reader *reader;
                pst_record record;
                int n = 0;
                snprintf(path, sizeof(path), "%s/set-train.tfrecord-00000-of-00001", out);
                REQUIRE_OK(pst_reader_open(&reader, path, NULL, &e), &e);
                for (; pst_reader_next(reader, &record, &e) == PST_OK; n++) {
                    char want[32];
                    int length = snprintf(want, sizeof(want), "line %d", n);
                    if (memcmp(record.data + record.length - length, want, (size_t)length))
                        break;
                }
                CHECK_INT(n, LINES);
                pst_reader_close(reader);
            }
            remove_folder(out);
        }
    }
}

/* Holds every worker at its `after`th call on storage until the caller has cancelled. */
static struct {
    pthread_t caller;
    _Atomic uint64_t calls;
    uint64_t after;
    _Atomic bool cancelled;
} hold;

/* Lets each worker open its first file at once and makes it wait before the others. */
static _Thread_local unsigned opened;

static bool slow_answer(void *user, enum fault_kind kind, const char *what)
{
    (void)user;
    if (kind == FAULT_IO && !pthread_equal(pthread_self(), hold.caller) && strcmp(what, "open") == 0 && opened++)
        usleep(50000);
    return false;
}

/* Two files make a chunk. The second of one chunk and the first of the next are bad: the latter is met first, the former
 * is told. */
static void first_bad_item_is_told(void)
{
    enum { BYTES = 600000 };
    const char *source = test_path("large"), *out = test_path("large-out");
    char path[512];
    pst_error e;
    pst_pack_options o = fast();
    uint8_t *data = calloc(1, BYTES);
    pst_bytes p = picture(5, 5, 3, PST_IMAGE_JPEG, 1);
    make_folder(source);
    for (int i = 0; i < 8; i++) {
        memcpy(data, p.data, p.length);
        if (i == 3 || i == 4)
            memset(data, 0, p.length);
        snprintf(path, sizeof(path), "%s/%d.jpg", source, i);
        test_write_file(path, data, BYTES);
    }
    o.workers = 4;
    hold.caller = pthread_self();
    fault_set(slow_answer, NULL);
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    fault_set(NULL, NULL);
    CHECK_MSG(strstr(e.path, "3.jpg"), "%s is told", e.path);
    pst_free((void *)(uintptr_t)p.data);
    free(data);
}

/* ---- Cancelling ---- */

static bool hold_answer(void *user, enum fault_kind kind, const char *what)
{
    (void)user, (void)what;
    if (kind != FAULT_IO || pthread_equal(pthread_self(), hold.caller))
        return false;
    if (hold.calls++ >= hold.after)
        while (!hold.cancelled)
            usleep(1000);
    return false;
}

static int cancel_when_held(void *user, const pst_progress *progress)
{
    (void)user, (void)progress;
    if (hold.calls <= hold.after)
        return 0;
    hold.cancelled = true;
    return 1;
}

static unsigned count_temporaries(const char *folder)
{
    DIR *d = opendir(folder);
    unsigned n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += strstr(e->d_name, ".tmp-") != NULL;
    if (d)
        closedir(d);
    return n;
}

static void cancelled_runs_go_on(void)
{
    const char *whole = test_path("whole"), *out = test_path("cancelled");
    pst_error e;
    for (int compressed = 0; compressed < 2; compressed++) {
        pst_pack_options o = fast();
        o.shards = 6;
        o.compression = compressed ? PST_COMPRESSION_GZIP : PST_COMPRESSION_NONE;
        REQUIRE_OK(pack_one(classes, whole, &o, NULL, &e), &e);
        uint64_t want = folder_hash(whole), resumed = 0;
        remove_folder(whole);
        for (uint64_t after = 0; after < 160; after += 40) {
            pst_pack_report *r;
            hold.caller = pthread_self();
            hold.calls = 0;
            hold.after = after;
            hold.cancelled = false;
            o.progress = cancel_when_held;
            uint64_t live = mem_live();
            fault_set(hold_answer, NULL);
            CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_ECANCELLED, &e);
            fault_set(NULL, NULL);
            CHECK_INT(mem_live(), live);
            CHECK_INT(count_temporaries(out), 0);
            o.progress = NULL;
            REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
            CHECK_INT(r->records, 36);
            resumed += r->resumed_shards;
            pst_pack_report_destroy(r);
            CHECK_MSG(folder_hash(out) == want, "cancelled at call %llu, the rerun differs", (unsigned long long)after);
            remove_folder(out);
        }
        CHECK(resumed > 0);
    }
}

static int cancel_at_once(void *user, const pst_progress *progress)
{
    (void)user, (void)progress;
    return 1;
}

static void cancelled_while_listing(void)
{
    const char *out = test_path("listing");
    pst_error e;
    pst_pack_options o = fast();
    o.progress = cancel_at_once;
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_ECANCELLED, &e);
    CHECK_MSG(access(out, F_OK) != 0, "an empty folder is left behind");
}

static int note_progress(void *user, const pst_progress *progress)
{
    *(pst_progress *)user = *progress;
    return 0;
}

static void progress_ends_with_the_total(void)
{
    const char *out = test_path("progress");
    pst_error e;
    pst_progress last = {0};
    pst_pack_options o = fast();
    o.progress = note_progress;
    o.user = &last;
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    CHECK_STR(last.stage, "packing");
    CHECK_INT(last.done, 36);
    CHECK_INT(last.total, 36);
    CHECK(last.bytes > 0);
}

/* ---- What is there already ---- */

static void same_command_is_up_to_date(void)
{
    const char *out = test_path("again");
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    o.shards = 2;
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    uint64_t want = folder_hash(out);
    o.workers = 3; /* not what the output depends on */
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    CHECK(r->up_to_date);
    CHECK_INT(r->records, 36);
    CHECK_INT(r->resumed_shards, 2);
    pst_pack_report_destroy(r);
    /* A shard that went missing, or lost its index, is made again. */
    char path[512];
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-00001-of-00002", out);
    unlink(path);
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    CHECK(!r->up_to_date);
    CHECK_INT(r->resumed_shards, 1);
    pst_pack_report_destroy(r);
    CHECK(folder_hash(out) == want);
    size_t length;
    uint8_t *data = test_read_file(path, &length);
    data[length / 2] ^= 1;
    test_write_file(path, data, length);
    free(data);
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    CHECK_MSG(folder_hash(out) == want, "a damaged shard is made again");
    strcat(path, ".pidx");
    unlink(path);
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    CHECK(folder_hash(out) == want);
}

static void other_command_is_refused(void)
{
    const char *out = test_path("other"), *fresh = test_path("fresh");
    char path[512];
    pst_error e;
    pst_pack_options o = fast();
    o.shards = 4;
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    uint64_t before = folder_hash(out);
    snprintf(path, sizeof(path), "%s/notes.md", out);
    write_text(path, "mine");
    o.shards = 3;
    o.resize = "8";
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK_MSG(strstr(e.message, "shards") && strstr(e.message, "force"), "%s", e.message);
    unlink(path);
    CHECK_MSG(folder_hash(out) == before, "a refusal changes nothing");
    write_text(path, "mine");
    o.force = true;
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    CHECK_MSG(access(path, F_OK) == 0, "force removes only what pack made");
    unlink(path);
    REQUIRE_OK(pack_one(classes, fresh, &o, NULL, &e), &e);
    CHECK(folder_hash(out) == folder_hash(fresh));
}

static void foreign_dataset_is_refused(void)
{
    const char *out = test_path("foreign");
    char path[512];
    pst_error e;
    pst_pack_options o = fast();
    make_folder(out);
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-00000-of-00001", out);
    write_text(path, "");
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK(access(path, F_OK) == 0);
    o.force = true;
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
}

/* A pack.json of somebody else's stays, even by force. */
static void foreign_state_is_kept(void)
{
    const char *out = test_path("own state");
    char path[512];
    pst_error e;
    pst_pack_options o = fast();
    make_folder(out);
    snprintf(path, sizeof(path), "%s/pack.json", out);
    write_text(path, "{\"name\": \"game pack\"}\n");
    uint64_t before = folder_hash(out);
    o.force = true;
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK_MSG(strstr(e.path, "pack.json") && strstr(e.message, "move it away"), "%s: %s", e.path, e.message);
    CHECK(folder_hash(out) == before);
}

/* Shards with the new name beside a dataset with another one are not taken over in silence. */
static void shards_of_both_names_count(void)
{
    const char *out = test_path("two names");
    char path[512], state[512];
    pst_error e;
    pst_pack_options o = fast();
    make_folder(out);
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-00000-of-00001", out);
    snprintf(state, sizeof(state), "%s/pack.json", out);
    write_text(path, "");
    write_text(state, "{\n    \"pack\": \"1\",\n    \"name\": \"older\"\n}\n");
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK(access(path, F_OK) == 0);
}

static void two_processes_do_not_meet(void)
{
    const char *out = test_path("locked");
    pst_error e;
    pst_pack_options o = fast();
    make_folder(out);
    int fd = open(out, O_RDONLY | O_DIRECTORY);
    REQUIRE(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK(strstr(e.message, "another process"));
    close(fd);
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
}

static void leftovers_are_swept(void)
{
    const char *out = test_path("swept");
    char path[512];
    pst_error e;
    pst_pack_options o = fast();
    make_folder(out);
    snprintf(path, sizeof(path), "%s/.set-train.tfrecord-00000-of-00001.tmp-999999999-0", out);
    write_text(path, "from a process that was killed");
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    CHECK_INT(count_temporaries(out), 0);
}

/* Replaces a file when a worker first touches storage: after it was listed, before it is read. */
static char changed_path[512];
static _Atomic bool changed;

static bool change_answer(void *user, enum fault_kind kind, const char *what)
{
    (void)user;
    if (kind == FAULT_IO && strcmp(what, "pread") == 0 && !atomic_exchange(&changed, true))
        write_text(changed_path, "shorter");
    return false;
}

static void changed_sources_are_noticed(void)
{
    const char *source = test_path("changing"), *out = test_path("changing-out");
    pst_error e;
    pst_pack_options o = fast();
    make_classes(source, 2, 3);
    snprintf(changed_path, sizeof(changed_path), "%s/bee/002.jpg", source);
    o.bad = "skip"; /* no policy covers this */
    o.workers = 1;
    changed = false;
    fault_set(change_answer, NULL);
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ESTALE, &e);
    fault_set(NULL, NULL);
    CHECK(strstr(e.path, "bee/002.jpg"));
    /* Between two runs it is another command's work, once there is something of it. */
    make_classes(source, 2, 3);
    REQUIRE_OK(pack_one(source, out, &o, NULL, &e), &e);
    make_classes(source, 2, 4);
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK_MSG(strstr(e.message, "items"), "%s", e.message);
}

int main(int argc, char **argv)
{
    classes = four_classes();
    return test_main(argc, argv,
                     (const struct test[]){
                         {"a folder of classes is packed", folder_is_packed},
                         {"lengths are exact where they grow", lengths_are_exact},
                         {"the output does not depend on the workers", output_does_not_depend_on_workers},
                         {"many chunks keep their order", many_chunks_keep_their_order},
                         {"the first bad item is told", first_bad_item_is_told},
                         {"cancelled runs go on", cancelled_runs_go_on},
                         {"cancelled while listing", cancelled_while_listing},
                         {"progress ends with the total", progress_ends_with_the_total},
                         {"the same command is up to date", same_command_is_up_to_date},
                         {"another command is refused", other_command_is_refused},
                         {"a foreign dataset is refused", foreign_dataset_is_refused},
                         {"a foreign state is kept", foreign_state_is_kept},
                         {"shards of both names count", shards_of_both_names_count},
                         {"two processes do not meet", two_processes_do_not_meet},
                         {"leftovers are swept", leftovers_are_swept},
                         {"changed sources are noticed", changed_sources_are_noticed},
                         {NULL, NULL},
                     });
}
