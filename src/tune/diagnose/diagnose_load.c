/* SPDX-License-Identifier: Apache-2.0
 *
 * How many cores workers can have is measured while they run: what the loop, the device's driver and other
 * programs take meanwhile is not theirs, and a core held by somebody else halves a machine of two.
 */
#include <math.h>
#include <sys/resource.h>

#include <stoke/tools/machine.h>

#include "src/base/clock.h"
#include "src/tune/decide/decide.h"
#include "src/tune/diagnose/diagnose.h"
#include "src/tune/monitor/monitor.h"

/* However busy the machine was, workers get something. */
static const double least = 0.02;

/* Of this process and of children that have ended: some benches measure in processes of their own. */
static uint64_t family_cpu_ns(void)
{
    struct rusage children;
    uint64_t ns = stoke_machine_cpu_ns();
    if (getrusage(RUSAGE_CHILDREN, &children)) return ns;
    const struct timeval *parts[] = { &children.ru_utime, &children.ru_stime };
    for (int i = 0; i < 2; i++)
        ns += (uint64_t)parts[i]->tv_sec * 1000000000 + (uint64_t)parts[i]->tv_usec * 1000;
    return ns;
}

stoke_quiet stoke_quiet_begin(void)
{
    stk_monitor_load_count count;
    stk_load_count_read(&count, "");
    return (stoke_quiet){ .began_ns = stk_now_ns(),
                          .process_ns = family_cpu_ns(),
                          .thread_ns = stk_thread_cpu_ns(),
                          .busy = count.cpu_busy,
                          .all = count.has_cpu ? count.cpu_all : 0 };
}

stk_diagnose_load_seen stk_load_end(const stoke_quiet *watch)
{
    stk_monitor_load_count count;
    stk_diagnose_load_seen seen = { .elapsed_ns = (double)(stk_now_ns() - watch->began_ns),
                                    .process_ns = (double)(family_cpu_ns() - watch->process_ns),
                                    .thread_ns = (double)(stk_thread_cpu_ns() - watch->thread_ns) };
    stk_load_count_read(&count, "");
    if (seen.elapsed_ns < 1) seen.elapsed_ns = 1;
    if (!watch->all || !count.has_cpu || count.cpu_all <= watch->all || count.cpu_busy < watch->busy)
        return seen;
    const double share = (double)(count.cpu_busy - watch->busy) / (double)(count.cpu_all - watch->all);
    const double others = share * stoke_machine_cores().online - seen.process_ns / seen.elapsed_ns;
    seen.others = fmax(0, others);
    return seen;
}

/* Others that give way leave more than what they do not take, so what workers really got counts too: of the
 * time they wanted a core, the share in which they had one. */
double stk_load_cores(const stk_diagnose_load_seen *seen, uint32_t workers, double worker_ns,
                      double queued_ns)
{
    const stoke_cores cores = stoke_machine_cores();
    const double loop = fmax(0, seen->process_ns - worker_ns) / seen->elapsed_ns;
    const double left = fmin(cores.usable, cores.online - seen->others) - loop;
    const double wanted = worker_ns + queued_ns;
    const double got = wanted > 0 ? fmax(1, workers) * worker_ns / wanted : 0;
    return fmin(fmax(fmax(left, got), least), cores.usable);
}

int stoke_quiet_end(const stoke_quiet *since, double *had, double *usable)
{
    const stk_diagnose_load_seen seen = stk_load_end(since);
    const stoke_cores cores = stoke_machine_cores();
    *usable = cores.usable;
    *had = fmax(0, fmin(cores.usable, cores.online - seen.others));
    return stk_decide_busy(*had, *usable);
}
