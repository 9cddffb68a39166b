/* test_pack.c: the machinery of pack: what is written does not depend on how it came to be written. */
#include "pack_fixture.h"

#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/file.h>

static const char *classes; /* a folder of 4 classes × 9 images */

static void setup(void)
{
    static char path[320];
    snprintf(path, sizeof(path), "%s", test_path("classes"));
    classes = path;
    make_classes(classes, 4, 9);
}

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
    pst_bytes_free((uint8_t *)(uintptr_t)p.data);
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

/* ---- Cancelling ---- */

/* Holds every worker at its `after`th call on storage until the caller has cancelled. */
static struct {
    pthread_t caller;
    _Atomic uint64_t calls;
    uint64_t after;
    _Atomic bool cancelled;
} hold;

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

/* ---- Splits and shards ---- */

static void splits_are_stable(void)
{
    const char *few = test_path("few"), *many = test_path("many"), *out_few = test_path("few-out"), *out_many = test_path("many-out");
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    make_classes(few, 2, 20);
    make_classes(many, 3, 40);
    o.split = "train=0.6,val=0.25,test=0.15";
    REQUIRE_OK(pack_one(few, out_few, &o, NULL, &e), &e);
    REQUIRE_OK(pack_one(many, out_many, &o, &r, &e), &e);
    CHECK_INT(r->splits, 3);
    CHECK_INT(r->split[0].records + r->split[1].records + r->split[2].records, 120);
    CHECK_MSG(r->split[0].records > 55 && r->split[0].records < 90, "train has %llu of 120", (unsigned long long)r->split[0].records);
    pst_pack_report_destroy(r);
    static const char *const names[] = {"train", "val", "test"};
    for (size_t s = 0; s < 3; s++) {
        struct packed *a = packed_open(out_few, names[s]), *b = packed_open(out_many, names[s]);
        for (size_t i = 0; i < a->count; i++) {
            char key[64];
            pst_bytes k = packed_bytes(a, i, "key");
            snprintf(key, sizeof(key), "%.*s", (int)k.length, (const char *)k.data);
            CHECK_MSG(packed_find(b, key) < b->count, "%s left the split %s", key, names[s]);
        }
        packed_close(a);
        packed_close(b);
    }
}

static void split_folders_are_splits(void)
{
    const char *source = test_path("given"), *out = test_path("given-out");
    char path[512];
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    make_folder(source);
    snprintf(path, sizeof(path), "%s/train", source);
    make_classes(path, 3, 4);
    snprintf(path, sizeof(path), "%s/test", source);
    make_classes(path, 2, 2);
    REQUIRE_OK(pack_one(source, out, &o, &r, &e), &e);
    CHECK_INT(r->classes, 3);
    CHECK_INT(r->splits, 2);
    CHECK_STR(r->split[0].name, "test");
    CHECK_INT(r->split[0].records, 4);
    CHECK_STR(r->split[1].name, "train");
    CHECK_INT(r->split[1].records, 12);
    pst_pack_report_destroy(r);
    struct packed *p = packed_open(out, "test");
    CHECK(packed_is(p, 2, "key", "test/bee/000.jpg"));
    CHECK_INT(packed_int(p, 2, "label"), 1);
    packed_close(p);
}

static void shards_follow_the_size(void)
{
    const char *out = test_path("sized");
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    o.shard_size = 4000;
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    uint64_t each = r->bytes / r->split[0].shards;
    CHECK_MSG(each > 2500 && each < 4500, "%llu shards of %llu bytes", (unsigned long long)r->split[0].shards, (unsigned long long)each);
    pst_pack_report_destroy(r);
    remove_folder(out);
    o.resize = "4"; /* much smaller once packed: known from a sample */
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    each = r->bytes / r->split[0].shards;
    CHECK_MSG(each > 2500 && each < 4500, "%llu shards of %llu bytes", (unsigned long long)r->split[0].shards, (unsigned long long)each);
    pst_pack_report_destroy(r);
    remove_folder(out);
    o = fast();
    o.shards = 1000;
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    CHECK_INT(r->split[0].shards, 36);
    CHECK(report_has_note(r, "36 records"));
    pst_pack_report_destroy(r);
}

static void shuffling_keeps_everything(void)
{
    const char *out = test_path("shuffled");
    pst_error e;
    pst_pack_options o = fast();
    unsigned seen[36] = {0}, in_place = 0;
    o.shuffle = true;
    o.seed = 3;
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    struct packed *p = packed_open(out, "train"), *q;
    CHECK_INT(p->count, 36);
    const char *plain = test_path("unshuffled");
    o.shuffle = false;
    REQUIRE_OK(pack_one(classes, plain, &o, NULL, &e), &e);
    q = packed_open(plain, "train");
    for (size_t i = 0; i < 36; i++) {
        char key[64];
        pst_bytes k = packed_bytes(p, i, "key");
        snprintf(key, sizeof(key), "%.*s", (int)k.length, (const char *)k.data);
        size_t at = packed_find(q, key);
        REQUIRE(at < 36);
        seen[at]++;
        in_place += at == i;
    }
    for (size_t i = 0; i < 36; i++)
        CHECK_INT(seen[i], 1);
    CHECK(in_place < 12);
    packed_close(p);
    packed_close(q);
}

/* ---- Bad items ---- */

static void bad_items_follow_the_policy(void)
{
    const char *source = test_path("bad"), *out = test_path("bad-out");
    char path[512];
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    make_classes(source, 2, 10);
    snprintf(path, sizeof(path), "%s/ape/004.jpg", source);
    write_text(path, "this is no image");
    snprintf(path, sizeof(path), "%s/bee/007.png", source);
    write_text(path, "");
    o.shards = 4;
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.path, "ape/004.jpg"), "the first bad item is told: %s", e.path);
    o.bad = (pst_policy){.skip = true, .max_records = 1};
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    CHECK(strstr(e.message, "allowed"));
    o.bad = (pst_policy){.skip = true, .max_share = 0.05}; /* one of twenty */
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    o.bad = (pst_policy){.skip = true, .max_share = 0.1};
    REQUIRE_OK(pack_one(source, out, &o, &r, &e), &e);
    CHECK_INT(r->records, 18);
    CHECK_INT(r->skips, 2);
    CHECK_STR(r->skip[0].key, "ape/004.jpg");
    CHECK_STR(r->skip[1].key, "bee/007.png");
    CHECK(r->skip[0].why[0]);
    pst_pack_report_destroy(r);
    uint64_t want = folder_hash(out);
    /* A later run that finds shards complete tells the same. */
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-00003-of-00004", out);
    unlink(path);
    REQUIRE_OK(pack_one(source, out, &o, &r, &e), &e);
    CHECK_INT(r->resumed_shards, 3);
    CHECK_INT(r->skips, 2);
    CHECK_STR(r->skip[0].key, "ape/004.jpg");
    CHECK_STR(r->skip[1].key, "bee/007.png");
    pst_pack_report_destroy(r);
    CHECK(folder_hash(out) == want);
    o.bad = (pst_policy){0};
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
}

static void bad_items_and_copies(void)
{
    const char *source = test_path("cut"), *out = test_path("cut-out");
    char path[512];
    pst_error e;
    pst_pack_report *r;
    pst_pack_options o = fast();
    size_t length;
    make_folder(source);
    snprintf(path, sizeof(path), "%s/good.jpg", source);
    write_picture(path, 40, 40, 3, PST_IMAGE_JPEG, 1);
    uint8_t *data = test_read_file(path, &length);
    snprintf(path, sizeof(path), "%s/cut.jpg", source); /* its header is sound, its data is cut */
    test_write_file(path, data, length - 200);
    free(data);
    o.bad.skip = true;
    o.augment = 3;
    REQUIRE_OK(pack_one(source, out, &o, &r, &e), &e);
    CHECK_INT(r->records, 4);
    CHECK_INT(r->skips, 1);
    CHECK_STR(r->skip[0].key, "cut.jpg");
    pst_pack_report_destroy(r);
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
    o.bad.skip = true; /* no policy covers this */
    o.workers = 1;
    changed = false;
    fault_set(change_answer, NULL);
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ESTALE, &e);
    fault_set(NULL, NULL);
    CHECK(strstr(e.path, "bee/002.jpg"));
    /* Between two runs it is another command's work. */
    make_classes(source, 2, 4);
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_EEXIST, &e);
    CHECK_MSG(strstr(e.message, "items"), "%s", e.message);
}

/* ---- Options ---- */

static void features_are_renamed(void)
{
    const char *out = test_path("renamed");
    pst_error e;
    pst_pack_options o = fast();
    o.features = "image=picture,label=class,width=,key=";
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    struct packed *p = packed_open(out, "train");
    CHECK(packed_bytes(p, 0, "picture").length > 0);
    CHECK_INT(packed_int(p, 35, "class"), 3);
    CHECK(packed_int(p, 0, "height") > 0);
    CHECK(!packed_value(p, 0, "key").present && !packed_value(p, 0, "width").present && !packed_value(p, 0, "image").present);
    packed_close(p);
    char path[512];
    snprintf(path, sizeof(path), "%s/class.labels.txt", out);
    size_t length;
    uint8_t *labels = test_read_file(path, &length);
    CHECK_STR((const char *)labels, "ape\nbee\ncat\ndog\n");
    free(labels);
    remove_folder(out);
    o.features = "image="; /* the sizes are still told */
    REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
    p = packed_open(out, "train");
    CHECK(!packed_value(p, 0, "image").present);
    CHECK(packed_int(p, 0, "width") >= 10);
    packed_close(p);
    o.features = "imgae=x";
    CHECK_STATUS(pack_one(classes, test_path("unknown"), &o, NULL, &e), PST_EINVAL, &e);
    CHECK_MSG(strstr(e.message, "perhaps image"), "%s", e.message);
    o.features = "image=label";
    CHECK_STATUS(pack_one(classes, test_path("twice"), &o, NULL, &e), PST_EINVAL, &e);
}

static void wrong_options_are_refused(void)
{
    static const struct {
        const char *split, *resize, *name, *version, *from, *features, *columns;
        uint32_t channels;
        int quality;
    } wrong[] = {
        {.split = "train=0.5"},     {.split = "train=0.5,train=0.5"}, {.split = "a/b=1"},     {.split = "train"},     {.resize = "0"},
        {.resize = "12x"},          {.resize = "70000"},              {.resize = "big"},      {.name = "../up"},      {.name = "1st"},
        {.version = "one"},         {.from = "foldr"},                {.features = "image"},  {.columns = "a:int"},   {.channels = 2},
        {.quality = 101},           {.split = "train=1.5,val=-0.5"},  {.split = ""},          {.resize = ""},         {.name = ""},
    };
    pst_error e;
    const char *out = test_path("wrong");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        pst_pack_options o = fast();
        o.split = wrong[i].split;
        o.resize = wrong[i].resize;
        o.name = wrong[i].name ? wrong[i].name : o.name;
        o.version = wrong[i].version;
        o.from = wrong[i].from;
        o.features = wrong[i].features;
        o.columns = wrong[i].columns;
        o.channels = wrong[i].channels;
        o.quality = wrong[i].quality;
        CHECK_MSG(pack_one(classes, out, &o, NULL, &e) == PST_EINVAL, "case %zu is taken", i);
        CHECK_MSG(access(out, F_OK) != 0, "case %zu leaves a folder", i);
    }
    pst_pack_options o = fast();
    o.from = "foldr";
    pack_one(classes, out, &o, NULL, &e);
    CHECK_MSG(strstr(e.message, "perhaps folder"), "%s", e.message);
    o = fast();
    o.size = 0;
    CHECK_STATUS(pack_one(classes, out, &o, NULL, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pack(NULL, 0, out, NULL, NULL, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pack(NULL, 0, NULL, NULL, NULL, NULL), PST_EINVAL, NULL);
}

static void names_come_from_the_folder(void)
{
    static const char *const pairs[][2] = {{"plain", "plain"}, {"with-dash.v2", "with_dash_v2"}, {"7wonders", "data_7wonders"}};
    pst_error e;
    for (size_t i = 0; i < 3; i++) {
        char path[512];
        const char *out = test_path(pairs[i][0]);
        pst_pack_options o = fast();
        o.name = NULL;
        REQUIRE_OK(pack_one(classes, out, &o, NULL, &e), &e);
        snprintf(path, sizeof(path), "%s/%s-train.tfrecord-00000-of-00001", out, pairs[i][1]);
        CHECK_MSG(access(path, F_OK) == 0, "%s is missing", path);
    }
}

static void wrong_sources_are_refused(void)
{
    pst_error e;
    pst_pack_options o = fast();
    const char *out = test_path("nothing");
    make_folder(test_path("empty"));
    CHECK_STATUS(pack_one(test_path("empty"), out, &o, NULL, &e), PST_ENOTFOUND, &e);
    CHECK(access(out, F_OK) != 0);
    CHECK_STATUS(pack_one(test_path("no such folder"), out, &o, NULL, &e), PST_ENOTFOUND, &e);
    write_text(test_path("lines.txt"), "a\nb\n");
    char text[320], inside[512];
    snprintf(text, sizeof(text), "%s", test_path("lines.txt"));
    const char *mixed[] = {classes, text};
    CHECK_STATUS(pst_pack(mixed, 2, out, &o, NULL, &e), PST_EINVAL, &e);
    CHECK_MSG(strstr(e.message, "one kind"), "%s", e.message);
    o.resize = "8";
    CHECK_STATUS(pack_one(text, out, &o, NULL, &e), PST_EINVAL, &e);
    o = fast();
    snprintf(inside, sizeof(inside), "%s/out", classes);
    CHECK_STATUS(pack_one(classes, inside, &o, NULL, &e), PST_EINVAL, &e);
    CHECK_MSG(strstr(e.message, "inside"), "%s", e.message);
    CHECK(access(inside, F_OK) != 0);
    write_text(test_path("a file"), "");
    CHECK_STATUS(pack_one(classes, test_path("a file"), &o, NULL, &e), PST_EEXIST, &e);
}

int main(int argc, char **argv)
{
    setup();
    return test_main(argc, argv,
                     (const struct test[]){
                         {"a folder of classes is packed", folder_is_packed},
                         {"lengths are exact where they grow", lengths_are_exact},
                         {"the output does not depend on the workers", output_does_not_depend_on_workers},
                         {"cancelled runs go on", cancelled_runs_go_on},
                         {"cancelled while listing", cancelled_while_listing},
                         {"progress ends with the total", progress_ends_with_the_total},
                         {"the same command is up to date", same_command_is_up_to_date},
                         {"another command is refused", other_command_is_refused},
                         {"a foreign dataset is refused", foreign_dataset_is_refused},
                         {"two processes do not meet", two_processes_do_not_meet},
                         {"leftovers are swept", leftovers_are_swept},
                         {"splits are stable", splits_are_stable},
                         {"split folders are splits", split_folders_are_splits},
                         {"shards follow the size", shards_follow_the_size},
                         {"shuffling keeps everything", shuffling_keeps_everything},
                         {"bad items follow the policy", bad_items_follow_the_policy},
                         {"bad items and copies", bad_items_and_copies},
                         {"changed sources are noticed", changed_sources_are_noticed},
                         {"features are renamed", features_are_renamed},
                         {"wrong options are refused", wrong_options_are_refused},
                         {"names come from the folder", names_come_from_the_folder},
                         {"wrong sources are refused", wrong_sources_are_refused},
                         {NULL, NULL},
                     });
}
