/* SPDX-License-Identifier: Apache-2.0
 *
 * Trials of the attention. `scratch` says what its own column needs: it is tried by giving no byte more.
 */
#include <stdio.h>

#include "tests/check/net_check.h"

typedef struct shape {
    stk_attention_share share;
    size_t q_elements, kv_elements;
} shape;

static shape draw(net_try *t)
{
    const uint32_t heads = net_between(t, 1, 3), size = 8 * net_between(t, 1, 9);
    shape s = { .share = { .type = (stk_float)net_below(t, STK_FLOATS),
                           .queries = net_between(t, 1, 40),
                           .keys = net_between(t, 1, net_below(t, 4) ? 40 : 300),
                           .head_size = size,
                           .stride = (size_t)heads * size,
                           .kv_stride = (size_t)heads * size * 2 } };
    stk_attention_share *a = &s.share;
    s.q_elements = (a->queries - 1) * a->stride + size;
    s.kv_elements = (a->keys - 1) * a->kv_stride + size;
    a->q = net_array(t, a->type, s.q_elements);
    a->k = net_array(t, a->type, s.kv_elements);
    a->v = net_array(t, a->type, s.kv_elements);
    snprintf(t->text, sizeof t->text, "type %d, %u queries, %u keys, %u of %zu columns", (int)a->type,
             a->queries, a->keys, size, a->stride);
    return s;
}

static void *scratch_of(net_try *t, int who, const stk_attention_share *a)
{
    return net_room(t, t->table[who]->attention.scratch(a->keys, a->head_size));
}

static int try_forward(const net_trial *trial, net_try *t)
{
    (void)trial;
    const shape s = draw(t);
    const net_pair context = net_arrays(t, s.share.type, s.q_elements),
                   sums = net_arrays(t, STK_F32, s.share.queries);
    const int keep = (int)net_below(t, 2);
    for (int who = 0; who < NET_BOTH; who++) {
        stk_attention_share a = s.share;
        a.context = context.of[who];
        a.log_sum = keep ? sums.of[who] : NULL;
        t->table[who]->attention.forward(&a, scratch_of(t, who, &a));
    }
    return net_agree(t, "context", context, s.share.type, s.q_elements, net_allowed(s.share.type)) &&
           net_agree(t, "log_sum", sums, STK_F32, s.share.queries, net_allowed(STK_F32));
}

/* Context and sums as the reference's forward pass leaves them: anything else would not be a softmax. */
static int try_backward(const net_trial *trial, net_try *t)
{
    (void)trial;
    shape s = draw(t);
    stk_attention_share *a = &s.share;
    const size_t each = (size_t)a->keys * a->head_size;
    a->context = net_array(t, a->type, s.q_elements);
    a->log_sum = net_array(t, STK_F32, a->queries);
    t->table[NET_REFERENCE]->attention.forward(a, scratch_of(t, NET_REFERENCE, a));
    a->d_context = net_array(t, a->type, s.q_elements);
    const net_pair dq = net_arrays(t, a->type, s.q_elements), dk = net_arrays(t, STK_F32, each),
                   dv = net_arrays(t, STK_F32, each);
    for (int who = 0; who < NET_BOTH; who++) {
        stk_attention_share b = *a;
        b.dq = dq.of[who];
        b.dk = dk.of[who];
        b.dv = dv.of[who];
        t->table[who]->attention.backward(&b, scratch_of(t, who, &b));
    }
    const double sums = 1e-4; /* differences of nearly equal products: dP - delta */
    return net_agree(t, "dq", dq, a->type, s.q_elements, a->type == STK_F32 ? sums : net_allowed(a->type)) &&
           net_agree(t, "dk", dk, STK_F32, each, sums) && net_agree(t, "dv", dv, STK_F32, each, sums);
}

static const net_trial trials[] = {
    { "attention.scratch", offsetof(stk_net_table, attention.scratch), 0, try_forward },
    { "attention.forward", offsetof(stk_net_table, attention.forward), 0, try_forward },
    { "attention.backward", offsetof(stk_net_table, attention.backward), 0, try_backward },
};

const net_section net_section_attention = { trials, sizeof trials / sizeof *trials, NULL, 0 };
