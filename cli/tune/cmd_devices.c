/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke devices: what there is, and why something is not.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"

/* What "auto" comes to here, found by taking it; "" when even the host does not open. */
static void name_of_auto(char *name, size_t size)
{
    stoke_device *device;
    *name = 0;
    if (stoke_device_open(&device, "auto", NULL, NULL)) return;
    snprintf(name, size, "%s", stoke_device_describe(device)->name);
    stoke_device_close(&device);
}

/* ---- for people ---- */

static void print_table(const stoke_device_list *list)
{
    stoke_table *table = CLI_TABLE("device", "title", "memory", "units", "times", "bytes", "driver");
    stoke_device_info info;
    int problems = 0;
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++) {
        char memory[32] = "n/a", units[16] = "n/a";
        const int cut = strlen(info.driver) >= 64; /* --json has all of it */
        if (info.compute_units) snprintf(units, sizeof units, "%u", info.compute_units);
        if (info.memory_bytes)
            snprintf(memory, sizeof memory, "%.1f GiB", (double)info.memory_bytes / (1 << 30));
        if (*info.problem)
            problems++;
        else
            cli_row(table, "%s\t%s\t%s\t%s\t%s\t%s\t%.60s%s", info.name, info.title, memory, units,
                    info.emulated ? "emulated" : "measured", info.exact_math ? "equal" : "nearly",
                    info.driver, cut ? "..." : "");
    }
    cli_table_end(table);
    if (problems) puts("\nCannot be used:");
    for (size_t i = 0; stoke_device_list_at(list, i, &info); i++)
        if (*info.problem) cli_print("%-8s  %s\n", info.name, info.problem);
    char name[32];
    name_of_auto(name, sizeof name);
    if (*name) cli_print("\n--device auto takes %s. `stoke selftest --device %s` proves it.\n", name, name);
}

/* ---- for programs ---- */

static void print_json(const stoke_device_list *list)
{
    stoke_device_info info;
    char name[32];
    name_of_auto(name, sizeof name);
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_TEXT("auto", name));
    JSON_LIST(&json, "devices", i, stoke_device_list_at(list, i, &info)) {
        stoke_json_object(&json, NULL);
        FACTS(&json, FACT_OF(&info, name), FACT_IS("usable", !*info.problem),
              FACT_TEXT("problem", info.problem));
        if (!*info.problem)
            FACTS(&json, FACT_OF(&info, title), FACT_OF(&info, driver),
                  FACT_COUNT("memory_bytes", info.memory_bytes),
                  FACT_COUNT("compute_units", info.compute_units),
                  FACT("source", info.emulated ? "emulated" : "measured"), FACT_IS_OF(&info, exact_math),
                  FACT_IS_OF(&info, shares_memory), FACT_IS_OF(&info, shares_cores));
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
}

static int run(cli_call *call, stoke_error *err)
{
    stoke_device_list *list;
    const int r = stoke_device_list_create(&list, err);
    if (r) return r;
    (call->common.json ? print_json : print_table)(list);
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
