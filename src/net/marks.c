/* SPDX-License-Identifier: Apache-2.0
 *
 * When weights are first read and when gradients are complete, told from the tape: so that weights can still
 * be on their way when a pass begins, and gradients can leave before it ends.
 */
#include "src/net/net.h"

#include "src/net/segformer/segformer_head.h"

/* ---- which operation touches what ---- */

/* The layer of such an operation, in bytes; 0: it has none. */
static size_t layer_bytes(stk_tape_op_kind kind)
{
    switch (kind) {
    case STK_TAPE_LINEAR:
    case STK_TAPE_LINEAR_WEIGHT:
    case STK_TAPE_LINEAR_INPUT: return sizeof(stk_linear);
    case STK_TAPE_NORM:
    case STK_TAPE_NORM_BACK: return sizeof(stk_layernorm);
    case STK_TAPE_DEPTHWISE:
    case STK_TAPE_DEPTHWISE_BACK: return sizeof(stk_depthwise);
    case STK_TAPE_SEGFORMER_HEAD:
    case STK_TAPE_SEGFORMER_HEAD_BACK: return sizeof(stk_segformer_head);
    case STK_TAPE_CONV3:
    case STK_TAPE_CONV3_WEIGHT:
    case STK_TAPE_CONV3_INPUT: return sizeof(stk_conv3);
    default: return 0;
    }
}

static int writes_gradients(stk_tape_op_kind kind)
{
    return kind == STK_TAPE_LINEAR_WEIGHT || kind == STK_TAPE_NORM_BACK || kind == STK_TAPE_DEPTHWISE_BACK ||
           kind == STK_TAPE_SEGFORMER_HEAD_BACK || kind == STK_TAPE_CONV3_WEIGHT;
}

/* Whether the place where a layer keeps an address is in this layer. */
static int is_in(const void *slot, const void *layer, size_t bytes)
{
    const char *at = slot, *begin = layer;
    return layer && at >= begin && at < begin + bytes;
}

static int view_reads(const stk_tape_view *view, const void *slot)
{
    const size_t bytes = view->kind == STK_TAPE_VIEW_NORMALISED ? sizeof(stk_layernorm)
                         : view->kind == STK_TAPE_VIEW_HIDDEN   ? sizeof(stk_depthwise)
                                                                : 0;
    return is_in(slot, view->source, bytes);
}

static int reads(const stk_tape_op *op, const stk_parameter *p)
{
    return is_in(p->values, op->layer, layer_bytes(op->kind)) || view_reads(&op->x, p->values) ||
           view_reads(&op->dy, p->values);
}

static int writes(const stk_tape_op *op, const stk_parameter *p)
{
    return writes_gradients(op->kind) && is_in(p->gradients, op->layer, layer_bytes(op->kind));
}

/* ---- marks ---- */

static int lies_in(const stk_parameter *p, size_t first, size_t end)
{
    return p->trainable && p->offset < end && p->offset + p->count > first;
}

uint32_t stoke_net_read_after(const stoke_net *net, size_t first, size_t end)
{
    const stk_tape_span span = net->tape.forward;
    uint32_t least = span.end;
    for (size_t i = 0; i < net->parameters.count; i++) {
        const stk_parameter *p = &net->parameters.list[i];
        uint32_t at = span.begin;
        if (!lies_in(p, first, end)) continue;
        while (at < span.end && !reads(&net->tape.ops[at], p)) at++;
        if (at < least) least = at;
    }
    return least - span.begin;
}

uint32_t stoke_net_final_after(const stoke_net *net, size_t first, size_t end)
{
    const stk_tape_span span = net->tape.backward;
    uint32_t most = span.begin;
    for (size_t i = 0; i < net->parameters.count; i++) {
        const stk_parameter *p = &net->parameters.list[i];
        uint32_t at = span.end;
        if (!lies_in(p, first, end) || !*p->gradients) continue;
        while (at > span.begin && !writes(&net->tape.ops[at - 1], p)) at--;
        if (at > most) most = at;
    }
    return most - span.begin;
}

/* ---- who is told ---- */

void stoke_net_before_forward(stoke_net *net, stoke_net_operations *told, void *context)
{
    net->before_forward = (stk_net_teller){ told, context };
}

void stoke_net_after_backward(stoke_net *net, stoke_net_operations *told, void *context)
{
    net->after_backward = (stk_net_teller){ told, context };
}

/* What an operation of the forward pass needs packed. A layer's packed weights are the same bits whether it
 * is packed alone or with all others. */
static void pack_for(stoke_net *net, const stk_tape_op *op)
{
    const stk_exec *run = &net->run;
    const stk_linear *linear = op->layer;
    const stk_depthwise *depthwise = op->kind == STK_TAPE_DEPTHWISE ? op->layer : op->x.source;
    const stk_conv3 *conv3 = op->layer;
    if (op->kind == STK_TAPE_SEGFORMER_HEAD && !net->head_packed)
        stk_segformer_head_pack(run, (stk_segformer_head *)op->layer);
    if (net->layers_packed) return;
    if (op->kind == STK_TAPE_LINEAR) stk_linear_pack(run, &linear, 1);
    if (op->kind == STK_TAPE_CONV3) stk_conv3_pack(run, &conv3, 1);
    if (op->kind == STK_TAPE_DEPTHWISE || op->x.kind == STK_TAPE_VIEW_HIDDEN)
        stk_depthwise_pack(run, &depthwise, 1);
}

void stk_net_forward(stoke_net *net, const stoke_net_batch *batch, int training)
{
    const stk_tape_span span = net->tape.forward;
    if (!net->before_forward.told) {
        stk_net_pack(net, training);
        stk_net_execute(net, span, batch);
        return;
    }
    stk_net_begin_pass(net, training);
    for (uint32_t i = span.begin; i < span.end; i++) {
        const stk_net_teller who = net->before_forward; /* it may be gone after any operation */
        if (who.told) {
            who.told(who.context, i - span.begin);
            stk_tape_profile_start(&net->parts); /* waiting is not the network's time */
        }
        pack_for(net, &net->tape.ops[i]);
        stk_tape_profile_lap(&net->parts, STK_PART_PACK);
        stk_net_execute(net, (stk_tape_span){ i, i + 1 }, batch);
    }
    net->layers_packed = net->head_packed = 1;
}

void stk_net_backward(stoke_net *net, const stoke_net_batch *batch)
{
    const stk_tape_span span = net->tape.backward;
    const stk_net_teller who = net->after_backward;
    if (!who.told) {
        stk_net_execute(net, span, batch);
        return;
    }
    for (uint32_t i = span.begin; i < span.end; i++) {
        stk_net_execute(net, (stk_tape_span){ i, i + 1 }, batch);
        who.told(who.context, i + 1 - span.begin);
        stk_tape_profile_start(&net->parts);
    }
}
