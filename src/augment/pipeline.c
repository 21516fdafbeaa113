/* SPDX-License-Identifier: Apache-2.0
 *
 * A pipeline: presets, construction, drawing.
 */
#include "src/augment/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/file.h"

static const struct {
    const char *name;
    const char *ops[4];
} presets[] = {
    { "none", { NULL } },
    { "light", { "hflip", NULL } },
    { "crop", { "random_crop", "hflip", NULL } },
};

enum { YAML_LIMIT = 1 << 20 };

static void list_ops(char *text, size_t size)
{
    size_t n = 0;
    const stk_op *op;
    for (size_t i = 0; (op = stk_op_at(i)) && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", op->name);
}

static stoke_option_group arguments(stk_step *step)
{
    return (stoke_option_group){ step->op->name, step->op->options, step->op->n_options, step->args.bytes };
}

int stk_pipeline_add(stoke_pipeline *pipeline, const char *name, stoke_error *err)
{
    const stk_op *op = stk_op_find(name);
    if (!op) {
        char known[512];
        list_ops(known, sizeof known);
        return stk_fail(err, STOKE_E_NOTFOUND, "no op is called \"%s\"; there are %s", name, known);
    }
    if (pipeline->n_steps == STK_PIPELINE_OPS)
        return stk_fail(err, STOKE_E_LIMIT, "more than %d ops in one pipeline", STK_PIPELINE_OPS);
    stk_step *step = &pipeline->steps[pipeline->n_steps++];
    step->op = op;
    const stoke_option_group group = arguments(step);
    stoke_options_defaults(&group);
    return STOKE_OK;
}

int stk_pipeline_set(stoke_pipeline *pipeline, const char *name, const char *value, stoke_error *err)
{
    const stoke_option_group group = arguments(&pipeline->steps[pipeline->n_steps - 1]);
    return stoke_options_set(&group, 1, name, value, err);
}

/* "random_crop,hflip(p=0.5)": what reports call this pipeline. Settings of ops are all reals so far. */
static void describe(stoke_pipeline *pipeline)
{
    char *text = pipeline->text;
    size_t n = 0;
    const size_t size = sizeof pipeline->text;
    if (!pipeline->n_steps) snprintf(text, size, "none");
    for (size_t i = 0; i < pipeline->n_steps && n < size; i++) {
        const stk_step *step = &pipeline->steps[i];
        n += (size_t)snprintf(text + n, size - n, "%s%s", i ? "," : "", step->op->name);
        for (size_t k = 0; k < step->op->n_options && n < size; k++) {
            const stoke_option *option = &step->op->options[k];
            double value;
            memcpy(&value, step->args.bytes + option->offset, sizeof value);
            n += (size_t)snprintf(text + n, size - n, "%s%s=%g%s", k ? "," : "(", option->name, value,
                                  k + 1 == step->op->n_options ? ")" : "");
        }
    }
}

static int is_file_name(const char *spec)
{
    const char *dot = strrchr(spec, '.');
    return strchr(spec, '/') || (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0));
}

static int fill(stoke_pipeline *pipeline, const char *spec, stoke_error *err)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].name, spec) != 0) continue;
        for (const char *const *name = presets[i].ops; *name; name++) {
            int r = stk_pipeline_add(pipeline, *name, err);
            if (r) return r;
        }
        return STOKE_OK;
    }
    if (!is_file_name(spec))
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "augment: \"%s\" is neither a preset (none, light, crop) nor a .yaml file", spec);
    stk_buffer buffer = { 0 };
    size_t size;
    int r = stk_file_read(spec, YAML_LIMIT, &buffer, &size, err);
    if (!r) r = stk_pipeline_read_yaml(pipeline, spec, buffer.data, size, err);
    stk_buffer_free(&buffer);
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
    describe(pipeline);
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

void stoke_pipeline_draw(const stoke_pipeline *pipeline, const stoke_draw *draw, stoke_plan *plan)
{
    const stk_frame frame = { draw->source_width, draw->source_height, draw->out_width, draw->out_height };
    *plan = (stoke_plan){
        .box = { 0, 0, draw->source_width, draw->source_height },
        .width = draw->out_width,
        .height = draw->out_height,
    };
    for (size_t i = 0; i < pipeline->n_steps; i++) {
        const stk_step *step = &pipeline->steps[i];
        const stk_op_random random = { draw->seed, draw->epoch, draw->position,
                                       STK_STREAM_AUGMENT + (uint32_t)i };
        step->op->draw(step->args.bytes, &random, &frame, plan);
    }
}

int stoke_preset_at(size_t index, stoke_preset_info *info)
{
    if (index >= sizeof presets / sizeof *presets) return 0;
    *info = (stoke_preset_info){ presets[index].name, "", "" };
    return 1;
}
