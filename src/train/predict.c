/* SPDX-License-Identifier: Apache-2.0
 *
 * A predictor: opened once, then one picture after the other.
 */
#include "src/train/predict.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/base/json_read.h"
#include "src/base/retry.h"
#include "src/net/files/pretrained.h"
#include "src/net/network.h"
#include "src/net/ops/ops.h"
#include <stoke/tools/net.h>
#include <stoke/tools/predict.h>

/* ---- what the files beside the weights say ---- */

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
    if (!stk_json_uint(r->json, value, &pixels) || !pixels || pixels > STK_NET_SIDE_MAX)
        return bad(r, "\"size\" is not 1 to 32768 pixels");
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
    const int there = stoke_stat(weights, &st) == 0;
    if (!there && !stoke_is_absent(errno))
        return stk_fail_errno(err, STOKE_E_IO, errno, "%s: cannot be looked at", weights);
    if (!there || !S_ISDIR(st.st_mode)) return STOKE_OK;
    char *path = stk_pretrained_path(weights, "preprocessor_config.json");
    if (!path) return stk_fail(err, STOKE_E_NOMEM, "%s: no memory", weights);
    stk_json json = { 0 };
    int status = stoke_there(path) ? stk_pretrained_json(path, &json, err) : STOKE_E_NOTFOUND;
    const reading r = { path, &json, err };
    if (!status) status = read_size(&r, preset);
    if (!status) status = read_normalization(&r, preset);
    stk_json_free(&json);
    stk_free(path);
    return status == STOKE_E_NOTFOUND ? STOKE_OK : status;
}

/* ---- what the training says ---- */

static int make_swap(stoke_predictor *p, const stoke_pipeline *pipeline, stoke_error *err)
{
    const size_t n = pipeline->constants.n_swap;
    const uint32_t(*pair)[2] = pipeline->constants.swap;
    if (!n) return STOKE_OK;
    p->swap = stk_calloc(p->classes, sizeof *p->swap);
    if (!p->swap) return stk_fail(err, STOKE_E_NOMEM, "no memory for the table of mirrored classes");
    for (uint32_t k = 0; k < p->classes; k++) p->swap[k] = (uint16_t)k;
    for (size_t i = 0; i < n; i++) { /* a preset may know more pairs than there are classes */
        if (pair[i][0] >= p->classes || pair[i][1] >= p->classes) continue;
        p->swap[pair[i][0]] = (uint16_t)pair[i][1];
        p->swap[pair[i][1]] = (uint16_t)pair[i][0];
    }
    return STOKE_OK;
}

/* Sets writer, own_scale and swap; augment may be NULL. Values are normalised as the training said, else as
 * the files beside the weights, else as is usual for the task. */
static int predict_learn(stoke_predictor *p, const char *augment, const stk_predict_preset *preset,
                         stoke_error *err)
{
    double mean[3], deviation[3];
    stk_writer_init(&p->writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, stoke_net_plan_used(p->net)->normalize);
    if (preset->deviation[0] > 0) stk_writer_normalize(&p->writer, preset->mean, preset->deviation);
    if (!augment) return STOKE_OK;
    stoke_pipeline *pipeline = NULL;
    int status = stoke_pipeline_create(&pipeline, augment, err);
    if (!status) {
        p->own_scale = stk_pipeline_own_scale(pipeline) != NULL;
        if (stk_pipeline_normalize(pipeline, mean, deviation))
            stk_writer_normalize(&p->writer, mean, deviation);
        status = make_swap(p, pipeline, err);
    }
    stoke_pipeline_destroy(&pipeline);
    return status;
}

enum { USUAL_SIDE = 512 };

const double stk_much_larger = 1.5;

stoke_predict_params stoke_predict_defaults(void)
{
    return (stoke_predict_params){ .struct_size = sizeof(stoke_predict_params),
                                   .mode = STOKE_PREDICT_AUTO,
                                   .overlap = 0.5,
                                   .precision = STOKE_PRECISION_AUTO };
}

/* ---- opening ---- */

static int check(const stoke_predict_params *params, stoke_error *err)
{
    if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_predict_defaults");
    if (!params->weights) return stk_fail(err, STOKE_E_INVALID, "no weights are given");
    if (params->mode < STOKE_PREDICT_AUTO || params->mode > STOKE_PREDICT_SLIDE)
        return stk_fail(err, STOKE_E_INVALID, "mode must be auto, resize or slide");
    if (!(params->overlap >= 0 && params->overlap <= 0.9))
        return stk_fail(err, STOKE_E_INVALID, "overlap must be between 0 and 0.9");
    if (params->batch > STK_PREDICT_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "batch must be at most %d", STK_PREDICT_BATCH);
    return STOKE_OK;
}

/* A tile has nothing to do with the size that was trained with: what is beside the weights says nothing. */
static int settle_tile(stoke_predictor *p, const stoke_net_plan *net, stoke_error *err)
{
    const uint32_t least = stk_restore_least(net);
    if (p->params.mode == STOKE_PREDICT_RESIZE)
        return stk_fail(err, STOKE_E_INVALID, "mode resize is for masks: pictures are restored as they are");
    p->restores = 1;
    p->height = p->params.size[0];
    p->width = p->params.size[1];
    p->size_from = "as set";
    if (!p->height || !p->width) {
        p->height = p->width = stk_restore_tile(net);
        p->size_from = "the usual one";
    }
    if (p->height >= least && p->width >= least) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "tiles of %u x %u: this network needs %u x %u at least", p->height,
                    p->width, least, least);
}

static void settle_size(stoke_predictor *p, const stk_predict_preset *preset)
{
    p->height = p->params.size[0];
    p->width = p->params.size[1];
    p->size_from = "as set";
    if (p->height && p->width) return;
    p->height = preset->height;
    p->width = preset->width;
    p->size_from = "from preprocessor_config.json";
    if (p->height) return;
    p->height = p->width = USUAL_SIDE;
    p->size_from = "the usual one, nothing else is said beside the weights";
}

/* What the files say of the network, before it has a size. 0: nothing, opening it will tell why. */
static int look(const char *weights, stoke_net_plan *net)
{
    stoke_net_params params = stoke_net_defaults();
    params.weights = weights;
    params.training = 0;
    return !stoke_net_plan_of(&params, net, NULL);
}

int stk_predict_restores(const char *weights)
{
    stoke_net_plan net;
    return look(weights, &net) && net.task == STOKE_TASK_RESTORE;
}

static int open_network(stoke_predictor *p, const char *weights, stoke_error *err)
{
    stoke_net_params net = stoke_net_defaults();
    const uint32_t views = stk_predict_views(p);
    /* About a million pixels: below it, passes of more rows are faster; above it, they only take memory. */
    const uint64_t fit = stk_least(stk_most((1u << 20) / ((uint64_t)p->height * p->width), 1), 16);
    p->batch = p->params.batch ? p->params.batch : (uint32_t)fit;
    p->batch = p->batch < views || p->restores ? views : p->batch / views * views;
    net.weights = weights;
    net.batch = p->batch;
    net.height = p->height;
    net.width = p->width;
    net.training = 0;
    net.precision = p->params.precision;
    net.threads = p->params.threads;
    return stoke_net_open(&p->net, &net, err);
}

/* All that is made once there is a network. */
static int equip(stoke_predictor *p, const char *augment, const stk_predict_preset *preset, stoke_error *err)
{
    const size_t row = 3 * (size_t)p->height * p->width;
    const stoke_net_plan *plan = stoke_net_plan_used(p->net);
    p->classes = plan->classes;
    p->stride = stk_logits_stride(p->classes);
    p->raster = stk_predict_raster_of(plan);
    p->restores = plan->task == STOKE_TASK_RESTORE;
    const int status = predict_learn(p, augment, preset, err);
    if (status) return status;
    p->resizer = stk_resizer_create();
    p->rows = stk_alloc_aligned(row * p->batch * sizeof *p->rows, 64);
    if (p->resizer && p->rows && stk_buffer_reserve(&p->merged, plan->threads * p->stride * sizeof(float)))
        return STOKE_OK;
    return stk_fail(err, STOKE_E_NOMEM, "no memory for %u pictures of %u x %u", p->batch, p->height,
                    p->width);
}

int stoke_predictor_open(stoke_predictor **out, const stoke_predict_params *params, stoke_error *err)
{
    stk_predict_preset preset;
    *out = NULL;
    int status = check(params, err);
    if (!status) status = stk_preset_read(params->weights, &preset, err);
    if (status) return status;
    stoke_predictor *p = stk_calloc(1, sizeof *p);
    if (!p) return stk_fail(err, STOKE_E_NOMEM, "no memory for a predictor");
    p->params = *params;
    p->params.weights = p->params.augment = NULL;
    stoke_net_plan net;
    if (look(params->weights, &net) && net.task == STOKE_TASK_RESTORE)
        status = settle_tile(p, &net, err);
    else
        settle_size(p, &preset);
    if (!status) status = open_network(p, params->weights, err);
    if (!status) status = equip(p, params->augment, &preset, err);
    if (!status && !p->restores && params->mode == STOKE_PREDICT_SLIDE &&
        !stk_raster_has(p->raster, p->height, p->width))
        status = stk_fail(err, STOKE_E_INVALID,
                          "windows of %u x %u: height and width must be multiples of %u, set `size`",
                          p->height, p->width, p->raster.unit);
    if (status)
        stoke_predictor_close(&p);
    else
        *out = p;
    return status;
}

int stk_predictor_borrow(stoke_predictor **out, stoke_net *net, const char *augment, stoke_error *err)
{
    const stk_predict_preset nothing = { 0 };
    const stoke_net_params *params = stoke_net_params_used(net);
    stoke_predictor *p = *out = stk_calloc(1, sizeof *p);
    if (!p) return stk_fail(err, STOKE_E_NOMEM, "no memory for a predictor");
    p->params = stoke_predict_defaults();
    p->params.mode = STOKE_PREDICT_SLIDE;
    p->net = net;
    p->borrowed = 1;
    p->height = params->height;
    p->width = params->width;
    p->size_from = "the network's";
    p->batch = (uint32_t)stk_least(params->batch, STK_PREDICT_BATCH);
    const int status = equip(p, augment, &nothing, err);
    if (status) stoke_predictor_close(out);
    return status;
}

void stoke_predictor_close(stoke_predictor **predictor)
{
    stoke_predictor *p = *predictor;
    if (!p) return;
    if (!p->borrowed) stoke_net_close(&p->net);
    stk_resizer_destroy(&p->resizer);
    stk_free(p->rows);
    stk_free(p->swap);
    stk_mem_buffer *const buffers[] = { &p->fitted, &p->window, &p->truth, &p->sums, &p->shares,
                                        &p->merged, &p->labels, &p->taps,  &p->lines };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) stk_buffer_free(buffers[i]);
    stk_free(p);
    *predictor = NULL;
}

stoke_predictor_info stoke_predictor_about(const stoke_predictor *p)
{
    return (stoke_predictor_info){ .height = p->height,
                                   .width = p->width,
                                   .classes = p->classes,
                                   .batch = p->batch,
                                   .own_scale = p->own_scale,
                                   .size_from = p->size_from,
                                   .plan = stoke_net_plan_used(p->net) };
}

const char *stoke_predictor_class(const stoke_predictor *p, uint32_t id)
{
    return stoke_net_label(p->net, id);
}

const char *stoke_predictor_remark(const stoke_predictor *p, size_t index)
{
    return stoke_net_remark(p->net, index);
}

/* ---- one picture ---- */

static int mode_of(const stoke_predictor *p, uint32_t width, uint32_t height)
{
    if (p->restores) return STOKE_PREDICT_SLIDE;
    if (p->params.mode != STOKE_PREDICT_AUTO) return p->params.mode;
    const int large = width > stk_much_larger * p->width || height > stk_much_larger * p->height;
    const int possible = stk_raster_has(p->raster, p->height, p->width);
    return p->own_scale && large && possible ? STOKE_PREDICT_SLIDE : STOKE_PREDICT_RESIZE;
}

stoke_predict_plan stoke_predictor_plan(const stoke_predictor *p, uint32_t width, uint32_t height)
{
    stoke_predict_plan plan = { .mode = mode_of(p, width, height), .windows = 1 };
    const uint32_t tile[2] = { p->height, p->width };
    if (p->restores)
        plan.bytes = stk_restore_bytes(stoke_net_plan_used(p->net), tile, width, height, &plan.windows);
    else if (plan.mode == STOKE_PREDICT_SLIDE)
        plan.bytes = stk_slide_bytes(p, width, height, &plan.windows);
    else
        plan.bytes = (uint64_t)width * height * sizeof(uint16_t) + 3 * (uint64_t)p->width * p->height;
    return plan;
}

int stk_predict_check_image(const stoke_image *image, stoke_error *err)
{
    if (image->data && image->channels == 3 && (image->depth == 1 || image->depth == 2)) return STOKE_OK;
    return stk_fail(err, STOKE_E_INVALID, "a picture needs 3 channels of 1 or 2 bytes");
}

int stk_predict_check_mask(const stoke_predictor *p, uint32_t width, uint32_t height, const stoke_image *mask,
                           stoke_error *err)
{
    if (!width || !height || width > STK_PREDICT_SIDE || height > STK_PREDICT_SIDE)
        return stk_fail(err, STOKE_E_LIMIT, "a picture of %u x %u: 1 to %d pixels a side are predicted",
                        width, height, STK_PREDICT_SIDE);
    if (!mask->data || mask->channels != 1 || mask->width != width || mask->height != height)
        return stk_fail(err, STOKE_E_SIZE, "the mask must have 1 channel of %u x %u pixels, as the picture",
                        width, height);
    if (mask->depth != 2 && (mask->depth != 1 || p->classes > 256))
        return stk_fail(err, STOKE_E_INVALID, "a mask of %u classes needs %s", p->classes,
                        p->classes > 256 ? "2 bytes per pixel" : "1 or 2 bytes per pixel");
    return STOKE_OK;
}

/* Logits of one item with its mirror image merged, where there is one. */
static int merged_grid(stoke_predictor *p, const stoke_logits *logits, uint32_t item, stk_predict_grid *grid,
                       stoke_error *err)
{
    const size_t floats = (size_t)logits->height * logits->width * logits->stride;
    const uint32_t views = stk_predict_views(p), column = 0;
    *grid = (stk_predict_grid){ logits->data + item * views * floats, logits->height, logits->width };
    if (views == 1) return STOKE_OK;
    float *data = stk_buffer_reserve(&p->sums, floats * sizeof *data);
    if (!data) return stk_fail(err, STOKE_E_NOMEM, "no memory for the logits of two views");
    memset(data, 0, floats * sizeof *data);
    stoke_logits own = *logits;
    own.data = grid->data;
    const stk_predict_sums sums = { .data = data, .width = logits->width };
    stk_predict_add(p, &own, 1, &column, &sums);
    grid->data = data;
    return STOKE_OK;
}

int stk_predict_resized(stoke_predictor *p, const stoke_logits *logits, uint32_t item,
                        const stoke_image *mask, stoke_prediction *about, stoke_error *err)
{
    stk_predict_grid grid;
    const int status = merged_grid(p, logits, item, &grid, err);
    if (status) return status;
    const uint16_t *classes = stk_grid_classes(p, &grid, mask->width, mask->height, err);
    if (!classes) return STOKE_E_NOMEM;
    stk_grid_copy(classes, mask->width, mask->height, mask, 0);
    *about = (stoke_prediction){ .mode = STOKE_PREDICT_RESIZE, .windows = 1, .confidence = NAN, .loss = NAN };
    if (p->params.confidence)
        about->confidence = stk_grid_confidence(p, &grid, grid.height, grid.width) / grid.height / grid.width;
    return STOKE_OK;
}

static int fit(stoke_predictor *p, const stoke_image *image, stoke_image *fitted, stoke_error *err)
{
    *fitted = *image;
    if (image->width == p->width && image->height == p->height) return STOKE_OK;
    *fitted = (stoke_image){ .stride = (size_t)p->width * 3 * image->depth,
                             .width = p->width,
                             .height = p->height,
                             .channels = 3,
                             .depth = image->depth };
    fitted->data = stk_buffer_reserve(&p->fitted, fitted->stride * p->height);
    if (!fitted->data)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a picture of %u x %u", p->height, p->width);
    return stk_resize(p->resizer, image, fitted, err);
}

int stoke_predictor_run(stoke_predictor *p, const stoke_image *image, const stoke_image *mask,
                        stoke_prediction *about, stoke_progress_fn progress, void *context, stoke_error *err)
{
    return stk_predictor_run(p, image, NULL, mask, about, progress, context, err);
}

int stk_predictor_run(stoke_predictor *p, const stoke_image *image, const stoke_image *truth,
                      const stoke_image *mask, stoke_prediction *about, stoke_progress_fn progress,
                      void *context, stoke_error *err)
{
    stoke_prediction unused;
    stoke_image fitted;
    stoke_logits logits;
    if (!about) about = &unused;
    if (p->restores)
        return stk_fail(err, STOKE_E_INVALID,
                        "this network restores pictures: stoke_predictor_restore gives them");
    int status = stk_predict_check_image(image, err);
    if (!status) status = stk_predict_check_mask(p, image->width, image->height, mask, err);
    if (status) return status;
    if (mode_of(p, image->width, image->height) == STOKE_PREDICT_SLIDE)
        return stk_slide(p, image, truth, mask, about, progress, context, err);
    status = fit(p, image, &fitted, err);
    if (status) return status;
    stk_predict_put(p, 0, &fitted);
    status = stk_predict_pass(p, 1, &logits, err);
    if (!status) status = stk_predict_resized(p, &logits, 0, mask, about, err);
    if (!status && progress && progress(context, 1, 1))
        status = stk_fail(err, STOKE_E_CANCELLED, "stopped on request");
    return status;
}
