/* trace.h: spans of time as a file for chrome://tracing and Perfetto. Failures are the text's. */
#ifndef REPORT_TRACE_H
#define REPORT_TRACE_H

#include "base/text.h"

struct trace {
    struct text *to;
    bool any;
};

void trace_begin(struct trace *t, struct text *to);
/* Names a row of spans. */
void trace_row(struct trace *t, unsigned row, const char *name);
/* Times are in nanoseconds. */
void trace_span(struct trace *t, unsigned row, const char *name, const char *category, uint64_t begin, uint64_t duration);
void trace_end(struct trace *t);

#endif
