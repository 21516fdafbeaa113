/* SPDX-License-Identifier: Apache-2.0
 *
 * Help for people, from the same tables as everything else.
 */
#include "cli/lib/help.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

const cli_entry cli_entries[] = {
#define CLI_TOPIC(title)                  { .topic = title, .words = "" },
#define CLI_COMMAND(id, title)            { .words = title, .command = &cli_##id },
#define CLI_SUBCOMMAND(parent, id, title) { .words = title, .command = &cli_##id },
#define CLI_HIDDEN(id, title)             { .words = title, .command = &cli_##id, .hidden = 1 },
#include "cli/commands.def"
    { 0 },
};

const char *cli_command_title(const cli_command *command, const char *separator, char *text, size_t size)
{
    for (const cli_entry *e = cli_entries; e->words; e++) {
        if (e->command != command) continue;
        const char *blank = strchr(e->words, ' ');
        const size_t first = strcspn(e->words, " ");
        snprintf(text, size, "%.*s%s%s", (int)first, e->words, blank ? separator : "",
                 blank ? blank + 1 : "");
    }
    return text;
}

const char *cli_word_below(const cli_entry *entry, const char *parent)
{
    const size_t n = strlen(parent);
    if (!*entry->words || strncmp(entry->words, parent, n) || (n && entry->words[n] != ' ')) return NULL;
    const char *word = entry->words + n + (n > 0);
    return strchr(word, ' ') ? NULL : word;
}

static const cli_command *find_below(const char *parent, const char *word)
{
    for (const cli_entry *e = cli_entries; e->words; e++) {
        const char *known = cli_word_below(e, parent);
        if (known && !strcmp(known, word)) return e->command;
    }
    return NULL;
}

const cli_command *cli_find_command(char **words, int n_words, int *used)
{
    const cli_command *found = n_words ? find_below("", words[0]) : NULL;
    const cli_command *sub = found && n_words > 1 ? find_below(words[0], words[1]) : NULL;
    *used = (found != NULL) + (sub != NULL);
    return sub ? sub : found;
}

/* Letters to insert, delete or replace to get from a to b. Words of 15 letters at most: commands are shorter.
 */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[16];
    size_t n = strlen(b);
    for (unsigned j = 0; j <= n; j++) row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

/* Two letters wrong is a slip ("verfiy"); three of a short word is another word. */
enum { NO_SLIP = 3, LONGEST = 15 };

static void try_word(const char *word, const char *known, const char **nearest, unsigned *least)
{
    if (strlen(word) > LONGEST || strlen(known) > LONGEST) return;
    const unsigned d = distance(word, known);
    if (d < *least) *least = d, *nearest = known;
}

const char *cli_nearest_command(const char *parent, const char *word)
{
    const char *nearest = NULL;
    unsigned least = NO_SLIP;
    for (const cli_entry *e = cli_entries; e->words; e++)
        if (!e->hidden && cli_word_below(e, parent))
            try_word(word, cli_word_below(e, parent), &nearest, &least);
    return nearest;
}

const char *cli_nearest_flag(const char *word)
{
    const char *nearest = NULL;
    unsigned least = NO_SLIP;
    try_word(word, "--help", &nearest, &least);
    try_word(word, "--version", &nearest, &least);
    return nearest;
}

static int columns(FILE *out)
{
    struct winsize w;
    if (isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &w) == 0 && w.ws_col >= 40)
        return w.ws_col < 120 ? w.ws_col : 120;
    return 80;
}

static void print_level(const char *parent, FILE *out)
{
    for (const cli_entry *e = cli_entries; e->words; e++)
        if (e->topic && !*parent)
            fprintf(out, "\n%s:\n", e->topic);
        else if (!e->hidden && cli_word_below(e, parent))
            fprintf(out, "  %-12s %s\n", cli_word_below(e, parent), e->command->summary);
}

void cli_print_overview(FILE *out)
{
    fputs("stoke: feeds networks with images and masks, or pictures and targets, and trains on the "
          "processor\n\n"
          "Usage: stoke COMMAND [OPTION]...\n",
          out);
    print_level("", out);
    fputs("\nHelp:\n"
          "  stoke help COMMAND   options and examples of a command (also: stoke COMMAND --help)\n"
          "  stoke help data      the settings of the data path, one by one\n"
          "  stoke help training  those of training\n"
          "  stoke help files     which files and folders are replaced, and which never\n"
          "  stoke --version      version of the library in use\n"
          "  source <(stoke completion bash)  completes commands and options in this shell\n"
          "\nExamples:\n"
          "  stoke synth demo/data               make a small set to try everything on\n"
          "  stoke verify demo/data              read every file of it\n"
          "  stoke show demo/data --size 256     look at what the loader delivers\n"
          "  stoke bench data --data demo/data   how fast, and what limits it\n",
          out);
}

void cli_print_files(FILE *out)
{
    fputs("Files: what stoke replaces or removes, and what it never does\n\n"
          "What exists is left as it is, unless it is stoke's own or you say --force.\n\n"
          "  Pictures and pages   that stoke drew (PNG, SVG, HTML, traces, eval.json) say so in\n"
          "                       their first bytes: \"" STOKE_OUTPUT_MARK "\"\n"
          "                       They are drawn again under the same name. Rename one to keep it.\n"
          "  Everything else      that is there under the name to be written is refused: tables,\n"
          "                       settings, masks, states, and files of yours. --force replaces it\n"
          "                       and says what it replaced.\n"
          "  Data sets            of `stoke synth`: each picture holds a hash of itself, and is replaced\n"
          "                       only while that is right. Shards of `stoke pack`: only an archive that\n"
          "                       is what the manifest says. What you changed or put there stays.\n"
          "  Folders              of a cache, of `stoke synth` and of a run carry a marker, the file\n"
          "                       .stokehold. One that is not empty and has none is refused. Only\n"
          "                       files of stoke's own names are ever removed from a folder.\n"
          "  Runs                 begin in a new folder. One whose state is gone or older than its\n"
          "                       networks is not resumed over them without --force.\n",
          out);
}

void cli_print_wrapped(const char *text, int width, FILE *out)
{
    int at = 0;
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (at && at + 1 + (int)word > width) fputc('\n', out), at = 0;
        if (at && word) fputc(' ', out), at++;
        fwrite(text, 1, word, out);
        at += (int)word;
        text += word;
        if (*text == '\n') fputc('\n', out), at = 0;
        if (*text) text++;
    }
    if (at) fputc('\n', out);
}

void cli_print_help(const cli_call *call, FILE *out)
{
    const cli_command *command = call->command;
    char title[64];
    cli_command_title(command, " ", title, sizeof title);
    fprintf(out, "stoke %s: %s\n\nUsage: stoke %s%s%s [OPTION]...\n\n", title, command->summary, title,
            command->arguments ? " " : "", command->arguments ? command->arguments : "");
    if (command->description) {
        cli_print_wrapped(command->description, columns(out), out);
        fputc('\n', out);
    }
    fputs("Examples:\n", out);
    for (const cli_example *e = command->examples; e->line; e++)
        fprintf(out, "  %s\n      %s\n", e->line, e->meaning);
    fputc('\n', out);
    stoke_options_print_help(call->groups, call->n_groups, columns(out), out);
    fputs("\nExit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N (130: Ctrl-C).\n", out);
}

void cli_print_subcommands(const cli_command *command, FILE *out)
{
    const char *name = CLI_TITLE(command, " ");
    fprintf(out, "stoke %s: %s\n\nUsage: stoke %s %s [OPTION]...\n\n%s\n\nSubjects:\n", name,
            command->summary, name, command->arguments, command->description);
    print_level(name, out);
    fputs("\nExamples:\n", out);
    for (const cli_example *e = command->examples; e->line; e++)
        fprintf(out, "  %s\n      %s\n", e->line, e->meaning);
}
