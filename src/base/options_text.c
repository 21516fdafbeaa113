/* SPDX-License-Identifier: Apache-2.0
 *
 * The option tables as text: --help, man page, commented YAML.
 */
#include <string.h>

#include "src/base/option_table.h"
#include "src/base/terminal.h"
#include "src/base/utf8.h"

/* Columns a text takes on a terminal: code points, not bytes. */
static int shown_width(const char *text, size_t bytes)
{
    int width = 0;
    for (size_t i = 0; i < bytes; i++) width += (text[i] & 0xc0) != 0x80;
    return width;
}

/* Writes text word by word from column `at`, lines no longer than `columns`, later lines after `lead`. */
static void wrap(FILE *out, const char *text, int at, int columns, const char *lead)
{
    int start = at;
    while (*text) {
        size_t length = strcspn(text, " ");
        int width = shown_width(text, length);
        if (at > start && at + 1 + width > columns) {
            fprintf(out, "\n%s", lead);
            at = start = shown_width(lead, strlen(lead));
        } else if (at > start) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, length, out);
        at += width;
        text += length + strspn(text + length, " ");
    }
    fputc('\n', out);
}

/* What stands behind the name: "DIR", "a|b|c", "N|auto"; "" for flags. */
static const char *placeholder(const stoke_option *option)
{
    if (option->argument) return option->argument;
    switch (option->type) {
    case STOKE_OPT_FLAG: return "";
    case STOKE_OPT_CHOICE: return option->choices;
    case STOKE_OPT_AUTO_INT: return "N|auto";
    case STOKE_OPT_BYTES: return "BYTES";
    case STOKE_OPT_SIZE: return "N|HxW";
    case STOKE_OPT_STRING: return "TEXT";
    case STOKE_OPT_INT: return "N";
    case STOKE_OPT_REAL: return "X";
    case STOKE_OPT_RANGE:
    case STOKE_OPT_SPREAD: return "A..B";
    }
    return "";
}

/* help plus what is accepted plus default: "Samples per batch (1 to 4096; default 32)". Where the placeholder
 * does not show the choices they are spelt out. */
static void describe(const stoke_option *option, int placeholder_shown, char *text, size_t size)
{
    char accepted[512] = "";
    const char *standard = option->default_text;
    if (option->type != STOKE_OPT_CHOICE)
        stk_option_range(option, accepted, sizeof accepted);
    else if (!placeholder_shown || option->argument)
        stk_option_choices(option->choices, accepted, sizeof accepted);
    if (standard && (!*standard || (option->type == STOKE_OPT_FLAG && !strcmp(standard, "false"))))
        standard = NULL;
    snprintf(text, size, "%s%s%s%s%s%s%s", option->help, *accepted || standard ? " (" : "", accepted,
             *accepted && standard ? "; " : "", standard ? "default " : "", standard ? standard : "",
             *accepted || standard ? ")" : "");
}

enum {
    HELP_INDENT = 28, /* names up to 24 wide keep their text beside them */
    YAML_COLUMNS = 90
};

static void help_line(const stoke_option *option, int columns, FILE *out)
{
    static const char lead[] = "                            ";
    _Static_assert(sizeof lead - 1 == HELP_INDENT, "the lead is the indent");
    char name[96], left[256], text[1024];
    /* A flag that is on by default is only ever typed to switch it off. */
    int on = option->type == STOKE_OPT_FLAG && option->default_text && !strcmp(option->default_text, "true");
    stk_option_flag(option->name, on ? "--[no-]" : "--", "-", name, sizeof name);
    const char *value = placeholder(option);
    int width = snprintf(left, sizeof left, "  %s%s%s", name, *value ? " " : "", value);
    describe(option, 1, text, sizeof text);
    fputs(left, out);
    if (width > HELP_INDENT - 2)
        fprintf(out, "\n%s", lead);
    else
        fprintf(out, "%*s", HELP_INDENT - width, "");
    wrap(out, text, HELP_INDENT, columns, lead);
}

void stoke_options_print_help(const stoke_option_group *groups, size_t n_groups, int columns, FILE *out)
{
    if (columns <= 0) columns = 80;
    if (columns < HELP_INDENT + 20) columns = HELP_INDENT + 20;
    for (size_t g = 0; g < n_groups; g++) {
        fprintf(out, "%s%s:\n", g ? "\n" : "", groups[g].title ? groups[g].title : "Options");
        for (size_t i = 0; i < groups[g].count; i++) help_line(&groups[g].options[i], columns, out);
    }
}

/* roff: a backslash is \e, a hyphen that is meant as typed \-, and a line must not begin with a control sign.
 */
static void roff_text(const char *text, int typed, FILE *out)
{
    if (*text == '.' || *text == '\'') fputs("\\&", out);
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", out);
        else if (*text == '-' && typed)
            fputs("\\-", out);
        else if (*text == '\n')
            fputc(' ', out);
        else
            fputc(*text, out);
    }
}

void stoke_options_print_man(const stoke_option_group *groups, size_t n_groups, FILE *out)
{
    char name[160], text[1024];
    for (size_t g = 0; g < n_groups; g++) {
        fputs(".SS ", out);
        roff_text(groups[g].title ? groups[g].title : "Options", 0, out);
        fputc('\n', out);
        for (size_t i = 0; i < groups[g].count; i++) {
            const stoke_option *option = &groups[g].options[i];
            stk_option_flag(option->name, "\\-\\-", "\\-", name, sizeof name);
            fprintf(out, ".TP\n\\fB%s\\fR", name);
            if (*placeholder(option)) {
                fputs(" \\fI", out);
                roff_text(placeholder(option), 1, out);
                fputs("\\fR", out);
            } else {
                stk_option_flag(option->name, "\\-\\-no\\-", "\\-", name, sizeof name);
                fprintf(out, ", \\fB%s\\fR", name);
            }
            fputc('\n', out);
            describe(option, 1, text, sizeof text);
            roff_text(text, 0, out);
            fputs(".\n", out);
        }
    }
}

/* libyaml refuses control signs, U+FFFE and the like as they are, so they are escaped. Bytes that are not
 * UTF-8 cannot be said in YAML and become U+FFFD. */
static void yaml_string(const char *text, FILE *out)
{
    fputc('"', out);
    while (*text) {
        const char *start = text;
        uint32_t code = stk_utf8_next(&text);
        if (code == '"' || code == '\\')
            fprintf(out, "\\%c", (int)code);
        else if (code == '\n')
            fputs("\\n", out);
        else if (code == '\t')
            fputs("\\t", out);
        else if (stk_terminal_obeys(code) || code == 0xfeff || (code >= 0xfffd && code <= 0xffff))
            fprintf(out, "\\u%04X", (unsigned)code);
        else
            fwrite(start, 1, (size_t)(text - start), out);
    }
    fputc('"', out);
}

void stoke_options_write_yaml(const stoke_option_group *groups, size_t n_groups, FILE *out)
{
    char text[STK_OPTION_TEXT], help[1024];
    for (size_t g = 0; g < n_groups; g++) {
        fprintf(out, "%s# ---- %s ----\n", g ? "\n" : "", groups[g].title ? groups[g].title : "Options");
        for (size_t i = 0; i < groups[g].count; i++) {
            const stoke_option *option = &groups[g].options[i];
            const char *value = stk_option_text(option, groups[g].target, text);
            describe(option, 0, help, sizeof help);
            fputs("\n# ", out);
            wrap(out, help, 2, YAML_COLUMNS, "# ");
            fprintf(out, "%s: ", option->name);
            if (!value)
                fputs("~", out);
            else if (option->type == STOKE_OPT_STRING)
                yaml_string(value, out);
            else
                fputs(value, out);
            fputc('\n', out);
        }
    }
}
