/* SPDX-License-Identifier: Apache-2.0
 *
 * The small residual network: all at full resolution, every layer a 3x3 convolution. Its sizes, its layers,
 * its tape, its files.
 *
 *   x = head(pictures);  n times: x = x + 0.1 conv2(relu(conv1(x)));  output = tail(x)
 *
 * For super-resolution the tail makes scale^2 values of each of 3 colours, and a pixel shuffle lays them out.
 * It is the body of EDSR (Lim et al., 2017) without its long skip; 0.1 is the factor that paper found to keep
 * training stable.
 */
#include <math.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/files/plain.h"
#include "src/net/network.h"

static const float RESIDUAL = 0.1f;

/* ---- sizes and layers ---- */

typedef struct block {
    stk_conv3 conv1, conv2;
    stk_tape_id x, a; /* a = relu(conv1(x)) */
} block;

typedef struct resnet {
    stk_network_config config;
    stk_conv3 head, tail;
    block blocks[]; /* num_blocks */
} resnet;

static int settle(stk_network_config *config, stoke_error *err)
{
    if (!config->base_channels) config->base_channels = 32;
    if (!config->num_blocks) config->num_blocks = 4;
    if (config->base_channels > STK_NET_CHANNELS || config->num_blocks > STK_NET_BLOCKS)
        return stk_fail(err, STOKE_E_INVALID,
                        "base_channels is %u and num_blocks %u: up to %d channels and %d blocks will do",
                        (unsigned)config->base_channels, (unsigned)config->num_blocks, STK_NET_CHANNELS,
                        STK_NET_BLOCKS);
    return STOKE_OK;
}

/* What the tail makes of a pixel. */
static uint32_t tail_channels(const stk_network_config *config)
{
    return config->classes * config->scale * config->scale;
}

/* He's spread before a ReLU, and what keeps the variance elsewhere. */
static void declare(stk_parameters *p, const char *module, uint32_t outputs, uint32_t inputs, double gain,
                    stk_conv3 *layer)
{
    p->spread = sqrt(gain / (9.0 * inputs));
    stk_declare_conv3(p, module, outputs, inputs, layer);
}

static void *create(const stk_network_config *config, stk_parameters *parameters)
{
    const uint32_t c = config->base_channels;
    resnet *r = stk_calloc(1, sizeof *r + config->num_blocks * sizeof *r->blocks);
    if (!r) return NULL;
    r->config = *config;
    stk_declare_in(parameters, STK_ROLE_BODY, "%s", "");
    declare(parameters, "head", c, 3, 1, &r->head);
    for (uint32_t i = 0; i < config->num_blocks; i++) {
        stk_declare_in(parameters, STK_ROLE_BODY, "body.%u.", (unsigned)i);
        declare(parameters, "conv1", c, c, 2, &r->blocks[i].conv1);
        declare(parameters, "conv2", c, c, 1, &r->blocks[i].conv2);
    }
    stk_declare_in(parameters, STK_ROLE_OUTPUT, "%s", "");
    declare(parameters, "tail", tail_channels(config), c, 1, &r->tail);
    return r;
}

/* ---- the tape ---- */

typedef struct recorder {
    stk_tape *tape;
    const stk_network_settings *how;
    int trains; /* the body */
    uint32_t channels;
    size_t rows;
    stk_depthwise_map map;
} recorder;

static stk_tape_id stream(const recorder *r, const char *name)
{
    return stk_tape_declare(r->tape, name, r->rows, r->channels, STK_F32);
}

static stk_tape_id map_of(const recorder *r, const char *name)
{
    return stk_tape_declare(r->tape, name, r->rows, r->channels, r->how->type);
}

static const stk_tape_conv3_finish PLAIN = { .factor = 1 };

static void activate(const recorder *r, block *b)
{
    b->a = map_of(r, "a");
    stk_tape_conv3(r->tape, &b->conv1, r->map, b->x, (stk_tape_conv3_finish){ .factor = 1, .relu = 1 }, b->a);
}

/* In inference the stream is one tensor. */
static stk_tape_id block_forward(const recorder *r, block *b, stk_tape_id x)
{
    b->x = x;
    activate(r, b);
    const stk_tape_id sum = r->trains ? stream(r, "x") : x;
    stk_tape_conv3(r->tape, &b->conv2, r->map, b->a,
                   (stk_tape_conv3_finish){ .factor = RESIDUAL, .residual = x }, sum);
    return sum;
}

/* d_x becomes the gradient of the block's input. lean and min make a again: a third more forward work and,
 * in 16 bits, two thirds of what is kept. */
static void block_back(const recorder *r, block *b, stk_tape_id d_x)
{
    if (r->how->memory >= STOKE_MEMORY_LEAN) activate(r, b);
    stk_tape_conv3_weight(r->tape, &b->conv2, r->map, b->a, d_x, RESIDUAL);
    const stk_tape_id d_a = map_of(r, "d_a");
    stk_tape_conv3_input(r->tape, &b->conv2, r->map, d_x,
                         (stk_tape_conv3_finish){ .factor = RESIDUAL, .gate = b->a }, d_a);
    stk_tape_conv3_weight(r->tape, &b->conv1, r->map, b->x, d_a, 1);
    stk_tape_conv3_input(r->tape, &b->conv1, r->map, d_a,
                         (stk_tape_conv3_finish){ .factor = 1, .residual = d_x }, d_x);
}

/* What the tail makes, and what becomes of it in super-resolution. */
static stk_tape_id tail_like(const recorder *r, const resnet *net, const char *name)
{
    return stk_tape_declare(r->tape, name, r->rows, (uint32_t)stk_logits_stride(tail_channels(&net->config)),
                            STK_F32);
}

static stk_tape_id output_like(const recorder *r, const resnet *net, const char *name)
{
    const uint32_t scale = net->config.scale;
    return stk_tape_declare(r->tape, name, r->rows * scale * scale,
                            (uint32_t)stk_logits_stride(net->config.classes), STK_F32);
}

static void record_back(recorder *r, resnet *net, stk_tape_id x)
{
    const uint32_t n = net->config.num_blocks, scale = net->config.scale;
    stk_tape_id d_tail = r->tape->d_logits;
    if (scale > 1) {
        d_tail = tail_like(r, net, "d_tail");
        stk_tape_shuffle_back(r->tape, r->map, scale, net->config.classes, r->tape->d_logits, d_tail);
    }
    stk_tape_conv3_weight(r->tape, &net->tail, r->map, x, d_tail, 1);
    if (!r->trains) return;
    const stk_tape_id d_x = stream(r, "d_x");
    stk_tape_conv3_input(r->tape, &net->tail, r->map, d_tail, PLAIN, d_x);
    for (uint32_t i = n; i--;) block_back(r, &net->blocks[i], d_x);
    stk_tape_conv3_weight(r->tape, &net->head, r->map, STK_TAPE_PICTURES, d_x, 1);
}

static void record(void *layers, const stk_network_settings *how, stk_tape *tape)
{
    resnet *net = layers;
    recorder r = { .tape = tape,
                   .how = how,
                   .trains = how->training && !how->freeze_encoder,
                   .channels = net->config.base_channels,
                   .rows = (size_t)how->height * how->width,
                   .map = { .height = how->height, .width = how->width } };
    stk_tape_id x = stream(&r, "x");
    stk_tape_conv3(tape, &net->head, r.map, STK_TAPE_PICTURES, PLAIN, x);
    for (uint32_t i = 0; i < net->config.num_blocks; i++) x = block_forward(&r, &net->blocks[i], x);
    const uint32_t scale = net->config.scale;
    const stk_tape_id tail = tail_like(&r, net, "tail");
    tape->logits = scale > 1 ? output_like(&r, net, "output") : tail;
    tape->out_height = how->height * scale;
    tape->out_width = how->width * scale;
    stk_tape_conv3(tape, &net->tail, r.map, x, PLAIN, tail);
    if (scale > 1) stk_tape_shuffle(tape, r.map, scale, net->config.classes, tail, tape->logits);
    tape->forward = stk_tape_span_after(tape, (stk_tape_span){ 0 });
    if (!how->training) return;
    tape->d_logits = output_like(&r, net, "d_output");
    stk_tape_loss(tape);
    tape->loss = stk_tape_span_after(tape, tape->forward);
    record_back(&r, net, x);
    tape->backward = stk_tape_span_after(tape, tape->loss);
}

/* One pixel for the head, the tail and each of two convolutions a block. */
static uint32_t reach(const stk_network_config *config)
{
    return 2 + 2 * config->num_blocks;
}

/* All at the size of the pictures: the input of every convolution, after ReLU in place; one more map is the
 * gradient on its way. */
static uint64_t eager_bytes(void *layers, const stk_network_settings *how, stk_network_widths widths)
{
    const stk_network_config *config = &((const resnet *)layers)->config;
    const uint64_t maps = 2 * (uint64_t)config->num_blocks + 1 + 1;
    return maps * config->base_channels * how->height * how->width * widths.product;
}

/* ---- files ---- */

static const stk_plain_files FILES = { .architecture = "StokeholdResNet",
                                       .model_type = "stokehold-resnet",
                                       .model = "resnet",
                                       .modules = { "head.", "body.", "tail." },
                                       .first = "head.weight",
                                       .last = "tail.weight",
                                       .block = "body.%3u.conv1.weight" };

static int name(const char *given, char declared[static STK_NAME])
{
    return stk_plain_name(&FILES, given, declared);
}

static int read_files(const char *path, const stk_json *config_json, stk_network_config *config,
                      stk_say_fn *remark, void *context, stoke_error *err)
{
    (void)remark, (void)context;
    return stk_plain_read(&FILES, path, config_json, config, err);
}

static void write_config(FILE *out, const stk_network_config *config)
{
    stk_plain_write_config(&FILES, out, config);
}

/* ---- the network ---- */

static const char *const MODELS[] = { "resnet", NULL };

const stk_network stk_resnet_network = {
    .family = "residual network",
    .models = MODELS,
    .restores = 1,
    .side_min = 1,
    .side_multiple = 1,
    .stride = 1,
    .head_lr = 1,
    .settle = settle,
    .create = create,
    .record = record,
    .reach = reach,
    .eager_bytes = eager_bytes,
    .model_type = "stokehold-resnet",
    .name = name,
    .read = read_files,
    .write_config = write_config,
    .processor = "SegformerImageProcessor",
};
