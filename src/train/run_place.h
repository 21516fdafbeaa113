/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a run lies, and where what its settings name lay when they were written. config.yaml has whole paths,
 * so that a run goes on from any working directory and after it was moved; the marker of its folder
 * (src/base/ours.h) has the folder's own path as its second line, so that what was moved together with the
 * run is found again. See also stoke_run_follow in <stoke/train.h>.
 */
#ifndef STOKE_SRC_TRAIN_RUN_PLACE_H
#define STOKE_SRC_TRAIN_RUN_PLACE_H

#include <stoke/tools/train.h>

/* Settings with whole paths, for a file; the strings are its own. */
typedef struct stk_run_whole_paths {
    char *text[16];
    size_t count;
} stk_run_whole_paths;
/* Replaces every setting that names a file by its whole path. What cannot be made whole stays as it is. */
void stk_whole_paths_make(stk_run_whole_paths *own, stoke_data_params *data, stoke_train_params *params);
void stk_whole_paths_free(stk_run_whole_paths *own);

/* Writes down where the run lies now. Failing costs only that data moved along is not found by itself. */
void stk_run_place_write(const char *folder);

/* What `path` is called after what lay around `was` came to lie around `now` (both whole paths of a run): its
 * new name in `moved`, or 0 when it did not lie around it. Pure text. */
int stk_run_place_map(const char *path, const char *was, const char *now, char *moved, size_t size);

#endif
