/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kernel: the program as the library carries it (scripts/embed-kernels). kernels.def has their names.
 */
#ifndef STOKE_KERNELS_AUGMENT_H
#define STOKE_KERNELS_AUGMENT_H

#include "kernels/blur.h"
#include "kernels/clahe.h"
#include "kernels/elastic.h"
#include "kernels/render.h"
#include "kernels/mask.h"
#include "kernels/mix.h"
#include "kernels/noise.h"
#include "kernels/take.h"
#include "kernels/words.h"
#include "kernels/color.h"

#endif
