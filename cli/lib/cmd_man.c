/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke man: man pages in roff, from the command tables. The build runs it and installs the pages.
 */
#include <stdio.h>

#include "cli/lib/common.h"
#include "cli/lib/help.h"

/* Roff reads a leading dot or quote as a request and a backslash as an escape; a plain '-' may become a
 * hyphen. */
static void roff_text(const char *text, FILE *out)
{
    for (int first = 1; *text; text++) {
        if (first && (*text == '.' || *text == '\'')) fputs("\\&", out);
        first = *text == '\n';
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-')
            fputs("\\-", out);
        else
            fputc(*text, out);
    }
    fputc('\n', out);
}

static void roff_title(const char *name, const char *summary, FILE *out)
{
    fprintf(out, ".TH %s 1 \"\" \"Stokehold %s\" \"User Commands\"\n.SH NAME\n", name, stoke_version());
    fprintf(out, "%s \\- ", name); /* on one line, where whatis looks for it */
    roff_text(summary, out);
}

static void roff_commands(const char *parent, FILE *out)
{
    for (const cli_entry *e = cli_entries; e->words; e++) {
        if (e->hidden || !cli_word_below(e, parent)) continue;
        fprintf(out, ".TP\n.BR stoke\\-%s (1)\n", CLI_TITLE(e->command, "\\-"));
        roff_text(e->command->summary, out);
    }
}

static void roff_status(FILE *out)
{
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N (130: Ctrl\\-C).\n",
          out);
}

static void print_page(const cli_call *call, FILE *out)
{
    const cli_command *command = call->command;
    char name[80];
    snprintf(name, sizeof name, "stoke-%s", CLI_TITLE(command, "-"));
    roff_title(name, command->summary, out);
    fputs(".SH SYNOPSIS\n.B stoke ", out);
    roff_text(CLI_TITLE(command, " "), out);
    if (command->arguments) roff_text(command->arguments, out);
    fputs("[\\fIOPTION\\fR]...\n.SH DESCRIPTION\n", out);
    if (command->description) roff_text(command->description, out);
    if (!command->run) {
        fputs(".SH SUBJECTS\n", out);
        roff_commands(CLI_TITLE(command, " "), out);
    } else {
        fputs(".SH OPTIONS\n", out);
        stoke_options_print_man(call->groups, call->n_groups, out);
    }
    fputs(".SH EXAMPLES\n", out);
    for (const cli_example *e = command->examples; e->line; e++) {
        fputs(".TP\n.B ", out);
        roff_text(e->line, out);
        roff_text(e->meaning, out);
    }
    roff_status(out);
    fputs(".SH SEE ALSO\n.BR stoke (1)\n", out);
}

static int run(cli_call *call, stoke_error *err)
{
    if (!call->n_words) {
        roff_title(
            "stoke",
            "feeds networks with images and masks, or pictures and targets, and trains on the processor",
            stdout);
        fputs(".SH SYNOPSIS\n.B stoke\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n", stdout);
        roff_text("Reads pairs of images and masks, decodes, fits and augments them and delivers batches at "
                  "the speed of the hardware; makes, checks, shows and measures such sets.",
                  stdout);
        fputs(".SH COMMANDS\n", stdout);
        roff_commands("", stdout);
        roff_status(stdout);
        return CLI_OK;
    }
    int used;
    const cli_command *command = cli_find_command(call->words, call->n_words, &used);
    if (!command || used != call->n_words)
        return cli_error(err, STOKE_E_INVALID, "no command '%s'", call->words[used]);
    cli_call subject;
    cli_call_begin(&subject, command, 0, NULL, err);
    print_page(&subject, stdout);
    cli_call_end(&subject);
    return CLI_OK;
}

const cli_command cli_man = {
    .summary = "print a man page in roff",
    .arguments = "[COMMAND...]",
    .max_words = 2,
    .examples = {
        { "stoke man hash > stoke-hash.1", "the page of a command" },
        { "stoke man > stoke.1", "the page of stoke itself" },
    },
    .run = run,
};
