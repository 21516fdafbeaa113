/* SPDX-License-Identifier: Apache-2.0
 *
 * What launchers put into the environment of each process they start.
 */
#include "src/base/launch.h"

#include <stdlib.h>
#include <string.h>

#include "src/base/number.h"

typedef const char *environment(const char *name);

static const char *own_environment(const char *name)
{
    return getenv(name);
}

/* The names of one launcher; `mark` must be set, too, where it has one. */
typedef struct launcher_names {
    stoke_comm_launcher launcher;
    const char *mark, *world, *rank, *local_world, *local_rank;
} launcher_names;

/* The first that started more than one process counts. torchrun's own mark comes before all: on clusters srun
 * or mpirun starts one torchrun per host, and each of them starts the processes; their names are all
 * inherited. Without the mark RANK and WORLD_SIZE are the last: scripts set them from the names of other
 * launchers. SLURM_NTASKS and SLURM_PROCID alone say nothing: a batch script that starts one process has
 * them, too. */
static const launcher_names known[] = {
    { STOKE_LAUNCHER_TORCHRUN, "TORCHELASTIC_RUN_ID", "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE",
      "LOCAL_RANK" },
    { STOKE_LAUNCHER_OPEN_MPI, NULL, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK" },
    { STOKE_LAUNCHER_PMI, NULL, "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
      "MV2_COMM_WORLD_LOCAL_RANK" },
    { STOKE_LAUNCHER_PMI, NULL, "PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID" },
    { STOKE_LAUNCHER_PMIX, NULL, "SLURM_STEP_NUM_TASKS", "PMIX_RANK", NULL, "SLURM_LOCALID" },
    { STOKE_LAUNCHER_SLURM, NULL, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", NULL, "SLURM_LOCALID" },
    { STOKE_LAUNCHER_TORCHRUN, NULL, "WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK" },
};

/* 0 and *value untouched: `name` is not set, or to no count. */
static int count_of(environment *get, const char *name, uint32_t *value)
{
    const char *text = name ? get(name) : NULL;
    int64_t number;
    if (!text || !stk_parse_int(text, &number) || number < 0 || number > INT32_MAX) return 0;
    *value = (uint32_t)number;
    return 1;
}

/* Tasks of node `node` in a list such as "2(x3),1": three nodes with two, and one with one. 0: not in it. */
static uint32_t tasks_of_node(const char *list, uint32_t node)
{
    while (*list) {
        char *end;
        const unsigned long tasks = strtoul(list, &end, 10);
        unsigned long nodes = 1;
        if (end == list) return 0;
        if (!strncmp(end, "(x", 2)) nodes = strtoul(end + 2, &end, 10);
        if (node < nodes) return tasks <= INT32_MAX ? (uint32_t)tasks : 0;
        node -= (uint32_t)nodes;
        list = strchr(end, ',');
        if (!list) return 0;
        list++;
    }
    return 0;
}

/* MPI under srun says nothing of the host, but the Slurm step does. A step of another size is not the one
 * that started these processes: mpiexec runs one of its own per host. */
static void read_slurm_node(stoke_comm_launch *launch, environment *get)
{
    uint32_t tasks, rank, node;
    if (!count_of(get, "SLURM_STEP_NUM_TASKS", &tasks) || tasks != launch->world ||
        !count_of(get, "SLURM_PROCID", &rank) || rank != launch->rank ||
        !count_of(get, "SLURM_NODEID", &node))
        return;
    count_of(get, "SLURM_LOCALID", &launch->local_rank);
    const char *list = get("SLURM_STEP_TASKS_PER_NODE");
    launch->local_world = list ? tasks_of_node(list, node) : 0;
}

static int read_launch(stoke_comm_launch *launch, const launcher_names *names, environment *get)
{
    if (names->mark && !get(names->mark)) return 0;
    stoke_comm_launch found = { .launcher = names->launcher };
    if (!count_of(get, names->world, &found.world) || found.world < 2 ||
        !count_of(get, names->rank, &found.rank) || found.rank >= found.world)
        return 0;
    count_of(get, names->local_rank, &found.local_rank);
    if (!count_of(get, names->local_world, &found.local_world)) read_slurm_node(&found, get);
    if (found.local_world > found.world || found.local_rank >= found.local_world) found.local_world = 0;
    *launch = found;
    return 1;
}

stoke_comm_launch stoke_comm_launch_of(const char *(*get)(const char *name))
{
    stoke_comm_launch launch = { .launcher = STOKE_LAUNCHER_NONE, .world = 1 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (read_launch(&launch, &known[i], get ? get : own_environment)) break;
    return launch;
}

static const struct {
    const char *name, *unbind;
} launchers[] = {
    [STOKE_LAUNCHER_NONE] = { "none", NULL },
    [STOKE_LAUNCHER_OPEN_MPI] = { "mpirun", "--bind-to none, or --map-by slot:PE=N" },
    [STOKE_LAUNCHER_PMI] = { "mpiexec", "-bind-to none" },
    [STOKE_LAUNCHER_PMIX] = { "srun", "--cpu-bind=none, or --cpus-per-task=N" },
    [STOKE_LAUNCHER_SLURM] = { "srun", "--cpu-bind=none, or --cpus-per-task=N" },
    [STOKE_LAUNCHER_TORCHRUN] = { "torchrun", NULL },
};

const char *stoke_comm_launcher_name(stoke_comm_launcher launcher)
{
    const size_t n = sizeof launchers / sizeof *launchers;
    return launchers[(size_t)launcher < n ? launcher : STOKE_LAUNCHER_NONE].name;
}

const char *stk_launcher_unbind(stoke_comm_launcher launcher)
{
    const size_t n = sizeof launchers / sizeof *launchers;
    return launchers[(size_t)launcher < n ? launcher : STOKE_LAUNCHER_NONE].unbind;
}
