/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke recommend: settings to start from, for the card named, of the size given, or found.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/card.h"
#include "cli/lib/output.h"
#include "cli/lib/facts.h"
#include "cli/lib/settings.h"
#include <stoke/tools/advise.h>

enum { DIALECT_OWN = 0, DIALECT_FLAT = 1, DIALECT_TRAIN_DS = 2 };
enum { TASK_SEGFORMER = 0, TASK_RESNET = 1 };

typedef struct recommend_options {
    const char *gpu, *write;
    double vram;
    int task, dialect, force, choose_model;
    int64_t ranks, cores, samples;
    double hours;
    uint32_t size[2];
} recommend_options;

#define OPTIONS recommend_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, gpu, NULL, "NAME",
             "A card by its name, as people or its driver write it: \"RTX 3090\", 4090, \"Tesla T4\""),
    CLI_NUMBER(REAL, vram, "0", 0, 4096, "GB",
               "Memory of the card as it is sold (1 GB is 1024^3 bytes). Without --gpu and --vram it is the "
               "card found here, or the processor"),
    CLI_CHOICE(
        task, "segformer", "segformer|resnet",
        "What is trained: a SegFormer, or a small residual network on patches; left out, as --config says"),
    CLI_NUMBER(INT, cores, "0", 0, 65536, "N",
               "Cores of the machine with the card; 0 takes those usable here, if the card is here, too"),
    CLI_NUMBER(INT, ranks, "1", 1, 4096, "N", "Processes that share the cores, one per card"),
    CLI_FLAG(choose_model, "Which SegFormer: b0 to b5 as a table, with what speaks for and against each by "
                           "memory, number of pictures and time"),
    CLI_NUMBER(INT, samples, "0", 0, 1000000000, "N",
               "Of --choose-model: pictures to train on; 0 is not known"),
    CLI_NUMBER(REAL, hours, "0", 0, 100000, "H",
               "Of --choose-model: hours that 100 epochs may take, by the emulated time of the card that "
               "--gpu names; 0 is as long as it likes"),
    CLI_TEXT(SIZE, size, "0", "N",
             "Of --choose-model: the side of a picture; 0 is what is usual for the model"),
    CLI_TEXT(STRING, write, NULL, "FILE", "Write the settings as YAML, the reasons as comments"),
    CLI_CHOICE(dialect, "own", "own|flat|train_ds",
               "Keys of the file: own are those of `stoke train --config`; flat are batch_size, num_workers, "
               "use_mixed_precision and so on, for PyTorch programs; train_ds are sections of DataLoader's "
               "arguments, train_ds and validation_ds"),
    CLI_FORCE,
};

/* ---- files ---- */

/* A setting in the dialects; NULL: it has none. */
static const struct {
    const char *setting, *own, *flat;
} KEYS[] = {
    { "model", "model", "model" },
    { "batch_size", "batch", "batch_size" },
    { "image_size", "size", "image_size" },
    { "learning_rate", "lr", "learning_rate" },
    { "epochs", "epochs", "num_epochs" },
    { "accumulate", "accumulate", "gradient_accumulation_steps" },
    { "scheduler", "schedule", "scheduler" },
    { "mixed_precision", "precision", "use_mixed_precision" },
    { "num_workers", "workers", "num_workers" },
    { "grad_clip", "clip_norm", "grad_clip" },
    { "prefetch_factor", NULL, "prefetch_factor" },
    { "persistent_workers", NULL, "persistent_workers" },
    { "pin_memory", NULL, "pin_memory" },
    { "compile", NULL, "compile" },
    { "base_channels", "base_channels", "base_channels" },
    { "num_blocks", "num_blocks", "num_blocks" },
    { "patch_size", "patch_size", "patch_size" },
    { "use_perceptual", NULL, "use_perceptual" },
};

/* Values that are called otherwise in our own files. */
static const char *value_in(int dialect, const stoke_recommendation *r)
{
    if (dialect != DIALECT_OWN) return r->value;
    if (!strcmp(r->key, "mixed_precision")) return !strcmp(r->value, "true") ? "auto" : "fp32";
    if (!strcmp(r->key, "scheduler")) return !strcmp(r->value, "none") ? "constant" : r->value;
    return r->value;
}

static void write_settings(FILE *out, const stoke_advice *advice, int dialect)
{
    stoke_text_print(out, "# Settings to start from, for %s. Made by `stoke recommend`.\n", advice->subject);
    if (*advice->remark) stoke_text_print(out, "# %s\n", advice->remark);
    for (size_t i = 0; i < advice->n; i++) {
        const stoke_recommendation *r = &advice->line[i];
        const char *key = NULL;
        for (size_t k = 0; k < CLI_COUNT(KEYS); k++)
            if (!strcmp(KEYS[k].setting, r->key)) key = dialect == DIALECT_OWN ? KEYS[k].own : KEYS[k].flat;
        stoke_text_print(out, "\n# %s: %s\n", stoke_source_name(r->source), r->why);
        if (key)
            stoke_text_print(out, "%s: %s\n", key, value_in(dialect, r));
        else
            stoke_text_print(out, "# %s: %s (no setting here)\n", r->key, r->value);
    }
}

static const char *advised(const stoke_advice *advice, const char *key, const char *otherwise)
{
    for (size_t i = 0; i < advice->n; i++)
        if (!strcmp(advice->line[i].key, key)) return advice->line[i].value;
    return otherwise;
}

/* Only what DataLoader takes; validation has half of the workers, and nothing to shuffle. */
static void write_train_ds(FILE *out, const stoke_advice *advice)
{
    const char *batch = advised(advice, "batch_size", NULL), *workers = advised(advice, "num_workers", "0");
    const int n = atoi(workers), pinned = !strcmp(advised(advice, "pin_memory", "false"), "true");
    stoke_text_print(out, "# Settings to start from, for %s. Made by `stoke recommend`.\n", advice->subject);
    for (int i = 0; i < 2; i++) {
        stoke_text_print(out, "\n%s:\n", i ? "validation_ds" : "train_ds");
        if (batch) stoke_text_print(out, "  batch_size: %s\n", batch);
        stoke_text_print(out, "  num_workers: %d\n", i && n > 1 ? n / 2 : n);
        stoke_text_print(out, "  pin_memory: %s\n", pinned ? "true" : "false");
        if (n > 0)
            stoke_text_print(out, "  persistent_workers: true\n  prefetch_factor: %s\n",
                             advised(advice, "prefetch_factor", "2"));
    }
}

/* ---- for people, for programs ---- */

static void print_advice(const stoke_advice *advice, const recommend_options *o)
{
    stoke_table *table = CLI_TABLE("setting", "value", "source", "why");
    cli_print("For %s:\n\n", advice->subject);
    for (size_t i = 0; i < advice->n; i++) {
        const stoke_recommendation *r = &advice->line[i];
        cli_row(table, "%s\t%s\t%s\t%s", r->key, r->value, stoke_source_name(r->source), r->why);
    }
    cli_table_end(table);
    if (*advice->remark) cli_print("\n%s\n", advice->remark);
    if (advice->n_expected) puts("\nTo expect (table):");
    for (size_t i = 0; i < advice->n_expected; i++)
        cli_print("  %-22s  %-14s  %s\n", advice->expected[i].key, advice->expected[i].value,
                  advice->expected[i].why);
    cli_print("\nThis is where to start from before anything was tried; `stoke find-batch` finds the batch "
              "for your data by trials.\n");
}

static void print_json(const stoke_advice *advice, const recommend_options *o)
{
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(advice, subject), FACT_COUNT("memory_bytes", advice->memory));
    JSON_LIST(&json, "settings", i, i < advice->n) {
        const stoke_recommendation *r = &advice->line[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(r, key), FACT_OF(r, value),
                     FACT("source", stoke_source_name(r->source)), FACT_OF(r, why));
    }
    JSON_LIST(&json, "expected", i, i < advice->n_expected)
        FACTS_OBJECT(&json, NULL, FACT_OF(&advice->expected[i], key), FACT_OF(&advice->expected[i], value),
                     FACT("source", stoke_source_name(advice->expected[i].source)));
    FACTS(&json, FACT_TEXT("remark", advice->remark), FACT("written", o->write));
    stoke_json_close(&json);
}

/* ---- which model ---- */

static void print_choices(const stoke_model_choice *choices, const recommend_options *o)
{
    stoke_table *table =
        CLI_TABLE("model", "parameters", "usual memory", "largest batch", "100 epochs", "why");
    const char *chosen = NULL;
    for (size_t i = 0; i < STOKE_MODELS; i++) {
        const stoke_model_choice *c = &choices[i];
        char batch[32] = "none", time[48] = "n/a";
        if (c->fits) snprintf(batch, sizeof batch, "%u at %u", (unsigned)c->batch, (unsigned)c->side);
        if (c->hours > 0 && c->hours < 1)
            stoke_text_seconds(3600 * c->hours, time, sizeof time);
        else if (c->hours > 0)
            snprintf(time, sizeof time, "%.3g h", c->hours);
        if (c->chosen) chosen = c->model;
        cli_row(table, "%s%s\t%u M\t%u GB\t%s\t%s\t%s; %s", c->model, c->chosen ? " <-" : "",
                (unsigned)c->million, (unsigned)c->table_gb, batch, time, c->use, c->why);
    }
    cli_table_end(table);
    if (chosen)
        cli_print("\nTake %s.\n", chosen);
    else
        puts("\nNone fits: a smaller --size, or a card with more memory.");
    cli_print("Parameters and usual memory are the table's, the largest batch is estimated in mixed "
              "precision with 1 GiB left free, time is emulated by the card's bandwidth.%s%s\n",
              o->samples ? "" : " --samples N tells how many pictures there are.",
              o->gpu ? "" : " --gpu NAME adds times.");
}

static void json_choices(const stoke_model_choice *choices, const recommend_options *o)
{
    stoke_json json = cli_json_open();
    JSON_LIST(&json, "models", i, i < STOKE_MODELS) {
        const stoke_model_choice *c = &choices[i];
        FACTS_OBJECT(&json, NULL, FACT_OF(c, model), FACT("million_parameters", c->million),
                     FACT("usual_gb", c->table_gb), FACT("largest_batch", c->batch), FACT_OF(c, side),
                     FACT("hours", c->hours > 0 ? c->hours : NAN), FACT_IS_OF(c, chosen), FACT_OF(c, use),
                     FACT_OF(c, why));
    }
    stoke_json_close(&json);
}

static int choose_model(cli_call *call, const stoke_recommend_params *card, stoke_error *err)
{
    const recommend_options *o = call->options;
    stoke_choose_params params = stoke_choose_defaults();
    stoke_model_choice choices[STOKE_MODELS];
    params.gpu = card->gpu;
    params.memory = card->memory;
    params.side = o->size[0];
    params.samples = (uint32_t)o->samples;
    params.hours = o->hours;
    const int r = stoke_choose_model(choices, &params, err);
    if (r) return r;
    (call->common.json ? json_choices : print_choices)(choices, o);
    return STOKE_OK;
}

/* What is trained: as told, else the network that the settings file names. */
static int resnet_is_meant(const cli_call *call)
{
    const recommend_options *o = call->options;
    stoke_estimate_params p = stoke_estimate_defaults();
    char model[32];
    unsigned assumed;
    if (cli_has_flag(call, "task") || !call->common.config) return o->task == TASK_RESNET;
    p.model = NULL;
    return !stoke_estimate_config(&p, call->common.config, model, &assumed, NULL) && !strcmp(model, "resnet");
}

static int run(cli_call *call, stoke_error *err)
{
    const recommend_options *o = call->options;
    const int resnet = resnet_is_meant(call);
    stoke_recommend_params params = stoke_recommend_defaults();
    stoke_advice advice;
    stoke_output output = { 0 };
    cli_card card;
    int elsewhere = 0;
    params.task = resnet ? "resnet" : "segformer";
    params.ranks = (uint32_t)o->ranks;
    int r = cli_may_write(call, o->write, o->force, err);
    /* The card that is meant: named, of the size given, or found here. Its machine's cores, or none. */
    params.gpu = o->gpu;
    params.memory = (uint64_t)(o->vram * (double)(UINT64_C(1) << 30));
    if (!r) r = cli_card_choose(call, &card, &params.gpu, &params.memory, &elsewhere, err);
    if (!r && !params.gpu && !params.memory) cli_say(call, "no card is seen here; --gpu or --vram name one");
    if (o->cores) params.cores = (uint32_t)o->cores;
    if (o->cores || elsewhere) params.cores_source = o->cores ? STOKE_SOURCE_GIVEN : STOKE_SOURCE_NA;
    if (!r) r = o->choose_model ? choose_model(call, &params, err) : stoke_recommend(&advice, &params, err);
    if (r) cli_hint_memory(err);
    if (r || o->choose_model) return r;
    if (o->write) r = stoke_output_open(&output, o->write, err);
    if (r) return r;
    if (o->write && o->dialect == DIALECT_TRAIN_DS)
        write_train_ds(output.stream, &advice);
    else if (o->write)
        write_settings(output.stream, &advice, o->dialect);
    if (o->write) r = stoke_output_commit(&output, err);
    if (r) return r;
    (call->common.json ? print_json : print_advice)(&advice, o);
    if (o->write && o->dialect == DIALECT_OWN)
        cli_say(call, "written to %s: `stoke train DIR --config %s` takes it, and trains on the processor%s",
                o->write, STOKE_WORD(o->write),
                advice.memory
                    ? ", not on the card; for a PyTorch trainer on the card write them with --dialect flat"
                    : "");
    else if (o->write)
        cli_say(call, "written to %s", o->write);
    if (call->common.config)
        cli_say(call, "next: stoke optimize --config %s   puts what suits its network into your settings",
                STOKE_WORD(call->common.config));
    return CLI_OK;
}

const cli_command cli_recommend = {
    .summary = "settings to start from for a card, its memory, or the processor",
    .description =
        "Batch, model, size, workers and the rest as usual for a card or for its memory, cut to what `stoke "
        "estimate` lets fit with 1 GiB to spare and to two thirds of the cores. source says which of these "
        "each value is: table (usual), estimated (the usual one does not fit), measured (the cores here), "
        "given (those of --cores). Times and F1 to expect are the table's, too: of a task that is not yours. "
        "These are starting points: a value measured on your machine and data is better than any. Of a "
        "settings file (--config) the size counts, for --choose-model; `stoke optimize` changes the file.",
    .reads_config = 1,
    .examples = {
        { "stoke recommend --gpu \"RTX 3090\"",
          "for a card you think of buying; left out, for the one found" },
        { "stoke recommend --choose-model --gpu \"RTX 3060\" --samples 800", "which SegFormer, and why" },
        { "stoke recommend --vram 8 --write start.yaml",
          "for 8 GB, in a file that `stoke train --config start.yaml` reads" },
        { "stoke recommend --gpu 4070 --task resnet --write small.yaml --dialect flat",
          "the small network, in the keys of a PyTorch program" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
