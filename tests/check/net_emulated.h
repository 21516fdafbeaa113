/* SPDX-License-Identifier: Apache-2.0
 *
 * The columns of src/net that are compiled a third time through emulation (src/net/kernels/simd_emulated.h
 * and tiles_emulated.h), for processors with AVX2 that lack AVX-512 or AMX.
 */
#ifndef STOKE_TESTS_CHECK_NET_EMULATED_H
#define STOKE_TESTS_CHECK_NET_EMULATED_H

#include "src/net/kernels/net_table.h"

void net_fill_emulated_avx512(stk_net_table *table);
void net_fill_emulated_amx(stk_net_table *table);

#endif
