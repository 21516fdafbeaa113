/* SPDX-License-Identifier: Apache-2.0
 *
 * How many processes a launcher started, and which this is. The functions are public: <stoke/tools/comm.h>.
 * They live here because the cores of a host are divided among its processes below every other room.
 */
#ifndef STOKE_SRC_BASE_LAUNCH_H
#define STOKE_SRC_BASE_LAUNCH_H

#include <stoke/tools/comm.h>

/* What undoes a binding to fewer cores than a process could have, in the launcher's own words: "--bind-to
 * none". NULL for launchers that bind nothing. */
const char *stk_launcher_unbind(stoke_comm_launcher launcher);

#endif
