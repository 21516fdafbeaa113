/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of ops and presets in messages: the one that was probably meant, and all there are.
 */
#include <string.h>
#include <stoke/tools/augment.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/did_you_mean.h"
#include "src/base/option_table.h"

enum { SPELT = 48 };

static int is_capital(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* "RandomResizedCrop" as we spell it: random_resized_crop. */
static void spell(const char *name, char out[static SPELT])
{
    size_t n = 0;
    for (size_t i = 0; name[i] && n + 2 < SPELT; i++) {
        const char c = name[i];
        if (is_capital(c) && i && !is_capital(name[i - 1]) && name[i - 1] != '_') out[n++] = '_';
        out[n++] = (char)(is_capital(c) ? c - 'A' + 'a' : c);
    }
    out[n] = 0;
}

/* What torchvision, Albumentations and Kornia call it, where no spelling leads to our name. */
static const char *elsewhere(const char *spelt)
{
    static const char *const names[][2] = {
        { "horizontal_flip", "hflip" }, { "vertical_flip", "vflip" },       { "fliplr", "hflip" },
        { "flipud", "vflip" },          { "shift_scale_rotate", "affine" }, { "coarse_dropout", "erasing" },
        { "cutout", "erasing" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(spelt, names[i][0]) == 0) return names[i][1];
    return NULL;
}

const char *stoke_augment_nearest(const char *name)
{
    char spelt[SPELT];
    spell(name, spelt);
    const char *word = strncmp(spelt, "random_", 7) == 0 ? spelt + 7 : spelt;
    const char *known = elsewhere(word);
    if (known) return known;
    /* First as it stands: random_crop is a name of ours, random_rotation is not. */
    stk_did_you_mean nearest = stk_did_you_mean_to(spelt), shorter = stk_did_you_mean_to(word);
    stoke_preset_info preset;
    const stk_op *op;
    for (size_t i = 0; (op = stk_op_at(i)); i++) {
        stk_did_you_mean_try(&nearest, op->name);
        stk_did_you_mean_try(&shorter, op->name);
    }
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) {
        stk_did_you_mean_try(&nearest, preset.name);
        stk_did_you_mean_try(&shorter, preset.name);
    }
    return shorter.best && shorter.distance < nearest.distance ? shorter.best : nearest.best;
}

static void list_ops(char *text, size_t size)
{
    size_t n = 0;
    const stk_op *op;
    for (size_t i = 0; (op = stk_op_at(i)) && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", op->name);
}

static void list_presets(char *text, size_t size)
{
    size_t n = 0;
    stoke_preset_info preset;
    for (size_t i = 0; stoke_preset_at(i, &preset) && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", preset.name);
}

int stk_unknown_name(const char *name, stoke_error *err)
{
    char ops[512], presets[128];
    const char *near = stoke_augment_nearest(name);
    if (near)
        return stk_fail(err, STOKE_E_NOTFOUND, "no op or preset is called \"%.80s\": did you mean %s?", name,
                        near);
    list_ops(ops, sizeof ops);
    list_presets(presets, sizeof presets);
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "no op or preset is called \"%.80s\"; there are the ops %s, and the presets %s; "
                    "a file's name ends in .yaml or .yml",
                    name, ops, presets);
}

int stk_unknown_setting(const stk_op *op, const char *name, stoke_error *err)
{
    char known[256] = "";
    const stoke_option_group group = { op->name, op->options, op->n_options, NULL };
    const char *near = stk_option_nearest(&group, 1, name);
    if (near)
        return stk_fail(err, STOKE_E_NOTFOUND, "%s: unknown setting '%.80s': did you mean %s?", op->name,
                        name, near);
    if (!op->n_options)
        return stk_fail(err, STOKE_E_NOTFOUND, "%s: unknown setting '%.80s': it has none", op->name, name);
    for (size_t i = 0, n = 0; i < op->n_options && n < sizeof known; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", op->options[i].name);
    return stk_fail(err, STOKE_E_NOTFOUND, "%s: unknown setting '%.80s': it has %s", op->name, name, known);
}
