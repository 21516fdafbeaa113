/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over a picture at its own scale.
 */
#ifndef STOKE_SRC_TRAIN_PREDICT_SLIDE_H
#define STOKE_SRC_TRAIN_PREDICT_SLIDE_H

#include "src/train/predict.h"

/* Bytes it will hold for such a picture, and how many windows there are. */
uint64_t stk_slide_bytes(const stoke_predictor *predictor, uint32_t width, uint32_t height,
                         uint64_t *windows);
/* The same before there is a network: overlap as stoke_predict_params has it by default. */
uint64_t stk_slide_windows(uint32_t width, uint32_t height, uint32_t window_width, uint32_t window_height);
/* truth may be NULL: then there is no about->loss. */
int stk_slide(stoke_predictor *predictor, const stoke_image *image, const stoke_image *truth,
              const stoke_image *mask, stoke_prediction *about, stoke_progress_fn progress, void *context,
              stoke_error *err);

#endif
