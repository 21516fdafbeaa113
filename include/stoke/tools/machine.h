/* SPDX-License-Identifier: Apache-2.0
 *
 * What this process may use of the machine.
 */
#ifndef STOKE_TOOLS_MACHINE_H
#define STOKE_TOOLS_MACHINE_H

#include <stoke/common.h>
#include <stoke/memory.h>

typedef struct stoke_cores {
    unsigned online;    /* processors the system has switched on */
    unsigned affinity;  /* of them, allowed by the affinity mask */
    double quota;       /* cores by cgroup v2/v1 CPU quota; 0 = no quota */
    unsigned allowed;   /* by the control group's list: at least `affinity`; a launcher can hand these out */
    unsigned processes; /* that a launcher started on this host; 1 without one, or where it does not say */
    /* min(affinity, ceil(quota)); of several processes on a host each has its part of min(allowed,
     * ceil(quota)), the lower ones what is left over, or fewer where it is bound to fewer. At least 1. */
    unsigned usable;
} stoke_cores;

STOKE_API stoke_cores stoke_machine_cores(void);
/* What a launcher made of the cores of this process: divided, or bound to fewer than its part. 0: nothing to
 * say. */
STOKE_API int stoke_machine_cores_remark(char *text, size_t size);

/* The best pixel function table in use: "c" or "avx2" (STOKE_CPU=c|avx2|avx512|amx caps it). */
STOKE_API const char *stoke_machine_cpu_table(void);
/* Marketing name of the processor, "n/a" when the system does not tell. */
STOKE_API const char *stoke_machine_cpu_name(void);

/* Largest resident set of this process so far, in bytes (0 = n/a). */
STOKE_API uint64_t stoke_machine_peak_rss(void);
/* What the system can still give this process, in bytes: memory and swap, or less where a cgroup limits it
 * (UINT64_MAX = n/a). */
STOKE_API uint64_t stoke_machine_available(void);
/* STOKE_E_LIMIT where the sum is beyond its limit. It is the least that will do: the message has its terms,
 * and a memory_limit that is accepted. `who` needs it ("packing needs"); `instead` is what else will do. */
STOKE_API int stoke_memory_check(const stoke_memory_sum *least, const char *who, const char *instead,
                                 stoke_error *err);
/* Monotonic clock and CPU time of the process, in nanoseconds. */
STOKE_API uint64_t stoke_machine_now_ns(void);
STOKE_API uint64_t stoke_machine_cpu_ns(void);

#endif
