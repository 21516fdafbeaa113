/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies among the pictures for `predict` and is none that is read.
 */
#ifndef STOKE_CLI_TRAIN_PREDICT_SKIPPED_H
#define STOKE_CLI_TRAIN_PREDICT_SKIPPED_H

#include "cli/lib/common.h"

/* Says how many files of each ending there are below the folders among `folders`; nothing when there are
 * none. */
void predict_say_skipped(const cli_call *call, const char *const *folders, int count);

#endif
