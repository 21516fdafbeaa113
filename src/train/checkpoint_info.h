/* SPDX-License-Identifier: Apache-2.0
 *
 * What a checkpoint says in words: one JSON object, read back to the same bits. Its text comes from a file
 * and may be anyone's.
 */
#ifndef STOKE_SRC_TRAIN_CHECKPOINT_INFO_H
#define STOKE_SRC_TRAIN_CHECKPOINT_INFO_H

#include <stoke/tools/net.h>
#include "src/train/checkpoint.h"

enum { STK_HASH_TEXT = 17 };

typedef struct stk_checkpoint_info {
    stk_checkpoint_progress progress;
    stoke_net_state net;
    char data_hash[STK_HASH_TEXT]; /* over all arrays, hexadecimal; see checkpoint.c */
    char *identity;
} stk_checkpoint_info;

/* stk_free the text. STOKE_E_STATE: counters contradict each other, and it would not be read back. */
int stk_checkpoint_info_text(const stk_checkpoint_info *info, char **text, stoke_error *err);
/* Every field once, none that is unknown, none that contradicts another. On success stk_free
 * info->identity; on failure there is nothing to free. */
int stk_checkpoint_info_read(stk_checkpoint_info *info, const char *text, size_t size, stoke_error *err);

#endif
