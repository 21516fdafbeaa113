/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke check: the list to go through before a training starts, gone through.
 */
#include <stdio.h>

#include "cli/lib/card.h"
#include "cli/lib/settings.h"
#include "cli/lib/facts.h"
#include <stoke/tools/preflight.h>

typedef struct check_options {
    const char *config, *data, *model, *map, *gpu;
    uint32_t size[2];
    int64_t classes, ranks, cores;
    double vram;
} check_options;

#define OPTIONS check_options
static const stoke_option options[] = {
    CLI_CONFIG_OPTION("The settings to check: a file of `stoke config`, or the YAML of a PyTorch trainer, "
                      "flat or in sections"),
    CLI_TEXT(STRING, data, NULL, "DIR", "The data set, where the file names none or another is meant"),
    CLI_TEXT(STRING, model, NULL, "b0..b5|resnet|unet",
             "The network that memory is estimated for, where the file does not tell"),
    CLI_TEXT(SIZE, size, "0", "N|HxW",
             "Size of a picture, where the file does not tell; 0 is as the file says"),
    CLI_NUMBER(INT, classes, "0", 0, 65535, "N", "Number of classes; 0 is as the file says"),
    CLI_RANKS_OPTION("Processes that share this machine's cores, one for each card"),
    CLI_MEANT_OPTIONS,
    CLI_MAP_OPTION,
};

/* ---- what is told ---- */

static void print_lines(const cli_call *call, const stoke_preflight *preflight, int ready)
{
    const check_options *o = call->options;
    const int native = preflight->engine == STOKE_ENGINE_NATIVE;
    cli_print("%s: %s (%s)\n\n", o->config,
              native ? "for `stoke train`, in host memory" : "for PyTorch on a card", preflight->dialect);
    for (size_t i = 0; i < preflight->n; i++) {
        const stoke_preflight_line *line = &preflight->line[i];
        cli_print("%-4s  %-20s  %s", stoke_verdict_name(line->verdict), line->title, line->figure);
        if (line->source != STOKE_SOURCE_NA) cli_print(" [%s]", stoke_source_name(line->source));
        putchar('\n');
        if (*line->fix) cli_print("%26s  -> %s\n", "", line->fix);
    }
    cli_print("\n%zu pass, %zu warn, %zu fail, %zu n/a (could not be seen)\n",
              preflight->count[STOKE_VERDICT_PASS], preflight->count[STOKE_VERDICT_WARN],
              preflight->count[STOKE_VERDICT_FAIL], preflight->count[STOKE_VERDICT_NA]);
    if (*preflight->no_card) cli_print("\nNo card is seen here: %s\n", preflight->no_card);
}

static void print_json(const cli_call *call, const stoke_preflight *preflight, int ready)
{
    const check_options *o = call->options;
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(o, config), FACT_OF(preflight, dialect),
          FACT("engine", preflight->engine == STOKE_ENGINE_NATIVE ? "native" : "torch"),
          FACT_IS("ready", ready), FACT_TEXT("no_card", preflight->no_card),
          FACT_IF(preflight->world, FACT_OF(preflight, world)));
    for (int v = 0; v < STOKE_VERDICTS; v++)
        stoke_json_uint(&json, v == STOKE_VERDICT_NA ? "na" : stoke_verdict_name(v), preflight->count[v]);
    JSON_LIST(&json, "lines", i, i < preflight->n) {
        const stoke_preflight_line *line = &preflight->line[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(line, key), FACT_OF(line, title),
                     FACT("verdict", stoke_verdict_name(line->verdict)), FACT_OF(line, figure),
                     FACT("source", stoke_source_name(line->source)), FACT_TEXT("fix", line->fix));
    }
    stoke_json_close(&json);
}

/* ---- the command ---- */

static int check(stoke_preflight **preflight, const check_options *o, stoke_error *err)
{
    cli_map map;
    if (!o->config)
        return cli_error(err, STOKE_E_INVALID,
                         "which settings? Name their file: stoke check --config train.yaml");
    int r = cli_map_cut(&map, o->map, err);
    stoke_preflight_params params = stoke_preflight_defaults();
    params.config = o->config;
    params.map = map.paths;
    params.data = o->data;
    params.model = o->model;
    params.size[0] = o->size[0];
    params.size[1] = o->size[1];
    params.classes = (uint32_t)o->classes;
    params.ranks = (uint32_t)o->ranks;
    cli_card_meant(o->gpu, &params.card, &params.gpu);
    params.card_memory = (uint64_t)(o->vram * 1073741824.0);
    params.cores = (uint32_t)o->cores;
    params.comm = o->gpu || o->vram > 0 ? NULL : "auto"; /* a card that is elsewhere has its own host */
    if (!r) r = stoke_preflight_run(preflight, &params, err);
    cli_map_free(&map);
    return r;
}

static int run(cli_call *call, stoke_error *err)
{
    const check_options *o = call->options;
    stoke_preflight *preflight = NULL;
    const int r = check(&preflight, o, err);
    /* 1 is for a line that failed: scripts must be able to tell. */
    if (r && r != STOKE_E_NOMEM) err->code = STOKE_E_INVALID;
    if (r) return r;
    /* A launcher ends all as soon as one fails: rank 0 alone does, when it has told why. */
    const int tells = !preflight->rank, ready = !tells || !preflight->count[STOKE_VERDICT_FAIL];
    if (tells) (call->common.json ? print_json : print_lines)(call, preflight, ready);
    stoke_preflight_destroy(&preflight);
    return ready ? CLI_OK : CLI_FAILED;
}

const cli_command cli_check = {
    .summary = "check a settings file before training: what would fail, what would be slow",
    .description =
        "Reads a settings file, looks at the machine, the card and the data set (its directory, not its "
        "pixels), and prints a line for each thing that can be seen to be right or wrong: pass, warn (it "
        "will run, slower than it could), fail (it will stop, or not start), n/a (could not be seen, and "
        "why). Every line has its figure, in brackets where that is from, and below it what to do. Exit "
        "status: 0 when nothing failed, 1 when something did, 2 when the file cannot be understood. Started by "
        "mpirun, srun or torchrun in several processes, they compare what each of them sees: CPU table, cores, "
        "data set, memory, clocks, and how fast bytes go between them; rank 0 prints one list and has the exit "
        "status.",
    .examples = {
        { "stoke check --config configs/stoke.yaml --data demo/data",
          "a file of `stoke config`: our own trainer" },
        { "stoke check --config configs/face_config.yaml --data demo/data --model b2 --size 256",
          "a PyTorch trainer's file; what it does not say is said here" },
        { "stoke check --config configs/face_config.yaml --gpu \"RTX 3060\" --cores 12",
          "for a card that is in another machine" },
        { "stoke check --config configs/face_config.yaml --ranks 2 --json", "two processes; for programs" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
