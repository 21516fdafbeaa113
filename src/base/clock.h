/* SPDX-License-Identifier: Apache-2.0
 *
 * One clock for everything that is stamped.
 */
#ifndef STOKE_SRC_BASE_CLOCK_H
#define STOKE_SRC_BASE_CLOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t stk_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t stk_now_ns(void)
{
    return stk_clock_ns(CLOCK_MONOTONIC);
}
/* Until that time of the clock, whatever signals come between. */
static inline void stk_sleep_until(uint64_t ns)
{
    const struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        ;
}
/* CPU time of the calling thread: a system call, about 0.2 us; six per sample of 2 ms. */
static inline uint64_t stk_thread_cpu_ns(void)
{
    return stk_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Waiting for a condition until a time of the one clock (clock.h). */

/* No deadline. */
#define STK_FOR_EVER UINT64_MAX

/* A condition whose deadlines are on CLOCK_MONOTONIC; 0, or a number of errno. */
static inline int stk_cond_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    int number = pthread_condattr_init(&monotonic);
    if (number) return number;
    number = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    if (!number) number = pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return number;
}

/* Until somebody calls, or that time has come. Lock held. */
static inline void stk_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    const struct timespec until = { (time_t)(deadline_ns / 1000000000u), (long)(deadline_ns % 1000000000u) };
    if (deadline_ns == STK_FOR_EVER)
        pthread_cond_wait(condition, lock);
    else
        pthread_cond_timedwait(condition, lock, &until);
}

#endif
