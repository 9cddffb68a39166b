/* test_pack_fault.c: every allocation, every call on storage and every thread start of a pack is made to fail in turn, once
 * and from then on. However it ends: no crash, no leak, no temporary file, no file that is not whole; and the same
 * command afterwards gives what it would have given without the fault. */
#include "../unit/pack_sources.h"

#include "base/fault.h"
#include "base/memory.h"
#include "record/frame.h"

/* ---- What must hold ---- */

struct compare {
    const char *out, *want;
    bool whole;
    char what[512];
};

static pst_status compare_one(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct compare *c = user;
    char path[1024];
    size_t a, b;
    (void)folder_fd, (void)reterr;
    bool state = strcmp(entry->d_name, ".penstock-pack") == 0 || strncmp(entry->d_name, "part-", 5) == 0 ||
                 strncmp(entry->d_name, ".rank-", 6) == 0; /* of a run that was not finished */
    snprintf(path, sizeof(path), "%s/%s", c->want, entry->d_name);
    if (!state && access(path, F_OK)) {
        snprintf(c->what, sizeof(c->what), "%.400s does not belong there", entry->d_name);
        c->whole = false;
    }
    if (state || !c->whole)
        return PST_OK;
    uint8_t *x = test_read_file(path, &a);
    snprintf(path, sizeof(path), "%s/%s", c->out, entry->d_name);
    uint8_t *y = test_read_file(path, &b);
    if (a != b || memcmp(x, y, a)) {
        snprintf(c->what, sizeof(c->what), "%.400s is not whole", entry->d_name);
        c->whole = false;
    }
    free(x);
    free(y);
    return PST_OK;
}

/* Packs with one fault and judges. False: there was no call left to fail. */
static bool run_with_fault(const char *source, const pst_pack_options *o, const char *want, uint64_t want_hash, int kind,
                           uint64_t n, bool forever)
{
    char out[512];
    pst_error e = {0};
    pst_pack_report *r = NULL;
    snprintf(out, sizeof(out), "%s-out", folder);
    uint64_t live = mem_live();
    test_fault_arm(kind, n, forever);
    pst_status st = pack_one(source, out, o, &r, &e);
    uint64_t calls = test_fault_calls();
    test_fault_clear();
    pst_pack_report_destroy(r);
    CHECK_MSG(mem_live() == live, "kind %d call %llu: %lld blocks leak", kind, (unsigned long long)n,
              (long long)(mem_live() - live));
    CHECK_MSG(st == PST_OK || (e.status == st && e.message[0]), "kind %d call %llu: an error without a word", kind,
              (unsigned long long)n);
    struct compare c = {out, want, true, ""};
    if (access(out, F_OK) == 0)
        walk_names(out, compare_one, &c, NULL);
    CHECK_MSG(c.whole, "kind %d call %llu%s: %s", kind, (unsigned long long)n, forever ? " and on" : "", c.what);
    st = pack_one(source, out, o, NULL, &e);
    CHECK_STATUS(st, PST_OK, &e);
    CHECK_MSG(folder_hash(out) == want_hash, "kind %d call %llu: the rerun differs", kind, (unsigned long long)n);
    remove_folder(out);
    return calls > n;
}

static void fail_everything(const char *source, const pst_pack_options *o)
{
    static const int kinds[] = {FAULT_MEMORY, FAULT_IO, FAULT_THREAD};
    char want[512];
    pst_error e;
    snprintf(want, sizeof(want), "%s-want", folder);
    remove_folder(want);
    REQUIRE_OK(pack_one(source, want, o, NULL, &e), &e);
    uint64_t hash = folder_hash(want);
    for (size_t k = 0; k < 3; k++)
        for (int forever = 0; forever < 2; forever++)
            for (uint64_t n = 0; run_with_fault(source, o, want, hash, kinds[k], n, forever) && n < 100000;)
                n += forever ? 1 + n / 8 : 1; /* what fails from N on fails at N: fewer points tell as much */
    remove_folder(want);
}

/* ---- The sources ---- */

static void images(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("classes"), 2, 2);
    o.shards = 2;
    o.split = "train=0.5,val=0.5";
    fail_everything(in_folder("classes"), &o);
}

static void changed_images(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("few"), 1, 2);
    o.shard_size = 1000; /* so that there is a sample */
    o.resize = "8";
    o.augment = 1;
    o.shuffle = true;
    fail_everything(in_folder("few"), &o);
}

static void entropy_indexes(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("photos"), 1, 2);
    o.resize = "80"; /* large enough to have points */
    o.format = PST_IMAGE_JPEG;
    o.shards = 1;
    o.entropy = true;
    fail_everything(in_folder("photos"), &o);
}

static void synced(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("one"), 1, 1);
    o.no_sync = false;
    o.workers = 1;
    fail_everything(in_folder("one"), &o);
}

static void compressed_table(void)
{
    static const char text[] = "a,b,c\n1,0.5,x\n,2,\"y\"\n3,,z\n";
    pst_pack_options o = fast();
    write_compressed(in_folder("t.csv.gz"), PST_COMPRESSION_GZIP, text, sizeof(text) - 1);
    o.compression = PST_COMPRESSION_ZSTD;
    fail_everything(in_folder("t.csv.gz"), &o);
}

static void list_of_images(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("listed"), 1, 2);
    write_text(in_folder("list.csv"), "path,label\nlisted/ape/000.jpg,x\nlisted/ape/001.png,y\n");
    fail_everything(in_folder("list.csv"), &o);
}

static void records(void)
{
    uint8_t bytes[1024];
    size_t n = 0;
    pst_builder *b;
    pst_error e;
    REQUIRE_OK(pst_builder_create(&b, &e), &e);
    for (int i = 0; i < 4; i++) {
        pst_bytes x;
        pst_builder_reset(b);
        pst_builder_add_int64s(b, "n", &(int64_t){i}, 1, &e);
        REQUIRE_OK(pst_builder_finish(b, &x, &e), &e);
        frame_put_header(bytes + n, x.length);
        memcpy(bytes + n + FRAME_HEADER, x.data, x.length);
        frame_put_footer(bytes + n + FRAME_HEADER + x.length, x.data, x.length);
        n += x.length + FRAME_BYTES;
    }
    pst_builder_destroy(b);
    write_compressed(in_folder("r.tfrecord.gz"), PST_COMPRESSION_GZIP, bytes, n);
    pst_pack_options o = fast();
    fail_everything(in_folder("r.tfrecord.gz"), &o);
}

/* The thread that gives signs of life fails without harm. */
static void a_rank_that_joins(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("ranks"), 1, 2);
    o.workers = 1;
    o.part = o.parts = 1;
    o.patience = 60;
    fail_everything(in_folder("ranks"), &o);
}

int main(int argc, char **argv)
{
    snprintf(folder, sizeof(folder), "%s", test_path("fault"));
    make_folder(folder);
    return test_main(argc, argv,
                     (const struct test[]){
                         {"images", images},
                         {"changed images", changed_images},
                         {"entropy indexes", entropy_indexes},
                         {"synced", synced},
                         {"a compressed table to compressed shards", compressed_table},
                         {"a list of images", list_of_images},
                         {"compressed records", records},
                         {"a rank that joins", a_rank_that_joins},
                         {NULL, NULL},
                     });
}
