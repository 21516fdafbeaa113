/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples from a CSV list: an image path and, optionally, a mask path per line.
 */
#ifndef STOKE_SRC_SOURCE_LIST_H
#define STOKE_SRC_SOURCE_LIST_H

#include "src/source/dataset_internal.h"

/* Reads the file and adds its samples. The files named are not looked at. */
int stk_list_read(stoke_dataset *dataset, const char *path, stoke_error *err);

/* The same from memory; `path` gives the folder that relative paths start from, and the name in messages. */
int stk_list_parse(stoke_dataset *dataset, const char *path, const void *bytes, size_t size,
                   stoke_error *err);

#endif
