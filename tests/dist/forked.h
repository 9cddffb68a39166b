/* forked.h: runs one function in several processes that are joined by sockets: ranks without MPI. */
#ifndef TESTS_DIST_FORKED_H
#define TESTS_DIST_FORKED_H

#include "dist/comm.h"
#include "dist/transport.h"
#include "harness.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_RANKS 8

/* Calls run(comm, user) in `ranks` processes. `codes` (one per rank) are their exit codes, 0 where run returned true; 99: killed. A
 * process that is stopped is killed when all others have ended. */
static void run_forked(unsigned ranks, double timeout, bool (*run)(pst_comm *c, void *user), void *user, int *codes)
{
    int fds[MOST_RANKS][MOST_RANKS] = {{0}};
    pid_t pids[MOST_RANKS];
    for (unsigned a = 0; a < ranks; a++)
        for (unsigned b = a + 1; b < ranks; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
                abort();
            fds[a][b] = pair[0];
            fds[b][a] = pair[1];
        }
    fflush(stdout);
    for (unsigned r = 0; r < ranks; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        for (unsigned a = 0; a < ranks; a++)
            for (unsigned b = 0; b < ranks; b++)
                if (a != b && a != r)
                    close(fds[a][b]);
        struct sockets_config config = {.rank = r, .size = ranks, .fds = fds[r]};
        pst_comm_options options = {.size = sizeof(options), .timeout = timeout};
        pst_comm *c = NULL;
        pst_error error;
        if (comm_create(&c, &transport_sockets, &config, &options, &error) < 0) {
            printf("# rank %u: %s\n", r, error.message);
            fflush(stdout);
            test_exit(3);
        }
        bool ok = run(c, user);
        pst_comm_close(c);
        fflush(stdout);
        test_exit(ok ? 0 : 1);
    }
    for (unsigned a = 0; a < ranks; a++)
        for (unsigned b = 0; b < ranks; b++)
            if (a != b)
                close(fds[a][b]);
    bool stopped[MOST_RANKS] = {false};
    for (unsigned r = 0; r < ranks; r++) {
        int status = 0;
        waitpid(pids[r], &status, WUNTRACED);
        stopped[r] = WIFSTOPPED(status);
        codes[r] = WIFEXITED(status) ? WEXITSTATUS(status) : 99;
    }
    for (unsigned r = 0; r < ranks; r++)
        if (stopped[r]) {
            kill(pids[r], SIGKILL);
            waitpid(pids[r], NULL, 0);
        }
}

#endif
