/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke devices: what there is, and why something is not.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/page.h"

/* What "auto" comes to here, found by taking it; "" when even the host does not open. */
static void name_of_auto(char *name, size_t size)
{
    stoke_device *device;
    *name = 0;
    if (stoke_device_open(&device, "auto", NULL, NULL)) return;
    snprintf(name, size, "%s", stoke_device_describe(device)->name);
    stoke_device_close(&device);
}

static void print_usable(cli_page *page, const stoke_device_info *info)
{
    const int cut = strlen(info->driver) >= 64; /* --json has all of it */
    CLI_PAGE_ROW(page, CELL("device", FACT_OF(info, name)), CELL_FACT(FACT_IS("usable", 1)),
                 CELL_FACT(FACT_TEXT("problem", "")), CELL("title", FACT_OF(info, title)),
                 CELL_AS("memory", FACT_COUNT("memory_bytes", info->memory_bytes), "%.1f GiB",
                         (double)info->memory_bytes / (1 << 30)),
                 CELL("units", FACT_COUNT("compute_units", info->compute_units)),
                 CELL("times", FACT("source", info->emulated ? "emulated" : "measured")),
                 CELL_AS("bytes", FACT_IS_OF(info, exact_math), info->exact_math ? "equal" : "nearly"),
                 CELL_AS("driver", FACT_OF(info, driver), "%.60s%s", info->driver, cut ? "..." : ""),
                 CELL_FACT(FACT_IS_OF(info, shares_memory)), CELL_FACT(FACT_IS_OF(info, shares_cores)));
}

static void print(const cli_call *call, const stoke_device_list *list)
{
    cli_page about, *page = &about;
    stoke_device_info info;
    int problems = 0;
    char name[32];
    name_of_auto(name, sizeof name);
    cli_page_begin(page, call->common.json);
    CLI_PAGE_FACTS(page, FACT_TEXT("auto", name));
    cli_page_table(page, "devices");
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++) {
        problems += *info.problem != 0;
        if (*info.problem)
            CLI_PAGE_ROW(page, CELL_FACT(FACT_OF(&info, name)), CELL_FACT(FACT_IS("usable", 0)),
                         CELL_FACT(FACT_OF(&info, problem)));
        else
            print_usable(page, &info);
    }
    cli_page_table_end(page);
    if (problems) cli_page_say(page, "\nCannot be used:\n");
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++)
        if (*info.problem) cli_page_say(page, "%-8s  %s\n", info.name, info.problem);
    if (*name)
        cli_page_say(page, "\n--device auto takes %s. `stoke selftest --device %s` proves it.\n", name, name);
    cli_page_end(page);
}

static int run(cli_call *call, stoke_error *err)
{
    stoke_device_list *list;
    const int r = stoke_device_list_create(&list, err);
    if (r) return r;
    print(call, list);
    stoke_device_list_destroy(&list);
    return CLI_OK;
}

const cli_command cli_devices = {
    .summary = "list the devices batches can be fed to, and why one is missing",
    .description =
        "Lists every device by the name that --device takes: the host, NVIDIA cards (cuda), OpenCL devices, "
        "and simulated GPUs (sim), whose times are a model's and always say emulated. bytes: equal means "
        "that batches augmented there have the same bytes as on the host; nearly, that quotients and roots "
        "may differ in the last place. units are compute units as the driver counts them. Drivers are opened "
        "at run time: install one, and its devices appear here without building anything again.",
    .examples = {
        { "stoke devices", "what batches can be fed to, and for what is missing what to do" },
        { "stoke devices --json", "the same for programs" },
    },
    .run = run,
};
