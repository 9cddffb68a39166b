/* team.h: the threads of a step. They run one function together, meet at barriers, and sleep between runs. */
#ifndef MODEL_TEAM_H
#define MODEL_TEAM_H

#include <penstock/base.h>

struct team;

/* A team of `threads` with the caller's thread as worker 0. */
pst_status team_create(struct team **ret, unsigned threads, pst_error *reterr);
struct team *team_destroy(struct team *t); /* NULL ok; returns NULL */
unsigned team_size(const struct team *t);

/* Runs fn(user, worker) on every worker and returns when all have. Denormal numbers count as zero meanwhile. */
void team_run(struct team *t, void (*fn)(void *user, unsigned worker), void *user);
/* Inside of a run: waits until every worker is here. Spins briefly, then sleeps: cores may be shared with the pipeline. */
void team_barrier(struct team *t);

#endif
