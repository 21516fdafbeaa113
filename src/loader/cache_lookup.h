/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache beside the loader: which key a sample has, and when it is asked.
 *
 * A sample's key is made of the content of its files, so that the same pair is found again whatever it is
 * called; what the memo knows about the files spares reading them. With a cache the whole fitted
 * sample is made and kept (stk_decode_fit_whole) instead of the plan's region. In exact mode both give the
 * same bytes. In fast mode, where a region may be decoded from a smaller picture than the whole, the whole
 * way is always taken: batches do not depend on what the cache holds.
 */
#ifndef STOKE_SRC_LOADER_CACHE_LOOKUP_H
#define STOKE_SRC_LOADER_CACHE_LOOKUP_H

#include "src/loader/sample.h"

/* Opens the cache the settings ask for, if any: config->cache and transform. After
 * stk_loader_config_create. */
int stk_cache_lookup_open(stk_loader_config *config, const stoke_data_params *params, stoke_error *err);
void stk_cache_lookup_close(stk_loader_config *config);

/* Bytes of a scratch memory for reading and writing an entry of such a picture. */
uint64_t stk_cache_lookup_scratch(const stk_loader_config *config, uint64_t pixels, uint8_t depth);
/* Entries may take what the scratch memory was granted for them, from now on. */
void stk_cache_lookup_limit(stk_scratch *scratch);
/* Memory that is held beside the scratch memories at most; before the cache is opened what a fresh one will
 * hold. */
uint64_t stk_cache_lookup_memory(const stk_loader_config *config);

/* 1 and the whole fitted sample when the cache has the sample, by what is known about its files:
 * they are not read.
 */
int stk_cache_lookup_find(stk_sample_ctx *ctx);

/* Takes the place of stk_fetch when there is a cache. *whole = 1: ctx->image, ids, width and height are
 * the whole fitted sample, as after stk_decode_fit_whole. 0: as after stk_fetch. */
int stk_cache_lookup_bring(stk_sample_ctx *ctx, stk_memory_gate *gate, int *whole);

#endif
