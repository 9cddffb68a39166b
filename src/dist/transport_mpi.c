/* transport_mpi.c: the transport over MPI: the only file that includes mpi.h.
 *
 * It is compiled once with the compiler wrapper of each MPI (penstock-mpi-openmpi.so, penstock-mpi-mpich.so) and loaded at run time:
 * the library itself depends on no MPI. All calls come from the thread that calls `open`, as MPI_THREAD_FUNNELED asks. */
#include "dist/transport.h"

#include <mpi.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct request {
    MPI_Request mpi;
    int used;
    struct request *next; /* of the free ones */
};

struct state {
    MPI_Comm comm;
    struct request *free;
    int begun_before; /* the program has begun MPI, and will end it */
};

static int fail(int code, char *why, size_t size)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(why, size, "%s", text);
    return -1;
}

static struct request *take_request(struct state *s)
{
    struct request *r = s->free;
    if (r)
        s->free = r->next;
    return r ? r : malloc(sizeof(*r));
}

static void put_request(struct state *s, void **request)
{
    struct request *r = *request;
    r->next = s->free;
    s->free = r;
    *request = NULL;
}

/* Where the program itself began MPI, it has said which threads may use it, and this one is not the one that began it. */
static int check_threads(char *why, size_t why_size)
{
    int given = MPI_THREAD_SINGLE, is_main = 0;
    MPI_Query_thread(&given);
    MPI_Is_thread_main(&is_main);
    if (given >= MPI_THREAD_SERIALIZED || (given == MPI_THREAD_FUNNELED && is_main))
        return 0;
    snprintf(why, why_size, "the program began MPI for one thread alone, and another exchanges gradients: begin it by MPI_Init_thread with "
                            "MPI_THREAD_MULTIPLE");
    return -1;
}

static int mpi_open(void **ret, void *config, unsigned *ret_rank, unsigned *ret_size, char *why, size_t why_size)
{
    struct state *s = calloc(1, sizeof(*s));
    int given, rank = 0, size = 1, begun = 0;
    (void)config;
    if (!s) {
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    MPI_Initialized(&begun);
    s->begun_before = begun;
    if (begun && check_threads(why, why_size) < 0) {
        free(s);
        return -1;
    }
    int code = begun ? MPI_SUCCESS : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &s->comm);
    if (code != MPI_SUCCESS) {
        free(s);
        return fail(code, why, why_size);
    }
    MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(s->comm, &rank);
    MPI_Comm_size(s->comm, &size);
    *ret_rank = (unsigned)rank;
    *ret_size = (unsigned)size;
    *ret = s;
    return 0;
}

static int begin(struct state *s, struct request *r, int code, void **ret, char *why, size_t why_size)
{
    *ret = r;
    if (code == MPI_SUCCESS)
        return 0;
    put_request(s, ret);
    return fail(code, why, why_size);
}

static int mpi_send(void *t, unsigned to, int tag, const void *data, size_t bytes, void **ret, char *why, size_t why_size)
{
    struct state *s = t;
    struct request *r = take_request(s);
    if (!r) {
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    return begin(s, r, MPI_Isend(data, (int)bytes, MPI_BYTE, (int)to, tag, s->comm, &r->mpi), ret, why, why_size);
}

static int mpi_receive(void *t, unsigned from, int tag, void *data, size_t bytes, void **ret, char *why, size_t why_size)
{
    struct state *s = t;
    struct request *r = take_request(s);
    if (!r) {
        snprintf(why, why_size, "out of memory");
        return -1;
    }
    return begin(s, r, MPI_Irecv(data, (int)bytes, MPI_BYTE, (int)from, tag, s->comm, &r->mpi), ret, why, why_size);
}

static int mpi_test(void *t, void **request, char *why, size_t why_size)
{
    struct state *s = t;
    struct request *r = *request;
    int done = 0;
    if (!r)
        return 1;
    int code = MPI_Test(&r->mpi, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        put_request(s, request);
        return fail(code, why, why_size);
    }
    if (done)
        put_request(s, request);
    return done;
}

static void mpi_cancel(void *t, void **request)
{
    struct state *s = t;
    struct request *r = *request;
    if (!r)
        return;
    MPI_Cancel(&r->mpi);
    MPI_Request_free(&r->mpi);
    put_request(s, request);
}

static void mpi_abort(void *t, int code)
{
    struct state *s = t;
    signal(SIGALRM, SIG_DFL);
    alarm(3); /* MPICH waits for ranks that do not answer; the end of this process ends the job as well */
    MPI_Abort(s->comm, code);
    _Exit(code);
}

static void mpi_close(void *t, int broken)
{
    struct state *s = t;
    if (!broken) {
        MPI_Comm_free(&s->comm);
        if (!s->begun_before)
            MPI_Finalize();
    }
    while (s->free) {
        struct request *next = s->free->next;
        free(s->free);
        s->free = next;
    }
    free(s);
}

__attribute__((visibility("default"))) const struct transport penstock_transport = {
    .abi = TRANSPORT_ABI,
#ifdef OPEN_MPI
    .name = "Open MPI",
#else
    .name = "MPICH",
#endif
    .open = mpi_open,
    .send = mpi_send,
    .receive = mpi_receive,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .abort = mpi_abort,
    .close = mpi_close,
};
