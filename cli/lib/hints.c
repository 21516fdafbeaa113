/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/hints.h"
#include "cli/lib/settings.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* ---- flags ---- */

/* The same meaning, and the same values: words between blanks. */
static const struct {
    const char *theirs, *ours;
} aliases[] = {
    { "batch_size", "batch" },
    { "num_workers", "workers" },
    { "image_size img_size imgsz input_size", "size" },
    { "max_epochs num_epochs num_train_epochs", "epochs" },
    { "max_steps", "steps" },
    { "learning_rate", "lr" },
    { "accumulate_grad_batches gradient_accumulation_steps", "accumulate" },
    { "gradient_clip_val max_grad_norm grad_clip", "clip_norm" },
    { "num_classes", "classes" },
    { "data_dir data_root", "data" },
    { "model_name", "model" },
    { "persistent_workers", "persistent" },
};

#define CARDS                                                                                                \
    "how many cards train stands in the settings file (devices: 2), where check, optimize and why read it; " \
    "`stoke train` computes on the processor"

/* Another meaning, or none here. */
static const struct {
    const char *theirs, *hint;
} hints[] = {
    { "pin_memory", "batches for a device are pinned anyway; commands that feed one have --transfer "
                    "stream|pinned|pageable" },
    { "non_blocking", "copies run beside the steps anyway; commands that feed a device have --transfer "
                      "stream|pinned|pageable" },
    { "prefetch_factor", "--prefetch N counts batches of all workers together" },
    { "persistent_workers", "workers live on from epoch to epoch anyway" },
    { "monitor", "watching is a separate command: stoke monitor 60" },
    { "benchmark", "trials find the batch: stoke optimize --config FILE --benchmark, or stoke find-batch" },
    { "amp use_amp mixed_precision", "--precision fp16 or bf16 is mixed precision" },
    { "fp16", "--precision fp16 is mixed precision" },
    { "bf16", "--precision bf16 is mixed precision" },
    { "devices gpus num_gpus", CARDS },
    { "device accelerator",
      "`stoke train` computes on the processor; `stoke devices` lists what other commands can feed" },
    { "gpu", "a card is named to check, optimize, estimate, recommend and why; this command is about the "
             "machine it runs on, whose cards `stoke devices` lists" },
    { "out output output_dir save_dir log_dir",
      "a training writes to runs/NAME: --runs DIR and --name NAME say where" },
    { "warmup_steps warmup_epochs", "--warmup takes a number of steps, or a share of them below 1" },
};

/* Whether a name as it is typed, with - or _, is one of the words between blanks. */
static int is_among(const char *words, const char *typed, size_t n)
{
    for (size_t k; *words; words += k + (words[k] == ' ')) {
        size_t same = 0;
        k = strcspn(words, " ");
        while (same < n && same < k && (typed[same] == '-' ? '_' : typed[same]) == words[same]) same++;
        if (same == n && same == k) return 1;
    }
    return 0;
}

int cli_is_option(const cli_call *call, const char *name, size_t n)
{
    for (size_t g = 0; g < call->n_groups; g++)
        for (size_t i = 0; i < call->groups[g].count; i++)
            if (is_among(call->groups[g].options[i].name, name, n)) return 1;
    return 0;
}

/* The name in "--name" and "--name=value"; 0 letters: no flag. */
static size_t name_of(const char *word, const char **name)
{
    *name = word + 2;
    return strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
}

int cli_flag_is(const char *word, const char *names)
{
    const char *name;
    const size_t n = name_of(word, &name);
    return n && is_among(names, name, n);
}

int cli_has_flag(const cli_call *call, const char *name)
{
    for (int i = 1; i < call->argc && strcmp(call->argv[i], "--"); i++)
        if (cli_flag_is(call->argv[i], name)) return 1;
    return 0;
}

static void replace_word(cli_call *call, int at, char *text)
{
    if (!call->typed) { /* argv itself is the system's */
        call->typed = cli_alloc((size_t)call->argc + 1, sizeof *call->typed);
        memcpy(call->typed, call->argv, (size_t)call->argc * sizeof *call->typed);
        call->owned = cli_alloc((size_t)call->argc + 1, sizeof *call->owned);
        call->argv = call->typed;
    }
    free(call->owned[at]);
    call->typed[at] = call->owned[at] = text;
}

void cli_translate_flags(cli_call *call)
{
    for (int i = 1; i < call->argc && strcmp(call->argv[i], "--") != 0; i++) {
        const char *name;
        const size_t n = name_of(call->argv[i], &name);
        if (!n || cli_is_option(call, name, n)) continue;
        for (size_t k = 0; k < CLI_COUNT(aliases); k++) {
            const char *ours = aliases[k].ours;
            if (!is_among(aliases[k].theirs, name, n) || !cli_is_option(call, ours, strlen(ours))) continue;
            const size_t size = strlen(ours) + strlen(name + n) + 3;
            char *text = cli_alloc(size, 1);
            snprintf(text, size, "--%s%s", ours, name + n);
            replace_word(call, i, text);
            break;
        }
    }
}

void cli_hint_flag(const cli_call *call, stoke_error *err)
{
    for (int i = 1; i < call->argc && strcmp(call->argv[i], "--") != 0; i++) {
        const char *name;
        const size_t n = name_of(call->argv[i], &name);
        if (!n || cli_is_option(call, name, n)) continue;
        for (size_t k = 0; k < CLI_COUNT(hints); k++)
            if (is_among(hints[k].theirs, name, n)) {
                cli_error(err, err->code, "there is no option '--%.*s' here: %s", (int)n, name,
                          hints[k].hint);
                return;
            }
        return; /* the first one that is not known is what the error is about */
    }
}

/* ---- files ---- */

/* The last may be a list of data. */
static const char *const endings[] = { ".yaml", ".yml", ".py", ".json" };

static int is_settings(const char *word, size_t n_endings)
{
    for (size_t i = 0; i < n_endings; i++)
        if (cli_ends_with(word, endings[i])) return 1;
    return 0;
}

int cli_translate_file(cli_call *call)
{
    const cli_command *command = call->command;
    /* The first words of commands that read no data have other meanings: `why slow FILE`. */
    const int first = command->reads_data ? 0 : command->max_words;
    struct stat st;
    if (command->takes_network || !cli_is_option(call, "config", 6) || cli_has_flag(call, "config")) return 0;
    for (int w = first; w < call->n_words; w++)
        for (int i = 1; i < call->argc; i++) {
            if (call->argv[i] != call->words[w] ||
                !is_settings(call->words[w], CLI_COUNT(endings) - (command->reads_data != 0)))
                continue;
            /* Where the word would be data it must also be there as a file. */
            if (command->reads_data && (stoke_stat(call->words[w], &st) != 0 || !S_ISREG(st.st_mode)))
                continue;
            const size_t size = strlen(call->words[w]) + 10;
            char *text = cli_alloc(size, 1);
            snprintf(text, size, "--config=%s", call->words[w]);
            replace_word(call, i, text);
            return 1;
        }
    return 0;
}

/* ---- commands ---- */

const char *cli_hint_command(const char *word)
{
    static const struct {
        const char *theirs, *ours;
    } commands[] = {
        { "benchmark", "`stoke bench` measures loading, steps and copies; `stoke optimize --config FILE "
                       "--benchmark` and `stoke find-batch` find the batch by trials" },
        { "profile profiler", "`stoke diagnose` says where the time goes" },
        { "tune", "`stoke optimize --config FILE` changes a settings file, `stoke find-batch` and `stoke "
                  "find-lr` find values by trials" },
        { "lr-find lr_find lr-finder", "it is `stoke find-lr`" },
        { "batch-size batch-find batch_find", "it is `stoke find-batch`" },
        { "training fit", "it is `stoke train`" },
        { "optimise", "it is `stoke optimize`" },
        { "validate", "`stoke eval` scores a network, `stoke verify` reads a data set" },
        { "test", "`stoke eval` scores a network, `stoke selftest` tries the devices" },
        { "infer inference", "it is `stoke predict`" },
        { "info", "`stoke doctor` says what this machine has" },
        { "augment", "`stoke show` draws what augmentation does, `stoke ops` lists it" },
    };
    for (size_t i = 0; i < CLI_COUNT(commands); i++)
        for (const char *at = commands[i].theirs, *end; *at; at = end + (*end == ' ')) {
            end = at + strcspn(at, " ");
            if (strlen(word) == (size_t)(end - at) && !strncasecmp(word, at, strlen(word)))
                return commands[i].ours;
        }
    return is_settings(word, CLI_COUNT(endings))
               ? "a settings file goes behind a command: `stoke check --config FILE`, then optimize or train"
               : NULL;
}
