/* repair.c: pst_repair: a reader that skips damage, into a writer that publishes the rest whole. The source is
 * only read; `out` may be the same path when overwriting is allowed. */
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/walk.h"
#include "record/frame.h"
#include "base/options.h"

#include <penstock/inspect.h>
#include <string.h>

/* Data of the stream between and after the records that were kept. */
struct loss {
    uint64_t end; /* of the last record kept */
    uint64_t bytes;
};

static pst_status copy_records(pst_reader *reader, pst_writer *writer, struct loss *loss, pst_repair_report *report,
                               pst_error *reterr)
{
    for (;;) {
        pst_record record;
        pst_status st = pst_reader_next(reader, &record, reterr);
        if (st == PST_OK)
            st = pst_writer_write(writer, record.data, record.length, reterr);
        if (st != PST_OK)
            return st == PST_END ? PST_OK : st;
        loss->bytes += record.offset - loss->end;
        loss->end = record.offset + record.length + FRAME_BYTES;
        report->kept++;
        report->kept_bytes += record.length;
    }
}

/* Damage after the last record: no later record shows where it ended. */
static uint64_t lost_at_end(const pst_damage_log *log, const char *path, size_t first_place, uint64_t end)
{
    uint64_t bytes = 0;
    for (size_t i = first_place; i < pst_damage_log_places(log); i++) {
        pst_damage d = pst_damage_log_place(log, i);
        if (d.offset != PST_NOWHERE && d.offset >= end && strcmp(d.path, path) == 0)
            bytes += d.bytes;
    }
    return bytes;
}

static pst_status repair(const char *path, const char *out, pst_writer_options *options, pst_damage_log *log,
                         const pst_reader_options *reading, pst_repair_report *report, pst_error *reterr)
{
    uint64_t counted = pst_damage_log_total(log);
    size_t places = pst_damage_log_places(log);
    struct loss loss = {0};
    pst_reader *reader = NULL;
    pst_writer *writer = NULL;
    pst_status st = pst_reader_open(&reader, path, reading, reterr);
    if (st == PST_OK) {
        if (options->compression == PST_COMPRESSION_AUTO)
            options->compression = pst_reader_compression(reader);
        st = pst_writer_open(&writer, out, options, reterr);
    }
    if (st == PST_OK)
        st = copy_records(reader, writer, &loss, report, reterr);
    reader = pst_reader_close(reader); /* reports the number of records to the log, which the share refers to */
    if (st == PST_OK)
        st = pst_damage_log_finish(log, reterr);
    if (st == PST_OK)
        st = pst_writer_commit(writer, reterr);
    pst_writer_close(writer);
    report->lost_records = pst_damage_log_total(log) - counted;
    report->lost_bytes = loss.bytes + lost_at_end(log, path, places, loss.end);
    return st;
}

/* ---- What describes the shards ---- */

#define MOST_BYTES ((size_t)64 << 20) /* of such a file */

static bool is_companion(const char *name, bool counts)
{
    size_t n = strlen(name), m = strlen(".labels.txt");
    return strcmp(name, "features.json") == 0 || strcmp(name, "labels.txt") == 0 ||
           (n > m && strcmp(name + n - m, ".labels.txt") == 0) || (counts && strcmp(name, "dataset_info.json") == 0);
}

static pst_status copy_companion(const char *path, const char *to, bool overwrite, pst_error *reterr)
{
    uint8_t *data = NULL;
    size_t length = 0;
    char *target = file_join(to, file_base(path));
    pst_status st = target ? file_read_all(&data, &length, path, MOST_BYTES, reterr)
                           : pst_fail_at(reterr, PST_ENOMEM, path, PST_NOWHERE, PST_NOWHERE, "copying it: out of memory");
    if (st == PST_OK)
        st = publish_bytes(target, data, length, overwrite, true, reterr);
    mem_free(data);
    mem_free(target);
    return st;
}

pst_status pst_repair_companions(const char *from, const char *to, bool counts, bool overwrite, size_t *ret, pst_error *reterr)
{
    struct path_list files = {0};
    size_t copies = 0;
    pst_status st = walk_files(&files, from, false, reterr);
    for (size_t i = 0; st == PST_OK && i < files.count; i++) {
        if (!is_companion(file_base(files.paths[i]), counts))
            continue;
        st = copy_companion(files.paths[i], to, overwrite, reterr);
        copies++;
    }
    path_list_finish(&files);
    if (st == PST_OK && ret)
        *ret = copies;
    return st;
}

pst_status pst_repair(const char *path, const char *out, const pst_writer_options *options, pst_damage_log *log,
                      pst_stop_fn stop, void *stop_user, pst_repair_report *ret, pst_error *reterr)
{
    static const pst_policy tolerant = {.skip = true};
    pst_writer_options writing = {0};
    pst_repair_report report = {0};
    pst_damage_log *own = NULL;
    pst_status st = options_take(&writing, sizeof(writing), options, reterr);
    writing.size = sizeof(writing);
    if (st == PST_OK && ret)
        st = result_check(ret, reterr);
    if (st == PST_OK && !log)
        st = pst_damage_log_create(&own, &tolerant, reterr);
    pst_reader_options reading = {.size = sizeof(reading), .damage = log ? log : own, .stop = stop, .stop_user = stop_user};
    if (st == PST_OK)
        st = repair(path, out, &writing, reading.damage, &reading, &report, reterr);
    pst_damage_log_destroy(own);
    if (st == PST_OK && ret)
        result_give(ret, &report, sizeof(report));
    return st;
}
