/* SPDX-License-Identifier: Apache-2.0
 *
 * A pixel on its way through the steps: levels 0..255 as floats, whatever the depth of the file.
 */
#ifndef STOKE_KERNELS_PIXEL_H
#define STOKE_KERNELS_PIXEL_H

#include "kernels/compat.h"

typedef struct k_pixel {
    k_f32 r, g, b;
} k_pixel;

#endif
