/* events.h: TensorBoard's Event messages, as far as a reader of logs needs them. Any bytes are accepted; nothing is copied:
 * results point into the record. */
#ifndef INSPECT_EVENTS_H
#define INSPECT_EVENTS_H

#include <penstock/example.h>

struct event {
    double wall_time;
    int64_t step;
    const char *what;        /* "file version", "summary", "graph", …; never NULL */
    pst_bytes file_version;  /* data NULL: not that */
    pst_bytes rest, summary; /* where event_next_value is */
};

/* False: not an Event. One has a wall time and something that happened. */
bool event_parse(struct event *ret, const void *data, size_t length);

enum event_value_kind { EVENT_OTHER, EVENT_SCALAR, EVENT_TENSOR, EVENT_IMAGE, EVENT_HISTOGRAM, EVENT_AUDIO };
const char *event_value_kind_name(enum event_value_kind kind);

struct event_value {
    pst_bytes tag;
    enum event_value_kind kind;
    double number;   /* of a scalar */
    pst_bytes image; /* of an image: the picture as it was encoded */
};

/* The next value of the event's summaries; false: no more, or damaged from here on. */
bool event_next_value(struct event *e, struct event_value *ret);

#endif
