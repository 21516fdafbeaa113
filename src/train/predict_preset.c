/* SPDX-License-Identifier: Apache-2.0
 *
 * What preprocessor_config.json, as Hugging Face's image processors write it, says about pictures.
 */
#include <errno.h>
#include <sys/stat.h>

#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/retry.h"
#include "src/net/segformer/segformer.h"
#include "src/net/files/pretrained.h"
#include "src/train/predict.h"

typedef struct reading {
    const char *path;
    const stk_json *json;
    stoke_error *err;
} reading;

static int bad(const reading *r, const char *what)
{
    return stk_fail(r->err, STOKE_E_FORMAT, "%s: %s", r->path, what);
}

static int side(const reading *r, const stk_json_value *value, uint32_t *out)
{
    uint64_t pixels;
    if (!stk_json_uint(r->json, value, &pixels) || pixels < STK_NET_SIDE_MIN || pixels > STK_NET_SIDE_MAX)
        return bad(r, "\"size\" is not 29 to 32768 pixels");
    *out = (uint32_t)pixels;
    return STOKE_OK;
}

/* {"height": 512, "width": 512}, or, as older files have it, 512. Other kinds of sizes (shortest_edge) depend
 * on the picture: nothing is said then. */
static int read_size(const reading *r, stk_predict_preset *preset)
{
    const stk_json_value *size = stk_json_find(r->json, &r->json->values[0], "size");
    const stk_json_value *height = stk_json_find(r->json, size, "height");
    const stk_json_value *width = stk_json_find(r->json, size, "width");
    if (size && size->kind == STK_JSON_NUMBER) height = width = size;
    if (!height || !width) return STOKE_OK;
    const int status = side(r, height, &preset->height);
    return status ? status : side(r, width, &preset->width);
}

static int read_three(const reading *r, const char *key, double out[3])
{
    const stk_json_value *list = stk_json_find(r->json, &r->json->values[0], key);
    if (!list || list->kind == STK_JSON_NULL) return 0;
    const stk_json_value *value = list->kind == STK_JSON_ARRAY ? stk_json_first(r->json, list) : NULL;
    for (int c = 0; c < 3; c++, value = stk_json_next(r->json, value))
        if (!value || !stk_json_real(r->json, value, &out[c]))
            return bad(r, "\"image_mean\" or \"image_std\" is not a list of 3 numbers");
    return 1;
}

static int read_normalization(const reading *r, stk_predict_preset *preset)
{
    const int mean = read_three(r, "image_mean", preset->mean);
    const int deviation = mean > 0 ? read_three(r, "image_std", preset->deviation) : 0;
    if (mean < 0 || deviation < 0) return STOKE_E_FORMAT;
    for (int c = 0; c < 3 && deviation; c++)
        if (!(preset->deviation[c] >= 1e-6 && preset->deviation[c] <= 1e6) ||
            !(preset->mean[c] >= -1e6 && preset->mean[c] <= 1e6))
            return bad(r, "\"image_mean\" or \"image_std\" is out of range");
    if (!deviation) preset->deviation[0] = 0;
    return STOKE_OK;
}

int stk_preset_read(const char *weights, stk_predict_preset *preset, stoke_error *err)
{
    struct stat st;
    *preset = (stk_predict_preset){ 0 };
    const int there = stk_stat(weights, &st) == 0;
    if (!there && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", weights);
    if (!there || !S_ISDIR(st.st_mode)) return STOKE_OK;
    char *path = stk_pretrained_path(weights, "preprocessor_config.json");
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", weights);
    stk_json json = { 0 };
    int status = stk_there(path) ? stk_pretrained_json(path, &json, err) : STOKE_E_NOTFOUND;
    const reading r = { path, &json, err };
    if (!status) status = read_size(&r, preset);
    if (!status) status = read_normalization(&r, preset);
    stk_json_free(&json);
    stk_free(path);
    return status == STOKE_E_NOTFOUND ? STOKE_OK : status;
}
