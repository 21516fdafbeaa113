/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of <stoke/tools/commbench.h> among ranks that have joined already.
 */
#ifndef STOKE_SRC_COMM_COMM_BENCH_H
#define STOKE_SRC_COMM_COMM_BENCH_H

#include "src/comm/comm.h"
#include <stoke/tools/commbench.h>

/* On every rank; `each` is called on rank 0. */
int stk_comm_bench_on(stk_comm *comm, const stoke_comm_bench_params *params, stoke_comm_bench_fn each,
                      void *context, stoke_comm_bench_report *report, stoke_error *err);

#endif
