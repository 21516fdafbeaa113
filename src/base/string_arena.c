/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/string_arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/mem.h"

struct stk_string_arena_block {
    stk_string_arena_block *before;
    size_t used, size;
    char bytes[];
};

/* Small sets stay small, large ones waste at most one block. */
enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

static char *take(stk_string_arena *arena, size_t bytes)
{
    stk_string_arena_block *block = arena->last;
    if (!block || block->size - block->used < bytes) {
        size_t size = block ? block->size * 2 : FIRST_BLOCK;
        if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
        if (size < bytes) size = bytes;
        block = stk_alloc(sizeof *block + size);
        if (!block) return NULL;
        *block = (stk_string_arena_block){ .before = arena->last, .size = size };
        arena->last = block;
    }
    char *place = block->bytes + block->used;
    block->used += bytes;
    return place;
}

char *stk_string_arena_copy(stk_string_arena *arena, const char *text, size_t length)
{
    char *place = take(arena, length + 1);
    if (!place) return NULL;
    if (length) memcpy(place, text, length);
    place[length] = 0;
    return place;
}

char *stk_string_arena_print(stk_string_arena *arena, const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) n = 0;
    return stk_string_arena_copy(arena, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

void stk_string_arena_free(stk_string_arena *arena)
{
    for (stk_string_arena_block *block = arena->last, *before; block; block = before) {
        before = block->before;
        stk_free(block);
    }
    arena->last = NULL;
}
