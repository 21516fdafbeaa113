/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of weights: any bytes are refused, or give tensors that cover the data from its first byte to its
 * last and whose names and shapes say no more than that.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
    }
    if (end != data_size) abort();
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
    stk_safetensors_close(&file);
    return 0;
}
