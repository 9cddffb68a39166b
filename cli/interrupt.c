/* interrupt.c: the handlers, and the one flag they set. */
#include "cli/interrupt.h"
#include "cli/command.h"
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int caught; /* the signal's number; 0: none yet. Any thread may read it */

static void on_signal(int number)
{
    caught = number;
}

void interrupt_install(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction catch, old, ignore;

    memset(&catch, 0, sizeof(catch));
    catch.sa_handler = on_signal;
    catch.sa_flags = SA_RESETHAND | SA_RESTART; /* the second signal has the default action: the process ends */
    sigemptyset(&catch.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup keeps its meaning */
            sigaction(numbers[i], &catch, NULL);
    }
    memset(&ignore, 0, sizeof(ignore));
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGXFSZ, &ignore, NULL);
}

bool interrupt_requested(void)
{
    return caught != 0;
}

int interrupt_exit_code(void)
{
    return caught ? 128 + caught : EXIT_INTERRUPTED;
}
