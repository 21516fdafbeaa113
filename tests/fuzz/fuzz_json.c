/* SPDX-License-Identifier: Apache-2.0
 *
 * Saved loader states come from disk: the flat JSON reader on any bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/flat_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, bytes, size);
    text[size] = 0;
    stk_flat_json json;
    stoke_error err;
    uint64_t value;
    if (stk_flat_json_read(&json, text, &err) == 0)
        for (size_t i = 0; i < json.count; i++) {
            if (!stk_flat_json_find(&json, json.field[i].key)) abort();
            stk_flat_json_uint(&json, json.field[i].key, &value, &err);
        }
    free(text);
    return 0;
}
