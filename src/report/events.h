/* SPDX-License-Identifier: Apache-2.0
 *
 * TensorBoard's event files: records of length, masked CRC-32C, protocol buffer. Written by hand: three
 * message types of the format are enough (Event, Summary, SessionLog), and a library for them would be larger
 * than this one.
 */
#ifndef STOKE_SRC_REPORT_EVENTS_H
#define STOKE_SRC_REPORT_EVENTS_H

#include <stoke/common.h>

typedef struct stk_events stk_events;

/* A new file events.out.tfevents.SECONDS.HOST.PID.N in `folder`. after: steps beyond it, in files of earlier
 * sessions, are to be forgotten (SessionLog START); NULL: a new run. */
int stk_events_open(stk_events **out, const char *folder, const uint64_t *after, stoke_error *err);
/* The same with a clock of the caller's (seconds since 1970), for tests that compare bytes. */
int stk_events_open_at(stk_events **out, const char *folder, const uint64_t *after, double (*now)(void),
                       stoke_error *err);
void stk_events_close(stk_events **events);
/* One event with several values; not finite ones are kept as they are (TensorBoard shows them). Flushed. */
int stk_events_scalars(stk_events *events, uint64_t step, const char *const *tags, const double *values,
                       size_t count, stoke_error *err);
/* A PNG file as an image. */
int stk_events_png(stk_events *events, uint64_t step, const char *tag, const char *path, stoke_error *err);

/* CRC-32C (Castagnoli), which TensorBoard's records carry. zlib and libdeflate have only the other one. */

/* `crc` is 0 to begin with, or what the bytes before gave. */
uint32_t stk_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
