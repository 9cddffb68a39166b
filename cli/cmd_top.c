/* cmd_top.c: `penstock top`: running pipelines of any process, live: rates, waits, stages, verdict; ranks side by side. */
#include "cli/clock.h"
#include "cli/command.h"
#include "cli/gpus.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/monitors.h"
#include "cli/prometheus.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include <inttypes.h>
#include <math.h>
#include <penstock/report.h>
#include <string.h>
#include <time.h>

#define FOLDER_SIZE  256
#define STAGE_WIDTH  28
#define BAR_WIDTH    24
#define STAGES_SHOWN 6

struct config {
    double interval;
    uint64_t port;
    const char *folder, *tensorboard;
    bool once, json, prometheus;
};

/* ---- As text ---- */

static void put_row(const struct monitored *m, const struct monitor_rates *r)
{
    const pst_stats *s = &m->now.stats;
    char ram[AMOUNT_SIZE], read[AMOUNT_SIZE], rank[32];

    snprintf(rank, sizeof(rank), "%u/%u", m->now.rank, m->now.world);
    printf("%8" PRIu64 " %6s %10.0f %9.1f %11s/s %7.0f %% %4u %5.0f %% %6.1f/%-4u %9s\n", m->now.pid, rank, r->samples,
           r->batches, amount_bytes(read, r->read_bytes), 100 * r->wait_share, s->workers, 100 * r->busy_share, s->ready_mean,
           s->prefetch, amount_bytes(ram, (double)s->ram_used));
}

/* Names come from another process: nothing in them reaches the terminal as a control character. */
static void put_name(const char *name)
{
    size_t n = put_clean(stdout, name, strnlen(name, STAGE_WIDTH));
    printf("%*s ", n < STAGE_WIDTH ? (int)(STAGE_WIDTH - n) : 0, "");
}

static void put_stages(const struct monitored *m, const struct monitor_rates *r)
{
    const pst_stats *s = &m->now.stats;

    printf("\n%s%" PRIu64 "%s  ", style_bold(stdout), m->now.pid, style_none(stdout));
    put_clean_string(stdout, m->now.pipeline);
    printf("\n  %s", monitor_verdict(r));
    if (s->stages && r->wait_share >= 0.05) {
        fputs(": ", stdout);
        put_clean_string(stdout, s->stage[r->slowest].name);
        printf(" takes %.0f %% of the workers' time", 100 * r->stage_share[r->slowest]);
    }
    putchar('\n');
    for (size_t i = 0, shown = 0; i < s->stages && shown < STAGES_SHOWN; i++) {
        if (r->stage_share[i] < 0.005)
            continue;
        fputs("  ", stdout);
        put_name(s->stage[i].name);
        terminal_bar(stdout, BAR_WIDTH, r->stage_share[i]);
        printf(" %3.0f %%\n", 100 * r->stage_share[i]);
        shown++;
    }
    if (s->stalled) {
        fputs("  stalled: ", stdout);
        put_clean_string(stdout, s->stall);
        putchar('\n');
    }
}

static void put_text(const struct monitors *m, const char *folder)
{
    struct gpu gpus[MOST_GPUS];
    size_t count = gpus_look(gpus);

    if (m->count == 0) {
        printf("No pipeline is monitored in %s.\nStart one with PENSTOCK_MONITOR=1 in its environment.\n", folder);
        return;
    }
    printf("%8s %6s %10s %9s %13s %9s %4s %7s %11s %9s\n", "pid", "rank", "samples/s", "batches/s", "read", "waiting", "jobs",
           "busy", "ready", "RAM");
    for (size_t i = 0; i < m->count; i++) {
        struct monitor_rates r = monitor_rates(&m->items[i]);

        put_row(&m->items[i], &r);
    }
    for (size_t i = 0; i < count; i++) {
        printf("\n%s  ", gpus[i].name);
        terminal_bar(stdout, BAR_WIDTH, gpus[i].share);
        printf(" %3.0f %% busy\n", 100 * gpus[i].share);
    }
    for (size_t i = 0; i < m->count; i++) {
        struct monitor_rates r = monitor_rates(&m->items[i]);

        put_stages(&m->items[i], &r);
    }
}

/* ---- As JSON ---- */

static void put_pipeline_json(struct json *j, const struct monitored *m)
{
    struct monitor_rates r = monitor_rates(m);
    const pst_stats *s = &m->now.stats;

    json_begin_object(j, NULL);
    json_uint(j, "pid", m->now.pid);
    json_uint(j, "rank", m->now.rank);
    json_uint(j, "world", m->now.world);
    json_string(j, "pipeline", m->now.pipeline);
    json_number(j, "seconds", m->now.seconds);
    json_uint(j, "samples", s->samples);
    json_uint(j, "batches", s->batches);
    json_number(j, "samples_per_s", r.samples);
    json_number(j, "batches_per_s", r.batches);
    json_number(j, "read_bytes_per_s", r.read_bytes);
    json_number(j, "wait_share", r.wait_share);
    json_number(j, "busy_share", r.busy_share);
    json_uint(j, "workers", s->workers);
    json_uint(j, "prefetch", s->prefetch);
    json_number(j, "ready_mean", s->ready_mean);
    json_uint(j, "ram_bytes", s->ram_used);
    json_string(j, "verdict", monitor_verdict(&r));
    json_bool(j, "stalled", s->stalled);
    json_begin_array(j, "stages");
    for (size_t i = 0; i < s->stages; i++) {
        json_begin_object(j, NULL);
        json_string(j, "name", s->stage[i].name);
        json_number(j, "share", r.stage_share[i]);
        json_number(j, "us_per_sample", s->stage[i].calls ? 1e-3 * (double)s->stage[i].ns / (double)s->stage[i].calls : NAN);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

static void put_json(const struct monitors *m)
{
    struct json j = json_to(stdout);
    struct gpu gpus[MOST_GPUS];
    size_t count = gpus_look(gpus);

    json_begin_object(&j, NULL);
    json_begin_array(&j, "pipelines");
    for (size_t i = 0; i < m->count; i++)
        put_pipeline_json(&j, &m->items[i]);
    json_end_array(&j);
    json_begin_array(&j, "gpus");
    for (size_t i = 0; i < count; i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "name", gpus[i].name);
        json_number(&j, "busy_share", gpus[i].share);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

/* ---- Scalars for TensorBoard ---- */

static void log_scalars(pst_scalars *log, const struct monitors *m)
{
    for (size_t i = 0; log && i < m->count; i++) {
        struct monitor_rates r = monitor_rates(&m->items[i]);
        const pst_monitor_view *v = &m->items[i].now;
        const struct {
            const char *name;
            double value;
        } values[] = {{"samples_per_s", r.samples},
                      {"wait_share", r.wait_share},
                      {"busy_share", r.busy_share},
                      {"ready", v->stats.ready_mean}};
        char tag[64];

        for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
            snprintf(tag, sizeof(tag), "%s/%" PRIu64 "-rank%u", values[k].name, v->pid, v->rank);
            pst_scalars_add(log, (int64_t)v->stats.batches, tag, values[k].value);
        }
    }
}

/* ---- The loop ---- */

static void pause_for(double seconds)
{
    double end = now_seconds() + seconds;

    while (!interrupt_requested() && now_seconds() < end) {
        struct timespec t = {.tv_nsec = (long)(1e9 * fmin(0.1, fmax(0, end - now_seconds())))};

        nanosleep(&t, NULL);
    }
}

static pst_status look_on(const struct config *c, const char *folder, struct monitors *m, pst_scalars *log, pst_error *error)
{
    pst_status status = monitors_look(m, folder, error);

    while (status == PST_OK && !interrupt_requested()) {
        pause_for(c->interval);
        if (interrupt_requested() && !c->once)
            break;
        status = monitors_look(m, folder, error);
        if (status < 0)
            break;
        log_scalars(log, m);
        if (log)
            status = pst_scalars_flush(log, error);
        if (c->json) {
            put_json(m);
        } else {
            if (!c->once && terminal_is(stdout))
                fputs("\033[H\033[2J", stdout);
            put_text(m, folder);
        }
        fflush(stdout);
        if (c->once || ferror(stdout))
            break;
    }
    return status;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    char buffer[FOLDER_SIZE];
    const char *folder = c->folder ? c->folder : monitor_folder(buffer, sizeof(buffer));
    struct monitors m = {0};
    pst_scalars *log = NULL;
    pst_error error;
    pst_status status = PST_OK;

    (void)operands;
    (void)count;
    if (!folder) {
        say_error("the path of the runtime folder is too long");
        return EXIT_FAILED;
    }
    if (c->prometheus)
        return serve_metrics(folder, (unsigned)c->port);
    if (c->tensorboard)
        status = pst_scalars_open(&log, c->tensorboard, &error);
    if (status == PST_OK)
        status = look_on(c, folder, &m, log, &error);
    if (pst_scalars_close(log, status == PST_OK ? &error : NULL) < 0 && status == PST_OK)
        status = PST_EIO;
    monitors_finish(&m);
    return status < 0 ? say_failure(&command_top, &error, c->json) : EXIT_DONE;
}

static const struct option options[] = {
    {"--once", '1', .kind = OPTION_FLAG, INTO(struct config, once), .doc = "look once and end", .group = "What to show"},
    {"--interval", 'i', "S", OPTION_FLOAT, INTO(struct config, interval), .initial = "1", .min = 0.05, .max = 3600,
     .doc = "seconds between two looks; rates are means over this time"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object per look, each on its line"},
    {"--tensorboard", .metavar = "FOLDER", .kind = OPTION_STRING, INTO(struct config, tensorboard),
     .completion = COMPLETE_FOLDERS, .doc = "also write rates and waiting shares as scalars for TensorBoard",
     .absent = "none are written", .group = "For other programs"},
    {"--prometheus", .metavar = "PORT", .kind = OPTION_UINT, INTO(struct config, port),
     .given = offsetof(struct config, prometheus), .max = 65535,
     .doc = "instead of printing, answer Prometheus at http://127.0.0.1:PORT/metrics; 0 chooses a free port. Other machines "
            "cannot connect",
     .absent = "no port is opened"},
    {"--folder", .metavar = "FOLDER", .kind = OPTION_STRING, INTO(struct config, folder), .completion = COMPLETE_FOLDERS,
     .doc = "folder of the sockets",
     .absent = "PENSTOCK_MONITOR if it is a path, $XDG_RUNTIME_DIR/penstock or /tmp/penstock-UID"},
    {0},
};

static const struct example examples[] = {
    {"watch a training run that was started with PENSTOCK_MONITOR=1", "penstock top"},
    {"one look, for a script", "penstock top --once --json"},
    {"metrics for Prometheus", "penstock top --prometheus 9477"},
    {0},
};

const struct command command_top = {
    .name = "top",
    .summary = "watch running pipelines of any process",
    .doc = "Shows rates, waiting shares, stages and a verdict of the pipelines that run with PENSTOCK_MONITOR=1 in their "
           "environment, or "
           "with --live: those of the tool, of Python programs and of C programs that set options.monitor. Ranks are shown "
           "side by "
           "side. Each pipeline has a socket in the user's runtime folder, which other users cannot open; nothing goes over a "
           "network. "
           "Where NVIDIA's management library is installed, the utilisation of the GPUs is shown too. Ctrl-C ends.",
    .usage = "",
    .options = options,
    .examples = examples,
    .config_size = sizeof(struct config),
    .run = run,
};
