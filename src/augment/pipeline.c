/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline: construction op by op, drawing, and what it says about itself.
 */
#include "src/augment/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/base/remarks.h"

static stoke_option_group arguments(stk_pipeline_step *step)
{
    return (stoke_option_group){ step->op->name, step->op->options, step->op->n_options, step->args.bytes };
}

static stk_pipeline_step *last_step(stoke_pipeline *pipeline)
{
    return &pipeline->steps[pipeline->n_steps - 1];
}

int stk_pipeline_add(stoke_pipeline *pipeline, const char *name, stoke_error *err)
{
    const stk_op *op = stk_op_find(name);
    if (!op && stk_preset_find(name))
        return stk_fail(
            err, STOKE_E_INVALID,
            "%s is a preset and takes no settings: write the name alone, or the ops it stands for", name);
    if (!op) return stk_unknown_name(name, err);
    if (pipeline->n_steps == STK_PIPELINE_OPS)
        return stk_fail(err, STOKE_E_LIMIT, "more than %d ops in one pipeline", STK_PIPELINE_OPS);
    pipeline->steps[pipeline->n_steps++].op = op;
    pipeline->given = 0;
    const stoke_option_group group = arguments(last_step(pipeline));
    stoke_options_defaults(&group);
    return STOKE_OK;
}

/* Option tables borrow their strings; the pipeline outlives the text it was read from. */
static int keep_string(stoke_pipeline *pipeline, const char **value, stoke_error *err)
{
    const size_t bytes = strlen(*value) + 1;
    if (bytes > sizeof pipeline->strings - pipeline->strings_used)
        return stk_fail(err, STOKE_E_LIMIT, "the text settings of a pipeline are longer than %d bytes",
                        STK_PIPELINE_STRINGS);
    char *copy = pipeline->strings + pipeline->strings_used;
    *value = memcpy(copy, *value, bytes);
    pipeline->strings_used += bytes;
    return STOKE_OK;
}

int stk_pipeline_set(stoke_pipeline *pipeline, const char *name, const char *value, stoke_error *err)
{
    stk_pipeline_step *step = last_step(pipeline);
    const stoke_option_group group = arguments(step);
    stk_option_hit hit;
    int r = STOKE_OK;
    if (!stk_option_find(&group, 1, name, strlen(name), &hit))
        return stk_unknown_setting(step->op, name, err);
    const uint64_t bit = UINT64_C(1) << (hit.option - step->op->options);
    if (pipeline->given & bit)
        return stk_fail(err, STOKE_E_INVALID, "%s: %s is set twice", step->op->name, hit.option->name);
    pipeline->given |= bit;
    if (hit.option->type == STOKE_OPT_STRING) r = keep_string(pipeline, &value, err);
    if (!r) r = stoke_options_set(&group, 1, name, value, err);
    if (r && err) stk_error_prefix(err, step->op->name);
    return r;
}

/* The op before the last one that has a trait, for messages. */
static const char *earlier(const stoke_pipeline *pipeline, unsigned trait)
{
    for (size_t i = 0; i + 1 < pipeline->n_steps; i++)
        if (pipeline->steps[i].op->traits & trait) return pipeline->steps[i].op->name;
    return "";
}

uint32_t stk_pipeline_color_steps(const stoke_pipeline *pipeline)
{
    uint32_t sum = 0;
    for (unsigned kind = 0; kind < STOKE_COLOR_KINDS; kind++) sum += pipeline->color_steps[kind];
    return sum;
}

static int check_company(const stoke_pipeline *pipeline, const stk_op *op, stoke_error *err)
{
    const unsigned both = pipeline->traits & op->traits;
    if (both & STK_TRAIT_CROP)
        return stk_fail(err, STOKE_E_INVALID, "%s and %s: only one op can choose the part of the source",
                        earlier(pipeline, STK_TRAIT_CROP), op->name);
    if (both & STK_TRAIT_ELASTIC)
        return stk_fail(err, STOKE_E_INVALID, "%s stands there twice: a plan has one displacement field",
                        op->name);
    if (pipeline->traits & STK_TRAIT_NORMALIZE && strcmp(op->group, "mix") != 0)
        return stk_fail(err, STOKE_E_INVALID, "%s after normalize: normalize is the last of the image ops",
                        op->name);
    if (stk_pipeline_color_steps(pipeline) + (unsigned)__builtin_popcount(op->color_steps) >
        STOKE_PLAN_COLOR_STEPS)
        return stk_fail(err, STOKE_E_LIMIT,
                        "%s: the pipeline may change one sample's colours in more than %d steps", op->name,
                        STOKE_PLAN_COLOR_STEPS);
    return STOKE_OK;
}

int stk_pipeline_close(stoke_pipeline *pipeline, stoke_error *err)
{
    stk_pipeline_step *step = last_step(pipeline);
    stk_op_constants constants = pipeline->constants;
    const size_t n = pipeline->constants.n_swap;
    int r = check_company(pipeline, step->op, err);
    if (r) return r;
    if (step->op->check) r = step->op->check(step->args.bytes, &constants, err);
    /* Two ops may both say what a mirror swaps, if they say the same. */
    if (!r && n &&
        (constants.n_swap != n ||
         memcmp(constants.swap, pipeline->constants.swap, n * sizeof constants.swap[0]) != 0))
        r = stk_fail(err, STOKE_E_INVALID, "an op before sets swap to other pairs");
    if (r && err) stk_error_prefix(err, step->op->name);
    if (r) return r;
    pipeline->constants = constants;
    pipeline->traits |= step->op->traits;
    for (unsigned kind = 0; kind < STOKE_COLOR_KINDS; kind++)
        pipeline->color_steps[kind] += step->op->color_steps >> kind & 1;
    return STOKE_OK;
}

int stk_pipeline_add_name(stoke_pipeline *pipeline, const char *name, stoke_error *err)
{
    const char *list = stk_preset_find(name);
    if (list) return stk_pipeline_read_list(pipeline, list, err);
    int r = stk_pipeline_add(pipeline, name, err);
    return r ? r : stk_pipeline_close(pipeline, err);
}

void stk_pipeline_describe(stoke_pipeline *pipeline)
{
    char *text = pipeline->text, room[STK_OPTION_TEXT];
    const size_t size = sizeof pipeline->text;
    snprintf(text, size, "%s", pipeline->n_steps ? "" : "none");
    for (size_t i = 0; i < pipeline->n_steps; i++) {
        const stk_pipeline_step *step = &pipeline->steps[i];
        const char *between = "(";
        stk_text_add(text, size, ",", "%s", step->op->name);
        for (size_t k = 0; k < step->op->n_options; k++) {
            const stoke_option *option = &step->op->options[k];
            const char *value = stk_option_text(option, step->args.bytes, room);
            if (!value || (!*value && !option->default_text)) continue; /* a text that was never set */
            stk_text_add(text, size, between, "%s=%s", option->name, value);
            between = ",";
        }
        if (*between == ',') stk_text_add(text, size, "", ")");
    }
}

int stk_pipeline_is_file(const char *spec)
{
    const char *dot = strrchr(spec, '.');
    return strchr(spec, '/') || (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
}

static int fill(stoke_pipeline *pipeline, const char *spec, stoke_error *err)
{
    if (stk_pipeline_is_file(spec)) {
        stoke_yaml *yaml = NULL;
        int r = stoke_config_open(&yaml, spec, err);
        if (!r) r = stk_pipeline_read_tree(pipeline, yaml, STK_YAML_ALL, err);
        stoke_yaml_close(&yaml);
        return r;
    }
    int r = stk_pipeline_read_list(pipeline, spec, err);
    if (r && err) stk_error_prefix(err, "augment");
    return r;
}

int stoke_pipeline_create(stoke_pipeline **out, const char *spec, stoke_error *err)
{
    *out = NULL;
    stoke_pipeline *pipeline = stk_calloc(1, sizeof *pipeline);
    if (!pipeline) return stk_fail(err, STOKE_E_NOMEM, "augment: no memory");
    int r = fill(pipeline, spec && *spec ? spec : "none", err);
    if (r) {
        stoke_pipeline_destroy(&pipeline);
        return r;
    }
    stk_pipeline_describe(pipeline);
    *out = pipeline;
    return STOKE_OK;
}

void stoke_pipeline_destroy(stoke_pipeline **pipeline)
{
    stk_free(*pipeline);
    *pipeline = NULL;
}

const char *stoke_pipeline_text(const stoke_pipeline *pipeline)
{
    return pipeline->text;
}

void stoke_pipeline_draw(const stoke_pipeline *pipeline, const stoke_draw *draw, stoke_augment_plan *plan)
{
    stk_draft draft;
    stk_draft_begin(&draft, draw, plan);
    for (size_t i = 0; i < pipeline->n_steps; i++) {
        const stk_op *op = pipeline->steps[i].op;
        const void *args = pipeline->steps[i].args.bytes;
        stk_op_random random = {
            op, draw->seed, draw->epoch, draw->position, STK_STREAM_AUGMENT + (uint32_t)i, { { 0 } }
        };
        if (!op->draw) continue;
        random.first = stk_op_draw(&random, 0);
        if (op->traits & STK_TRAIT_CROP || stk_op_hits(&random, args)) op->draw(args, &random, &draft);
    }
    plan->swap_labels = draft.mirrored && pipeline->constants.n_swap;
    stk_draft_settle(&draft);
}

/* random_resized_crop shows things at many scales. */
const char *stk_pipeline_own_scale(const stoke_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->n_steps; i++) {
        const stk_op *op = pipeline->steps[i].op;
        if (op->traits & STK_TRAIT_CROP && op != &stk_op_random_resized_crop) return op->name;
    }
    return NULL;
}

double stk_pipeline_most_shown(const stoke_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->n_steps; i++)
        if (pipeline->steps[i].op == &stk_op_random_resized_crop)
            return stk_resized_crop_most(pipeline->steps[i].args.bytes);
    return 1;
}

int stk_pipeline_normalize(const stoke_pipeline *pipeline, double mean[3], double std[3])
{
    if (!(pipeline->traits & STK_TRAIT_NORMALIZE)) return 0;
    memcpy(mean, pipeline->constants.mean, sizeof pipeline->constants.mean);
    memcpy(std, pipeline->constants.std, sizeof pipeline->constants.std);
    return 1;
}
