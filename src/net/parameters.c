/* SPDX-License-Identifier: Apache-2.0
 *
 * Declaring parameters, and their first values.
 */
#include "src/net/parameters.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/base/rng.h"

enum {
    ALIGN = 16, /* floats: one AVX-512 vector, one cache line */
    PAIRS = STK_EXACT_LANES,
    DRAWN = 2 * PAIRS, /* numbers drawn at once */
    CHUNK = 1 << 16,   /* floats a thread fills at a time: 1.2 ms; a multiple of ALIGN */
};
static const double SPREAD = 0.02; /* initializer_range of every published config.json */

/* ---- declaring ---- */

void stk_declare_in(stk_parameters *parameters, stk_parameter_role role, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(parameters->prefix, sizeof parameters->prefix, format, args);
    va_end(args);
    parameters->role = role;
}

void stk_declare_tensor(stk_parameters *parameters, const char *name, int norm, uint32_t dims,
                        const uint32_t *shape, const float **values, float **gradients)
{
    if (parameters->failed || !stk_grow((void **)&parameters->list, &parameters->capacity,
                                        parameters->count + 1, sizeof *parameters->list)) {
        parameters->failed = 1;
        return;
    }
    stk_parameter *p = &parameters->list[parameters->count++];
    *p = (stk_parameter){ .dims = dims,
                          .offset = parameters->floats,
                          .count = 1,
                          .trainable = gradients != NULL,
                          .head = parameters->role != STK_ROLE_BODY,
                          .output = parameters->role == STK_ROLE_OUTPUT,
                          .spread = parameters->spread > 0 ? parameters->spread : SPREAD,
                          .norm = norm,
                          .values = values,
                          .gradients = gradients };
    snprintf(p->name, sizeof p->name, "%s%s", parameters->prefix, name);
    for (uint32_t i = 0; i < dims; i++) {
        p->shape[i] = shape[i];
        p->count *= shape[i];
    }
    parameters->floats += (p->count + ALIGN - 1) / ALIGN * ALIGN;
    if (!p->trainable) return;
    parameters->trainable = parameters->floats;
    parameters->elements += p->count;
}

void stk_declare_both(stk_parameters *parameters, const char *module, int norm, uint32_t dims,
                      const uint32_t *shape, stk_parameter_slots at)
{
    char name[48];
    snprintf(name, sizeof name, "%s.weight", module);
    stk_declare_tensor(parameters, name, norm, dims, shape, at.weight, at.d_weight);
    snprintf(name, sizeof name, "%s.bias", module);
    stk_declare_tensor(parameters, name, norm, 1, shape, at.bias, at.d_bias);
}

void stk_declare_norm(stk_parameters *parameters, const char *module, uint32_t channels, stk_layernorm *layer)
{
    /* nn.LayerNorm's own eps: config.json's 1e-6 is never used */
    *layer = (stk_layernorm){ .channels = channels, .eps = 1e-5f };
    stk_declare_both(parameters, module, 1, 1, &channels,
                     (stk_parameter_slots){ &layer->gamma, &layer->beta, &layer->d_gamma, &layer->d_beta });
}

/* Part `part` of a layer of one or two. */
static void declare_part(stk_parameters *parameters, const char *module, uint32_t dims, const uint32_t *shape,
                         stk_linear *layer, int part)
{
    stk_declare_both(parameters, module, 0, dims, shape,
                     (stk_parameter_slots){ &layer->weight[part], &layer->bias[part], &layer->d_weight[part],
                                            &layer->d_bias[part] });
}

/* Room for one more pointer in a list of layers; NULL: no memory. */
#define MORE(parameters, kind)                                                                               \
    (stk_grow((void **)&(parameters)->kind##s, &(parameters)->kind##_capacity,                               \
              (parameters)->kind##_count + 1, sizeof *(parameters)->kind##s)                                 \
         ? &(parameters)->kind##s[(parameters)->kind##_count++]                                              \
         : NULL)

static void list_linear(stk_parameters *parameters, stk_linear *layer)
{
    stk_linear **last = MORE(parameters, linear);
    if (last)
        *last = layer;
    else
        parameters->failed = 1;
}

void stk_declare_linear(stk_parameters *parameters, const char *module, uint32_t outputs, uint32_t inputs,
                        uint32_t kernel, stk_linear *layer)
{
    const uint32_t shape[] = { outputs, inputs, kernel, kernel }, taps = kernel ? kernel * kernel : 1;
    *layer = (stk_linear){
        .in = taps * inputs, .out = outputs, .taps = taps, .parts = 1, .weight_stride = taps * inputs
    };
    list_linear(parameters, layer);
    declare_part(parameters, module, kernel ? 4 : 2, shape, layer, 0);
}

void stk_declare_pair(stk_parameters *parameters, const char *const module[static 2], uint32_t outputs,
                      uint32_t inputs, stk_linear *layer)
{
    *layer = (stk_linear){ .in = inputs, .out = 2 * outputs, .taps = 1, .parts = 2, .weight_stride = inputs };
    list_linear(parameters, layer);
    for (int part = 0; part < 2; part++)
        declare_part(parameters, module[part], 2, (const uint32_t[]){ outputs, inputs }, layer, part);
}

void stk_declare_depthwise(stk_parameters *parameters, const char *module, uint32_t channels,
                           stk_depthwise *layer)
{
    stk_depthwise **last = MORE(parameters, depthwise);
    *layer = (stk_depthwise){ .channels = channels };
    if (last)
        *last = layer;
    else
        parameters->failed = 1;
    stk_declare_both(parameters, module, 0, 4, (const uint32_t[]){ channels, 1, 3, 3 },
                     (stk_parameter_slots){ &layer->weight, &layer->bias, &layer->d_weight, &layer->d_bias });
}

void stk_declare_conv3(stk_parameters *parameters, const char *module, uint32_t outputs, uint32_t inputs,
                       stk_conv3 *layer)
{
    stk_conv3 **last = MORE(parameters, conv3);
    *layer = (stk_conv3){ .in = inputs, .out = outputs };
    if (last)
        *last = layer;
    else
        parameters->failed = 1;
    stk_declare_both(parameters, module, 0, 4, (const uint32_t[]){ outputs, inputs, 3, 3 },
                     (stk_parameter_slots){ &layer->weight, &layer->bias, &layer->d_weight, &layer->d_bias });
}

void stk_parameters_bind(const stk_parameters *parameters, float *values, float *gradients, int frozen)
{
    for (size_t i = 0; i < parameters->count; i++) {
        const stk_parameter *p = &parameters->list[i];
        *p->values = values ? values + p->offset : NULL;
        if (p->gradients && (p->head || !frozen)) *p->gradients = gradients ? gradients + p->offset : NULL;
    }
}

void stk_parameters_free(stk_parameters *parameters)
{
    stk_free(parameters->list);
    stk_free(parameters->linears);
    stk_free(parameters->depthwises);
    stk_free(parameters->conv3s);
    *parameters = (stk_parameters){ 0 };
}

const stk_parameter *stk_parameters_find(const stk_parameters *parameters, const char *name)
{
    for (size_t i = 0; i < parameters->count; i++)
        if (strcmp(parameters->list[i].name, name) == 0) return &parameters->list[i];
    return NULL;
}

/* ---- first values ---- */

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
static void fill_normal(float *values, size_t first, size_t count, double spread, uint64_t key)
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
            values[first + at + i] = (float)(spread * drawn[i]);
    }
}

static void initialise(const stk_parameter *p, float *values, size_t first, size_t count, uint64_t seed)
{
    const char *leaf = strrchr(p->name, '.') + 1;
    const int weight = strcmp(leaf, "weight") == 0;
    if (weight && !p->norm) {
        fill_normal(values, first, count, p->spread, key_of(seed, p->name));
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
