/* SPDX-License-Identifier: Apache-2.0
 *
 * VGG (Simonyan and Zisserman, 2015) as torchvision names it: blocks of 3x3 convolutions with a ReLU behind
 * each, a pool of 2x2 between blocks. `features` is a list of modules, so the numbers of the convolutions
 * tell where ReLUs and pools are: the next one has a number 2 higher in the same block, 3 higher in the next.
 *
 * The features are what the last ReLU of each of the first four blocks makes: relu1_2, relu2_2, relu3_3 and
 * relu4_3 of VGG16, relu1_2, relu2_2, relu3_4 and relu4_4 of VGG19. What lies behind is not read; a file may
 * end earlier.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/features/vgg.h"
#include "src/net/files/pretrained.h"

enum {
    BLOCKS = STK_FEATURES,
    SIDE_MIN = 1 << (BLOCKS - 1) /* leaves the last block a pixel */
};

/* ---- names ---- */

/* "features.10.weight", or "10.weight" where the module `features` itself was saved. */
static int parse_name(const char *given, unsigned *module, char leaf[static 16])
{
    int end = 0;
    if (strncmp(given, "features.", 9) == 0) given += 9;
    const size_t digits = strspn(given, "0123456789");
    if (!digits || digits > 2 || (digits == 2 && *given == '0')) return 0;
    return sscanf(given, "%2u.%15[a-z_]%n", module, leaf, &end) == 2 && !given[end];
}

static int name(const char *given, char declared[static STK_NAME])
{
    unsigned module;
    char leaf[16];
    if (!parse_name(given, &module, leaf)) return 0;
    snprintf(declared, STK_NAME, "features.%u.%s", module, leaf);
    return 1;
}

/* ---- layers ---- */

typedef struct layer {
    stk_conv3 conv;
    int ends_block;
    stk_depthwise_map map;
    stk_tape_id x, y; /* y = relu(conv(x)), as last recorded */
} layer;

typedef struct vgg {
    uint32_t count;
    layer layers[];
} vgg;

int stk_vgg_note(void *shapes, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                 stoke_error *err)
{
    stk_vgg_shapes *s = shapes;
    const uint64_t *shape = tensor->shape;
    unsigned module;
    char leaf[16];
    if (!parse_name(tensor->name, &module, leaf)) return STOKE_OK;
    if (strcmp(leaf, "running_mean") == 0) s->normalised = 1;
    if (strcmp(leaf, "weight") != 0 || tensor->dims != 4) return STOKE_OK;
    if (!shape[0] || shape[0] > STK_NET_CHANNELS || !shape[1] || shape[1] > STK_NET_CHANNELS ||
        shape[2] != 3 || shape[3] != 3)
        return stk_fail(
            err, STOKE_E_FORMAT,
            "%s: %s has the shape [%llu, %llu, %llu, %llu]: convolutions of a VGG are 3 x 3, from and "
            "to 1 to %d channels",
            file->path, tensor->name, (unsigned long long)shape[0], (unsigned long long)shape[1],
            (unsigned long long)shape[2], (unsigned long long)shape[3], STK_NET_CHANNELS);
    s->out[module] = (uint32_t)shape[0];
    s->in[module] = (uint32_t)shape[1];
    return STOKE_OK;
}

int stk_vgg_outline_of(const stk_vgg_shapes *s, const char *path, stk_vgg_outline *o, stoke_error *err)
{
    uint32_t last = 0, channels = 3, block = 0;
    *o = (stk_vgg_outline){ 0 };
    if (s->normalised)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s: a VGG with batch norm is not computed here: take one without (vgg16, vgg19)",
                        path);
    for (uint32_t m = 0; m < STK_VGG_MODULES; m++) {
        if (!m && !s->out[m]) return stk_fail(err, STOKE_E_FORMAT, "%s: features.0.weight is missing", path);
        if (!s->out[m]) continue;
        if (m && m - last != 2 && m - last != 3)
            return stk_fail(
                err, STOKE_E_FORMAT,
                "%s: features.%u is followed by features.%u: between convolutions of a VGG there is "
                "a ReLU, or a ReLU and a pool",
                path, last, m);
        if (m && m - last == 3 && ++block == BLOCKS) break;
        if (s->in[m] != channels)
            return stk_fail(err, STOKE_E_FORMAT,
                            "%s: features.%u.weight takes %u channels, but what comes before makes %u", path,
                            m, s->in[m], channels);
        channels = s->out[m];
        last = m;
        o->modules[o->count++] = m;
        o->blocks[block]++;
    }
    return STOKE_OK;
}

static const char *title_of(const stk_vgg_outline *o)
{
    static const struct {
        uint32_t blocks[BLOCKS];
        const char *title;
    } known[] = { { { 1, 1, 2, 2 }, "VGG11" },
                  { { 2, 2, 2, 2 }, "VGG13" },
                  { { 2, 2, 3, 3 }, "VGG16" },
                  { { 2, 2, 4, 4 }, "VGG19" } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!memcmp(known[i].blocks, o->blocks, sizeof o->blocks)) return known[i].title;
    return "VGG";
}

static int create(const char *path, void **layers, stk_parameters *parameters, const char **title,
                  stoke_error *err)
{
    stk_vgg_shapes s = { 0 };
    stk_vgg_outline o;
    int status = stk_pretrained_visit(path, stk_vgg_note, &s, err);
    if (!status) status = stk_vgg_outline_of(&s, path, &o, err);
    if (status) return status;
    vgg *net = *layers = stk_calloc(1, sizeof *net + o.count * sizeof *net->layers);
    if (!net) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    net->count = o.count;
    stk_declare_in(parameters, STK_ROLE_BODY, "features.");
    for (uint32_t i = 0; i < o.count; i++) {
        const uint32_t m = o.modules[i];
        char module[8];
        snprintf(module, sizeof module, "%u", m);
        stk_declare_conv3(parameters, module, s.out[m], s.in[m], &net->layers[i].conv);
        net->layers[i].ends_block = i + 1 == o.count || o.modules[i + 1] - m == 3;
    }
    *title = title_of(&o);
    return STOKE_OK;
}

/* ---- the tape ---- */

static stk_tape_id map_of(stk_tape *tape, const char *name, stk_depthwise_map map, uint32_t channels,
                          stk_float type)
{
    return stk_tape_declare(tape, name, (size_t)map.height * map.width, channels, type);
}

static void activate(stk_tape *tape, layer *l, stk_float type)
{
    l->y = map_of(tape, l->ends_block ? "feature" : "a", l->map, l->conv.out, type);
    stk_tape_conv3(tape, &l->conv, l->map, l->x, (stk_tape_conv3_finish){ .factor = 1, .relu = 1 }, l->y);
}

static uint32_t forward(void *layers, const stk_network_settings *how, stk_tape *tape, stk_tape_id picture,
                        stk_tape_id features[static STK_FEATURES])
{
    vgg *net = layers;
    stk_depthwise_map map = { .height = how->height, .width = how->width };
    stk_tape_id x = picture;
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->count; i++) {
        layer *l = &net->layers[i];
        l->map = map;
        l->x = x;
        activate(tape, l, how->type);
        x = l->y;
        if (!l->ends_block) continue;
        features[count++] = l->y;
        if (i + 1 == net->count) break;
        map.height /= 2;
        map.width /= 2;
        x = map_of(tape, "pooled", map, l->conv.out, how->type);
        stk_tape_pool(tape, l->map, l->y, x);
    }
    return count;
}

/* Layers first .. last of a block, from the gradient of what the last ReLU made to that of what the first
 * convolution read. lean and min make again what lies between. */
static void block_back(vgg *net, const stk_network_settings *how, stk_tape *tape, uint32_t first,
                       uint32_t last, stk_tape_id d, stk_tape_id d_x)
{
    layer *l = net->layers;
    for (uint32_t i = first; how->memory >= STOKE_MEMORY_LEAN && i < last; i++) {
        activate(tape, &l[i], how->type);
        l[i + 1].x = l[i].y;
    }
    stk_tape_gate(tape, l[last].y, d);
    for (uint32_t i = last; i > first; i--) {
        const stk_tape_id d_a = map_of(tape, "d_a", l[i].map, l[i].conv.in, how->type);
        stk_tape_conv3_input(tape, &l[i].conv, l[i].map, d,
                             (stk_tape_conv3_finish){ .factor = 1, .gate = l[i].x }, d_a);
        d = d_a;
    }
    stk_tape_conv3_input(tape, &l[first].conv, l[first].map, d, (stk_tape_conv3_finish){ .factor = 1 }, d_x);
}

static void back(void *layers, const stk_network_settings *how, stk_tape *tape,
                 const stk_tape_id d_features[static STK_FEATURES], stk_tape_id d_picture)
{
    vgg *net = layers;
    uint32_t last = net->count - 1, block = 0;
    for (uint32_t i = 0; i < last; i++) block += (uint32_t)net->layers[i].ends_block;
    for (;; block--) {
        uint32_t first = last;
        while (first && !net->layers[first - 1].ends_block) first--;
        const layer *l = &net->layers[first];
        const stk_tape_id d_x = first ? map_of(tape, "d_pooled", l->map, l->conv.in, how->type) : d_picture;
        block_back(net, how, tape, first, last, d_features[block], d_x);
        if (!first) return;
        last = first - 1;
        stk_tape_pool_back(tape, net->layers[last].map, net->layers[last].y, d_x, d_features[block - 1], 1);
    }
}

const stk_features_family stk_vgg_features = {
    .side_min = SIDE_MIN,
    .name = name,
    .create = create,
    .forward = forward,
    .back = back,
};
