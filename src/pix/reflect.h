/* SPDX-License-Identifier: Apache-2.0
 *
 * The border of filters, which kernels define for every reader.
 */
#ifndef STOKE_SRC_PIX_REFLECT_H
#define STOKE_SRC_PIX_REFLECT_H

#include "kernels/reflect.h"

static inline uint32_t stk_reflect(int64_t at, uint32_t size)
{
    return k_reflect(at, size);
}

#endif
