/* SPDX-License-Identifier: Apache-2.0
 *
 * Processor, memory and disks of the machine, from /proc/stat, /proc/meminfo and /proc/diskstats.
 */
#include "src/tune/monitor/monitor.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "src/base/machine.h"
#include "src/tune/machine/tree.h"

static int read_proc(const char *root, const char *name, char *text, size_t size)
{
    char path[STK_TREE_PATH];
    return stk_tree_path(path, root, "proc/%s", name) && stk_tree_text(path, text, size);
}

static void count_cpu(stk_monitor_load_count *count, const char *root)
{
    char text[256]; /* the line of all processors is the first */
    uint64_t user, nice, system, idle, iowait = 0, irq = 0, softirq = 0, steal = 0;
    if (!read_proc(root, "stat", text, sizeof text)) return;
    /* What guests use is in `user` and `nice` already. */
    if (sscanf(text,
               "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64,
               &user, &nice, &system, &idle, &iowait, &irq, &softirq, &steal) < 4)
        return;
    count->has_cpu = 1;
    count->cpu_busy = user + nice + system + irq + softirq + steal;
    count->cpu_all = count->cpu_busy + idle + iowait;
}

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

static void count_disks(stk_monitor_load_count *count, const char *root)
{
    char text[32768], *rest = text;
    if (!read_proc(root, "diskstats", text, sizeof text)) return;
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

void stk_load_count_read(stk_monitor_load_count *count, const char *root)
{
    *count = (stk_monitor_load_count){ 0 };
    count_cpu(count, root);
    count_disks(count, root);
}

static void read_memory(stoke_load *load, const char *root)
{
    char text[512]; /* both lie in the first three lines */
    uint64_t total, available;
    if (!read_proc(root, "meminfo", text, sizeof text)) return;
    const char *a = strstr(text, "MemTotal:"), *b = strstr(text, "MemAvailable:");
    if (!a || sscanf(a, "MemTotal: %" SCNu64, &total) != 1) return;
    load->memory_total = stk_figure((double)total * 1024, STOKE_SOURCE_PROC);
    if (!b || sscanf(b, "MemAvailable: %" SCNu64, &available) != 1 || available > total) return;
    load->memory_used = stk_figure((double)(total - available) * 1024, STOKE_SOURCE_PROC);
}

static const stk_monitor_disk_count *find_disk(const stk_monitor_load_count *count, const char *name)
{
    for (size_t i = 0; i < count->n_disks; i++)
        if (!strcmp(count->disk[i].name, name)) return &count->disk[i];
    return NULL;
}

static void disks_between(stoke_load *load, const stk_monitor_load_count *before,
                          const stk_monitor_load_count *after, double seconds)
{
    double read = 0, written = 0, busiest = -1;
    for (size_t i = 0; i < after->n_disks; i++) {
        const stk_monitor_disk_count *now = &after->disk[i], *then = find_disk(before, now->name);
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
    *load = (stoke_load){ 0 };
    read_memory(load, root);
    /* Idle time may run backwards by a tick on some kernels: such a reading is n/a. */
    if (before->has_cpu && after->has_cpu && after->cpu_all > before->cpu_all &&
        after->cpu_busy >= before->cpu_busy &&
        after->cpu_busy - before->cpu_busy <= after->cpu_all - before->cpu_all)
        load->cpu_percent = stk_figure(100.0 * (double)(after->cpu_busy - before->cpu_busy) /
                                           (double)(after->cpu_all - before->cpu_all),
                                       STOKE_SOURCE_PROC);
    if (before->has_disks && after->has_disks && seconds > 0) disks_between(load, before, after, seconds);
}
