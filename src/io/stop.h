/* stop.h: what ends waits for remote data.
 *
 * A thread may have a condition of its own (the workers of a pipeline that is cancelled), and the process has one (Ctrl-C in the
 * tool). The first ends a wait at once; under the second, work that still makes progress goes on, as the last checkpoint of a
 * run must be saved, and a server that stays silent is given up soon. */
#ifndef IO_STOP_H
#define IO_STOP_H

#include "io/file.h"

#define STOP_SECONDS 1.0 /* of silence, once the process is asked to stop */

/* Sets the condition of this thread, and returns the one before; zeroed: none. */
struct file_stop stop_set_thread(struct file_stop stop);
bool stop_thread_asked(void);
bool stop_process_asked(void);

#endif
