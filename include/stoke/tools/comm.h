/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that train together: the engine that carries bytes between them. An engine adds nothing and
 * rounds nothing; every sum is ours, in an order that does not depend on how many processes there are.
 *
 * An engine is a table of these functions: built in (threads of one process, for tests), a plugin (MPI:
 * comm_mpi.c, installed as source, so that any cluster can compile it against its own MPI), or handed in by a
 * binding (torch.distributed). One thread makes all calls to it, in the same order on every rank. No promise:
 * a plugin is compiled for the version it is used with.
 */
#ifndef STOKE_TOOLS_COMM_H
#define STOKE_TOOLS_COMM_H

#include <stoke/common.h>

enum { STOKE_COMM_ABI = 1, STOKE_COMM_PEERS = 4096 };

/* Where this process stands among all. */
typedef struct stoke_comm_place {
    uint32_t rank, world;
    char host[64];
    char library[128]; /* "Open MPI v4.1.4", for people */
} stoke_comm_place;

/* What goes to or comes from one peer; bytes 0: nothing. Below 2 GiB. */
typedef struct stoke_comm_part {
    void *data;
    size_t bytes;
} stoke_comm_part;

typedef struct stoke_comm_engine {
    uint32_t abi, struct_size; /* STOKE_COMM_ABI, sizeof */
    const char *name;          /* "mpi" */
    /* Joins the others; `place` says who this is. On failure *self is NULL. */
    int (*open)(void **self, stoke_comm_place *place, stoke_error *err);
    /* Begins to send send[q] to each rank q and to receive recv[q] from it; `world` entries each, those of
     * this rank are empty. What one rank sends, the other must expect: parts between two ranks go in the
     * order of the calls. Ranks that an exchange has nothing for leave it out: no call may count on that of a
     * rank that it has no bytes for. The two tables are the engine's until test() says done, the memory of
     * the parts stays the caller's and untouched. Never blocks. On failure there is no ticket, and the engine
     * is good for abort and close only. */
    int (*exchange)(void *self, const stoke_comm_part *send, const stoke_comm_part *recv, void **ticket,
                    stoke_error *err);
    /* Makes progress; *done 1: all has come and gone, and the ticket is freed. Never blocks. On failure the
     * ticket is freed, too, and the engine is good for abort and close only. */
    int (*test)(void *self, void *ticket, int *done, stoke_error *err);
    /* ranks[q] 1: something from or for q is still missing. */
    void (*missing)(void *self, void *ticket, uint8_t *ranks);
    /* Ends all processes on all hosts, this one too; may return where the engine cannot. */
    void (*abort)(void *self, int status);
    /* After the last exchange: waits for all ranks; after a failure, or with something still on its way, for
     * nobody. */
    void (*close)(void **self);
} stoke_comm_engine;

/* A plugin exports a function of this type under this name. */
typedef const stoke_comm_engine *stoke_comm_plugin_fn(void);
#define STOKE_COMM_PLUGIN "stoke_comm_plugin"

/* ---- which engine ---- */

typedef enum stoke_comm_launcher {
    STOKE_LAUNCHER_NONE = 0,
    STOKE_LAUNCHER_OPEN_MPI, /* mpirun of Open MPI */
    STOKE_LAUNCHER_PMI,      /* mpiexec of MPICH and its kin, srun --mpi=pmi2 */
    STOKE_LAUNCHER_PMIX,     /* srun --mpi=pmix */
    STOKE_LAUNCHER_SLURM,    /* a Slurm step that says nothing of PMI */
    STOKE_LAUNCHER_TORCHRUN  /* torchrun, accelerate launch, and others that set RANK and WORLD_SIZE */
} stoke_comm_launcher;

/* What the environment says, of the innermost launcher that started more than one process. It chooses the
 * engine and divides the cores; the engine's own answer counts. */
typedef struct stoke_comm_launch {
    stoke_comm_launcher launcher;
    uint32_t rank, world;             /* 0 of 1 without a launcher */
    uint32_t local_rank, local_world; /* on this host; local_world 0: not said */
} stoke_comm_launch;
STOKE_API stoke_comm_launch stoke_comm_launch_of(const char *(*get)(const char *name)); /* NULL: getenv */
STOKE_API const char *stoke_comm_launcher_name(stoke_comm_launcher launcher); /* "mpirun", "torchrun" */

/* An engine that a binding brings: used where `auto` or "c10d" chooses it. NULL takes it back. It must stay
 * until the last run is closed. */
STOKE_API void stoke_comm_offer(const stoke_comm_engine *engine);

#endif
