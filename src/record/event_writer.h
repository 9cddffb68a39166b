/* event_writer.h: TensorBoard event files: TFRecords of Event messages.
 *
 * A file begins with its version, and grows while a run is under way; TensorBoard reads it meanwhile, and ignores a last record
 * that is cut short. Events are collected in memory until event_flush: the functions that add cannot fail by themselves. */
#ifndef RECORD_EVENT_WRITER_H
#define RECORD_EVENT_WRITER_H

#include "base/text.h"
#include "io/publish.h"

#define EVENT_FLUSH_BYTES ((size_t)1 << 20) /* collected events above which event_relieve writes them */
#define EVENT_BUCKETS     30                /* of a histogram */

struct event_writer {
    int fd; /* -1: none */
    char *path;
    struct publish copy;  /* of a file in a store: a local copy, which replaces it at each flush */
    uint64_t offset;      /* bytes in the file */
    struct text pending;  /* events that are not in the file yet */
    uint64_t published;   /* bytes of `offset` that the store has, if the file is in one */
    size_t tried;         /* bytes of `pending` that could not be written; 0: no failure */
    bool lost;            /* events are missing, and no caller knows yet */
    size_t record, value; /* where the open event and its summary begin in `pending` */
};

/* Creates "events.out.tfevents.SECONDS.HOST" in `folder`. `seconds` is the time since 1970. `first_step` above 0: the run
 * resumes there, and TensorBoard drops what older files have from that step on. Zero-initialise `w` first. PST_EEXIST: there is
 * such a file. */
pst_status event_writer_open(struct event_writer *w, const char *folder, const char *host, double seconds, int64_t first_step,
                             pst_error *reterr);
/* Where many events are collected, appends them to the file, of which a store is not told yet. A failure shows at the next flush. */
void event_relieve(struct event_writer *w);
/* Appends the collected events to the file. After a failure of the file they stay collected, and the file is as before or ends in a part of them,
 * which the next flush overwrites. PST_ENOMEM: since the last flush memory ran out, and events are lost. */
pst_status event_flush(struct event_writer *w, pst_error *reterr);
/* Flushes and closes. */
pst_status event_writer_commit(struct event_writer *w, pst_error *reterr);
void event_writer_discard(struct event_writer *w); /* closes without flushing and frees; zeroed ok */

/* One event: any number of values between begin and end. */
void event_begin(struct event_writer *w, int64_t step, double seconds);
void event_end(struct event_writer *w);

void event_scalar(struct event_writer *w, const char *tag, double value);
/* The distribution of `values` in EVENT_BUCKETS equal buckets; those that are not finite are left out. */
void event_histogram(struct event_writer *w, const char *tag, const float *values, size_t count);
/* An image that is encoded already, as PNG or JPEG. */
void event_image(struct event_writer *w, const char *tag, uint32_t width, uint32_t height, uint32_t channels,
                 const void *encoded, size_t length);
void event_text(struct event_writer *w, const char *tag, const char *text); /* Markdown */

/* A node of the graph that TensorBoard draws. */
struct event_node {
    const char *name, *kind;
    const char *const *inputs; /* names of the nodes that it reads */
    size_t count;
};
/* An event of its own: not between event_begin and event_end. */
void event_graph(struct event_writer *w, const struct event_node *nodes, size_t count, double seconds);

/* Settings of the run, for the HParams page. */
struct event_setting {
    const char *name;
    const char *text; /* NULL: `number` is the value */
    double number;
};
void event_settings(struct event_writer *w, const struct event_setting *settings, size_t count, double seconds);

#endif
