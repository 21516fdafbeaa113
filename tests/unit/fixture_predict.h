/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of prediction share: a small network on disk, pictures, masks.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_PREDICT_H
#define STOKE_TESTS_UNIT_FIXTURE_PREDICT_H

#include "tests/unit/unit.h"

#include <math.h>

#include <stoke/tools/tools.h>

enum { SIDE = 64, CLASSES = 5 };

static stoke_error err;

#define OK(call) assert_int_equal_or_say((call), STOKE_OK, #call)
static inline void assert_int_equal_or_say(int got, int wanted, const char *what)
{
    if (got != wanted) print_message("%s: %d, %s\n", what, got, err.message);
    assert_int_equal(got, wanted);
}

/* -1 to 1, of a number (splitmix64's finaliser). */
static inline double noise(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return (double)((x ^ (x >> 31)) >> 11) / (1ull << 52) - 1;
}

/* A network whose masks are not all one class: first values of a SegFormer are too small for that. */
static inline const char *write_model(void **state, const char *name, const char *model, uint32_t classes)
{
    const char *folder = unit_path(state, name);
    stoke_net_params params = stoke_net_defaults();
    stoke_net *net;
    stoke_net_tensor t;
    params.model = model;
    params.classes = classes;
    params.height = params.width = SIDE;
    params.training = 0;
    params.threads = 2;
    params.precision = STOKE_PRECISION_FP32;
    OK(stoke_net_open(&net, &params, &err));
    for (size_t i = 0; !stoke_net_tensor_at(net, i, &t); i++) {
        const float large = t.dims == 4 && t.shape[1] == 1 ? 20 : 2.5f;
        const float factor = t.dims == 1 || strcmp(model, "b0") != 0 ? 1 : large;
        for (size_t k = 0; k < t.count; k++)
            t.values[k] = factor * t.values[k] + (t.dims == 1 ? 0.2f * (float)noise(i * 65536 + k) : 0);
        if (strstr(t.name, "running_var"))
            for (size_t k = 0; k < t.count; k++) t.values[k] = 1 + fabsf(t.values[k]);
    }
    stoke_net_touched(net);
    OK(stoke_net_save(net, folder, 0, &err));
    stoke_net_close(&net);
    return folder;
}

static inline const char *write_network(void **state, const char *name, uint32_t classes)
{
    return write_model(state, name, "b0", classes);
}

/* Blobs and stripes, so that there is something to see at every scale. */
static inline stoke_image make_picture(uint32_t width, uint32_t height, uint8_t depth)
{
    stoke_image image = {
        malloc((size_t)width * height * 3 * depth), (size_t)width * 3 * depth, width, height, 3, depth
    };
    for (size_t i = 0; i < (size_t)width * height * 3; i++) {
        const double x = (double)(i / 3 % width), y = (double)(i / 3 / width), c = (double)(i % 3);
        const double v = 128 + 90 * sin(x / (5 + c)) * cos(y / 7 + c) + 30 * noise(i);
        if (depth == 1)
            ((uint8_t *)image.data)[i] = (uint8_t)v;
        else
            ((uint16_t *)image.data)[i] = (uint16_t)(v * 257);
    }
    return image;
}

static inline stoke_image make_mask(uint32_t width, uint32_t height, uint8_t depth)
{
    return (stoke_image){
        malloc((size_t)width * height * depth), (size_t)width * depth, width, height, 1, depth
    };
}

static inline stoke_predict_params settings(const char *folder, int mode)
{
    stoke_predict_params params = stoke_predict_defaults();
    params.weights = folder;
    params.mode = mode;
    params.batch = 3;
    params.threads = 2;
    params.precision = STOKE_PRECISION_FP32;
    params.confidence = 1;
    return params;
}

#endif
