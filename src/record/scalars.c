/* scalars.c: scalars for TensorBoard, for programs outside of the library: penstock/report.h over event_writer.h. */
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "record/event_writer.h"

#include <math.h>
#include <penstock/report.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct pst_scalars {
    struct event_writer events;
};

/* Seconds since 1970, as event files have them. */
static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

pst_status pst_scalars_open(pst_scalars **ret, const char *folder, pst_error *reterr)
{
    char host[96] = "host";
    pst_scalars *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "opening a log");
    gethostname(host, 64);
    host[64] = 0;
    snprintf(host + strlen(host), 24, ".%ld", (long)getpid());
    pst_status st = file_make_folder(folder, reterr);
    if (st == PST_OK)
        st = event_writer_open(&s->events, folder, host, wall_seconds(), 0, reterr);
    if (st < 0) {
        mem_free(s);
        return st;
    }
    *ret = s;
    return PST_OK;
}

void pst_scalars_add(pst_scalars *s, int64_t step, const char *tag, double value)
{
    event_begin(&s->events, step, wall_seconds());
    event_scalar(&s->events, tag, value);
    event_end(&s->events);
}

pst_status pst_scalars_flush(pst_scalars *s, pst_error *reterr)
{
    return event_flush(&s->events, reterr);
}

pst_status pst_scalars_close(pst_scalars *s, pst_error *reterr)
{
    if (!s)
        return PST_OK;
    pst_status st = event_writer_commit(&s->events, reterr);
    event_writer_discard(&s->events);
    mem_free(s);
    return st;
}
