/* SPDX-License-Identifier: Apache-2.0
 *
 * A driver is somebody else's code in our process, and some end it: PoCL aborts where /sys is missing. So it
 * is asked for its devices in another process first, and not loaded here when that one dies of it.
 *
 * The other process is the command, `stoke try-driver`: a fork of this one would have threads that stand
 * still and locks that nobody opens. STOKE_DRIVER_PROBE names the command's file; the command sets it for
 * itself, the Python package to the one it brings. Empty or not set: nothing is tried.
 */
#ifndef STOKE_SRC_BASE_DRIVER_PROBE_H
#define STOKE_SRC_BASE_DRIVER_PROBE_H

#include <stoke/common.h>

typedef enum stk_driver { STK_DRIVER_OPENCL, STK_DRIVER_CUDA, STK_DRIVER_NVML, STK_DRIVERS } stk_driver;

/* Call before loading `file` (NULL: the usual one), from any thread. The first call for a file starts the
 * process and waits for it; its verdict is kept. STOKE_OK: it may be loaded, as far as could be found out.
 * STOKE_E_NOTFOUND: it crashed, or did not answer until the command lost patience. */
int stk_driver_probe(stk_driver driver, const char *file, stoke_error *err);

#endif
