/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain U-Net (Ronneberger et al., 2015), four times down and up: its layers, its tape, its files.
 *
 *   down:  x = relu(conv2(relu(conv1(x))));  keep x;  x = pool(x)
 *   up:    x = shuffle(relu(up(x)));  x = relu(conv2(relu(conv1([x, kept]))));  output = tail(x)
 *
 * All convolutions are 3x3 and padded, and a pixel shuffle doubles the sides where the paper has transposed
 * convolutions. `joined` is what an up step reads: x and what was kept are columns of one map, so that
 * nothing is copied to join them. Each map is what a ReLU left, and so is each half of `joined`: gradients
 * stop where it is 0, as conv3_input does it, that of a pooled map before it goes back through the pool.
 */
#include <math.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/files/plain.h"
#include "src/net/network.h"

enum { LEVELS = 4, WIDEST = STK_NET_CHANNELS >> LEVELS };

/* ---- layers ---- */

/* Two convolutions, each with its ReLU. */
typedef struct pair {
    stk_conv3 conv1, conv2;
    stk_tape_id x, a, y;
} pair;

typedef struct level {
    pair down, up;
    stk_conv3 grow; /* what the level below gives, to four times this one's channels */
    stk_tape_id joined, pooled, below, wide, d_joined;
} level;

typedef struct unet {
    stk_network_config config;
    level levels[LEVELS];
    pair bottom;
    stk_conv3 tail;
} unet;

static int settle(stk_network_config *config, stoke_error *err)
{
    if (!config->base_channels) config->base_channels = 16;
    if (config->base_channels > WIDEST)
        return stk_fail(err, STOKE_E_INVALID, "base_channels is %u: up to %d will do for a unet",
                        (unsigned)config->base_channels, WIDEST);
    if (config->num_blocks)
        return stk_fail(err, STOKE_E_INVALID, "num_blocks is %u: a unet has none, only a resnet has",
                        (unsigned)config->num_blocks);
    if (config->scale > 1)
        return stk_fail(err, STOKE_E_INVALID,
                        "scale is %u: a unet gives pictures of the size that they came in; a resnet enlarges",
                        (unsigned)config->scale);
    return STOKE_OK;
}

static void declare(stk_parameters *p, const char *module, uint32_t outputs, uint32_t inputs,
                    stk_conv3 *layer)
{
    p->spread = sqrt(2 / (9.0 * inputs)); /* He's, before a ReLU */
    stk_declare_conv3(p, module, outputs, inputs, layer);
}

static void declare_pair(stk_parameters *p, uint32_t outputs, uint32_t inputs, pair *layers)
{
    declare(p, "conv1", outputs, inputs, &layers->conv1);
    declare(p, "conv2", outputs, outputs, &layers->conv2);
}

static void *create(const stk_network_config *config, stk_parameters *parameters)
{
    const uint32_t c = config->base_channels;
    unet *u = stk_calloc(1, sizeof *u);
    if (!u) return NULL;
    u->config = *config;
    for (uint32_t i = 0; i < LEVELS; i++) {
        stk_declare_in(parameters, STK_ROLE_BODY, "down.%u.", (unsigned)i);
        declare_pair(parameters, c << i, i ? c << (i - 1) : 3, &u->levels[i].down);
    }
    stk_declare_in(parameters, STK_ROLE_BODY, "bottom.");
    declare_pair(parameters, c << LEVELS, c << (LEVELS - 1), &u->bottom);
    for (uint32_t i = LEVELS; i--;) {
        stk_declare_in(parameters, STK_ROLE_BODY, "up.%u.", (unsigned)i);
        declare(parameters, "grow", 4 * (c << i), c << (i + 1), &u->levels[i].grow);
        declare_pair(parameters, c << i, 2 * (c << i), &u->levels[i].up);
    }
    stk_declare_in(parameters, STK_ROLE_OUTPUT, "%s", "");
    declare(parameters, "tail", config->classes, c, &u->tail);
    return u;
}

/* ---- the tape ---- */

typedef struct recorder {
    stk_tape *tape;
    const stk_network_settings *how;
    int trains; /* all but the tail */
} recorder;

static const stk_tape_conv3_finish PLAIN = { .factor = 1 }, RELU = { .factor = 1, .relu = 1 };

static stk_depthwise_map map_at(const recorder *r, uint32_t depth)
{
    return (stk_depthwise_map){ .height = r->how->height >> depth, .width = r->how->width >> depth };
}

static stk_tape_id maps(const recorder *r, const char *name, uint32_t depth, uint32_t channels)
{
    const stk_depthwise_map map = map_at(r, depth);
    return stk_tape_declare(r->tape, name, (size_t)map.height * map.width, channels, r->how->type);
}

static void activate(const recorder *r, pair *p, uint32_t depth)
{
    p->a = maps(r, "a", depth, p->conv1.out);
    stk_tape_conv3(r->tape, &p->conv1, map_at(r, depth), p->x, RELU, p->a);
}

static void pair_forward(const recorder *r, pair *p, uint32_t depth, stk_tape_id x, stk_tape_id y)
{
    p->x = x;
    p->y = y;
    activate(r, p, depth);
    stk_tape_conv3(r->tape, &p->conv2, map_at(r, depth), p->a, RELU, y);
}

/* d_y is 0 where y is. d_x NONE: nobody asks for it. lean and min make a again. */
static void pair_back(const recorder *r, pair *p, uint32_t depth, stk_tape_id d_y, stk_tape_id d_x)
{
    const stk_depthwise_map map = map_at(r, depth);
    if (r->how->memory >= STOKE_MEMORY_LEAN) activate(r, p, depth);
    const stk_tape_id d_a = maps(r, "d_a", depth, p->conv1.out);
    stk_tape_conv3_weight(r->tape, &p->conv2, map, p->a, d_y, 1);
    stk_tape_conv3_input(r->tape, &p->conv2, map, d_y, (stk_tape_conv3_finish){ .factor = 1, .gate = p->a },
                         d_a);
    stk_tape_conv3_weight(r->tape, &p->conv1, map, p->x, d_a, 1);
    if (d_x)
        stk_tape_conv3_input(r->tape, &p->conv1, map, d_a,
                             (stk_tape_conv3_finish){ .factor = 1, .gate = p->x }, d_x);
}

static stk_tape_id down(const recorder *r, level *l, uint32_t i, stk_tape_id x)
{
    const uint32_t c = l->down.conv1.out;
    l->joined = maps(r, "joined", i, 2 * c);
    pair_forward(r, &l->down, i, x, stk_tape_columns(r->tape, "kept", l->joined, c, c));
    l->pooled = maps(r, "pooled", i + 1, c);
    stk_tape_pool(r->tape, map_at(r, i), l->down.y, l->pooled);
    return l->pooled;
}

static stk_tape_id up(const recorder *r, level *l, uint32_t i, stk_tape_id below)
{
    const uint32_t c = l->up.conv1.out;
    l->below = below;
    l->wide = maps(r, "grown", i + 1, 4 * c);
    stk_tape_conv3(r->tape, &l->grow, map_at(r, i + 1), below, RELU, l->wide);
    stk_tape_shuffle(r->tape, map_at(r, i + 1), 2, c, l->wide,
                     stk_tape_columns(r->tape, "shuffled", l->joined, 0, c));
    const stk_tape_id y = maps(r, "y", i, c);
    pair_forward(r, &l->up, i, l->joined, y);
    return y;
}

/* From the gradient of its result to that of what the level below gave. */
static stk_tape_id up_back(const recorder *r, level *l, uint32_t i, stk_tape_id d_y)
{
    const uint32_t c = l->up.conv1.out;
    l->d_joined = maps(r, "d_joined", i, 2 * c);
    pair_back(r, &l->up, i, d_y, l->d_joined);
    const stk_tape_id d_wide = maps(r, "d_grown", i + 1, 4 * c), d_below = maps(r, "d_y", i + 1, 2 * c);
    stk_tape_shuffle_back(r->tape, map_at(r, i + 1), 2, c,
                          stk_tape_columns(r->tape, "d_shuffled", l->d_joined, 0, c), d_wide);
    stk_tape_conv3_weight(r->tape, &l->grow, map_at(r, i + 1), l->below, d_wide, 1);
    stk_tape_conv3_input(r->tape, &l->grow, map_at(r, i + 1), d_wide,
                         (stk_tape_conv3_finish){ .factor = 1, .gate = l->below }, d_below);
    return d_below;
}

/* d_pooled is added to what came back on the upper side. */
static stk_tape_id down_back(const recorder *r, level *l, uint32_t i, stk_tape_id d_pooled)
{
    const uint32_t c = l->down.conv1.out;
    const stk_tape_id d_kept = stk_tape_columns(r->tape, "d_kept", l->d_joined, c, c);
    const stk_tape_id d_x = i ? maps(r, "d_pooled", i, c / 2) : STK_TAPE_NONE;
    stk_tape_pool_back(r->tape, map_at(r, i), l->down.y, d_pooled, d_kept, 1);
    pair_back(r, &l->down, i, d_kept, d_x);
    return d_x;
}

static stk_tape_id outputs(const recorder *r, const unet *u, const char *name)
{
    return stk_tape_declare(r->tape, name, (size_t)r->how->height * r->how->width,
                            (uint32_t)stk_logits_stride(u->config.classes), STK_F32);
}

static void record_back(const recorder *r, unet *u, stk_tape_id x)
{
    stk_tape_conv3_weight(r->tape, &u->tail, map_at(r, 0), x, r->tape->d_logits, 1);
    if (!r->trains) return;
    stk_tape_id d = maps(r, "d_y", 0, u->config.base_channels);
    stk_tape_conv3_input(r->tape, &u->tail, map_at(r, 0), r->tape->d_logits,
                         (stk_tape_conv3_finish){ .factor = 1, .gate = x }, d);
    for (uint32_t i = 0; i < LEVELS; i++) d = up_back(r, &u->levels[i], i, d);
    stk_tape_id d_pooled = maps(r, "d_pooled", LEVELS, u->bottom.conv1.in);
    pair_back(r, &u->bottom, LEVELS, d, d_pooled);
    for (uint32_t i = LEVELS; i--;) d_pooled = down_back(r, &u->levels[i], i, d_pooled);
}

static void record(void *layers, const stk_network_settings *how, stk_tape *tape)
{
    unet *u = layers;
    const recorder r = { .tape = tape, .how = how, .trains = how->training && !how->freeze_encoder };
    stk_tape_id x = STK_TAPE_PICTURES;
    for (uint32_t i = 0; i < LEVELS; i++) x = down(&r, &u->levels[i], i, x);
    pair_forward(&r, &u->bottom, LEVELS, x, maps(&r, "bottom", LEVELS, u->bottom.conv1.out));
    x = u->bottom.y;
    for (uint32_t i = LEVELS; i--;) x = up(&r, &u->levels[i], i, x);
    tape->logits = outputs(&r, u, "output");
    tape->out_height = how->height;
    tape->out_width = how->width;
    stk_tape_conv3(tape, &u->tail, map_at(&r, 0), x, PLAIN, tape->logits);
    tape->forward = stk_tape_span_after(tape, (stk_tape_span){ 0 });
    if (!how->training) return;
    tape->d_logits = outputs(&r, u, "d_output");
    stk_tape_loss(tape);
    tape->loss = stk_tape_span_after(tape, tape->forward);
    record_back(&r, u, x);
    tape->backward = stk_tape_span_after(tape, tape->loss);
}

/* ---- estimates ---- */

static uint32_t blocks(const stk_network_config *config)
{
    (void)config;
    return 2 * LEVELS + 1;
}

/* As the module of examples/python keeps them: of a level what ReLUs left of two convolutions on either side
 * and of `grow`, and `joined`, twice as wide; then what was pooled, with the places of its maxima. Two more
 * of the first level are gradients on their way. Levels are half as large from one to the next. */
static uint64_t eager_bytes(void *layers, const stk_network_settings *how, stk_network_widths widths)
{
    const uint64_t first = (uint64_t)how->height * how->width * ((const unet *)layers)->config.base_channels;
    uint64_t values = 2 * first + 2 * (first >> LEVELS), places = 0;
    for (uint32_t i = 0; i < LEVELS; i++) places += (first >> i) / 4;
    values += (4 * (2 + 2 + 1 + 2) + 1) * places;
    return values * widths.product + places * sizeof(int64_t);
}

/* ---- files and the network ---- */

static const stk_plain_files FILES = { .architecture = "StokeholdUNet",
                                       .model_type = "stokehold-unet",
                                       .model = "unet",
                                       .modules = { "down.", "bottom.", "up.", "tail." },
                                       .first = "down.0.conv1.weight",
                                       .last = "tail.weight" };

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

static const char *const MODELS[] = { "unet", NULL };

const stk_network stk_unet_network = {
    .family = "U-Net",
    .models = MODELS,
    .restores = 1,
    .side_min = 1 << LEVELS,
    .side_multiple = 1 << LEVELS,
    .stride = 1,
    .head_lr = 1,
    .settle = settle,
    .create = create,
    .record = record,
    .blocks = blocks,
    .eager_bytes = eager_bytes,
    .model_type = "stokehold-unet",
    .name = name,
    .read = read_files,
    .write_config = write_config,
    .processor = "SegformerImageProcessor",
};
