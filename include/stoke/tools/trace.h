/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened when: spans on lanes, one lane for each worker, engine and consumer, all on CLOCK_MONOTONIC.
 * Written as Chrome's trace format (Perfetto, chrome://tracing) and as an SVG timeline for people without
 * either.
 */
#ifndef STOKE_TOOLS_TRACE_H
#define STOKE_TOOLS_TRACE_H

#include <stoke/common.h>

typedef struct stoke_trace stoke_trace;

/* Room for `spans` of them; later ones are counted and dropped. */
STOKE_API int stoke_trace_create(stoke_trace **out, size_t spans, stoke_error *err);
STOKE_API void stoke_trace_destroy(stoke_trace **trace);

/* A lane, in the order they are to be drawn; the same group and name give the same lane again. Returns its
 * number, or a negative STOKE_E_NOMEM. `emulated`: its times are a model's, and the pictures say so. */
STOKE_API int stoke_trace_lane(stoke_trace *trace, const char *group, const char *name, int emulated);
/* Any thread, no lock, no allocation. `what` is kept as a pointer: a constant. number: of the batch, or -1.
 */
STOKE_API void stoke_trace_span(stoke_trace *trace, int lane, const char *what, uint64_t start_ns,
                                uint64_t end_ns, int64_t number);
STOKE_API size_t stoke_trace_dropped(const stoke_trace *trace);

/* Whole files (temporary, fsync, rename). */
STOKE_API int stoke_trace_write_json(const stoke_trace *trace, const char *path, stoke_error *err);
/* From `start_ns` on for `length_ns`; 0 and 0 = all of it. */
STOKE_API int stoke_trace_write_svg(const stoke_trace *trace, const char *path, const char *title,
                                    uint64_t start_ns, uint64_t length_ns, stoke_error *err);

#endif
