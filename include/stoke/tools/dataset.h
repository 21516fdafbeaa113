/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/dataset.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_DATASET_H
#define STOKE_TOOLS_DATASET_H

#include <stoke/dataset.h>

/* 1 when samples have targets: what task auto came to is restore. */
STOKE_API int stoke_dataset_has_targets(const stoke_dataset *dataset);

/* Keeps `count` samples, evenly spread over the set (all when it has no more), and renumbers them. Before
 * anyone else uses the set: for trials on a part of a large one. */
STOKE_API void stoke_dataset_thin(stoke_dataset *dataset, uint64_t count);

/* Keeps the samples ids[0..count), in that order, and renumbers them. Ids must differ. */
STOKE_API int stoke_dataset_pick(stoke_dataset *dataset, const uint64_t *ids, uint64_t count,
                                 stoke_error *err);

/* What `orientation` auto comes to for the whole set, as training takes it: apply where masks that tell by
 * their size were all drawn on the image turned upright, and others cannot tell; else auto, by which every
 * pair is judged alone. Reads the headers of all files, 10 us each. remarks: a line for what a person should
 * know, as far as there is room; "" where no image has an orientation or another setting was asked for. */
STOKE_API int stoke_dataset_orientation(const stoke_dataset *dataset, const stoke_data_params *params,
                                        stoke_orientation *settled, char *remarks, size_t size,
                                        stoke_error *err);

/* Pictures that lie among the samples in formats that are not read: "3 .bmp, 1 .gif" into text, which is
 * returned; "" where there are none. */
STOKE_API const char *stoke_dataset_unread(const stoke_dataset *dataset, char *text, size_t size);

/* 16-bit images with values from `low` to `high`: when that is a small part of the range and no window is set
 * they come out nearly black; writes a sentence that says so and returns 1. */
STOKE_API int stoke_remark_on_values(const stoke_data_params *params, uint32_t low, uint32_t high, char *text,
                                     size_t size);

#endif
