/* prometheus.h: the statistics of all monitored pipelines for Prometheus, on the loopback interface only. */
#ifndef CLI_PROMETHEUS_H
#define CLI_PROMETHEUS_H

#include "cli/monitors.h"
#include <stdio.h>

/* The metrics in the text format. */
void put_metrics(FILE *out, const struct monitors *m);
/* Answers requests at 127.0.0.1:port until Ctrl-C. Port 0: a free one, which is printed. Returns an exit code. */
int serve_metrics(const char *folder, unsigned port);

#endif
