/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STOKE_SRC_PIX_MIX_H
#define STOKE_SRC_PIX_MIX_H

#include "src/pix/pix_table.h"

/* The reference, by element type. */
stk_mix_fn stk_mix_u8_c, stk_mix_f32_c, stk_mix_f16_c, stk_mix_bf16_c;

#endif
