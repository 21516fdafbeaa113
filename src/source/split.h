/* SPDX-License-Identifier: Apache-2.0
 *
 * Train or val, by a keyed hash of the name: a sample's side depends on nothing but its own name, so adding
 * or removing files moves no other sample.
 */
#ifndef STOKE_SRC_SOURCE_SPLIT_H
#define STOKE_SRC_SOURCE_SPLIT_H

#include <stddef.h>
#include <stdint.h>

/* 1 when the sample belongs to val: hash below part * 2^64. part 0 = none, 1 = all. */
int stk_split_is_val(const char *name, size_t length, double part, int64_t seed);
struct stoke_dataset;
/* Whether a set, opened whole, comes with a train and a val part. */
int stk_dataset_has_parts(const struct stoke_dataset *all);

#endif
