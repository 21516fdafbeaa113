/* SPDX-License-Identifier: Apache-2.0
 *
 * Python files as settings, on any bytes: what is read must lie inside the text and in the order of the file,
 * a value must be found by its path, and a change must prove right or be refused. Nothing is ever executed.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/settings/keys.h"

static void check_nodes(const stoke_yaml *yaml)
{
    for (size_t i = 0; i < yaml->n_nodes; i++) {
        const stk_yaml_node *node = &yaml->nodes[i];
        if (node->begin > node->end || node->end > yaml->bytes || !node->line || node->end_line < node->line)
            abort();
        if (i && node->parent >= i) abort();
        if (node->kind == STK_YAML_SCALAR && !node->text) abort();
    }
}

FUZZ_TARGET(python)
{
    stoke_yaml *yaml = NULL;
    stoke_error err = { 0 };
    const char *path, *text;
    stoke_yaml_value value;
    if (stoke_yaml_parse(&yaml, (const char *)bytes, size, "fuzz.py", &err)) {
        if (yaml || strncmp(err.message, "fuzz.py", 7) != 0) abort();
        return 0;
    }
    check_nodes(yaml);
    for (size_t i = 0; i < 64 && stoke_yaml_at(yaml, i, &path, &value); i++) {
        stoke_yaml_value again;
        if (!stoke_yaml_get(yaml, path, &again) || strcmp(again.text, value.text) != 0) abort();
        if (i % 3 == 0) stoke_yaml_set(yaml, path, i % 2 ? "true" : "32", &err);
    }
    int exists;
    if (!stoke_config_find(yaml, "num_workers", NULL, &path, &exists, &err))
        stoke_yaml_set(yaml, path, "4", &err);
    size_t length;
    stoke_yaml_proof proof;
    const int r = stoke_yaml_text(yaml, &text, &length, &proof, &err);
    if (r && r != STOKE_E_STATE) abort(); /* where it does not prove right, nothing is given out */
    stoke_yaml_close(&yaml);
    return 0;
}
