/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/loader.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_LOADER_H
#define STOKE_TOOLS_LOADER_H

#include <stoke/loader.h>

/* "ring 4 x 100.7 MB + workers 2 x 6.1 MB + process 9.4 MB = 424.4 MB". Returns the length snprintf-style. */
STOKE_API int stoke_memory_plan_text(const stoke_memory_plan *plan, char *text, size_t size);

/* Its shares without the process's, which a command has once whatever it does. */
STOKE_API void stoke_memory_add_loader(stoke_memory_sum *sum, const stoke_memory_plan *plan);

/* stoke_loader_create for a caller that holds memory itself as long as the loader lives: one plan, and one
 * memory_limit, for both. beside: so much, under a name that outlives the loader. */
STOKE_API int stoke_loader_create_beside(stoke_loader **out, const stoke_dataset *dataset,
                                         const stoke_data_params *params, const stoke_allocator *allocator,
                                         const stoke_memory_share *beside, stoke_error *err);

/* Workers that such settings give: as set; of auto, the cores that this process may use less consumer_cores,
 * one at least. */
STOKE_API uint32_t stoke_data_workers(const stoke_data_params *params);

/* Height and width of the batches that such settings give: `size`, or where that is not set, the first
 * sample's. */
STOKE_API int stoke_data_size(const stoke_dataset *dataset, const stoke_data_params *params, uint32_t size[2],
                              stoke_error *err);

/* For people and JSON: "decode", "augment", ... */
STOKE_API const char *stoke_work_name(int making);
STOKE_API const char *stoke_stage_name(stoke_stage stage);

/* At the end of a run: bad samples that the quarantine list lacks since it cannot be written, in a line for
 * people: why, how many, the first of them. Returns 0 and leaves `text` alone when there are none. */
STOKE_API int stoke_loader_unrecorded(const stoke_loader *loader, char *text, size_t size);

/* What is allowed in the settings and hardly meant, for people: crops that cut nothing or mostly pad, mixing
 * in batches of one, 16-bit images that come out black. Looks at up to 16 samples. Writes one line for each,
 * ended by a newline, as far as `text` goes, and returns how many there are; settings that a loader would
 * refuse have none. */
STOKE_API size_t stoke_data_remarks(const stoke_dataset *dataset, const stoke_data_params *params, char *text,
                                    size_t size);

/* ---- a cache made ahead of time ---- */

typedef struct stoke_cache_report {
    uint64_t found;        /* samples that were there already; they have been read and checked */
    uint64_t stored;       /* decoded and kept */
    uint64_t bad;          /* could not be read; recorded in params->quarantine */
    uint64_t left_out;     /* the budget is full, or the disk */
    uint64_t bytes;        /* with cache_disk of all entries in the folder, without of those added */
    char warning[512];     /* why writing stopped; "" = it did not */
    char unrecorded[1024]; /* bad samples that params->quarantine lacks, as stoke_loader_unrecorded; "" = none
                            */
    double seconds;
} stoke_cache_report;
/* Decodes every sample that params->cache lacks and keeps it there, with `threads` threads (0 = auto). What
 * is kept depends on the settings of decoding, labels and size, and on whether `augment` crops: fill it with
 * the settings of the run. STOKE_E_CANCELLED when progress asked to stop; what is kept stays. Under policy
 * stop the first bad sample ends it. */
STOKE_API int stoke_cache_fill(const stoke_dataset *dataset, const stoke_data_params *params,
                               unsigned threads, stoke_progress_fn progress, void *context,
                               stoke_cache_report *report, stoke_error *err);

/* What that takes of memory, and how many threads memory_limit allows of those that are wanted (0 = auto). */
STOKE_API int stoke_cache_fill_memory(const stoke_dataset *dataset, const stoke_data_params *params,
                                      unsigned *threads, stoke_memory_sum *sum, stoke_error *err);

/* The same for stoke_verify. */
STOKE_API int stoke_verify_memory(const stoke_dataset *dataset, const stoke_data_params *params,
                                  unsigned *threads, stoke_memory_sum *sum, stoke_error *err);

/* 128-bit digest (XXH3) of what the consumer sees: count, ids, image and mask bytes of the valid rows, and
 * masks_b and lambda where there are any. */
STOKE_API void stoke_batch_digest(const stoke_batch *batch, uint8_t digest[16]);

#endif
