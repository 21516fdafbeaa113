/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording.
 */
#include "src/net/tape.h"

#include <string.h>

#include "src/base/mem.h"

/* ---- recording ---- */

stk_tape_id stk_tape_declare(stk_tape *tape, const char *name, size_t rows, uint32_t width, stk_float type)
{
    const size_t id = tape->tensor_count ? tape->tensor_count : STK_TAPE_PICTURES + 1;
    if (tape->failed ||
        !stk_grow((void **)&tape->tensors, &tape->tensor_capacity, id + 1, sizeof *tape->tensors)) {
        tape->failed = 1;
        return STK_TAPE_NONE;
    }
    if (!tape->tensor_count) memset(tape->tensors, 0, id * sizeof *tape->tensors);
    tape->tensors[id] = (stk_tape_tensor){ .name = name, .rows = rows, .width = width, .type = type };
    tape->tensors[id].stride = width;
    tape->tensors[id].first = UINT32_MAX;
    tape->tensor_count = id + 1;
    return (stk_tape_id)id;
}

stk_tape_id stk_tape_columns(stk_tape *tape, const char *name, stk_tape_id of, uint32_t first, uint32_t width)
{
    if (tape->failed) return STK_TAPE_NONE;
    const stk_tape_tensor whole = tape->tensors[of];
    const stk_tape_id id = stk_tape_declare(tape, name, whole.rows, width, whole.type);
    if (tape->failed) return STK_TAPE_NONE;
    stk_tape_tensor *part = &tape->tensors[id];
    part->stride = whole.stride;
    part->of = of;
    part->column = first;
    return id;
}

static void reads(stk_tape *tape, stk_tape_id id)
{
    if (id <= STK_TAPE_PICTURES) return;
    stk_tape_tensor *t = &tape->tensors[id], *whole = t->of ? &tape->tensors[t->of] : t;
    const int is_written = t->covered == t->width || whole->covered == whole->width;
    if (!is_written && !tape->unwritten) tape->unwritten = t->name;
    if (t->first == UINT32_MAX) t->first = whole->first; /* written as a whole */
    t->last = whole->last = (uint32_t)tape->op_count;
}

/* All of it, or `columns` of it that were not written before. */
static void writes(stk_tape *tape, stk_tape_id id, uint32_t columns)
{
    stk_tape_tensor *t = &tape->tensors[id];
    if (t->first == UINT32_MAX) t->first = (uint32_t)tape->op_count;
    t->last = (uint32_t)tape->op_count;
    if (t->of) writes(tape, t->of, t->width - t->covered);
    t->covered = columns < t->width - t->covered ? t->covered + columns : t->width;
}

void stk_tape_add(stk_tape *tape, stk_tape_op op)
{
    if (tape->failed ||
        !stk_grow((void **)&tape->ops, &tape->op_capacity, tape->op_count + 1, sizeof *tape->ops)) {
        tape->failed = 1;
        return;
    }
    const stk_tape_view *views[] = { &op.x, &op.dy };
    for (int i = 0; i < 2; i++) {
        reads(tape, views[i]->of);
        reads(tape, views[i]->beside);
    }
    for (int i = 0; i < STK_TAPE_OPERANDS; i++) reads(tape, op.in[i]);
    for (int i = 0; i < STK_TAPE_OPERANDS; i++) {
        if (op.out[i] == STK_TAPE_NONE) continue;
        if (op.add) reads(tape, op.out[i]);
        writes(tape, op.out[i], UINT32_MAX);
    }
    op.rows = tape->tensors[op.dy.of ? op.dy.of : op.out[0]].rows;
    tape->ops[tape->op_count++] = op;
}

stk_tape_span stk_tape_span_after(const stk_tape *tape, stk_tape_span before)
{
    return (stk_tape_span){ before.end, (uint32_t)tape->op_count };
}

void stk_tape_free(stk_tape *tape)
{
    stk_free(tape->tensors);
    stk_free(tape->ops);
    *tape = (stk_tape){ 0 };
}

/* ---- operations ---- */

void stk_tape_linear(stk_tape *tape, stk_tape_part part, const stk_linear *layer, stk_tape_view x,
                     stk_tape_id y)
{
    stk_tape_add(
        tape, (stk_tape_op){ .kind = STK_TAPE_LINEAR, .part = part, .layer = layer, .x = x, .out = { y } });
}

void stk_tape_linear_add(stk_tape *tape, const stk_linear *layer, stk_tape_view x, stk_tape_id factor,
                         stk_tape_id residual, stk_tape_id y)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_LINEAR,
                                      .part = STK_PART_LINEAR_FORWARD,
                                      .layer = layer,
                                      .x = x,
                                      .in = { factor, residual },
                                      .out = { y } });
}

void stk_tape_linear_weight(stk_tape *tape, stk_tape_part part, const stk_linear *layer, stk_tape_view x,
                            stk_tape_view dy)
{
    stk_tape_add(tape, (stk_tape_op){
                           .kind = STK_TAPE_LINEAR_WEIGHT, .part = part, .layer = layer, .x = x, .dy = dy });
}

void stk_tape_linear_input(stk_tape *tape, stk_tape_part part, const stk_linear *layer, stk_tape_view dy,
                           stk_tape_id dx, int add)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_LINEAR_INPUT,
                                      .part = part,
                                      .layer = layer,
                                      .dy = dy,
                                      .out = { dx },
                                      .add = add });
}

void stk_tape_patches_back(stk_tape *tape, stk_tape_part part, const stk_conv_patches *patches,
                           stk_tape_id d_patches, stk_tape_id dx, int add)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_PATCHES_BACK,
                                      .part = part,
                                      .x = stk_tape_view_patches(patches, STK_TAPE_NONE),
                                      .in = { d_patches },
                                      .out = { dx },
                                      .add = add });
}

void stk_tape_norm(stk_tape *tape, const stk_layernorm *layer, stk_tape_id x, stk_tape_id stats,
                   stk_tape_id y)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_NORM,
                                      .part = STK_PART_NORM_FORWARD,
                                      .layer = layer,
                                      .in = { x },
                                      .out = { stats, y } });
}

void stk_tape_norm_back(stk_tape *tape, const stk_layernorm *layer, stk_tape_id x, stk_tape_id stats,
                        stk_tape_id dy, stk_tape_id residual, stk_tape_id dx)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_NORM_BACK,
                                      .part = STK_PART_NORM_BACKWARD,
                                      .layer = layer,
                                      .in = { x, stats, dy, residual },
                                      .out = { dx } });
}

static void conv3(stk_tape *tape, stk_tape_op op, stk_tape_part part, const stk_conv3 *layer,
                  stk_depthwise_map map)
{
    op.part = part;
    op.layer = layer;
    op.map = map;
    stk_tape_add(tape, op);
}

void stk_tape_conv3(stk_tape *tape, const stk_conv3 *layer, stk_depthwise_map map, stk_tape_id x,
                    stk_tape_conv3_finish finish, stk_tape_id y)
{
    const stk_tape_op op = { .kind = STK_TAPE_CONV3,
                             .x = stk_tape_view_rows(x),
                             .factor = finish.factor,
                             .relu = finish.relu,
                             .in = { finish.residual },
                             .out = { y } };
    conv3(tape, op, STK_PART_CONV_FORWARD, layer, map);
}

void stk_tape_conv3_weight(stk_tape *tape, const stk_conv3 *layer, stk_depthwise_map map, stk_tape_id x,
                           stk_tape_id dy, float factor)
{
    const stk_tape_op op = { .kind = STK_TAPE_CONV3_WEIGHT,
                             .x = stk_tape_view_rows(x),
                             .dy = stk_tape_view_rows(dy),
                             .factor = factor };
    conv3(tape, op, STK_PART_CONV_WEIGHT, layer, map);
}

void stk_tape_conv3_input(stk_tape *tape, const stk_conv3 *layer, stk_depthwise_map map, stk_tape_id dy,
                          stk_tape_conv3_finish finish, stk_tape_id dx)
{
    const stk_tape_op op = { .kind = STK_TAPE_CONV3_INPUT,
                             .dy = stk_tape_view_rows(dy),
                             .factor = finish.factor,
                             .in = { finish.residual, finish.gate },
                             .out = { dx } };
    conv3(tape, op, STK_PART_CONV_INPUT, layer, map);
}

void stk_tape_shuffle(stk_tape *tape, stk_depthwise_map map, uint32_t scale, uint32_t channels,
                      stk_tape_id narrow, stk_tape_id wide)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_SHUFFLE,
                                      .part = STK_PART_RESAMPLE,
                                      .map = map,
                                      .scale = scale,
                                      .channels = channels,
                                      .in = { narrow },
                                      .out = { wide } });
}

void stk_tape_shuffle_back(stk_tape *tape, stk_depthwise_map map, uint32_t scale, uint32_t channels,
                           stk_tape_id d_wide, stk_tape_id d_narrow)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_SHUFFLE_BACK,
                                      .part = STK_PART_RESAMPLE,
                                      .map = map,
                                      .scale = scale,
                                      .channels = channels,
                                      .in = { d_wide },
                                      .out = { d_narrow } });
}

void stk_tape_pool(stk_tape *tape, stk_depthwise_map map, stk_tape_id large, stk_tape_id small)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_POOL,
                                      .part = STK_PART_RESAMPLE,
                                      .map = map,
                                      .in = { large },
                                      .out = { small } });
}

void stk_tape_pool_back(stk_tape *tape, stk_depthwise_map map, stk_tape_id large, stk_tape_id d_small,
                        stk_tape_id d_large, int add)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_POOL_BACK,
                                      .part = STK_PART_RESAMPLE,
                                      .map = map,
                                      .in = { large, d_small },
                                      .out = { d_large },
                                      .add = add });
}

void stk_tape_loss(stk_tape *tape)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_LOSS,
                                      .part = STK_PART_LOSS,
                                      .in = { tape->logits },
                                      .out = { tape->d_logits } });
    if (tape->judge) tape->judge(tape->judge_context, tape);
}

void stk_tape_standardise(stk_tape *tape, stk_depthwise_map map, stk_tape_id picture, stk_tape_id y)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_STANDARDISE,
                                      .part = STK_PART_FEATURES_FORWARD,
                                      .map = map,
                                      .in = { picture },
                                      .out = { y } });
}

void stk_tape_standardise_back(stk_tape *tape, stk_tape_id dy, stk_tape_id d_picture)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_STANDARDISE_BACK,
                                      .part = STK_PART_FEATURES_BACKWARD,
                                      .in = { dy },
                                      .out = { d_picture },
                                      .add = 1 });
}

void stk_tape_gate(stk_tape *tape, stk_tape_id y, stk_tape_id d)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_GATE,
                                      .part = STK_PART_FEATURES_BACKWARD,
                                      .x = stk_tape_view_rows(y),
                                      .in = { d },
                                      .out = { d } });
}

void stk_tape_distance(stk_tape *tape, stk_tape_id x, stk_tape_id y, int train)
{
    stk_tape_add(tape, (stk_tape_op){ .kind = STK_TAPE_DISTANCE,
                                      .part = STK_PART_FEATURES_FORWARD,
                                      .channels = tape->failed ? 0 : tape->tensors[x].width,
                                      .x = stk_tape_view_rows(x),
                                      .dy = stk_tape_view_rows(y),
                                      .out = { train ? y : STK_TAPE_NONE } });
}
