/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler: one reading after the other, the newest whole, the last ones as a few figures each.
 */
#include "src/tune/monitor/monitor.h"

#include <ctype.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/tune/machine/gpus.h"
#include "src/tune/machine/tree.h"

/* A thread that reads what the links carry, every second, by cards it has opened for itself. Drivers count it
 * while the caller waits, 20 ms for each direction by NVML, a second from AMD's file: with two cards that
 * would take 80 of the 100 ms a reading has. */

#define PERIOD_NS UINT64_C(1000000000)
#define STALE_NS  (5 * PERIOD_NS) /* the driver hangs, or the card is gone */

typedef struct link_reading {
    stoke_figure to_device, from_device;
    uint64_t ns;
} link_reading;

typedef struct monitor_links {
    stoke_gpus *gpus; /* the thread's alone */
    size_t count;
    pthread_t thread;
    int started, locks_made;
    pthread_mutex_t lock;
    pthread_cond_t end;
    int stopping;          /* this and the next under the lock */
    link_reading *reading; /* one for each card */
} monitor_links;

/* 1: it is time to go. */
static int wait_until(monitor_links *links, uint64_t ns)
{
    pthread_mutex_lock(&links->lock);
    while (!links->stopping && stk_now_ns() < ns) stk_cond_wait(&links->end, &links->lock, ns);
    const int stopping = links->stopping;
    pthread_mutex_unlock(&links->lock);
    return stopping;
}

static void *run(void *argument)
{
    monitor_links *links = argument;
    stoke_gpu gpu;
    uint64_t next = stk_now_ns();
    do {
        next += PERIOD_NS;
        for (size_t i = 0; i < links->count && !wait_until(links, 0); i++) {
            stk_gpus_read_link(links->gpus, i, &gpu); /* blocks */
            pthread_mutex_lock(&links->lock);
            links->reading[i] = (link_reading){ gpu.pcie_to_device, gpu.pcie_from_device, stk_now_ns() };
            pthread_mutex_unlock(&links->lock);
        }
        if (next < stk_now_ns()) next = stk_now_ns(); /* it took longer than that */
    } while (!wait_until(links, next));
    return NULL;
}

static int start(monitor_links *links, stoke_error *err)
{
    sigset_t all, old;
    links->locks_made = !pthread_mutex_init(&links->lock, NULL) && !stk_cond_init(&links->end);
    if (!links->locks_made) return stk_fail(err, STOKE_E_NOMEM, "cannot make the locks of a thread");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the caller's */
    const int number = stk_thread_start(&links->thread, run, links);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (number) return stk_fail_errno(err, STOKE_E_NOMEM, number, "cannot start a thread");
    links->started = 1;
    pthread_setname_np(links->thread, "stoke-links");
    return STOKE_OK;
}

/* Waits for the call that is under way. */
static void links_close(monitor_links **pointer)
{
    monitor_links *links = *pointer;
    if (!links) return;
    *pointer = NULL;
    if (links->started) {
        pthread_mutex_lock(&links->lock);
        links->stopping = 1;
        pthread_cond_broadcast(&links->end);
        pthread_mutex_unlock(&links->lock);
        pthread_join(links->thread, NULL);
    }
    if (links->locks_made) {
        pthread_mutex_destroy(&links->lock);
        pthread_cond_destroy(&links->end);
    }
    stoke_gpus_close(&links->gpus);
    stk_free(links->reading);
    stk_free(links);
}

/* `cards`: how many the monitor has. *out stays NULL where there are none, or suddenly not as many. */
static int links_open(monitor_links **out, const stoke_gpus_params *params, size_t cards, stoke_error *err)
{
    *out = NULL;
    if (!cards) return STOKE_OK;
    monitor_links *links = stk_calloc(1, sizeof *links);
    if (!links) return stk_fail(err, STOKE_E_NOMEM, "no memory to watch the links of %zu cards", cards);
    links->count = cards;
    links->reading = stk_calloc(cards, sizeof *links->reading);
    int r = links->reading ? stoke_gpus_open(&links->gpus, params, err)
                           : stk_fail(err, STOKE_E_NOMEM, "no memory to watch the links of %zu cards", cards);
    const int same = !r && stoke_gpus_count(links->gpus) == cards;
    if (same) r = start(links, err);
    if (same && !r)
        *out = links;
    else
        links_close(&links);
    return r;
}

/* The newest figures into a reading of the card; old ones are none. Accepts NULL. */
static void links_take(monitor_links *links, size_t index, stoke_gpu *gpu)
{
    if (!links || gpu->lost) return;
    pthread_mutex_lock(&links->lock);
    const link_reading newest = links->reading[index];
    pthread_mutex_unlock(&links->lock);
    if (!newest.ns || stk_now_ns() - newest.ns > STALE_NS) return;
    gpu->pcie_to_device = newest.to_device;
    gpu->pcie_from_device = newest.from_device;
}

/* Processor, memory and disks of the machine, from /proc/stat, /proc/meminfo and /proc/diskstats. */

/* Disks that lie on others would count twice; those of memory and of files are no disks. */
static int is_disk(const char *name)
{
    static const char *const others[] = { "loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(name, others[i], strlen(others[i]))) return 0;
    return 1;
}

/* sda1 of sda, nvme0n1p2 of nvme0n1: the kernel lists them after their disk. */
static int is_part_of(const char *name, const char *disk)
{
    const size_t n = strlen(disk);
    if (!n || strncmp(name, disk, n) != 0) return 0;
    const char *rest = name + n;
    if (isdigit((unsigned char)disk[n - 1]) && *rest++ != 'p') return 0;
    return isdigit((unsigned char)*rest) != 0;
}

void stk_load_count_read(stk_monitor_load_count *count, const char *root)
{
    char text[32768], *rest = text;
    uint64_t user, nice, system, idle, iowait = 0, irq = 0, softirq = 0, steal = 0;
    *count = (stk_monitor_load_count){ 0 };
    /* The line of all processors is the first. What guests use is in `user` and `nice` already. */
    if (stk_tree_text(text, 256, root, "proc/stat") &&
        sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) >= 4) {
        count->has_cpu = 1;
        count->cpu_busy = user + nice + system + irq + softirq + steal;
        count->cpu_all = count->cpu_busy + idle + iowait;
    }
    if (!stk_tree_text(text, sizeof text, root, "proc/diskstats")) return;
    count->has_disks = 1;
    for (char *line; (line = strsep(&rest, "\n")) && count->n_disks < STK_DISKS;) {
        stk_monitor_disk_count disk = { 0 };
        if (sscanf(line, " %*s %*s %31s %*s %*s %" SCNu64 " %*s %*s %*s %" SCNu64 " %*s %*s %" SCNu64,
                   disk.name, &disk.read, &disk.written, &disk.busy_ms) != 4 ||
            !is_disk(disk.name))
            continue;
        if (count->n_disks && is_part_of(disk.name, count->disk[count->n_disks - 1].name)) continue;
        count->disk[count->n_disks++] = disk;
    }
}

static void disks_between(stoke_load *load, const stk_monitor_load_count *before,
                          const stk_monitor_load_count *after, double seconds)
{
    double read = 0, written = 0, busiest = -1;
    for (size_t i = 0; i < after->n_disks; i++) {
        const stk_monitor_disk_count *now = &after->disk[i], *then = NULL;
        for (size_t k = 0; !then && k < before->n_disks; k++)
            if (!strcmp(before->disk[k].name, now->name)) then = &before->disk[k];
        /* A disk that came just now, or came again with its counters at 0. */
        if (!then || now->read < then->read || now->written < then->written || now->busy_ms < then->busy_ms)
            continue;
        read += (double)(now->read - then->read) * 512;
        written += (double)(now->written - then->written) * 512;
        double busy = (double)(now->busy_ms - then->busy_ms) / (10 * seconds);
        if (busy > 100) busy = 100; /* the kernel's clock and ours are read at different moments */
        if (busy > busiest) {
            busiest = busy;
            snprintf(load->disk, sizeof load->disk, "%s", now->name);
        }
    }
    if (busiest < 0) return;
    load->disk_busy_percent = stk_figure(busiest, STOKE_SOURCE_PROC);
    load->disk_read = stk_figure(read / seconds, STOKE_SOURCE_PROC);
    load->disk_write = stk_figure(written / seconds, STOKE_SOURCE_PROC);
}

void stk_load_between(stoke_load *load, const stk_monitor_load_count *before,
                      const stk_monitor_load_count *after, double seconds, const char *root)
{
    char text[512] = ""; /* both lie in the first three lines */
    uint64_t total, available;
    *load = (stoke_load){ 0 };
    stk_tree_text(text, sizeof text, root, "proc/meminfo");
    const char *a = strstr(text, "MemTotal:"), *b = strstr(text, "MemAvailable:");
    if (a && sscanf(a, "MemTotal: %" SCNu64, &total) == 1) {
        load->memory_total = stk_figure((double)total * 1024, STOKE_SOURCE_PROC);
        if (b && sscanf(b, "MemAvailable: %" SCNu64, &available) == 1 && available <= total)
            load->memory_used = stk_figure((double)(total - available) * 1024, STOKE_SOURCE_PROC);
    }
    /* Idle time may run backwards by a tick on some kernels: such a reading is n/a. */
    if (before->has_cpu && after->has_cpu && after->cpu_all > before->cpu_all &&
        after->cpu_busy >= before->cpu_busy &&
        after->cpu_busy - before->cpu_busy <= after->cpu_all - before->cpu_all)
        load->cpu_percent = stk_figure(100.0 * (double)(after->cpu_busy - before->cpu_busy) /
                                           (double)(after->cpu_all - before->cpu_all),
                                       STOKE_SOURCE_PROC);
    if (before->has_disks && after->has_disks && seconds > 0) disks_between(load, before, after, seconds);
}

/* Of a reading the ring keeps percentages alone; negative = n/a. */
enum { MACHINE_SERIES = STOKE_SERIES_GPU, GPU_SERIES = 2, HISTORY_MOST = 1 << 20 };

struct stoke_monitor {
    stoke_gpus *gpus;
    monitor_links *links; /* NULL: nobody asked, or nothing to ask */
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
    if (!r && used.slow) r = links_open(&m->links, &gpus, m->n_gpus, err);
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
    links_close(&m->links);
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
        links_take(m->links, i, &m->gpu[i]);
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

stoke_figure stoke_monitor_history(const stoke_monitor *m, stoke_monitor_series series, size_t gpu,
                                   size_t back, size_t count)
{
    const uint64_t held = m->readings < m->history ? m->readings : m->history;
    size_t column = series, n = 0;
    int source = STOKE_SOURCE_PROC;
    double sum = 0;
    if (series >= STOKE_SERIES_GPU) {
        if (gpu >= m->n_gpus) return stk_figure(0, STOKE_SOURCE_NA);
        const stk_monitor_gpu_sums *sums = &m->gpu_sums[gpu];
        column += GPU_SERIES * gpu;
        source = series == STOKE_SERIES_GPU ? sums->busy.all.source : sums->sum[STK_GPU_MEMORY].source;
    }
    for (uint64_t i = back; i < held && i - back < count; i++) {
        const float value = m->ring[(m->readings - 1 - i) % m->history * m->row + column];
        if (value < 0) continue;
        sum += (double)value;
        n++;
    }
    return n ? stk_figure(sum / (double)n, source) : stk_figure(0, STOKE_SOURCE_NA);
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
