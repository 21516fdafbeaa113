/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the system that may work the next time: interrupted ones, file systems that hiccup, and want of
 * descriptors, threads or memory, which is no file's fault. Whoever opens, reads or starts a thread goes
 * through here, so that a fault that passes leaves the same bytes as none.
 */
#ifndef STOKE_SRC_BASE_RETRY_H
#define STOKE_SRC_BASE_RETRY_H

#include <dirent.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <stoke/tools/retry.h>

/* Whoever would wait for want of something now knows that it is in vain. */
void stk_wait_in_vain(void);

/* How often this thread has tried again for anything but EINTR. */
uint64_t stk_retries(void);

/* Want of something that the process or the machine has too little of. */
int stk_is_shortage(int number);

/* As stoke_open, stoke_stat. */
int stk_openat(int folder, const char *name, int flags, mode_t mode);
int stk_fstatat(int folder, const char *name, struct stat *st, int flags);
/* errno as it was before, 0 after the last entry. */
int stk_closedir(DIR *dir);

/* All `size` bytes at `offset`: 0, a number of errno, or STK_ENDED when the file has fewer. */
enum { STK_ENDED = -1 };
int stk_pread(int fd, void *bytes, size_t size, uint64_t offset);

/* All of them to a file, device or pipe opened here: 0 or a number of errno; ETIMEDOUT when nobody has taken
 * a byte for 2 s (a pipe without a reader, a terminal that was halted). */
int stk_write(int fd, const void *bytes, size_t size);

/* pthread_create(3): 0 or a number of errno. */
int stk_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
