/* SPDX-License-Identifier: Apache-2.0
 *
 * How validation looks at pictures: as training did, and as `stoke predict` will.
 */
#include "src/train/resolve.h"

#include <limits.h>
#include <stdio.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/train/checkpoint.h"
#include "src/train/predict.h"

/* A run that goes on keeps what it had: its scores, best/ and patience are to mean the same to its end. */
static int mode_of_run(const stk_resolve_ctx *s, int *mode)
{
    char path[PATH_MAX], *identity = NULL;
    stk_checkpoint_progress progress;
    snprintf(path, sizeof path, "%s/state.safetensors", s->setup->params.resume);
    const int r = stk_checkpoint_peek(path, &progress, &identity, s->err);
    if (!r) *mode = stk_setup_eval_mode(identity);
    stk_free(identity);
    return r;
}

/* Where things look larger or smaller in validation than in training. */
static void say_scale(const stk_resolve_ctx *s)
{
    const stk_setup *setup = s->setup;
    const stk_eval_plan *e = &setup->eval;
    const uint32_t *size = setup->train.size;
    const int slides = e->mode == STOKE_PREDICT_SLIDE;
    if (slides && e->own_scale)
        stk_resolve_say(
            s,
            "Training sees windows of %ux%u at the pictures' own scale, so validation slides such "
            "windows over whole pictures, about %.0f each, and scores them at their own size, as `stoke "
            "predict` does (`eval_mode` sets it).",
            size[0], size[1], e->windows);
    else if (slides && e->larger > stk_much_larger)
        stk_resolve_say(
            s,
            "Validation slides windows of %ux%u over pictures at their own scale (`eval_mode` slide), "
            "while training brings whole pictures to that size: things look up to %.1f times as large as "
            "those it learns from. `eval_mode` auto looks at them alike.",
            size[0], size[1], e->larger);
    else if (!slides && e->own_scale && e->larger > stk_much_larger)
        stk_resolve_say(
            s,
            "Training sees windows of %ux%u at the pictures' own scale, and validation whole pictures "
            "brought to that size (`eval_mode` resize): things look up to %.1f times smaller there, so its "
            "scores, and what lands in best/, say little about what `stoke predict` will do. `eval_mode` "
            "slide looks at them as training does%s.",
            size[0], size[1], e->larger, setup->goes_on ? "; a run that goes on needs `force` for it" : "");
    else if (!slides && e->most_shown < 0.5)
        stk_resolve_say(
            s,
            "Training never sees more than %.0f %% of a picture (random_resized_crop), and validation sees "
            "it whole: things look smaller there than in any sample. A `scale` up to 1 would include it.",
            100 * e->most_shown);
}

int stk_resolve_eval(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    int mode = setup->params.eval_mode, r = STOKE_OK;
    if (!setup->val_set) return STOKE_OK;
    if (mode == STOKE_PREDICT_AUTO && setup->goes_on) r = mode_of_run(s, &mode);
    if (!r)
        r = stk_eval_plan_make(&setup->eval, &s->val, stoke_dataset_count(setup->val_set), &setup->train,
                               mode, s->err);
    if (r) return r;
    setup->params.eval_mode = setup->eval.mode;
    say_scale(s);
    return STOKE_OK;
}
