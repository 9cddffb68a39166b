/* test_event_writer.c: event files: sound records whenever they are looked at, failures that lose events and nothing else. What
 * the events say is read by TensorBoard in tests/interop. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"
#include "record/event_writer.h"
#include "record/frame.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "events.out.tfevents.0000001000.h"

/* The number of records in the file; -1: it does not end with one, or a CRC differs. */
static int records(const char *path)
{
    size_t length;
    uint8_t *data = test_read_file(path, &length);
    int found = 0;
    for (size_t at = 0; at < length; found++) {
        uint64_t n;
        if (length - at < FRAME_BYTES || !frame_get_header(data + at, &n) || n > length - at - FRAME_BYTES ||
            !frame_is_sound(data + at, n, true)) {
            found = -1;
            break;
        }
        at += n + FRAME_BYTES;
    }
    free(data);
    return found;
}

static void add(struct event_writer *w, int64_t step)
{
    static const float values[] = {1, 2, 3, INFINITY};
    event_begin(w, step, 1000 + (double)step);
    event_scalar(w, "loss", 0.5);
    event_histogram(w, "weights", values, 4);
    event_text(w, "note", "text");
    event_settings(w, &(struct event_setting){.name = "lr", .number = 1}, 1, 1000);
    event_end(w);
}

/* 1, 2, 3 and infinity: three values in their buckets, as doubles after the field's number and length. */
static void histograms_count_finite_values(void)
{
    static const uint8_t field[] = {7 << 3 | 2, (8 * EVENT_BUCKETS & 0x7f) | 0x80, 8 * EVENT_BUCKETS >> 7};
    struct event_writer w = {0};
    pst_error error = {0};
    double buckets[EVENT_BUCKETS], sum = 0;
    REQUIRE_OK(event_writer_open(&w, test_folder(), "b", 1000, 0, &error), &error);
    add(&w, 1);
    const char *at = memmem(w.pending.data, w.pending.length, field, sizeof(field));
    REQUIRE(at && w.pending.data + w.pending.length - at > (ptrdiff_t)(sizeof(field) + sizeof(buckets)));
    memcpy(buckets, at + sizeof(field), sizeof(buckets));
    for (size_t i = 0; i < EVENT_BUCKETS; i++)
        sum += buckets[i];
    CHECK(sum == 3 && buckets[0] == 1 && buckets[14] + buckets[15] == 1 && buckets[EVENT_BUCKETS - 1] == 1);
    event_writer_discard(&w);
}

static void files_hold_whole_records(void)
{
    struct event_writer w = {0};
    pst_error error = {0};
    uint64_t live = mem_live();
    char path[512];
    snprintf(path, sizeof(path), "%s/" NAME, test_folder());
    remove(path);
    REQUIRE_OK(event_writer_open(&w, test_folder(), "h", 1000, 0, &error), &error);
    CHECK_INT(records(path), 1);
    for (int i = 0; i < 3; i++) {
        add(&w, i);
        CHECK_INT(records(path), 1 + i);
        REQUIRE_OK(event_flush(&w, &error), &error);
        CHECK_INT(records(path), 2 + i);
    }
    struct event_writer second = {0};
    CHECK_STATUS(event_writer_open(&second, test_folder(), "h", 1000, 0, &error), PST_EEXIST, &error);
    add(&w, 3);
    REQUIRE_OK(event_writer_commit(&w, &error), &error);
    CHECK_INT(records(path), 5);
    REQUIRE_OK(event_writer_open(&w, test_folder(), "h", 2000, 4, &error), &error);
    event_writer_discard(&w);
    event_writer_discard(&w);
    CHECK_INT(mem_live(), live);
}

/* Many events are written on the way; where that fails they are kept, and each is in the file once in the end. */
static void relief_loses_nothing(void)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/" NAME, test_folder());
    for (int failing = 0; failing < 2; failing++) {
        struct event_writer w = {0};
        pst_error error = {0};
        int64_t events = 0;
        remove(path);
        REQUIRE_OK(event_writer_open(&w, test_folder(), "h", 1000, 0, &error), &error);
        if (failing)
            test_fault_arm(FAULT_IO, 0, true);
        for (uint64_t begin = w.offset; failing ? w.pending.length < 3 * EVENT_FLUSH_BYTES : w.offset == begin; events++) {
            add(&w, events);
            event_relieve(&w);
            CHECK(w.pending.length < 4 * EVENT_FLUSH_BYTES && events < 100000);
        }
        if (failing) {
            CHECK_MSG(test_fault_calls() < 10, "%llu writes of the same events", (unsigned long long)test_fault_calls());
            CHECK_STATUS(event_flush(&w, &error), PST_EIO, &error);
            test_fault_clear();
        }
        CHECK_INT(w.pending.length > 0, failing);
        REQUIRE_OK(event_flush(&w, &error), &error);
        CHECK_INT(records(path), 1 + events);
        add(&w, events);
        REQUIRE_OK(event_writer_commit(&w, &error), &error);
        CHECK_INT(records(path), 2 + events);
    }
    struct event_writer w = {0};
    pst_error error = {0};
    remove(path);
    REQUIRE_OK(event_writer_open(&w, test_folder(), "h", 1000, 0, &error), &error);
    test_fault_arm(FAULT_MEMORY, 0, true);
    add(&w, 0);
    event_relieve(&w);
    test_fault_clear();
    add(&w, 1);
    CHECK_STATUS(event_flush(&w, &error), PST_ENOMEM, &error); /* the first is lost, and that is said */
    REQUIRE_OK(event_writer_commit(&w, &error), &error);
    CHECK_INT(records(path), 2);
}

/* A failing call loses the events that memory was missing for; what follows is written. */
static void failures_lose_little(void)
{
    uint64_t live = mem_live();
    char path[512];
    snprintf(path, sizeof(path), "%s/" NAME, test_folder());
    for (int kind = 0; kind < 2; kind++) {
        bool reached = true;
        for (uint64_t n = 0; reached; n++) {
            struct event_writer w = {0};
            pst_error error = {0};
            remove(path);
            test_fault_arm(kind ? FAULT_IO : FAULT_MEMORY, n, false);
            pst_status open = event_writer_open(&w, test_folder(), "h", 1000, 0, &error), first = PST_OK;
            if (open == PST_OK) {
                add(&w, 0);
                first = event_flush(&w, &error);
            }
            reached = test_fault_calls() > n;
            test_fault_clear();
            bool failed = open < 0 || first < 0; /* publishing does without some calls, so that not every fault is a failure */
            CHECK_MSG(reached ? failed || kind : !failed, "fault %llu", (unsigned long long)n);
            CHECK(open == PST_OK || open == PST_ENOMEM || open == PST_EIO);
            if (open == PST_OK) {
                add(&w, 1);
                CHECK_STATUS(event_writer_commit(&w, &error), PST_OK, &error);
                CHECK_INT(records(path), first == PST_OK || kind ? 3 : 2);
            }
            CHECK_INT(mem_live(), live);
        }
    }
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){{"files hold whole records", files_hold_whole_records}, {"histograms count finite values", histograms_count_finite_values},
                                           {"relief loses nothing", relief_loses_nothing},
                                           {"failures lose little", failures_lose_little},
                                           {0}});
}
