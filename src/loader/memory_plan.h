/* SPDX-License-Identifier: Apache-2.0
 *
 * What a loader will hold, before it is made.
 */
#ifndef STOKE_SRC_LOADER_MEMORY_PLAN_H
#define STOKE_SRC_LOADER_MEMORY_PLAN_H

#include <stoke/loader.h>
#include <stoke/memory.h>

#include "src/loader/scratch.h"

/* The headers of a set, read before its first batch: what the largest pictures will take of a worker. */

typedef struct stk_probe {
    stk_scratch_bytes most; /* of a scratch memory, for what was looked at */
    stk_scratch_bytes any;  /* for any picture that the settings allow; the same when all were looked at */
    uint64_t looked;        /* at so many samples */
    uint32_t largest_width, largest_height;
    uint32_t longest_side; /* of any of them */
} stk_probe;

/* Reads the headers of all samples of the loader config's set, or of an even choice where they are very many.
 */
int stk_probe_set(stk_probe *probe, const stk_loader_config *config, stoke_error *err);
/* The same of samples in an array: files of pictures that are in no set. */
int stk_probe_files(stk_probe *probe, const stk_loader_config *config, const stoke_sample *files,
                    uint64_t count, stoke_error *err);

/* Touched stack and allocator arena of a thread, measured 120-200 KB. */
enum { STK_THREAD_BYTES = 256 * 1024 };

typedef struct stk_loader_plan {
    stoke_memory_plan shown; /* without fixed_bytes and total_bytes until somebody knows them */
    stk_probe probe;
    stk_scratch_bytes granted; /* to a worker: what shown.worker_bytes sums up */
    int rests;                 /* the loader is not to begin before it is woken */
} stk_loader_plan;

/* Reads headers. memory_limit is not looked at. */
int stk_loader_plan_make(stk_loader_plan *plan, const stk_loader_config *config,
                         const stoke_data_params *params, stoke_error *err);
/* The same for who has no loader config yet. */
int stk_loader_plan_of(stk_loader_plan *plan, const stoke_dataset *dataset, const stoke_data_params *params,
                       stoke_error *err);
/* What the process holds is known now, and with it the sum; memory_limit lowers prefetch first, then the
 * share of a worker, and refuses with the arithmetic of the least that would do when that is not enough. */
int stk_loader_plan_settle(stk_loader_plan *plan, stoke_error *err);
/* Bytes that one worker may hold beyond its share. */
uint64_t stk_loader_plan_reserve(const stk_loader_plan *plan);
/* The plan of `threads` (0 = auto) that read a set once and count with `tally` bytes each.
 * memory_limit lowers their number. */
int stk_scan_memory(stk_loader_plan *plan, const stk_loader_config *config, const stoke_data_params *params,
                    unsigned threads, uint64_t tally, stoke_memory_sum *sum, stoke_error *err);
/* Workers and the one large picture. */
uint64_t stk_loader_plan_workers(const stk_loader_plan *plan);
/* The least of it: no worker has a share, and every picture takes the turn. */
uint64_t stk_loader_plan_least(const stk_loader_plan *plan);
/* Lowers the share of a worker until they fit into so many bytes: pictures beyond the share then take turns.
 * 0: they do not fit. */
int stk_loader_plan_squeeze(stk_loader_plan *plan, uint64_t bytes);

#endif
