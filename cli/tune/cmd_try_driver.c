/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke try-driver: asks a driver for its devices, in a process that may end any way it likes. Hidden: the
 * library starts it before it loads a driver (src/base/driver_probe.h), and looks at how it ended.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stoke/tools/device.h>
#include <stoke/tools/probe.h>

#include "cli/lib/common.h"

/* A machine with many cards that nobody keeps awake takes some seconds. */
enum { PATIENCE_SECONDS = 30 };

static int run(cli_call *call, stoke_error *err)
{
    const char *kind = call->n_words ? call->words[0] : "", *file = call->n_words > 1 ? call->words[1] : NULL;
    stoke_device_list *devices = NULL;
    stoke_gpus *cards = NULL;
    int r;
    /* Nobody looks after it: it leaves no core file, ends with its parent, and ends by itself. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE_SECONDS);
    unsetenv("STOKE_DRIVER_PROBE"); /* this is the trial */
    if (!strcmp(kind, "nvml")) {
        stoke_gpus_params params = stoke_gpus_defaults();
        params.nvml = file;
        r = stoke_gpus_open(&cards, &params, err);
    } else {
        r = stoke_device_list_create_kind(&devices, kind, err);
    }
    if (r) return r;
    _exit(CLI_OK); /* what a driver does at the end is not asked */
}

const cli_command cli_try_driver = {
    .summary = "asks a driver for its devices, before it is loaded",
    .description = "Ends with 0, or as the driver makes it end.",
    .arguments = "opencl|cuda|nvml [FILE]",
    .max_words = 2,
    .examples = {
        { "stoke try-driver opencl", "silent where all is well" },
    },
    .run = run,
};
