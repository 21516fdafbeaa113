/* SPDX-License-Identifier: Apache-2.0
 *
 * The size of the network. It keeps the card busier, and makes another experiment of it: only where asked.
 */
#include <stdio.h>
#include <string.h>

#include "src/base/number.h"
#include "src/tune/optimize/optimize.h"

/* The estimate is of the network as it will be. */
static void grow(stoke_optimization *o, const char *setting, int64_t to)
{
    if (!strcmp(setting, "base_channels"))
        o->p.base_channels = (uint32_t)to;
    else if (!strcmp(setting, "num_blocks"))
        o->p.num_blocks = (uint32_t)to;
    else
        o->p.height = o->p.width = (uint32_t)to;
}

static int scale(stoke_optimization *o, const char *setting, const char *effect, stoke_error *err)
{
    const stoke_recommendation *line = stk_optimize_advised(o, setting);
    int64_t wanted;
    stk_optimize_key f;
    int r = stk_optimize_look(o, setting, &f, err);
    if (r || !line || !stk_parse_int(line->value, &wanted) || !f.exists || !f.is_number || f.number >= wanted)
        return r;
    if (!o->params.allow_model_scale)
        return stk_remark(&o->remarks,
                          "%s: %s is left (usual are %s): growing the model keeps the card busier with "
                          "another experiment; allow_model_scale does it",
                          f.path, f.text, line->value);
    const size_t before = o->n_changes;
    r = stk_optimize_change(o, &f, line->value, (stk_optimize_reason){ line->why, effect, line->source },
                            err);
    if (!r && o->n_changes > before) grow(o, setting, wanted);
    return r;
}

/* The loss is the experiment, too. */
static int perceptual(stoke_optimization *o, stoke_error *err)
{
    const stoke_recommendation *line = stk_optimize_advised(o, "use_perceptual");
    stk_optimize_key f;
    const int r = stk_optimize_look(o, "use_perceptual", &f, err);
    if (r || !line || !f.exists || (!stk_is_on(f.text) && !stk_is_off(f.text)) ||
        stk_is_on(f.text) == stk_is_on(line->value))
        return r;
    if (!o->params.allow_model_scale)
        return stk_remark(&o->remarks, "%s: %s is left (usual is %s): another loss is another experiment",
                          f.path, f.text, line->value);
    const stk_optimize_reason because = { line->why,
                                          "another experiment: another loss, results do not compare",
                                          line->source };
    return stk_optimize_change(o, &f, line->value, because, err);
}

int stk_optimize_model(stoke_optimization *o, stoke_error *err)
{
    static const char larger[] = "another experiment: a larger model; checkpoints and results do not compare";
    static const char patches[] =
        "another experiment: the network sees larger patches, results do not compare";
    int r = scale(o, "base_channels", larger, err);
    if (!r) r = scale(o, "num_blocks", larger, err);
    if (!r) r = scale(o, "patch_size", patches, err);
    return r ? r : perceptual(o, err);
}
