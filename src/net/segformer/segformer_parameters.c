/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of tensors, built in the order in which Hugging Face's modules register theirs: names, shapes, and
 * the layers they belong to. And their first values.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/base/rng.h"
#include "src/net/net.h"

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
    uint32_t hidden[STK_CONFIG_STAGES], depths[STK_CONFIG_STAGES], decoder;
} variant;

static const variant VARIANTS[] = {
    { "b0", { 32, 64, 160, 256 }, { 2, 2, 2, 2 }, 256 },
    { "b1", { 64, 128, 320, 512 }, { 2, 2, 2, 2 }, 256 },
    { "b2", { 64, 128, 320, 512 }, { 3, 4, 6, 3 }, 768 },
    { "b3", { 64, 128, 320, 512 }, { 3, 4, 18, 3 }, 768 },
    { "b4", { 64, 128, 320, 512 }, { 3, 8, 27, 3 }, 768 },
    { "b5", { 64, 128, 320, 512 }, { 3, 6, 40, 3 }, 768 },
};

static void set(stk_segformer_config *config, const variant *v, uint32_t classes)
{
    *config = COMMON;
    config->model = v->model;
    memcpy(config->hidden, v->hidden, sizeof config->hidden);
    memcpy(config->depths, v->depths, sizeof config->depths);
    config->decoder = v->decoder;
    config->classes = classes;
}

int stk_config_of(stk_segformer_config *config, const char *model, uint32_t classes, stoke_error *err)
{
    if (!classes || classes > STK_CONFIG_CLASSES)
        return stk_fail(err, STOKE_E_INVALID, "classes is %u: 1 to %d will do", (unsigned)classes,
                        STK_CONFIG_CLASSES);
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        if (strcmp(VARIANTS[i].model, model)) continue;
        set(config, &VARIANTS[i], classes);
        return STOKE_OK;
    }
    return stk_fail(err, STOKE_E_NOTFOUND, "no model is called \"%s\": there are b0, b1, b2, b3, b4 and b5",
                    model);
}

int stk_config_like(stk_segformer_config *config, const uint32_t hidden[static STK_CONFIG_STAGES],
                    const uint32_t depths[static STK_CONFIG_STAGES])
{
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++) {
        const variant *v = &VARIANTS[i];
        if (memcmp(v->hidden, hidden, sizeof v->hidden) || memcmp(v->depths, depths, sizeof v->depths))
            continue;
        set(config, v, 0);
        return 1;
    }
    return 0;
}

int stk_config_check_batch(uint32_t batch, uint32_t height, uint32_t width, stoke_error *err)
{
    if (!batch || batch > STK_NET_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "batch is %u: 1 to %d will do", (unsigned)batch, STK_NET_BATCH);
    if (height < STK_NET_SIDE_MIN || height > STK_NET_SIDE_MAX || width < STK_NET_SIDE_MIN ||
        width > STK_NET_SIDE_MAX)
        return stk_fail(err, STOKE_E_INVALID,
                        "pictures of %u x %u: %d x %d to %d x %d will do, odd sizes too", (unsigned)height,
                        (unsigned)width, STK_NET_SIDE_MIN, STK_NET_SIDE_MIN, STK_NET_SIDE_MAX,
                        STK_NET_SIDE_MAX);
    if ((uint64_t)batch * height * width > STK_NET_PIXELS)
        return stk_fail(err, STOKE_E_LIMIT, "%u pictures of %u x %u: a batch has at most %llu pixels",
                        (unsigned)batch, (unsigned)height, (unsigned)width,
                        (unsigned long long)STK_NET_PIXELS);
    return STOKE_OK;
}

/* ---- parameters ---- */

enum {
    ALIGN = 16, /* floats: one AVX-512 vector, one cache line */
    PAIRS = STK_EXACT_LANES,
    DRAWN = 2 * PAIRS, /* numbers drawn at once */
    CHUNK = 1 << 16,   /* floats a thread fills at a time: 1.2 ms; a multiple of ALIGN */
};
static const double SPREAD = 0.02; /* initializer_range of every published config.json */

typedef struct builder {
    stk_parameters *out;
    size_t capacity;
    int full; /* memory ran out: everything after does nothing */
    /* Of the modules that are added now: the struct that holds their layers, and how their names begin. */
    uint32_t owner;
    char prefix[48];
} builder;

static void begin(builder *b, uint32_t owner, const char *format, ...) STOKE_PRINTF(3, 4);
static void begin(builder *b, uint32_t owner, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(b->prefix, sizeof b->prefix, format, args);
    va_end(args);
    b->owner = owner;
}

/* Where in the owner the pointers to a tensor's values and gradients are. */
typedef struct slots {
    size_t values, gradients;
} slots;

static void add(builder *b, const char *tail, int norm, uint32_t dims, const uint32_t *shape, slots at)
{
    stk_parameters *out = b->out;
    if (b->full || !stk_grow((void **)&out->list, &b->capacity, out->count + 1, sizeof *out->list)) {
        b->full = 1;
        return;
    }
    stk_parameter *p = &out->list[out->count++];
    *p = (stk_parameter){ .dims = dims,
                          .offset = out->floats,
                          .count = 1,
                          .trainable = at.gradients != 0,
                          .head = b->owner == STK_OWNER_HEAD,
                          .norm = norm,
                          .owner = b->owner,
                          .values_slot = at.values,
                          .gradients_slot = at.gradients };
    snprintf(p->name, sizeof p->name, "%s%s", b->prefix, tail);
    for (uint32_t i = 0; i < dims; i++) {
        p->shape[i] = shape[i];
        p->count *= shape[i];
    }
    out->floats += (p->count + ALIGN - 1) / ALIGN * ALIGN;
    if (p->trainable) {
        out->trainable = out->floats;
        out->elements += p->count;
    }
}

/* Weight and bias of a module; `shape` is the weight's, its first number the bias's. */
static void add_both(builder *b, const char *module, int norm, uint32_t dims, const uint32_t *shape,
                     slots weight, slots bias)
{
    char tail[48];
    snprintf(tail, sizeof tail, "%s.weight", module);
    add(b, tail, norm, dims, shape, weight);
    snprintf(tail, sizeof tail, "%s.bias", module);
    add(b, tail, norm, 1, shape, bias);
}

/* Of a tensor in a layer that begins at `at`. */
#define INSIDE(at, type, values, gradients)                                                                  \
    ((slots){ (at) + offsetof(type, values), (at) + offsetof(type, gradients) })

static void add_norm(builder *b, const char *module, uint32_t channels, size_t at)
{
    add_both(b, module, 1, 1, &channels, INSIDE(at, stk_layernorm, gamma, d_gamma),
             INSIDE(at, stk_layernorm, beta, d_beta));
}

/* Kernel 0: a plain layer. */
static void add_linear(builder *b, const char *module, uint32_t outputs, uint32_t inputs, uint32_t kernel,
                       size_t at)
{
    const uint32_t shape[] = { outputs, inputs, kernel, kernel };
    add_both(b, module, 0, kernel ? 4 : 2, shape, INSIDE(at, stk_linear, weight[0], d_weight[0]),
             INSIDE(at, stk_linear, bias[0], d_bias[0]));
}

static void add_block(builder *b, const stk_segformer_config *config, uint32_t stage)
{
    const uint32_t c = config->hidden[stage], wide = c * config->mlp_ratio, sr = config->reduction[stage];
#define AT(layer) offsetof(stk_segformer_block, layer)
    add_norm(b, "layer_norm_1", c, AT(norm1));
    add_linear(b, "attention.self.query", c, c, 0, AT(query));
    add_linear(b, "attention.self.key", c, c, 0, AT(key_value));
    add_both(b, "attention.self.value", 0, 2, (const uint32_t[]){ c, c },
             INSIDE(AT(key_value), stk_linear, weight[1], d_weight[1]),
             INSIDE(AT(key_value), stk_linear, bias[1], d_bias[1]));
    if (sr > 1) {
        add_linear(b, "attention.self.sr", c, c, sr, AT(reduction));
        add_norm(b, "attention.self.layer_norm", c, AT(norm_reduced));
    }
    add_linear(b, "attention.output.dense", c, c, 0, AT(output));
    add_norm(b, "layer_norm_2", c, AT(norm2));
    add_linear(b, "mlp.dense1", wide, c, 0, AT(expand));
    add_both(b, "mlp.dwconv.dwconv", 0, 4, (const uint32_t[]){ wide, 1, 3, 3 },
             INSIDE(AT(depthwise), stk_depthwise, weight, d_weight),
             INSIDE(AT(depthwise), stk_depthwise, bias, d_bias));
    add_linear(b, "mlp.dense2", c, wide, 0, AT(contract));
#undef AT
}

static void add_encoder(builder *b, const stk_segformer_config *config)
{
#define AT(layer) offsetof(stk_segformer_stage, layer)
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++) {
        begin(b, i, "segformer.encoder.patch_embeddings.%u.", (unsigned)i);
        add_linear(b, "proj", config->hidden[i], i ? config->hidden[i - 1] : 3, config->patch[i], AT(embed));
        add_norm(b, "layer_norm", config->hidden[i], AT(embed_norm));
    }
    uint32_t block = STK_OWNER_BLOCKS;
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++)
        for (uint32_t j = 0; j < config->depths[i]; j++) {
            begin(b, block++, "segformer.encoder.block.%u.%u.", (unsigned)i, (unsigned)j);
            add_block(b, config, i);
        }
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++) {
        char module[16];
        begin(b, i, "segformer.encoder.layer_norm.");
        snprintf(module, sizeof module, "%u", (unsigned)i);
        add_norm(b, module, config->hidden[i], AT(norm));
    }
#undef AT
}

static void add_head(builder *b, const stk_segformer_config *config)
{
    const uint32_t d = config->decoder;
#define AT(values) INSIDE(0, stk_segformer_head, values, d_##values)
    for (uint32_t i = 0; i < STK_CONFIG_STAGES; i++) {
        begin(b, STK_OWNER_HEAD, "decode_head.linear_c.%u.", (unsigned)i);
        add_both(b, "proj", 0, 2, (const uint32_t[]){ d, config->hidden[i] }, AT(linear_weight[i]),
                 AT(linear_bias[i]));
    }
    begin(b, STK_OWNER_HEAD, "decode_head.");
    add(b, "linear_fuse.weight", 0, 4, (const uint32_t[]){ d, d * STK_CONFIG_STAGES, 1, 1 }, AT(fuse_weight));
    add_both(b, "batch_norm", 1, 1, &d, AT(norm_gamma), AT(norm_beta));
    add_both(b, "classifier", 0, 4, (const uint32_t[]){ config->classes, d, 1, 1 }, AT(classifier_weight),
             AT(classifier_bias));
#undef AT
    add(b, "batch_norm.running_mean", 1, 1, &d, (slots){ offsetof(stk_segformer_head, running_mean), 0 });
    add(b, "batch_norm.running_var", 1, 1, &d, (slots){ offsetof(stk_segformer_head, running_variance), 0 });
}

int stk_parameters_create(stk_parameters *parameters, const stk_segformer_config *config, stoke_error *err)
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

/* Its own key for every name: FNV-1a, then mixed, so that "…0.0…" and "…0.1…" share nothing. */
static uint64_t key_of(uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return stk_mix64(seed ^ stk_mix64(hash));
}

/* PAIRS pairs of independent normal numbers (Box and Muller), each from two words: as far out as 6.7
 * deviations. 21 ns a number on one Zen core, where one by one it is 41: nearly all of it 17 quotients. */
static void normal_pairs(const uint32_t *words, double *drawn)
{
    double radius[PAIRS], angle[PAIRS], sine[PAIRS], cosine[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        radius[i] = (words[2 * i] + 0.5) * 0x1p-32;
        angle[i] = words[2 * i + 1] * (360 * 0x1p-32);
    }
    stk_log_lanes(radius, radius);
    stk_sincos_degrees_lanes(angle, sine, cosine);
    for (int i = 0; i < PAIRS; i++) {
        radius[i] = sqrt(-2 * radius[i]);
        drawn[2 * i] = cosine[i] * radius[i];
        drawn[2 * i + 1] = sine[i] * radius[i];
    }
}

/* Elements first .. first + count of a tensor; first a multiple of 4. */
static void fill_normal(float *values, size_t first, size_t count, uint64_t key)
{
    for (size_t at = 0; at < count; at += DRAWN) {
        uint32_t words[DRAWN];
        double drawn[DRAWN];
        for (size_t i = 0; i < DRAWN; i += 4) {
            const stk_rng r = stk_philox(key, (first + at + i) / 4, 0, STK_STREAM_INITIAL, 0);
            memcpy(words + i, r.word, sizeof r.word);
        }
        normal_pairs(words, drawn);
        for (size_t i = 0; i < DRAWN && at + i < count; i++)
            values[first + at + i] = (float)(SPREAD * drawn[i]);
    }
}

static void initialise(const stk_parameter *p, float *values, size_t first, size_t count, uint64_t seed)
{
    const char *leaf = strrchr(p->name, '.') + 1;
    const int weight = strcmp(leaf, "weight") == 0;
    if (weight && !p->norm) {
        fill_normal(values, first, count, key_of(seed, p->name));
        return;
    }
    const float value = weight || strcmp(leaf, "running_var") == 0 ? 1.0f : 0.0f;
    for (size_t i = 0; i < count; i++) values[first + i] = value;
}

void stk_parameter_initialise(const stk_parameter *p, float *values, uint64_t seed)
{
    initialise(p, values + p->offset, 0, p->count, seed);
}

typedef struct filling {
    const stk_parameters *parameters;
    float *values;
    uint64_t seed;
} filling;

/* Floats task * CHUNK and on of the flat array: the parts of tensors that lie there, 0 between them. */
static void fill_chunk(const void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const filling *f = context;
    const size_t begin = (size_t)task * CHUNK, left = f->parameters->floats - begin;
    const size_t end = begin + (left < CHUNK ? left : CHUNK);
    memset(f->values + begin, 0, (end - begin) * sizeof *f->values);
    for (size_t i = 0; i < f->parameters->count; i++) {
        const stk_parameter *p = &f->parameters->list[i];
        if (p->offset >= end || p->offset + p->count <= begin) continue;
        const size_t first = p->offset < begin ? begin - p->offset : 0;
        const size_t rest = end - (p->offset + first), own = p->count - first;
        initialise(p, f->values + p->offset, first, own < rest ? own : rest, f->seed);
    }
}

void stk_parameters_initialise(const stk_parameters *parameters, float *values, uint64_t seed,
                               stk_threadpool *pool)
{
    const filling f = { .parameters = parameters, .values = values, .seed = seed };
    stk_threadpool_run(pool, fill_chunk, &f, (uint32_t)((parameters->floats + CHUNK - 1) / CHUNK));
}
