/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke: finds the command, prepares its settings, runs it. Everything about a command stands in its own
 * file.
 */
#include "cli/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/lib/common.h"
#include "cli/lib/help.h"
#include "cli/lib/hints.h"

static int unknown_command(const char *parent, const char *word)
{
    const int option = !*parent && *word == '-';
    const char *nearest = option ? cli_nearest_flag(word) : cli_nearest_command(parent, word),
               *hint = *parent ? NULL : cli_hint_command(word), *blank = *parent ? " " : "";
    stoke_text_print(stderr, "stoke: unknown %s '%s%s%s'", option ? "option" : "command", parent, blank,
                     word);
    if (hint)
        stoke_text_print(stderr, ": %s", hint);
    else if (nearest)
        stoke_text_print(stderr, ": did you mean '%s%s%s'?", parent, blank, nearest);
    stoke_text_print(stderr, "\n`stoke help` lists the commands\n");
    return CLI_MISUSE;
}

static int print_command_help(const cli_command *command)
{
    if (!command->run) {
        cli_print_subcommands(command, stdout);
        return CLI_OK;
    }
    cli_call call;
    stoke_error err;
    cli_call_begin(&call, command, 0, NULL, &err);
    cli_print_help(&call, stdout);
    cli_call_end(&call);
    return CLI_OK;
}

static int is_help(const char *word)
{
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

/* One of the two tables, which many commands take. */
static int help_settings(int training)
{
    stoke_data_params data;
    stoke_train_params train;
    stoke_option_group groups[CLI_MAX_GROUPS];
    const stoke_option_group all = training ? stoke_train_options(&train) : stoke_data_options(&data);
    const size_t n_groups = cli_sections(&all, groups);
    cli_print("Settings of %s: flags of every command that %s, and keys of the file that --config names\n"
              "(--memory-limit there is memory_limit).\n\n",
              training ? "training" : "the data path", training ? "trains" : "reads data");
    stoke_options_print_help(groups, n_groups, 80, stdout);
    return CLI_OK;
}

static int help(int n_words, char **words)
{
    int used = 1;
    if (n_words && is_help(words[n_words - 1])) n_words--; /* help about help is help */
    if (!n_words) {
        cli_print_overview(stdout);
        return CLI_OK;
    }
    const int files = !strcmp(words[0], "files");
    const int training = !strcmp(words[0], "training"), settings = training || !strcmp(words[0], "data");
    /* What people look for by the name of the option. */
    if (!strcmp(words[0], "augment") || !strcmp(words[0], "augmentation")) words[0] = (char *)"ops";
    const cli_command *command = files || settings ? NULL : cli_find_command(words, n_words, &used);
    if (!command && !files && !settings) return unknown_command("", words[0]);
    if (n_words > used) {
        stoke_text_print(stderr,
                         "stoke help: '%s' is one argument too many: it explains one command at a time\n",
                         words[used]);
        return CLI_MISUSE;
    }
    if (settings) return help_settings(training);
    if (command) return print_command_help(command);
    cli_print_files(stdout);
    return CLI_OK;
}

/* A picture with ?? in place of names looks like a fault of the names. */
static void mention_missing_letter(const cli_call *call)
{
    const unsigned code = (unsigned)stoke_font_missing();
    const int is_cjk = code >= 0x2e80 && code <= 0x9fff;
    if (code)
        cli_say(call,
                "remark: pictures show ? for U+%04X, since no font here has it: install %s, or set "
                "STOKE_FONT=FILE",
                code, is_cjk ? "fonts-wqy-microhei" : "one that does");
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    cli_call call;
    stoke_error err = { 0 };
    int r = cli_call_begin(&call, command, argc, argv, &err);
    if (r == 1) {
        cli_print_help(&call, stdout);
        r = CLI_OK;
    } else if (r) {
        r = cli_fail(&call, &err);
        if (r == CLI_MISUSE)
            stoke_text_print(stderr, "`stoke %s --help` shows the options and examples\n",
                             CLI_TITLE(command, " "));
    } else {
        cli_handle_signals();
        r = call.command->run(&call, &err);
        if (r < 0) r = cli_fail(&call, &err);
        mention_missing_letter(&call);
    }
    cli_call_end(&call);
    return r;
}

/* The library ignores what it does not know: a program does not fail for a word in its environment. */
static void mention_unknown_cpu(void)
{
    static const char *const known[] = { "c", "avx2", "avx512", "amx" };
    const char *word = getenv("STOKE_CPU");
    for (size_t i = 0; word && i < CLI_COUNT(known); i++)
        if (!strcmp(word, known[i])) return;
    if (word && *word)
        stoke_text_print(stderr, "stoke: STOKE_CPU=%.40s is ignored: it is c, avx2, avx512 or amx\n", word);
}

/* Drivers of devices are tried by this program in another process before they are loaded (cmd_try_driver.c).
 * By its file, not by /proc/self/exe: programs that we start read the variable, too. */
static void have_drivers_tried(void)
{
    char file[4096];
    const ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
    if (length <= 0) return;
    file[length] = 0;
    setenv("STOKE_DRIVER_PROBE", file, 0);
}

static int dispatch(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "help";
    have_drivers_tried();
    if (is_help(word) || !strcmp(word, "help")) return help(argc > 2 ? argc - 2 : 0, argv + 2);
    mention_unknown_cpu();
    if (!strcmp(word, "--version")) {
        cli_print("stoke %s (pixel functions: %s)\n", stoke_version(), stoke_machine_cpu_table());
        return CLI_OK;
    }
    int used;
    const cli_command *command = cli_find_command(argv + 1, argc - 1, &used);
    if (!command) return unknown_command("", word);
    if (command->run) return run_command(command, argc - used, argv + used);
    if (argc == 2 || is_help(argv[2])) return print_command_help(command);
    return unknown_command(word, argv[2]);
}

int cli_main(int argc, char **argv)
{
    cli_keep_memory_small();
    int code = dispatch(argc, argv);
    /* A result that did not reach its file is a failure: `stoke hash ... > /dev/full`. */
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == CLI_OK) {
        stoke_text_print(stderr, "stoke: cannot write to standard output: %s\n",
                         strerror(errno ? errno : EIO));
        code = CLI_FAILED;
    }
    return code;
}
