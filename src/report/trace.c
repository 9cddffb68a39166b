/* trace.c: see trace.h. */
#include "report/trace.h"

#include <string.h>

static void next(struct trace *t)
{
    text_add(t->to, t->any ? ",\n" : "\n");
    t->any = true;
}

void trace_begin(struct trace *t, struct text *to)
{
    *t = (struct trace){.to = to};
    text_add(to, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
}

void trace_row(struct trace *t, unsigned row, const char *name)
{
    next(t);
    text_addf(t->to, "{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":", row);
    text_add_json(t->to, name, strlen(name));
    text_add(t->to, "}}");
}

void trace_span(struct trace *t, unsigned row, const char *name, const char *category, uint64_t begin, uint64_t duration)
{
    next(t);
    text_addf(t->to, "{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":", row, (double)begin / 1e3, (double)duration / 1e3);
    text_add_json(t->to, name, strlen(name));
    text_add(t->to, ",\"cat\":");
    text_add_json(t->to, category, strlen(category));
    text_add(t->to, "}");
}

void trace_end(struct trace *t)
{
    text_add(t->to, "\n]}\n");
}
