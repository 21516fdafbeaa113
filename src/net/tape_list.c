/* SPDX-License-Identifier: Apache-2.0
 *
 * A tape for people: its operations with their layers and shapes, its tensors with their lives.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/net.h"
#include "src/net/products.h"

static const char *const KINDS[] = {
    [STK_TAPE_DRAW] = "drop path",
    [STK_TAPE_LINEAR] = "linear",
    [STK_TAPE_LINEAR_WEIGHT] = "linear weight",
    [STK_TAPE_LINEAR_INPUT] = "linear input",
    [STK_TAPE_PATCHES_BACK] = "patches backward",
    [STK_TAPE_NORM] = "norm",
    [STK_TAPE_NORM_BACK] = "norm backward",
    [STK_TAPE_ATTENTION] = "attention",
    [STK_TAPE_ATTENTION_BACK] = "attention backward",
    [STK_TAPE_DEPTHWISE] = "depthwise",
    [STK_TAPE_DEPTHWISE_BACK] = "depthwise backward",
    [STK_TAPE_SEGFORMER_HEAD] = "head",
    [STK_TAPE_SEGFORMER_HEAD_BACK] = "head backward",
    [STK_TAPE_SHUFFLE] = "pixel shuffle",
    [STK_TAPE_SHUFFLE_BACK] = "pixel shuffle backward",
    [STK_TAPE_POOL] = "pool",
    [STK_TAPE_POOL_BACK] = "pool backward",
    [STK_TAPE_CONV3] = "convolution",
    [STK_TAPE_CONV3_WEIGHT] = "convolution weight",
    [STK_TAPE_CONV3_INPUT] = "convolution input",
    [STK_TAPE_LOSS] = "loss",
    [STK_TAPE_STANDARDISE] = "standardise",
    [STK_TAPE_STANDARDISE_BACK] = "standardise backward",
    [STK_TAPE_GATE] = "relu backward",
    [STK_TAPE_DISTANCE] = "feature distance",
};

/* The parameter's name, without its last word. */
static void name_layer(const stoke_net *net, const stk_tape_op *op, stoke_net_op *out)
{
    const stk_parameter *p = stk_products_parameter(op, &net->parameters);
    if (!p && net->features) p = stk_products_parameter(op, &net->features->parameters);
    if (p) snprintf(out->layer, sizeof out->layer, "%.*s", (int)(strrchr(p->name, '.') - p->name), p->name);
}

static void name_shape(const stk_tape_op *op, uint32_t batch, stoke_net_op *out)
{
    const unsigned long long rows = (unsigned long long)op->rows * batch;
    const stk_linear *linear = op->layer;
    const stk_attention *a = &op->attention;
    char *text = out->shape;
    if (op->kind == STK_TAPE_LINEAR || op->kind == STK_TAPE_LINEAR_WEIGHT ||
        op->kind == STK_TAPE_LINEAR_INPUT)
        snprintf(text, sizeof out->shape, "%llu x %u to %u", rows, (unsigned)linear->in,
                 (unsigned)linear->out);
    else if (op->kind == STK_TAPE_CONV3 || op->kind == STK_TAPE_CONV3_WEIGHT ||
             op->kind == STK_TAPE_CONV3_INPUT)
        snprintf(text, sizeof out->shape, "%u x %u x %u, %u to %u", (unsigned)batch, (unsigned)op->map.height,
                 (unsigned)op->map.width, (unsigned)((const stk_conv3 *)op->layer)->in,
                 (unsigned)((const stk_conv3 *)op->layer)->out);
    else if (op->kind == STK_TAPE_ATTENTION || op->kind == STK_TAPE_ATTENTION_BACK)
        snprintf(text, sizeof out->shape, "%llu queries, %u keys, %u x %u", rows, (unsigned)a->keys,
                 (unsigned)a->heads, (unsigned)a->head_size);
    else
        snprintf(text, sizeof out->shape, "%llu rows", rows);
}

static uint64_t bytes_of(const stk_tape *tape, stk_tape_id id)
{
    return id > STK_TAPE_PICTURES ? tape->tensors[id].bytes : 0;
}

static const char *phase_of(const stk_tape *tape, uint32_t op)
{
    return op < tape->forward.end ? "forward" : op < tape->loss.end ? "loss" : "backward";
}

static void list(const stoke_net *net, stoke_net_tape *out)
{
    const stk_tape *tape = &net->tape;
    const uint32_t batch = net->params.batch;
    for (uint32_t i = 0; i < out->n_ops; i++) {
        const stk_tape_op *op = &tape->ops[i];
        stoke_net_op *to = &out->ops[i];
        *to = (stoke_net_op){ .phase = phase_of(tape, i),
                              .kind = KINDS[op->kind],
                              .flops = stk_tape_op_flops(op, batch) };
        name_layer(net, op, to);
        name_shape(op, batch, to);
        to->read = bytes_of(tape, op->x.of) + bytes_of(tape, op->x.beside) + bytes_of(tape, op->dy.of);
        for (int k = 0; k < STK_TAPE_OPERANDS; k++) {
            to->read += bytes_of(tape, op->in[k]) + (op->add ? bytes_of(tape, op->out[k]) : 0);
            to->written += bytes_of(tape, op->out[k]);
        }
    }
    out->n_maps = 0;
    for (size_t i = STK_TAPE_PICTURES + 1; i < tape->tensor_count; i++) {
        const stk_tape_tensor *t = &tape->tensors[i];
        if (t->of) continue; /* a part of one that is listed */
        out->maps[out->n_maps++] = (stoke_net_map){ .name = t->name,
                                                    .first = t->first,
                                                    .last = t->last,
                                                    .at = t->at,
                                                    .bytes = t->bytes,
                                                    .kept = stk_tape_is_kept(tape, t) };
        for (uint32_t k = t->first; k <= t->last; k++) out->ops[k].live += t->bytes;
    }
}

/* Room for the lists, and what they begin with. */
static int make_lists(const stoke_net *net, stoke_net_tape *out)
{
    out->n_ops = net->tape.op_count;
    out->n_maps = net->tape.tensor_count - STK_TAPE_PICTURES - 1;
    out->bytes = net->tape.bytes;
    out->kept = net->tape.kept;
    out->plan = net->plan;
    out->ops = stk_calloc(out->n_ops, sizeof *out->ops);
    out->maps = stk_calloc(out->n_maps, sizeof *out->maps);
    return out->ops && out->maps;
}

int stoke_net_tape_of(const stoke_net_params *params, stoke_net_tape **tape, stoke_error *err)
{
    stoke_net *net = stk_calloc(1, sizeof *net);
    *tape = stk_calloc(1, sizeof **tape);
    int status = STOKE_OK;
    if (net && *tape) status = stk_net_prepare(net, params, stk_net_table_get(), err);
    if (!net || !*tape || (!status && !make_lists(net, *tape)))
        status = stk_fail(err, STOKE_E_NOMEM, "no memory for the list of a network's operations");
    if (!status) list(net, *tape);
    stoke_net_close(&net);
    if (status) stoke_net_tape_destroy(tape);
    return status;
}

void stoke_net_tape_destroy(stoke_net_tape **tape)
{
    if (*tape) {
        stk_free((*tape)->ops);
        stk_free((*tape)->maps);
    }
    stk_free(*tape);
    *tape = NULL;
}
