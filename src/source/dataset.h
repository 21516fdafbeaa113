/* SPDX-License-Identifier: Apache-2.0
 *
 * What other rooms see of a set beyond <stoke/dataset.h>: which side of a split a sample is on, and its
 * weight.
 */
#ifndef STOKE_SRC_SOURCE_DATASET_H
#define STOKE_SRC_SOURCE_DATASET_H

#include <stoke/dataset.h>

/* Train or val, by a keyed hash of the name: a sample's side depends on nothing but its own name, so adding
 * or removing files moves no other sample. 1 when it belongs to val: hash below part * 2^64. part 0 = none, 1
 * = all. */
int stk_split_is_val(const char *name, size_t length, double part, int64_t seed);
/* Whether a set, opened whole, comes with a train and a val part. */
int stk_dataset_has_parts(const stoke_dataset *all);

/* The target of a sample in place of its image: for who reads it as one. */
static inline stoke_sample stk_target_as_image(const stoke_sample *sample)
{
    stoke_sample target = *sample;
    target.image_path = sample->target_path;
    target.image = sample->target;
    return target;
}

/* Weights of samples for STOKE_ORDER_WEIGHTED, as running sums in id order. */

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
