/* SPDX-License-Identifier: Apache-2.0
 *
 * A page of facts, written once and printed twice: lines for people, JSON for programs. Every figure has its
 * unit and its source; what is not known is n/a, and null in JSON. No path names a user: homes are ~.
 */
#ifndef STOKE_CLI_LIB_PAGE_H
#define STOKE_CLI_LIB_PAGE_H

#include "cli/lib/facts.h"
#include <stoke/tools/probe.h>

typedef enum cli_unit {
    CLI_UNIT_NONE,
    CLI_UNIT_WHOLE,  /* without a fraction */
    CLI_UNIT_BYTES,  /* of files and disks: GB */
    CLI_UNIT_MEMORY, /* of cards, processes and the machine: GiB */
    CLI_UNIT_BYTES_S,
    CLI_UNIT_PERCENT,
    CLI_UNIT_SHARE, /* 0 to 1, shown in percent */
    CLI_UNIT_WATT,
    CLI_UNIT_WHOLE_WATT,
    CLI_UNIT_JOULE,
    CLI_UNIT_CELSIUS,
    CLI_UNIT_MHZ,
    CLI_UNIT_PER_S,
    CLI_UNIT_YES_NO,
    CLI_UNIT_VERSION /* 8.6 */
} cli_unit;

typedef struct cli_page {
    int as_json;
    stoke_json json;
    stoke_table *table; /* the one whose rows are being told; NULL: none yet */
} cli_page;

void cli_page_begin(cli_page *page, int as_json);
void cli_page_end(cli_page *page);

/* What is for one side alone: text for people, FACTS for programs (cli/lib/facts.h). */
void cli_page_say(const cli_page *page, const char *format, ...) STOKE_PRINTF(2, 3);
#define CLI_PAGE_FACTS(page, ...)                                                                            \
    do                                                                                                       \
        if ((page)->as_json) FACTS(&(page)->json, __VA_ARGS__);                                              \
    while (0)

/* A section: an object in JSON. A title that is NULL shows nothing to people. */
void cli_page_section(cli_page *page, const char *key, const char *title);
/* A section of entries, each with its own title: an array of objects in JSON. */
void cli_page_list(cli_page *page, const char *key, const char *title);
void cli_page_entry(cli_page *page, const char *title);
void cli_page_close(cli_page *page); /* the innermost of them */

/* ---- tables ---- */

/* A row of a table for people is an object of a list for programs: each cell is a fact, the heading of its
 * column (NULL: for programs alone) and how people see it. */
typedef struct cli_cell {
    cli_fact fact; /* without a key it is for people alone; null, or left out, it is n/a to them */
    const char *heading, *text;
} cli_cell;

/* A text or a whole number, as it is; FACT(NULL, text) is for people alone. */
#define CELL(title, value) ((cli_cell){ .fact = value, .heading = title })
/* Shown by a format: CELL_AS("memory", FACT_COUNT("memory_bytes", n), "%.1f GiB", n / gibi). */
#define CELL_AS(title, value, ...)                                                                           \
    ((cli_cell){ .fact = value, .heading = title, .text = cli_cell_text((char[96]){ 0 }, 96, __VA_ARGS__) })
/* A number, or a member under its own name, that both see: one by the format. */
#define CELL_REAL(title, key, format, value)   CELL_AS(title, FACT(key, value), format, value)
#define CELL_OF(title, record, member, format) CELL_REAL(title, #member, format, (record)->member)
/* For programs alone, for people alone. */
#define CELL_FACT(value)      ((cli_cell){ .fact = value })
#define CELL_TEXT(title, ...) CELL_AS(title, FACT(NULL, ""), __VA_ARGS__)
const char *cli_cell_text(char *text, size_t size, const char *format, ...) STOKE_PRINTF(3, 4);

void cli_page_table(cli_page *page, const char *key);
/* Every row has the same columns. */
#define CLI_PAGE_ROW(page, ...) (CLI_PAGE_ROW_OPEN(page, __VA_ARGS__), cli_page_close(page))
/* More for programs follows, up to cli_page_close. */
#define CLI_PAGE_ROW_OPEN(page, ...)                                                                         \
    cli_page_row(page, (const cli_cell[]){ __VA_ARGS__, { .heading = NULL } })
void cli_page_row(cli_page *page, const cli_cell *cells);
void cli_page_table_end(cli_page *page);

/* ---- facts with a source ---- */

/* "34 %", "9.4 GiB", "n/a". */
const char *cli_figure_text(stoke_figure figure, cli_unit unit, char *text, size_t size);
#define CLI_FIGURE(figure, unit) cli_figure_text((figure), CLI_UNIT_##unit, (char[32]){ 0 }, 32)

/* "" and NULL are n/a. Without a label it is for programs alone, without a key for people. */
void cli_page_text(cli_page *page, const char *key, const char *label, const char *text);
void cli_page_figure(cli_page *page, const char *key, const char *label, stoke_figure figure, cli_unit unit);
/* A member under its own name. */
#define CLI_PAGE_FIGURE(page, record, member, label, unit)                                                   \
    cli_page_figure(page, #member, label, (record)->member, CLI_UNIT_##unit)

/* A program on a card, as it is now or as it was at most (the figures are peaks); a name "" is in another
 * container. */
void cli_page_program(cli_page *page, uint32_t pid, const char *name, int own, int at_most,
                      stoke_figure memory, stoke_figure busy);

/* All of a card that is being looked at, within its entry: "processes" and "more_processes" for programs, a
 * paragraph each for people. */
void cli_page_processes(cli_page *page, const stoke_gpu *gpu);

/* What holds clocks down: "power limit, too hot (hardware)", "nothing"; "n/a" when the driver does not tell.
 */
const char *cli_reasons(stoke_figure reasons, char *text, size_t size);
#define CLI_REASONS(reasons) cli_reasons((reasons), (char[160]){ 0 }, 160)

/* The same text with homes as ~ and without the user of user@host:. Returns `out`. */
const char *cli_page_tidy(const char *text, char *out, size_t size);

#endif
