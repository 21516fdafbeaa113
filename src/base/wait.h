/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for a condition until a time of the one clock (clock.h).
 */
#ifndef STOKE_SRC_BASE_WAIT_H
#define STOKE_SRC_BASE_WAIT_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

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
