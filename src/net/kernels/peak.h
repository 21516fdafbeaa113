/* SPDX-License-Identifier: Apache-2.0
 *
 * The processor's peak, measured.
 */
#ifndef STOKE_SRC_NET_KERNELS_PEAK_H
#define STOKE_SRC_NET_KERNELS_PEAK_H

#include "src/net/kernels/net_table.h"
#include "src/base/threadpool.h"

/* 1e9 operations per second of the whole team: the best of several rounds of about `seconds` altogether. */
double stk_peak_gflops(const stk_net_table *table, stk_threadpool *pool, stk_float type, double seconds);

#endif
