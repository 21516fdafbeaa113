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
int stk_slide(stoke_predictor *predictor, const stoke_image *image, const stoke_image *mask,
              stoke_prediction *about, stoke_progress_fn progress, void *context, stoke_error *err);

#endif
