/* SPDX-License-Identifier: Apache-2.0
 *
 * The order matters: first everything else is changed (precision, workers, and where asked the model), then
 * the batch is searched with that. A batch found with other settings would be one for another training.
 */
#include "cli/tune/optimize_benchmark.h"

#include <stdio.h>
#include <string.h>

/* Trials are not made, and the batch stays: of what, and what to do instead. */
static void say_why_not(optimize_benchmark *b, const char *said, const stoke_optimize_params *params)
{
    const cli_call *call = b->search.call;
    b->left = 1;
    if (!strcmp(said, "smallnet"))
        cli_say(call,
                "no trials: the small network does not run here, and no GPU that can be simulated is named "
                "(--gpu); the batch stays%s",
                params->memory ? " by the estimate" : "");
    else
        cli_say(call, "no trials: %s%s%s not a network that runs here, so the batch stays",
                *said ? "'" : "the file names no network; a guess is", said, *said ? "' is" : "");
    cli_say(call,
            "next: where your network and its card are, in Python: from stokehold import BatchSizeOptimizer; "
            "BatchSizeOptimizer(model, config).find_optimal_batch_size(sample)%s",
            *said ? "" : ", or name it: --model b0..b5");
}

/* The batch so far, and where trials run unless told: ours on this processor, for a card that is named and
 * known to the simulator there. */
static int look_at_file(optimize_benchmark *b, const stoke_optimize_params *params, stoke_error *err)
{
    find_batch_wish *wish = &b->search.wish;
    stoke_trial_plan *plan;
    stoke_card card;
    const int r = find_batch_plan(&plan, wish, 0, err);
    if (r) return r;
    const int native = plan->engine == STOKE_ENGINE_NATIVE;
    const char *model = plan->params.train.model;
    const int known = plan->known, small = model && !strcmp(model, "smallnet");
    const int simulated = !native && params->gpu && stoke_card_named(params->gpu, &card);
    b->search.before = plan->batch;
    if (!known || (small && !simulated && !wish->device))
        say_why_not(b, known ? "smallnet" : plan->said, params);
    stoke_trial_plan_free(&plan);
    if (wish->device || b->left) return STOKE_OK;
    wish->device = b->device;
    if (simulated)
        snprintf(b->device, sizeof b->device, "sim:%s", card.name);
    else
        snprintf(b->device, sizeof b->device, "native");
    if (!simulated && !native)
        cli_say(b->search.call,
                "trials run on this processor with our own network: times and memory of a card are others");
    return STOKE_OK;
}

/* The settings with all other changes, where a child can read them. */
static int write_settings(optimize_benchmark *b, stoke_optimization *plan, stoke_error *err)
{
    stoke_yaml_proof proof;
    const int r = cli_temp_folder(b->folder, err);
    if (r) return r;
    /* How a file is written is told by how its name ends: .yaml, .json, .py. */
    const char *name = stoke_optimization_target(plan), *dot = strrchr(name, '.');
    snprintf(b->file, sizeof b->file, "%s/settings%.16s", b->folder, dot ? dot : ".yaml");
    return stoke_optimization_write(plan, b->file, &proof, err);
}

static void take_result(optimize_benchmark *b, stoke_optimize_params *params)
{
    const stoke_batch_result *r = &b->search.result;
    snprintf(b->why, sizeof b->why, "%u reach %.0f %% of the best throughput%s; %s binds (%s, %s)",
             (unsigned)r->batch, 100 * r->images_s / r->best_images_s,
             strcmp(b->search.wish.device, "native") ? "" : " of this processor",
             r->bound == STOKE_BOUND_FAILURE ? "a failed trial" : stoke_bound_name(r->bound),
             b->search.wish.device, stoke_source_name(find_batch_source(&b->search)));
    params->measured_batch = r->batch;
    params->measured_largest = r->bound == STOKE_BOUND_DATA ? 0 : r->largest_fit;
    params->measured_source = find_batch_source(&b->search);
    params->measured_on_processor = !strcmp(b->search.wish.device, "native");
    params->measured_why = b->why;
}

int optimize_benchmark_run(optimize_benchmark *b, stoke_optimization *plan, stoke_optimize_params *params,
                           stoke_error *err)
{
    find_batch *search = &b->search;
    search->shown = search->wish.config;
    int r = look_at_file(b, params, err);
    if (r || b->left) return r;
    r = write_settings(b, plan, err);
    search->wish.config = b->file;
    /* What was given for a card is not what this machine may take. */
    if (!r && strcmp(search->wish.device, "native")) search->memory = params->memory;
    if (!r && params->allow_model_scale)
        cli_say(search->call, "the trials are of the model as it will be: with --allow-model-scale that may "
                              "be a larger one, which changes the experiment");
    if (!r) r = find_batch_run(search, err);
    if (r) return r;
    b->ran = 1;
    if (search->result.batch)
        take_result(b, params);
    else
        cli_say(search->call, "the batch stays: %s", search->result.why);
    return STOKE_OK;
}

void optimize_benchmark_free(optimize_benchmark *b)
{
    stoke_trial_plan_free(&b->search.plan);
    cli_end_temp_folder(b->folder);
    *b->folder = 0;
}
