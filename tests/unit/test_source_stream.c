/* test_source_stream.c: shards without random access through the source: compressed ones and pipes. */
#include "source_shards.h"

#include "base/thread.h"

#include <fcntl.h>
#include <unistd.h>

/* Record `i` of the whole set, in front of which `before` bytes of the shard were passed. */
static void check_place(void *stream, uint64_t i, uint64_t *before, const char **path)
{
    struct source_place at;
    source_tfrecord.stream_locate(stream, &at);
    if (at.record == 0) {
        *before = 0;
        *path = at.path;
    }
    CHECK_STR(at.path, *path);
    CHECK_INT(at.offset, *before);
    *before += length_of(i) + 16;
}

static uint64_t read_stream(struct opened *o, pst_status *ret, pst_error *reterr)
{
    void *stream = NULL;
    uint64_t count = 0, bytes = 0;
    const char *path = "";
    *ret = source_tfrecord.stream_open(o->source, &stream, reterr);
    while (*ret == PST_OK && (*ret = source_tfrecord.stream_next(stream, &o->ctx, o->out, reterr)) == PST_OK) {
        CHECK_MSG(is_record(opened_bytes(o, "record"), count), "record %llu of the stream", (unsigned long long)count);
        check_place(stream, count, &bytes, &path);
        count++;
    }
    if (stream)
        source_tfrecord.stream_close(stream);
    return count;
}

static void test_stream(void)
{
    static const pst_compression packings[] = {PST_COMPRESSION_GZIP, PST_COMPRESSION_ZSTD, PST_COMPRESSION_ZLIB};
    pst_error error;
    pst_status st;
    char line[256];
    for (size_t k = 0; k < 3; k++) {
        const char *folder = make_shards("stream", packings[k]);
        struct source_setup s = setup_for(&folder, "auto");
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK(opened_count(&o) == SOURCE_STREAM);
        opened_describe(&o, line, sizeof(line));
        CHECK_MSG(strstr(line, "5 shards") && strstr(line, "beginning to end") && strstr(line, "x.tfrecord-00004-of-00005"),
                  "\"%s\"", line);
        for (int pass = 0; pass < 2; pass++) {
            CHECK_INT(read_stream(&o, &st, &error), RECORDS);
            CHECK_STATUS(st, PST_END, &error);
        }
        opened_close(&o);
    }
}

/* Damage is told in every pass; who counts it once is the engine. */
static void test_stream_damage(void)
{
    pst_error error;
    pst_status st;
    struct opened o;
    struct fixture f = fixture_make();
    char path[256];
    const char *folder = test_path("torn");
    mkdir(folder, 0777);
    f.bytes[f.offsets[2] + 20] ^= 1;
    snprintf(path, sizeof(path), "%s/a.tfrecord", folder);
    test_write_file(path, f.bytes, f.length);
    f.bytes[f.offsets[2] + 20] ^= 1;
    snprintf(path, sizeof(path), "%s/b.tfrecord.gz", folder);
    fixture_compress(path, f.bytes, f.length, PST_COMPRESSION_GZIP);
    free(f.bytes);
    struct source_setup s = setup_for(&folder, "auto");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    (void)opened_count(&o);
    void *stream = NULL;
    REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(source_tfrecord.stream_next(stream, &o.ctx, o.out, &error), PST_OK, &error);
    st = source_tfrecord.stream_next(stream, &o.ctx, o.out, &error);
    CHECK_STATUS(st, PST_ECORRUPT, &error);
    CHECK_INT(error.record, 2);
    source_tfrecord.stream_close(stream);
    opened_close(&o);
    s.policy = (pst_policy){.skip = true};
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    for (int pass = 0; pass < 4; pass++) {
        uint64_t count = 0;
        REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
        while ((st = source_tfrecord.stream_next(stream, &o.ctx, o.out, &error)) == PST_OK)
            count++;
        CHECK_STATUS(st, PST_END, &error);
        CHECK_INT(count, 2 * FIXTURE_RECORDS - 1);
        source_tfrecord.stream_close(stream);
    }
    CHECK_INT(pst_damage_log_count(o.log, PST_CAUSE_DATA_CRC), 4);
    opened_close(&o);
}

static void write_pipe(void *user, unsigned worker)
{
    struct fixture f = fixture_make();
    int fd = open(user, O_WRONLY | O_CLOEXEC); /* waits for the reader */
    (void)worker;
    if (fd < 0 || write(fd, f.bytes, f.length) != (ssize_t)f.length)
        abort();
    close(fd);
    free(f.bytes);
}

static void test_pipe(void)
{
    pst_error error;
    struct opened o;
    struct thread_group *writer = NULL;
    void *stream = NULL;
    uint64_t count = 0;
    const char *path = test_path("pipe");
    pst_status st;
    REQUIRE(mkfifo(path, 0666) == 0);
    struct source_setup s = setup_for(&path, "auto");
    REQUIRE_OK(thread_group_start(&writer, 1, "writer", write_pipe, (void *)(uintptr_t)path, &error), &error);
    usleep(20000); /* the writer waits for somebody to open the pipe, who must be the one that reads */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    usleep(20000); /* had the opening woken the writer, it would now find nobody there */
    CHECK(opened_count(&o) == SOURCE_STREAM);
    REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
    while ((st = source_tfrecord.stream_next(stream, &o.ctx, o.out, &error)) == PST_OK) {
        pst_bytes b = opened_bytes(&o, "record");
        CHECK(b.length == fixture_lengths[count] && fixture_equal(b.data, b.length, count));
        count++;
    }
    CHECK_STATUS(st, PST_END, &error);
    CHECK_INT(count, FIXTURE_RECORDS);
    source_tfrecord.stream_close(stream);
    thread_group_join(writer);
    REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
    CHECK_STATUS(source_tfrecord.stream_next(stream, &o.ctx, o.out, &error), PST_EUNSUPPORTED, &error);
    source_tfrecord.stream_close(stream);
    opened_close(&o);
}

static pst_status use_stream(const void *user)
{
    struct opened o;
    pst_error error;
    pst_status st = opened_open(&o, user, &error);
    if (st < 0)
        return st;
    read_stream(&o, &st, &error);
    opened_close(&o);
    return st < 0 ? st : PST_OK;
}

static void test_faults(void)
{
    const char *folder = make_shards("faults", PST_COMPRESSION_GZIP);
    struct source_setup s = setup_for(&folder, "auto");
    fail_all(use_stream, &s);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"compressed shards are a stream", test_stream},
        {"damage of a stream", test_stream_damage},
        {"a pipe", test_pipe},
        {"faults", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
