/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command is. Each cmd_*.c holds one constant description; the dispatcher, --help, the man pages and
 * shell completion are all made from it, so none of them can drift from the others.
 */
#ifndef STOKE_CLI_LIB_COMMAND_H
#define STOKE_CLI_LIB_COMMAND_H

#include <stoke/tools/tools.h>

/* Exit codes: 0 done, 1 failed, 2 wrong usage. 130 is what shells report for SIGINT (128 + its number). */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_MISUSE = 2, CLI_LOST = 75, CLI_INTERRUPTED = 130 };

/* Options of every command (config only of those that read data). */
typedef struct cli_common {
    int json, quiet;
    const char *config;
} cli_common;

/* The data options come in sections, those of training too; the command's own and the common ones stand
 * around them. */
enum {
    CLI_SECTIONS = 14,
    CLI_MAX_GROUPS = CLI_SECTIONS + 3,
    CLI_ORIGINS = 64,
    CLI_REMARKS = 8192,
    CLI_EXAMPLES = 8,
    CLI_DEFAULTS = 5
};

/* A default that a command has otherwise than the table: `diagnose` augments unless told not to. */
typedef struct cli_default {
    const char *name, *text;
} cli_default;

typedef struct cli_example {
    const char *line, *meaning;
} cli_example;

typedef struct cli_call cli_call;

typedef struct cli_command {
    const char *summary;   /* one line, no full stop */
    const char *arguments; /* as in the usage line, e.g. "[DIR]"; NULL: none */
    int max_words;         /* arguments that are not options */
    const char *description;
    cli_example examples[CLI_EXAMPLES]; /* up to a NULL line; every one must work as written */
    const stoke_option *options;
    size_t n_options, options_bytes;
    int reads_config;   /* takes --config for its own options, which have the names of ours */
    int reads_data;     /* takes the data options, --config, and a DIR that stands for --data */
    int reads_training; /* takes the options of training too, in --config as well; others pass over them there
                         */
    int reads_upload;   /* takes the options of feeding a device */
    int sees_set;       /* the size of pictures is that of the set where a file does not say it */
    int any_config;     /* with reads_data: --config may be a PyTorch trainer's; run() reads it itself, see
                           cli_replace_settings */
    int tells_placement; /* where augmentation runs is part of its result */
    /* With reads_data: the first word is a run or a network instead of data, and settings come from the run's
     * config.yaml first. */
    int takes_network;
    cli_default defaults[CLI_DEFAULTS]; /* of data options, up to a NULL name; training has its own */
    int trains_if_asked;                /* with --train it reads training, too */
    /* An exit code; an error (below 0) is in err, and told by main.c. NULL: it only holds others. */
    int (*run)(cli_call *call, stoke_error *err);
} cli_command;

/* One run of a command: what the user asked for, after defaults, config file and flags. */
struct cli_call {
    const cli_command *command;
    int trains; /* command->reads_training, or it was asked to */
    cli_common common;
    stoke_data_params data;     /* filled when command->reads_data */
    stoke_train_params train;   /* filled when it trains */
    stoke_upload_params upload; /* filled when command->reads_upload */
    void *options;              /* the command's own struct, options_bytes long */
    char *run_found;            /* by --continue; NULL: none */
    stoke_option *data_table;   /* that of the library with the command's own defaults; NULL: the library's */
    stoke_option_group groups[CLI_MAX_GROUPS];
    size_t n_groups;
    int argc; /* what was typed, from the command's name on: for those who tell what to type next */
    char **argv;
    char **typed, **owned; /* a copy of argv with other names translated, and its own words; NULL: as typed */
    char **words;          /* arguments that are not options */
    int n_words;
    stoke_memory_sum *planned; /* what it was said to hold at most */
    stoke_option_storage *storage;
    stoke_yaml *settings;                     /* the file of --config; NULL: none */
    stoke_config_origin origins[CLI_ORIGINS]; /* what came from it, where it is another trainer's */
    size_t n_origins;
};

#define CLI_COMMAND(id, words)            extern const cli_command cli_##id;
#define CLI_SUBCOMMAND(parent, id, words) extern const cli_command cli_##id;
#define CLI_HIDDEN(id, words)             extern const cli_command cli_##id;
#include "cli/commands.def"

/* Rows of a command's own options, after `#define OPTIONS the_struct`: an option is called as the member it
 * fills. CLI_NUMBER is for INT, REAL and the like, CLI_TEXT for STRING, BYTES and SIZE; `standard` is the
 * default. */
#define CLI_ROW(title, kind, place, ...)                                                                     \
    {                                                                                                        \
        .name = title, .type = STOKE_OPT_##kind, .offset = offsetof(OPTIONS, place), __VA_ARGS__             \
    }
#define CLI_OPTION(kind, member, ...) CLI_ROW(#member, kind, member, __VA_ARGS__)
#define CLI_FLAG(member, text)        CLI_OPTION(FLAG, member, .default_text = "false", .help = text)
#define CLI_CHOICE(member, standard, words, text)                                                            \
    CLI_OPTION(CHOICE, member, .default_text = standard, .choices = words, .help = text)
#define CLI_NUMBER(kind, member, standard, low, high, word, text)                                            \
    CLI_OPTION(kind, member, .default_text = standard, .min = low, .max = high, .argument = word,            \
               .help = text)
#define CLI_TEXT(kind, member, standard, word, text)                                                         \
    CLI_OPTION(kind, member, .default_text = standard, .argument = word, .help = text)
/* Of a struct that OPTIONS has under the name `part`. */
#define CLI_WITHIN(part, kind, member, ...) CLI_ROW(#member, kind, part.member, __VA_ARGS__)
/* --short of benches; `short` is a word of C. */
#define CLI_SHORT(text) CLI_ROW("short", FLAG, short_run, .default_text = "false", .help = text)
/* Of a command with the table `options` and the function `run`. */
#define CLI_OWN_OPTIONS_AND_RUN                                                                              \
    .options = options, .n_options = CLI_COUNT(options), .options_bytes = sizeof(OPTIONS), .run = run
/* Of a command that reads data, which its only word may name. */
#define CLI_TAKES_DIR .arguments = "[DIR]", .max_words = 1, .reads_data = 1

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
