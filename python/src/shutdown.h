/* shutdown.h: coming into Python from the engine's threads, and ending an engine within a given time. */
#ifndef PYTHON_SHUTDOWN_H
#define PYTHON_SHUTDOWN_H

#include "core.h"

#define SLICE         0.05 /* seconds of waiting between two looks for signals */
#define CLOSE_SECONDS 5.   /* that closing waits for functions that are at work */

/* True once the interpreter is about to exit; true once no thread may enter it any more. */
void interpreter_set_exiting(void);
void interpreter_set_gone(void);

double monotonic_seconds(void);

/* The names of functions that are running. */
void callbacks_name_inside(struct callback *const *callbacks, size_t count, char *names, size_t size);

struct shutdown;

/* An engine that is to end, with what it uses; takes all of it but `keep`, whose reference is copied. NULL: out of memory. */
struct shutdown *shutdown_create(pst_pipeline *p, struct callback **callbacks, size_t count, PyObject *keep);
/* Cancels the engine and ends it, at most until the time of monotonic_seconds(), with the GIL. False: it is left to a thread;
 * `late` names the functions that did not come back. Interrupted: an exception is set. Takes `e`. */
bool shutdown_finish(struct shutdown *e, double until, bool *ret_interrupted, char *late, size_t late_size);
/* The same for an engine whose workers were never started: there is nothing to wait for. */
void shutdown_finish_idle(struct shutdown *e);
/* The calling thread, which is not Python's, ends the engine, however long that takes. Takes `e`. */
void shutdown_run_alone(struct shutdown *e);

#endif
