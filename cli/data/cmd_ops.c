/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke ops: what --augment can be made of.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/facts.h"

static const struct {
    const char *name, *title;
} groups[] = {
    { "geometry", "Geometry: image and mask move together, in one resample" },
    { "colour", "Colour: the image only" },
    { "mix", "Mix: with the row before in the batch" },
};

/* What a setting accepts, in words: "0 to 1", "A..B within 0 to 1", "keep or ignore", "R,G,B". */
static const char *accepts(const stoke_option *option, char *text, size_t size)
{
    const char *bar = option->choices ? strchr(option->choices, '|') : NULL;
    if (bar)
        snprintf(text, size, "%.*s or %s", (int)(bar - option->choices), option->choices, bar + 1);
    else if (option->min != 0 || option->max != 0)
        snprintf(text, size, "%s%g to %g",
                 option->type == STOKE_OPT_RANGE    ? "X or A..B within "
                 : option->type == STOKE_OPT_SPREAD ? "+-X or A..B within "
                                                    : "",
                 option->min, option->max);
    else
        snprintf(text, size, "%s", option->argument ? option->argument : "");
    return text;
}

static const char *type_name(stoke_option_type type)
{
    switch (type) {
    case STOKE_OPT_FLAG: return "flag";
    case STOKE_OPT_INT:
    case STOKE_OPT_AUTO_INT: return "int";
    case STOKE_OPT_REAL: return "real";
    case STOKE_OPT_CHOICE: return "choice";
    case STOKE_OPT_RANGE: return "range";
    case STOKE_OPT_SPREAD: return "spread";
    default: return "text";
    }
}

/* ---- for people ---- */

enum { INDENT = 23, COLUMNS = 100 };

/* Writes one piece of text that is broken between pieces; *at is the column, 0 before the first. A blank in
 * front of a piece is left out where a line begins. */
static void print_piece(const char *text, size_t length, int indent, int *at)
{
    if (*at == 0 || *at + (int)length > COLUMNS) {
        if (*at) putchar('\n');
        cli_print("%*s", indent, "");
        *at = indent;
        length -= *text == ' ';
        text += *text == ' ';
    }
    fwrite(text, 1, length, stdout);
    *at += (int)length;
}

/* "p=0.5 (0 to 1), degrees=20 (-360 to 360)" */
static void print_brief(const stoke_op_info *op)
{
    int at = 0;
    for (size_t i = 0; i < op->n_options; i++) {
        const stoke_option *option = &op->options[i];
        char piece[160], limits[64] = "", text[64];
        if (option->min != 0 || option->max != 0)
            snprintf(limits, sizeof limits, " (%g to %g)", option->min, option->max);
        else if (option->choices)
            snprintf(limits, sizeof limits, " (%.60s)", accepts(option, text, sizeof text));
        snprintf(piece, sizeof piece, " %s=%s%s%s", option->name,
                 option->default_text ? option->default_text : "", limits, i + 1 < op->n_options ? "," : "");
        print_piece(piece, strlen(piece), INDENT, &at);
    }
    if (at) putchar('\n');
}

/* A list of ops, broken behind the commas between ops. */
static void print_list(const char *list, int indent)
{
    int at = 0;
    while (*list) {
        const size_t name = strcspn(list, "(,");
        const size_t op = list[name] == '(' ? strcspn(list, ")") + 1 : name;
        const size_t length = op + (list[op] == ',');
        print_piece(list, length, indent, &at);
        list += length;
    }
    if (at) putchar('\n');
}

/* Every op on two lines: what it does, and its settings. */
static void list_all(void)
{
    stoke_op_info op;
    for (size_t g = 0; g < CLI_COUNT(groups); g++) {
        cli_print("%s\n", groups[g].title);
        for (size_t i = 0; stoke_op_at(i, &op); i++) {
            if (strcmp(op.group, groups[g].name) != 0) continue;
            cli_print("  %-20s %s\n", op.name, op.summary);
            print_brief(&op);
        }
        putchar('\n');
    }
    puts("Presets");
    stoke_preset_info preset;
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) {
        cli_print("  %-20s %s\n", preset.name, preset.summary);
        print_list(preset.list, INDENT);
    }
    puts("\n`stoke ops NAME` explains the settings of one.");
}

/* The op as an item of a YAML list; texts in quotes, because they may hold commas. */
static void print_yaml(const stoke_op_info *op)
{
    cli_print("  - %s", op->name);
    const char *before = ": {";
    for (size_t i = 0; i < op->n_options; i++) {
        const stoke_option *option = &op->options[i];
        if (!option->default_text) continue;
        const char *quote = option->type == STOKE_OPT_STRING ? "\"" : "";
        cli_print("%s%s: %s%s%s", before, option->name, quote, option->default_text, quote);
        before = ", ";
    }
    puts(*before == ':' ? "" : "}");
}

static void print_settings(const stoke_op_info *op)
{
    stoke_table *table = CLI_TABLE("setting", "default", "accepts", "meaning");
    int ranges = 0;
    for (size_t i = 0; i < op->n_options; i++) {
        const stoke_option *option = &op->options[i];
        char text[64], number[128];
        cli_row(table, "%s\t%s\t%s\t%s", option->name,
                cli_short_numbers(option->default_text ? option->default_text : "", number, sizeof number),
                accepts(option, text, sizeof text), option->help);
        ranges |= option->type == STOKE_OPT_RANGE || option->type == STOKE_OPT_SPREAD;
    }
    cli_table_end(table);
    if (ranges)
        puts(
            "\nA..B (in YAML also [A, B]): drawn again for each sample. +-X: one number X stands for -X..X.");
    putchar('\n');
}

static void show_op(const stoke_op_info *op)
{
    cli_print("%s (%s): %s.\n\n", op->name, op->group, op->summary);
    if (op->n_options) print_settings(op);
    fputs("On the command line:\n  stoke show demo/data --augment \"", stdout);
    /* "hflip(p=0.5)": with its defaults, as --augment takes it. */
    stoke_pipeline *pipeline;
    if (!stoke_pipeline_create(&pipeline, op->name, NULL)) {
        const char *text = stoke_pipeline_text(pipeline);
        fwrite(text, 1, strlen(text), stdout); /* YAML */
        stoke_pipeline_destroy(&pipeline);
    }
    puts("\"\nIn a file (--augment FILE.yaml):\n  augment:");
    fputs("  ", stdout);
    print_yaml(op);
}

static void show_preset(const stoke_preset_info *preset)
{
    cli_print("%s (preset): %s.\n", preset->name, preset->summary);
    if (*preset->list) {
        puts("\nStands for:");
        print_list(preset->list, 2);
    }
    cli_print("\nOn the command line:\n  stoke show demo/data --augment %s\n", preset->name);
    if (*preset->list)
        cli_print("With more behind it:\n  stoke show demo/data --augment \"%s,cutmix(p=0.3)\"\n",
                  preset->name);
}

/* ---- for programs ---- */

static void json_setting(stoke_json *json, const stoke_option *option)
{
    const int limits = option->min != 0 || option->max != 0;
    FACTS_OBJECT(json, NULL, FACT_OF(option, name), FACT("type", type_name(option->type)),
                 FACT("default", option->default_text), FACT_IF(limits, FACT_OF(option, min)),
                 FACT_IF(limits, FACT_OF(option, max)), FACT_IF(option->choices, FACT_OF(option, choices)),
                 FACT_OF(option, help));
}

/* All, or the one called `name`; the same shape either way. */
static void print_json(const char *name)
{
    stoke_op_info op;
    stoke_preset_info preset;
    stoke_json json = cli_json_open();
    JSON_LIST(&json, "ops", i, stoke_op_at(i, &op)) {
        if (name && strcmp(name, op.name)) continue;
        stoke_json_object(&json, NULL);
        FACTS(&json, FACT_OF(&op, name), FACT_OF(&op, group), FACT_OF(&op, summary));
        JSON_LIST(&json, "settings", k, k < op.n_options) json_setting(&json, &op.options[k]);
        stoke_json_close(&json);
    }
    JSON_LIST(&json, "presets", i, stoke_preset_at(i, &preset)) {
        if (name && strcmp(name, preset.name)) continue;
        FACTS_OBJECT(&json, NULL, FACT_OF(&preset, name), FACT_OF(&preset, summary), FACT_OF(&preset, list));
    }
    stoke_json_close(&json);
}

static int run(cli_call *call, stoke_error *err)
{
    const char *name = call->n_words ? call->words[0] : NULL;
    stoke_op_info op;
    stoke_preset_info preset;
    int is_op = 0, is_preset = 0;
    for (size_t i = 0; name && !is_op && stoke_op_at(i, &op); i++) is_op = !strcmp(op.name, name);
    for (size_t i = 0; name && !is_op && !is_preset && stoke_preset_at(i, &preset); i++)
        is_preset = !strcmp(preset.name, name);
    if (name && !is_op && !is_preset) {
        const char *near = stoke_augment_nearest(name);
        return cli_error(err, STOKE_E_INVALID, "no op or preset is called '%s'%s%s%s `stoke ops` lists them",
                         name, near ? ": did you mean " : ";", near ? near : "", near ? "?" : "");
    }
    if (call->common.json)
        print_json(name);
    else if (is_op)
        show_op(&op);
    else if (is_preset)
        show_preset(&preset);
    else
        list_all();
    return CLI_OK;
}

const cli_command cli_ops = {
    .summary = "list the augmentation ops and presets, with their settings",
    .arguments = "[NAME]",
    .max_words = 1,
    .description = "Lists what --augment can be made of: a preset, a list of ops on one line, or a YAML file "
                   "with a list of ops. NAME is an op or a preset, explained in full.",
    .examples = {
        { "stoke ops", "all ops by group with their defaults, and the presets" },
        { "stoke ops rotate", "one op: every setting, and how to write it" },
        { "stoke ops standard --json", "what a preset stands for" },
    },
    .run = run,
};
