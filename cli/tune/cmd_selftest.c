/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke selftest: every copy path and kernel of a device against the host.
 */
#include <stdio.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/upload_options.h"

typedef struct selftest_options {
    const char *device;
} selftest_options;

#define OPTIONS selftest_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, device, "auto", "NAME", "The device to prove, as `stoke devices` lists them"),
};

/* One call of the command. */
typedef struct testing {
    const cli_call *call;
    stoke_json json;
    unsigned passed, failed;
} testing;

static void print_line(stoke_json *json, const stoke_selftest_line *line)
{
    cli_print("%-42s  ", line->name);
    if (*line->problem)
        cli_print("%s", line->problem);
    else
        cli_print("%8llu compared, %llu differ, largest difference %g", (unsigned long long)line->compared,
                  (unsigned long long)line->different, line->largest);
    if (line->tolerance > 0) cli_print(" (%g allowed)", line->tolerance);
    puts(line->passed ? ": ok" : ": FAILED");
    fflush(stdout); /* a driver that hangs shows where */
}

static void json_line(stoke_json *json, const stoke_selftest_line *line)
{
    FACTS_OBJECT(json, NULL, FACT_OF(line, name), FACT_OF(line, against), FACT_OF(line, compared),
                 FACT_OF(line, different), FACT_OF(line, largest), FACT_OF(line, tolerance),
                 FACT_IS_OF(line, passed), FACT_TEXT("problem", line->problem));
}

static int on_line(void *context, const stoke_selftest_line *line)
{
    testing *t = context;
    if (line->passed)
        t->passed++;
    else
        t->failed++;
    (t->call->common.json ? json_line : print_line)(&t->json, line);
    return cli_interrupted();
}

static int run(cli_call *call, stoke_error *err)
{
    const selftest_options *o = call->options;
    stoke_device *device;
    int r = cli_device_open(&device, o->device, 1, err); /* a simulated GPU has its bytes compared too */
    if (r) return r;
    testing t = { .call = call };
    const stoke_device_info info = *stoke_device_describe(device);
    if (call->common.json) {
        t.json = cli_json_open();
        FACTS(&t.json, FACT("device", info.name), FACT_OF(&info, title), FACT_OF(&info, driver),
              FACT("source", info.emulated ? "emulated" : "real"), FACT_IS_OF(&info, exact_math));
        stoke_json_array(&t.json, "lines");
    } else {
        cli_print("%s: %s\n%s\n", info.name, info.title, info.driver);
        puts(info.emulated ? "emulated: the host computes, and times are a model's\n" : "");
    }
    r = stoke_device_selftest(device, on_line, &t, err);
    stoke_device_close(&device);
    /* The verdict. `err` tells what ended it early, or that lines failed. */
    if (call->common.json) {
        stoke_json_close(&t.json);
        FACTS(&t.json, FACT_OF(&t, passed), FACT_OF(&t, failed), FACT("verdict", r ? "failed" : "passed"),
              FACT("error", r ? err->message : NULL));
        stoke_json_close(&t.json);
    }
    if (r == STOKE_E_CANCELLED) {
        cli_say(call, "interrupted");
        return cli_interrupt_code();
    }
    if (r)
        cli_print_message("selftest", err->message);
    else if (!call->common.json)
        cli_print("\n%s%s passed: all %u.\n", info.name, info.emulated ? " (emulated)" : "", t.passed);
    return r ? CLI_FAILED : CLI_OK;
}

const cli_command cli_selftest = {
    .summary = "prove a device: every copy path and kernel against the host",
    .description = "Copies between every two kinds of memory, orders work by events, and augments small "
                   "random batches with every op on the device; the host makes the same batches by its own "
                   "code, and every element is compared. A device with exact arithmetic must give equal "
                   "bytes. Exit status 1 when a line failed. Run it once on a card that is new, or after an "
                   "update of its driver: `stoke selftest --device cuda:0`.",
    .examples = {
        { "stoke selftest --device host", "the kernels as C against the loader's own pixel functions" },
        { "stoke selftest --device sim:rtx3090 --json", "a simulated GPU; the result says emulated" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
