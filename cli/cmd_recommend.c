/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke recommend: settings to start from, for the card named, of the size given, or found.
 */
#include <stdio.h>
#include <string.h>

#include "cli/card.h"
#include "cli/output.h"
#include <stoke/advise.h>

enum { DIALECT_OWN = 0, DIALECT_FLAT = 1 };
enum { TASK_SEGFORMER = 0, TASK_SMALLNET = 1 };

typedef struct recommend_options {
    const char *gpu, *write;
    double vram;
    int task, dialect;
    int64_t ranks;
} recommend_options;

#define FIELD(name) offsetof(recommend_options, name)

/* clang-format off: one option is one paragraph */
static const stoke_option options[] = {
    { "gpu", STOKE_OPT_STRING, FIELD(gpu), .argument = "NAME",
      .help = "A card by its name, as people or its driver write it: \"RTX 3090\", 4090, \"Tesla T4\"" },
    { "vram", STOKE_OPT_REAL, FIELD(vram), .default_text = "0", .min = 0, .max = 4096, .argument = "GB",
      .help = "Memory of the card as it is sold (1 GB is 1024^3 bytes). Without --gpu and --vram it is the "
              "card found here, or the processor" },
    { "task", STOKE_OPT_CHOICE, FIELD(task), .default_text = "segformer", .choices = "segformer|smallnet",
      .help = "What is trained: a SegFormer, or a small residual network on patches" },
    { "ranks", STOKE_OPT_INT, FIELD(ranks), .default_text = "1", .min = 1, .max = 4096, .argument = "N",
      .help = "Processes that share this machine's cores, one per card" },
    { "write", STOKE_OPT_STRING, FIELD(write), .argument = "FILE",
      .help = "Write the settings as YAML, the reasons as comments" },
    { "dialect", STOKE_OPT_CHOICE, FIELD(dialect), .default_text = "own", .choices = "own|flat",
      .help = "Keys of the file: own are those of `stoke train --config`; flat are batch_size, num_workers, "
              "use_mixed_precision and so on, for PyTorch programs" },
};
/* clang-format on */

/* ---- files ---- */

/* A setting in one of the dialects; NULL: it has none. */
typedef struct key_name {
    const char *setting, *own, *flat;
} key_name;

static const key_name KEYS[] = {
    { "model", "model", "model" },
    { "batch_size", "batch", "batch_size" },
    { "image_size", "size", "image_size" },
    { "learning_rate", "lr", "learning_rate" },
    { "epochs", "epochs", "num_epochs" },
    { "accumulate", "accumulate", "gradient_accumulation_steps" },
    { "scheduler", "schedule", "scheduler" },
    { "mixed_precision", "precision", "use_mixed_precision" },
    { "num_workers", "workers", "num_workers" },
    { "prefetch", "prefetch", NULL },
    { "grad_clip", "clip_norm", "grad_clip" },
    { "prefetch_factor", NULL, "prefetch_factor" },
    { "persistent_workers", NULL, "persistent_workers" },
    { "pin_memory", NULL, "pin_memory" },
    { "compile", NULL, "compile" },
    { "base_channels", NULL, "base_channels" },
    { "num_blocks", NULL, "num_blocks" },
    { "patch_size", NULL, "patch_size" },
    { "use_perceptual", NULL, "use_perceptual" },
};

static const char *key_in(int dialect, const char *setting)
{
    for (size_t i = 0; i < CLI_COUNT(KEYS); i++)
        if (!strcmp(KEYS[i].setting, setting)) return dialect == DIALECT_OWN ? KEYS[i].own : KEYS[i].flat;
    return NULL;
}

/* Values that are called otherwise in our own files. */
static const char *value_in(int dialect, const stoke_recommendation *r)
{
    if (dialect != DIALECT_OWN) return r->value;
    if (!strcmp(r->key, "mixed_precision")) return !strcmp(r->value, "true") ? "auto" : "fp32";
    if (!strcmp(r->key, "scheduler")) return "constant";
    return r->value;
}

static void write_settings(FILE *out, const stoke_advice *advice, int dialect)
{
    fprintf(out, "# Settings to start from, for %s. Made by `stoke recommend`.\n", advice->subject);
    if (*advice->remark) fprintf(out, "# %s\n", advice->remark);
    for (size_t i = 0; i < advice->n; i++) {
        const stoke_recommendation *r = &advice->line[i];
        const char *key = key_in(dialect, r->key);
        fprintf(out, "\n# %s: %s\n", stoke_source_name(r->source), r->why);
        if (key)
            fprintf(out, "%s: %s\n", key, value_in(dialect, r));
        else
            fprintf(out, "# %s: %s (no setting here)\n", r->key, r->value);
    }
}

static int write_file(const stoke_advice *advice, const recommend_options *o, stoke_error *err)
{
    cli_output output = { 0 };
    if (o->task == TASK_SMALLNET && o->dialect == DIALECT_OWN)
        return cli_error(err, STOKE_E_INVALID,
                         "`stoke train` has no smallnet: write its settings with --dialect flat");
    int r = cli_output_open(&output, o->write, err);
    if (r) return r;
    write_settings(output.stream, advice, o->dialect);
    return cli_output_commit(&output, err);
}

/* ---- for people, for programs ---- */

static void print_advice(const stoke_advice *advice)
{
    static const char *const headings[] = { "setting", "value", "source", "why" };
    stoke_table *table = stoke_table_create(headings, CLI_COUNT(headings));
    printf("For %s:\n\n", advice->subject);
    for (size_t i = 0; table && i < advice->n; i++) {
        const stoke_recommendation *r = &advice->line[i];
        const char *const cells[] = { r->key, r->value, stoke_source_name(r->source), r->why };
        stoke_table_row(table, cells);
    }
    if (table) stoke_table_print(table, stdout);
    stoke_table_destroy(&table);
    if (*advice->remark) printf("\n%s\n", advice->remark);
}

static void print_json(const stoke_advice *advice, const recommend_options *o)
{
    stoke_json json;
    stoke_json_begin(&json, stdout, 2);
    stoke_json_object(&json, NULL);
    stoke_json_string(&json, "subject", advice->subject);
    if (advice->memory)
        stoke_json_uint(&json, "memory_bytes", advice->memory);
    else
        stoke_json_null(&json, "memory_bytes");
    stoke_json_array(&json, "settings");
    for (size_t i = 0; i < advice->n; i++) {
        const stoke_recommendation *r = &advice->line[i];
        stoke_json_object(&json, NULL);
        stoke_json_string(&json, "key", r->key);
        stoke_json_string(&json, "value", r->value);
        stoke_json_string(&json, "source", stoke_source_name(r->source));
        stoke_json_string(&json, "why", r->why);
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
    stoke_json_string(&json, "remark", *advice->remark ? advice->remark : NULL);
    stoke_json_string(&json, "written", o->write);
    stoke_json_close(&json);
}

static int make_advice(cli_call *call, stoke_advice *advice, stoke_error *err)
{
    const recommend_options *o = call->options;
    stoke_recommend_params params = stoke_recommend_defaults();
    cli_card card;
    params.gpu = o->gpu;
    params.memory = (uint64_t)(o->vram * (double)(UINT64_C(1) << 30));
    params.task = o->task == TASK_SMALLNET ? "smallnet" : "segformer";
    params.ranks = (uint32_t)o->ranks;
    if (!params.gpu && !params.memory) {
        const int r = cli_card_find(&card, err);
        if (r) return r;
        cli_say_card(call, &card);
        if (*card.name) params.gpu = card.name, params.memory = (uint64_t)card.memory.value;
    }
    const int r = stoke_recommend(advice, &params, err);
    return r == STOKE_E_NOTFOUND ? err->code = STOKE_E_INVALID : r; /* a name that was typed */
}

static int run(cli_call *call)
{
    const recommend_options *o = call->options;
    stoke_advice advice;
    stoke_error err = { 0 };
    if (o->write && !*o->write) {
        cli_error(&err, STOKE_E_INVALID, "the name of the file to write is empty");
        return cli_fail(call, &err);
    }
    if (make_advice(call, &advice, &err)) return cli_fail(call, &err);
    if (o->write && write_file(&advice, o, &err)) return cli_fail(call, &err);
    if (call->common.json)
        print_json(&advice, o);
    else
        print_advice(&advice);
    if (o->write && o->dialect == DIALECT_OWN)
        cli_say(call, "written to %s: `stoke train DIR --config %s` takes it", o->write, o->write);
    else if (o->write)
        cli_say(call, "written to %s", o->write);
    return CLI_OK;
}

static const cli_example examples[] = {
    { "stoke recommend", "for the card found here, or the processor" },
    { "stoke recommend --gpu \"RTX 3090\"", "for a card you think of buying" },
    { "stoke recommend --vram 8 --write start.yaml", "for 8 GB; `stoke train --config start.yaml` takes it" },
    { "stoke recommend --gpu 4070 --task smallnet --write small.yaml --dialect flat",
      "the small network, in the keys of a PyTorch program" },
    { 0 },
};

const cli_command cli_recommend = {
    .name = "recommend",
    .summary = "settings to start from for a card, its memory, or the processor",
    .description =
        "Batch, model, size, workers and the rest from tables by card and by memory, cut to what `stoke "
        "estimate` lets fit with 1 GB to spare and to the cores this process may use. source says which of "
        "these each value is: table, estimated (the table's does not fit), measured (the cores here). Tables "
        "are starting points: a value measured on your machine and data is better than any of them.",
    .examples = examples,
    .options = options,
    .n_options = CLI_COUNT(options),
    .options_bytes = sizeof(recommend_options),
    .run = run,
};
