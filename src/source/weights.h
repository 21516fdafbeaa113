/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of samples for STOKE_ORDER_WEIGHTED, as running sums in id order.
 */
#ifndef STOKE_SRC_SOURCE_WEIGHTS_H
#define STOKE_SRC_SOURCE_WEIGHTS_H

#include <stoke/dataset.h>

/* CSV lines `name,weight`: every sample once, and nothing else; weights >= 0, not all 0. Names are those of
 * stoke_dataset_sample. A first record whose second field is no number is a header. Free with stk_free. */
int stk_weights_load(const stoke_dataset *dataset, const char *path, double **cumulative, stoke_error *err);
/* The same from memory. */
int stk_weights_parse(const stoke_dataset *dataset, const char *path, const void *bytes, size_t size,
                      double **cumulative, stoke_error *err);

/* Class-balanced: w = sum of 1 / n_c over the classes c in the sample's mask, n_c = samples that contain c;
 * ignore_index does not count. Reads every mask, in parallel. A mask that cannot be read has weight 0 (the
 * loader would only have to replace it); none readable at all is an error. */
int stk_weights_balanced(const stoke_dataset *dataset, const stoke_data_params *params, unsigned threads,
                         stoke_progress_fn progress, void *context, double **cumulative, stoke_error *err);

#endif
