/* SPDX-License-Identifier: Apache-2.0
 *
 * SegFormer's sizes, and its layers with the names of their parameters.
 */
#include "src/net/segformer/segformer.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/features/features.h"
#include "src/net/files/pretrained.h"

/* ---- sizes ---- */

/* The six published sizes. All share the stages' shape (heads, reductions, patches); they differ in width,
 * depth and the width of the decoder. */

static const stk_segformer_config COMMON = {
    .heads = { 1, 2, 5, 8 },
    .reduction = { 8, 4, 2, 1 },
    .patch = { 7, 3, 3, 3 },
    .stride = { 4, 2, 2, 2 },
    .mlp_ratio = 4,
};

typedef struct variant {
    const char *model;
    uint32_t hidden[STK_STAGES], depths[STK_STAGES], decoder;
} variant;

static const variant VARIANTS[] = {
    { "b0", { 32, 64, 160, 256 }, { 2, 2, 2, 2 }, 256 },
    { "b1", { 64, 128, 320, 512 }, { 2, 2, 2, 2 }, 256 },
    { "b2", { 64, 128, 320, 512 }, { 3, 4, 6, 3 }, 768 },
    { "b3", { 64, 128, 320, 512 }, { 3, 4, 18, 3 }, 768 },
    { "b4", { 64, 128, 320, 512 }, { 3, 8, 27, 3 }, 768 },
    { "b5", { 64, 128, 320, 512 }, { 3, 6, 40, 3 }, 768 },
};

static stk_segformer_config sizes_of(const variant *v, uint32_t classes)
{
    stk_segformer_config config = COMMON;
    config.model = v->model;
    memcpy(config.hidden, v->hidden, sizeof config.hidden);
    memcpy(config.depths, v->depths, sizeof config.depths);
    config.decoder = v->decoder;
    config.classes = classes;
    return config;
}

stk_segformer_config stk_segformer_sizes(const char *model, uint32_t classes)
{
    const variant *v = VARIANTS;
    while (strcmp(v->model, model) != 0) v++;
    return sizes_of(v, classes);
}

int stk_segformer_like(stk_segformer_config *config, const uint32_t hidden[static STK_STAGES],
                       const uint32_t depths[static STK_STAGES])
{
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        const variant *v = &VARIANTS[i];
        if (memcmp(v->hidden, hidden, sizeof v->hidden) || memcmp(v->depths, depths, sizeof v->depths))
            continue;
        *config = sizes_of(v, 0);
        return 1;
    }
    return 0;
}

/* ---- layers ---- */

/* Tensors in the order of Hugging Face's state_dict. */
static void declare_block(stk_parameters *p, stk_segformer_block *b, uint32_t c, uint32_t wide, uint32_t sr)
{
    static const char *const KEY_VALUE[] = { "attention.self.key", "attention.self.value" };
    stk_declare_norm(p, "layer_norm_1", c, &b->norm1);
    stk_declare_linear(p, "attention.self.query", c, c, 0, &b->query);
    stk_declare_pair(p, KEY_VALUE, c, c, &b->key_value);
    if (sr > 1) {
        stk_declare_linear(p, "attention.self.sr", c, c, sr, &b->reduction);
        stk_declare_norm(p, "attention.self.layer_norm", c, &b->norm_reduced);
    }
    stk_declare_linear(p, "attention.output.dense", c, c, 0, &b->output);
    stk_declare_norm(p, "layer_norm_2", c, &b->norm2);
    stk_declare_linear(p, "mlp.dense1", wide, c, 0, &b->expand);
    stk_declare_depthwise(p, "mlp.dwconv.dwconv", wide, &b->depthwise);
    stk_declare_linear(p, "mlp.dense2", c, wide, 0, &b->contract);
}

static void declare_encoder(stk_parameters *p, stk_segformer *s)
{
    const stk_segformer_config *config = &s->config;
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        stk_declare_in(p, STK_ROLE_BODY, "segformer.encoder.patch_embeddings.%u.", (unsigned)i);
        stk_declare_linear(p, "proj", config->hidden[i], i ? config->hidden[i - 1] : 3, config->patch[i],
                           &s->stage[i].embed);
        stk_declare_norm(p, "layer_norm", config->hidden[i], &s->stage[i].embed_norm);
    }
    for (uint32_t i = 0; i < STK_STAGES; i++)
        for (uint32_t j = 0; j < config->depths[i]; j++) {
            stk_declare_in(p, STK_ROLE_BODY, "segformer.encoder.block.%u.%u.", (unsigned)i, (unsigned)j);
            declare_block(p, &s->stage[i].blocks[j], config->hidden[i], config->hidden[i] * config->mlp_ratio,
                          config->reduction[i]);
        }
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        const char module[] = { (char)('0' + i), 0 };
        stk_declare_in(p, STK_ROLE_BODY, "segformer.encoder.layer_norm.");
        stk_declare_norm(p, module, config->hidden[i], &s->stage[i].norm);
    }
}

static void declare_head(stk_parameters *p, stk_segformer *s)
{
    stk_segformer_head *h = &s->head;
    const uint32_t d = s->config.decoder;
    for (uint32_t i = 0; i < STK_STAGES; i++) {
        stk_declare_in(p, STK_ROLE_HEAD, "decode_head.linear_c.%u.", (unsigned)i);
        stk_declare_both(p, "proj", 0, 2, (const uint32_t[]){ d, s->config.hidden[i] },
                         (stk_parameter_slots){ &h->linear_weight[i], &h->linear_bias[i],
                                                &h->d_linear_weight[i], &h->d_linear_bias[i] });
    }
    stk_declare_in(p, STK_ROLE_HEAD, "decode_head.");
    stk_declare_tensor(p, "linear_fuse.weight", 0, 4, (const uint32_t[]){ d, d * STK_STAGES, 1, 1 },
                       &h->fuse_weight, &h->d_fuse_weight);
    stk_declare_both(
        p, "batch_norm", 1, 1, &d,
        (stk_parameter_slots){ &h->norm_gamma, &h->norm_beta, &h->d_norm_gamma, &h->d_norm_beta });
    stk_declare_in(p, STK_ROLE_OUTPUT, "decode_head.");
    stk_declare_both(p, "classifier", 0, 4, (const uint32_t[]){ s->config.classes, d, 1, 1 },
                     (stk_parameter_slots){ &h->classifier_weight, &h->classifier_bias,
                                            &h->d_classifier_weight, &h->d_classifier_bias });
    stk_declare_in(p, STK_ROLE_HEAD, "decode_head.");
    stk_declare_tensor(p, "batch_norm.running_mean", 1, 1, &d, &h->running_mean, NULL);
    stk_declare_tensor(p, "batch_norm.running_var", 1, 1, &d, &h->running_variance, NULL);
}

/* Of all stages. */
static uint32_t blocks_of(const stk_segformer_config *sizes)
{
    uint32_t count = 0;
    for (int i = 0; i < STK_STAGES; i++) count += sizes->depths[i];
    return count;
}

/* Names of the layers of a block that multiply, and how people call them. */
static const struct {
    const char *module, *title;
} TITLES[] = {
    { "attention.self.query", "query" },
    { "attention.self.sr", "reduction" },
    { "attention.self.key", "key, value" },
    { "attention.self", "attention" },
    { "attention.output.dense", "output" },
    { "mlp.dense1", "fc1" },
    { "mlp.dense2", "fc2" },
    { "proj", "patches" },
};

static void title(char name[static STK_NAME])
{
    unsigned stage, block;
    int at = 0;
    if (sscanf(name, "segformer.encoder.block.%u.%u.%n", &stage, &block, &at) != 2 || !at)
        if (sscanf(name, "segformer.encoder.patch_embeddings.%u.%n", &stage, &at) != 1 || !at) return;
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        if (!strcmp(name + at, TITLES[i].module)) {
            snprintf(name, STK_NAME, "stage %u %s", stage + 1, TITLES[i].title);
            return;
        }
}

/* With the encoder's layers. */
static stk_segformer *make(const char *model, uint32_t classes, stk_parameters *parameters)
{
    const stk_segformer_config sizes = stk_segformer_sizes(model, classes);
    const uint32_t count = blocks_of(&sizes);
    stk_segformer *s = stk_calloc(1, sizeof *s + count * sizeof *s->blocks);
    if (!s) return NULL;
    s->config = sizes;
    s->block_count = count;
    for (uint32_t i = 0, next = 0; i < STK_STAGES; next += sizes.depths[i++])
        s->stage[i].blocks = s->blocks + next;
    declare_encoder(parameters, s);
    return s;
}

static void *create(const stk_network_config *config, stk_parameters *parameters)
{
    stk_segformer *s = make(config->model, config->classes, parameters);
    if (!s) return NULL;
    declare_head(parameters, s);
    parameters->counter = "decode_head.batch_norm.num_batches_tracked";
    return s;
}

/* ---- features ---- */

static int encoder_of(const char *path, void **layers, stk_parameters *parameters, const char **title,
                      stoke_error *err)
{
    stk_network_config config;
    const int status = stk_pretrained_config(path, &config, err);
    if (status) return status;
    if (config.network != &stk_segformer_network) /* the names of tensors said otherwise */
        return stk_fail(err, STOKE_E_FORMAT,
                        "%s: config.json is that of a %s, and there are tensors of a SegFormer", path,
                        config.network->family);
    *title = config.model;
    *layers = make(config.model, 0, parameters);
    return *layers ? STOKE_OK : stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
}

const stk_features_family stk_segformer_features = {
    .side_min = STK_SEGFORMER_SIDE_MIN,
    .name = stk_segformer_name,
    .create = encoder_of,
    .forward = stk_segformer_features_forward,
    .back = stk_segformer_features_back,
};

/* ---- the network ---- */

static uint32_t blocks(const stk_network_config *config)
{
    const stk_segformer_config sizes = stk_segformer_sizes(config->model, config->classes);
    return blocks_of(&sizes);
}

static const char *const MODELS[] = { "b0", "b1", "b2", "b3", "b4", "b5", NULL };

const stk_network stk_segformer_network = {
    .family = "SegFormer",
    .models = MODELS,
    .side_min = STK_SEGFORMER_SIDE_MIN,
    .side_multiple = 1,
    .side_chosen = 32, /* the last stage sees a 32nd of the picture */
    .stride = 4,
    .head_lr = 10,
    .pretrained = 1,
    .create = create,
    .record = stk_segformer_record,
    .blocks = blocks,
    .eager_bytes = stk_segformer_eager_bytes,
    .model_type = "segformer",
    .name = stk_segformer_name,
    .title = title,
    .read = stk_segformer_read,
    .write_config = stk_segformer_write_config,
    .processor = "SegformerImageProcessor",
};
