/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke config: the settings in force, as a file that --config reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"

/* The n-th word of "a|b|c". */
static const char *choice_text(const char *choices, int index, char *text, size_t size)
{
    for (; index > 0 && choices; index--) {
        choices = strchr(choices, '|');
        if (choices) choices++;
    }
    snprintf(text, size, "%.*s", choices ? (int)strcspn(choices, "|") : 0, choices ? choices : "");
    return text;
}

static void json_value(stoke_json *json, const stoke_option *option, const void *target)
{
    const void *field = (const char *)target + option->offset;
    char text[64];
    int64_t number;
    switch (option->type) {
    case STOKE_OPT_FLAG: stoke_json_bool(json, option->name, *(const int *)field); break;
    case STOKE_OPT_INT: stoke_json_int(json, option->name, *(const int64_t *)field); break;
    case STOKE_OPT_REAL: stoke_json_real(json, option->name, *(const double *)field); break;
    case STOKE_OPT_STRING: stoke_json_string(json, option->name, *(const char *const *)field); break;
    case STOKE_OPT_CHOICE:
        stoke_json_string(json, option->name,
                          choice_text(option->choices, *(const int *)field, text, sizeof text));
        break;
    case STOKE_OPT_BYTES: stoke_json_uint(json, option->name, *(const uint64_t *)field); break;
    case STOKE_OPT_SIZE:
        FACTS(json, FACT_SIZE(option->name, ((const uint32_t *)field)[0], ((const uint32_t *)field)[1]));
        break;
    case STOKE_OPT_RANGE:
    case STOKE_OPT_SPREAD:
        JSON_LIST(json, option->name, i, i < 2) stoke_json_real(json, NULL, ((const double *)field)[i]);
        break;
    case STOKE_OPT_AUTO_INT:
        number = *(const int64_t *)field;
        FACTS(json, number < 0 ? FACT(option->name, "auto") : FACT(option->name, number));
        break;
    }
}

/* The value that an option has, by its name. */
static void print_value(const cli_call *call, const char *name)
{
    char *text = NULL;
    size_t size = 0;
    for (size_t g = 0; g < call->n_groups; g++)
        for (size_t i = 0; i < call->groups[g].count; i++) {
            const stoke_option_group one = { "", call->groups[g].options + i, 1, call->groups[g].target };
            if (strcmp(one.options->name, name) != 0 || text) continue;
            FILE *out = open_memstream(&text, &size);
            if (!out) return;
            stoke_options_write_yaml(&one, 1, out);
            fclose(out);
        }
    /* "# what it means\nname: value\n" */
    char *line = text ? strstr(text, "\n") : NULL;
    for (char *at = line; at && at[1]; at = strchr(at + 1, '\n')) line = at + 1;
    if (line) cli_print("%.*s", (int)strcspn(line, "\n"), line);
    free(text);
}

/* What was understood of another trainer's file, and where it stands there. */
static void print_origins(const cli_call *call)
{
    if (!call->n_origins) return;
    cli_print("# From %s (%s%s%s):\n", call->common.config,
              stoke_dialect_name(stoke_config_dialect(call->settings)),
              stoke_config_framework(call->settings) ? ", " : "",
              stoke_config_framework(call->settings)
                  ? stoke_framework_name(stoke_config_framework(call->settings))
                  : "");
    for (size_t i = 0; i < call->n_origins; i++) {
        const stoke_config_origin *o = &call->origins[i];
        cli_print("#   ");
        print_value(call, o->option);
        cli_print("  (line %u: %s)\n", o->line, o->path);
    }
    cli_print("\n");
}

typedef struct config_options {
    int train;
} config_options;

#define OPTIONS config_options
static const stoke_option options[] = {
    CLI_FLAG(train, "The settings of training too, and the defaults that `stoke train` has; then their flags "
                    "are accepted as well"),
};

static int run(cli_call *call, stoke_error *err)
{
    const int training = call->trains;
    /* Without the command's own options in front and the common ones at the end. */
    const stoke_option_group *groups = call->groups + 1;
    const size_t n_groups = call->n_groups - 2;
    if (call->common.json) {
        stoke_json json = cli_json_open();
        for (size_t g = 0; g < n_groups; g++)
            for (size_t i = 0; i < groups[g].count; i++)
                json_value(&json, &groups[g].options[i], groups[g].target);
        stoke_json_close(&json);
        return CLI_OK;
    }
    cli_print("# %s, read by `--config FILE`; flags of the same name override it.\n"
              "# Made by `stoke config%s`, which takes the same flags. Paths are relative to where stoke is "
              "started.\n\n",
              training ? "train.yaml: the settings of training and of its data"
                       : "stoke.yaml: the settings of the data path",
              training ? " --train" : "");
    print_origins(call);
    stoke_options_write_yaml(groups, n_groups, stdout);
    return CLI_OK;
}

const cli_command cli_config = {
    .summary = "print the settings in force as YAML, every key explained",
    CLI_TAKES_DIR,
    .description = "Prints defaults, then what --config says, then what the flags say, as a commented file "
                   "that --config reads back to the same settings.",
    .examples = {
        { "stoke config > stoke.yaml", "every key with its default and what it means" },
        { "stoke config demo/data --size 256 --batch 16 > stoke.yaml", "the same with some values set" },
        { "stoke config --config configs/stoke.yaml --workers 2 --json",
          "what is in force after a file and a flag" },
        { "stoke config --train demo/data --epochs 20 > train.yaml", "a file for `stoke train --config`" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .trains_if_asked = 1,
};
