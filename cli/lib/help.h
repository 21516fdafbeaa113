/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts made from the command tables: help and names.
 */
#ifndef STOKE_CLI_LIB_HELP_H
#define STOKE_CLI_LIB_HELP_H

#include <stdio.h>
#include "cli/lib/command.h"

/* A row of cli/commands.def: a topic of `stoke help`, or a command by its words. */
typedef struct cli_entry {
    const char *topic; /* NULL: a command */
    const char *words; /* "" of a topic, NULL at the end */
    const cli_command *command;
    int hidden; /* works, but is not listed */
} cli_entry;
extern const cli_entry cli_entries[];
/* "data" of `bench data` below "bench", "bench" of `bench` below ""; NULL: the row is no command there. */
const char *cli_word_below(const cli_entry *entry, const char *parent);

/* "bench data", with `separator` between the words. */
const char *cli_command_title(const cli_command *command, const char *separator, char *text, size_t size);
#define CLI_TITLE(command, separator) cli_command_title((command), (separator), (char[64]){ 0 }, 64)

/* Finds a command by its words ("bench", "data"); *used = how many of them name it. NULL = unknown. */
const cli_command *cli_find_command(char **words, int n_words, int *used);
/* The command below `parent` most like `word`, or NULL. */
const char *cli_nearest_command(const char *parent, const char *word);
/* The same among what `stoke` alone takes: --help, --version. */
const char *cli_nearest_flag(const char *word);

/* Breaks text of our own at spaces; newlines of the text stay. */
void cli_print_wrapped(const char *text, int width, FILE *out);
void cli_print_overview(FILE *out);
void cli_print_files(FILE *out); /* the one rule of writing, see output.h */
void cli_print_help(const cli_call *call, FILE *out);
/* The list of a command that only has subcommands. */
void cli_print_subcommands(const cli_command *command, FILE *out);

#endif
