/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a network.
 */
#include "src/net/net.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/net/files/pretrained.h"
#include "src/net/segformer/segformer_head.h"
#include <stoke/tools/machine.h>
#include <stoke/tools/net.h>

/* ---- memory ---- */

enum {
    LINE = 64,
    HUGE_PAGE = 2 << 20 /* fresh memory is touched 2-3 times faster this way, and the TLB reaches further */
};

/* Room for `count` elements of `bytes` bytes, on a cache line; NULL while measuring. */
static void *take(stoke_net *net, stk_arena_region region, size_t count, size_t bytes)
{
    stk_activation_arena *arena = &net->arena;
    const size_t at = arena->used[region];
    arena->used[region] = at + (count * bytes + LINE - 1) / LINE * LINE;
    return arena->base ? arena->base + arena->start[region] + at : NULL;
}

static size_t arena_bytes(const stk_activation_arena *arena)
{
    size_t sum = 0;
    for (int region = 0; region < STK_REGIONS; region++) sum += arena->used[region];
    return sum;
}

/* Ends the measuring: allocates what was measured, on huge pages where the system has them. STOKE_E_NOMEM:
 * the system has less; it would hand it out all the same and kill the process later. */
static int activation_arena_commit(stk_activation_arena *arena, stoke_error *err)
{
    const size_t bytes = arena_bytes(arena);
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
    arena->bytes = bytes;
    return STOKE_OK;
}

/* What was measured becomes addresses: the regions one after the other, and handing out begins. */
static void activation_arena_divide(stk_activation_arena *arena)
{
    size_t start = 0;
    for (int region = 0; region < STK_REGIONS; region++) {
        arena->start[region] = start;
        start += arena->used[region];
    }
    memset(arena->used, 0, sizeof arena->used);
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
    [STK_PART_CONV_FORWARD] = "convolution forward",
    [STK_PART_CONV_WEIGHT] = "convolution weight",
    [STK_PART_CONV_INPUT] = "convolution input",
    [STK_PART_RESAMPLE] = "shuffle and pool",
    [STK_PART_LOSS] = "loss",
    [STK_PART_FEATURES_FORWARD] = "features forward",
    [STK_PART_FEATURES_BACKWARD] = "features backward",
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
        .perceptual_weight = 0.1,
        .loss = { .ce_weight = 1, .dice_weight = 1, .focal_gamma = 2, .ignore_index = 255 }
    };
}

static int is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

int stk_net_check_loss(const stoke_loss *loss, int task, stoke_error *err)
{
    static const struct {
        int task;
        const char *word;
    } losses[] = {
#define STOKE_LOSS(id, value, task, word) { STOKE_TASK_##task, word },
#include <stoke/losses.def>
#undef STOKE_LOSS
    };
    if ((int)loss->kind < 0 || loss->kind >= STOKE_LOSS_KINDS)
        return stk_fail(err, STOKE_E_INVALID, "no such loss: %d", (int)loss->kind);
    if (losses[loss->kind].task != task) {
        char fitting[128] = "";
        for (int i = 0; i < STOKE_LOSS_KINDS; i++)
            if (losses[i].task == task)
                stk_text_add(fitting, sizeof fitting, *fitting ? ", " : "", "%s", losses[i].word);
        return stk_fail(err, STOKE_E_INVALID,
                        task == STOKE_TASK_RESTORE
                            ? "%s is a loss of masks: pictures are restored by %s"
                            : "%s is a loss of pictures that are restored: masks have %s",
                        losses[loss->kind].word, fitting);
    }
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
        return stk_fail(err, STOKE_E_INVALID, "name a model (b0 to b5, resnet, unet) or weights to load");
    if (!p->classes && !p->weights && p->task != STOKE_TASK_RESTORE)
        return stk_fail(err, STOKE_E_INVALID, "say how many classes there are, or load weights that do");
    if (p->task < STOKE_TASK_AUTO || p->task > STOKE_TASK_RESTORE)
        return stk_fail(err, STOKE_E_INVALID, "no such task: %d", p->task);
    if (p->precision < STOKE_PRECISION_FP32 || p->precision > STOKE_PRECISION_AUTO)
        return stk_fail(err, STOKE_E_INVALID, "no such precision: %d", p->precision);
    if (p->memory < STOKE_MEMORY_PLAIN || p->memory > STOKE_MEMORY_MIN)
        return stk_fail(err, STOKE_E_INVALID, "no such memory mode: %d", p->memory);
    if (p->optimizer != STOKE_OPTIMIZER_ADAMW && p->optimizer != STOKE_OPTIMIZER_SGD)
        return stk_fail(err, STOKE_E_INVALID, "no such optimizer: %d", p->optimizer);
    if (!(p->dropout >= 0 && p->dropout < 1) || !(p->drop_path >= 0 && p->drop_path < 1))
        return stk_fail(err, STOKE_E_INVALID, "dropout is %g and drop_path %g: 0 or more, below 1",
                        p->dropout, p->drop_path);
    if (!is_amount(p->perceptual_weight))
        return stk_fail(err, STOKE_E_INVALID, "perceptual_weight is %g: 0 or more will do",
                        p->perceptual_weight);
    return STOKE_OK;
}

/* Whether the network that judges, where there is one, has features of what is made of such pictures. */
static int check_features(const stoke_net *net, uint32_t height, uint32_t width, const char *which,
                          stoke_error *err)
{
    const uint32_t scale = net->config.scale;
    const uint32_t least = net->features ? net->features->family->side_min : 0;
    if (height * scale >= least && width * scale >= least) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "pictures of %u x %u: %s has features of %u x %u and larger",
                    (unsigned)(height * scale), (unsigned)(width * scale), which, (unsigned)least,
                    (unsigned)least);
}

/* The network that judges, where there is one. */
static int open_features(stoke_net *net, const stoke_net_params *p, stoke_error *err)
{
    if (!p->perceptual || p->perceptual_weight == 0) return STOKE_OK;
    if (net->config.task != STOKE_TASK_RESTORE)
        return stk_fail(
            err, STOKE_E_INVALID,
            "a perceptual loss compares pictures, and this network labels them: it is for the task "
            "restore");
    const int status = stk_features_create(&net->features, p->perceptual, p->perceptual_weight, err);
    return status ? status : check_features(net, p->height, p->width, p->perceptual, err);
}

static int resolve_precision(int wanted, const stk_net_table *table)
{
    if (wanted != STOKE_PRECISION_AUTO) return wanted;
    return table->level >= STK_CPU_AMX ? STOKE_PRECISION_BF16 : STOKE_PRECISION_FP32;
}

static int keep_params(stoke_net *net, const stoke_net_params *params, stoke_error *err)
{
    net->params = *params;
    net->params.model = net->params.weights = net->params.perceptual = NULL;
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

/* ---- the tape, and where everything lies ---- */

static int record(stoke_net *net, stoke_error *err)
{
    const stoke_net_params *p = &net->params;
    const stk_network_settings how = { .height = p->height,
                                       .width = p->width,
                                       .training = p->training,
                                       .freeze_encoder = p->freeze_encoder,
                                       .memory = p->memory,
                                       .type = net->run.type,
                                       .drop_path = p->drop_path };
    if (net->features) stk_features_attach(net->features, &how, &net->tape);
    net->config.network->record(net->layers, &how, &net->tape);
    if (net->features && !p->training) {
        stk_tape_loss(&net->tape);
        net->tape.loss = stk_tape_span_after(&net->tape, net->tape.forward);
    }
    stk_segformer_head *head = stk_net_layer(net, STK_TAPE_SEGFORMER_HEAD);
    if (head) head->batch = p->batch;
    net->loss_shape = (stk_loss_shape){ .batch = p->batch,
                                        .classes = net->config.classes,
                                        .in_height = net->tape.out_height,
                                        .in_width = net->tape.out_width,
                                        .height = p->height,
                                        .width = p->width };
    return stk_tape_place(&net->tape, p->batch, err);
}

static float *floats(stoke_net *net, stk_arena_region region, size_t count)
{
    return take(net, region, count, sizeof(float));
}

static void lay_parameters(stoke_net *net)
{
    const stk_arena_region region = STK_REGION_PARAMETERS;
    const stk_parameters *p = &net->parameters;
    net->values = floats(net, region, p->floats);
    if (net->params.training) {
        net->gradients = floats(net, region, p->trainable);
        net->first = floats(net, region, p->trainable);
        if (net->params.optimizer == STOKE_OPTIMIZER_ADAMW) net->second = floats(net, region, p->trainable);
        /* With room for the running statistics, so that it can be saved as a whole. */
        if (net->params.average) net->average = floats(net, region, p->floats);
        net->groups = take(net, region, p->count, sizeof *net->groups);
    }
    stk_parameters_bind(p, net->values, net->gradients, net->params.freeze_encoder);
    stk_features *features = net->features;
    if (!features) return;
    features->values = floats(net, region, features->parameters.floats);
    stk_parameters_bind(&features->parameters, features->values, NULL, 0);
}

static void lay_packed_list(stoke_net *net, const stk_parameters *p)
{
    const stk_arena_region region = STK_REGION_PACKED;
    for (size_t i = 0; i < p->linear_count; i++)
        p->linears[i]->forward = take(net, region, stk_linear_packed(&net->run, p->linears[i], 0), 1);
    for (size_t i = 0; i < p->conv3_count; i++)
        p->conv3s[i]->forward = take(net, region, stk_conv3_packed(&net->run, p->conv3s[i], 0), 1);
    for (size_t i = 0; i < p->depthwise_count; i++)
        p->depthwises[i]->packed = floats(net, region, 10 * (size_t)p->depthwises[i]->channels);
}

/* The other way round only where the tape asks for the gradient of an input. */
static void lay_packed(stoke_net *net)
{
    const stk_arena_region region = STK_REGION_PACKED;
    lay_packed_list(net, &net->parameters);
    if (net->features) lay_packed_list(net, &net->features->parameters);
    for (size_t i = net->tape.forward.end; i < net->tape.op_count; i++) {
        const stk_tape_op *op = &net->tape.ops[i];
        stk_linear *linear = (stk_linear *)op->layer;
        stk_conv3 *conv3 = (stk_conv3 *)op->layer;
        if (op->kind == STK_TAPE_LINEAR_INPUT)
            linear->backward = take(net, region, stk_linear_packed(&net->run, linear, 1), 1);
        if (op->kind == STK_TAPE_CONV3_INPUT)
            conv3->backward = take(net, region, stk_conv3_packed(&net->run, conv3, 1), 1);
    }
}

stk_pixel_shape stk_net_pixel_shape(const stoke_net *net, uint32_t batch)
{
    return (stk_pixel_shape){ .batch = batch,
                              .height = net->tape.out_height,
                              .width = net->tape.out_width,
                              .channels = 3,
                              .stride = stk_logits_stride(3) };
}

static void lay_scratch(stoke_net *net)
{
    stk_exec *run = &net->run;
    const int restores = net->config.task == STOKE_TASK_RESTORE;
    stk_loss_shape shape = net->loss_shape;
    stk_exec_need need = stk_tape_need(&net->tape, run, net->params.batch);
    for (shape.batch = 1; shape.batch <= net->params.batch; shape.batch++) {
        const stk_pixel_shape pixels = stk_net_pixel_shape(net, shape.batch);
        need = stk_need_most(need, restores ? stk_pixel_loss_need(run, &pixels) : stk_loss_need(run, &shape));
    }
    run->scratch_each = (need.scratch + LINE - 1) / LINE * LINE;
    run->scratch = take(net, STK_REGION_WORKSPACE, run->threads, run->scratch_each);
    run->partial_floats = need.partial;
    run->partial = floats(net, STK_REGION_WORKSPACE, need.partial);
}

static uint32_t on_their_way(const stoke_net *net)
{
    return net->params.joint ? net->params.joint : 1;
}

/* Run twice: with no memory, to measure, then to hand out addresses. */
static void lay_out(stoke_net *net)
{
    const stk_arena_region region = STK_REGION_WORKSPACE;
    stk_segformer_head *head = stk_net_layer(net, STK_TAPE_SEGFORMER_HEAD);
    lay_parameters(net);
    lay_packed(net);
    net->maps = net->all_maps = take(net, STK_REGION_MAPS, on_their_way(net), net->tape.bytes);
    if (net->params.joint && head)
        net->aside = floats(net, region, net->params.joint * stk_segformer_head_aside(head));
    if (head) head->room = take(net, region, stk_segformer_head_room(&net->run, head), 1);
    net->loss_room = take(net, region, stk_loss_room(&net->loss_shape), 1);
    net->statistics = take(net, region, stoke_net_statistics(net), sizeof *net->statistics);
    if (net->params.training) net->squares = take(net, region, stoke_net_chunks(net), sizeof *net->squares);
    lay_scratch(net);
}

/* Everything gets its address, and what depends on sizes is computed. */
static void place(stoke_net *net)
{
    activation_arena_divide(&net->arena);
    lay_out(net);
    stk_segformer_head *head = stk_net_layer(net, STK_TAPE_SEGFORMER_HEAD);
    if (head) {
        const float *running = net->values + net->parameters.trainable;
        head->batch_mean = net->statistics + (head->running_mean - running);
        head->batch_variance = net->statistics + (head->running_variance - running);
        stk_segformer_head_bind(&net->run, head);
    }
    stk_loss_bind(&net->loss_shape, net->loss_room);
}

static void plan_make(stoke_net *net)
{
    stoke_net_plan *plan = &net->plan;
    const stk_network *network = net->config.network;
    const size_t *bytes = net->arena.used;
    plan->parameters = bytes[STK_REGION_PARAMETERS];
    plan->packed = bytes[STK_REGION_PACKED];
    plan->activations = on_their_way(net) * net->tape.kept;
    plan->workspace = bytes[STK_REGION_WORKSPACE] + bytes[STK_REGION_MAPS] - plan->activations;
    plan->process = stk_machine_rss("/proc");
    plan->total = plan->process + arena_bytes(&net->arena);
    plan->parameter_count = net->parameters.elements;
    plan->features = net->features ? net->features->title : NULL;
    plan->model = net->config.model;
    plan->family = network->family;
    plan->classes = net->config.classes;
    plan->task = net->config.task;
    plan->base_channels = net->config.base_channels;
    plan->num_blocks = net->config.num_blocks;
    plan->scale = net->config.scale;
    plan->stride = network->stride;
    plan->side_multiple = network->side_multiple;
    plan->reach = network->reach ? network->reach(&net->config) : 0;
    plan->normalize = stk_network_normalize(net->config.task);
    plan->trained_floats = net->parameters.trainable;
    plan->statistics = stoke_net_statistics(net);
    const stk_tape_span all = { 0, (uint32_t)net->tape.op_count };
    plan->forward_flops = stk_tape_flops(&net->tape, net->tape.forward, net->params.batch);
    plan->step_flops = stk_tape_flops(&net->tape, all, net->params.batch);
}

int stk_net_prepare(stoke_net *net, const stoke_net_params *params, const stk_net_table *table,
                    stoke_error *err)
{
    static const stk_float TYPES[] = { STK_F32, STK_BF16, STK_F16 };
    int status = check_params(params, err);
    if (!status) status = stk_network_configure(&net->config, params, err);
    const stk_network *network = net->config.network;
    const int judges = params && (params->training || net->config.task == STOKE_TASK_SEGMENT);
    if (!status && judges) status = stk_net_check_loss(&params->loss, net->config.task, err);
    if (!status) status = stk_network_check_batch(network, params->batch, params->height, params->width, err);
    if (!status) status = open_features(net, params, err);
    if (!status) net->layers = network->create(&net->config, &net->parameters);
    if (!status && (!net->layers || net->parameters.failed))
        status = stk_fail(err, STOKE_E_NOMEM, "no memory for the layers of a network");
    if (!status) status = keep_params(net, params, err);
    if (!status && params->joint && !stoke_net_statistics(net))
        status = stk_fail(err, STOKE_E_INVALID,
                          "joint is %u: %s has no batch norm that could be over several batches",
                          (unsigned)params->joint, network->family);
    if (!status && params->weights && params->partial)
        status = stk_pretrained_carried(params->weights, network, &net->parameters, &net->plan.carried, err);
    if (status) return status;
    net->plan.tensors = (uint32_t)net->parameters.count;
    net->plan.precision = resolve_precision(params->precision, table);
    net->plan.threads = params->threads ? params->threads : stoke_machine_cores().usable;
    net->run.table = table;
    net->run.type = TYPES[net->plan.precision];
    net->run.forward_only = !params->training;
    net->factor = 1;
    net->state.loss_scale = stk_net_first_scale(net->plan.precision);
    net->run.threads = net->plan.threads; /* some rooms are one per thread */
    status = stk_threadpool_check(net->run.threads, err);
    if (!status) status = record(net, err);
    if (status) return status;
    lay_out(net);
    plan_make(net);
    return STOKE_OK;
}

int stoke_net_plan_of(const stoke_net_params *params, stoke_net_plan *plan, stoke_error *err)
{
    stoke_net *net = stk_calloc(1, sizeof *net);
    if (!net) return stk_fail(err, STOKE_E_NOMEM, "no memory for a plan");
    const int status = stk_net_prepare(net, params, stk_net_table_get(), err);
    if (!status) *plan = net->plan;
    stoke_net_close(&net);
    return status;
}

/* First values of everything that has some. */
static int fill(stoke_net *net, const stoke_net_params *params, stoke_error *err)
{
    memset(net->values, 0, net->arena.used[STK_REGION_PARAMETERS]);
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
    if (net->features) {
        const int status = stk_features_load(net->features, params->perceptual, err);
        if (status) return status;
    }
    if (net->average) memcpy(net->average, net->values, net->parameters.floats * sizeof(float));
    return STOKE_OK;
}

int stk_net_open(stoke_net **out, const stoke_net_params *params, const stk_net_table *table,
                 stoke_error *err)
{
    *out = NULL;
    stoke_net *net = stk_calloc(1, sizeof *net);
    if (!net) return stk_fail(err, STOKE_E_NOMEM, "no memory for a network");
    int status = stk_net_prepare(net, params, table, err);
    if (!status) status = stk_threadpool_create(&net->run.pool, net->run.threads, err);
    if (!status) status = activation_arena_commit(&net->arena, err);
    if (!status) place(net);
    if (!status) status = fill(net, params, err);
    if (status)
        stoke_net_close(&net);
    else
        *out = net;
    return status;
}

/* Parameters and packed weights come first in the arena and are as large at any size: they stay, or move. */
static int resize(stoke_net *net, stoke_error *err)
{
    stk_activation_arena before = net->arena;
    stk_tape_free(&net->tape);
    int status = record(net, err);
    if (status) {
        stk_tape_free(&net->tape);
        return status;
    }
    net->arena = (stk_activation_arena){ 0 };
    lay_out(net);
    const int fits = arena_bytes(&net->arena) <= before.bytes;
    if (!fits) status = activation_arena_commit(&net->arena, err);
    if (status) {
        net->arena = before;
        return status;
    }
    if (fits) {
        net->arena.base = before.base;
        net->arena.bytes = before.bytes;
    } else {
        memcpy(net->arena.base, before.base, before.start[STK_REGION_MAPS]);
        activation_arena_free(&before);
    }
    place(net);
    net->head_packed = 0; /* it lies behind the maps */
    return STOKE_OK;
}

int stoke_net_resize(stoke_net *net, uint32_t height, uint32_t width, stoke_error *err)
{
    const uint32_t before[2] = { net->params.height, net->params.width };
    if (net->params.training)
        return stk_fail(err, STOKE_E_STATE, "a network that trains keeps the size it was opened with");
    int status = stk_network_check_batch(net->config.network, net->params.batch, height, width, err);
    if (!status) status = check_features(net, height, width, "the perceptual loss", err);
    if (status || (height == before[0] && width == before[1])) return status;
    net->params.height = height;
    net->params.width = width;
    status = resize(net, err);
    if (!status) return STOKE_OK;
    net->params.height = before[0];
    net->params.width = before[1];
    resize(net, NULL); /* what fitted before fits again; a network without a tape refuses batches */
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
    stk_tape_free(&n->tape);
    stk_features_destroy(&n->features);
    stk_parameters_free(&n->parameters);
    stk_free(n->layers);
    stk_remarks_free(&n->remarks);
    stk_free(n->class_weights);
    stk_free(n->labels);
    stk_free(n);
}

/* ---- names ---- */

const char *stoke_precision_name(int precision)
{
    switch ((stoke_precision)precision) {
    case STOKE_PRECISION_FP32: return "fp32";
    case STOKE_PRECISION_BF16: return "bf16";
    case STOKE_PRECISION_FP16: return "fp16";
    case STOKE_PRECISION_AUTO: break;
    }
    return "auto";
}

int stoke_precision_named(const char *word)
{
    const char *ours = stk_option_word("precision", word);
    for (int i = STOKE_PRECISION_FP32; i <= STOKE_PRECISION_AUTO; i++)
        if (!strcmp(ours, stoke_precision_name(i))) return i;
    return -1;
}
