/* progress.h: how far a long command is, on stderr: a bar that is repainted in place on a terminal, a plain line now and then
 * elsewhere, nothing when asked to be quiet. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <penstock/base.h>

enum progress_mode { PROGRESS_SILENT, PROGRESS_BAR, PROGRESS_LINES };

struct progress {
    enum progress_mode mode;
    const char *unit;                 /* "records"; NULL: a share of the time */
    const char *stage;                /* the current one; a new stage restarts the clock */
    double started;                   /* of the stage */
    double painted;                   /* last output; 0: none yet */
    uint64_t first_done, first_bytes; /* at the start of the stage: what an earlier run did has no rate */
    double sampled;                   /* the moving averages' last look */
    uint64_t sampled_done, sampled_bytes;
    double rate, byte_rate;
    bool complete;  /* the stage's last line is out */
    bool on_screen; /* a bar is painted and the cursor is after it */
};

/* `unit` is plural, or NULL where the share says enough. JSON on a terminal still shows the bar (it is on stderr); elsewhere it silences the lines. */
void progress_start(struct progress *p, const char *unit, bool quiet, bool json);
/* A pst_progress_fn; `user` is the struct progress. Nonzero once the user interrupted. */
int progress_report(void *user, const pst_progress *now);
/* Takes the bar off the screen (in other modes, the result follows). May be called twice. */
void progress_finish(struct progress *p);

#endif
