/* monitors.h: the folder of monitors, and the running pipelines in it at two moments. */
#ifndef CLI_MONITORS_H
#define CLI_MONITORS_H

#include <penstock/monitor.h>

/* Where sockets of monitors are: PENSTOCK_MONITOR if it is a path, else "$XDG_RUNTIME_DIR/penstock", else "/tmp/penstock-UID".
 * NULL: too long. */
const char *monitor_folder(char *buffer, size_t size);
/* The same if PENSTOCK_MONITOR asks for a monitor: it is set and is not "0"; or if `wanted`. */
const char *monitor_wanted(char *buffer, size_t size, bool wanted);

#define MOST_MONITORS 256

struct monitored {
    char socket[256];
    pst_monitor_view before, now; /* `before.size` 0: seen for the first time */
};

struct monitors {
    struct monitored *items;
    size_t count;
};

/* Looks at all pipelines; those that were seen before keep the last view as `before`. */
pst_status monitors_look(struct monitors *m, const char *folder, pst_error *reterr);
void monitors_finish(struct monitors *m);

/* Rates between the two views; since the start where there is only one. */
struct monitor_rates {
    double samples, batches, read_bytes; /* per second */
    double wait_share;                   /* of the consumer's time */
    double busy_share;                   /* of the workers' time */
    double stage_share[PST_MAX_STAGES];  /* of the time in all stages */
    size_t slowest;                      /* stage */
};
struct monitor_rates monitor_rates(const struct monitored *m);
/* "input-bound", "balanced" or "consumer-bound", as the doctor calls them: above 20 %, from 5 %, below. */
const char *monitor_verdict(const struct monitor_rates *r);

#endif
