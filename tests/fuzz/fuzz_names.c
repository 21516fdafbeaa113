/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of classes: the first byte chooses a list, a text file or a YAML file. Names that are accepted are
 * short, have no control characters, and are found again by their ids.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/source/names.h"

static int parse(stoke_labels *labels, uint8_t kind, const uint8_t *bytes, size_t size)
{
    stoke_error err;
    if (kind == 1) return stk_names_parse_text(labels, "fuzz", bytes, size, &err);
    if (kind == 2) return stk_names_parse_yaml(labels, "fuzz", bytes, size, &err);
    char *text = malloc(size + 1);
    if (!text) abort();
    memcpy(text, bytes, size);
    text[size] = 0;
    const int r = stk_names_parse_list(labels, text, &err);
    free(text);
    return r;
}

FUZZ_TARGET(names)
{
    stoke_labels *labels;
    if (!size) return 0;
    if (stk_labels_new(&labels, 0, -1, NULL)) abort();
    const int r = parse(labels, bytes[0] % 3, bytes + 1, size - 1);
    const uint32_t count = stk_names_count(labels);
    if (count > STK_LABEL_VALUES) abort();
    for (uint32_t id = 0; !r && id < count; id++) {
        const char *name = stoke_labels_name(labels, id);
        if (!name) continue;
        if (!*name || strlen(name) > 255) abort();
        for (const char *p = name; *p; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f) abort();
    }
    stoke_labels_destroy(&labels);
    return 0;
}
