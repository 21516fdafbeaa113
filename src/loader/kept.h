/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache beside the loader: which key a sample has, and when it is asked.
 *
 * A sample's key is made of the content of its files, so that the same pair is found again whatever it is
 * called; what the memo knows about the files spares reading them. With a cache the whole prefix is made and
 * kept (stk_prefix_whole) instead of the plan's region. In exact mode both give the same bytes. In fast mode,
 * where a region may be decoded from a smaller picture than the whole, the whole way is always taken: batches
 * do not depend on what the cache holds.
 */
#ifndef STOKE_SRC_LOADER_KEPT_H
#define STOKE_SRC_LOADER_KEPT_H

#include "src/loader/job.h"

/* Opens the cache the settings ask for, if any: recipe->cache and transform. After stk_recipe_create. */
int stk_kept_open(stk_recipe *recipe, const stoke_data_params *params, stoke_error *err);
void stk_kept_close(stk_recipe *recipe);

/* Bytes of a bench for reading and writing an entry of such a picture. */
uint64_t stk_kept_scratch(const stk_recipe *recipe, uint64_t pixels, uint8_t depth);
/* Entries may take what the bench was granted for them, from now on. */
void stk_kept_limit(stk_bench *bench);
/* Memory that is held beside the benches at most; before the cache is opened what a fresh one will hold. */
uint64_t stk_kept_memory(const stk_recipe *recipe);

/* 1 and the whole prefix when the cache has the sample, by what is known about its files: they are not read.
 */
int stk_kept_find(stk_job *job);

/* Takes the place of stk_fetch when there is a cache. *whole = 1: job->image, ids, width and height are the
 * whole prefix, as after stk_prefix_whole. 0: as after stk_fetch. */
int stk_kept_bring(stk_job *job, stk_gate *gate, int *whole);

#endif
