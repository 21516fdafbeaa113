/* SPDX-License-Identifier: Apache-2.0
 *
 * The monitor's figures for Prometheus: GET /metrics, text format 0.0.4. What is n/a is left out, never 0.
 */
#ifndef STOKE_CLI_MONITOR_MONITOR_PROMETHEUS_H
#define STOKE_CLI_MONITOR_MONITOR_PROMETHEUS_H

#include "cli/monitor/monitor_view.h"

typedef struct monitor_prometheus monitor_prometheus;

/* Serves on a thread of its own. address: of this machine, in numbers; port 0: any that is free. */
int monitor_prometheus_start(monitor_prometheus **out, const char *address, unsigned port, stoke_error *err);
/* "http://127.0.0.1:9400/metrics". */
const char *monitor_prometheus_url(const monitor_prometheus *server);
/* What is served from now on; nothing of `sight` is used after the call. */
void monitor_prometheus_tell(monitor_prometheus *server, const monitor_sight *sight);
void monitor_prometheus_stop(monitor_prometheus **server); /* accepts NULL */

/* The text itself. */
void monitor_metrics_write(FILE *out, const monitor_sight *sight);

#endif
