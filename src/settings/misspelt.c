/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of ours in which one key is another trainer's (`batch_size` for `batch`) is read as somebody's,
 * whose unknown keys are none of our business. But what stands there a letter off is a slip: training would
 * go on with the default, and nobody would see it.
 */
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/words.h"
#include "src/settings/keys.h"
#include "src/settings/read.h"

/* In a file with at least three names of ours, and one at most of others. */
enum { LEAST_OURS = 3, MOST_THEIRS = 1, SLIPS = 2 };

typedef struct reader {
    const stoke_yaml *yaml;
    const stoke_config_use *use;
} reader;

static int is_option(const reader *r, const char *key)
{
    stk_option_hit hit;
    const size_t n = strlen(key);
    return stk_option_find(r->use->groups, r->use->n_groups, key, n, &hit) ||
           stk_option_find(r->use->known, r->use->n_known, key, n, &hit);
}

/* The key of a value that stands at the top or in a section that our files may have; NULL: of none. *outside:
 * it stands elsewhere, so that the file is not ours. */
static const char *key_at(const reader *r, uint32_t index, int *outside)
{
    const stk_yaml_node *node = &r->yaml->nodes[index];
    const char *key = stk_key_of(r->yaml, index);
    if (!key || !node->path) return NULL;
    const char *dot = strrchr(node->path, '.');
    if (node->kind == STK_YAML_MAPPING) {
        *outside |= dot != NULL || (!stk_yaml_is_section(key) && !is_option(r, key));
        return NULL;
    }
    return key;
}

static int is_given(const stoke_yaml *yaml, const char *name)
{
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const char *key = stk_key_of(yaml, i);
        if (key && stk_same_word(key, name)) return 1;
    }
    return 0;
}

/* Our names, others' names, and whether a name or network is one that nobody else has. */
static int is_otherwise_ours(const reader *r)
{
    const stoke_yaml *yaml = r->yaml;
    char room[64];
    int ours = 0, theirs = 0, marked = 0, outside = 0;
    if (yaml->form == STK_FORM_PYTHON) return 0;
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const char *key = key_at(r, i, &outside), *text;
        if (!key) continue;
        if (!is_option(r, key)) {
            theirs += stk_is_setting_of_others(key);
            continue;
        }
        ours++;
        marked |= stk_is_ours_alone(key);
        if (stk_same_word(key, "model") && (text = stk_value_text(yaml, i, room, sizeof room)))
            marked |= stk_is_one_of(text, "b0 b1 b2 b3 b4 b5");
    }
    return marked && !outside && ours >= LEAST_OURS && theirs <= MOST_THEIRS;
}

int stk_foreign_check_names(const stoke_yaml *yaml, const stoke_config_use *use, stoke_error *err)
{
    const reader r = { yaml, use };
    int outside = 0;
    /* All names of ours must be at hand: those of training are the most. */
    if (!is_option(&r, "epochs") || !is_option(&r, "batch") || !is_otherwise_ours(&r)) return STOKE_OK;
    for (uint32_t i = 0; i < yaml->n_nodes; i++) {
        const char *key = key_at(&r, i, &outside);
        if (!key || is_option(&r, key) || stk_is_setting_of_others(key)) continue;
        stk_did_you_mean near = stk_option_nearest(use->groups, use->n_groups, key);
        const stk_did_you_mean more = stk_option_nearest(use->known, use->n_known, key);
        if (more.best && (!near.best || more.distance < near.distance)) near = more;
        if (!near.best || near.distance > SLIPS || is_given(yaml, near.best) ||
            labs((long)strlen(key) - (long)strlen(near.best)) > SLIPS)
            continue;
        return stk_yaml_fail(yaml, yaml->nodes[i].line, err, STOKE_E_NOTFOUND,
                             "unknown setting '%.80s': did you mean %s?", key, near.best);
    }
    return STOKE_OK;
}
