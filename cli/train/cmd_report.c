/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke report: curves and report.html of a run, made again from its log.
 */
#include <stdio.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"
#include "cli/lib/output.h"

typedef struct report_options {
    int force;
} report_options;

#define OPTIONS report_options
static const stoke_option options[] = { CLI_FORCE };

static const char *const files[] = { "report.html",   "curves/loss.svg", "curves/miou.svg",
                                     "curves/lr.svg", "curves/psnr.svg", "curves/speed.svg" };

/* A file of a run's report, or what they lie in. */
static const char *path_of(const char *folder, const char *name, char path[CLI_PATH])
{
    snprintf(path, CLI_PATH, "%s%s%s", folder, cli_ends_with(folder, "/") ? "" : "/", name);
    return path;
}

static void print_result(const cli_call *call, const char *folder)
{
    char path[CLI_PATH];
    if (!call->common.json) {
        cli_print("%s\n", path_of(folder, files[0], path));
        cli_say(call, "open it in a browser; the curves are in %s", path_of(folder, "curves", path));
        return;
    }
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("run", folder), FACT("report", path_of(folder, files[0], path)));
    /* Either task has one name for the curve of its scores. */
    JSON_LIST(&json, "curves", i, i + 1 < CLI_COUNT(files))
        if (stoke_there(path_of(folder, files[i + 1], path))) stoke_json_string(&json, NULL, path);
    stoke_json_close(&json);
}

static int run(cli_call *call, stoke_error *err)
{
    if (!call->n_words)
        return cli_error(err, STOKE_E_INVALID,
                         "no run given: name its folder, e.g. `stoke report runs/NAME`");
    const report_options *o = call->options;
    /* The library refuses what is not ours; here it is said what --force replaces. */
    char path[CLI_PATH];
    for (size_t i = 0; o->force && i < CLI_COUNT(files); i++)
        cli_may_write(call, path_of(call->words[0], files[i], path), 1, NULL);
    const int r = stoke_run_report(call->words[0], o->force, err);
    if (!r) print_result(call, call->words[0]);
    return r;
}

const cli_command cli_report = {
    .summary = "make the curves and report.html of a run again",
    .arguments = "RUN",
    .max_words = 1,
    .description = "A run makes its report when it ends. This makes it again from log.jsonl, config.yaml and "
                   "the pictures in the run's folder: while the run is still going, after it was killed, or "
                   "after an update. report.html needs no other file and no network; curves/ has the charts "
                   "as SVG. Lines of the log that are damaged are passed over, and the report says how many.",
    .examples = {
        { "stoke report runs/first", "runs/first/report.html, and the curves in runs/first/curves" },
        { "stoke report runs/first --json", "the paths of what was made" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
