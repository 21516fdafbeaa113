/* SPDX-License-Identifier: Apache-2.0
 *
 * How many bytes the entries of a folder take, counted by all processes that use it together; and whether a
 * process is the only one.
 */
#ifndef STOKE_SRC_CACHE_USAGE_H
#define STOKE_SRC_CACHE_USAGE_H

#include <pthread.h>
#include <stdint.h>

typedef struct stk_usage {
    int fd; /* of FOLDER/usage */
    pthread_mutex_t lock;
} stk_usage;

/* Opens the file "usage" in an open folder. 1: no other process uses the folder, and none comes in before
 * stk_usage_ready is called. 0: others do. -errno: the file cannot be opened or locked;
 * -EEXIST: what is there under that name is not ours. */
int stk_usage_open(stk_usage *usage, int folder);
void stk_usage_ready(stk_usage *usage);
void stk_usage_close(stk_usage *usage); /* accepts one whose open failed */

/* The count. It is known once somebody has added up the folder (set) and the record is whole; adding to an
 * unknown one counts from 0. */
int stk_usage_known(stk_usage *usage);
void stk_usage_set(stk_usage *usage, uint64_t bytes, int known);
uint64_t stk_usage_bytes(stk_usage *usage);

/* Takes room under the budget (0 = no limit): 1, or 0 when there is not enough. */
int stk_usage_take(stk_usage *usage, uint64_t bytes, uint64_t budget);
void stk_usage_give(stk_usage *usage, uint64_t bytes);

#endif
