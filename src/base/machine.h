/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of machine.c that reads files, with the places of /proc and /sys/fs/cgroup as arguments, so that
 * tests can show it recorded trees of other machines.
 */
#ifndef STOKE_SRC_BASE_MACHINE_H
#define STOKE_SRC_BASE_MACHINE_H

#include <stddef.h>
#include <stdint.h>
#include <stoke/tools/comm.h>
#include <stoke/tools/machine.h>

/* Cores by CPU quota of the process's control group and all groups above it, v2 (cpu.max) or v1
 * (cpu.cfs_quota_us); the tightest counts. 0 = no quota. `proc` stands for /proc, `cgroup` for
 * /sys/fs/cgroup. */
double stk_machine_quota(const char *proc, const char *cgroup);

/* The numbers of a list such as "0-3,8,10-11", in turn. stk_cpu_list_next returns 0 when there are no more.
 */
typedef struct stk_machine_cpu_list {
    const char *at;
    long next, last;
} stk_machine_cpu_list;
stk_machine_cpu_list stk_cpu_list_begin(const char *text);
int stk_cpu_list_next(stk_machine_cpu_list *list, long *number);
unsigned stk_cpu_list_count(const char *text);

/* The first size - 1 bytes of a small text file; files of /proc have no size to ask for. Returns 0 when it
 * cannot or there are none. */
int stk_machine_read_text(const char *path, char *text, size_t size);

/* MemTotal of proc/meminfo in bytes, 0 when it is not there. */
uint64_t stk_machine_memory(const char *proc);
/* The tightest memory limit of the process's control groups in bytes, 0 = none. */
uint64_t stk_machine_memory_limit(const char *proc, const char *cgroup);

/* Processes that the system ended for want of memory in the process's control group (oom_kill of
 * memory.events, v1: of memory.oom_control); 0 when it cannot be read. */
uint64_t stk_machine_oom_kills(const char *proc, const char *cgroup);

/* VmHWM of proc/self/status in bytes, 0 when it is not there. */
uint64_t stk_machine_peak_rss(const char *proc);
/* VmRSS: what the process holds now. */
uint64_t stk_machine_rss(const char *proc);
/* VmData: the private memory it has mapped, touched or not: what RLIMIT_DATA counts. */
uint64_t stk_machine_data(const char *proc);
/* Of all threads that live, since they were made: how long they ran, and how long they stood in line for a
 * core. 0 = the kernel does not say. */
int stk_machine_run_queue(const char *proc, uint64_t *ran_ns, uint64_t *stood_ns);

/* What the system can still give this process, in bytes, without ending one for it: MemAvailable and free
 * swap of proc/meminfo, or less when the process's control group or one above it has a limit, v2 (memory.max)
 * or v1 (memory.limit_in_bytes). File pages of the group count as free: they are given back first.
 * UINT64_MAX: nothing tells. Linux hands out more than there is and kills whoever touches it, so this has to
 * be asked. */
uint64_t stk_machine_available(const char *proc, const char *cgroup);

/* "model name" of proc/cpuinfo, or "n/a". */
void stk_machine_cpu_name(const char *proc, char *name, size_t size);

/* min(affinity, ceil(quota)), at least 1. */
unsigned stk_machine_usable(unsigned affinity, double quota);
/* Processors that the control group lists, v2 (cpuset.cpus.effective) or v1; 0 = it does not say. */
unsigned stk_machine_allowed(const char *proc, const char *cgroup);
/* `processes` and `usable` of cores whose other figures are known, for a process of this launch. */
void stk_machine_divide(stoke_cores *cores, const stoke_comm_launch *launch);
/* As stoke_machine_cores_remark. */
int stk_machine_remark(const stoke_cores *cores, const stoke_comm_launch *launch, char *text, size_t size);

#endif
