/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a network.
 */
#include "src/net/net.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/files/pretrained.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/net.h>

/* ---- memory ---- */

enum {
    LINE = 64,
    HUGE_PAGE = 2 << 20 /* fresh memory is touched 2-3 times faster this way, and the TLB reaches further */
};

void *stk_activation_arena_take(stk_activation_arena *arena, stk_arena_region region, size_t count,
                                size_t bytes)
{
    const size_t at = arena->used[region];
    arena->used[region] = at + (count * bytes + LINE - 1) / LINE * LINE;
    if (arena->used[region] > arena->most[region]) arena->most[region] = arena->used[region];
    return arena->base ? arena->base + arena->start[region] + at : NULL;
}

size_t stk_activation_arena_bytes(const stk_activation_arena *arena)
{
    size_t sum = 0;
    for (int region = 0; region < STK_REGIONS; region++) sum += arena->most[region];
    return sum;
}

/* Ends the measuring: allocates what was measured, on huge pages where the system has them, and starts again.
 * STOKE_E_NOMEM: the system has less; it would hand it out all the same and kill the process later. */
static int activation_arena_commit(stk_activation_arena *arena, stoke_error *err)
{
    const size_t bytes = stk_activation_arena_bytes(arena);
    const uint64_t available = stoke_machine_available();
    arena->base = bytes <= available ? stk_alloc_aligned(bytes, HUGE_PAGE) : NULL;
    if (!arena->base)
        return stk_fail(
            err, STOKE_E_NOMEM,
            "no memory for the network: it needs %.1f MiB, and %.1f MiB are available%s; a smaller "
            "batch or picture, memory: lean or min, or 16-bit precision need less",
            STK_MIB(bytes), STK_MIB(available),
            bytes <= available ? ", but not to this process (ulimit -v?)" : "");
    madvise(arena->base, bytes, MADV_HUGEPAGE); /* a wish: without huge pages all is the same but slower */
    size_t start = 0;
    for (int region = 0; region < STK_REGIONS; region++) {
        arena->start[region] = start;
        start += arena->most[region];
    }
    memset(arena->used, 0, sizeof arena->used);
    return STOKE_OK;
}

static void activation_arena_free(stk_activation_arena *arena)
{
    stk_free(arena->base);
    *arena = (stk_activation_arena){ 0 };
}

/* ---- profile ---- */

static const char *const NAMES[STK_PARTS] = {
    [STK_PART_PACK] = "pack weights",
    [STK_PART_EMBED_FORWARD] = "patch embedding forward",
    [STK_PART_EMBED_WEIGHT] = "patch embedding weight",
    [STK_PART_EMBED_INPUT] = "patch embedding input",
    [STK_PART_REDUCTION_FORWARD] = "reduction forward",
    [STK_PART_REDUCTION_WEIGHT] = "reduction weight",
    [STK_PART_REDUCTION_INPUT] = "reduction input",
    [STK_PART_LINEAR_FORWARD] = "linear forward",
    [STK_PART_LINEAR_WEIGHT] = "linear weight",
    [STK_PART_LINEAR_INPUT] = "linear input",
    [STK_PART_NORM_FORWARD] = "layer norm forward",
    [STK_PART_NORM_BACKWARD] = "layer norm backward",
    [STK_PART_ATTENTION_FORWARD] = "attention forward",
    [STK_PART_ATTENTION_BACKWARD] = "attention backward",
    [STK_PART_DEPTHWISE_FORWARD] = "depthwise forward",
    [STK_PART_DEPTHWISE_BACKWARD] = "depthwise backward",
    [STK_PART_HEAD_FORWARD] = "head forward",
    [STK_PART_HEAD_BACKWARD] = "head backward",
    [STK_PART_LOSS] = "loss",
    [STK_PART_UPDATE] = "clip and update",
};

size_t stoke_net_parts(const stoke_net *net, stoke_net_part *parts, size_t capacity)
{
    size_t count = 0;
    for (int i = 0; i < STK_PARTS && count < capacity; i++) {
        if (!net->parts.calls[i]) continue;
        parts[count++] = (stoke_net_part){ .name = NAMES[i],
                                           .ms = (double)net->parts.ns[i] * 1e-6,
                                           .calls = net->parts.calls[i] };
    }
    return count;
}

void stoke_net_parts_reset(stoke_net *net)
{
    memset(&net->parts, 0, sizeof net->parts);
}

/* ---- opening ---- */

enum { LINEARS_PER_BLOCK = 6 };

stoke_net_params stoke_net_defaults(void)
{
    return (stoke_net_params){
        .struct_size = sizeof(stoke_net_params),
        .batch = 1,
        .height = 512,
        .width = 512,
        .training = 1,
        .precision = STOKE_PRECISION_AUTO,
        .dropout = 0.1,
        .drop_path = 0.1,
        .loss = { .ce_weight = 1, .dice_weight = 1, .focal_gamma = 2, .ignore_index = 255 }
    };
}

static int is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

static int check_loss(const stoke_loss *loss, stoke_error *err)
{
    if (loss->kind < STOKE_LOSS_CE || loss->kind > STOKE_LOSS_FOCAL)
        return stk_fail(err, STOKE_E_INVALID, "no such loss: %d", (int)loss->kind);
    if (!(loss->label_smoothing >= 0 && loss->label_smoothing <= 1))
        return stk_fail(err, STOKE_E_INVALID, "label_smoothing is %g: 0 to 1 will do", loss->label_smoothing);
    if (!is_amount(loss->ce_weight) || !is_amount(loss->dice_weight) || !is_amount(loss->dice_smooth))
        return stk_fail(err, STOKE_E_INVALID, "ce_weight, dice_weight and dice_smooth are 0 or more");
    if (!is_amount(loss->focal_gamma)) /* the kernels take a negative one for plain cross-entropy */
        return stk_fail(err, STOKE_E_INVALID, "focal_gamma is %g: 0 or more will do", loss->focal_gamma);
    return STOKE_OK;
}

static int check_params(const stoke_net_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_net_defaults");
    if (!p->model && !p->weights)
        return stk_fail(err, STOKE_E_INVALID, "name a model (b0 to b5) or weights to load");
    if (!p->classes && !p->weights)
        return stk_fail(err, STOKE_E_INVALID, "say how many classes there are, or load weights that do");
    const int status = stk_config_check_batch(p->batch, p->height, p->width, err);
    if (status) return status;
    if (p->precision < STOKE_PRECISION_FP32 || p->precision > STOKE_PRECISION_AUTO)
        return stk_fail(err, STOKE_E_INVALID, "no such precision: %d", p->precision);
    if (p->memory < STOKE_MEMORY_PLAIN || p->memory > STOKE_MEMORY_MIN)
        return stk_fail(err, STOKE_E_INVALID, "no such memory mode: %d", p->memory);
    if (p->optimizer != STOKE_OPTIMIZER_ADAMW && p->optimizer != STOKE_OPTIMIZER_SGD)
        return stk_fail(err, STOKE_E_INVALID, "no such optimizer: %d", p->optimizer);
    if (!(p->dropout >= 0 && p->dropout < 1) || !(p->drop_path >= 0 && p->drop_path < 1))
        return stk_fail(err, STOKE_E_INVALID, "dropout is %g and drop_path %g: 0 or more, below 1",
                        p->dropout, p->drop_path);
    return check_loss(&p->loss, err);
}

/* Model and classes: what is asked for comes before what the file says. */
static int find_config(stoke_net *net, const stoke_net_params *p, stoke_error *err)
{
    if (!p->weights) return stk_config_of(&net->config, p->model, p->classes, err);
    int status = stk_pretrained_config(p->weights, &net->config, err);
    if (status) return status;
    if (!p->partial && p->model && strcmp(p->model, net->config.model))
        return stk_fail(err, STOKE_E_INVALID, "%s holds a %s, not the %s that was asked for", p->weights,
                        net->config.model, p->model);
    const uint32_t classes = p->classes ? p->classes : net->config.classes;
    if (!classes)
        return stk_fail(err, STOKE_E_INVALID, "%s is an encoder alone: say how many classes there are",
                        p->weights);
    return stk_config_of(&net->config, p->model ? p->model : net->config.model, classes, err);
}

/* Side of the map after a convolution. */
static uint32_t side_after(uint32_t side, uint32_t kernel, uint32_t stride, uint32_t padding)
{
    return (side + 2 * padding - kernel) / stride + 1;
}

/* Every size that check_params lets through leaves every stage at least one key. */
static void shape_stages(stoke_net *net)
{
    const stk_segformer_config *c = &net->config;
    uint32_t height = net->params.height, width = net->params.width, channels = 3;
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        stk_segformer_stage *s = &net->stages[i];
        s->patches = (stk_conv_patches){ .height = height,
                                         .width = width,
                                         .channels = channels,
                                         .kernel = c->patch[i],
                                         .stride = c->stride[i],
                                         .padding = c->patch[i] / 2 };
        s->channels = channels = c->hidden[i];
        s->heads = c->heads[i];
        s->hidden = c->hidden[i] * c->mlp_ratio;
        s->depth = c->depths[i];
        s->reduction = c->reduction[i];
        s->height = height = side_after(height, c->patch[i], c->stride[i], c->patch[i] / 2);
        s->width = width = side_after(width, c->patch[i], c->stride[i], c->patch[i] / 2);
        s->patches.out_height = height;
        s->patches.out_width = width;
        s->reduced_height = height / s->reduction;
        s->reduced_width = width / s->reduction;
    }
    net->loss_shape = (stk_loss_shape){ .batch = net->params.batch,
                                        .classes = c->classes,
                                        .in_height = net->stages[0].height,
                                        .in_width = net->stages[0].width,
                                        .height = net->params.height,
                                        .width = net->params.width };
}

/* The lists of blocks and of what is packed, and each block's share of drop path: from 0, linearly. */
static int make_blocks(stoke_net *net, stoke_error *err)
{
    for (int i = 0; i < STK_STAGES; i++) net->block_count += net->stages[i].depth;
    const uint32_t count = net->block_count;
    net->blocks = stk_calloc(count, sizeof *net->blocks);
    net->depthwises = stk_calloc(count, sizeof *net->depthwises);
    net->linears = stk_calloc((size_t)count * LINEARS_PER_BLOCK + STK_STAGES, sizeof *net->linears);
    if (!net->blocks || !net->depthwises || !net->linears)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a network of %u blocks", (unsigned)count);
    stk_segformer_block *next = net->blocks;
    for (int i = 0; i < STK_STAGES; i++) {
        net->stages[i].blocks = next;
        next += net->stages[i].depth;
    }
    for (uint32_t i = 0; i < count; i++) {
        net->blocks[i].drop = (float)(net->params.drop_path * i / (count > 1 ? count - 1 : 1));
        net->depthwises[i] = &net->blocks[i].depthwise;
    }
    return STOKE_OK;
}

static int resolve_precision(int wanted, const stk_net_table *table)
{
    if (wanted != STOKE_PRECISION_AUTO) return wanted;
    return table->level >= STK_CPU_AMX ? STOKE_PRECISION_BF16 : STOKE_PRECISION_FP32;
}

static int keep_params(stoke_net *net, const stoke_net_params *params, stoke_error *err)
{
    net->params = *params;
    net->params.model = net->params.weights = NULL;
    net->params.class_names = NULL;
    net->params.loss.class_weights = NULL;
    if (params->class_names) {
        net->labels = stk_pretrained_copy_labels(params->class_names, net->config.classes);
        if (!net->labels) return stk_fail(err, STOKE_E_NOMEM, "no memory for the names of classes");
    }
    if (!params->loss.class_weights) return STOKE_OK;
    const size_t bytes = net->config.classes * sizeof(float);
    net->class_weights = stk_alloc(bytes);
    if (!net->class_weights) return stk_fail(err, STOKE_E_NOMEM, "no memory for the weights of classes");
    memcpy(net->class_weights, params->loss.class_weights, bytes);
    for (uint32_t c = 0; c < net->config.classes; c++)
        if (!is_amount(net->class_weights[c]))
            return stk_fail(err, STOKE_E_INVALID, "class_weights has %g for class %u: 0 or more will do",
                            (double)net->class_weights[c], (unsigned)c);
    net->params.loss.class_weights = net->class_weights;
    return STOKE_OK;
}

/* Everything up to the plan: small lists, nothing large, no thread. */
static int prepare(stoke_net *net, const stoke_net_params *params, const stk_net_table *table,
                   stoke_error *err)
{
    static const stk_float TYPES[] = { STK_F32, STK_BF16, STK_F16 };
    int status = check_params(params, err);
    if (!status) status = find_config(net, params, err);
    if (!status) status = keep_params(net, params, err);
    if (!status) shape_stages(net);
    if (!status) status = stk_parameters_create(&net->parameters, &net->config, err);
    if (!status) status = make_blocks(net, err);
    if (!status && params->weights && params->partial)
        status = stk_pretrained_carried(params->weights, &net->parameters, &net->plan.carried, err);
    if (status) return status;
    net->plan.tensors = (uint32_t)net->parameters.count;
    net->plan.precision = resolve_precision(params->precision, table);
    net->plan.threads = params->threads ? params->threads : stoke_machine_cores().usable;
    net->run.table = table;
    net->run.type = TYPES[net->plan.precision];
    net->run.forward_only = !params->training;
    net->state.loss_scale = stk_net_first_scale(net->plan.precision);
    net->run.threads = net->plan.threads; /* some rooms are one per thread */
    status = stk_threadpool_check(net->run.threads, err);
    if (status) return status;
    stk_net_shape_layers(net);
    stk_net_lay_out(net);
    stk_net_plan_make(net);
    return STOKE_OK;
}

int stoke_net_plan_of(const stoke_net_params *params, stoke_net_plan *plan, stoke_error *err)
{
    stoke_net *net = stk_calloc(1, sizeof *net);
    if (!net) return stk_fail(err, STOKE_E_NOMEM, "no memory for a plan");
    const int status = prepare(net, params, stk_net_table_get(), err);
    if (!status) *plan = net->plan;
    stoke_net_close(&net);
    return status;
}

/* First values of everything that has some. */
static int fill(stoke_net *net, const stoke_net_params *params, stoke_error *err)
{
    memset(net->values, 0, net->arena.most[STK_REGION_PARAMETERS]);
    if (params->weights) {
        const stk_pretrained_how how = { .seed = params->seed,
                                         .partial = params->partial,
                                         .remark = stk_remark_keep,
                                         .context = &net->remarks };
        int status = stk_pretrained_load(params->weights, &net->config, &net->parameters, &how, net->values,
                                         &net->state.batches_tracked, err);
        if (!status && !net->labels)
            status = stk_pretrained_labels(params->weights, net->config.classes, &net->labels, err);
        if (status) return status;
    } else {
        stk_parameters_initialise(&net->parameters, net->values, params->seed, net->run.pool);
    }
    if (net->average) memcpy(net->average, net->values, net->parameters.floats * sizeof(float));
    stk_segformer_head_bind(&net->run, &net->head);
    stk_loss_bind(&net->loss_shape, net->loss_room);
    return STOKE_OK;
}

int stk_net_open(stoke_net **out, const stoke_net_params *params, const stk_net_table *table,
                 stoke_error *err)
{
    *out = NULL;
    stoke_net *net = stk_calloc(1, sizeof *net);
    if (!net) return stk_fail(err, STOKE_E_NOMEM, "no memory for a network");
    int status = prepare(net, params, table, err);
    if (!status) status = stk_threadpool_create(&net->run.pool, net->run.threads, err);
    if (!status) status = activation_arena_commit(&net->arena, err);
    if (!status) stk_net_lay_out(net);
    if (!status) status = fill(net, params, err);
    if (status)
        stoke_net_close(&net);
    else
        *out = net;
    return status;
}

int stoke_net_open(stoke_net **out, const stoke_net_params *params, stoke_error *err)
{
    return stk_net_open(out, params, stk_net_table_get(), err);
}

void stoke_net_close(stoke_net **net)
{
    stoke_net *n = *net;
    *net = NULL;
    if (!n) return;
    stk_threadpool_destroy(&n->run.pool);
    activation_arena_free(&n->arena);
    stk_parameters_free(&n->parameters);
    stk_remarks_free(&n->remarks);
    stk_free(n->linears);
    stk_free(n->depthwises);
    stk_free(n->blocks);
    stk_free(n->class_weights);
    stk_free(n->labels);
    stk_free(n);
}
