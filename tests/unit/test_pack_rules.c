/* test_pack_rules.c: where records go, what becomes of bad items, and which commands are refused. */
#include "base/fault.h"
#include "pack_fixture.h"

static const char *classes;

/* ---- Splits and shards ---- */

static void splits_are_stable(void)
{
    const char *few = test_path("few"), *many = test_path("many"), *out_few = test_path("few-out"),
               *out_many = test_path("many-out");
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
    CHECK_MSG(r->split[0].records > 55 && r->split[0].records < 90, "train has %llu of 120",
              (unsigned long long)r->split[0].records);
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
    CHECK_MSG(each > 2500 && each < 4500, "%llu shards of %llu bytes", (unsigned long long)r->split[0].shards,
              (unsigned long long)each);
    pst_pack_report_destroy(r);
    remove_folder(out);
    o.resize = "4"; /* much smaller once packed: known from a sample */
    REQUIRE_OK(pack_one(classes, out, &o, &r, &e), &e);
    each = r->bytes / r->split[0].shards;
    CHECK_MSG(each > 2500 && each < 4500, "%llu shards of %llu bytes", (unsigned long long)r->split[0].shards,
              (unsigned long long)each);
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
    o.bad = "skip:1";
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    CHECK(strstr(e.message, "allowed"));
    o.bad = "skip:5%"; /* one of twenty */
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    o.bad = "skip:10%";
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
    o.bad = NULL;
    CHECK_STATUS(pack_one(source, out, &o, NULL, &e), PST_ECORRUPT, &e);
    make_folder(test_path("all-bad"));
    write_text(test_path("all-bad/x.jpg"), "no image");
    o.bad = "skip";
    CHECK_STATUS(pack_one(test_path("all-bad"), test_path("all-bad-out"), &o, NULL, &e), PST_ECORRUPT, &e);
    CHECK_MSG(strstr(e.message, "all 1 items"), "%s", e.message);
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
    o.bad = "skip";
    o.augment = 3;
    REQUIRE_OK(pack_one(source, out, &o, &r, &e), &e);
    CHECK_INT(r->records, 4);
    CHECK_INT(r->skips, 1);
    CHECK_STR(r->skip[0].key, "cut.jpg");
    pst_pack_report_destroy(r);
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
        {.split = "train=0.5"},
        {.split = "train=0.5,train=0.5"},
        {.split = "a/b=1"},
        {.split = "train"},
        {.resize = "0"},
        {.resize = "12x"},
        {.resize = "70000"},
        {.resize = "big"},
        {.name = "../up"},
        {.name = "1st"},
        {.version = "one"},
        {.from = "foldr"},
        {.features = "image"},
        {.columns = "a:int"},
        {.channels = 2},
        {.quality = 101},
        {.split = "train=1.5,val=-0.5"},
        {.split = ""},
        {.resize = ""},
        {.name = ""},
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
    pst_pack_options beyond[] = {fast(), fast(), fast(), fast(), fast(), fast(), fast()};
    beyond[0].shards = UINT32_MAX;
    beyond[1].format = PST_IMAGE_GIF;
    beyond[2].format = PST_IMAGE_FORMATS;
    beyond[3].augment = UINT32_MAX;
    beyond[4].workers = UINT32_MAX;
    beyond[5].compression = (pst_compression)99;
    beyond[6].bad = "skip:150%";
    for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
        CHECK_MSG(pack_one(classes, out, &beyond[i], NULL, &e) == PST_EINVAL, "case %zu beyond the limits is taken", i);
        CHECK_MSG(access(out, F_OK) != 0, "case %zu beyond the limits leaves a folder", i);
    }
    pst_pack_options levels = fast();
    levels.compression = PST_COMPRESSION_GZIP;
    levels.level = 15;
    CHECK_STATUS(pack_one(classes, out, &levels, NULL, &e), PST_EINVAL, &e);
    CHECK(access(out, F_OK) != 0);
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

static bool deny_realpath(void *user, enum fault_kind kind, const char *what)
{
    (void)user;
    return kind == FAULT_IO && strcmp(what, "realpath") == 0;
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
    fault_set(deny_realpath, NULL); /* where it cannot be told, it is not taken for granted */
    CHECK_STATUS(pack_one(classes, inside, &o, NULL, &e), PST_EIO, &e);
    fault_set(NULL, NULL);
    CHECK(access(inside, F_OK) != 0);
    write_text(test_path("a file"), "");
    CHECK_STATUS(pack_one(classes, test_path("a file"), &o, NULL, &e), PST_EEXIST, &e);
    /* What would be replaced by what is made of it. */
    make_folder(test_path("both"));
    write_text(test_path("both/labels.txt"), "a\nb\n");
    o.force = true;
    CHECK_STATUS(pack_one(test_path("both/labels.txt"), test_path("both"), &o, NULL, &e), PST_EINVAL, &e);
    CHECK(access(test_path("both/labels.txt"), F_OK) == 0);
    o.force = false;
    CHECK_STATUS(pack_one(classes, test_path("both"), &o, NULL, &e), PST_EEXIST, &e);
    CHECK(access(test_path("both/labels.txt"), F_OK) == 0);
}

int main(int argc, char **argv)
{
    classes = four_classes();
    return test_main(argc, argv,
                     (const struct test[]){
                         {"splits are stable", splits_are_stable},
                         {"split folders are splits", split_folders_are_splits},
                         {"shards follow the size", shards_follow_the_size},
                         {"shuffling keeps everything", shuffling_keeps_everything},
                         {"bad items follow the policy", bad_items_follow_the_policy},
                         {"bad items and copies", bad_items_and_copies},
                         {"features are renamed", features_are_renamed},
                         {"wrong options are refused", wrong_options_are_refused},
                         {"names come from the folder", names_come_from_the_folder},
                         {"wrong sources are refused", wrong_sources_are_refused},
                         {NULL, NULL},
                     });
}