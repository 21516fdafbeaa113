/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of ops and presets in messages: the one that was probably meant, and all there are.
 */
#include <string.h>
#include <stoke/tools/augment.h>

#include "src/augment/op.h"
#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/option_table.h"
#include "src/base/remarks.h"

/* The list of ops. Built from ops.def at compile time: constructors in a static library would be dropped by
 * the linker. */

static const stk_op *const all_ops[] = {
#define STK_OP(name) &stk_op_##name,
#include "src/augment/ops.def"
#undef STK_OP
};

/* Op number i, NULL past the last. */
static const stk_op *op_at(size_t i)
{
    return i < sizeof all_ops / sizeof *all_ops ? all_ops[i] : NULL;
}

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
    for (size_t i = 0; (op = op_at(i)); i++) {
        stk_did_you_mean_try(&nearest, op->name);
        stk_did_you_mean_try(&shorter, op->name);
    }
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) {
        stk_did_you_mean_try(&nearest, preset.name);
        stk_did_you_mean_try(&shorter, preset.name);
    }
    return shorter.best && shorter.distance < nearest.distance ? shorter.best : nearest.best;
}

int stk_unknown_name(const char *name, stoke_error *err)
{
    char ops[512] = "", presets[128] = "";
    stoke_preset_info preset;
    const stk_op *op;
    const char *near = stoke_augment_nearest(name);
    if (near)
        return stk_fail(err, STOKE_E_NOTFOUND, "no op or preset is called \"%.80s\": did you mean %s?", name,
                        near);
    for (size_t i = 0; (op = op_at(i)); i++) stk_text_add(ops, sizeof ops, ", ", "%s", op->name);
    for (size_t i = 0; stoke_preset_at(i, &preset); i++)
        stk_text_add(presets, sizeof presets, ", ", "%s", preset.name);
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "no op or preset is called \"%.80s\"; there are the ops %s, and the presets %s; "
                    "a file's name ends in .yaml or .yml",
                    name, ops, presets);
}

int stk_unknown_setting(const stk_op *op, const char *name, stoke_error *err)
{
    char known[256] = "";
    const stoke_option_group group = { op->name, op->options, op->n_options, NULL };
    const char *near = stk_option_nearest(&group, 1, name).best;
    if (near)
        return stk_fail(err, STOKE_E_NOTFOUND, "%s: unknown setting '%.80s': did you mean %s?", op->name,
                        name, near);
    if (!op->n_options)
        return stk_fail(err, STOKE_E_NOTFOUND, "%s: unknown setting '%.80s': it has none", op->name, name);
    for (size_t i = 0; i < op->n_options; i++)
        stk_text_add(known, sizeof known, ", ", "%s", op->options[i].name);
    return stk_fail(err, STOKE_E_NOTFOUND, "%s: unknown setting '%.80s': it has %s", op->name, name, known);
}

/* Presets: lists with names. Settings that equal an op's default are spelt out where the preset is meant to
 * stay as it is when a default changes.
 */

static const stoke_preset_info presets[] = {
    { "none", "Stretch the sample to the output", "" },
    { "light", "Mirror half of the samples", "hflip(p=0.5)" },
    { "crop", "A window of the source at its own scale, mirrored or not", "random_crop,hflip(p=0.5)" },
    { "standard", "The usual mix for photographs: mirror, turn, zoom, colours, a little blur and noise",
      "hflip(p=0.5),rotate(p=0.6,degrees=20),scale(p=0.6,factor=0.8..1.2),"
      "color_jitter(p=0.5,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.1),"
      "gaussian_blur(p=0.3,kernel=3,sigma=0.1..2),gaussian_noise(p=0.3,std=0.03)" },
    { "strong", "For long training on few samples: parts of random size, shear, gamma, erased boxes",
      "random_resized_crop(scale=0.25..1),hflip(p=0.5),"
      "affine(p=0.7,degrees=20,scale=0.9..1.4,translate_x=0.05,translate_y=0.05,shear=8,shear_y=4),"
      "color_jitter(p=0.8,brightness=0.4,contrast=0.4,saturation=0.4,hue=0.1),gamma(p=0.3,gamma=0.7..1.5),"
      "gaussian_blur(p=0.3,kernel=5,sigma=0.1..2),gaussian_noise(p=0.3,std=0.01..0.06),"
      "erasing(p=0.25,scale=0.02..0.15,mask=ignore)" },
    { "face", "Face parsing with the 19 classes of CelebAMask-HQ: left and right change places in a mirror",
      "hflip(p=0.5,swap=2-3,4-5,7-8),rotate(p=0.6,degrees=10),scale(p=0.6,factor=0.9..1.2),"
      "color_jitter(p=0.5,brightness=0.3,contrast=0.2,saturation=0.2,hue=0.05),"
      "gaussian_blur(p=0.3,kernel=3,sigma=0.1..2),gaussian_noise(p=0.3,std=0.03)" },
    { "medical", "After nnU-Net: windows that find the foreground, turned any way, gray values moved, no hue",
      "foreground_crop(p=0.33,background=0),hflip(p=0.5),vflip(p=0.5),rotate(p=0.2,degrees=180),"
      "scale(p=0.2,factor=0.7..1.4),elastic(p=0.2,alpha=0..8,sigma=16..32),"
      "gaussian_noise(p=0.1,std=0..0.1,gray=true),gaussian_blur(p=0.2,kernel=5,sigma=0.5..1),"
      "brightness(p=0.15,factor=0.75..1.25),contrast(p=0.15,factor=0.75..1.25),gamma(p=0.3,gamma=0.7..1.5)" },
};

const char *stk_preset_find(const char *name)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (strcmp(presets[i].name, name) == 0) return presets[i].list;
    return NULL;
}

int stoke_preset_at(size_t index, stoke_preset_info *info)
{
    if (index >= sizeof presets / sizeof *presets) return 0;
    *info = presets[index];
    return 1;
}

const stk_op *stk_op_find(const char *name)
{
    const stk_op *op;
    for (size_t i = 0; (op = op_at(i)); i++)
        if (strcmp(op->name, name) == 0) return op;
    return NULL;
}

int stoke_op_at(size_t index, stoke_op_info *info)
{
    const stk_op *op = op_at(index);
    if (op) *info = (stoke_op_info){ op->name, op->summary, op->group, op->options, op->n_options };
    return op != NULL;
}
