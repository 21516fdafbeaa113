/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/driver_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/error.h"

static const struct {
    const char *kind, *title, *usual;
} drivers[STK_DRIVERS] = {
    [STK_DRIVER_OPENCL] = { "opencl", "OpenCL", "libOpenCL.so.1" },
    [STK_DRIVER_CUDA] = { "cuda", "CUDA", "libcuda.so.1" },
    [STK_DRIVER_NVML] = { "nvml", "NVML", "libnvidia-ml.so.1" },
};

/* What was found out about the file asked for last: a process asks for one of a kind, but for tests. */
typedef struct verdict {
    char file[512];    /* "": none was tried */
    char problem[384]; /* "": none */
} verdict;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static verdict verdicts[STK_DRIVERS];

/* A child of fork has none of the threads that were trying a driver, and would wait for them for ever. It
 * begins again; to wait before the fork could take as long as the driver. */
static void in_child(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    memcpy(&lock, &unlocked, sizeof lock);
    memset(verdicts, 0, sizeof verdicts);
}

static void expect_forks(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

/* Silent: what a driver has to say it says again when it is loaded. file NULL: the usual ones. */
static int start(pid_t *pid, const char *command, const char *kind, const char *file)
{
    char *const words[] = { (char *)"stoke", (char *)"try-driver", (char *)kind, (char *)file, NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none); /* a worker's mask would keep Ctrl-C and the child's alarm away */
    if (posix_spawn_file_actions_init(&files)) return ENOMEM;
    if (posix_spawnattr_init(&attributes)) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    int r = posix_spawnattr_setsigmask(&attributes, &none);
    if (!r) r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    for (int fd = 0; !r && fd <= 2; fd++)
        r = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", fd ? O_WRONLY : O_RDONLY, 0);
    if (!r) r = posix_spawn(pid, command, &files, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return r;
}

/* Only a fault counts: a command that cannot be started, is another program or was interrupted says nothing
 * about the driver. */
static void judge(int status, const char *title, const char *file, char *problem, size_t size)
{
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    switch (number) {
    case 0:
    case SIGHUP:
    case SIGINT:
    case SIGKILL:
    case SIGTERM: return;
    case SIGALRM:
        snprintf(problem, size,
                 "the %s driver (%.100s) does not answer and is left alone: `dmesg` may say why", title,
                 file);
        return;
    default: break;
    }
    const char *name = sigabbrev_np(number);
    snprintf(problem, size,
             "the %s driver (%.100s) crashed (SIG%s) when asked for devices and is not used: %s; "
             "STOKE_DRIVER_PROBE= before the command shows what it says",
             title, file, name ? name : "?",
             access("/sys/devices", F_OK) ? "mount /sys, which some need" : "reinstall or update it");
}

int stk_driver_probe(stk_driver driver, const char *file, stoke_error *err)
{
    const char *command = getenv("STOKE_DRIVER_PROBE");
    if (!command || !*command) return STOKE_OK;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, expect_forks);
    verdict *v = &verdicts[driver];
    const char *name = file ? file : drivers[driver].usual;
    pthread_mutex_lock(&lock);
    if (strcmp(v->file, name) != 0) {
        pid_t pid, ended;
        int status = 0;
        snprintf(v->file, sizeof v->file, "%s", name);
        v->problem[0] = 0;
        const int failed = start(&pid, command, drivers[driver].kind, file);
        while (!failed && (ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
        if (!failed && ended == pid)
            judge(status, drivers[driver].title, name, v->problem, sizeof v->problem);
    }
    const int r = *v->problem ? stk_fail(err, STOKE_E_NOTFOUND, "%s", v->problem) : STOKE_OK;
    pthread_mutex_unlock(&lock);
    return r;
}
