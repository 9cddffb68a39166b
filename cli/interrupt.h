/* interrupt.h: Ctrl-C. The first signal asks the command to stop at a clean point; the second ends the process at once.
 *
 * This is the only file that installs handlers. SIGPIPE and SIGXFSZ are ignored, so that a closed pipe or a file-size limit
 * is an error of the write that met it. */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <stdbool.h>

void interrupt_install(void);
bool interrupt_requested(void);
int interrupt_exit_code(void); /* 128 + the signal's number; EXIT_INTERRUPTED where none came */

#endif
