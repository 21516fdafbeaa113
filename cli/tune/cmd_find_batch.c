/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke find-batch: the best batch, by trying.
 */
#include <stdio.h>
#include <string.h>

#include "cli/tune/find_batch.h"
#include "cli/lib/settings.h"
#include "cli/lib/facts.h"

typedef struct find_options {
    find_batch_wish wish;
    const char *map; /* goes into the wish */
    double vram, timeout;
    const char *journal;
    int64_t ranks;
    int although_busy;
} find_options;

#define OPTIONS find_options
static const stoke_option options[] = {
    CLI_WITHIN(wish, STRING, config, .argument = "FILE",
               .help =
                   "Settings of the training: a file of `stoke config`, or the YAML of a PyTorch trainer"),
    CLI_MAP_OPTION,
    FIND_BATCH_SHAPE_OPTIONS,
    FIND_BATCH_PRECISION_OPTION,
    FIND_BATCH_TRIAL_OPTIONS,
    CLI_NUMBER(
        REAL, vram, "0", 0, 4096, "GB",
        "Memory that may be taken, of the card or, with native, of this machine (1 GB is 1024^3 bytes); 0 is "
        "that of the card, or what is free. Of a simulated GPU 1 GiB is left free, as `stoke estimate` has "
        "it; of this machine 5 %, 512 MiB at least (an eighth of less than 4 GiB)"),
    CLI_NUMBER(INT, ranks, "1", 1, 1024, "N",
               "Processes that train together, one for each card: they multiply the effective batch"),
    CLI_FLAG(
        although_busy,
        "Suggest a batch although other programs take cores meanwhile; it is marked with low confidence"),
    FIND_BATCH_SEARCH_OPTIONS,
};

static int run(cli_call *call, stoke_error *err)
{
    const find_options *o = call->options;
    find_batch search = { .call = call,
                          .wish = o->wish,
                          .timeout = o->timeout,
                          .although_busy = o->although_busy,
                          .journal = o->journal,
                          .shown = o->wish.config,
                          .memory = (uint64_t)(o->vram * 1073741824.0),
                          .ranks = (uint32_t)o->ranks };
    search.wish.map = o->map;
    search.wish.data = call->n_words ? call->words[0] : NULL;
    if (!search.wish.device) search.wish.device = "native";
    const int r = find_batch_run(&search, err);
    if (r) {
        stoke_trial_plan_free(&search.plan);
        return r;
    }
    if (call->common.json) {
        stoke_json json = cli_json_open();
        stoke_json_string(&json, "config", search.shown);
        find_batch_json(&json, &search);
        stoke_json_close(&json);
    } else {
        find_batch_print(&search);
    }
    if (search.result.too_busy)
        cli_say(call, "--although-busy suggests a batch all the same, with low confidence");
    const int found = search.result.batch || search.result.too_busy; /* that is an answer, too */
    stoke_trial_plan_free(&search.plan);
    return found ? CLI_OK : CLI_FAILED;
}

const cli_command cli_find_batch = {
    .summary = "find the best batch by trying, safely",
    .arguments = "[DIR]",
    .max_words = 1,
    .description =
        "Tries batches of 1, 2, 4, 8 and on, each in its own process: running out of memory, a crash or "
        "a hang ends the trial and nothing else. Memory and time are fitted by lines, the largest batch that "
        "fits is looked for along them, and of all that fit the smallest one within 5 % of the best "
        "throughput is chosen, a multiple of 8. A last trial with the loader on (where DIR or the file names "
        "data) tells whether batches come as fast as they are used. Memory, throughput and loader are told, "
        "and which one binds. Where other programs take the cores and the times scatter, no batch is "
        "suggested. The learning rate is not changed; what scaling would make of it is said.",
    .examples = {
        { "stoke find-batch --model b2 --size 288 --device sim:rtx3060",
          "a simulated GPU: no training happens" },
        { "stoke find-batch demo/data --size 32 --vram 0.5 --journal trials.jsonl",
          "really trains on this processor, in half a GB" },
        { "stoke find-batch demo/data --config configs/face_config.yaml --model b0 --size 64 --device sim:t4 "
          "--json",
          "what a PyTorch trainer's file asks for; for programs" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
