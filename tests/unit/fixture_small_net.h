/* SPDX-License-Identifier: Apache-2.0
 *
 * A network small enough for tests, batches for it, and what is asked of it again and again.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_SMALL_NET_H
#define STOKE_TESTS_UNIT_FIXTURE_SMALL_NET_H

#include "tests/unit/unit.h"

#include "src/net/net.h"

enum { HEIGHT = 37, WIDTH = 45, BATCH = 3, CLASSES = 5 }; /* odd on purpose */

typedef struct sample_batch {
    float images[BATCH * 3 * HEIGHT * WIDTH];
    uint8_t masks[BATCH * HEIGHT * WIDTH];
} sample_batch;

static inline float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static inline sample_batch *make_batch(uint32_t seed)
{
    sample_batch *b = malloc(sizeof *b);
    assert_non_null(b);
    for (size_t i = 0; i < sizeof b->images / sizeof *b->images; i++) b->images[i] = 2 * noise(&seed);
    for (size_t i = 0; i < sizeof b->masks; i++)
        b->masks[i] = noise(&seed) > 0.9f ? 255 : (uint8_t)(i / 7 % CLASSES);
    return b;
}

static inline stoke_net_batch view(const sample_batch *b, uint32_t count)
{
    return (stoke_net_batch){ .count = count,
                              .images = b->images,
                              .layout = STOKE_LAYOUT_CHW,
                              .image_row_floats = 3 * HEIGHT * WIDTH,
                              .masks = b->masks,
                              .mask_dtype = STOKE_DTYPE_U8,
                              .mask_row_bytes = HEIGHT * WIDTH };
}

static inline stoke_net_params small_params(void)
{
    stoke_net_params p = stoke_net_defaults();
    p.model = "b0";
    p.classes = CLASSES;
    p.batch = BATCH;
    p.height = HEIGHT;
    p.width = WIDTH;
    p.precision = STOKE_PRECISION_FP32;
    p.threads = 1;
    p.seed = 11;
    return p;
}

static inline stoke_net *open_on(const stoke_net_params *p, const stk_net_table *table)
{
    stoke_error err = { 0 };
    stoke_net *net;
    if (stk_net_open(&net, p, table, &err)) fail_msg("%s", err.message);
    return net;
}

static inline stoke_net *open_net(const stoke_net_params *p)
{
    return open_on(p, stk_net_table_get());
}

static inline double train(stoke_net *net, const sample_batch *b, uint32_t count)
{
    stoke_error err = { 0 };
    const stoke_net_batch batch = view(b, count);
    const stoke_update update = stoke_update_defaults();
    double loss;
    if (stoke_net_backward(net, &batch, 1, &loss, &err)) fail_msg("%s", err.message);
    if (stoke_net_step(net, &update, NULL, &err)) fail_msg("%s", err.message);
    return loss;
}

/* FNV-1a over all weights and running statistics. */
static inline uint64_t hash_of(const stoke_net *net)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        const unsigned char *bytes = (const unsigned char *)t.values;
        for (size_t k = 0; k < t.count * sizeof(float); k++)
            hash = (hash ^ bytes[k]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static inline stoke_net_tensor tensor_of(const stoke_net *net, const char *name)
{
    stoke_net_tensor t;
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++)
        if (!strcmp(t.name, name)) return t;
    fail_msg("no tensor %s", name);
    return t;
}

#endif
