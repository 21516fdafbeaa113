/* SPDX-License-Identifier: Apache-2.0 */
#include "src/comm/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "src/base/error.h"

#define MPI_FILE "libstoke-mpi.so"

/* Seen from the folder of the program or library that has this code: beside an installed libstoke; beside the
 * bin of a program that has libstoke inside; in a build folder. */
static const char *const places[] = { "stoke/" MPI_FILE, "../lib/stoke/" MPI_FILE, "../plugins/" MPI_FILE };

/* A file of ours is not asked for with patience: it was installed with the library or it was not. */
static int find_mpi(char *path, size_t size, stoke_error *err)
{
    Dl_info self;
    char real[PATH_MAX];
    const char *file = dladdr((void *)(uintptr_t)stk_plugin_load, &self) ? self.dli_fname : "";
    if (!strchr(file, '/')) file = "/proc/self/exe"; /* a program that was found by PATH */
    char *slash = realpath(file, real) ? strrchr(real, '/') : NULL;
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
        if ((size_t)snprintf(path, size, "%s/%s", real, places[i]) < size && !access(path, R_OK))
            return STOKE_OK;
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "this build has no " MPI_FILE " (looked for in %s/stoke): compile share/stoke/comm_mpi.c "
                    "with the MPI of this machine (mpicc -shared -fPIC -O2 comm_mpi.c -o " MPI_FILE
                    ") and give its path, or build Stokehold where mpi.h is",
                    slash ? real : "?");
}

int stk_plugin_load(const stoke_comm_engine **out, const char *name, stoke_error *err)
{
    char found[PATH_MAX];
    *out = NULL;
    if (!strcmp(name, "mpi")) {
        const int r = find_mpi(found, sizeof found, err);
        if (r) return r;
        name = found;
    }
    /* Global: parts that an MPI library loads for itself look for its symbols there. */
    void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (!library) {
        const char *why = dlerror();
        return stk_fail(err, STOKE_E_NOTFOUND, "%s cannot be loaded: %s", name, why ? why : "unknown reason");
    }
    stoke_comm_plugin_fn *plugin = NULL;
    *(void **)&plugin = dlsym(library, STOKE_COMM_PLUGIN);
    if (!plugin)
        return stk_fail(err, STOKE_E_FORMAT, "%s is no engine for processes: it has no " STOKE_COMM_PLUGIN,
                        name);
    const stoke_comm_engine *engine = plugin();
    if (engine->abi != STOKE_COMM_ABI || engine->struct_size < sizeof *engine)
        return stk_fail(err, STOKE_E_UNSUPPORTED,
                        "%s is made for another version of Stokehold (its table is %u, here it is %d): "
                        "compile comm_mpi.c of this version",
                        name, engine->abi, STOKE_COMM_ABI);
    *out = engine;
    return STOKE_OK;
}
