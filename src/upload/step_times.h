/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps on the consumer's stream of an upload, for whoever puts them there.
 */
#ifndef STOKE_SRC_UPLOAD_STEP_TIMES_H
#define STOKE_SRC_UPLOAD_STEP_TIMES_H

#include <stoke/upload.h>

#include "src/device/device.h"

/* Steps that the consumer's stream has been given; more of them at once make the caller wait. */
enum { STK_STEPS = 64 };
/* No batch was handed out yet. */
#define STK_NO_TRANSFER UINT64_MAX

typedef struct stk_upload_step {
    stk_device_event *start, *end;
    uint64_t began, launched; /* by the host */
    uint64_t occupied_ns;     /* exactly, of a simulated GPU; 0 = what the events say */
    int64_t number;
    uint64_t transfer; /* of its batch */
} stk_upload_step;

typedef struct stk_upload_step_times {
    stk_upload_step step[STK_STEPS];
    uint64_t given, read;
    int64_t number;    /* of the batch that was handed out last */
    uint64_t transfer; /* that brought it */
    stoke_device *device;
    stk_device_stream *stream; /* the consumer's */
    stk_device_module *module; /* stk_augment_program, compiled; NULL: the device does not augment */
    void *work;                /* what a caller needs for steps on this device; ended with the upload */
    void (*work_destroy)(void *work);
} stk_upload_step_times;

stk_upload_step_times *stk_step_times_of(stoke_upload *upload);
/* A step begins on the consumer's stream, now; waits where STK_STEPS have not ended yet. */
int stk_step_begin(stoke_upload *upload, stk_upload_step **step, stoke_error *err);
/* It begins now, and not when stk_step_begin was called. */
int stk_step_start(stoke_upload *upload, stk_upload_step *step, stoke_error *err);
/* All its work is on the stream: it is the next step of the batch that was handed out last. */
int stk_step_end(stoke_upload *upload, stk_upload_step *step, stoke_error *err);

#endif
