/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke completion bash: words for the shell, from the command tables.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/help.h"

static void print_flag(const char *name)
{
    fputs(" --", stdout);
    for (; *name; name++) putchar(*name == '_' ? '-' : *name);
}

/* A case of the options of one command. */
static void options_case(const cli_command *command)
{
    cli_call call;
    stoke_error err;
    cli_call_begin(&call, command, 0, NULL, &err);
    cli_print("    '%s') words='--help", CLI_TITLE(command, " "));
    for (size_t g = 0; g < call.n_groups; g++)
        for (size_t i = 0; i < call.groups[g].count; i++) print_flag(call.groups[g].options[i].name);
    fputs("' ;;\n", stdout);
    cli_call_end(&call);
}

static void names(const char *parent)
{
    for (const cli_entry *e = cli_entries; e->words; e++)
        if (!e->hidden && cli_word_below(e, parent)) cli_print(" %s", cli_word_below(e, parent));
}

/* The choices of each option that has some; the same name means the same in every command. */
static void choice_cases(const stoke_option_group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        if (!group->options[i].choices) continue;
        fputs("   ", stdout);
        print_flag(group->options[i].name);
        fputs(") COMPREPLY=($(compgen -W '", stdout);
        for (const char *p = group->options[i].choices; *p; p++) putchar(*p == '|' ? ' ' : *p);
        fputs("' -- \"$word\")); return ;;\n", stdout);
    }
}

/* Options whose values have names, but are free text to the tables. */
static void named_cases(void)
{
    stoke_preset_info preset;
    fputs("    --model) COMPREPLY=($(compgen -W 'b0 b1 b2 b3 b4 b5' -- \"$word\")); return ;;\n"
          "    --augment) COMPREPLY=($(compgen -W '",
          stdout);
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) cli_print("%s%s", i ? " " : "", preset.name);
    puts("' -- \"$word\")); return ;;");
}

/* What stands behind a command without a flag, where it is one of a few words. */
static void word_cases(void)
{
    stoke_preset_info preset;
    stoke_op_info op;
    fputs(
        "  case \"$COMP_CWORD $command\" in\n"
        "    '2 why') COMPREPLY=($(compgen -W 'oom slow unstable loading --help' -- \"$word\")); return ;;\n"
        "    '2 ops') COMPREPLY=($(compgen -W '--help",
        stdout);
    for (size_t i = 0; stoke_preset_at(i, &preset); i++) cli_print(" %s", preset.name);
    for (size_t i = 0; stoke_op_at(i, &op); i++) cli_print(" %s", op.name);
    puts("' -- \"$word\")); return ;;\n  esac");
}

static int run(cli_call *call, stoke_error *err)
{
    if (call->n_words != 1 || strcmp(call->words[0], "bash"))
        return cli_error(err, STOKE_E_INVALID, "which shell? Known: bash");
    puts("# bash completion for stoke; made by `stoke completion bash`\n"
         "_stoke() {\n"
         "  local word=\"${COMP_WORDS[COMP_CWORD]}\" command=\"${COMP_WORDS[1]}\" words=''\n"
         "  COMPREPLY=()\n"
         "  case \"${COMP_WORDS[COMP_CWORD-1]}\" in");
    stoke_data_params data;
    stoke_train_params train;
    const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&train) };
    for (size_t i = 0; i < CLI_COUNT(groups); i++) choice_cases(&groups[i]);
    named_cases();
    puts("  esac");
    word_cases();
    fputs("  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W 'help", stdout);
    names("");
    puts(" --help --version' -- \"$word\")); return\n  fi");
    for (const cli_entry *e = cli_entries; e->words; e++) {
        if (!e->command || e->command->run) continue;
        cli_print("  if [ \"$command\" = '%s' ]; then\n    if [ \"$COMP_CWORD\" -eq 2 ]; then "
                  "COMPREPLY=($(compgen -W '",
                  e->words);
        names(e->words);
        puts("' -- \"$word\")); return; fi\n    command=\"$command ${COMP_WORDS[2]}\"\n  fi");
    }
    puts("  case \"$command\" in");
    fputs("    'help') words='data training files", stdout);
    names("");
    puts("' ;;");
    for (const cli_entry *e = cli_entries; e->words; e++)
        if (!e->hidden && e->command && e->command->run) options_case(e->command);
    puts("  esac\n"
         "  case \"$word\" in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) [ \"$command\" = help ] && COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o default -F _stoke stoke");
    return CLI_OK;
}

const cli_command cli_completion = {
    .summary = "print shell completion",
    .arguments = "bash",
    .max_words = 1,
    .examples = {
        { "source <(stoke completion bash)", "for this shell" },
        { "stoke completion bash > stoke.bash", "a file to keep; `make install` puts it where bash looks" },
    },
    .run = run,
};
