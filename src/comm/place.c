/* SPDX-License-Identifier: Apache-2.0
 *
 * Which launcher started this process: what each of them leaves in the environment.
 */
#include <stoke/tools/comm.h>

#include <stdlib.h>
#include <string.h>

typedef const char *getter(const char *name);

static const char *from_environment(const char *name)
{
    return getenv(name);
}

/* A whole number without sign; 0 if there is none by that name. */
static int number_of(getter *get, const char *name, uint32_t *number)
{
    const char *text = name ? get(name) : NULL;
    if (!text || !*text || strlen(text) > 9 || text[strspn(text, "0123456789")]) return 0;
    *number = (uint32_t)strtoul(text, NULL, 10);
    return 1;
}

/* Slurm's "2(x3),1": the tasks of the node with that number. 0: not said. */
static uint32_t slurm_tasks(const char *text, uint32_t node)
{
    while (text && *text) {
        char *end;
        const unsigned long tasks = strtoul(text, &end, 10);
        unsigned long nodes = 1;
        if (end == text) return 0;
        if (!strncmp(end, "(x", 2)) {
            nodes = strtoul(end + 2, &end, 10);
            end += *end == ')';
        }
        if (node < nodes) return (uint32_t)tasks;
        node -= (uint32_t)nodes;
        text = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

/* Names of variables. `mark` must be there, whatever its value; NULL: none. Without names of local ones they
 * are Slurm's, which says them to every task of a step. */
typedef struct variables {
    stoke_comm_launcher launcher;
    const char *mark, *rank, *world, *local_rank, *local_world;
} variables;

/* The first that says more than one process counts. torchrun's own mark comes before all: `srun torchrun`
 * leaves the step's variables in place, which count torchruns. Without that mark RANK comes last: scripts set
 * it for PyTorch from what srun says. Of Slurm's only a step's variables count: sbatch sets SLURM_NTASKS and
 * SLURM_PROCID in the batch script itself, which is one process. PMIX_RANK alone does not say of how many. */
static const variables known[] = {
    { STOKE_LAUNCHER_TORCHRUN, "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK",
      "LOCAL_WORLD_SIZE" },
    { STOKE_LAUNCHER_OPEN_MPI, NULL, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { STOKE_LAUNCHER_PMI, NULL, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
      "MV2_COMM_WORLD_LOCAL_SIZE" },
    { STOKE_LAUNCHER_PMI, "MPI_LOCALNRANKS", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
    { STOKE_LAUNCHER_PMI, NULL, "PMI_RANK", "PMI_SIZE", NULL, NULL },
    { STOKE_LAUNCHER_PMIX, "PMIX_RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL },
    { STOKE_LAUNCHER_SLURM, NULL, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, NULL },
    { STOKE_LAUNCHER_TORCHRUN, "MASTER_ADDR", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
};

static int said_by(getter *get, const variables *v, stoke_comm_launch *launch)
{
    uint32_t rank, world, node;
    if (v->mark && !get(v->mark)) return 0;
    if (!number_of(get, v->rank, &rank) || !number_of(get, v->world, &world)) return 0;
    if (world < 2 || rank >= world) return 0;
    *launch = (stoke_comm_launch){ .launcher = v->launcher, .rank = rank, .world = world };
    uint32_t local_rank = 0, local_world = 0;
    const int local = number_of(get, v->local_rank ? v->local_rank : "SLURM_LOCALID", &local_rank);
    if (v->local_world)
        number_of(get, v->local_world, &local_world);
    else if (number_of(get, "SLURM_NODEID", &node))
        local_world = slurm_tasks(get("SLURM_STEP_TASKS_PER_NODE"), node);
    if (local && local_rank < local_world && local_world <= world) {
        launch->local_rank = local_rank;
        launch->local_world = local_world;
    }
    return 1;
}

stoke_comm_launch stoke_comm_launch_of(const char *(*get)(const char *name))
{
    stoke_comm_launch launch;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (said_by(get ? get : from_environment, &known[i], &launch)) return launch;
    return (stoke_comm_launch){ .launcher = STOKE_LAUNCHER_NONE, .world = 1 };
}

const char *stoke_comm_launcher_name(stoke_comm_launcher launcher)
{
    switch (launcher) {
    case STOKE_LAUNCHER_NONE: return "none";
    case STOKE_LAUNCHER_OPEN_MPI: return "mpirun";
    case STOKE_LAUNCHER_PMI: return "mpiexec";
    case STOKE_LAUNCHER_PMIX:
    case STOKE_LAUNCHER_SLURM: return "srun";
    case STOKE_LAUNCHER_TORCHRUN: return "torchrun";
    }
    return "unknown";
}
