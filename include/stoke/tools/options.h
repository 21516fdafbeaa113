/* SPDX-License-Identifier: Apache-2.0
 *
 * One table describes a group of settings; from it come the command-line parser, `--help`, the man page,
 * shell completion, the keys of stoke.yaml and (later) the Python signature.
 *
 * A name is written with `_` in tables and YAML and with `-` on the command line: memory_limit,
 * --memory-limit.
 */
#ifndef STOKE_TOOLS_OPTIONS_H
#define STOKE_TOOLS_OPTIONS_H

#include <stdio.h>
#include <stoke/common.h>

typedef enum stoke_option_type {
    STOKE_OPT_FLAG,     /* int, 0 or 1; on the command line --x, --no-x, --x=true */
    STOKE_OPT_INT,      /* int64_t within [min, max] */
    STOKE_OPT_REAL,     /* double within [min, max] */
    STOKE_OPT_STRING,   /* const char *; NULL when not given and no default */
    STOKE_OPT_CHOICE,   /* int: index into `choices` ("a|b|c") */
    STOKE_OPT_BYTES,    /* uint64_t; accepts 512, 64K, 1.5G, 2GiB (1024-based) */
    STOKE_OPT_SIZE,     /* uint32_t[2] = height, width; accepts N or HxW */
    STOKE_OPT_AUTO_INT, /* int64_t; the word `auto` is stored as -1 */
    STOKE_OPT_RANGE,    /* double[2] = low, high within [min, max]; accepts A..B, A,B or X for X..X */
    STOKE_OPT_SPREAD    /* the same, but X stands for -X..X */
} stoke_option_type;

typedef struct stoke_option {
    const char *name;
    stoke_option_type type;
    size_t offset;            /* of the field in the struct the table describes */
    const char *default_text; /* parsed like user input; NULL = field left zero */
    const char *choices;      /* CHOICE: a|b|c. STRING: "pairs" where YAML may have {0: sky} for 0:sky */
    double min, max;          /* INT, AUTO_INT, REAL, RANGE, SPREAD; both 0 = no limits */
    const char *argument;     /* placeholder in help, e.g. "DIR"; NULL for flags and choices */
    const char *help;         /* one or two sentences, no full stop at the end */
} stoke_option;

/* A titled group: a table plus the struct it fills. */
typedef struct stoke_option_group {
    const char *title;
    const stoke_option *options;
    size_t count;
    void *target;
} stoke_option_group;

/* Sets every field of the group from its default text. */
STOKE_API void stoke_options_defaults(const stoke_option_group *group);

/* Sets one field from text. Unknown name: STOKE_E_NOTFOUND with the nearest known name ("did you mean ...").
 * Bad value: STOKE_E_INVALID saying what is accepted. Strings are borrowed, not copied. */
STOKE_API int stoke_options_set(const stoke_option_group *groups, size_t n_groups, const char *name,
                                const char *value, stoke_error *err);

/* Parses argv[1..]: --name value, --name=value, --flag, --no-flag, `--` ends options. `rest` (argc pointers
 * long) receives the words that are not options, *n_rest their number. "--help" sets *help and stops. */
STOKE_API int stoke_options_parse(const stoke_option_group *groups, size_t n_groups, int argc, char **argv,
                                  char **rest, int *n_rest, int *help, stoke_error *err);

/* Writes the effective values as commented YAML that reads back to the same values. */
STOKE_API void stoke_options_write_yaml(const stoke_option_group *groups, size_t n_groups, FILE *out);

/* Prints the options part of --help, wrapped at `columns`. */
STOKE_API void stoke_options_print_help(const stoke_option_group *groups, size_t n_groups, int columns,
                                        FILE *out);

/* The same as a man page section (roff .TP items). */
STOKE_API void stoke_options_print_man(const stoke_option_group *groups, size_t n_groups, FILE *out);

#endif
