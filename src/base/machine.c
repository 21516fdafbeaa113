/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may use of the machine: a container with 2 of 64 cores must not start 64 workers.
 */
#include <stoke/tools/machine.h>

#include "src/base/machine.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/launch.h"

enum {
    PATH_BYTES = 4096,
    CPUS_MAX = 8192,     /* the largest NR_CPUS Linux can be built with */
    NUMBER_MAX = 1 << 20 /* of a processor or node: far beyond any */
};

int stk_machine_read_text(const char *path, char *text, size_t size)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    size_t used = 0;
    ssize_t got;
    while (used < size - 1 && (got = read(file, text + used, size - 1 - used)) > 0) used += (size_t)got;
    close(file);
    text[used] = 0;
    return used > 0;
}

/* root + group + name, e.g. /sys/fs/cgroup + /a/b + /cpu.max. Paths that do not fit count as absent. */
static int read_group_file(const char *root, const char *group, const char *name, char *text, size_t size)
{
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s%s%s", root, group, name);
    return n > 0 && (size_t)n < sizeof path && stk_machine_read_text(path, text, size);
}

/* v2 has "QUOTA PERIOD" (or "max PERIOD") in one file, v1 two files with quota -1 for none. */
static double group_quota(const char *root, const char *group, int v2)
{
    char text[128];
    long long quota = 0, period = 0;
    if (v2) {
        if (!read_group_file(root, group, "/cpu.max", text, sizeof text)) return 0;
        if (sscanf(text, "%lld %lld", &quota, &period) != 2) return 0;
    } else {
        if (!read_group_file(root, group, "/cpu.cfs_quota_us", text, sizeof text)) return 0;
        quota = strtoll(text, NULL, 10);
        if (!read_group_file(root, group, "/cpu.cfs_period_us", text, sizeof text)) return 0;
        period = strtoll(text, NULL, 10);
    }
    return quota > 0 && period > 0 ? (double)quota / (double)period : 0;
}

/* A figure of one group, 0 = none; which one counts where several have it. */
typedef struct group_figure {
    double (*of)(const char *root, const char *group, int v2);
    int nearest; /* the process's own group: what it counts. Else the tightest: a parent's limit binds all its
                    children */
} group_figure;

/* From the group up to the root. A group that is not visible here (a container may see only its own part of
 * the tree, mounted as the root) is passed over. `group` is shortened on the way. */
static double hierarchy_figure(const char *root, char *group, int v2, const group_figure *figure)
{
    double tightest = 0;
    /* "/../.." is how the kernel names a group outside our namespace: only the root is ours to see. */
    if (strstr(group, "/..")) *group = 0;
    for (;;) {
        char *end = group + strlen(group);
        while (end > group && end[-1] == '/') *--end = 0;
        double limit = figure->of(root, group, v2);
        if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
        if (end == group || (figure->nearest && tightest > 0)) return tightest;
        *strrchr(group, '/') = 0;
    }
}

/* True when the comma-separated list of v1 controllers has this name (not only "cpuset" for "cpu"). */
static int has_controller(const char *list, size_t length, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i + n <= length; i++)
        if (!strncmp(list + i, name, n) && (i == 0 || list[i - 1] == ',') &&
            (i + n == length || list[i + n] == ','))
            return 1;
    return 0;
}

/* One line of /proc/self/cgroup: "0::/group" for v2, "4:cpu,cpuacct:/group" for v1. */
static double line_figure(const char *cgroup, char *line, const char *controller, const group_figure *figure)
{
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || group[1] != '/') return 0;
    size_t length = (size_t)(group - controllers - 1);
    group++;
    if (length == 0) return hierarchy_figure(cgroup, group, 1, figure);
    if (!has_controller(controllers + 1, length, controller)) return 0;
    char root[PATH_BYTES];
    /* The folder carries the list's name; "cpu" alone is a usual symbolic link to it. */
    int n = snprintf(root, sizeof root, "%s/%.*s", cgroup, (int)length, controllers + 1);
    if (n < 0 || (size_t)n >= sizeof root) return 0;
    if (access(root, X_OK) != 0) snprintf(root, sizeof root, "%s/%s", cgroup, controller);
    return hierarchy_figure(root, group, 0, figure);
}

/* The least of all groups of the process. */
static double process_figure(const char *proc, const char *cgroup, const char *controller,
                             const group_figure *figure)
{
    char text[16384], *rest = text;
    if (!read_group_file(proc, "", "/self/cgroup", text, sizeof text)) return 0;
    double tightest = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        double limit = line_figure(cgroup, line, controller, figure);
        if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
    }
    return tightest;
}

double stk_machine_quota(const char *proc, const char *cgroup)
{
    return process_figure(proc, cgroup, "cpu", &(group_figure){ .of = group_quota });
}

stk_machine_cpu_list stk_cpu_list_begin(const char *text)
{
    return (stk_machine_cpu_list){ text, 0, -1 };
}

int stk_cpu_list_next(stk_machine_cpu_list *list, long *number)
{
    if (list->next > list->last) {
        char *end;
        const long first = strtol(list->at, &end, 10);
        if (end == list->at || first < 0 || first > NUMBER_MAX) return 0;
        long last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        list->at = *end == ',' ? end + 1 : end;
        list->next = first;
        list->last = last < first ? first : last > NUMBER_MAX ? NUMBER_MAX : last;
    }
    *number = list->next++;
    return 1;
}

unsigned stk_cpu_list_count(const char *text)
{
    stk_machine_cpu_list list = stk_cpu_list_begin(text);
    unsigned count = 0;
    for (long number; count < CPUS_MAX && stk_cpu_list_next(&list, &number);) count++;
    return count;
}

static double group_cpus(const char *root, const char *group, int v2)
{
    char text[8192];
    if (!read_group_file(root, group, v2 ? "/cpuset.cpus.effective" : "/cpuset.effective_cpus", text,
                         sizeof text) &&
        (v2 || !read_group_file(root, group, "/cpuset.cpus", text, sizeof text)))
        return 0;
    return stk_cpu_list_count(text);
}

unsigned stk_machine_allowed(const char *proc, const char *cgroup)
{
    return (unsigned)process_figure(proc, cgroup, "cpuset",
                                    &(group_figure){ .of = group_cpus, .nearest = 1 });
}

unsigned stk_machine_usable(unsigned affinity, double quota)
{
    unsigned usable = affinity;
    if (quota > 0 && ceil(quota) < usable) usable = (unsigned)ceil(quota);
    return usable ? usable : 1;
}

/* The part of one of the host's processes, were none bound to cores. */
static unsigned part_of(const stoke_cores *cores, uint32_t local_rank)
{
    const unsigned all = stk_machine_usable(cores->allowed, cores->quota);
    const unsigned part = all / cores->processes + (local_rank < all % cores->processes);
    return part ? part : 1;
}

void stk_machine_divide(stoke_cores *cores, const stoke_comm_launch *launch)
{
    if (cores->allowed < cores->affinity) cores->allowed = cores->affinity;
    cores->processes = launch->local_world ? launch->local_world : 1;
    cores->usable = stk_machine_usable(cores->affinity, cores->quota);
    /* Also where the launcher binds: four processes bound to two sockets share each of them. */
    const unsigned part = part_of(cores, launch->local_rank);
    if (cores->processes > 1 && part < cores->usable) cores->usable = part;
}

int stk_machine_remark(const stoke_cores *cores, const stoke_comm_launch *launch, char *text, size_t size)
{
    const unsigned all = stk_machine_usable(cores->allowed, cores->quota), n = cores->processes;
    const char *unbind = stk_launcher_unbind(launch->launcher);
    if (unbind && cores->affinity < part_of(cores, launch->local_rank))
        return snprintf(text, size, "%s bound this rank to %u of %u cores: %s",
                        stoke_comm_launcher_name(launch->launcher), cores->affinity, cores->allowed,
                        unbind) > 0;
    if (n < 2) return 0;
    const int used =
        snprintf(text, size, "%u processes share this host's %u core%s: ", n, all, all == 1 ? "" : "s");
    if (used < 0 || (size_t)used >= size) return 0;
    text += used, size -= (size_t)used;
    if (all < n) return snprintf(text, size, "fewer than one each") > 0;
    return (all % n ? snprintf(text, size, "%u or %u each", all / n, all / n + 1)
                    : snprintf(text, size, "%u each", all / n)) > 0;
}

stoke_cores stoke_machine_cores(void)
{
    stoke_cores cores = { 0 };
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    cores.online = online > 0 ? (unsigned)online : 1;
    cpu_set_t mask[CPUS_MAX / CPU_SETSIZE];
    memset(mask, 0, sizeof mask);
    if (sched_getaffinity(0, sizeof mask, mask) == 0)
        cores.affinity = (unsigned)CPU_COUNT_S(sizeof mask, mask);
    if (!cores.affinity) cores.affinity = cores.online;
    cores.quota = stk_machine_quota("/proc", "/sys/fs/cgroup");
    cores.allowed = stk_machine_allowed("/proc", "/sys/fs/cgroup");
    if (!cores.allowed || cores.allowed > cores.online) cores.allowed = cores.online;
    const stoke_comm_launch launch = stoke_comm_launch_of(NULL);
    stk_machine_divide(&cores, &launch);
    return cores;
}

int stoke_machine_cores_remark(char *text, size_t size)
{
    const stoke_cores cores = stoke_machine_cores();
    const stoke_comm_launch launch = stoke_comm_launch_of(NULL);
    return stk_machine_remark(&cores, &launch, text, size);
}

/* The value of "key : value" or "key value" at the start of a line, or NULL. */
static char *find_value(char *text, const char *key)
{
    size_t length = strlen(key);
    for (char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        if (strncmp(line, key, length) != 0 || !strchr(" \t:", line[length]) || !line[length]) continue;
        return line + length + strspn(line + length, " \t:");
    }
    return NULL;
}

/* A line of proc/self/status or proc/meminfo, which count in kB. */
static uint64_t proc_bytes(const char *proc, const char *file, const char *key)
{
    char text[8192];
    if (!read_group_file(proc, "", file, text, sizeof text)) return 0;
    const char *value = find_value(text, key);
    return value ? (uint64_t)strtoull(value, NULL, 10) * 1024 : 0;
}

uint64_t stk_machine_memory(const char *proc)
{
    return proc_bytes(proc, "/meminfo", "MemTotal");
}

uint64_t stk_machine_peak_rss(const char *proc)
{
    return proc_bytes(proc, "/self/status", "VmHWM");
}

uint64_t stk_machine_rss(const char *proc)
{
    return proc_bytes(proc, "/self/status", "VmRSS");
}

uint64_t stk_machine_data(const char *proc)
{
    return proc_bytes(proc, "/self/status", "VmData");
}

/* schedstat of a thread: "ran stood slices". */
int stk_machine_run_queue(const char *proc, uint64_t *ran_ns, uint64_t *stood_ns)
{
    char path[512], text[96];
    int n = 0;
    *ran_ns = *stood_ns = 0;
    if (snprintf(path, sizeof path, "%s/self/task", proc) >= (int)sizeof path) return 0;
    DIR *tasks = opendir(path);
    if (!tasks) return 0;
    for (const struct dirent *entry; (entry = readdir(tasks));) {
        if (*entry->d_name == '.' ||
            snprintf(path, sizeof path, "/self/task/%s/schedstat", entry->d_name) >= (int)sizeof path ||
            !read_group_file(proc, "", path, text, sizeof text))
            continue;
        char *end;
        *ran_ns += strtoull(text, &end, 10);
        *stood_ns += strtoull(end, NULL, 10);
        n++;
    }
    closedir(tasks);
    return n;
}

/* Of a line "key number" of memory.stat; 0 where there is none. */
static double stat_number(char *text, const char *key)
{
    const char *value = find_value(text, key);
    return value ? strtod(value, NULL) : 0;
}

/* The limit itself, whatever is used of it. */
static double group_memory(const char *root, const char *group, int v2)
{
    char limit[64];
    if (!read_group_file(root, group, v2 ? "/memory.max" : "/memory.limit_in_bytes", limit, sizeof limit) ||
        !isdigit((unsigned char)*limit))
        return 0;
    const double bytes = strtod(limit, NULL);
    return bytes < 0x1p62 ? bytes : 0; /* v1 says "no limit" with 2^63 less a page, of up to 64 KB */
}

/* What a group may still take: its limit less what it holds, page cache left out. At least 1: 0 is none. */
static double group_room(const char *root, const char *group, int v2)
{
    char used[64], stat[16384];
    const double limit = group_memory(root, group, v2);
    if (limit == 0 ||
        !read_group_file(root, group, v2 ? "/memory.current" : "/memory.usage_in_bytes", used, sizeof used) ||
        !isdigit((unsigned char)*used))
        return 0;
    double room = limit - strtod(used, NULL);
    if (read_group_file(root, group, "/memory.stat", stat, sizeof stat))
        room += stat_number(stat, v2 ? "active_file" : "total_active_file") +
                stat_number(stat, v2 ? "inactive_file" : "total_inactive_file");
    return room > 1 ? room : 1;
}

uint64_t stk_machine_available(const char *proc, const char *cgroup)
{
    const uint64_t memory = proc_bytes(proc, "/meminfo", "MemAvailable"); /* 0: a kernel before 3.14 */
    const double system = memory ? (double)(memory + proc_bytes(proc, "/meminfo", "SwapFree")) : INFINITY;
    const double groups = process_figure(proc, cgroup, "memory", &(group_figure){ .of = group_room });
    const double least = groups > 0 && groups < system ? groups : system;
    return least < 0x1p63 ? (uint64_t)least : UINT64_MAX; /* v1 says "no limit" with 2^63 - 4096 */
}

uint64_t stk_machine_memory_limit(const char *proc, const char *cgroup)
{
    return (uint64_t)process_figure(proc, cgroup, "memory", &(group_figure){ .of = group_memory });
}

/* One more than the count, for 0 is none: where even the file is not there. In v2 a group's count has those
 * of the groups below it, in v1 it has not. */
static double group_kills(const char *root, const char *group, int v2)
{
    char text[1024];
    if (!read_group_file(root, group, v2 ? "/memory.events" : "/memory.oom_control", text, sizeof text))
        return 0;
    return 1 + stat_number(text, "oom_kill");
}

uint64_t stk_machine_oom_kills(const char *proc, const char *cgroup)
{
    const double kills =
        process_figure(proc, cgroup, "memory", &(group_figure){ .of = group_kills, .nearest = 1 });
    return kills >= 1 && kills < 0x1p53 ? (uint64_t)kills - 1 : 0;
}

void stk_machine_cpu_name(const char *proc, char *name, size_t size)
{
    char text[4096];
    snprintf(name, size, "n/a");
    if (!read_group_file(proc, "", "/cpuinfo", text, sizeof text)) return;
    char *value = find_value(text, "model name");
    if (!value) return;
    value[strcspn(value, "\n")] = 0;
    for (char *end = value + strlen(value); end > value && isspace((unsigned char)end[-1]);) *--end = 0;
    if (*value) snprintf(name, size, "%s", value);
}

static pthread_once_t name_once = PTHREAD_ONCE_INIT;
static char name_text[128];

static void read_name(void)
{
    stk_machine_cpu_name("/proc", name_text, sizeof name_text);
}

const char *stoke_machine_cpu_name(void)
{
    pthread_once(&name_once, read_name);
    return name_text;
}

uint64_t stoke_machine_peak_rss(void)
{
    return stk_machine_peak_rss("/proc");
}

uint64_t stoke_machine_available(void)
{
    return stk_machine_available("/proc", "/sys/fs/cgroup");
}

uint64_t stoke_machine_now_ns(void)
{
    return stk_now_ns();
}

uint64_t stoke_machine_cpu_ns(void)
{
    return stk_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}
