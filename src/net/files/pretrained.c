/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in: every tensor of the files to its place, then a reckoning of what was not there.
 */
#include "src/net/files/pretrained.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* What the files had of a parameter. */
enum { MISSING, READ, OTHER_CLASSES };

typedef struct loading {
    const stk_segformer_config *config;
    const stk_parameters *parameters;
    float *values;
    uint8_t *had; /* per parameter */
    uint64_t batches_tracked;
    uint64_t classes; /* of a classifier that does not fit */
    int not_finite;
    size_t left_out; /* tensors that are no part of the network */
    char first_left_out[STK_NAME];
    const stk_pretrained_how *how;
} loading;

STOKE_PRINTF(2, 3)
static void say(const loading *l, const char *format, ...)
{
    char sentence[512];
    va_list arguments;
    if (!l->how->remark) return;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    l->how->remark(l->how->context, sentence);
}

/* "[150, 256, 1, 1]". */
static void shape_text(char *text, size_t size, uint32_t dims, const uint64_t *shape)
{
    size_t n = 0;
    text[n++] = '[';
    for (uint32_t i = 0; i < dims && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
    if (n < size) snprintf(text + n, size - n, "]");
}

/* 1: the same; -1: a classifier of another number of classes; 0: neither. */
static int same_shape(const stk_parameter *p, const stk_safetensors_tensor *tensor)
{
    if (p->dims != tensor->dims) return 0;
    for (uint32_t i = 1; i < p->dims; i++)
        if (p->shape[i] != tensor->shape[i]) return 0;
    if (p->shape[0] == tensor->shape[0]) return 1;
    return strncmp(p->name, "decode_head.classifier.", 23) == 0 ? -1 : 0;
}

static int wrong_shape(const stk_parameter *p, const stk_safetensors *file,
                       const stk_safetensors_tensor *tensor, stoke_error *err)
{
    char had[STK_TENSOR_DIMS * 24], wanted[STK_TENSOR_DIMS * 24];
    const uint64_t shape[4] = { p->shape[0], p->shape[1], p->shape[2], p->shape[3] };
    shape_text(had, sizeof had, tensor->dims, tensor->shape);
    shape_text(wanted, sizeof wanted, p->dims, shape);
    return stk_fail(err, STOKE_E_FORMAT, "%s: %s has the shape %s, not %s", file->path, tensor->name, had,
                    wanted);
}

static int all_finite(const float *values, size_t count)
{
    float sum = 0; /* x - x is 0 for numbers and NaN for the rest */
    for (size_t i = 0; i < count; i++) sum += values[i] - values[i];
    return sum == 0;
}

static int load_parameter(loading *l, const stk_parameter *p, const stk_safetensors *file,
                          const stk_safetensors_tensor *tensor, stoke_error *err)
{
    uint8_t *had = &l->had[p - l->parameters->list];
    if (*had != MISSING)
        return stk_fail(err, STOKE_E_FORMAT, "%s: %s stands there twice (as %s, or in another shard)",
                        file->path, p->name, tensor->name);
    const int same = same_shape(p, tensor);
    if (l->how->partial && same <= 0) return STOKE_OK;
    if (!same) return wrong_shape(p, file, tensor, err);
    *had = same > 0 ? READ : OTHER_CLASSES;
    if (same < 0) {
        l->classes = tensor->shape[0];
        return STOKE_OK;
    }
    float *values = l->values + p->offset;
    const int status = stk_safetensors_floats(file, tensor, values, err);
    if (!status && !l->not_finite && !all_finite(values, p->count)) {
        l->not_finite = 1;
        say(l, "%s holds values that are not finite", p->name);
    }
    return status;
}

static int load_tensor(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                       stoke_error *err)
{
    loading *l = context;
    char name[STK_NAME];
    if (!stk_pretrained_name(tensor->name, name)) {
        if (!l->left_out++) snprintf(l->first_left_out, STK_NAME, "%.*s", STK_NAME - 1, tensor->name);
        return STOKE_OK;
    }
    if (strcmp(name, "decode_head.batch_norm.num_batches_tracked") == 0)
        return stk_safetensors_integer(file, tensor, &l->batches_tracked, err);
    const stk_parameter *p = stk_parameters_find(l->parameters, name);
    if (!p && l->how->partial) return STOKE_OK;
    if (!p)
        return stk_fail(err, STOKE_E_FORMAT, "%s: %s is no tensor of %s", file->path, tensor->name,
                        l->config->model);
    return load_parameter(l, p, file, tensor, err);
}

static void say_left_out(const loading *l)
{
    if (l->left_out)
        say(l, "%zu tensor%s of the file, such as %s, %s no part of the network: left out", l->left_out,
            l->left_out > 1 ? "s" : "", l->first_left_out, l->left_out > 1 ? "are" : "is");
}

/* Initialises whatever is missing, and says how much was not. */
static void complete_partial(loading *l, const char *path)
{
    size_t tensors = 0;
    uint64_t carried = 0, all = 0;
    for (size_t i = 0; i < l->parameters->count; i++) {
        const stk_parameter *p = &l->parameters->list[i];
        const int read = l->had[i] == READ;
        if (!read) stk_parameter_initialise(p, l->values, l->how->seed);
        if (!read && strstr(p->name, "running_")) l->batches_tracked = 0; /* none are in what is there now */
        tensors += read;
        carried += read ? p->count : 0;
        all += p->count;
    }
    say(l, "%zu of %zu tensors (%.1f of %.1f million values) carried over from %s%s", tensors,
        l->parameters->count, (double)carried / 1e6, (double)all / 1e6, path,
        tensors < l->parameters->count ? "; the rest was initialised" : "");
    say_left_out(l);
}

/* Initialises what may be missing: a head of which nothing was there, a classifier for other classes. */
static int complete(loading *l, const char *path, int encoder_alone, stoke_error *err)
{
    for (size_t i = 0; i < l->parameters->count; i++) {
        const stk_parameter *p = &l->parameters->list[i];
        const int classifier = strncmp(p->name, "decode_head.classifier.", 23) == 0;
        if (l->had[i] == MISSING && !(encoder_alone && p->head))
            return stk_fail(err, STOKE_E_FORMAT, "%s: %s is missing", path, p->name);
        if (l->had[i] != READ || (classifier && l->classes))
            stk_parameter_initialise(p, l->values, l->how->seed);
    }
    if (encoder_alone) say(l, "%s is an encoder alone: the decode head was initialised", path);
    if (l->classes)
        say(l, "the classifier has %llu classes in the file and %u here: initialised",
            (unsigned long long)l->classes, (unsigned)l->config->classes);
    say_left_out(l);
    return STOKE_OK;
}

static int load(loading *l, const char *path, stoke_error *err)
{
    stk_segformer_config found;
    int status = stk_pretrained_check(path, &found, l->how->remark, l->how->context, err);
    if (status) return status;
    if (!l->how->partial && found.model != l->config->model && strcmp(found.model, l->config->model))
        return stk_fail(err, STOKE_E_FORMAT, "%s: holds weights of %s, not of %s", path, found.model,
                        l->config->model);
    status = stk_pretrained_visit(path, load_tensor, l, err);
    if (status || !l->how->partial) return status ? status : complete(l, path, !found.classes, err);
    complete_partial(l, path);
    return STOKE_OK;
}

int stk_pretrained_load(const char *path, const stk_segformer_config *config,
                        const stk_parameters *parameters, const stk_pretrained_how *how, float *values,
                        uint64_t *batches_tracked, stoke_error *err)
{
    loading l = { .config = config, .parameters = parameters, .values = values, .how = how };
    l.had = stk_calloc(parameters->count, sizeof *l.had);
    if (!l.had) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    memset(values, 0, parameters->floats * sizeof *values); /* the gaps */
    const int status = load(&l, path, err);
    stk_free(l.had);
    if (!status && batches_tracked) *batches_tracked = l.batches_tracked;
    return status;
}

typedef struct counting {
    const stk_parameters *parameters;
    uint32_t fit;
} counting;

static int count_tensor(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                        stoke_error *err)
{
    (void)file, (void)err;
    counting *c = context;
    char name[STK_NAME];
    const stk_parameter *p =
        stk_pretrained_name(tensor->name, name) ? stk_parameters_find(c->parameters, name) : NULL;
    c->fit += p && same_shape(p, tensor) > 0;
    return STOKE_OK;
}

int stk_pretrained_carried(const char *path, const stk_parameters *parameters, uint32_t *tensors,
                           stoke_error *err)
{
    counting c = { .parameters = parameters };
    const int status = stk_pretrained_visit(path, count_tensor, &c, err);
    *tensors = c.fit;
    return status;
}
