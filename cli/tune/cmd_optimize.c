/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke optimize: a settings file with the values that keep the card busy, everything else byte for byte.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/lib/card.h"
#include "cli/lib/settings.h"
#include "cli/tune/find_batch.h"
#include "cli/lib/facts.h"
#include "cli/lib/output.h"
#include <stoke/tools/optimize.h>

typedef struct optimize_options {
    const char *config, *gpu, *out, *map;
    double vram;
    int64_t cores, ranks, workers;
    int in_place, allow_model_scale, dry_run, force;
    int benchmark;
    find_batch_wish wish; /* of its trials */
    double timeout;
    const char *journal;
} optimize_options;

#define OPTIONS optimize_options
static const stoke_option options[] = {
    CLI_CONFIG_OPTION("The settings file; it is read, never changed without --in-place"),
    CLI_TEXT(STRING, gpu, NULL, "NAME",
             "The card to optimize for, such as rtx3090; left out, by --vram; with neither, the card found "
             "here, or any card. One that is not here is in another machine: --cores says how many that has"),
    CLI_NUMBER(REAL, vram, "0", 0, 4096, "GB", "Memory of the card in GB; 0 takes that of --gpu"),
    CLI_NUMBER(INT, cores, "0", 0, 65536, "N",
               "Cores of the machine that trains; 0 takes those usable here, if the card is here, too"),
    CLI_RANKS_OPTION("Processes that train on that machine and share its cores, one per card"),
    CLI_NUMBER(INT, workers, "0", 0, 4096, "N",
               "Workers that `stoke diagnose` found best here; 0 takes two thirds of the cores"),
    CLI_TEXT(STRING, out, NULL, "FILE",
             "Where the result goes; left out, x_config.yaml becomes x_gpu_optimized.yaml beside it"),
    CLI_FLAG(in_place, "Change the file itself and keep the old one as FILE.bak"),
    CLI_FLAG(force, "Replace a result, or a FILE.bak, that is there already and differs"),
    CLI_FLAG(allow_model_scale, "Also grow the model as usual for the card (base_channels, num_blocks, "
                                "patch_size, perceptual loss): this changes the experiment"),
    CLI_MAP_OPTION,
    CLI_FLAG(dry_run, "Show the changes and write nothing"),
    CLI_FLAG(benchmark, "Find the batch by trials, as `stoke find-batch`: our networks on this processor, or "
                        "on the simulated GPU that --gpu names; a network that is not ours keeps "
                        "its batch. x.yaml becomes x_optimized.yaml"),
    CLI_WITHIN(wish, STRING, data, .argument = "DIR",
               .help = "Of the trials: the data set, where the file names none or another is meant"),
    FIND_BATCH_SHAPE_OPTIONS,
    FIND_BATCH_TRIAL_OPTIONS,
    FIND_BATCH_SEARCH_OPTIONS,
};

/* One call of the command. */
typedef struct optimizing {
    const cli_call *call;
    const optimize_options *o;
    stoke_optimization *plan;
    stoke_yaml_proof proof;
    cli_card card;         /* the one found, where none was named */
    find_batch search;     /* of --benchmark */
    char folder[CLI_PATH]; /* of the settings that are tried; gone at the end */
    char file[CLI_PATH + 32];
    char device[64], why[256];
    int ran, left; /* trials were made; none could be, and the batch stays */
    const char *target;
    char backup[CLI_PATH];
    int written, unchanged; /* unchanged: the target had these very bytes */
} optimizing;

/* ---- what there is already ---- */

/* 1: both can be read and have the same bytes. */
static int same_bytes(const char *a, const char *b)
{
    FILE *x = cli_open_file(a), *y = cli_open_file(b);
    int same = x && y, c = 0;
    while (same && c != EOF) {
        c = getc(x);
        same = c == getc(y);
    }
    if (x) fclose(x);
    if (y) fclose(y);
    return same;
}

static int exists(const char *path)
{
    struct stat st;
    return stoke_lstat(path, &st) == 0 || !stoke_is_absent(errno);
}

/* ---- writing ---- */

static int copy_file(const char *from, const char *to, stoke_error *err)
{
    char *text;
    stoke_output out;
    struct stat st;
    /* The same limit as the splice has, which has read this file already. */
    int r = cli_read_text(from, 4 << 20, &text, err);
    if (r) return r;
    r = stoke_output_open(&out, to, err);
    if (!r) {
        fputs(text, out.stream); /* no zero bytes: the splice has refused those */
        if (stoke_stat(from, &st) == 0 && fchmod(fileno(out.stream), st.st_mode & 07777) != 0)
            cli_error(err, STOKE_E_IO, "%s: its mode cannot be set",
                      to); /* its bytes are what it is kept for */
        r = stoke_output_commit(&out, err);
    }
    free(text);
    return r;
}

static int keep_backup(optimizing *w, stoke_error *err)
{
    const char *config = w->o->config;
    if (snprintf(w->backup, sizeof w->backup, "%s.bak", config) >= (int)sizeof w->backup)
        return cli_error(err, STOKE_E_INVALID, "%.200s...: the name is too long for a backup", config);
    const int differs = exists(w->backup) && !same_bytes(config, w->backup);
    if (differs && !w->o->force)
        return cli_error(err, STOKE_E_STATE,
                         "%s: an older backup is there and differs; move it away, or replace it with --force",
                         w->backup);
    const int r = differs ? cli_may_write(w->call, w->backup, 1, err) : STOKE_OK;
    return r ? r : copy_file(config, w->backup, err);
}

/* Into a new file, or over one only where nothing can be lost by it. The result is made beside the target
 * first: whether it differs from what is there can then be told. */
static int write_new(optimizing *w, stoke_error *err)
{
    char trial[CLI_PATH];
    struct stat x, y;
    if (stoke_stat(w->o->config, &x) == 0 && stoke_stat(w->target, &y) == 0 && x.st_dev == y.st_dev &&
        x.st_ino == y.st_ino)
        return cli_error(err, STOKE_E_INVALID,
                         "%s: this is the settings file itself; --in-place changes it and keeps a backup",
                         w->target);
    if (!exists(w->target) || w->o->force) {
        const int r = cli_may_write(w->call, w->target, w->o->force, err);
        return r ? r : stoke_optimization_write(w->plan, w->target, &w->proof, err);
    }
    if (snprintf(trial, sizeof trial, "%s.new", w->target) >= (int)sizeof trial || exists(trial))
        return cli_error(err, STOKE_E_STATE, "%s: is there already; replace it with --force", w->target);
    int r = stoke_optimization_write(w->plan, trial, &w->proof, err);
    if (r) return r;
    w->unchanged = same_bytes(trial, w->target);
    remove(trial);
    if (w->unchanged) return STOKE_OK;
    return cli_error(err, STOKE_E_STATE,
                     "%s: is there already and differs from the result; replace it with --force, or name "
                     "another file with --out",
                     w->target);
}

/* ---- for people ---- */

static void print_changes(const optimizing *w)
{
    stoke_table *table = CLI_TABLE("key", "from", "to", "source");
    stoke_change c;
    for (size_t i = 0; stoke_optimization_change(w->plan, i, &c); i++)
        cli_row(table, "%s\t%s\t%s\t%s", c.path, *c.from ? c.from : "(new)", c.to,
                stoke_source_name(c.source));
    cli_table_end(table);
    puts("");
    for (size_t i = 0; stoke_optimization_change(w->plan, i, &c); i++)
        cli_print("%s\n  why:    %s\n  effect: %s\n", c.path, c.why, c.effect);
}

static void print_text(const optimizing *w)
{
    stoke_change c;
    const char *text;
    const int marked = stoke_optimization_marked(w->plan);
    if (w->ran) {
        find_batch_print(&w->search);
        puts("");
    }
    if (stoke_optimization_change(w->plan, 0, &c))
        print_changes(w);
    else
        cli_print("Nothing to change in %s.\n", w->o->config);
    if (stoke_optimization_remark(w->plan, 0)) puts("\nLeft as it is, and remarks:");
    for (size_t i = 0; (text = stoke_optimization_remark(w->plan, i)); i++) cli_print("  %s\n", text);
    if (w->written || w->unchanged)
        cli_print(
            "\nProof: %llu of %llu bytes are unchanged; a second parse confirms that only the keys above "
            "differ.\n",
            (unsigned long long)w->proof.bytes_kept, (unsigned long long)w->proof.bytes_before);
    if (w->written)
        cli_print("Written: %s%s%s\n", w->target, *w->backup ? "; the old file is " : "", w->backup);
    else if (w->unchanged)
        cli_print("%s has this result already.\n", w->target);
    else if (w->o->dry_run)
        puts("\nNothing was written (--dry-run).");
    if ((w->o->gpu || w->o->vram > 0) && !*w->card.name && !w->o->cores && !w->o->workers)
        cli_say(w->call,
                "this card is not here: --cores N says how many cores its machine has, for the workers");
    if (!w->o->gpu && w->o->vram <= 0 && !*w->card.name)
        cli_say(w->call, "no card is seen here: with --gpu NAME or --vram GB the batch is judged, too");
    if (w->written || w->unchanged)
        cli_say(w->call, "next: diff %s %s   then train with %s%s",
                STOKE_WORD(*w->backup ? w->backup : w->o->config), STOKE_WORD(w->target),
                STOKE_WORD(w->target),
                marked == 1
                    ? "; the keys below the comment that was added count only where your trainer reads them"
                : marked == 2 ? "; the keys that are new count only where your trainer reads them"
                              : "");
}

/* ---- for programs ---- */

static void print_json(const optimizing *w)
{
    stoke_change c;
    const char *text;
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(w->o, config), FACT_OF(w, target));
    if (*w->card.name)
        FACTS_OBJECT(&json, "card_found", FACT_OF(&w->card, name),
                     FACT("memory_bytes", (uint64_t)w->card.memory.value),
                     FACT("source", stoke_source_name(w->card.memory.source)));
    else
        stoke_json_null(&json, "card_found");
    FACTS(&json, FACT_IS_OF(w, written), FACT_TEXT("backup", w->backup));
    if (w->ran) {
        stoke_json_object(&json, "benchmark");
        find_batch_json(&json, &w->search);
        stoke_json_close(&json);
    } else {
        stoke_json_null(&json, "benchmark");
    }
    JSON_LIST(&json, "changes", i, stoke_optimization_change(w->plan, i, &c))
        FACTS_OBJECT(&json, NULL, FACT_OF(&c, setting), FACT_OF(&c, path), FACT_TEXT("from", c.from),
                     FACT_OF(&c, to), FACT_OF(&c, why), FACT_OF(&c, effect),
                     FACT("source", stoke_source_name(c.source)));
    JSON_LIST(&json, "remarks", i, (text = stoke_optimization_remark(w->plan, i)))
        stoke_json_string(&json, NULL, text);
    if (!w->written && !w->unchanged) {
        stoke_json_null(&json, "proof");
    } else {
        FACTS_OBJECT(&json, "proof", FACT_OF(&w->proof, spans), FACT_OF(&w->proof, bytes_kept),
                     FACT_OF(&w->proof, bytes_before), FACT_OF(&w->proof, bytes_after),
                     FACT_IS_OF(&w->proof, bytes_equal), FACT_IS_OF(&w->proof, tree_equal));
    }
    stoke_json_close(&json);
}

/* ---- the batch by trials (--benchmark) ---- */

/* The order matters: first everything else is changed (precision, workers, and where asked the model), then
 * the batch is searched with that. A batch found with other settings would be one for another training. */

/* Trials are not made, and the batch stays: of what, and what to do instead. */
static void say_why_not(optimizing *w, const char *said)
{
    const cli_call *call = w->call;
    w->left = 1;
    cli_say(call, "no trials: %s%s%s not a network that runs here, so the batch stays",
            *said ? "'" : "the file names no network; a guess is", said, *said ? "' is" : "");
    cli_say(call,
            "next: where your network and its card are, in Python: from stokehold import BatchSizeOptimizer; "
            "BatchSizeOptimizer(model, config).find_optimal_batch_size(sample)%s",
            *said ? "" : ", or name it: --model b0..b5, resnet or unet");
}

/* The batch so far, and where trials run unless told: ours on this processor, for a card that is named and
 * known to the simulator there. */
static int look_at_file(optimizing *w, const stoke_optimize_params *params, stoke_error *err)
{
    find_batch_wish *wish = &w->search.wish;
    stoke_trial_plan *plan;
    stoke_card card;
    const int r = find_batch_plan(&plan, wish, 0, err);
    if (r) return r;
    const int native = plan->engine == STOKE_ENGINE_NATIVE;
    const int simulated = !native && params->gpu && stoke_card_named(params->gpu, &card);
    w->search.before = plan->batch;
    if (!plan->known) say_why_not(w, plan->said);
    stoke_trial_plan_free(&plan);
    if (wish->device || w->left) return STOKE_OK;
    wish->device = w->device;
    if (simulated)
        snprintf(w->device, sizeof w->device, "sim:%s", card.name);
    else
        snprintf(w->device, sizeof w->device, "native");
    if (!simulated && !native)
        cli_say(w->call,
                "trials run on this processor with our own network: times and memory of a card are others");
    return STOKE_OK;
}

/* The settings with all other changes, where a child can read them. */
static int write_settings(optimizing *w, stoke_error *err)
{
    stoke_yaml_proof proof;
    const int r = cli_temp_folder(w->folder, err);
    if (r) return r;
    /* How a file is written is told by how its name ends: .yaml, .json, .py. */
    const char *name = stoke_optimization_target(w->plan), *dot = strrchr(name, '.');
    snprintf(w->file, sizeof w->file, "%s/settings%.16s", w->folder, dot ? dot : ".yaml");
    return stoke_optimization_write(w->plan, w->file, &proof, err);
}

static void take_result(optimizing *w, stoke_optimize_params *params)
{
    const stoke_batch_result *r = &w->search.result;
    snprintf(w->why, sizeof w->why, "%u reach %.0f %% of the best throughput%s; %s binds (%s, %s)",
             (unsigned)r->batch, 100 * r->images_s / r->best_images_s,
             strcmp(w->search.wish.device, "native") ? "" : " of this processor",
             r->bound == STOKE_BOUND_FAILURE ? "a failed trial" : stoke_bound_name(r->bound),
             w->search.wish.device, stoke_source_name(find_batch_source(&w->search)));
    params->measured_batch = r->batch;
    params->measured_largest = r->bound == STOKE_BOUND_DATA ? 0 : r->largest_fit;
    params->measured_source = find_batch_source(&w->search);
    params->measured_on_processor = !strcmp(w->search.wish.device, "native");
    params->measured_why = w->why;
}

/* Trials of what was planned so far, then the plan again with the batch they found. Where no trials can be
 * made, or none fits, the measured fields stay 0 and why is said. */
static int search_batch(optimizing *w, stoke_optimize_params *params, stoke_error *err)
{
    const optimize_options *o = w->o;
    find_batch *search = &w->search;
    *search = (find_batch){ .call = w->call,
                            .wish = o->wish,
                            .timeout = o->timeout,
                            .journal = o->journal,
                            .shown = o->config,
                            .ranks = (uint32_t)o->ranks };
    search->wish.config = o->config;
    search->wish.map = o->map;
    int r = look_at_file(w, params, err);
    if (r) return r;
    if (!w->left) {
        r = write_settings(w, err);
        search->wish.config = w->file;
        /* What was given for a card is not what this machine may take. */
        if (!r && strcmp(search->wish.device, "native")) search->memory = params->memory;
        if (!r && params->allow_model_scale)
            cli_say(w->call, "the trials are of the model as it will be: with --allow-model-scale that may "
                             "be a larger one, which changes the experiment");
        if (!r) r = find_batch_run(search, err);
        if (r) return r;
        w->ran = 1;
        if (search->result.batch)
            take_result(w, params);
        else
            cli_say(w->call, "the batch stays: %s", search->result.why);
    }
    stoke_optimization_destroy(&w->plan);
    return stoke_optimize(&w->plan, params, err);
}

static int optimize(optimizing *w, const cli_map *map, stoke_error *err)
{
    const optimize_options *o = w->o;
    stoke_optimize_params params = stoke_optimize_defaults();
    params.gpu = o->gpu;
    params.memory = (uint64_t)(o->vram * 1073741824.0);
    /* For the card named, of the size given, or found; with none of them, for any card. Whether the card that
     * is meant is here decides whose cores count. */
    int r = cli_card_choose(w->call, &w->card, &params.gpu, &params.memory, &params.elsewhere, err);
    if (params.elsewhere) w->card = (cli_card){ 0 };
    params.config = o->config;
    params.cores = (uint32_t)o->cores;
    params.ranks = (uint32_t)o->ranks;
    params.measured_workers = (uint32_t)o->workers;
    params.allow_model_scale = o->allow_model_scale;
    params.map = map->paths;
    params.by_trials = o->benchmark;
    if (!r) r = stoke_optimize(&w->plan, &params, err);
    if (!r && o->benchmark) r = search_batch(w, &params, err);
    if (r) return r;
    w->target = o->in_place ? o->config : o->out ? o->out : stoke_optimization_target(w->plan);
    stoke_change any;
    if (o->dry_run || (o->in_place && !stoke_optimization_change(w->plan, 0, &any)))
        return STOKE_OK; /* no backup of itself */
    r = o->in_place ? keep_backup(w, err) : write_new(w, err);
    if (!r && o->in_place) r = stoke_optimization_write(w->plan, w->target, &w->proof, err);
    w->written = !r && !w->unchanged;
    return r;
}

static int run(cli_call *call, stoke_error *err)
{
    optimizing w = { .call = call, .o = call->options };
    cli_map map = { 0 };
    int r = STOKE_OK;
    if (!w.o->config)
        r = cli_error(err, STOKE_E_INVALID, "no settings file is named: give one with --config FILE");
    else if (w.o->in_place && w.o->out)
        r = cli_error(err, STOKE_E_INVALID, "--in-place changes the file itself; leave out --out");
    if (!r) r = cli_map_cut(&map, w.o->map, err);
    if (!r) r = optimize(&w, &map, err);
    if (r)
        cli_hint_memory(err);
    else
        (call->common.json ? print_json : print_text)(&w);
    stoke_optimization_destroy(&w.plan);
    stoke_trial_plan_free(&w.search.plan);
    cli_end_temp_folder(w.folder);
    cli_map_free(&map);
    return r;
}

const cli_command cli_optimize = {
    .summary = "write a settings file with the values that keep the card busy",
    .arguments = "--config FILE",
    .description =
        "Reads a file of settings, of this program or of a PyTorch trainer (flat keys, data:/training: "
        "sections, train_ds: sections, Lightning's trainer:, TrainingArguments), and writes a copy with "
        "other values for batch size, workers, mixed precision, pinned memory and the like. The batch is "
        "what is usual for the card, as far as the network that the file names fits by `stoke estimate`; one "
        "that does not fit is lowered, and one of an unknown network is left. Without a card everything else "
        "is still done. Only arguments that the file's framework takes are written; in files of somebody's "
        "own trainer new keys stand below a comment. Each change is shown with its reason and source. "
        "Comments, order, quotes, line ends and indentation stay byte for byte, which is proved before the "
        "file is written. What cannot be changed safely (values behind anchors and merges, maps in braces "
        "over several lines) is left, with line and reason; a file with keys given twice, tabs in its "
        "indentation or several documents is refused. The learning rate is never changed; what scaling would "
        "make of it is said. With --benchmark the batch is the best of trials with all other changes made; "
        "it may be less than the file's, where that does not fit.",
    .examples = {
        { "stoke optimize --config configs/face_config.yaml --gpu rtx3090",
          "writes configs/face_gpu_optimized.yaml and says what changed, and why" },
        { "stoke optimize --config configs/face_config.yaml --vram 8 --dry-run",
          "what it would be for a card of 8 GB" },
        { "stoke optimize --config configs/face_gpu_optimized.yaml --benchmark",
          "the batch by trials: writes configs/face_gpu_optimized_optimized.yaml" },
        { "stoke optimize --config configs/face_config.yaml --gpu t4 --cores 4 --out configs/colab.yaml "
          "--json",
          "for another machine, and for programs" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
