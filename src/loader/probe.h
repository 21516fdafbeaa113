/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of a set, read before its first batch: what the largest pictures will take of a worker.
 */
#ifndef STOKE_SRC_LOADER_PROBE_H
#define STOKE_SRC_LOADER_PROBE_H

#include "src/loader/scratch.h"

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

#endif
