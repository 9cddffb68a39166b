/* fork.h: keeps the state of remote/ whole in forked processes. Every lock is taken before a fork, so that the child finds
 * complete structures; the child then forgets threads and connections, which stayed with the parent. */
#ifndef IO_REMOTE_FORK_H
#define IO_REMOTE_FORK_H

#include <pthread.h>

enum fork_phase { FORK_BEFORE, FORK_PARENT, FORK_CHILD };

/* Called before the first use of each of the locks. */
void fork_watch(void);
/* Takes the lock before the fork, gives it back in both processes. */
void fork_lock(pthread_mutex_t *lock, enum fork_phase phase);

/* One function per file with state, in the order in which locks are taken. */
void object_fork(enum fork_phase phase);
void settings_fork(enum fork_phase phase);
void remote_fork(enum fork_phase phase);
void http_fork(enum fork_phase phase);
void store_fork(enum fork_phase phase);
void room_fork(enum fork_phase phase);
void level_fork(enum fork_phase phase);
void blocks_fork(enum fork_phase phase);
void hidden_fork(enum fork_phase phase);
void stop_fork(enum fork_phase phase);

#endif
