/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler: one reading after the other, the newest whole, the last ones as a few figures each.
 */
#include "src/tune/monitor/monitor.h"

#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/tune/machine/tree.h"

/* Of a reading the ring keeps percentages alone; negative = n/a. */
enum { MACHINE_SERIES = STOKE_SERIES_GPU, GPU_SERIES = 2, HISTORY_MOST = 1 << 20 };

struct stoke_monitor {
    stoke_gpus *gpus;
    stk_monitor_links *links; /* NULL: nobody asked, or nothing to ask */
    size_t n_gpus;
    char *root;
    stk_monitor_load_count count;
    uint64_t opened_ns, last_ns, readings;
    stoke_load load;
    stoke_gpu *gpu;
    stk_monitor_load_sums load_sums;
    stk_monitor_gpu_sums *gpu_sums;
    float *ring; /* history x row */
    size_t history, row;
};

stoke_monitor_params stoke_monitor_defaults(void)
{
    /* Five minutes at ten readings a second. */
    return (stoke_monitor_params){ .struct_size = sizeof(stoke_monitor_params), .history = 3000, .slow = 1 };
}

static int make_room(stoke_monitor *m, const stoke_monitor_params *params, stoke_error *err)
{
    m->n_gpus = stoke_gpus_count(m->gpus);
    m->history = params->history;
    m->row = MACHINE_SERIES + GPU_SERIES * m->n_gpus;
    m->root = stk_strdup(params->root ? params->root : "");
    m->gpu = stk_calloc(m->n_gpus + 1, sizeof *m->gpu);
    m->gpu_sums = stk_calloc(m->n_gpus + 1, sizeof *m->gpu_sums);
    m->ring = stk_calloc(m->history, m->row * sizeof *m->ring);
    if (m->root && m->gpu && m->gpu_sums && m->ring) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "out of memory for %zu readings of %zu cards; keep fewer readings",
                    m->history, m->n_gpus);
}

int stoke_monitor_open(stoke_monitor **out, const stoke_monitor_params *params, stoke_error *err)
{
    const stoke_monitor_params used = params ? *params : stoke_monitor_defaults();
    *out = NULL;
    if (used.struct_size != sizeof used) return stk_fail_struct(err, "stoke_monitor_defaults");
    if (!used.history || used.history > HISTORY_MOST)
        return stk_fail(err, STOKE_E_INVALID, "history: %u readings; 1 to %d can be kept", used.history,
                        HISTORY_MOST);
    stoke_monitor *m = stk_calloc(1, sizeof *m);
    if (!m) return stk_fail(err, STOKE_E_NOMEM, "out of memory for the monitor");
    stoke_gpus_params gpus = stoke_gpus_defaults();
    gpus.nvml = used.nvml;
    gpus.root = used.root;
    int r = stoke_gpus_open(&m->gpus, &gpus, err);
    if (!r) r = make_room(m, &used, err);
    if (!r && used.slow) r = stk_links_open(&m->links, &gpus, m->n_gpus, err);
    if (r) {
        stoke_monitor_close(&m);
        return r;
    }
    /* Some figures of cards are differences too: this reading is their beginning. */
    for (size_t i = 0; i < m->n_gpus; i++) stoke_gpus_read(m->gpus, i, &m->gpu[i]);
    stk_load_count_read(&m->count, m->root);
    m->opened_ns = m->last_ns = stk_now_ns();
    *out = m;
    return STOKE_OK;
}

void stoke_monitor_close(stoke_monitor **monitor)
{
    stoke_monitor *m = *monitor;
    if (!m) return;
    stk_links_close(&m->links);
    stoke_gpus_close(&m->gpus);
    stk_free(m->root);
    stk_free(m->gpu);
    stk_free(m->gpu_sums);
    stk_free(m->ring);
    stk_free(m);
    *monitor = NULL;
}

size_t stoke_monitor_gpus(const stoke_monitor *monitor)
{
    return monitor->n_gpus;
}

const char *stoke_monitor_why(const stoke_monitor *monitor)
{
    return stoke_gpus_why(monitor->gpus);
}

static float kept(stoke_figure figure)
{
    return figure.source ? (float)figure.value : -1.0f;
}

static float kept_share(stoke_figure part, stoke_figure whole)
{
    return part.source && whole.source && whole.value > 0 ? (float)(100 * part.value / whole.value) : -1.0f;
}

static void keep(stoke_monitor *m)
{
    float *row = m->ring + m->readings % m->history * m->row;
    row[STOKE_SERIES_CPU] = kept(m->load.cpu_percent);
    row[STOKE_SERIES_MEMORY] = kept_share(m->load.memory_used, m->load.memory_total);
    row[STOKE_SERIES_DISK] = kept(m->load.disk_busy_percent);
    for (size_t i = 0; i < m->n_gpus; i++) {
        float *card = row + MACHINE_SERIES + GPU_SERIES * i;
        card[0] = kept(m->gpu[i].busy_percent);
        card[1] = kept_share(m->gpu[i].memory_used, m->gpu[i].memory_total);
    }
}

void stoke_monitor_read(stoke_monitor *m)
{
    stk_monitor_load_count count;
    const uint64_t now = stk_now_ns();
    const double seconds = (double)(now - m->last_ns) / 1e9;
    stk_load_count_read(&count, m->root);
    stk_load_between(&m->load, &m->count, &count, seconds, m->root);
    stk_load_sums_add(&m->load_sums, &m->load);
    for (size_t i = 0; i < m->n_gpus; i++) {
        stoke_gpus_read(m->gpus, i, &m->gpu[i]);
        stk_links_take(m->links, i, &m->gpu[i]);
        stk_gpu_sums_add(&m->gpu_sums[i], &m->gpu[i], seconds);
    }
    keep(m);
    m->count = count;
    m->last_ns = now;
    m->readings++;
}

const stoke_load *stoke_monitor_load(const stoke_monitor *monitor)
{
    return &monitor->load;
}

const stoke_gpu *stoke_monitor_gpu(const stoke_monitor *monitor, size_t index)
{
    return &monitor->gpu[index];
}

static int source_of(const stoke_monitor *m, stoke_monitor_series series, size_t gpu)
{
    if (series < STOKE_SERIES_GPU) return STOKE_SOURCE_PROC;
    const stk_monitor_gpu_sums *sums = &m->gpu_sums[gpu];
    return series == STOKE_SERIES_GPU ? sums->busy.all.source : sums->memory.source;
}

stoke_figure stoke_monitor_history(const stoke_monitor *m, stoke_monitor_series series, size_t gpu,
                                   size_t back, size_t count)
{
    const uint64_t held = m->readings < m->history ? m->readings : m->history;
    size_t column = series, n = 0;
    double sum = 0;
    if (series >= STOKE_SERIES_GPU) {
        if (gpu >= m->n_gpus) return stk_figure(0, STOKE_SOURCE_NA);
        column += GPU_SERIES * gpu;
    }
    for (uint64_t i = back; i < held && i - back < count; i++) {
        const float value = m->ring[(m->readings - 1 - i) % m->history * m->row + column];
        if (value < 0) continue;
        sum += (double)value;
        n++;
    }
    return n ? stk_figure(sum / (double)n, source_of(m, series, gpu)) : stk_figure(0, STOKE_SOURCE_NA);
}

void stoke_monitor_summarise(const stoke_monitor *monitor, stoke_monitor_summary *summary)
{
    *summary = (stoke_monitor_summary){ 0 };
    summary->seconds = (double)(monitor->last_ns - monitor->opened_ns) / 1e9;
    summary->readings = monitor->readings;
    stk_load_sums_finish(&monitor->load_sums, summary);
}

void stoke_monitor_summarise_gpu(const stoke_monitor *monitor, size_t index, stoke_gpu_summary *summary)
{
    stk_gpu_sums_finish(&monitor->gpu_sums[index], summary);
}
