/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights: any bytes are refused, or give tensors that cover the data from its first byte to its
 * last and whose names and shapes say no more than that; and the convolutions of a VGG that are read off them
 * are a chain.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/net/features/vgg.h"
#include "src/net/files/pretrained.h"
#include "src/net/segformer/segformer.h"

static void check(const stk_safetensors *file, uint64_t data_size)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const stk_safetensors_tensor *t = &file->list[i];
        char old[STK_NAME];
        if (t->begin != end || t->bytes > data_size - end || t->dims > STK_TENSOR_DIMS) abort();
        end += t->bytes;
        unsigned __int128 count = 1;
        for (uint32_t k = 0; k < t->dims; k++) count *= t->shape[k] ? t->shape[k] : 1;
        for (uint32_t k = 0; k < t->dims; k++) count *= t->shape[k] != 0;
        if (count != t->count || (t->count && t->bytes % t->count)) abort();
        if (stk_segformer_name(t->name, old) && strlen(old) >= STK_NAME) abort();
        if (stk_vgg_features.name(t->name, old) && strlen(old) >= STK_NAME) abort();
    }
    if (end != data_size) abort();
}

/* What is to be a layer has channels of the one before, and sizes that a network is made of. */
static void check_vgg(const stk_safetensors *file)
{
    stk_vgg_shapes shapes = { 0 };
    stk_vgg_outline o;
    stoke_error err = { 0 };
    uint32_t channels = 3, layers = 0;
    for (size_t i = 0; i < file->count; i++)
        if (stk_vgg_note(&shapes, file, &file->list[i], &err)) return;
    if (stk_vgg_outline_of(&shapes, "file", &o, &err)) return;
    for (uint32_t i = 0; i < o.count; i++) {
        const uint32_t m = o.modules[i];
        if (m >= STK_VGG_MODULES || shapes.in[m] != channels || !shapes.out[m]) abort();
        if (shapes.out[m] > STK_NET_CHANNELS || (i && m <= o.modules[i - 1])) abort();
        channels = shapes.out[m];
    }
    for (int b = 0; b < STK_FEATURES; b++) layers += o.blocks[b];
    if (!o.count || layers != o.count) abort();
}

FUZZ_TARGET(safetensors)
{
    stk_safetensors file;
    stoke_error err = { 0 };
    uint64_t length;
    if (size < 8 || stk_safetensors_length(bytes, size, &length, &err)) return 0;
    if (length > size - 8) abort();
    const uint64_t data_size = size - 8 - length;
    if (stk_safetensors_parse(&file, (const char *)bytes + 8, (size_t)length, data_size, &err)) {
        if (!*err.message || file.list || file.json.values) abort();
        return 0;
    }
    check(&file, data_size);
    check_vgg(&file);
    stk_safetensors_close(&file);
    return 0;
}
