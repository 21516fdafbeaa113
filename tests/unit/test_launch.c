/* SPDX-License-Identifier: Apache-2.0
 *
 * Launchers by what they put into the environment: who started this process, as which of how many, and how
 * many of them are on this host.
 */
#include "tests/unit/unit.h"

#include "src/base/launch.h"

/* The environment of the case that is tried: "NAME=value NAME=value". */
static const char *environment;

static const char *get(const char *name)
{
    static char value[64];
    const size_t length = strlen(name);
    for (const char *at = environment; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strncmp(at, name, length) != 0 || at[length] != '=') continue;
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
        return value;
    }
    return NULL;
}

typedef struct launch_case {
    const char *environment;
    stoke_comm_launch expected;
} launch_case;

static void try_all(const launch_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        environment = cases[i].environment;
        const stoke_comm_launch got = stoke_comm_launch_of(get), wanted = cases[i].expected;
        if (got.launcher != wanted.launcher || got.rank != wanted.rank || got.world != wanted.world ||
            got.local_rank != wanted.local_rank || got.local_world != wanted.local_world)
            fail_msg("%s: %s, %u of %u, here %u of %u", environment, stoke_comm_launcher_name(got.launcher),
                     got.rank, got.world, got.local_rank, got.local_world);
    }
}
#define TRY_ALL(cases) try_all(cases, sizeof(cases) / sizeof *(cases))

#define OPEN_MPI      "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 "
#define OPEN_MPI_HERE "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1"
#define SLURM         "SLURM_STEP_NUM_TASKS=7 SLURM_PROCID=6 SLURM_NODEID=3 SLURM_LOCALID=0 "
#define TORCHRUN      "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "

static void each_launcher_is_recognised(void **state)
{
    static const launch_case cases[] = {
        { OPEN_MPI OPEN_MPI_HERE " PMIX_RANK=3", { STOKE_LAUNCHER_OPEN_MPI, 3, 4, 1, 2 } },
        { "PMI_RANK=2 PMI_SIZE=3 MPI_LOCALNRANKS=3 MPI_LOCALRANKID=2", { STOKE_LAUNCHER_PMI, 2, 3, 2, 3 } },
        { "MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=4 "
          "MV2_COMM_WORLD_LOCAL_RANK=1 "
          "PMI_SIZE=4 PMI_RANK=1",
          { STOKE_LAUNCHER_PMI, 1, 4, 1, 4 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=2(x3),1 PMIX_RANK=6", { STOKE_LAUNCHER_PMIX, 6, 7, 0, 1 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=1,2(x3)", { STOKE_LAUNCHER_SLURM, 6, 7, 0, 2 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=2(x3),1 PMI_RANK=6 PMI_SIZE=7",
          { STOKE_LAUNCHER_PMI, 6, 7, 0, 1 } },
        { TORCHRUN "TORCHELASTIC_RUN_ID=none", { STOKE_LAUNCHER_TORCHRUN, 5, 8, 1, 4 } },
        { TORCHRUN, { STOKE_LAUNCHER_TORCHRUN, 5, 8, 1, 4 } },
    };
    TRY_ALL(cases);
}

/* One process is not several, whoever started it; a batch script's own names are no step. */
static void one_process_has_no_launcher(void **state)
{
    static const launch_case cases[] = {
        { "", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "RANK=0 WORLD_SIZE=1 LOCAL_WORLD_SIZE=4", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "SLURM_NTASKS=8 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=8",
          { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "LOCAL_WORLD_SIZE=4 LOCAL_RANK=1", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "PMIX_RANK=1 PMIX_NAMESPACE=a", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
    };
    TRY_ALL(cases);
}

/* srun or mpirun starts one torchrun per host, and mpiexec may run inside a step of another size. */
static void the_innermost_launcher_counts(void **state)
{
    static const launch_case cases[] = {
        { "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=0 PMI_SIZE=2 PMI_RANK=1 "
          "TORCHELASTIC_RUN_ID=a " TORCHRUN,
          { STOKE_LAUNCHER_TORCHRUN, 5, 8, 1, 4 } },
        { "OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 " TORCHRUN,
          { STOKE_LAUNCHER_TORCHRUN, 5, 8, 1, 4 } },
        { "RANK=1 WORLD_SIZE=4 LOCAL_WORLD_SIZE=1 LOCAL_RANK=0 " OPEN_MPI OPEN_MPI_HERE,
          { STOKE_LAUNCHER_OPEN_MPI, 3, 4, 1, 2 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=2(x3),1 PMI_RANK=3 PMI_SIZE=14",
          { STOKE_LAUNCHER_PMI, 3, 14, 0, 0 } },
    };
    TRY_ALL(cases);
}

static void nonsense_divides_nothing(void **state)
{
    static const launch_case cases[] = {
        { "WORLD_SIZE=4", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "WORLD_SIZE=4 RANK=4", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "WORLD_SIZE=-4 RANK=0", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "WORLD_SIZE=99999999999 RANK=0", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "WORLD_SIZE=four RANK=0", { STOKE_LAUNCHER_NONE, 0, 1, 0, 0 } },
        { "WORLD_SIZE=4 RANK=1", { STOKE_LAUNCHER_TORCHRUN, 1, 4, 0, 0 } },
        { "WORLD_SIZE=4 RANK=1 LOCAL_RANK=1", { STOKE_LAUNCHER_TORCHRUN, 1, 4, 1, 0 } },
        { "WORLD_SIZE=4 RANK=1 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", { STOKE_LAUNCHER_TORCHRUN, 1, 4, 2, 0 } },
        { "WORLD_SIZE=4 RANK=1 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8", { STOKE_LAUNCHER_TORCHRUN, 1, 4, 1, 0 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=2(x3)", { STOKE_LAUNCHER_SLURM, 6, 7, 0, 0 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=2(x", { STOKE_LAUNCHER_SLURM, 6, 7, 0, 0 } },
        { SLURM "SLURM_STEP_TASKS_PER_NODE=,,", { STOKE_LAUNCHER_SLURM, 6, 7, 0, 0 } },
        { SLURM, { STOKE_LAUNCHER_SLURM, 6, 7, 0, 0 } },
    };
    TRY_ALL(cases);
}

static void names_are_the_commands(void **state)
{
    assert_string_equal(stoke_comm_launcher_name(STOKE_LAUNCHER_NONE), "none");
    assert_string_equal(stoke_comm_launcher_name(STOKE_LAUNCHER_OPEN_MPI), "mpirun");
    assert_string_equal(stoke_comm_launcher_name(STOKE_LAUNCHER_PMIX), "srun");
    assert_string_equal(stoke_comm_launcher_name(STOKE_LAUNCHER_TORCHRUN), "torchrun");
    assert_string_equal(stoke_comm_launcher_name((stoke_comm_launcher)77), "none");
    assert_null(stk_launcher_unbind(STOKE_LAUNCHER_TORCHRUN));
}

UNIT_GROUP(launch)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_launcher_is_recognised),   cmocka_unit_test(one_process_has_no_launcher),
        cmocka_unit_test(the_innermost_launcher_counts), cmocka_unit_test(nonsense_divides_nothing),
        cmocka_unit_test(names_are_the_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
