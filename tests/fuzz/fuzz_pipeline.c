/* SPDX-License-Identifier: Apache-2.0
 *
 * Augmentation pipelines from YAML and from one line of text: any bytes either make a pipeline whose plans
 * stay inside the source and the output and whose text reads back, or an error with a reason (and, for YAML,
 * a line).
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/augment/pipeline.h"
#include "src/settings/yaml_tree.h"

enum { WIDTH = 64, HEIGHT = 48, SOURCE_HEIGHT = 100 };

static void require(int truth)
{
    if (!truth) abort();
}

static void check_color(const stoke_color_step *t)
{
    require(t->kind < STOKE_COLOR_KINDS && isfinite(t->a) && isfinite(t->b));
    if (t->kind == STOKE_COLOR_ERASE)
        require(t->box.width && t->box.height && t->box.x + t->box.width <= WIDTH &&
                t->box.y + t->box.height <= HEIGHT);
}

/* A target has a plan of its own, within its own bounds. */
static void check_enlarged(stoke_augment_plan plan, uint32_t side, uint32_t scale)
{
    stk_plan_enlarge(&plan, scale, side % 2);
    require(plan.box.x + plan.box.width <= scale * side &&
            plan.box.y + plan.box.height <= scale * SOURCE_HEIGHT);
    require(plan.warp ||
            (plan.place_x + plan.width <= scale * WIDTH && plan.place_y + plan.height <= scale * HEIGHT));
    require(isfinite(plan.elastic_alpha) && (side % 2 || !plan.n_color_steps));
}

static void check_plan(const stoke_augment_plan *plan, uint32_t side)
{
    for (uint32_t scale = 1; scale <= 4; scale++) check_enlarged(*plan, side, scale);
    require(plan->box.width >= 1 && plan->box.height >= 1);
    require(plan->box.x + plan->box.width <= side && plan->box.y + plan->box.height <= SOURCE_HEIGHT);
    if (plan->warp)
        require(!plan->place_x && !plan->place_y && !plan->hflip && !plan->vflip);
    else
        require(plan->place_x + plan->width <= WIDTH && plan->place_y + plan->height <= HEIGHT);
    require(isfinite(plan->elastic_alpha) && isfinite(plan->elastic_step));
    require(plan->n_color_steps <= STOKE_PLAN_COLOR_STEPS);
    for (uint32_t i = 0; i < plan->n_color_steps; i++) check_color(&plan->color[i]);
    require(plan->lambda >= 0 && plan->lambda <= 1);
    require(plan->mix_box.x + plan->mix_box.width <= WIDTH &&
            plan->mix_box.y + plan->mix_box.height <= HEIGHT);
}

static void check_pipeline(stoke_pipeline *pipeline)
{
    static stoke_pipeline again;
    for (uint32_t side = 1; side < 200; side += 37) {
        stoke_augment_plan plan;
        const uint32_t focus[2] = { side - 1, 7 };
        stoke_draw draw = { 1, 2, side, side, SOURCE_HEIGHT, WIDTH, HEIGHT, NULL, 1 + side % 4 };
        stoke_pipeline_draw(pipeline, &draw, &plan);
        check_plan(&plan, side);
        draw.focus = focus;
        stoke_pipeline_draw(pipeline, &draw, &plan);
        require(!plan.wants_focus);
        check_plan(&plan, side);
    }
    stk_pipeline_describe(pipeline);
    memset(&again, 0, sizeof again);
    require(stk_pipeline_read_list(&again, pipeline->text, NULL) == STOKE_OK);
    stk_pipeline_describe(&again);
    require(strcmp(again.text, pipeline->text) == 0);
}

static void try_list(const uint8_t *bytes, size_t size)
{
    static stoke_pipeline pipeline;
    static char list[8192];
    stoke_error err = { 0 };
    if (size >= sizeof list) return;
    memcpy(list, bytes, size);
    list[size] = 0;
    memset(&pipeline, 0, sizeof pipeline);
    if (stk_pipeline_read_list(&pipeline, list, &err))
        require(*err.message != 0);
    else
        check_pipeline(&pipeline);
}

FUZZ_TARGET(pipeline)
{
    static stoke_pipeline pipeline;
    stoke_error err = { 0 };
    try_list(bytes, size);
    static const stk_pipeline_yaml_take takes[] = { STK_YAML_ALL, STK_YAML_LISTS };
    for (int i = 0; i < 2; i++) {
        memset(&pipeline, 0, sizeof pipeline);
        stoke_yaml *yaml = NULL;
        int r = stk_yaml_read(&yaml, (const char *)bytes, size, "fuzz", &err);
        if (!r) r = stk_pipeline_read_tree(&pipeline, yaml, takes[i], &err);
        stoke_yaml_close(&yaml);
        if (r)
            require(strncmp(err.message, "fuzz", 4) == 0);
        else
            check_pipeline(&pipeline);
    }
    return 0;
}
