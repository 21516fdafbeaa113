/* SPDX-License-Identifier: Apache-2.0
 *
 * The pictures that `predict` was given, and what their masks will be called.
 */
#ifndef STOKE_CLI_TRAIN_PREDICT_LIST_H
#define STOKE_CLI_TRAIN_PREDICT_LIST_H

#include "cli/lib/common.h"

typedef struct predict_list {
    stoke_sample *files; /* name: below the folder of masks, without extension; no two alike */
    size_t count, capacity;
    uint64_t twice; /* files that were named more than once, and are in the list once */
    stoke_dataset **sets;
    size_t n_sets, sets_capacity;
    char **strings;
    size_t n_strings, strings_capacity;
} predict_list;

/* Adds a picture, all pictures below a folder (of a data set, which has masks too, its images), or shards. */
int predict_list_add(predict_list *list, const char *path, stoke_error *err);
/* Adds the samples of a data set. */
int predict_list_add_set(predict_list *list, const cli_call *call, const stoke_data_params *data,
                         stoke_error *err);
/* Leaves out what is there twice and makes names differ: parent folders are put before those that do not. */
void predict_list_settle(predict_list *list);
void predict_list_free(predict_list *list);

/* Says how many files of each ending there are below the folders among `folders`; nothing when there are
 * none. */
void predict_say_skipped(const cli_call *call, const char *const *folders, int count);

#endif
