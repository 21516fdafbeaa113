/* SPDX-License-Identifier: Apache-2.0
 *
 * What a predictor has to know about the training: from the augmentation it was done with.
 */
#include "src/augment/pipeline.h"
#include "src/base/error.h"
#include "src/train/predict.h"

static int make_swap(stoke_predictor *p, const stoke_pipeline *pipeline, stoke_error *err)
{
    size_t n;
    const uint32_t(*pair)[2] = stk_pipeline_swap(pipeline, &n);
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

/* How values are normalised: as the training said, else as the files beside the weights, else ImageNet's. */
int stk_predict_learn(stoke_predictor *p, const char *augment, const stk_predict_preset *preset,
                      stoke_error *err)
{
    double mean[3], deviation[3];
    stk_writer_init(&p->writer, STOKE_DTYPE_F32, STOKE_LAYOUT_CHW, STOKE_NORMALIZE_IMAGENET);
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
