/* SPDX-License-Identifier: Apache-2.0
 *
 * A jump out of a signal handler. A child process would be simpler, but a library must not fork a program
 * with threads only to look at the processor.
 */
#include "src/base/probe_insn.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

enum { SIGNALS = 2 };
static const int signals[SIGNALS] = { SIGILL, SIGSEGV };
static struct sigaction before[SIGNALS];
static pthread_t trying;
static sigjmp_buf escape;

static void on_fault(int number)
{
    if (pthread_equal(pthread_self(), trying)) siglongjmp(escape, 1);
    /* Another thread's own fault: it will happen again, under the handler that was there. */
    for (int i = 0; i < SIGNALS; i++)
        if (signals[i] == number) sigaction(number, &before[i], NULL);
}

int stk_probe_insn(int (*fn)(void))
{
    struct sigaction action = { .sa_handler = on_fault };
    sigset_t ours, mask;
    sigemptyset(&action.sa_mask);
    sigemptyset(&ours);
    trying = pthread_self();
    for (int i = 0; i < SIGNALS; i++) {
        sigaddset(&ours, signals[i]);
        sigaction(signals[i], &action, &before[i]);
    }
    /* A fault whose signal is blocked kills the process, handler or not. */
    pthread_sigmask(SIG_UNBLOCK, &ours, &mask);
    volatile int answer = 0;
    if (!sigsetjmp(escape, 1)) answer = fn();
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
    return answer;
}
