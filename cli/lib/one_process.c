/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/one_process.h"

#include <stdlib.h>

/* What launchers put into the environment of each process. Slurm's is that of a step (srun): a batch script
 * that starts one process has none. */
static const struct {
    const char *size, *rank, *launcher;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun" },
    { "PMI_SIZE", "PMI_RANK", "mpirun" },
    { "WORLD_SIZE", "RANK", "torchrun" },
    { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun" },
};

int cli_require_one_process(stoke_error *err)
{
    for (size_t i = 0; i < CLI_COUNT(launchers); i++) {
        const char *size = getenv(launchers[i].size), *rank = getenv(launchers[i].rank);
        const long n = size ? strtol(size, NULL, 10) : 0;
        if (n < 2) continue;
        return cli_error(
            err, STOKE_E_INVALID,
            "this is process %.20s of %ld, by %s (%s=%ld), and training runs in one process, on all cores of "
            "its machine. Start it once, without %s; where nothing launched it: env -u %s stoke train ...",
            rank ? rank : "n/a", n, launchers[i].launcher, launchers[i].size, n, launchers[i].launcher,
            launchers[i].size);
    }
    return STOKE_OK;
}
