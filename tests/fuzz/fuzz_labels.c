/* SPDX-License-Identifier: Apache-2.0
 *
 * Label maps: the first byte chooses settings, the rest is a list of values or the text of a colour file. A
 * map that is accepted must only produce ids it announced.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stoke/tools/labels.h>

#include "src/source/labels_internal.h"

static void use(const stoke_labels *labels, const uint8_t *bytes, size_t size)
{
    const uint8_t depth = stoke_labels_depth(labels);
    const int colors = stoke_labels_are_colors(labels);
    uint8_t pixels[3 * 64];
    uint16_t ids[64];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = size ? bytes[i % size] : 0;
    stoke_image mask = { pixels, colors ? 192 : 64, 64, 1, colors ? 3 : 1, 1 },
                out = { ids, 128, 64, 1, 1, depth };
    stoke_error err;
    if (stoke_labels_apply(labels, &mask, &out, &err)) {
        if (err.code != STOKE_E_LABEL) abort();
        return;
    }
    for (int i = 0; i < 64; i++) {
        uint32_t id = depth == 1 ? ((uint8_t *)ids)[i] : ids[i];
        if (labels->classes && id >= labels->classes && (int64_t)id != labels->ignore) abort();
        stoke_labels_name(labels, id);
    }
}

FUZZ_TARGET(labels)
{
    if (!size) return 0;
    const uint32_t classes[] = { 0, 2, 12, 400 };
    const int32_t ignores[] = { -1, 255 };
    stoke_labels *labels;
    stoke_error err;
    if (stk_labels_new(&labels, classes[bytes[0] & 3], ignores[bytes[0] >> 2 & 1], &err)) abort();
    int r;
    if (bytes[0] & 8) {
        r = stk_labels_parse_colors(labels, "fuzz", bytes + 1, size - 1, &err);
    } else {
        char *spec = malloc(size);
        if (!spec) abort();
        memcpy(spec, bytes + 1, size - 1);
        spec[size - 1] = 0;
        r = stk_labels_parse_values(labels, spec, &err);
        free(spec);
    }
    if (r == STOKE_OK) use(labels, bytes, size);
    stoke_labels_destroy(&labels);
    return 0;
}
