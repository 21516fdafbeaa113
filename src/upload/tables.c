/* SPDX-License-Identifier: Apache-2.0 */
#include "src/upload/augmenter.h"

#include <string.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/pix/clahe.h"
#include "src/pix/warp.h"
#include "src/pix/color.h"

/* Kernels cannot include our headers. */
#define SAME(mine, theirs) _Static_assert((int)(mine) == (int)(theirs), #mine " is " #theirs)
SAME(K_BRIGHTNESS, STOKE_COLOR_BRIGHTNESS);
SAME(K_CONTRAST, STOKE_COLOR_CONTRAST);
SAME(K_SATURATION, STOKE_COLOR_SATURATION);
SAME(K_HUE, STOKE_COLOR_HUE);
SAME(K_GAMMA, STOKE_COLOR_GAMMA);
SAME(K_BLUR, STOKE_COLOR_BLUR);
SAME(K_NOISE, STOKE_COLOR_NOISE);
SAME(K_CLAHE, STOKE_COLOR_CLAHE);
SAME(K_ERASE, STOKE_COLOR_ERASE);
SAME(K_ERASE + 1, STOKE_COLOR_KINDS);
SAME(K_MIX_NONE, STOKE_MIX_NONE);
SAME(K_MIX_UP, STOKE_MIX_UP);
SAME(K_MIX_CUT, STOKE_MIX_CUT);
SAME(K_DTYPE_U8, STOKE_DTYPE_U8);
SAME(K_DTYPE_F32, STOKE_DTYPE_F32);
SAME(K_DTYPE_F16, STOKE_DTYPE_F16);
SAME(K_DTYPE_BF16, STOKE_DTYPE_BF16);
SAME(K_DTYPE_U16, STOKE_DTYPE_U16);
SAME(K_DTYPE_I32, STOKE_DTYPE_I32);
SAME(K_DTYPE_I64, STOKE_DTYPE_I64);
SAME(K_CHW, STOKE_LAYOUT_CHW);
SAME(K_HWC, STOKE_LAYOUT_HWC);
SAME(K_RADIUS_MAX, STK_COLOR_RADIUS_MAX);

enum { KEY_WORDS = 3 * 2 }; /* row keys of a line: two words a channel */

stk_table_need stk_tables_need(const stk_loader_config *config)
{
    const stoke_pipeline *pipeline = config->pipeline;
    const uint32_t *steps = pipeline->color_steps;
    const uint32_t contrasts = steps[STOKE_COLOR_CONTRAST], blurs = steps[STOKE_COLOR_BLUR];
    stk_table_need need = {
        .keys = (uint64_t)steps[STOKE_COLOR_NOISE] * config->height * KEY_WORDS,
        .sums = 2 * contrasts,
        .tiles = pipeline->constants.clahe_tiles,
        .planes = contrasts || blurs || steps[STOKE_COLOR_CLAHE],
        .spare = blurs > 0,
        .steps = stk_pipeline_color_steps(pipeline),
    };
    if (config->elastic)
        need.points = stk_elastic_points(config->width, STK_ELASTIC_STEP_MIN) *
                      stk_elastic_points(config->height, STK_ELASTIC_STEP_MIN);
    return need;
}

k_shape stk_tables_shape(const stk_loader_config *config, uint32_t count)
{
    const stk_pix_writer *writer = &config->writer;
    const stoke_batch batch = stk_batch_shape(config, count);
    k_shape shape = { .image_pitch = batch.image_row_bytes,
                      .mask_pitch = batch.mask_row_bytes,
                      .count = count,
                      .width = config->width,
                      .height = config->height,
                      .layout = writer->layout,
                      .dtype = writer->dtype,
                      .mask_dtype = config->mask_dtype,
                      .mask_fill = config->mask_fill,
                      .two_masks = config->two_masks != 0 };
    for (int c = 0; c < 3; c++) {
        shape.high[c] = writer->high[c];
        shape.high_bias[c] = writer->high_bias[c];
        shape.low[c] = writer->low[c];
        shape.low_bias[c] = writer->low_bias[c];
    }
    return shape;
}

/* ---- steps ---- */

static void set_key(uint32_t words[2], uint64_t key)
{
    words[0] = (uint32_t)key;
    words[1] = (uint32_t)(key >> 32);
}

/* Books what a step needs beside its own numbers. */
static void take_room(stk_tables *t, k_step *step, const stk_loader_config *config)
{
    stk_tables_round *round = &t->round[step->segment];
    if (step->kind == K_NOISE) {
        step->keys = t->keys;
        t->keys += config->height * KEY_WORDS;
        t->noises++;
    } else if (step->kind == K_CONTRAST) {
        step->sums = t->sums;
        t->sums += 2;
        round->contrasts++;
    } else if (step->kind == K_BLUR) {
        round->blurs++;
    } else if (step->kind == K_CLAHE) {
        const uint32_t tiles = step->tiles * step->tiles;
        step->tables = t->tiles;
        t->tiles += tiles;
        round->clahes++;
        round->tiles += tiles;
        round->across = (uint32_t)stk_most(round->across, step->tiles);
        round->padded_width = (uint32_t)stk_most(round->padded_width, step->tiles * step->tile_width);
        round->padded_height = (uint32_t)stk_most(round->padded_height, step->tiles * step->tile_height);
    }
}

static k_step step_of(const stk_color_op *made, const stk_loader_config *config)
{
    const stoke_color_step *color = made->step;
    k_step step = { .kind = color->kind, .a = made->a, .c = made->c };
    memcpy(step.turn, made->turn, sizeof step.turn);
    if (color->kind == STOKE_COLOR_BLUR) {
        step.radius = made->radius;
        memcpy(step.weight, made->weight, sizeof step.weight);
    } else if (color->kind == STOKE_COLOR_NOISE) {
        step.gray = color->n;
        set_key(step.key, color->key);
    } else if (color->kind == STOKE_COLOR_ERASE) {
        const uint32_t right = config->width - color->box.x, below = config->height - color->box.y;
        step.x = color->box.x;
        step.y = color->box.y;
        step.width = color->box.width < right ? color->box.width : right;
        step.height = color->box.height < below ? color->box.height : below;
        for (int c = 0; c < 3; c++) step.fill[c] = color->fill[c];
        step.erase_mask = color->n == 1;
    } else if (color->kind == STOKE_COLOR_CLAHE) {
        const stk_clahe_cut cut = stk_clahe_cut_make(config->width, config->height, color->a, color->n);
        step.tiles = color->n;
        step.tile_width = cut.tile_width;
        step.tile_height = cut.tile_height;
        step.inverse_width = cut.inverse_width;
        step.inverse_height = cut.inverse_height;
        step.limit = cut.limit;
        step.scale = cut.scale;
    }
    return step;
}
_Static_assert(sizeof((k_step *)0)->weight == sizeof((stk_color_op *)0)->weight, "one weight a tap");

/* Those of a plan that change something, as stk_color_write takes them. */
static int add_steps(stk_tables *t, k_sample *sample, const stk_loader_config *config,
                     const stoke_augment_plan *plan, stoke_error *err)
{
    if (plan->n_color_steps > STOKE_PLAN_COLOR_STEPS)
        return stk_fail(err, STOKE_E_INVALID, "%u touches, at most %d", plan->n_color_steps,
                        STOKE_PLAN_COLOR_STEPS);
    sample->first_step = t->n_steps;
    sample->segments = 1;
    for (uint32_t i = 0; i < plan->n_color_steps; i++) {
        const int r = stk_color_check(&plan->color[i], err);
        if (r) return r;
        const stk_color_op made = stk_color_op_make(&plan->color[i]);
        if (!stk_color_op_changes(&made, config->width, config->height)) continue;
        if (t->n_steps == t->steps_capacity)
            return stk_fail(err, STOKE_E_INVALID, "more colour steps than the pipeline draws (%u)",
                            t->steps_capacity);
        k_step step = step_of(&made, config);
        /* What needs more than its own pixel starts a segment. */
        sample->segments += step.kind == K_CONTRAST || step.kind == K_BLUR || step.kind == K_CLAHE;
        step.segment = sample->segments - 1;
        take_room(t, &step, config);
        t->steps[t->n_steps++] = step;
        sample->n_steps++;
    }
    for (uint32_t s = 1; s < sample->segments; s++) t->round[s].rows++;
    if (sample->segments > 1)
        t->round[sample->segments - 1].ends++;
    else
        t->direct++;
    t->rounds = (uint32_t)stk_most(t->rounds, sample->segments);
    return STOKE_OK;
}

/* ---- rows ---- */

static int add_elastic(stk_tables *t, k_sample *sample, const stk_loader_config *config,
                       const stoke_augment_plan *plan, stoke_error *err)
{
    if (!plan->warp || plan->elastic_alpha == 0) return STOKE_OK;
    const int r = stk_elastic_check(plan, err);
    if (r) return r;
    sample->columns = (uint32_t)stk_elastic_points(config->width, plan->elastic_step);
    sample->rows = (uint32_t)stk_elastic_points(config->height, plan->elastic_step);
    sample->points = t->points;
    set_key(sample->elastic_key, plan->elastic_key);
    sample->elastic_limit = stk_elastic_limit(plan);
    sample->elastic_step = plan->elastic_step;
    sample->elastic_alpha = plan->elastic_alpha;
    t->points += sample->columns * sample->rows;
    t->columns = (uint32_t)stk_most(t->columns, sample->columns);
    t->rows = (uint32_t)stk_most(t->rows, sample->rows);
    return STOKE_OK;
}

static k_sample sample_of(const stk_loader_config *config, const stk_raw_row *row, uint32_t i,
                          const stk_tables_raw_layout *layout)
{
    const stoke_augment_plan *plan = &row->plan;
    k_sample sample = {
        .image = layout->image_at + i * layout->image_pitch,
        .mask = layout->mask_at + i * layout->mask_pitch,
        .width = row->width,
        .height = row->height,
        .depth = row->depth,
        .mask_depth = row->mask_depth,
        .place_x = plan->place_x,
        .place_y = plan->place_y,
        .hflip = plan->hflip,
        .vflip = plan->vflip,
        .warp = plan->warp,
        .swap = plan->swap_labels && config->swap,
    };
    memcpy(sample.matrix, plan->matrix, sizeof sample.matrix);
    return sample;
}

/* A batch of one row stays as it is: there is no row before. */
static void add_mix(stk_tables *t, k_sample *sample, const stoke_augment_plan *plan, uint32_t count)
{
    if (plan->mix == STOKE_MIX_NONE || count == 1) return;
    sample->mix = plan->mix;
    sample->lambda = plan->lambda;
    sample->mix_x = plan->mix_box.x;
    sample->mix_y = plan->mix_box.y;
    sample->mix_width = plan->mix_box.width;
    sample->mix_height = plan->mix_box.height;
    t->mixed++;
}

int stk_tables_fill(stk_tables *t, const stk_loader_config *config, const stk_raw_row *rows, uint32_t count,
                    const stk_tables_raw_layout *layout, stoke_error *err)
{
    *t = (stk_tables){
        .samples = t->samples, .steps = t->steps, .steps_capacity = t->steps_capacity, .n_samples = count
    };
    for (uint32_t i = 0; i < count; i++) {
        k_sample sample = sample_of(config, &rows[i], i, layout);
        int r = add_elastic(t, &sample, config, &rows[i].plan, err);
        if (!r) r = add_steps(t, &sample, config, &rows[i].plan, err);
        if (r) return r;
        add_mix(t, &sample, &rows[i].plan, count);
        t->samples[i] = sample;
    }
    return STOKE_OK;
}
