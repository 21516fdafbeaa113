/* SPDX-License-Identifier: Apache-2.0
 *
 * Training runs in one process: who was started as one of several by a launcher says so.
 */
#ifndef STOKE_CLI_LIB_ONE_PROCESS_H
#define STOKE_CLI_LIB_ONE_PROCESS_H

#include "cli/lib/common.h"

/* Refuses to be one of several processes that torchrun, srun or mpirun started: each would train the same
 * network by itself, in the same folder. */
int cli_require_one_process(stoke_error *err);

#endif
