/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a run's ranks is a file that anyone may write: any bytes are refused with a reason, or give
 * records that can be printed. The sum is set right for a second try.
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/mem.h"
#include "src/loader/live_page.h"

static void take(const void *table, size_t size)
{
    stoke_live_ranks_head head;
    stoke_live_rank *ranks;
    stoke_error err = { 0 };
    if (stk_live_ranks_take(table, size, "fuzz", &head, &ranks, &err)) {
        insist(!ranks && !strncmp(err.message, "fuzz: ", 6));
        return;
    }
    insist(ranks && head.world <= STOKE_LIVE_RANKS_MOST);
    for (uint64_t q = 0; q < head.world; q++) insist(memchr(ranks[q].host, 0, sizeof ranks[q].host) != NULL);
    stoke_live_ranks_free(&ranks);
}

FUZZ_TARGET(live_ranks)
{
    const size_t head = sizeof(stk_live_ranks_content);
    stk_live_ranks_content *table =
        stk_calloc(1, size + head); /* aligned, and not a byte of others behind it */
    insist(table != NULL);
    if (size) memcpy(table, bytes, size);
    take(table, size);
    const uint64_t world = table->head.world, bytes_each = table->bytes;
    if (size >= head && world <= STOKE_LIVE_RANKS_MOST && bytes_each <= sizeof(stoke_live_rank) &&
        head + world * bytes_each <= size) {
        table->magic = STK_LIVE_RANKS_MAGIC;
        table->checksum = stk_live_ranks_checksum(table, (size_t)(head + world * bytes_each));
        take(table, size);
    }
    stk_free(table);
    return 0;
}
