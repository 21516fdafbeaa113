/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke why: the four questions people ask when a training is not as it should be, answered from its records.
 */
#include <stdio.h>
#include <string.h>

#include "cli/lib/card.h"
#include "cli/lib/facts.h"
#include <stoke/tools/why.h>

typedef struct why_options {
    const char *run, *config, *gpu;
    double vram;
    int64_t cores;
} why_options;

#define OPTIONS why_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, run, NULL, "RUN",
             "The folder of a run of `stoke train`, ended, killed or still going: its log, its settings and "
             "its live page are read"),
    CLI_TEXT(STRING, config, NULL, "FILE",
             "A settings file, of `stoke config` or of a PyTorch trainer; left out, that of the run"),
    CLI_MEANT_OPTIONS,
};

static const char *const questions[] = {
    "Why does it run out of memory?",
    "Why is it slow?",
    "Why is it unstable?",
    "Why do batches come slowly?",
};

/* ---- for people ---- */

/* Reasons of one kind: found (1), not to be told (-1), absent (0). */
static void print_reasons(const stoke_answer *answer, int found, const char *title)
{
    int n = 0;
    for (size_t i = 0; i < answer->n; i++) {
        const stoke_reason *r = &answer->reason[i];
        if (r->found != found) continue;
        if (!n++) cli_print("\n%s\n", title);
        if (found == 1)
            cli_print("  %d. %s\n     %s\n", n, r->cause, r->evidence);
        else if (found)
            cli_print("  %s: %s\n", r->cause, r->evidence);
        else
            cli_print("  no: %s (%s)\n", r->cause, r->evidence);
        if (found && *r->remedy) cli_print("     -> %s\n", r->remedy);
    }
}

static void print_text(const stoke_answer *answer, int trouble, const why_options *o)
{
    cli_print("%s %s.\n", questions[trouble], answer->text);
    if (o->run || o->config) cli_print("From %s, and this machine.\n", o->run ? o->run : o->config);
    print_reasons(answer, 1, "Found, the likeliest first");
    print_reasons(answer, -1, "Cannot be told from here");
    print_reasons(answer, 0, "Looked for, and not the cause");
}

/* ---- for programs ---- */

static void print_json(const stoke_answer *answer, int trouble, const why_options *o)
{
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("trouble", stoke_trouble_name(trouble)), FACT_OF(o, run), FACT_OF(o, config),
          FACT("answer", answer->text));
    JSON_LIST(&json, "reasons", i, i < answer->n) {
        const stoke_reason *r = &answer->reason[i];
        FACTS_OBJECT(&json, NULL, r->found < 0 ? FACT("found", (const char *)NULL) : FACT_IS_OF(r, found),
                     FACT_OF(r, cause), FACT_OF(r, evidence), FACT_TEXT("remedy", r->remedy));
    }
    stoke_json_close(&json);
}

static int run(cli_call *call, stoke_error *err)
{
    const why_options *o = call->options;
    stoke_why_params params = stoke_why_defaults();
    stoke_answer *answer = NULL;
    params.trouble = -1;
    for (int t = STOKE_TROUBLE_OOM; call->n_words && t <= STOKE_TROUBLE_LOADING; t++)
        if (!strcmp(call->words[0], stoke_trouble_name(t))) params.trouble = t;
    params.run = o->run;
    params.config = o->config;
    cli_card_meant(o->gpu, &params.card, &params.gpu);
    params.card_memory = (uint64_t)(o->vram * 1073741824.0);
    params.cores = (uint32_t)o->cores;
    if (params.trouble < 0)
        return cli_error(err, STOKE_E_INVALID, "%s%s%swhat is wrong? Say oom, slow, unstable or loading",
                         call->n_words ? "'" : "", call->n_words ? call->words[0] : "",
                         call->n_words ? "' is none of the four: " : "");
    const int r = stoke_why(&answer, &params, err);
    if (!r) (call->common.json ? print_json : print_text)(answer, params.trouble, o);
    stoke_answer_free(&answer);
    return r;
}

const cli_command cli_why = {
    .summary = "say why a training runs out of memory, is slow or unstable, or waits for data",
    .arguments = "oom|slow|unstable|loading",
    .max_words = 1,
    .description =
        "Reads what a run wrote down (log.jsonl, config.yaml, its live page), the settings file and the "
        "machine, and looks for every cause it knows. The answer comes first, then each cause that was found "
        "with the figures that show it, where they are from, and the command to run; then what cannot be "
        "told from here, and what was looked for and is not the cause. Nothing is measured again and nothing "
        "is changed: `stoke diagnose` and `stoke bench data` measure. Exit status: 0 when there is an "
        "answer, 1 when the run cannot be read.",
    .examples = {
        { "stoke why slow --run runs/first", "where the time of a run went, and what to do" },
        { "stoke why oom --config configs/face_config.yaml --gpu \"RTX 3060\"",
          "what a PyTorch trainer's settings need, on a card that may be in another machine" },
        { "stoke why unstable --run runs/first --json", "for programs" },
        { "stoke why loading", "this machine alone" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
