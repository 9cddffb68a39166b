/* trace_writer.h: writes spans of time in the Trace Event Format, which Perfetto and Chrome's tracing page open.
 *
 * Times are microseconds from any fixed point. Failures are the text's: the caller checks `failed` once. */
#ifndef REPORT_TRACE_WRITER_H
#define REPORT_TRACE_WRITER_H

#include "base/json.h"
#include "base/text.h"

#define TRACE_NO_BATCH UINT64_MAX

struct trace_writer {
    struct json json;
    uint64_t process; /* number of the process */
};

void trace_begin(struct trace_writer *w, struct text *to, uint64_t process, const char *process_name);
void trace_end(struct trace_writer *w);

/* Names a track; tracks are shown in the order of their numbers. */
void trace_track(struct trace_writer *w, unsigned track, const char *name);
/* A span on a track. Spans of one track either follow each other or lie inside each other. `batch` TRACE_NO_BATCH: none. */
void trace_span(struct trace_writer *w, unsigned track, const char *category, const char *name, double begin, double duration,
                uint64_t batch);
/* A span that belongs to no track: spans of different `id` may overlap. */
void trace_async(struct trace_writer *w, const char *category, const char *name, uint64_t id, double begin, double end);
/* A quantity over time. */
void trace_counter(struct trace_writer *w, const char *name, double at, double value);

#endif
