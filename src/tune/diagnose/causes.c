/* SPDX-License-Identifier: Apache-2.0
 *
 * What causes of idle time are called, and what they mean. Batches may be made without workers, by the loop
 * itself: only what has workers names them.
 */
#include <stoke/tools/diagnose.h>

static const struct {
    const char *name, *meaning;
} idles[STOKE_IDLES] = {
    [STOKE_IDLE_EPOCH_START] = { "epoch start",
                                 "workers were started for the epoch and made its first batch" },
    [STOKE_IDLE_ORDER] = { "order", "a later batch was ready, but a slow sample held up the line" },
    [STOKE_IDLE_CONTENTION] = { "contention", "what makes batches was ready to run and had no core" },
    [STOKE_IDLE_FILES] = { "files", "files were waited for" },
    [STOKE_IDLE_DECODE] = { "decode", "images and masks were decoded" },
    [STOKE_IDLE_FIT] = { "fit", "images were cut and resized" },
    [STOKE_IDLE_AUGMENT] = { "augment", "images were augmented and written into the batch" },
    [STOKE_IDLE_COLLATE] = { "collate", "samples were stacked and passed between processes" },
    [STOKE_IDLE_READ] = { "read", "reading files took CPU time" },
    [STOKE_IDLE_WINDOW] = { "window", "workers had stood still because all slots were full" },
    [STOKE_IDLE_PIN] = { "pin", "the batch was copied into pinned memory" },
    [STOKE_IDLE_HOST] = { "host", "the loop did something else: logging, metrics, checkpoints" },
    [STOKE_IDLE_COPY_QUEUE] = { "copy queue", "the copy was put on its stream late, or waited for a slot" },
    [STOKE_IDLE_COPY] = { "copy", "the batch was being copied to the device" },
    [STOKE_IDLE_LAUNCH] = { "launch", "everything was there, but the first kernel had not begun" },
    [STOKE_IDLE_INSIDE] = { "inside", "the step itself had gaps between its kernels" },
    [STOKE_IDLE_UNKNOWN] = { "unknown", "a moment was not recorded" },
};

static const char *const causes[STOKE_CAUSES] = {
    [STOKE_CAUSE_CPU_AUGMENT] = "augmentation on the CPU",
    [STOKE_CAUSE_FEW_WORKERS] = "too few workers",
    [STOKE_CAUSE_NO_PINNING] = "no pinned memory",
    [STOKE_CAUSE_SYNC_COPIES] = "copies that nothing overlaps",
    [STOKE_CAUSE_RESTARTED_WORKERS] = "workers restarted every epoch",
    [STOKE_CAUSE_SYNC_LOOP] = "a loop that waits for every step",
    [STOKE_CAUSE_SHORT_PREFETCH] = "too few batches made ahead",
};

const char *stoke_idle_name(int idle)
{
    return idle >= 0 && idle < STOKE_IDLES ? idles[idle].name : "none";
}

const char *stoke_idle_meaning(int idle)
{
    return idle >= 0 && idle < STOKE_IDLES ? idles[idle].meaning : "no such cause";
}

const char *stoke_cause_name(int cause)
{
    return cause >= 0 && cause < STOKE_CAUSES ? causes[cause] : "none";
}
