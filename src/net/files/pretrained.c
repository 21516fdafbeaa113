/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in: every tensor of the files to its place, then a reckoning of what was not there.
 */
#include "src/net/files/pretrained.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include <stoke/tools/terminal.h>

/* ---- files ---- */

/* Which files a path stands for: a folder's model.safetensors, or the shards that its index names; or a file
 * itself. The index comes from elsewhere, so it may name files in its folder only. */

enum { JSON_BYTES = 16 << 20 }; /* the index of b5 has 110 KB */

char *stk_pretrained_path(const char *folder, const char *name)
{
    const size_t a = strlen(folder), b = strlen(name);
    char *path = stk_alloc(a + b + 2);
    if (!path) return NULL;
    memcpy(path, folder, a);
    path[a] = '/';
    memcpy(path + a + 1, name, b + 1);
    return path;
}

int stk_pretrained_json(const char *path, stk_json *json, stoke_error *err)
{
    stk_mem_buffer buffer = { 0 };
    size_t size;
    *json = (stk_json){ 0 };
    int status = stk_file_read(path, JSON_BYTES, &buffer, &size, err);
    if (!status) {
        status = stk_json_read(json, buffer.data, size, STK_JSON_VALUES, err);
        if (status && err) stk_error_prefix(err, path);
    }
    stk_buffer_free(&buffer);
    return status;
}

static int visit_file(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err)
{
    stk_safetensors file;
    int status = stk_safetensors_open(&file, path, err);
    if (status) return status;
    for (size_t i = 0; i < file.count && !status; i++) status = fn(context, &file, &file.list[i], err);
    stk_safetensors_close(&file);
    return status;
}

/* A name of a file in the same folder and nothing else. */
static int is_plain(const char *name)
{
    const size_t n = strlen(name);
    if (!n || n > 255 || *name == '.' || strpbrk(name, "/\\")) return 0;
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20) return 0;
    return 1;
}

/* The names of the files in the weight map, sorted; each may stand there many times. */
static int shard_names(const char *path, const stk_json *json, const char **names, size_t count,
                       stoke_error *err)
{
    const stk_json_value *map = stk_json_find(json, &json->values[0], "weight_map");
    const stk_json_value *member = stk_json_first(json, map);
    for (size_t i = 0; i < count; i++, member = stk_json_next(json, member)) {
        names[i] = member->kind == STK_JSON_STRING ? stk_json_text(json, member) : "";
        if (!is_plain(names[i]))
            return stk_fail(err, STOKE_E_FORMAT,
                            "%s: \"%.200s\" is no plain file name: shards lie in the folder of their index",
                            path, names[i]);
    }
    qsort(names, count, sizeof *names, stk_by_text);
    return STOKE_OK;
}

static int visit_shards(const char *path, const char **names, size_t count, stk_pretrained_fn *fn,
                        void *context, stoke_error *err)
{
    int status = STOKE_OK;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? stk_strdup(path) : stk_strdup(".");
    if (folder && slash) folder[slash - path] = 0;
    for (size_t i = 0; i < count && !status; i++) {
        if (i && strcmp(names[i], names[i - 1]) == 0) continue;
        char *shard = folder ? stk_pretrained_path(folder, names[i]) : NULL;
        status =
            shard ? visit_file(shard, fn, context, err) : stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
        stk_free(shard);
    }
    stk_free(folder);
    return status;
}

static int visit_index(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err)
{
    stk_json json;
    int status = stk_pretrained_json(path, &json, err);
    if (status) return status;
    const stk_json_value *map = stk_json_find(&json, &json.values[0], "weight_map");
    const size_t count = map && map->kind == STK_JSON_OBJECT ? map->count : 0;
    const char **names = stk_calloc(count + 1, sizeof *names);
    if (!count)
        status = stk_fail(err, STOKE_E_FORMAT, "%s: there is no \"weight_map\"", path);
    else if (!names)
        status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    if (!status) status = shard_names(path, &json, names, count, err);
    if (!status) status = visit_shards(path, names, count, fn, context, err);
    stk_free(names);
    stk_json_free(&json);
    return status;
}

static int visit_folder(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err)
{
    int status;
    char *whole = stk_pretrained_path(path, "model.safetensors");
    char *index = stk_pretrained_path(path, "model.safetensors.index.json");
    char *pickle = stk_pretrained_path(path, "pytorch_model.bin");
    char *of_run = stk_pretrained_path(path, "best/model.safetensors");
    if (!whole || !index || !pickle || !of_run)
        status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    else if (stoke_there(whole))
        status = visit_file(whole, fn, context, err);
    else if (stoke_there(index))
        status = visit_index(index, fn, context, err);
    else if (stoke_there(pickle))
        status = stk_fail(err, STOKE_E_UNSUPPORTED,
                          "%s: a pickle may run code and is not read: save_pretrained(folder) of "
                          "transformers writes model.safetensors",
                          pickle);
    else if (stoke_there(of_run))
        status = stk_fail(err, STOKE_E_NOTFOUND, "%s: this is the folder of a run; its network is in %s/best",
                          path, path);
    else
        status =
            stk_fail(err, STOKE_E_NOTFOUND,
                     "%s: the folder holds neither model.safetensors nor model.safetensors.index.json", path);
    stk_free(whole);
    stk_free(index);
    stk_free(pickle);
    stk_free(of_run);
    return status;
}

/* "nvidia/mit-b0": two words with one slash between, as the hub names models. */
static int is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' && *path != '~';
}

int stk_pretrained_visit(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err)
{
    struct stat st;
    const int there = stoke_stat(path, &st) == 0;
    if (!there && errno == ENOENT && is_hub_name(path))
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%s: there is no such file or folder; weights are read from a folder on disk: `hf "
                        "download %s --local-dir DIR`",
                        path, STOKE_WORD(path));
    if (there && S_ISDIR(st.st_mode)) return visit_folder(path, fn, context, err);
    if (there && stk_ends_in(path, "config.json"))
        return stk_fail(err, STOKE_E_INVALID, "%s: this file holds no weights: name the folder it lies in",
                        path);
    if (stk_ends_in(path, ".json")) return visit_index(path, fn, context, err);
    return visit_file(path, fn, context, err);
}

/* ---- taking weights ---- */

/* What the files had of a parameter. */
enum { MISSING, READ, OTHER_CLASSES };

typedef struct loading {
    const stk_network_config *config;
    int (*name)(const char *given, char declared[static STK_NAME]);
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
    return p->output ? -1 : 0;
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
        stk_say(l->how->remark, l->how->context, "%s holds values that are not finite", p->name);
    }
    return status;
}

static int load_tensor(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                       stoke_error *err)
{
    loading *l = context;
    char name[STK_NAME];
    if (!l->name(tensor->name, name)) {
        if (!l->left_out++) snprintf(l->first_left_out, STK_NAME, "%.*s", STK_NAME - 1, tensor->name);
        return STOKE_OK;
    }
    if (l->parameters->counter && strcmp(name, l->parameters->counter) == 0)
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
        stk_say(l->how->remark, l->how->context,
                "%zu tensor%s of the file, such as %s, %s no part of the network: left out", l->left_out,
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
    stk_say(l->how->remark, l->how->context,
            "%zu of %zu tensors (%.1f of %.1f million values) carried over from %s%s", tensors,
            l->parameters->count, (double)carried / 1e6, (double)all / 1e6, path,
            tensors < l->parameters->count ? "; the rest was initialised" : "");
    say_left_out(l);
}

/* Initialises what may be missing: a head of which nothing was there, a classifier for other classes. */
static int complete(loading *l, const char *path, int encoder_alone, stoke_error *err)
{
    for (size_t i = 0; i < l->parameters->count; i++) {
        const stk_parameter *p = &l->parameters->list[i];
        if (l->had[i] == MISSING && !(encoder_alone && p->head))
            return stk_fail(err, STOKE_E_FORMAT, "%s: %s is missing", path, p->name);
        if (l->had[i] != READ || (p->output && l->classes))
            stk_parameter_initialise(p, l->values, l->how->seed);
    }
    if (encoder_alone)
        stk_say(l->how->remark, l->how->context, "%s is an encoder alone: the decode head was initialised",
                path);
    if (l->classes)
        stk_say(l->how->remark, l->how->context,
                "the classifier has %llu classes in the file and %u here: initialised",
                (unsigned long long)l->classes, (unsigned)l->config->classes);
    say_left_out(l);
    return STOKE_OK;
}

static int load(loading *l, const char *path, stoke_error *err)
{
    stk_network_config found;
    int status = stk_pretrained_check(path, &found, l->how->remark, l->how->context, err);
    if (status) return status;
    if (!l->how->partial && strcmp(found.model, l->config->model) != 0)
        return stk_fail(err, STOKE_E_FORMAT, "%s: holds weights of %s, not of %s", path, found.model,
                        l->config->model);
    status = stk_pretrained_visit(path, load_tensor, l, err);
    if (status || !l->how->partial) return status ? status : complete(l, path, !found.classes, err);
    complete_partial(l, path);
    return STOKE_OK;
}

int stk_pretrained_load(const char *path, const stk_network_config *config, const stk_parameters *parameters,
                        const stk_pretrained_how *how, float *values, uint64_t *batches_tracked,
                        stoke_error *err)
{
    loading l = { .config = config,
                  .name = config->network->name,
                  .parameters = parameters,
                  .values = values,
                  .how = how };
    l.had = stk_calloc(parameters->count, sizeof *l.had);
    if (!l.had) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    memset(values, 0, parameters->floats * sizeof *values); /* the gaps */
    const int status = load(&l, path, err);
    stk_free(l.had);
    if (!status && batches_tracked) *batches_tracked = l.batches_tracked;
    return status;
}

static int take_tensor(void *context, const stk_safetensors *file, const stk_safetensors_tensor *tensor,
                       stoke_error *err)
{
    loading *l = context;
    char name[STK_NAME];
    const stk_parameter *p = l->name(tensor->name, name) ? stk_parameters_find(l->parameters, name) : NULL;
    const int status = p ? load_parameter(l, p, file, tensor, err) : STOKE_OK;
    if (status || !l->not_finite) return status;
    return stk_fail(err, STOKE_E_FORMAT, "%s: %s holds values that are not finite", file->path, tensor->name);
}

int stk_pretrained_take(const char *path, int (*name)(const char *given, char declared[static STK_NAME]),
                        const stk_parameters *parameters, float *values, stoke_error *err)
{
    const stk_pretrained_how how = { 0 };
    loading l = { .name = name, .parameters = parameters, .values = values, .how = &how };
    l.had = stk_calloc(parameters->count, sizeof *l.had);
    if (!l.had) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    int status = stk_pretrained_visit(path, take_tensor, &l, err);
    for (size_t i = 0; !status && i < parameters->count; i++)
        if (l.had[i] == MISSING)
            status = stk_fail(err, STOKE_E_FORMAT, "%s: %s is missing", path, parameters->list[i].name);
    stk_free(l.had);
    return status;
}

typedef struct counting {
    const stk_network *network;
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
        c->network->name(tensor->name, name) ? stk_parameters_find(c->parameters, name) : NULL;
    c->fit += p && same_shape(p, tensor) > 0;
    return STOKE_OK;
}

int stk_pretrained_carried(const char *path, const stk_network *network, const stk_parameters *parameters,
                           uint32_t *tensors, stoke_error *err)
{
    counting c = { .network = network, .parameters = parameters };
    const int status = stk_pretrained_visit(path, count_tensor, &c, err);
    *tensors = c.fit;
    return status;
}
