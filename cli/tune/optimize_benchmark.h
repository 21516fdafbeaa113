/* SPDX-License-Identifier: Apache-2.0
 *
 * optimize --benchmark: the batch by trials, of the settings as they will be written.
 */
#ifndef STOKE_CLI_TUNE_OPTIMIZE_BENCHMARK_H
#define STOKE_CLI_TUNE_OPTIMIZE_BENCHMARK_H

#include "cli/tune/find_batch.h"
#include "cli/lib/output.h"
#include <stoke/tools/optimize.h>

typedef struct optimize_benchmark {
    find_batch search;
    char folder[CLI_PATH]; /* of the settings that are tried; gone at the end */
    char file[CLI_PATH + 32];
    char device[64], why[256];
    int ran, left; /* left: no trials could be made, and the batch stays */
} optimize_benchmark;

/* Searches with what `plan` would write, and fills the measured fields of params. search.wish and the like
 * are the caller's to fill; search.wish.device NULL: the simulated GPU that params.gpu names, or native.
 * Where no trials can be made, or none fits, the measured fields stay 0 and why is said. */
int optimize_benchmark_run(optimize_benchmark *b, stoke_optimization *plan, stoke_optimize_params *params,
                           stoke_error *err);
void optimize_benchmark_free(optimize_benchmark *b);

#endif
