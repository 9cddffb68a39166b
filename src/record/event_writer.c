/* event_writer.c: see event_writer.h. Field numbers are those of TensorFlow's event.proto, summary.proto and tensor.proto, and
 * of TensorBoard's plugin_data.proto for settings. */
#include "record/event_writer.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/proto.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/remote/remote.h"
#include "record/frame.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_GRAPH, EVENT_SUMMARY, EVENT_SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { GRAPH_NODE = 1, NODE_NAME = 1, NODE_KIND, NODE_INPUT };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_NUMBER, VALUE_IMAGE = 4, VALUE_HISTOGRAM, VALUE_TENSOR = 8, VALUE_METADATA };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH, IMAGE_COLORSPACE, IMAGE_BYTES };
enum {
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX,
    HISTOGRAM_COUNT,
    HISTOGRAM_SUM,
    HISTOGRAM_SQUARES,
    HISTOGRAM_LIMITS,
    HISTOGRAM_BUCKETS
};
enum { TENSOR_TYPE = 1, TENSOR_SHAPE, TENSOR_FLOAT = 5, TENSOR_STRING = 8 };
enum { TYPE_FLOAT = 1, TYPE_STRING = 7, SHAPE_DIMENSION = 2, DIMENSION_SIZE = 1 };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, PLUGIN_CONTENT, CLASS_TENSOR = 2 };
enum { SETTINGS_VERSION = 1, SETTINGS_START = 3, START_SETTINGS = 1, START_SECONDS = 5 };
enum { ENTRY_KEY = 1, ENTRY_VALUE, ANY_NUMBER = 2, ANY_STRING };

/* ---- Records ---- */

static void begin_record(struct event_writer *w, int64_t step, double seconds)
{
    w->record = w->pending.length;
    text_add_n(&w->pending, (const char[FRAME_HEADER]){0}, FRAME_HEADER);
    proto_double(&w->pending, EVENT_WALL_TIME, seconds);
    proto_int(&w->pending, EVENT_STEP, step);
}

static void end_record(struct event_writer *w)
{
    uint8_t footer[FRAME_FOOTER];
    if (w->pending.failed)
        return;
    uint8_t *frame = (uint8_t *)w->pending.data + w->record;
    size_t length = w->pending.length - w->record - FRAME_HEADER;
    frame_put_header(frame, length);
    frame_put_footer(footer, frame + FRAME_HEADER, length);
    text_add_n(&w->pending, (const char *)footer, sizeof(footer));
}

static void add_opening(struct event_writer *w, double seconds, int64_t first_step)
{
    begin_record(w, 0, seconds);
    proto_string(&w->pending, EVENT_VERSION, "brain.Event:2");
    end_record(w);
    if (first_step <= 0)
        return;
    begin_record(w, first_step, seconds);
    size_t session = proto_begin(&w->pending, EVENT_SESSION);
    proto_int(&w->pending, SESSION_STATUS, SESSION_START);
    proto_end(&w->pending, session);
    end_record(w);
}

static void drop_pending(struct event_writer *w)
{
    w->pending.length = 0;
    w->pending.failed = false;
}

pst_status event_writer_open(struct event_writer *w, const char *folder, const char *host, double seconds, int64_t first_step,
                             pst_error *reterr)
{
    *w = (struct event_writer){.fd = -1};
    w->path = mem_format("%s/events.out.tfevents.%010" PRIu64 ".%s", folder, (uint64_t)seconds, host);
    add_opening(w, seconds, first_step);
    pst_status st = w->path && !w->pending.failed ? PST_OK : fail_memory_at(reterr, folder, "starting a log");
    if (st == PST_OK && remote_is(w->path)) {
        st = publish_open(&w->copy, w->path, false, reterr);
        w->fd = st == PST_OK ? w->copy.fd : -1;
        st = st == PST_OK ? event_flush(w, reterr) : st;
    } else if (st == PST_OK) {
        st = publish_bytes(w->path, w->pending.data, w->pending.length, false, false, reterr);
        if (st == PST_OK)
            st = file_open_update(&w->fd, w->path, reterr);
        w->offset = w->pending.length;
    }
    drop_pending(w);
    if (st < 0)
        event_writer_discard(w);
    return st;
}

/* Appends the collected events to the local file. A failed write leaves them collected: the next one begins at the same place. */
static pst_status write_pending(struct event_writer *w, pst_error *reterr)
{
    w->lost |= w->pending.failed; /* out of memory: what was collected is not whole */
    if (w->pending.failed)
        drop_pending(w);
    pst_status st = w->pending.length ? file_write_at(w->fd, w->path, w->pending.data, w->pending.length, w->offset, reterr) : PST_OK;
    w->tried = st == PST_OK ? 0 : w->pending.length;
    if (st < 0)
        return st;
    w->offset += w->pending.length;
    drop_pending(w);
    return PST_OK;
}

void event_relieve(struct event_writer *w)
{
    if (w->pending.failed || w->pending.length > w->tried + EVENT_FLUSH_BYTES)
        write_pending(w, NULL);
}

pst_status event_flush(struct event_writer *w, pst_error *reterr)
{
    pst_status st = write_pending(w, reterr);
    if (st == PST_OK && w->copy.remote && w->offset > w->published) {
        st = publish_so_far(&w->copy, reterr);
        w->published = st == PST_OK ? w->offset : w->published;
    }
    if (st == PST_OK && w->lost) {
        w->lost = false; /* said once */
        st = fail_memory_at(reterr, w->path, "collecting events");
    }
    return st;
}

pst_status event_writer_commit(struct event_writer *w, pst_error *reterr)
{
    pst_status st = event_flush(w, reterr);
    event_writer_discard(w);
    return st;
}

void event_writer_discard(struct event_writer *w)
{
    if (w->copy.remote)
        publish_discard(&w->copy);
    else if (w->path) /* zeroed, the descriptor is not ours */
        file_close(w->fd);
    mem_free(w->path);
    text_finish(&w->pending);
    *w = (struct event_writer){.fd = -1};
}

/* ---- Values ---- */

void event_begin(struct event_writer *w, int64_t step, double seconds)
{
    begin_record(w, step, seconds);
    w->value = proto_begin(&w->pending, EVENT_SUMMARY);
}

void event_end(struct event_writer *w)
{
    proto_end(&w->pending, w->value);
    end_record(w);
}

static size_t begin_value(struct event_writer *w, const char *tag)
{
    size_t begin = proto_begin(&w->pending, SUMMARY_VALUE);
    proto_string(&w->pending, VALUE_TAG, tag);
    return begin;
}

void event_scalar(struct event_writer *w, const char *tag, double value)
{
    size_t begin = begin_value(w, tag);
    proto_float(&w->pending, VALUE_NUMBER, (float)value);
    proto_end(&w->pending, begin);
}

struct distribution {
    double least, most, count, sum, squares;
    double limits[EVENT_BUCKETS], buckets[EVENT_BUCKETS];
};

static void distribute(struct distribution *d, const float *values, size_t count)
{
    *d = (struct distribution){0};
    for (size_t i = 0; i < count; i++) {
        double v = values[i];
        if (!isfinite(v))
            continue;
        d->least = d->count == 0 || v < d->least ? v : d->least;
        d->most = d->count == 0 || v > d->most ? v : d->most;
        d->count++;
        d->sum += v;
        d->squares += v * v;
    }
    double width = (d->most - d->least) / EVENT_BUCKETS;
    for (size_t i = 0; i < EVENT_BUCKETS; i++)
        d->limits[i] = i == EVENT_BUCKETS - 1 ? d->most : d->least + width * (double)(i + 1);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]))
            continue;
        double at = width > 0 ? (values[i] - d->least) / width : 0;
        d->buckets[at < EVENT_BUCKETS - 1 ? (size_t)at : EVENT_BUCKETS - 1]++;
    }
}

void event_histogram(struct event_writer *w, const char *tag, const float *values, size_t count)
{
    struct distribution d;
    struct text *to = &w->pending;
    distribute(&d, values, count);
    size_t begin = begin_value(w, tag), histogram = proto_begin(to, VALUE_HISTOGRAM);
    size_t buckets = d.most > d.least ? EVENT_BUCKETS : 1; /* equal values: one bucket */
    proto_double(to, HISTOGRAM_MIN, d.least);
    proto_double(to, HISTOGRAM_MAX, d.most);
    proto_double(to, HISTOGRAM_COUNT, d.count);
    proto_double(to, HISTOGRAM_SUM, d.sum);
    proto_double(to, HISTOGRAM_SQUARES, d.squares);
    proto_doubles(to, HISTOGRAM_LIMITS, d.limits, buckets);
    proto_doubles(to, HISTOGRAM_BUCKETS, d.buckets, buckets);
    proto_end(to, histogram);
    proto_end(to, begin);
}

void event_image(struct event_writer *w, const char *tag, uint32_t width, uint32_t height, uint32_t channels,
                 const void *encoded, size_t length)
{
    size_t begin = begin_value(w, tag), image = proto_begin(&w->pending, VALUE_IMAGE);
    proto_int(&w->pending, IMAGE_HEIGHT, height);
    proto_int(&w->pending, IMAGE_WIDTH, width);
    proto_int(&w->pending, IMAGE_COLORSPACE, channels);
    proto_bytes(&w->pending, IMAGE_BYTES, encoded, length);
    proto_end(&w->pending, image);
    proto_end(&w->pending, begin);
}

static void add_metadata(struct text *to, const char *plugin, const struct text *content)
{
    size_t metadata = proto_begin(to, VALUE_METADATA), data = proto_begin(to, METADATA_PLUGIN);
    proto_string(to, PLUGIN_NAME, plugin);
    if (content)
        proto_bytes(to, PLUGIN_CONTENT, content->data, content->length);
    proto_end(to, data);
    proto_int(to, METADATA_CLASS, CLASS_TENSOR);
    proto_end(to, metadata);
}

/* A tensor of one value: a string, or without one a zero. */
static void add_tensor(struct text *to, const char *string)
{
    size_t tensor = proto_begin(to, VALUE_TENSOR);
    proto_int(to, TENSOR_TYPE, string ? TYPE_STRING : TYPE_FLOAT);
    size_t shape = proto_begin(to, TENSOR_SHAPE), dimension = proto_begin(to, SHAPE_DIMENSION);
    proto_int(to, DIMENSION_SIZE, 1);
    proto_end(to, dimension);
    proto_end(to, shape);
    if (string)
        proto_string(to, TENSOR_STRING, string);
    else
        proto_float(to, TENSOR_FLOAT, 0);
    proto_end(to, tensor);
}

void event_text(struct event_writer *w, const char *tag, const char *text)
{
    size_t begin = begin_value(w, tag);
    add_tensor(&w->pending, text);
    add_metadata(&w->pending, "text", NULL);
    proto_end(&w->pending, begin);
}

static void add_setting(struct text *to, const struct event_setting *s)
{
    size_t entry = proto_begin(to, START_SETTINGS);
    proto_string(to, ENTRY_KEY, s->name);
    size_t value = proto_begin(to, ENTRY_VALUE);
    if (s->text)
        proto_string(to, ANY_STRING, s->text);
    else
        proto_double(to, ANY_NUMBER, s->number);
    proto_end(to, value);
    proto_end(to, entry);
}

void event_settings(struct event_writer *w, const struct event_setting *settings, size_t count, double seconds)
{
    struct text content = {0};
    proto_int(&content, SETTINGS_VERSION, 0);
    size_t start = proto_begin(&content, SETTINGS_START);
    for (size_t i = 0; i < count; i++)
        add_setting(&content, &settings[i]);
    proto_double(&content, START_SECONDS, seconds);
    proto_end(&content, start);
    w->pending.failed |= content.failed;
    if (!w->pending.failed) {
        size_t begin = begin_value(w, "_hparams_/session_start_info");
        add_tensor(&w->pending, NULL); /* TensorBoard ignores metadata without a tensor */
        add_metadata(&w->pending, "hparams", &content);
        proto_end(&w->pending, begin);
    }
    text_finish(&content);
}

void event_graph(struct event_writer *w, const struct event_node *nodes, size_t count, double seconds)
{
    struct text *to = &w->pending;
    begin_record(w, 0, seconds);
    size_t graph = proto_begin(to, EVENT_GRAPH);
    for (size_t i = 0; i < count; i++) {
        size_t node = proto_begin(to, GRAPH_NODE);
        proto_string(to, NODE_NAME, nodes[i].name);
        proto_string(to, NODE_KIND, nodes[i].kind);
        for (size_t k = 0; k < nodes[i].count; k++)
            proto_string(to, NODE_INPUT, nodes[i].inputs[k]);
        proto_end(to, node);
    }
    proto_end(to, graph);
    end_record(w);
}
