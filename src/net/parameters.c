/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of tensors, built in the order in which Hugging Face's modules register theirs, and their first
 * values.
 */
#include "src/net/parameters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

enum { ALIGN = 16 };               /* floats: one AVX-512 vector, one cache line */
static const double SPREAD = 0.02; /* initializer_range of every published config.json */

typedef struct builder {
    stk_parameters *out;
    size_t capacity;
    int full; /* memory ran out: everything after does nothing */
} builder;

static void add(builder *b, const char *module, const char *leaf, uint32_t dims, const uint32_t *shape)
{
    stk_parameters *out = b->out;
    if (b->full || !stk_grow((void **)&out->list, &b->capacity, out->count + 1, sizeof *out->list)) {
        b->full = 1;
        return;
    }
    stk_parameter *p = &out->list[out->count++];
    *p = (stk_parameter){ .dims = dims, .offset = out->floats, .count = 1 };
    snprintf(p->name, sizeof p->name, "%s.%s", module, leaf);
    for (uint32_t i = 0; i < dims; i++) {
        p->shape[i] = shape[i];
        p->count *= shape[i];
    }
    p->trainable = strncmp(leaf, "running_", 8) != 0;
    p->head = strncmp(module, "decode_head.", 12) == 0;
    p->norm = strstr(module, "norm") != NULL;
    out->floats += (p->count + ALIGN - 1) / ALIGN * ALIGN;
    if (p->trainable) {
        out->trainable = out->floats;
        out->elements += p->count;
    }
}

static void add_linear(builder *b, const char *module, uint32_t outputs, uint32_t inputs)
{
    add(b, module, "weight", 2, (const uint32_t[]){ outputs, inputs });
    add(b, module, "bias", 1, &outputs);
}

static void add_conv(builder *b, const char *module, uint32_t outputs, uint32_t inputs, uint32_t kernel)
{
    add(b, module, "weight", 4, (const uint32_t[]){ outputs, inputs, kernel, kernel });
    add(b, module, "bias", 1, &outputs);
}

static void add_norm(builder *b, const char *module, uint32_t channels)
{
    add(b, module, "weight", 1, &channels);
    add(b, module, "bias", 1, &channels);
}

static void add_block(builder *b, const stk_config *config, uint32_t stage, uint32_t block)
{
    const uint32_t c = config->hidden[stage], wide = c * config->mlp_ratio, sr = config->reduction[stage];
    char m[STK_NAME];
    const int n = snprintf(m, sizeof m, "segformer.encoder.block.%u.%u.", (unsigned)stage, (unsigned)block);
    char *tail = m + n;
#define MODULE(text) (memcpy(tail, text, sizeof text), m)
    add_norm(b, MODULE("layer_norm_1"), c);
    add_linear(b, MODULE("attention.self.query"), c, c);
    add_linear(b, MODULE("attention.self.key"), c, c);
    add_linear(b, MODULE("attention.self.value"), c, c);
    if (sr > 1) {
        add_conv(b, MODULE("attention.self.sr"), c, c, sr);
        add_norm(b, MODULE("attention.self.layer_norm"), c);
    }
    add_linear(b, MODULE("attention.output.dense"), c, c);
    add_norm(b, MODULE("layer_norm_2"), c);
    add_linear(b, MODULE("mlp.dense1"), wide, c);
    add_conv(b, MODULE("mlp.dwconv.dwconv"), wide, 1, 3);
    add_linear(b, MODULE("mlp.dense2"), c, wide);
#undef MODULE
}

static void add_encoder(builder *b, const stk_config *config)
{
    char m[STK_NAME];
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++) {
        snprintf(m, sizeof m, "segformer.encoder.patch_embeddings.%u.proj", (unsigned)i);
        add_conv(b, m, config->hidden[i], i ? config->hidden[i - 1] : 3, config->patch[i]);
        snprintf(m, sizeof m, "segformer.encoder.patch_embeddings.%u.layer_norm", (unsigned)i);
        add_norm(b, m, config->hidden[i]);
    }
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++)
        for (uint32_t j = 0; j < config->depths[i]; j++) add_block(b, config, i, j);
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++) {
        snprintf(m, sizeof m, "segformer.encoder.layer_norm.%u", (unsigned)i);
        add_norm(b, m, config->hidden[i]);
    }
}

static void add_head(builder *b, const stk_config *config)
{
    const uint32_t d = config->decoder;
    char m[STK_NAME];
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++) {
        snprintf(m, sizeof m, "decode_head.linear_c.%u.proj", (unsigned)i);
        add_linear(b, m, d, config->hidden[i]);
    }
    add(b, "decode_head.linear_fuse", "weight", 4, (const uint32_t[]){ d, d * STK_CONFIG_STAGES, 1, 1 });
    add_norm(b, "decode_head.batch_norm", d);
    add_conv(b, "decode_head.classifier", config->classes, d, 1);
    add(b, "decode_head.batch_norm", "running_mean", 1, &d);
    add(b, "decode_head.batch_norm", "running_var", 1, &d);
}

int stk_parameters_create(stk_parameters *parameters, const stk_config *config, stoke_error *err)
{
    *parameters = (stk_parameters){ 0 };
    builder b = { .out = parameters };
    add_encoder(&b, config);
    add_head(&b, config);
    if (!b.full) return STOKE_OK;
    stk_parameters_free(parameters);
    return stk_fail(err, STOKE_E_NOMEM, "no memory for the list of parameters");
}

void stk_parameters_free(stk_parameters *parameters)
{
    stk_free(parameters->list);
    *parameters = (stk_parameters){ 0 };
}

const stk_parameter *stk_parameters_find(const stk_parameters *parameters, const char *name)
{
    for (size_t i = 0; i < parameters->count; i++)
        if (strcmp(parameters->list[i].name, name) == 0) return &parameters->list[i];
    return NULL;
}

/* A key of its own for every name: FNV-1a, then mixed, so that "…0.0…" and "…0.1…" share nothing. */
static uint64_t key_of(uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return stk_mix64(seed ^ stk_mix64(hash));
}

/* Two independent normal numbers from two words (Box and Muller): as far out as 6.7 deviations. With
 * functions that give the same bits everywhere it takes 70 ns a number on one Zen core: b0 0.25 s, b5 6 s. */
static void normal_pair(uint32_t first, uint32_t second, double pair[2])
{
    const double radius = sqrt(-2 * stk_log((first + 0.5) * 0x1p-32));
    stk_sincos_degrees(second * (360 * 0x1p-32), &pair[1], &pair[0]);
    pair[0] *= radius;
    pair[1] *= radius;
}

static void fill_normal(float *values, size_t count, uint64_t key)
{
    for (size_t at = 0; at < count; at += 4) {
        const stk_random r = stk_philox(key, at / 4, 0, STK_STREAM_INITIAL, 0);
        double drawn[4];
        normal_pair(r.word[0], r.word[1], drawn);
        normal_pair(r.word[2], r.word[3], drawn + 2);
        for (size_t i = 0; i < 4 && at + i < count; i++) values[at + i] = (float)(SPREAD * drawn[i]);
    }
}

static void initialise(const stk_parameter *p, float *values, uint64_t seed)
{
    const char *leaf = strrchr(p->name, '.') + 1;
    const int weight = strcmp(leaf, "weight") == 0;
    if (weight && !p->norm) {
        fill_normal(values, p->count, key_of(seed, p->name));
        return;
    }
    const float value = weight || strcmp(leaf, "running_var") == 0 ? 1.0f : 0.0f;
    for (size_t i = 0; i < p->count; i++) values[i] = value;
}

void stk_parameters_initialise(const stk_parameters *parameters, float *values, uint64_t seed,
                               const stk_parameter *only)
{
    if (only) {
        initialise(only, values + only->offset, seed);
        return;
    }
    memset(values, 0, parameters->floats * sizeof *values); /* the gaps */
    for (size_t i = 0; i < parameters->count; i++)
        initialise(&parameters->list[i], values + parameters->list[i].offset, seed);
}
