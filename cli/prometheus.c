/* prometheus.c: see prometheus.h. */
#include "cli/prometheus.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LOOK_MS 200

/* ---- The text ---- */

static void put_label(FILE *out, const char *s)
{
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            fprintf(out, "\\%c", *s);
        else if ((unsigned char)*s >= ' ')
            fputc(*s, out);
}

struct metric {
    const char *name, *kind, *help;
    double (*value)(const pst_stats *s);
};

static double samples(const pst_stats *s)
{
    return (double)s->samples;
}
static double batches(const pst_stats *s)
{
    return (double)s->batches;
}
static double bytes(const pst_stats *s)
{
    return (double)s->bytes;
}
static double read_bytes(const pst_stats *s)
{
    return (double)s->read_bytes;
}
static double consumer_wait(const pst_stats *s)
{
    return 1e-9 * (double)s->consumer_wait_ns;
}
static double worker_wait(const pst_stats *s)
{
    return 1e-9 * (double)s->worker_wait_ns;
}
static double worker_busy(const pst_stats *s)
{
    return 1e-9 * (double)s->worker_busy_ns;
}
static double workers(const pst_stats *s)
{
    return s->workers;
}
static double ready(const pst_stats *s)
{
    return s->ready_mean;
}
static double ram(const pst_stats *s)
{
    return (double)s->ram_used;
}
static double skipped(const pst_stats *s)
{
    return (double)s->skipped;
}

static const struct metric metrics[] = {
    {"penstock_samples_total", "counter", "Samples delivered.", samples},
    {"penstock_batches_total", "counter", "Batches delivered.", batches},
    {"penstock_bytes_total", "counter", "Bytes of the batches delivered.", bytes},
    {"penstock_read_bytes_total", "counter", "Bytes read from the source.", read_bytes},
    {"penstock_skipped_total", "counter", "Samples left out as damaged.", skipped},
    {"penstock_consumer_wait_seconds_total", "counter", "Time that the consumer waited for batches.", consumer_wait},
    {"penstock_worker_wait_seconds_total", "counter", "Time that workers waited for room, summed.", worker_wait},
    {"penstock_worker_busy_seconds_total", "counter", "Time that workers worked, summed.", worker_busy},
    {"penstock_workers", "gauge", "Workers.", workers},
    {"penstock_ready_batches", "gauge", "Mean number of batches that were ready when one was asked for.", ready},
    {"penstock_ram_bytes", "gauge", "Memory in use.", ram},
};

/* A process may have several pipelines: N of its socket PID-N.sock tells them apart. */
static void put_labels(FILE *out, const struct monitored *m)
{
    const char *name = strrchr(m->socket, '/'), *dash = strchr(name ? name : m->socket, '-');

    fprintf(out, "{pid=\"%" PRIu64 "\",rank=\"%u\",pipeline=\"%lu\"", m->now.pid, m->now.rank, dash ? strtoul(dash + 1, NULL, 10) : 0);
}

static void put_stage_metrics(FILE *out, const struct monitors *m)
{
    fputs("# HELP penstock_stage_seconds_total Time in each stage, summed over workers.\n"
          "# TYPE penstock_stage_seconds_total counter\n",
          out);
    for (size_t i = 0; i < m->count; i++) {
        const pst_monitor_view *v = &m->items[i].now;

        for (size_t k = 0; k < v->stats.stages; k++) {
            fputs("penstock_stage_seconds_total", out);
            put_labels(out, &m->items[i]);
            fputs(",stage=\"", out);
            put_label(out, v->stats.stage[k].name);
            fprintf(out, "\"} %.9g\n", 1e-9 * (double)v->stats.stage[k].ns);
        }
    }
}

void put_metrics(FILE *out, const struct monitors *m)
{
    for (size_t k = 0; k < sizeof(metrics) / sizeof(metrics[0]); k++) {
        fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", metrics[k].name, metrics[k].help, metrics[k].name, metrics[k].kind);
        for (size_t i = 0; i < m->count; i++) {
            fputs(metrics[k].name, out);
            put_labels(out, &m->items[i]);
            fprintf(out, "} %.17g\n", metrics[k].value(&m->items[i].now.stats));
        }
    }
    put_stage_metrics(out, m);
}

/* ---- The server ---- */

static int open_port(unsigned *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 8) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
        close(fd);
        return -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

static void answer(int client, const char *folder, struct monitors *m)
{
    struct timeval limit = {.tv_sec = 1};
    char request[1024], *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (out && recv(client, request, sizeof(request), 0) > 0 && monitors_look(m, folder, NULL) == PST_OK) {
        put_metrics(out, m);
        fflush(out);
        dprintf(client, "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n\r\n%s", length,
                text ? text : "");
    }
    if (out)
        fclose(out);
    free(text);
    close(client);
}

int serve_metrics(const char *folder, unsigned port)
{
    struct monitors m = {0};
    int fd = open_port(&port);

    if (fd < 0) {
        say_error("port %u of 127.0.0.1: %s", port, strerror(errno));
        return EXIT_FAILED;
    }
    printf("http://127.0.0.1:%u/metrics\n", port);
    fflush(stdout);
    while (!interrupt_requested()) {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        if (poll(&p, 1, LOOK_MS) > 0) {
            int client = accept(fd, NULL, NULL);

            if (client >= 0)
                answer(client, folder, &m);
            else
                poll(NULL, 0, LOOK_MS); /* no descriptor is left: the client still waits, so that poll would return at once */
        }
    }
    close(fd);
    monitors_finish(&m);
    return EXIT_DONE;
}
