/* SPDX-License-Identifier: Apache-2.0
 *
 * What is known about a step of a training loop: moments on one clock (CLOCK_MONOTONIC, ns), from the file to
 * the last kernel; 0 = not known. An upload keeps them when asked to; others fill them in from what they can
 * see.
 */
#ifndef STOKE_TOOLS_RECORD_H
#define STOKE_TOOLS_RECORD_H

#include <stoke/upload.h>

typedef struct stoke_step_record {
    uint64_t number; /* counts from 0 over all epochs of a run */
    uint64_t epoch;
    uint32_t samples;
    uint32_t first_of_epoch; /* 1: nothing of it was made before the epoch began, or the loader was started
                                for it; 0 also for the first of an epoch that the loader went on to */
    /* making, by whoever made it */
    uint64_t began, ready; /* first row begun, last row done (not yet in order) */
    stoke_work_time making[STOKE_WORK_KINDS];
    uint64_t window_ns; /* workers waited for a free slot, since the batch before: the loader was ahead */
    /* the host */
    uint64_t pin_start, pin_end; /* a thread that copies into pinned memory; ours writes there at once */
    uint64_t asked, got;         /* the loop called for it, and had it */
    uint64_t sent;               /* its copy was put on a stream */
    uint64_t launched;           /* its step was put on a stream */
    /* the device */
    uint64_t copy_start, copy_end, copy_bytes;
    uint64_t augment_start, augment_end; /* kernels that augment it */
    uint64_t start, end;                 /* its step: first kernel begins, last one ends */
    uint64_t busy_ns; /* of start to end, with a kernel running; end - start for one that has no gaps */
} stoke_step_record;

/* Sums since the last stoke_upload_mark, by events on the device, on one clock. Only finished work counts:
 * finish first. */
typedef struct stoke_upload_stats {
    uint64_t batches, bytes; /* copied */
    uint64_t copy_ns;        /* of the copy engine */
    uint64_t copy_hidden_ns; /* of that, while the device computed */
    uint64_t augment_ns;     /* kernels of the upload */
    uint64_t steps, step_ns; /* that ended after the first one did */
    uint64_t busy_ns;        /* the device computed: union of the two */
    uint64_t elapsed_ns;     /* from the end of the first step after the mark to the end of the last one */
    uint64_t host_wait_ns;   /* next() waited for the loader */
    uint64_t loader_cpu_ns;  /* of the workers */
} stoke_upload_stats;

/* Room for `steps` records from the next batch on, in place of those there were; what finds none is dropped.
 * 0 = no more of them: those that are there stay. A batch that no step was launched for has none. Costs about
 * 2 us a sample. */
STOKE_API int stoke_upload_record(stoke_upload *upload, size_t steps, stoke_error *err);
/* Those that are complete, oldest first (finish first to have all). Valid until the next call on the upload.
 */
STOKE_API size_t stoke_upload_records(stoke_upload *upload, const stoke_step_record **records);

#endif
