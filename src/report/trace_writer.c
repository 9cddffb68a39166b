/* trace_writer.c: see trace_writer.h. */
#include "report/trace_writer.h"

static void begin_event(struct trace_writer *w, const char *phase, const char *category, const char *name, double at)
{
    json_begin_object(&w->json, NULL);
    json_string(&w->json, "ph", phase);
    json_string(&w->json, "name", name);
    if (category)
        json_string(&w->json, "cat", category);
    json_uint(&w->json, "pid", w->process);
    json_number(&w->json, "ts", at);
}

static void add_name(struct trace_writer *w, const char *what, unsigned track, const char *name)
{
    json_begin_object(&w->json, NULL);
    json_string(&w->json, "ph", "M");
    json_string(&w->json, "name", what);
    json_uint(&w->json, "pid", w->process);
    json_uint(&w->json, "tid", track);
    json_begin_object(&w->json, "args");
    json_string(&w->json, "name", name);
    json_end_object(&w->json);
    json_end_object(&w->json);
}

void trace_begin(struct trace_writer *w, struct text *to, uint64_t process, const char *process_name)
{
    *w = (struct trace_writer){.json = {.put = text_put, .to = to}, .process = process};
    json_begin_object(&w->json, NULL);
    json_string(&w->json, "displayTimeUnit", "ms");
    json_begin_array(&w->json, "traceEvents");
    json_lines(&w->json);
    add_name(w, "process_name", 0, process_name);
}

void trace_end(struct trace_writer *w)
{
    json_end_array(&w->json);
    json_end_object(&w->json);
    w->json.put(w->json.to, "\n", 1);
}

void trace_track(struct trace_writer *w, unsigned track, const char *name)
{
    add_name(w, "thread_name", track, name);
    json_begin_object(&w->json, NULL);
    json_string(&w->json, "ph", "M");
    json_string(&w->json, "name", "thread_sort_index");
    json_uint(&w->json, "pid", w->process);
    json_uint(&w->json, "tid", track);
    json_begin_object(&w->json, "args");
    json_uint(&w->json, "sort_index", track);
    json_end_object(&w->json);
    json_end_object(&w->json);
}

void trace_span(struct trace_writer *w, unsigned track, const char *category, const char *name, double begin, double duration,
                uint64_t batch)
{
    begin_event(w, "X", category, name, begin);
    json_uint(&w->json, "tid", track);
    json_number(&w->json, "dur", duration);
    if (batch != TRACE_NO_BATCH) {
        json_begin_object(&w->json, "args");
        json_uint(&w->json, "batch", batch);
        json_end_object(&w->json);
    }
    json_end_object(&w->json);
}

void trace_async(struct trace_writer *w, const char *category, const char *name, uint64_t id, double begin, double end)
{
    for (int i = 0; i < 2; i++) {
        begin_event(w, i ? "e" : "b", category, name, i ? end : begin);
        json_uint(&w->json, "tid", 0);
        json_format(&w->json, "id", "%#llx", (unsigned long long)id);
        json_end_object(&w->json);
    }
}

void trace_counter(struct trace_writer *w, const char *name, double at, double value)
{
    begin_event(w, "C", NULL, name, at);
    json_begin_object(&w->json, "args");
    json_number(&w->json, "value", value);
    json_end_object(&w->json);
    json_end_object(&w->json);
}
