/* SPDX-License-Identifier: Apache-2.0
 *
 * Which launcher started a process: environments of real launchers, and what looks like one and is none.
 */
#include "tests/unit/unit.h"

#include <stoke/tools/comm.h>

/* "NAME=value" of the row that is asked for. */
static const char *const *row;

static const char *get(const char *name)
{
    const size_t n = strlen(name);
    for (const char *const *entry = row; *entry; entry++)
        if (!strncmp(*entry, name, n) && (*entry)[n] == '=') return *entry + n + 1;
    return NULL;
}

static const struct {
    const char *what;
    const char *environment[12];
    stoke_comm_launch launch;
} rows[] = {
    { "nothing", { "HOME=/root" }, { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
    { "mpirun of Open MPI 4",
      { "OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=3" },
      { STOKE_LAUNCHER_OPEN_MPI, 3, 4, 1, 2 } },
    { "mpirun in a Slurm allocation, whose daemons srun started",
      { "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
        "OMPI_COMM_WORLD_LOCAL_SIZE=4", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "PMIX_RANK=1" },
      { STOKE_LAUNCHER_OPEN_MPI, 1, 8, 1, 4 } },
    { "mpirun of one", { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1" }, { 0, 0, 1, 0, 0 } },
    { "mpiexec of MPICH",
      { "PMI_RANK=2", "PMI_SIZE=3", "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=3" },
      { STOKE_LAUNCHER_PMI, 2, 3, 2, 3 } },
    { "MVAPICH",
      { "MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=0",
        "MV2_COMM_WORLD_LOCAL_SIZE=1" },
      { STOKE_LAUNCHER_PMI, 1, 2, 0, 1 } },
    { "srun --mpi=pmi2",
      { "PMI_RANK=5", "PMI_SIZE=6", "SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NODEID=1",
        "SLURM_STEP_NUM_TASKS=6", "SLURM_STEP_TASKS_PER_NODE=4,2" },
      { STOKE_LAUNCHER_PMI, 5, 6, 1, 2 } },
    { "srun --mpi=pmix",
      { "PMIX_RANK=7", "SLURM_PROCID=7", "SLURM_LOCALID=0", "SLURM_NODEID=3", "SLURM_STEP_NUM_TASKS=8",
        "SLURM_STEP_TASKS_PER_NODE=2(x3),1,1" },
      { STOKE_LAUNCHER_PMIX, 7, 8, 0, 1 } },
    { "srun",
      { "SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_NODEID=0", "SLURM_STEP_NUM_TASKS=2",
        "SLURM_STEP_TASKS_PER_NODE=2" },
      { STOKE_LAUNCHER_SLURM, 1, 2, 1, 2 } },
    { "the script of sbatch",
      { "SLURM_NTASKS=8", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_TASKS_PER_NODE=4(x2)" },
      { 0, 0, 1, 0, 0 } },
    { "srun --pty bash", { "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1" }, { 0, 0, 1, 0, 0 } },
    { "PMIx without a number of processes", { "PMIX_RANK=1" }, { 0, 0, 1, 0, 0 } },
    { "torchrun",
      { "TORCHELASTIC_RUN_ID=none", "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
        "MASTER_ADDR=a" },
      { STOKE_LAUNCHER_TORCHRUN, 1, 2, 1, 2 } },
    { "srun torchrun: two of them, each of four",
      { "TORCHELASTIC_RUN_ID=7", "RANK=6", "WORLD_SIZE=8", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=4",
        "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "PMI_RANK=1", "PMI_SIZE=2" },
      { STOKE_LAUNCHER_TORCHRUN, 6, 8, 2, 4 } },
    { "a launcher that sets what torchrun sets",
      { "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=1" },
      { STOKE_LAUNCHER_TORCHRUN, 0, 2, 0, 0 } },
    { "a script that says RANK to srun's tasks",
      { "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "PMIX_RANK=1", "SLURM_PROCID=1",
        "SLURM_STEP_NUM_TASKS=2" },
      { STOKE_LAUNCHER_PMIX, 1, 2, 0, 0 } },
    { "RANK of something else", { "RANK=3", "WORLD_SIZE=4" }, { 0, 0, 1, 0, 0 } },
    { "no numbers", { "PMI_RANK=x", "PMI_SIZE=4" }, { 0, 0, 1, 0, 0 } },
    { "a rank beyond the world", { "PMI_RANK=4", "PMI_SIZE=4" }, { 0, 0, 1, 0, 0 } },
    { "a number no counter holds", { "PMI_RANK=0", "PMI_SIZE=99999999999999999999" }, { 0, 0, 1, 0, 0 } },
    { "nonsense about nodes",
      { "SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_NODEID=1", "SLURM_STEP_NUM_TASKS=2",
        "SLURM_STEP_TASKS_PER_NODE=(x," },
      { STOKE_LAUNCHER_SLURM, 1, 2, 0, 0 } },
};

static void every_environment_is_told(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        row = rows[i].environment;
        const stoke_comm_launch said = stoke_comm_launch_of(get), *is = &rows[i].launch;
        if (said.launcher != is->launcher || said.rank != is->rank || said.world != is->world ||
            said.local_rank != is->local_rank || said.local_world != is->local_world)
            fail_msg("%s: %s, %u of %u, here %u of %u", rows[i].what, stoke_comm_launcher_name(said.launcher),
                     said.rank, said.world, said.local_rank, said.local_world);
    }
}

static void the_environment_of_this_process_is_asked(void **state)
{
    setenv("MV2_COMM_WORLD_RANK", "1", 1);
    setenv("MV2_COMM_WORLD_SIZE", "7", 1);
    const stoke_comm_launch said = stoke_comm_launch_of(NULL);
    unsetenv("MV2_COMM_WORLD_RANK");
    unsetenv("MV2_COMM_WORLD_SIZE");
    assert_int_equal(said.world, 7);
    assert_string_equal(stoke_comm_launcher_name(said.launcher), "mpiexec");
    assert_int_equal(stoke_comm_launch_of(NULL).world, 1);
}

UNIT_GROUP(comm_place)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_environment_is_told),
        cmocka_unit_test(the_environment_of_this_process_is_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
