/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine has: processor, cores that may be used and that the process gets, memory, system. All from
 * /proc and /sys: the few numbers wanted here are one small file each, and a library for them (hwloc) would
 * read the same files.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/tune/machine/tree.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/probe.h>

/* ---- where a figure comes from, in a word ---- */

const char *stoke_source_name(int source)
{
    static const char *const names[] = {
        [STOKE_SOURCE_NVML] = "nvml",         [STOKE_SOURCE_SYSFS] = "sysfs",
        [STOKE_SOURCE_PROC] = "proc",         [STOKE_SOURCE_FDINFO] = "fdinfo",
        [STOKE_SOURCE_DRIVER] = "driver",     [STOKE_SOURCE_MEASURED] = "measured",
        [STOKE_SOURCE_TABLE] = "table",       [STOKE_SOURCE_ESTIMATED] = "estimated",
        [STOKE_SOURCE_EMULATED] = "emulated", [STOKE_SOURCE_GIVEN] = "given",
    };
    return source > STOKE_SOURCE_NA && source <= STOKE_SOURCE_GIVEN ? names[source] : "n/a";
}

enum {
    CPUS_MAX = 8192, /* the largest NR_CPUS Linux can be built with */
    /* Two periods of a CPU quota (100 ms each): one alone may fall wholly into what was left of a burst. */
    SPIN_MS = 200
};

/* ---- processor ---- */

/* Whether `cpu` comes first in the list of those it shares a core or socket with: counting the first ones
 * counts the cores or sockets. 0 = no, 1 = yes, -1 = the system does not tell. */
static int leads(const char *root, long cpu, const char *newer, const char *older)
{
    char text[4096];
    long first;
    for (int i = 0; i < 2; i++) {
        if (!stk_tree_text(text, sizeof text, root, "sys/devices/system/cpu/cpu%ld/topology/%s", cpu,
                           i ? older : newer))
            continue;
        stk_machine_cpu_list list = stk_cpu_list_begin(text);
        if (stk_cpu_list_next(&list, &first)) return first == cpu;
    }
    return -1;
}

static stoke_figure counted(long count, int known)
{
    return known && count > 0 ? stk_figure((double)count, STOKE_SOURCE_SYSFS)
                              : stk_figure(0, STOKE_SOURCE_NA);
}

static void read_topology(stoke_machine_facts *facts, const char *root)
{
    char text[4096];
    if (!stk_tree_text(text, sizeof text, root, "sys/devices/system/cpu/online")) return;
    stk_machine_cpu_list list = stk_cpu_list_begin(text);
    long cpu, threads = 0, cores = 0, sockets = 0;
    int cores_known = 1, sockets_known = 1;
    while (threads < CPUS_MAX && stk_cpu_list_next(&list, &cpu)) {
        const int core = leads(root, cpu, "core_cpus_list", "thread_siblings_list");
        const int socket = leads(root, cpu, "package_cpus_list", "core_siblings_list");
        threads++;
        cores += core > 0;
        sockets += socket > 0;
        cores_known &= core >= 0;
        sockets_known &= socket >= 0;
    }
    facts->threads = counted(threads, 1);
    facts->cores = counted(cores, cores_known);
    facts->sockets = counted(sockets, sockets_known);
}

/* How many are in the list that follows `key` in a file; 0: there is none. */
static unsigned count_listed(const char *root, const char *name, const char *key)
{
    char text[8192];
    const char *at = stk_tree_text(text, sizeof text, root, "%s", name) ? strstr(text, key) : NULL;
    return at ? stk_cpu_list_count(at + strlen(key)) : 0;
}

static void read_usable(stoke_machine_facts *facts, const char *root, const char *proc, const char *cgroup)
{
    stoke_cores cores = { 0 };
    if (*root) {
        /* A recorded tree has no mask to ask the kernel for, but a line about it. */
        cores.affinity = count_listed(root, "proc/self/status", "Cpus_allowed_list:");
        cores.quota = stk_machine_quota(proc, cgroup);
        if (!cores.affinity && facts->threads.source) cores.affinity = (unsigned)facts->threads.value;
        cores.usable = stk_machine_usable(cores.affinity, cores.quota);
    } else {
        cores = stoke_machine_cores();
    }
    if (cores.quota > 0) facts->quota = stk_figure(cores.quota, STOKE_SOURCE_SYSFS);
    if (!cores.affinity) return;
    facts->affinity = stk_figure(cores.affinity, STOKE_SOURCE_PROC);
    facts->usable =
        stk_figure(cores.usable, cores.usable < cores.affinity ? STOKE_SOURCE_SYSFS : STOKE_SOURCE_PROC);
}

/* ---- cores that the process gets ---- */

typedef struct spin {
    _Atomic uint64_t begin_ns; /* 0 = not yet: all threads have to exist first */
    _Atomic uint64_t got_ns;   /* CPU time of all */
} spin;

static void *spin_thread(void *argument)
{
    spin *shared = argument;
    uint64_t begin;
    while (!(begin = atomic_load(&shared->begin_ns))) sched_yield();
    const uint64_t before = stk_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    while (stk_now_ns() < begin + SPIN_MS * UINT64_C(1000000)) {
    }
    atomic_fetch_add(&shared->got_ns, stk_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before);
    return NULL;
}

/* n/a when not one thread could be started. A machine shared with others gives less than `usable`. */
static int measure_cores(stoke_machine_facts *facts, stoke_error *err)
{
    const size_t wanted = facts->usable.source ? (size_t)facts->usable.value : 1;
    pthread_t *threads = stk_calloc(wanted, sizeof *threads);
    if (!threads) return stk_fail(err, STOKE_E_NOMEM, "no memory for %zu threads", wanted);
    spin shared = { 0 };
    size_t n = 0;
    while (n < wanted && pthread_create(&threads[n], NULL, spin_thread, &shared) == 0) n++;
    const uint64_t begin = stk_now_ns();
    atomic_store(&shared.begin_ns, begin);
    for (size_t i = 0; i < n; i++) pthread_join(threads[i], NULL);
    const uint64_t wall = stk_now_ns() - begin; /* a thread that had to wait for its core ends late */
    stk_free(threads);
    if (n) facts->effective_cores = stk_figure((double)shared.got_ns / (double)wall, STOKE_SOURCE_MEASURED);
    return STOKE_OK;
}

/* ---- memory and system ---- */

static void read_memory(stoke_machine_facts *facts, const char *root, const char *proc, const char *cgroup)
{
    const uint64_t total = stk_machine_memory(proc), limit = stk_machine_memory_limit(proc, cgroup);
    const uint64_t available = stk_machine_available(proc, cgroup);
    if (total) facts->memory_bytes = stk_figure((double)total, STOKE_SOURCE_PROC);
    if (limit) facts->limit_bytes = stk_figure((double)limit, STOKE_SOURCE_SYSFS);
    if (available != UINT64_MAX) facts->available_bytes = stk_figure((double)available, STOKE_SOURCE_PROC);
    char path[STK_TREE_PATH];
    struct statvfs shm;
    if (stk_tree_path(path, root, "dev/shm") && statvfs(path, &shm) == 0)
        facts->shm_bytes = stk_figure((double)shm.f_bavail * (double)shm.f_frsize, STOKE_SOURCE_MEASURED);
}

/* PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"; the quotes may be missing. */
static void read_system(stoke_machine_facts *facts, const char *root)
{
    static const char *const files[] = { "etc/os-release", "usr/lib/os-release" };
    static const char key[] = "PRETTY_NAME=";
    char text[4096];
    for (size_t i = 0; i < 2 && !*facts->system; i++) {
        if (!stk_tree_text(text, sizeof text, root, "%s", files[i])) continue;
        const char *value = !strncmp(text, key, sizeof key - 1) ? text : strstr(text, "\nPRETTY_NAME=");
        if (!value) continue;
        value = strchr(value, '=') + 1;
        if (*value == '"' || *value == '\'') value++;
        snprintf(facts->system, sizeof facts->system, "%.*s", (int)strcspn(value, "\"'\n"), value);
    }
    if (stk_tree_text(text, sizeof text, root, "proc/sys/kernel/osrelease"))
        snprintf(facts->kernel, sizeof facts->kernel, "Linux %.120s", text);
}

int stoke_machine_probe(stoke_machine_facts *facts, int measure, const char *root, stoke_error *err)
{
    memset(facts, 0, sizeof *facts);
    if (!root || !strcmp(root, "/")) root = "";
    char proc[STK_TREE_PATH], cgroup[STK_TREE_PATH];
    if (!stk_tree_path(proc, root, "proc") || !stk_tree_path(cgroup, root, "sys/fs/cgroup"))
        return stk_fail(err, STOKE_E_INVALID, "the path of the recorded machine is too long: %.200s...",
                        root);
    stk_machine_cpu_name(proc, facts->cpu, sizeof facts->cpu);
    if (!strcmp(facts->cpu, "n/a")) *facts->cpu = 0;
    snprintf(facts->cpu_table, sizeof facts->cpu_table, "%s", stoke_machine_cpu_table());
    read_topology(facts, root);
    facts->numa_nodes = counted(count_listed(root, "sys/devices/system/node/online", ""), 1);
    read_usable(facts, root, proc, cgroup);
    read_memory(facts, root, proc, cgroup);
    read_system(facts, root);
    return measure ? measure_cores(facts, err) : STOKE_OK;
}
