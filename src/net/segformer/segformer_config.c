/* SPDX-License-Identifier: Apache-2.0
 *
 * The six published sizes. All share the stages' shape (heads, reductions, patches); they differ in width,
 * depth and the width of the decoder.
 */
#include "src/net/segformer/segformer.h"

#include <string.h>

#include "src/base/error.h"

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
