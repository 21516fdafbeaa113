/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before anything runs. The native column is the engine's own plan, exact to the byte, in host memory;
 * the torch column is a model of PyTorch on a card. Both are asked backwards too: what is
 * the largest batch or picture that fits.
 */
#include "src/tune/advice/advice.h"

#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/net/network.h"
#include "src/tune/decide/decide.h"
#include <stoke/net.h>
#include <stoke/tools/advise.h>
#include <stoke/tools/machine.h>
#include <stoke/tools/terminal.h>

enum { RESTORED = 3 }; /* channels of a picture that is the result */

/* Of the whole network, and of the part before the decode head, which can be frozen. */
typedef struct estimate_parameter_count {
    uint64_t all, encoder;
} estimate_parameter_count;

/* What PyTorch takes on a card for one step of training.
 *
 * Saved tensors are counted by the network itself (eager_bytes in src/net/network.h).
 *
 * Around that lie what nobody can compute: the driver's context, cuDNN's and cuBLAS's workspaces, the
 * allocator's slack. They are the range.
 *
 * Public figures behind these:
 * - context: 287 MB with lazy loading of kernels, 667 MB without (pytorch/pytorch pull 86509); "about 300 MB,
 *   more than 1000 MB before CUDA 11.7" (pytorch/pytorch issue 107667); 1008 MB on a Titan V (issue 28394)
 *   and 1001 MiB on an RTX 3090 (issue 54564) before anything was computed;
 * - a desktop: 692 MiB of Xorg and gnome-shell (stackoverflow.com/questions/70074789);
 * - tensors: mmsegmentation's SegFormer peaks at 2.1 (b0) to 7.2 GB (b5) with 2 pictures of 512 x 512 and
 *   150 classes, at 3.64 to 18.0 GB with one of 1024 x 1024 and 19 (configs/segformer/README.md). That is
 *   1.3 to 1.5 times what Hugging Face's keeps: its attention and MLP copy between two layouts.
 *
 * Four figures of nvidia-smi (b0, 2 pictures of 224, 2.5 GB; b2, 4 of 256, 4.5; b4, 8 of 288, 7.5; b5, 16 of
 * 288, 12; precision, CUDA and desktop not said) lie within 20 % of `card` in fp32, and within 20 % of the
 * high end under autocast. docs/accuracy.md tells what speaks for which. */

/* Bytes. The middle goes into the total, the ends into the range. */
typedef struct span {
    uint64_t low, middle, high;
} span;

static const span CONTEXT = { 300000000, 600000000, 600000000 };
/* Not the process's own, or not of a present CUDA: a desktop, and kernels that are loaded all at once. */
static const uint64_t DESKTOP = 700000000, EAGER_KERNELS = 550000000;
/* cuBLAS takes 8 to 33 MB a stream; cuDNN as much as its algorithm wants. With cudnn.benchmark the first
 * steps may take several GB more, which no estimate covers. */
static const span WORKSPACE = { 64000000, 400000000, 1000000000 };

/* Thousandths. The allocator's blocks are larger than what is in them. */
static const span FRAGMENTS = { 50, 60, 100 };
static const span ACTIVATIONS_FP32 = { 950, 1000, 1050 };
/* More upwards: what autocast casts differs between versions of PyTorch. */
static const span ACTIVATIONS_AUTOCAST = { 950, 1000, 1100 };

/* ---- parameters ---- */

/* A network's layers, to be released by stk_free, and their parameters. */
static int layers_of(const stk_network_config *config, void **out, estimate_parameter_count *count,
                     stoke_error *err)
{
    stk_parameters list = { 0 };
    *out = config->network->create(config, &list);
    const int failed = !*out || list.failed;
    *count = (estimate_parameter_count){ .all = list.elements };
    for (size_t i = 0; i < list.count; i++)
        if (!list.list[i].head) count->encoder += list.list[i].count;
    stk_parameters_free(&list);
    if (!failed) return STOKE_OK;
    stk_free(*out);
    *out = NULL;
    return stk_fail(err, STOKE_E_NOMEM, "no memory for an estimate");
}

int stk_is_resnet(const char *model)
{
    const char *word = model ? stk_network_word(model) : NULL;
    return word && !strcmp(word, "resnet");
}

int stk_model_takes(const char *model, uint32_t base_channels, uint32_t num_blocks)
{
    stk_network_config config;
    if (!model || stk_network_find(&config, stk_option_word("model", model), 1, NULL)) return 0;
    config.base_channels = base_channels;
    config.num_blocks = num_blocks;
    return config.network->settle && !config.network->settle(&config, NULL);
}

int stk_estimate_task(const stoke_estimate_params *p)
{
    if (p->task != STOKE_TASK_AUTO) return p->task;
    return stk_is_resnet(p->model) && p->classes == RESTORED ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
}

/* What the engine is asked for. */
static stoke_net_params net_of(const stoke_estimate_params *p)
{
    stoke_net_params net = stoke_net_defaults();
    net.model = stk_option_word("model", p->model);
    net.task = stk_estimate_task(p);
    if (net.task == STOKE_TASK_RESTORE) net.loss.kind = STOKE_LOSS_L1;
    net.classes = p->classes;
    net.base_channels = p->base_channels;
    net.num_blocks = p->num_blocks;
    net.scale = p->scale;
    net.batch = p->batch;
    net.height = p->height;
    net.width = p->width;
    net.precision = p->precision;
    net.memory = p->memory;
    net.optimizer = p->optimizer;
    net.freeze_encoder = p->freeze_encoder;
    net.average = p->average;
    return net;
}

static int network_of(stk_network_config *config, const stoke_estimate_params *p, stoke_error *err)
{
    const stoke_net_params net = net_of(p);
    return stk_network_configure(config, &net, err);
}

uint32_t stk_estimate_blocks(const stoke_estimate_params *p)
{
    stk_network_config config;
    if (network_of(&config, p, NULL)) return 0;
    return config.network->blocks ? config.network->blocks(&config) : config.num_blocks;
}

/* ---- the sum ---- */

/* Beside a picture (f32), what it should become: a mask of so many bytes a pixel, or a picture. */
static uint64_t sample_bytes(const stk_network_config *config, uint64_t mask)
{
    const uint64_t finer = (uint64_t)config->scale * config->scale;
    return 3 * sizeof(float) + (config->task == STOKE_TASK_RESTORE ? finer * 3 * sizeof(float) : mask);
}

static uint64_t thousandths(uint64_t bytes, uint64_t share)
{
    return bytes / 1000 * share + bytes % 1000 * share / 1000;
}

/* One end of the range of what the allocator takes. Fragments come with everything it hands out. */
static uint64_t end_of(uint64_t sure, uint64_t varying, uint64_t activations, uint64_t workspace,
                       uint64_t fragments)
{
    const uint64_t held = sure + thousandths(varying, activations) + workspace;
    return held + thousandths(held, fragments);
}

/* Fills the terms and the range for PyTorch on a card; the parameters have been checked. */
static int stk_estimate_torch(stoke_estimate *e, const stoke_estimate_params *p,
                              const stk_network_config *config, stoke_error *err)
{
    void *layers = NULL;
    estimate_parameter_count count = { 0 };
    if (!config->network->eager_bytes)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "PyTorch's memory is not known of this network: every author's %s is another",
                        config->model);
    if (layers_of(config, &layers, &count, err)) return STOKE_E_NOMEM;
    const int autocast = p->precision != STOKE_PRECISION_FP32;
    const stk_network_settings how = {
        .height = p->height, .width = p->width, .training = 1, .freeze_encoder = p->freeze_encoder
    };
    const stk_network_widths widths = { .product = autocast ? 2 : 4, .kept = 4, .autocast = autocast };
    const span varies = autocast ? ACTIVATIONS_AUTOCAST : ACTIVATIONS_FP32;
    const uint64_t trained = count.all - (p->freeze_encoder ? count.encoder : 0);
    const uint64_t pixels = (uint64_t)p->batch * p->height * p->width;
    const uint64_t picture = config->network->eager_bytes(layers, &how, widths);
    const uint64_t results = (uint64_t)config->classes * config->scale * config->scale;
    uint64_t *bytes = e->bytes;
    stk_free(layers);

    e->parameters = count.all;
    bytes[STOKE_TERM_WEIGHTS] = 4 * count.all;
    bytes[STOKE_TERM_GRADIENTS] = 4 * trained;
    bytes[STOKE_TERM_OPTIMIZER] = (p->optimizer == STOKE_OPTIMIZER_SGD ? 4 : 8) * trained;
    bytes[STOKE_TERM_EXTRA] = (autocast ? 2 * count.all : 0) + (p->average ? 4 * count.all : 0);
    bytes[STOKE_TERM_ACTIVATIONS] = p->batch * picture + (autocast ? 3 * 2 * pixels : 0); /* pictures cast */
    /* In fp32 whatever the precision: the loss is computed there. */
    bytes[STOKE_TERM_LOGITS] = 2 * 4 * results * pixels;
    bytes[STOKE_TERM_BATCHES] = (uint64_t)(p->prefetch + 1) * sample_bytes(config, 8) * pixels; /* int64 */
    bytes[STOKE_TERM_WORKSPACE] = WORKSPACE.middle;
    bytes[STOKE_TERM_CONTEXT] = CONTEXT.middle;

    /* The optimiser's step works on lists of tensors and takes a copy of all trained weights for it, when the
     * activations are gone: only a tiny batch has less of these. */
    const uint64_t step = 4 * trained, freed = bytes[STOKE_TERM_ACTIVATIONS] + bytes[STOKE_TERM_LOGITS];
    if (step > freed) bytes[STOKE_TERM_EXTRA] += step - freed;

    const uint64_t varying = bytes[STOKE_TERM_ACTIVATIONS];
    const uint64_t sure = bytes[STOKE_TERM_WEIGHTS] + bytes[STOKE_TERM_GRADIENTS] +
                          bytes[STOKE_TERM_OPTIMIZER] + bytes[STOKE_TERM_EXTRA] + bytes[STOKE_TERM_LOGITS] +
                          bytes[STOKE_TERM_BATCHES];
    bytes[STOKE_TERM_FRAGMENTS] = thousandths(sure + varying + WORKSPACE.middle, FRAGMENTS.middle);
    for (int i = 0; i < STOKE_TERMS; i++) e->total += bytes[i];
    e->allocated = sure + varying;
    e->reserved = e->total - CONTEXT.middle;
    e->reserved_low = end_of(sure, varying, varies.low, WORKSPACE.low, FRAGMENTS.low);
    e->reserved_high = end_of(sure, varying, varies.high, WORKSPACE.high, FRAGMENTS.high);
    e->low = e->reserved_low + CONTEXT.low;
    e->high = e->reserved_high + CONTEXT.high;
    e->card = e->total + DESKTOP + EAGER_KERNELS;
    return STOKE_OK;
}

/* ---- estimates in words: the same for the command and for Python ---- */

static const struct {
    const char *name, *meaning;
} terms[STOKE_TERMS] = {
    [STOKE_TERM_WEIGHTS] = { "weights", "fp32 masters" },
    [STOKE_TERM_GRADIENTS] = { "gradients", "of the trained weights, fp32" },
    [STOKE_TERM_OPTIMIZER] = { "optimizer", "moments, fp32" },
    [STOKE_TERM_EXTRA] = { "extra", "copies: autocast's, packed ones, the average" },
    [STOKE_TERM_ACTIVATIONS] = { "activations", "kept for the backward pass" },
    [STOKE_TERM_LOGITS] = { "logits", "in full size, and their gradient; native: fused" },
    [STOKE_TERM_BATCHES] = { "batches", "the one in use and those that wait" },
    [STOKE_TERM_WORKSPACE] = { "workspace", "of cuBLAS and cuDNN; of the native kernels" },
    [STOKE_TERM_CONTEXT] = { "context", "the driver's; native: the process" },
    [STOKE_TERM_FRAGMENTS] = { "fragments", "what the allocator rounds up" },
};

const char *stoke_memory_term_name(int term)
{
    return term >= 0 && term < STOKE_TERMS ? terms[term].name : "n/a";
}

const char *stoke_memory_term_meaning(int term)
{
    return term >= 0 && term < STOKE_TERMS ? terms[term].meaning : "n/a";
}

void stoke_estimate_subject(FILE *out, const stoke_estimate *estimate, const stoke_estimate_params *params)
{
    stk_network_config config;
    char channels[32] = "", blocks[32] = "", result[48];
    const int known = !network_of(&config, params, NULL);
    const int restores = known && config.task == STOKE_TASK_RESTORE;
    if (known && config.base_channels)
        snprintf(channels, sizeof channels, ", %u channels", (unsigned)config.base_channels);
    if (known && config.num_blocks)
        snprintf(blocks, sizeof blocks, ", %u blocks", (unsigned)config.num_blocks);
    snprintf(result, sizeof result, "%u classes", (unsigned)params->classes);
    if (restores && config.scale > 1)
        snprintf(result, sizeof result, "restores pictures, %u times as large", (unsigned)config.scale);
    else if (restores)
        snprintf(result, sizeof result, "restores pictures");
    stoke_text_print(out, "%s%s%s, %llu parameters, batch %u, %u x %u, %s, %s\n",
                     known ? config.model : params->model, channels, blocks,
                     (unsigned long long)estimate->parameters, (unsigned)params->batch,
                     (unsigned)params->height, (unsigned)params->width, result,
                     params->optimizer == STOKE_OPTIMIZER_SGD ? "SGD" : "AdamW");
}

const char *stoke_estimate_precision(stoke_engine engine, const stoke_estimate_params *params)
{
    if (engine == STOKE_ENGINE_TORCH) return params->precision == STOKE_PRECISION_FP32 ? "fp32" : "autocast";
    stoke_net_params net = net_of(params);
    stoke_net_plan plan;
    net.height = net.width = 64;
    net.batch = 1;
    return stoke_net_plan_of(&net, &plan, NULL) ? "n/a" : stoke_precision_name(plan.precision);
}

void stoke_estimate_verdict(FILE *out, const stoke_estimate *estimate, stoke_engine engine,
                            const stoke_estimate_params *params)
{
    const char *name = engine == STOKE_ENGINE_TORCH ? "torch" : "native";
    const char *precision = stoke_estimate_precision(engine, params);
    if (engine == STOKE_ENGINE_TORCH)
        stoke_text_print(out, "%-6s  %.1f to %.1f GiB of a card, %s: estimated, for the process\n", name,
                         STK_GIB(estimate->low), STK_GIB(estimate->high), precision);
    else
        stoke_text_print(out, "%-6s  %.1f GiB of host memory, %s: the engine's own plan\n", name,
                         STK_GIB(estimate->total), precision);
}

void stoke_estimate_levels(FILE *out, const stoke_estimate *e)
{
    const uint64_t beside = e->card - e->total; /* what is on the card, too */
    stoke_text_print(out, "torch, by who counts:\n");
    stoke_text_print(out, "  allocator, tensors   about %.1f GiB      torch.cuda.max_memory_allocated()\n",
                     STK_GIB(e->allocated));
    stoke_text_print(out, "  allocator, reserved  %5.1f to %.1f GiB    torch.cuda.max_memory_reserved()\n",
                     STK_GIB(e->reserved_low), STK_GIB(e->reserved_high));
    stoke_text_print(out, "  process              %5.1f to %.1f GiB    its line in nvidia-smi\n",
                     STK_GIB(e->low), STK_GIB(e->high));
    stoke_text_print(
        out,
        "  card                 %5.1f to %.1f GiB    nvidia-smi's sum, with a desktop on the card "
        "and CUDA before 11.7\n",
        STK_GIB(e->low + beside), STK_GIB(e->high + beside));
}

enum { SIDE_STEP = 32, PREFETCH_MOST = 1024 };

stoke_estimate_params stoke_estimate_defaults(void)
{
    return (stoke_estimate_params){ .struct_size = sizeof(stoke_estimate_params),
                                    .batch = 8,
                                    .height = 288,
                                    .width = 288,
                                    .classes = 19, /* of Cityscapes, as `stoke bench net` */
                                    .precision = STOKE_PRECISION_AUTO,
                                    .optimizer = STOKE_OPTIMIZER_ADAMW,
                                    .prefetch = 2 };
}

uint32_t stoke_estimate_classes(const char *model)
{
    return stk_is_resnet(model) ? RESTORED : stoke_estimate_defaults().classes;
}

static int check(const stoke_estimate_params *p, stk_network_config *config, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_estimate_defaults");
    if (!p->model) return stk_fail(err, STOKE_E_INVALID, "no model is named: b0 to b5, resnet or unet");
    int r = network_of(config, p, err);
    if (!r) r = stk_network_check_batch(config->network, p->batch, p->height, p->width, err);
    if (r) return r;
    if (p->prefetch > PREFETCH_MOST)
        return stk_fail(err, STOKE_E_INVALID, "prefetch is %u: 0 to %d will do", (unsigned)p->prefetch,
                        PREFETCH_MOST);
    if (p->precision < STOKE_PRECISION_FP32 || p->precision > STOKE_PRECISION_AUTO ||
        p->optimizer < STOKE_OPTIMIZER_ADAMW || p->optimizer > STOKE_OPTIMIZER_SGD)
        return stk_fail(err, STOKE_E_INVALID, "precision %d or optimizer %d is none of the known ones",
                        p->precision, p->optimizer);
    if (!config->network->pretrained && p->freeze_encoder)
        return stk_fail(err, STOKE_E_INVALID,
                        "a %s has no pretrained encoder to freeze: leave freeze_encoder out", config->model);
    return STOKE_OK;
}

/* ---- the native engine ---- */

static int estimate_native(stoke_estimate *e, const stoke_estimate_params *p,
                           const stk_network_config *config, stoke_error *err)
{
    const stoke_net_params net = net_of(p);
    stoke_net_plan plan;
    void *layers = NULL;
    estimate_parameter_count count;
    int r = stoke_net_plan_of(&net, &plan, err);
    if (!r) r = layers_of(config, &layers, &count, err);
    stk_free(layers);
    if (r) return r;

    const uint64_t trained = count.all - (p->freeze_encoder ? count.encoder : 0);
    const uint64_t pixels = (uint64_t)(p->prefetch + 1) * p->batch * p->height * p->width;
    uint64_t *bytes = e->bytes;
    e->parameters = plan.parameter_count;
    bytes[STOKE_TERM_WEIGHTS] = 4 * count.all;
    bytes[STOKE_TERM_GRADIENTS] = 4 * trained;
    bytes[STOKE_TERM_OPTIMIZER] = (p->optimizer == STOKE_OPTIMIZER_SGD ? 4 : 8) * trained;
    /* The average, buffers and the gaps between tensors are what else lies with the parameters. */
    const uint64_t named =
        bytes[STOKE_TERM_WEIGHTS] + bytes[STOKE_TERM_GRADIENTS] + bytes[STOKE_TERM_OPTIMIZER];
    bytes[STOKE_TERM_EXTRA] = plan.packed + (plan.parameters > named ? plan.parameters - named : 0);
    bytes[STOKE_TERM_ACTIVATIONS] =
        plan.activations; /* with the logits, which may be smaller than the picture */
    /* f32 pictures and masks of one byte, two above 255 classes: what the trainer asks of the loader.
     * `prefetch` batches wait, one is with the network. */
    bytes[STOKE_TERM_BATCHES] = pixels * sample_bytes(config, config->classes > 255 ? 2 : 1);
    bytes[STOKE_TERM_WORKSPACE] = plan.workspace;
    bytes[STOKE_TERM_CONTEXT] = plan.process;
    for (int i = 0; i < STOKE_TERMS; i++) e->total += bytes[i];
    e->low = e->high = e->total; /* one arena, taken at once: nothing is left to guess */
    e->allocated = e->reserved = e->reserved_low = e->reserved_high = e->total;
    return STOKE_OK;
}

/* ---- both ---- */

int stoke_estimate_make(stoke_estimate *estimate, stoke_engine engine, const stoke_estimate_params *params,
                        stoke_error *err)
{
    stk_network_config config = { 0 };
    memset(estimate, 0, sizeof *estimate);
    int r = check(params, &config, err);
    if (!r && engine == STOKE_ENGINE_NATIVE)
        r = estimate_native(estimate, params, &config, err);
    else if (!r)
        r = stk_estimate_torch(estimate, params, &config, err);
    if (r) return r;
    estimate->source = STOKE_SOURCE_ESTIMATED;
    for (int i = 1; i < STOKE_TERMS; i++)
        if (estimate->bytes[i] > estimate->bytes[estimate->dominant]) estimate->dominant = i;
    return STOKE_OK;
}

/* One question of the search. A batch beyond what a network takes at all is a no, not an error. */
static int fits(stoke_engine engine, const stoke_estimate_params *p, const stk_network *network,
                uint64_t memory, uint64_t spare, int *yes, stoke_error *err)
{
    stoke_estimate e;
    *yes = 0;
    if (memory < spare || stk_network_check_batch(network, p->batch, p->height, p->width, NULL))
        return STOKE_OK;
    const int r = stoke_estimate_make(&e, engine, p, err);
    if (!r) *yes = e.high <= memory - spare;
    return r;
}

typedef enum asked { ASKED_BATCH, ASKED_SIDE } asked;

/* Memory grows with batch and side, so that halving finds the last multiple of `step` that fits. */
static int largest(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory, uint64_t spare,
                   asked what, uint32_t step, uint32_t most, uint32_t *answer, stoke_error *err)
{
    stk_network_config config;
    stoke_estimate_params p;
    *answer = 0;
    int r = check(params, &config, err);
    if (r) return r;
    if (what == ASKED_SIDE && step % config.network->side_multiple) step = config.network->side_multiple;
    uint32_t low = 0, high = most / step + 1; /* low fits, high does not */
    p = *params;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        int yes;
        if (what == ASKED_BATCH)
            p.batch = middle * step;
        else
            p.height = p.width = middle * step;
        if ((r = fits(engine, &p, config.network, memory, spare, &yes, err))) return r;
        if (yes)
            low = middle;
        else
            high = middle;
    }
    *answer = low * step;
    return STOKE_OK;
}

int stoke_estimate_batch(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory,
                         uint64_t spare, uint32_t step, uint32_t *batch, stoke_error *err)
{
    if (!step || step > STK_NET_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "step is %u: 1 to %d will do", (unsigned)step, STK_NET_BATCH);
    return largest(engine, params, memory, spare, ASKED_BATCH, step, STK_NET_BATCH, batch, err);
}

int stk_estimate_largest(const stoke_estimate_params *params, stoke_engine engine, uint64_t memory,
                         uint32_t *batch, stoke_error *err)
{
    int r = stoke_estimate_batch(engine, params, memory, STK_SPARE_BYTES, 8, batch, err);
    if (!r && !*batch) r = stoke_estimate_batch(engine, params, memory, STK_SPARE_BYTES, 1, batch, err);
    return r;
}

int stoke_estimate_side(stoke_engine engine, const stoke_estimate_params *params, uint64_t memory,
                        uint64_t spare, uint32_t *side, stoke_error *err)
{
    return largest(engine, params, memory, spare, ASKED_SIDE, SIDE_STEP, STK_NET_SIDE_MAX, side, err);
}

uint32_t stoke_estimate_auto(const stoke_estimate_params *params)
{
    enum { MOST = 8 };
    const uint64_t available = stoke_machine_available();
    stoke_estimate_params p = *params;
    uint32_t batch = 0;
    p.batch = 1;
    const int r = largest(STOKE_ENGINE_NATIVE, &p, available == UINT64_MAX ? available : available / 4 * 3, 0,
                          ASKED_BATCH, 1, MOST, &batch, NULL);
    return r ? MOST : batch ? batch : 1;
}
