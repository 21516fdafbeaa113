/* SPDX-License-Identifier: Apache-2.0
 *
 * A network's state put aside in memory: one block, all arrays one behind the other.
 */
#include <string.h>
#include <stoke/tools/net.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/train/checkpoint.h"

struct stk_checkpoint_snapshot {
    stoke_net_state state;
    size_t count;
    float floats[];
};

int stk_snapshot_take(stk_checkpoint_snapshot **out, const stoke_net *net, stoke_error *err)
{
    size_t count = 0;
    stk_net_array array;
    for (size_t place = 0; stk_net_array_next(net, &place, &array);) count += array.count;
    stk_checkpoint_snapshot *snapshot = stk_alloc(sizeof *snapshot + count * sizeof *snapshot->floats);
    *out = snapshot;
    if (!snapshot)
        return stk_fail(err, STOKE_E_NOMEM, "no memory to put the network's state aside: %.1f MB",
                        (double)count * sizeof *snapshot->floats / 1e6);
    stoke_net_state_get(net, &snapshot->state);
    snapshot->count = count;
    float *to = snapshot->floats;
    for (size_t place = 0; stk_net_array_next(net, &place, &array); to += array.count)
        memcpy(to, array.floats, array.count * sizeof *to);
    return STOKE_OK;
}

void stk_snapshot_restore(const stk_checkpoint_snapshot *snapshot, stoke_net *net)
{
    stk_net_array array;
    const float *from = snapshot->floats;
    for (size_t place = 0; stk_net_array_next(net, &place, &array); from += array.count)
        memcpy(array.floats, from, array.count * sizeof *from);
    stoke_net_state_set(net, &snapshot->state);
    stoke_net_touched(net);
}

void stk_snapshot_free(stk_checkpoint_snapshot **snapshot)
{
    stk_free(*snapshot);
    *snapshot = NULL;
}
