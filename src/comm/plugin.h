/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine from a file. libstoke itself needs no MPI.
 */
#ifndef STOKE_SRC_COMM_PLUGIN_H
#define STOKE_SRC_COMM_PLUGIN_H

#include <stoke/tools/comm.h>

/* The path of a plugin, or "mpi": libstoke-mpi.so where libstoke is. It stays loaded: MPI libraries leave
 * handlers and threads behind. On the thread that will own the engine, because a library may change how the
 * thread that loads it treats small numbers (flush to zero). */
int stk_plugin_load(const stoke_comm_engine **out, const char *name, stoke_error *err);

#endif
