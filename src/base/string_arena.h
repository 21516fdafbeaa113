/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings that live as long as the dataset: a million paths in a few hundred blocks instead of a million.
 */
#ifndef STOKE_SRC_BASE_STRING_ARENA_H
#define STOKE_SRC_BASE_STRING_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include <stoke/common.h>

typedef struct stk_string_arena_block stk_string_arena_block;
typedef struct stk_string_arena {
    stk_string_arena_block *last;
} stk_string_arena;

/* `length` bytes of text and a NUL. NULL when there is no memory. */
char *stk_string_arena_copy(stk_string_arena *arena, const char *text, size_t length);
/* snprintf into the arena; texts are cut at 4 KiB. NULL when there is no memory. */
char *stk_string_arena_print(stk_string_arena *arena, const char *format, ...) STOKE_PRINTF(2, 3);
void stk_string_arena_free(stk_string_arena *arena);

#endif
