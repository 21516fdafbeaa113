/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bf16 tiles.
 */
#include "src/net/kernels/net_table.h"
#include "src/net/kernels/tiles.h"

static uint64_t run(uint64_t rounds)
{
    stk_tiles_begin();
    stk_tiles_zero();
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (uint64_t round = 0; round < rounds; round++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    stk_tiles_end();
    return rounds * 4 * STK_TILE * STK_TILE * STK_TILE_K * 2;
}

void STK_TILES(stk_peak_fill)(stk_peak_table *table)
{
    table->run[STK_BF16] = run;
}
