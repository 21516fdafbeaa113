/* SPDX-License-Identifier: Apache-2.0
 *
 * What our own programs use beyond <stoke/net.h>. No promise: it may change with any version.
 */
#ifndef STOKE_TOOLS_NET_H
#define STOKE_TOOLS_NET_H

#include <stoke/net.h>

/* Time per part of the work since the last call of `reset`, for `stoke bench step`. */
typedef struct stoke_net_part {
    const char *name; /* "linear forward", "attention backward", ... */
    double ms;
    uint64_t calls;
} stoke_net_part;
STOKE_API size_t stoke_net_parts(const stoke_net *net, stoke_net_part *parts, size_t capacity);

STOKE_API void stoke_net_parts_reset(stoke_net *net);

/* After values of a stoke_net_tensor were written: packed copies are made again. */
STOKE_API void stoke_net_touched(stoke_net *net);

/* Counters a checkpoint must keep besides the tensors. */
typedef struct stoke_net_state {
    uint64_t step;  /* updates done */
    uint64_t draws; /* calls of stoke_net_backward, which key dropout */
    uint64_t batches_tracked;
    double loss_scale;
    uint64_t good_steps; /* since the scale last changed */
} stoke_net_state;
STOKE_API void stoke_net_state_get(const stoke_net *net, stoke_net_state *state);

STOKE_API void stoke_net_state_set(stoke_net *net, const stoke_net_state *state);

/* By its name, or by what others call it (16-mixed, bfloat16); -1: there is none such. */
STOKE_API int stoke_precision_named(const char *word);

/* Exchanges the weights with their moving average, and back when called again: to evaluate or predict with
 * it. Between the two calls nothing is trained. STOKE_E_STATE when none is kept. */
STOKE_API int stoke_net_swap_average(stoke_net *net, stoke_error *err);

#endif
