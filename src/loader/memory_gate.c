/* SPDX-License-Identifier: Apache-2.0 */
#include "src/loader/memory_gate.h"

#include "src/base/error.h"

int stk_memory_gate_create(stk_memory_gate *gate, uint64_t reserve, uint64_t limit, stoke_error *err)
{
    *gate = (stk_memory_gate){ .reserve = reserve, .limit = limit };
    if (pthread_mutex_init(&gate->turn, NULL))
        return stk_fail(err, STOKE_E_NOMEM, "cannot make a lock for large pictures");
    gate->made = 1;
    return STOKE_OK;
}

void stk_memory_gate_destroy(stk_memory_gate *gate)
{
    if (gate->made) pthread_mutex_destroy(&gate->turn);
    gate->made = 0;
}

int stk_memory_gate_pass(stk_memory_gate *gate, stk_scratch *scratch, const stk_scratch_bytes *need,
                         stoke_error *err)
{
    stk_scratch_bytes raised = scratch->has_turn ? scratch->allowed : scratch->granted;
    stk_row_need_raise(&raised, need);
    const uint64_t granted = stk_row_need_sum(&scratch->granted), wanted = stk_row_need_sum(&raised);
    if (wanted == granted) return STOKE_OK;
    if (gate->limit && wanted - granted > gate->reserve)
        return stk_fail(
            err, STOKE_E_LIMIT,
            "needs %.1f MB to be read: a worker has %.1f MB, and memory_limit %.1f MB leaves %.1f MB more",
            wanted / 1e6, granted / 1e6, gate->limit / 1e6, gate->reserve / 1e6);
    if (!scratch->has_turn) pthread_mutex_lock(&gate->turn);
    scratch->has_turn = 1;
    scratch->allowed = raised;
    return STOKE_OK;
}

void stk_memory_gate_leave(stk_memory_gate *gate, stk_scratch *scratch)
{
    if (!scratch->has_turn) return;
    stk_scratch_empty(scratch);
    stk_mem_give_back();
    scratch->has_turn = 0;
    pthread_mutex_unlock(&gate->turn);
}

int stk_memory_gate_guards_files(const stk_memory_gate *gate)
{
    return gate->limit || gate->reserve;
}
