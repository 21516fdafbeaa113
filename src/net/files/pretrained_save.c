/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights out, as every version of transformers with SegFormer in it reads them: old names, and config.json
 * with "torch_dtype", which newer versions read as "dtype".
 */
#include "src/net/files/pretrained.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/net/net.h"
#include <stoke/tools/net.h>

/* ---- tensors of a network ---- */

const char *stoke_net_remark(const stoke_net *net, size_t index)
{
    return stk_remark_at(&net->remarks, index);
}

const stoke_net_plan *stoke_net_plan_used(const stoke_net *net)
{
    return &net->plan;
}

size_t stoke_net_tensor_count(const stoke_net *net)
{
    return net->parameters.count;
}

int stoke_net_tensor_at(const stoke_net *net, size_t index, stoke_net_tensor *tensor)
{
    if (index >= net->parameters.count) return STOKE_E_NOTFOUND;
    const stk_parameter *p = &net->parameters.list[index];
    const int trainable = p->trainable && (p->head || !net->params.freeze_encoder);
    *tensor = (stoke_net_tensor){ .name = p->name,
                                  .dims = p->dims,
                                  .count = p->count,
                                  .values = net->values + p->offset,
                                  .trainable = trainable };
    memcpy(tensor->shape, p->shape, sizeof tensor->shape);
    if (net->average) tensor->average = net->average + p->offset;
    if (!trainable || !net->gradients) return STOKE_OK;
    tensor->gradients = net->gradients + p->offset;
    if (net->first) tensor->moments[0] = net->first + p->offset;
    if (net->second) tensor->moments[1] = net->second + p->offset;
    return STOKE_OK;
}

void stoke_net_touched(stoke_net *net)
{
    net->layers_packed = net->head_packed = 0;
}

void stoke_net_state_get(const stoke_net *net, stoke_net_state *state)
{
    *state = net->state;
}

void stoke_net_state_set(stoke_net *net, const stoke_net_state *state)
{
    net->state = *state;
    net->have_gradients = 0;
    /* A checkpoint of another precision, or a damaged one: there is no step with a scale of 0. */
    if (net->plan.precision != STOKE_PRECISION_FP16 || !isfinite(state->loss_scale) || state->loss_scale < 1)
        net->state.loss_scale = stk_net_first_scale(net->plan.precision);
}

int stoke_net_swap_average(stoke_net *net, stoke_error *err)
{
    if (!net->average)
        return stk_fail(err, STOKE_E_STATE, "no average was kept: open the network with average 1");
    for (size_t i = 0; i < net->parameters.trainable; i++) {
        const float value = net->values[i];
        net->values[i] = net->average[i];
        net->average[i] = value;
    }
    stoke_net_touched(net);
    return STOKE_OK;
}

int stoke_net_save(const stoke_net *net, const char *folder, int average, stoke_error *err)
{
    const float *values = net->values;
    if (average && !net->average)
        return stk_fail(err, STOKE_E_STATE, "no average was kept: open the network with average 1");
    if (average) {
        /* Running statistics are averages already: those of the weights serve both. */
        const size_t trained = net->parameters.trainable;
        memcpy(net->average + trained, net->values + trained,
               (net->parameters.floats - trained) * sizeof(float));
        values = net->average;
    }
    const stk_pretrained_notes notes = { .batches_tracked = net->state.batches_tracked,
                                         .height = net->params.height,
                                         .width = net->params.width,
                                         .labels = net->labels };
    return stk_pretrained_save(folder, &net->config, &net->parameters, values, &notes, err);
}

/* ---- saving ---- */

static int write_config(FILE *out, const stk_network_config *config, char *const *names)
{
    fputs("{\n", out);
    const int status = stk_pretrained_write_labels(out, names, config->classes);
    config->network->write_config(out, config);
    fputs("}\n", out);
    return status;
}

/* The network takes any size; it was trained at this one. */
static void write_preprocessor(FILE *out, const stk_network_config *config, uint32_t height, uint32_t width)
{
    const int imagenet = stk_network_normalize(config->task) == STOKE_NORMALIZE_IMAGENET;
    fprintf(out, "{\n  \"image_processor_type\": \"%s\",\n  \"do_resize\": true,\n",
            config->network->processor);
    fprintf(out, "  \"size\": {\"height\": %u, \"width\": %u},\n", height, width);
    fputs("  \"resample\": 2,\n"
          "  \"do_rescale\": true,\n"
          "  \"rescale_factor\": 0.00392156862745098,\n"
          "  \"do_normalize\": true,\n",
          out);
    fputs(imagenet ? "  \"image_mean\": [0.485, 0.456, 0.406],\n"
                     "  \"image_std\": [0.229, 0.224, 0.225],\n"
                   : "  \"image_mean\": [0, 0, 0],\n"
                     "  \"image_std\": [1, 1, 1],\n",
          out);
    fputs("  \"do_reduce_labels\": false\n}\n", out);
}

static int write_weights(FILE *out, const char *path, const stk_parameters *parameters, const float *values,
                         uint64_t batches_tracked, stoke_error *err)
{
    static const stk_safetensors_note format = { "format", "pt" }; /* transformers refuses files without it */
    const int64_t batches = (int64_t)batches_tracked;
    stk_safetensors_source *list = stk_calloc(parameters->count + 1, sizeof *list);
    if (!list) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    for (size_t i = 0; i < parameters->count; i++) {
        const stk_parameter *p = &parameters->list[i];
        list[i] = (stk_safetensors_source){ p->name, STK_TENSOR_F32, p->dims, p->shape, values + p->offset };
    }
    const size_t count = parameters->count + (parameters->counter != NULL);
    if (parameters->counter)
        list[parameters->count] =
            (stk_safetensors_source){ parameters->counter, STK_TENSOR_I64, 0, NULL, &batches };
    errno = 0;
    /* On the disk before anything is renamed: a full disk must not leave a new config.json with old weights.
     */
    const int good =
        stk_safetensors_write(out, list, count, &format, 1) && fflush(out) == 0 && fsync(fileno(out)) == 0;
    const int number = errno ? errno : EIO;
    stk_free(list);
    return good ? STOKE_OK : stk_fail_errno(err, STOKE_E_IO, number, "%s: cannot write", path);
}

enum { CONFIG, PREPROCESSOR, WEIGHTS, FILES };

static int write_files(stoke_output file[static FILES], const stk_network_config *config,
                       const stk_parameters *parameters, const float *values,
                       const stk_pretrained_notes *notes, stoke_error *err)
{
    if (write_config(file[CONFIG].stream, config, notes->labels))
        return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", file[CONFIG].path);
    write_preprocessor(file[PREPROCESSOR].stream, config, notes->height, notes->width);
    int status = write_weights(file[WEIGHTS].stream, file[WEIGHTS].path, parameters, values,
                               notes->batches_tracked, err);
    for (int i = 0; i < FILES && !status; i++) status = stoke_output_commit(&file[i], err);
    return status;
}

int stk_pretrained_save(const char *folder, const stk_network_config *config,
                        const stk_parameters *parameters, const float *values,
                        const stk_pretrained_notes *notes, stoke_error *err)
{
    static const char *const names[FILES] = { "config.json", "preprocessor_config.json",
                                              "model.safetensors" };
    stoke_output file[FILES] = { 0 };
    int status = stoke_make_folders(folder, err);
    for (int i = 0; i < FILES && !status; i++) {
        char *path = stk_pretrained_path(folder, names[i]);
        status = path ? stoke_output_open(&file[i], path, err)
                      : stk_fail(err, STOKE_E_NOMEM, "%s: no memory", folder);
        stk_free(path);
    }
    if (!status) status = write_files(file, config, parameters, values, notes, err);
    for (int i = 0; i < FILES; i++)
        stoke_output_drop(&file[i]); /* does nothing to those that were committed */
    return status;
}
