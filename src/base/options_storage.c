/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings that fields point to, read from a file: a chain of blocks, freed together.
 */
#include <string.h>

#include "src/base/mem.h"
#include "src/base/option_table.h"

typedef struct string_block {
    struct string_block *next;
    char text[];
} string_block;

struct stoke_option_storage {
    string_block *strings;
};

stoke_option_storage *stk_option_storage(void)
{
    return stk_calloc(1, sizeof(stoke_option_storage));
}

const char *stk_option_keep(stoke_option_storage *storage, const char *text, size_t length)
{
    string_block *block = stk_alloc(sizeof *block + length + 1);
    if (!block) return NULL;
    memcpy(block->text, text, length);
    block->text[length] = 0;
    block->next = storage->strings;
    storage->strings = block;
    return block->text;
}

void stoke_options_free_storage(stoke_option_storage **storage)
{
    if (!*storage) return;
    for (string_block *block = (*storage)->strings, *next; block; block = next) {
        next = block->next;
        stk_free(block);
    }
    stk_free(*storage);
    *storage = NULL;
}
