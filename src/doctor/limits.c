/* limits.c: what the machine can do: cores, memory, the cost of handing over a batch. Measured in about a second and kept for a day in
 * the cache folder, because it changes only when the machine does. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/publish.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KEEP_SECONDS 86400.0
#define CACHE_NAME   "doctor-limits.json"
#define BUSY         0.7 /* load per core from which on the machine is not ours alone */
#define USUAL_SCALING 0.93

/* ---- What the system says ---- */

/* Total and stolen time of all cores since the start, in ticks. */
static bool read_ticks(double *ret_total, double *ret_steal)
{
    unsigned long long v[8] = {0};
    FILE *f = fopen("/proc/stat", "re");
    int n = f ? fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) : 0;
    if (f)
        fclose(f);
    *ret_total = 0;
    for (int i = 0; i < n; i++)
        *ret_total += (double)v[i];
    *ret_steal = (double)v[7];
    return n == 8;
}

static double read_quota(void)
{
    char max[32];
    double period = 0, quota = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (f && fscanf(f, "%31s %lf", max, &period) == 2 && strcmp(max, "max") != 0 && period > 0) {
        double value = 0;
        if (sscanf(max, "%lf", &value) == 1)
            quota = value / period;
    }
    if (f)
        fclose(f);
    return quota;
}

static void ask_system(struct limits *l)
{
    double average = 0;
    FILE *f = fopen("/proc/loadavg", "re");
    if (!f || fscanf(f, "%lf", &average) != 1)
        average = 0;
    if (f)
        fclose(f);
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), online = sysconf(_SC_NPROCESSORS_ONLN);
    l->cores = cpu_cores();
    l->cores_online = online > 0 ? (unsigned)online : l->cores;
    l->quota = read_quota();
    l->load = average / l->cores_online;
    l->memory_total = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    l->memory_available = cpu_memory_available();
}

/* ---- Measurements ---- */

#define COPY_BYTES ((size_t)32 << 20)

struct load {
    double *done; /* work per thread and second; of computing: per second of CPU time */
    uint64_t until;
    uint8_t **block; /* per thread; NULL: compute instead of copying */
};

/* A chain of dependent multiplications: no memory, no vector units. */
static uint64_t compute(uint64_t x, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

double limits_thread_seconds(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

static void work(void *user, unsigned worker)
{
    struct load *l = user;
    volatile uint64_t keep = worker;
    double done = 0, begin = limits_thread_seconds();
    uint64_t since = clock_ns();
    while (clock_ns() < l->until) {
        if (l->block) {
            memcpy(l->block[worker], l->block[worker] + COPY_BYTES / 2, COPY_BYTES / 2);
            done += (double)COPY_BYTES; /* read and written */
        } else {
            keep = compute(keep, 20000);
            done += 1;
        }
    }
    double passed = l->block ? (double)(clock_ns() - since) * 1e-9 : limits_thread_seconds() - begin;
    l->done[worker] = passed > 0 ? done / passed : 0;
}

/* The work of `threads` threads per second, measured for `seconds`; 0: out of memory or threads. */
static double run_load(unsigned threads, double seconds, bool copies)
{
    struct load l = {.done = mem_array(threads, sizeof(double)), .block = copies ? mem_array(threads, sizeof(uint8_t *)) : NULL};
    struct thread_group *group = NULL;
    double sum = 0;
    bool ready = l.done && (!copies || l.block);
    for (unsigned i = 0; ready && copies && i < threads; i++) {
        l.block[i] = mem_large(COPY_BYTES);
        ready = l.block[i] != NULL;
        if (ready)
            memset(l.block[i], 1, COPY_BYTES);
    }
    uint64_t begin = clock_ns();
    l.until = begin + (uint64_t)(1e9 * seconds);
    if (ready && thread_group_start(&group, threads, "doctor", work, &l, NULL) == PST_OK) {
        thread_group_join(group);
        for (unsigned i = 0; i < threads; i++)
            sum += l.done[i];
    }
    for (unsigned i = 0; l.block && i < threads; i++)
        mem_free(l.block[i]);
    mem_free(l.block);
    mem_free(l.done);
    return sum;
}

/* The cost of a batch beyond its elements: batches of one number against batches of many. */
static pst_status measure_handoff(struct pst_doctor *d, pst_error *reterr)
{
    struct draft one = {0};
    struct trial small, large;
    pst_pipeline_options options = {.size = sizeof(options)};
    pst_status st = draft_parse(&one, "range 1000000 | batch 1", &options, NULL, reterr);
    if (st == PST_OK)
        st = doctor_trial(d, &one, doctor_span(d, 0.15, 0.15), false, &small, reterr);
    if (st == PST_OK) {
        draft_set(&one, 1, "batch 512");
        st = doctor_trial(d, &one, doctor_span(d, 0.15, 0.15), false, &large, reterr);
    }
    if (st == PST_OK) {
        double us = small.cpu_us - large.cpu_us;
        d->limits.handoff_us = us > 0 ? us : 0;
    }
    draft_finish(&one);
    return st;
}

/* ---- Keeping ---- */

static bool load_kept(struct pst_doctor *d, const char *path)
{
    struct limits *l = &d->limits;
    struct json_document doc = {0};
    uint8_t *data = NULL;
    size_t length;
    double at = 0, cores = 0, age = 0;
    bool fresh = false;
    if (file_read_all(&data, &length, path, 65536, NULL) == PST_OK && json_parse(&doc, (const char *)data, length, NULL) == PST_OK &&
        json_get_number(&doc, json_find(&doc, 0, "measured_at"), &at) && json_get_number(&doc, json_find(&doc, 0, "cores"), &cores)) {
        age = (double)time(NULL) - at;
        fresh = age >= 0 && age < KEEP_SECONDS && cores == l->cores &&
                json_get_number(&doc, json_find(&doc, 0, "memory_bandwidth"), &l->memory_bandwidth) &&
                json_get_number(&doc, json_find(&doc, 0, "scaling"), &l->scaling) &&
                json_get_number(&doc, json_find(&doc, 0, "handoff_us"), &l->handoff_us);
        l->measured_at = at;
    }
    json_finish(&doc);
    mem_free(data);
    return fresh;
}

/* A cache that cannot be written is not an error: the next examination measures again. */
static void keep(const struct limits *l, const char *folder, const char *path)
{
    struct text t = {0};
    struct json j = {.put = text_put, .to = &t};
    json_begin_object(&j, NULL);
    json_number(&j, "measured_at", l->measured_at);
    json_uint(&j, "cores", l->cores);
    json_number(&j, "memory_bandwidth", l->memory_bandwidth);
    json_number(&j, "scaling", l->scaling);
    json_number(&j, "handoff_us", l->handoff_us);
    json_end_object(&j);
    if (!t.failed && file_make_folder(folder, NULL) == PST_OK)
        (void)publish_bytes(path, t.data, t.length, true, false, NULL);
    text_finish(&t);
}

static pst_status measure(struct pst_doctor *d, pst_error *reterr)
{
    struct limits *l = &d->limits;
    double seconds = doctor_span(d, 0.1, 0.2), total[2], steal[2];
    bool known = read_ticks(&total[0], &steal[0]);
    double best = 0;
    for (int i = 0; i < 3; i++) { /* the best of a few: other programs only ever make it less */
        double one = run_load(1, seconds / 2, false), all = run_load(l->cores, seconds / 2, false);
        double scaling = one > 0 ? all / one : 0;
        best = scaling > best ? scaling : best;
    }
    best = l->load > BUSY ? USUAL_SCALING * l->cores : best; /* what others run on the same core cannot be told apart */
    l->scaling = best < 1 ? 1 : best > l->cores ? l->cores : best;
    l->memory_bandwidth = run_load(l->cores, seconds, true);
    pst_status st = measure_handoff(d, reterr);
    if (known && read_ticks(&total[1], &steal[1]) && total[1] > total[0])
        l->steal = (steal[1] - steal[0]) / (total[1] - total[0]);
    l->measured_at = (double)time(NULL);
    return st;
}

pst_status limits_measure(struct pst_doctor *d, pst_error *reterr)
{
    const char *folder = d->options.cache_dir;
    char *path = folder ? file_join(folder, CACHE_NAME) : NULL;
    pst_status st = doctor_tick(d, "measuring the machine", reterr);
    ask_system(&d->limits);
    if (st == PST_OK && (!path || !load_kept(d, path))) {
        st = measure(d, reterr);
        bool brief = doctor_span(d, 1, 2) < 1; /* less time for this than in the quick one */
        if (st == PST_OK && path && d->limits.load < BUSY && !brief)
            keep(&d->limits, folder, path);
    }
    mem_free(path);
    return st;
}
