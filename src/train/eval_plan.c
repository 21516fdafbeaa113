/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/evaluate.h"

#include <stoke/tools/machine.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/net/net.h"
#include "src/train/predict.h"

/* Of a picture on its way: class ids, those of its mask, 16-bit pixels as decoded and kept, and what decodes
 * them. The plan of a run has it from the headers (predict_memory.c); a batch is chosen before that. */
enum { PIXEL_BYTES = 20 };

const char *stk_eval_mode_name(int mode)
{
    static const char *const names[] = { "auto", "resize", "slide" };
    return names[mode];
}

static int learn(stk_eval_plan *plan, const char *augment, stoke_error *err)
{
    stoke_pipeline *pipeline = NULL;
    const int r = stoke_pipeline_create(&pipeline, augment, err);
    if (!r) {
        plan->own_scale = stk_pipeline_own_scale(pipeline) != NULL;
        plan->most_shown = stk_pipeline_most_shown(pipeline);
    }
    stoke_pipeline_destroy(&pipeline);
    return r;
}

/* One of them; its windows are added up. */
static void measure(stk_eval_plan *plan, const uint32_t picture[2], const uint32_t size[2])
{
    const double across = (double)picture[0] / size[1], up = (double)picture[1] / size[0];
    const double more = up > across ? up : across;
    const uint64_t pixels = (uint64_t)picture[0] * picture[1];
    if (more > plan->larger) plan->larger = more;
    if (picture[0] > plan->width) plan->width = picture[0];
    if (pixels > plan->pixels) plan->pixels = pixels;
    plan->windows += (double)stk_slide_windows(picture[0], picture[1], size[1], size[0]);
}

int stk_eval_plan_make(stk_eval_plan *plan, const stk_pairs *pairs, uint64_t count,
                       const stoke_data_params *data, int wanted, stoke_error *err)
{
    const int possible = data->size[0] % STK_GRID == 0 && data->size[1] % STK_GRID == 0;
    uint64_t n = 0;
    *plan = (stk_eval_plan){ .mode = wanted };
    if (wanted == STOKE_PREDICT_SLIDE && !possible)
        return stk_fail(err, STOKE_E_INVALID,
                        "windows of %ux%u cannot be slid over pictures: height and width must be multiples "
                        "of %d (`size`)",
                        data->size[0], data->size[1], STK_GRID);
    const int r = learn(plan, data->augment, err);
    if (r) return r;
    for (uint64_t i = 0; i < count; i++)
        if (pairs->size[i][0]) measure(plan, pairs->size[i], data->size), n++;
    if (wanted == STOKE_PREDICT_AUTO) {
        const int slide = plan->own_scale && possible && plan->larger > stk_much_larger;
        plan->mode = slide ? STOKE_PREDICT_SLIDE : STOKE_PREDICT_RESIZE;
    }
    plan->windows = plan->mode == STOKE_PREDICT_SLIDE && n ? plan->windows / (double)n : 1;
    return STOKE_OK;
}

uint64_t stk_eval_plan_bytes(const stk_eval_plan *plan, const stoke_net_params *net, uint32_t pictures)
{
    if (plan->mode != STOKE_PREDICT_SLIDE) return 0;
    const stk_predict_windows across =
        stk_windows_of(plan->width, net->width, stoke_predict_defaults().overlap);
    const uint64_t lines = net->height / STK_GRID + 1, window = (uint64_t)net->height * net->width;
    const uint64_t sums =
        lines * (across.length / STK_GRID) * stk_logits_stride(net->classes) * sizeof(float);
    const uint64_t classes = lines * STK_GRID * across.length * sizeof(uint16_t);
    const uint64_t rows = (uint64_t)net->batch * window * 3 * sizeof(float);
    const uint64_t each = plan->pixels * PIXEL_BYTES;
    /* What is on its way, and what helpers keep between files: as much again at most. */
    const uint64_t helpers = stoke_machine_cores().usable,
                   most = each > STK_EVAL_MEMORY ? each : STK_EVAL_MEMORY;
    const uint64_t way = (3 * helpers + 2 * net->batch) * each;
    const uint64_t kept = (uint64_t)pictures * STK_EVAL_SIDE * STK_EVAL_SIDE * 7;
    return rows + sums + classes + 8 * window + (way < 2 * most ? way : 2 * most) + kept;
}
