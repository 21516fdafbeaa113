/* SPDX-License-Identifier: Apache-2.0
 *
 * The names in the folder of a cache: what is found under another name is not ours and stays.
 *
 *   .stokehold             the marker
 *   memo, usage            see memo.c, usage.c; both begin with a magic number
 *   ab/ab0123....stk       an entry: 32 hexadecimal digits, the first two are its folder's name
 *   tmp/PID-N-HASH         an entry being written
 */
#ifndef STOKE_SRC_CACHE_LAYOUT_H
#define STOKE_SRC_CACHE_LAYOUT_H

#include <dirent.h>

#include "src/base/ours.h"

/* "stkmemo1" and "skusage1", as bytes in the order of this machine. */
#define STK_MEMO_MAGIC  UINT64_C(0x316f6d656d6b7473)
#define STK_USAGE_MAGIC UINT64_C(0x3165676173756b73)

extern const stk_ours_kind stk_cache_kind;

/* A folder below an open one; NULL when there is none, or it is a link. */
DIR *stk_cache_below(int folder, const char *name);

int stk_cache_is_entry(const char *folder_name, const char *name);
int stk_cache_is_temporary(const char *name);

#endif
