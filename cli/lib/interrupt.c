/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/common.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <stoke/tools/machine.h>
#include <stoke/tools/output.h>

#include "cli/lib/output.h"

enum { GRACE_MS = 3000, LONG_GRACE_MS = 30000, ONE_REQUEST_MS = 1000, NOTES = 32 };

static atomic_int interrupt_signal; /* the first that came; 0 = none */
static atomic_int grace_ms = GRACE_MS;
static pid_t guarded; /* the process that has a guard */
static sigset_t requests;

/* ---- what goes with the process ---- */

typedef struct note {
    const char *leftover; /* NULL: none */
    pid_t offspring;      /* 0: none */
} note;

static struct {
    pthread_mutex_t lock;
    note all[NOTES];
    const char *leave;
} notes = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void replace(note from, note to)
{
    pthread_mutex_lock(&notes.lock);
    for (int i = 0; i < NOTES; i++)
        if (notes.all[i].leftover == from.leftover && notes.all[i].offspring == from.offspring) {
            notes.all[i] = to;
            break;
        }
    pthread_mutex_unlock(&notes.lock);
}

void cli_leftover_note(const char *path)
{
    replace((note){ 0 }, (note){ .leftover = path });
}

void cli_leftover_forget(const char *path)
{
    if (path) replace((note){ .leftover = path }, (note){ 0 });
}

void cli_offspring_note(pid_t group)
{
    replace((note){ 0 }, (note){ .offspring = group });
}

void cli_offspring_forget(pid_t group)
{
    if (group > 0) replace((note){ .offspring = group }, (note){ 0 });
}

void cli_terminal_note(const char *leave)
{
    pthread_mutex_lock(&notes.lock);
    notes.leave = leave;
    pthread_mutex_unlock(&notes.lock);
}

/* ---- the guard ---- */

/* Nothing that could wait: a terminal may be halted, a pipe full. */
static void say(int fd, const char *text)
{
    struct pollfd out = { .fd = fd, .events = POLLOUT };
    if (poll(&out, 1, 0) > 0 && write(fd, text, strlen(text)) < 0) return;
}

/* The main thread stands still somewhere; its locks may be taken. */
static void take_along(void)
{
    /* Should even this hang, on a disk that is gone: the default of SIGALRM ends the process. */
    signal(SIGALRM, SIG_DFL);
    alarm(1);
    pthread_mutex_lock(&notes.lock);
    for (int i = 0; i < NOTES; i++)
        if (notes.all[i].offspring) kill(-notes.all[i].offspring, SIGKILL);
    stoke_output_abandon();
    for (int i = 0; i < NOTES; i++)
        if (notes.all[i].leftover) cli_remove_folder(notes.all[i].leftover);
    if (notes.leave) say(STDOUT_FILENO, notes.leave);
}

static _Noreturn void end_by(int number)
{
    sigset_t one;
    take_along();
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    kill(getpid(), number);
    _exit(128 + number);
}

static void *guard(void *unused)
{
    int number;
    while (sigwait(&requests, &number) != 0) continue;
    atomic_store(&interrupt_signal, number);
    const uint64_t asked = stoke_machine_now_ns();
    for (;;) {
        const uint64_t passed_ms = (stoke_machine_now_ns() - asked) / 1000000;
        const uint64_t grace = (uint64_t)atomic_load(&grace_ms);
        if (passed_ms >= grace) {
            take_along();
            say(STDERR_FILENO, "\nstoke: ended without waiting any longer for what was under way\n");
            _exit(128 + number);
        }
        const uint64_t left_ms = grace - passed_ms;
        const struct timespec left = { (time_t)(left_ms / 1000), (long)(left_ms % 1000) * 1000000 };
        const int again = sigtimedwait(&requests, NULL, &left);
        if (again > 0 && stoke_machine_now_ns() - asked >= ONE_REQUEST_MS * UINT64_C(1000000)) end_by(again);
    }
    return unused;
}

void cli_handle_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    if (guarded == getpid()) return;
    if (guarded) { /* a child of fork: what is noted is its parent's */
        memset(notes.all, 0, sizeof notes.all);
        notes.leave = NULL;
    }
    sigemptyset(&requests);
    for (size_t i = 0; i < CLI_COUNT(numbers); i++) {
        struct sigaction before;
        /* nohup ignores SIGHUP, and so must what it starts. */
        const int ignored = sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!ignored || numbers[i] != SIGHUP) sigaddset(&requests, numbers[i]);
    }
    /* Beyond `ulimit -f` write() then fails with EFBIG like a full disk does, and temporary files are
     * removed. */
    signal(SIGXFSZ, SIG_IGN);
    pthread_t thread;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int failed = pthread_create(&thread, NULL, guard, NULL);
    /* Blocked in every thread that comes after, too, with no moment in between in which they are not. */
    if (!failed) sigorset(&old, &old, &requests);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) return; /* without it a signal ends the process at once, as it would any program */
    pthread_setname_np(thread, "stoke-guard");
    pthread_detach(thread);
    guarded = getpid();
}

void cli_be_patient(void)
{
    atomic_store(&grace_ms, LONG_GRACE_MS);
}

static void note_request(int number)
{
    int none = 0;
    atomic_compare_exchange_strong(&interrupt_signal, &none, number);
}

void cli_stop_on_usr1(void)
{
    struct sigaction action = { .sa_handler = note_request, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

void cli_release_signals(void)
{
    pthread_sigmask(SIG_UNBLOCK, &requests, NULL);
}

int cli_interrupted(void)
{
    return atomic_load_explicit(&interrupt_signal, memory_order_relaxed) != 0;
}

int cli_interrupt_code(void)
{
    const int number = atomic_load(&interrupt_signal);
    return number ? 128 + number : CLI_INTERRUPTED;
}
