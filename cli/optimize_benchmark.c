/* SPDX-License-Identifier: Apache-2.0
 *
 * The order matters: first everything else is changed (precision, workers, and where asked the model), then
 * the batch is searched with that. A batch found with other settings would be one for another training.
 */
#include "cli/optimize_benchmark.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* "NVIDIA GeForce RTX 3090" becomes nvidiageforcertx3090. */
static void letters_of(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (; *name && n + 1 < size; name++)
        if (isalnum((unsigned char)*name)) out[n++] = (char)tolower((unsigned char)*name);
    out[n] = 0;
}

/* The card on paper whose name the given one ends with: an RTX 3060 Ti is no RTX 3060. */
static int on_paper(const char *name, stoke_card *card)
{
    char letters[128];
    letters_of(name, letters, sizeof letters);
    const size_t n = strlen(letters);
    for (size_t i = 0; stoke_card_at(i, card); i++) {
        const size_t k = strlen(card->name);
        if (n >= k && !strcmp(letters + n - k, card->name)) return 1;
    }
    return 0;
}

/* The batch so far, and where trials run unless told. `config` is the file as it is. */
static int look_at_file(optimize_benchmark *b, const stoke_optimize_params *params, stoke_error *err)
{
    find_batch_wish *wish = &b->search.wish;
    stoke_trial_plan *plan;
    stoke_card card;
    const int r = find_batch_plan(&plan, wish, 0, err);
    if (r) return r;
    const int native = stoke_trial_plan_engine(plan) == STOKE_ENGINE_NATIVE;
    b->search.before = stoke_trial_plan_batch(plan);
    stoke_trial_plan_free(&plan);
    if (wish->device) return STOKE_OK;
    wish->device = b->device;
    if (native) {
        snprintf(b->device, sizeof b->device, "native");
        return STOKE_OK;
    }
    if (params->gpu && on_paper(params->gpu, &card)) {
        snprintf(b->device, sizeof b->device, "virtual:%s", card.name);
        return STOKE_OK;
    }
    return cli_error(
        err, STOKE_E_INVALID,
        "this file is for PyTorch on a card, and trials run on this processor or on a card on "
        "paper: name one with --gpu or --device, such as --device virtual:rtx3090 (`stoke devices` "
        "lists them)");
}

/* The settings with all other changes, where a child can read them. */
static int write_settings(optimize_benchmark *b, stoke_optimization *plan, stoke_error *err)
{
    stoke_yaml_proof proof;
    const int r = cli_temp_folder(b->folder, err);
    if (r) return r;
    snprintf(b->file, sizeof b->file, "%s/settings.yaml", b->folder);
    return stoke_optimization_write(plan, b->file, &proof, err);
}

static void take_result(optimize_benchmark *b, stoke_optimize_params *params)
{
    const stoke_batch_result *r = &b->search.result;
    snprintf(b->why, sizeof b->why,
             "%u reach %.0f %% of the best throughput, up to %u fit; %s binds (%s, %s)", (unsigned)r->batch,
             100 * r->images_s / r->best_images_s, (unsigned)r->largest_fit,
             r->bound == STOKE_BOUND_FAILURE ? "a failed trial" : stoke_bound_name(r->bound),
             b->search.wish.device, stoke_source_name(find_batch_source(&b->search)));
    params->measured_batch = r->batch;
    params->measured_largest = r->largest_fit;
    params->measured_source = find_batch_source(&b->search);
    params->measured_why = b->why;
}

int optimize_benchmark_run(optimize_benchmark *b, stoke_optimization *plan, stoke_optimize_params *params,
                           stoke_error *err)
{
    find_batch *search = &b->search;
    search->shown = search->wish.config;
    int r = look_at_file(b, params, err);
    if (!r) r = write_settings(b, plan, err);
    search->wish.config = b->file;
    /* What was given for a card is not what this machine may take. */
    if (!r && strcmp(search->wish.device, "native")) search->memory = params->memory;
    if (!r && params->allow_model_scale)
        cli_say(search->call,
                "the trials are of the model as it will be: with --allow-model-scale that may be a "
                "larger one, and another experiment");
    if (!r) r = find_batch_run(search, err);
    if (r) return r;
    if (!search->result.batch) return cli_error(err, STOKE_E_STATE, "%s", search->result.why);
    b->ran = 1;
    take_result(b, params);
    return STOKE_OK;
}

void optimize_benchmark_free(optimize_benchmark *b)
{
    find_batch_free(&b->search);
    if (*b->folder) cli_remove_folder(b->folder);
    *b->folder = 0;
}
