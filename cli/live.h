/* live.h: a running pipeline on stderr: a few lines that are repainted in place on a terminal, a plain line now and then
 * elsewhere, nothing when asked to be quiet. Looks at the pipeline's statistics only, from any thread. */
#ifndef CLI_LIVE_H
#define CLI_LIVE_H

#include <penstock/pipeline.h>

#define LIVE_HISTORY 32

enum live_mode { LIVE_SILENT, LIVE_VIEW, LIVE_LINES };

struct live {
    enum live_mode mode;
    pst_pipeline *pipeline;
    double started, painted, seen; /* seconds; the last output, the last look */
    pst_stats last;                /* as of `seen` */
    double rate[LIVE_HISTORY];     /* samples per second; the newest is the last */
    size_t rates;
    size_t lines; /* on the screen */
    bool told;    /* the user was told that nothing moves */
};

void live_start(struct live *l, pst_pipeline *pipeline, bool quiet, bool json);
void live_look(void *user);       /* a watch_fn; `user` is the struct live */
void live_finish(struct live *l); /* takes the lines off the screen */

#endif
