/* SPDX-License-Identifier: Apache-2.0
 *
 * How a trial ended. Only want of memory says something about the batch; everything else is about the machine
 * or the program, and must not pass for it.
 */
#include <signal.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "src/base/machine.h"
#include <stoke/tools/findbatch.h>

const char *stoke_outcome_name(int outcome)
{
    static const char *const names[] = {
        "ok", "oom", "host_oom", "shm", "device", "timeout", "crash", "error"
    };
    const int n = sizeof names / sizeof *names;
    return outcome >= 0 && outcome < n ? names[outcome] : "n/a";
}

const char *stoke_bound_name(int bound)
{
    static const char *const names[] = { "throughput", "memory", "loader", "data", "failure" };
    const int n = sizeof names / sizeof *names;
    return bound >= 0 && bound < n ? names[bound] : "n/a";
}

/* Letters large or small: drivers differ in that. */
static int says_any(const char *message, const char *const *texts)
{
    for (; *texts; texts++)
        for (const char *p = message; *p; p++)
            if (!strncasecmp(p, *texts, strlen(*texts))) return 1;
    return 0;
}

/* What PyTorch, its libraries and ours say. The last is how a MIG slice runs out of memory: an assertion. */
static int says_no_memory(const char *message)
{
    static const char *const texts[] = {
        "out of memory",       "CUDNN_STATUS_NOT_SUPPORTED", "CUBLAS_STATUS_ALLOC_FAILED",
        "DefaultCPUAllocator", "NVML_SUCCESS == r",          NULL
    };
    return says_any(message, texts);
}

/* Errors after which a CUDA context is of no more use. */
static int says_device(const char *message)
{
    static const char *const texts[] = { "CUDA error",
                                         "CUDA_ERROR_",
                                         "illegal memory access",
                                         "device-side assert",
                                         "unspecified launch failure",
                                         "the device is lost",
                                         "fell off the bus",
                                         "uncorrectable ECC",
                                         "CUDNN_STATUS_EXECUTION_FAILED",
                                         "CUDNN_STATUS_INTERNAL_ERROR",
                                         "CUBLAS_STATUS_EXECUTION_FAILED",
                                         NULL };
    return says_any(message, texts);
}

int stoke_outcome_of(int status, uint64_t kills_before, uint64_t kills_after, int timed_out,
                     const char *message)
{
    if (timed_out) return STOKE_OUTCOME_TIMEOUT; /* the signal that ended it was ours */
    if (WIFSIGNALED(status)) {
        if (WTERMSIG(status) == SIGKILL && kills_after > kills_before) return STOKE_OUTCOME_HOST_OOM;
        return WTERMSIG(status) == SIGBUS ? STOKE_OUTCOME_SHM : STOKE_OUTCOME_CRASH;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return STOKE_OUTCOME_OK;
    if (!message) return STOKE_OUTCOME_ERROR;
    return says_no_memory(message) ? STOKE_OUTCOME_OOM
           : says_device(message)  ? STOKE_OUTCOME_DEVICE
                                   : STOKE_OUTCOME_ERROR;
}

uint64_t stoke_oom_kills(void)
{
    return stk_machine_oom_kills("/proc", "/sys/fs/cgroup");
}
