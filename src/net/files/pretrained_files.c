/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files a path stands for: a folder's model.safetensors, or the shards that its index names; or a file
 * itself. The index comes from elsewhere, so it may name files of its own folder only.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/net/files/pretrained.h"
#include <stoke/tools/terminal.h>

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

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
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
    qsort(names, count, sizeof *names, by_text);
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
    if (!whole || !index || !pickle)
        status = stk_fail(err, STOKE_E_NOMEM, "%s: no memory", path);
    else if (stk_there(whole))
        status = visit_file(whole, fn, context, err);
    else if (stk_there(index))
        status = visit_index(index, fn, context, err);
    else if (stk_there(pickle))
        status =
            stk_fail(err, STOKE_E_UNSUPPORTED,
                     "%s: a pickle may run code and is not read: save_pretrained(folder) of transformers "
                     "writes model.safetensors",
                     pickle);
    else
        status =
            stk_fail(err, STOKE_E_NOTFOUND,
                     "%s: the folder holds neither model.safetensors nor model.safetensors.index.json", path);
    stk_free(whole);
    stk_free(index);
    stk_free(pickle);
    return status;
}

/* "nvidia/mit-b0": two words with one slash between, as the hub names models. */
static int is_hub_name(const char *path)
{
    const char *slash = strchr(path, '/');
    return slash && slash != path && slash[1] && !strchr(slash + 1, '/') && *path != '.' && *path != '~';
}

static int ends_in(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n >= m && strcmp(path + n - m, end) == 0;
}

int stk_pretrained_visit(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err)
{
    struct stat st;
    const int there = stk_stat(path, &st) == 0;
    if (!there && errno == ENOENT && is_hub_name(path))
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "%s: there is no such file or folder; weights are read from a folder on disk: `hf "
                        "download %s --local-dir DIR`",
                        path, STOKE_WORD(path));
    if (there && S_ISDIR(st.st_mode)) return visit_folder(path, fn, context, err);
    if (there && ends_in(path, "config.json"))
        return stk_fail(err, STOKE_E_INVALID, "%s: this file holds no weights: name the folder it lies in",
                        path);
    if (ends_in(path, ".json")) return visit_index(path, fn, context, err);
    return visit_file(path, fn, context, err);
}
