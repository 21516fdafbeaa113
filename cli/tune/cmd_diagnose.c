/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke diagnose: why a device waits, what each change would give, and whether it does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune/diagnose.h"
#include "cli/lib/upload_options.h"
#include "cli/lib/output.h"

#define OPTIONS diagnose_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, device, NULL, "NAME|native",
             "What computes: a device of `stoke devices`, or native, the trainer of stoke on this machine's "
             "processor. The first real accelerator unless told, else sim:rtx3090, a simulated GPU"),
    CLI_NUMBER(REAL, step_ms, "0", 0, 1e6, "MS",
               "What the device computes for a step of your network; 0 is not known, and 100 is assumed"),
    CLI_TEXT(STRING, trace, NULL, "FILE",
             "Take the times of steps from a trace: torch.profiler's export_chrome_trace, or one of stoke"),
    CLI_NUMBER(INT, steps, "30", 2, 1e6, "N", "Steps to measure"),
    CLI_NUMBER(INT, warm_up, "0", 0, 1e6, "N", "Steps before them that do not count; 0: prefetch + 1"),
    CLI_FLAG(sync, "The loop waits for every step, as one does that prints the loss each time"),
    CLI_OPTION(FLAG, persistent, .default_text = "true",
               .help = "Workers live on from epoch to epoch; otherwise they are started again for each"),
    CLI_FLAG(
        verify,
        "Measure every change too, in turns with the setup as it is, and say how far the prediction was off"),
    CLI_FLAG(although_busy, "Judge although other programs take cores meanwhile"),
    CLI_NUMBER(INT, pairs, "5", 1, 64, "N", "How many turns of each --verify takes"),
    CLI_TEXT(STRING, what_if, NULL, "SETUPS",
             "Predict other setups too: changes such as \"workers=2 transfer=stream; placement=device\", a "
             "semicolon between setups"),
    CLI_TEXT(STRING, bars, NULL, "FILE", "Draw the time of a step by causes, now and predicted (SVG)"),
    CLI_TEXT(STRING, timeline, NULL, "FILE", "Draw the last steps, lane by lane (SVG)"),
    CLI_TEXT(STRING, html, NULL, "FILE", "Write all of it as one page"),
    CLI_TEXT(STRING, perfetto, NULL, "FILE",
             "Write what happened when as JSON for Perfetto (ui.perfetto.dev)"),
    CLI_TEXT(
        STRING, model, NULL, "b0..b5|resnet|unet",
        "The network that --device native trains, where the file does not tell; b0 otherwise, resnet where "
        "pictures are restored"),
    CLI_MAP_OPTION,
    CLI_FORCE,
};

enum {
    SPANS = 1 << 19, /* of a trace: 50 steps of 32 samples take 10,000 */
    DRAWN = 6        /* steps in the timeline */
};
static const double assumed_ms = 100;

const char *diagnose_source(const diagnose_job *job)
{
    return job->emulated ? "emulated" : "measured";
}

/* ---- what is to be run ---- */

/* The file's settings become those of the call, below its flags. */
static int read_config(diagnose_job *job, stoke_error *err)
{
    cli_call *call = job->call;
    diagnose_options *o = call->options;
    const char *config = call->common.config;
    if (!config) return STOKE_OK;
    int r = cli_map_cut(&job->map, o->map, err);
    if (!r) r = stoke_run_plan_read(&job->plan, config, NULL, job->map.paths, err);
    if (!r) r = stoke_yaml_open_checked(&job->yaml, config, err);
    if (r) return cli_blame(err, config);
    const stoke_setup *setup = &job->plan->setup;
    stoke_upload_params upload = stoke_upload_defaults();
    upload.placement = setup->placement;
    upload.transfer = setup->transfer;
    upload.depth = setup->depth;
    o->sync = setup->sync;
    o->persistent = setup->persistent;
    return cli_replace_settings(call, &job->plan->data, &upload, err);
}

static void settle_setup(diagnose_job *job)
{
    cli_call *call = job->call;
    stoke_data_params *data = &call->data;
    data->workers = stoke_data_workers(data);
    job->setup = stoke_setup_defaults();
    job->setup.batch = (uint32_t)data->batch;
    job->setup.workers = (uint32_t)data->workers;
    job->setup.prefetch = (uint32_t)data->prefetch;
    job->setup.depth = (uint32_t)call->upload.depth;
    job->setup.transfer = call->upload.transfer;
    job->setup.placement =
        call->upload.placement == STOKE_PLACEMENT_DEVICE ? STOKE_PLACEMENT_DEVICE : STOKE_PLACEMENT_HOST;
    job->setup.sync = job->o->sync;
    job->setup.persistent = job->o->persistent;
    job->setup.by_batch = 0;
}

/* What was named, or the first accelerator that is one, or a simulated GPU. */
static int open_device(diagnose_job *job, stoke_error *err)
{
    const int restores = !job->o->device && stoke_dataset_has_targets(job->dataset);
    if (restores)
        cli_say(job->call,
                "batches with targets stay in host memory: the loop that is measured is --device native");
    if (restores || (job->o->device && !strcmp(job->o->device, "native"))) {
        snprintf(job->device_name, sizeof job->device_name, "native");
        snprintf(job->device_title, sizeof job->device_title, "%s", stoke_machine_cpu_name());
        return STOKE_OK;
    }
    char name[64];
    stoke_device_list *list = NULL;
    stoke_device_info one;
    snprintf(name, sizeof name, "%s", job->o->device ? job->o->device : "sim:rtx3090");
    if (!job->o->device && !stoke_device_list_create(&list, NULL)) {
        size_t i = 0;
        while (stoke_device_list_at(list, i, &one) && (*one.problem || one.emulated || one.shares_cores)) i++;
        if (stoke_device_list_at(list, i, &one)) snprintf(name, sizeof name, "%s", one.name);
    }
    stoke_device_list_destroy(&list);
    const int r = cli_device_open(&job->device, name, 0, err);
    if (r) return r;
    const stoke_device_info *info = stoke_device_describe(job->device);
    snprintf(job->device_name, sizeof job->device_name, "%s", info->name);
    snprintf(job->device_title, sizeof job->device_title, "%s", info->title);
    job->emulated = info->emulated;
    if (!job->o->device && info->emulated)
        cli_say(job->call, "no accelerator is here: %s is simulated; --device names another", info->name);
    return STOKE_OK;
}

static int find_step(diagnose_job *job, stoke_error *err)
{
    const diagnose_options *o = job->o;
    if (!job->device) {
        snprintf(job->step_source, sizeof job->step_source, "really computed");
        if (!o->trace && !(o->step_ms > 0)) return STOKE_OK;
        return cli_error(err, STOKE_E_INVALID,
                         "--device native trains a real network: leave --step-ms and --trace out");
    }
    if (o->trace && o->step_ms > 0)
        return cli_error(err, STOKE_E_INVALID, "--trace and --step-ms both say what a step takes: give one");
    if (o->trace)
        return stoke_trace_steps(o->trace, &job->step_ms, &job->n_steps, job->step_source,
                                 sizeof job->step_source, err);
    job->step_assumed = !(o->step_ms > 0);
    snprintf(job->step_source, sizeof job->step_source, "%s",
             job->step_assumed ? "assumed: --step-ms N or --trace FILE says what yours takes" : "--step-ms");
    return STOKE_OK;
}

/* ---- running it ---- */

const char *diagnose_model(const diagnose_job *job)
{
    if (job->o->model) return job->o->model;
    const char *model = job->plan ? job->plan->model : NULL;
    return model ? model : stoke_dataset_has_targets(job->dataset) ? "resnet" : "b0";
}

static int diagnose(diagnose_job *job, stoke_error *err)
{
    const diagnose_options *o = job->o;
    const double step_ms = job->step_assumed ? assumed_ms : o->step_ms;
    stoke_diagnose_params p = stoke_diagnose_defaults();
    p.dataset = job->dataset;
    p.data = job->call->data;
    p.setup = job->setup;
    p.device = job->device;
    p.model = diagnose_model(job);
    p.classes = (uint32_t)p.data.classes;
    if (job->plan && !o->model) {
        p.base_channels = job->plan->base_channels;
        p.num_blocks = job->plan->num_blocks;
    }
    p.step_ms = job->step_ms ? job->step_ms : &step_ms;
    p.n_steps = job->step_ms ? job->n_steps : 1;
    p.steps = (uint32_t)o->steps;
    p.warm_up = (uint32_t)o->warm_up;
    p.although_busy = o->although_busy;
    p.pairs = o->verify ? (uint32_t)o->pairs : 0;
    p.seed = (uint64_t)p.data.seed;
    p.planned = cli_memory_planned;
    p.planned_context = job->call;
    int r = STOKE_OK;
    if (o->timeline || o->perfetto || o->html) r = stoke_trace_create(&job->trace, SPANS, err);
    if (r) return r;
    p.trace = job->trace;
    stoke_progress *progress = cli_progress_begin(job->call, o->verify ? "verifying" : "diagnosing", "steps");
    p.progress = cli_progress_update;
    p.context = progress;
    r = stoke_diagnose(&job->diagnosis, &p, err);
    stoke_progress_destroy(&progress);
    return r;
}

/* ---- what if ---- */

static char *trim(char *text)
{
    text += strspn(text, " \t\n");
    for (size_t n = strlen(text); n && strchr(" \t\n", text[n - 1]); n--) text[n - 1] = 0;
    return text;
}

/* Before anything is measured, so that a slip costs no minutes. */
static int read_what_ifs(diagnose_job *job, stoke_error *err)
{
    if (!job->o->what_if) return STOKE_OK;
    char *text = cli_alloc(strlen(job->o->what_if) + 1, 1), *rest = NULL;
    int r = STOKE_OK;
    strcpy(text, job->o->what_if);
    job->what_if = cli_alloc(DIAGNOSE_WHAT_IFS, sizeof *job->what_if);
    for (char *one = strtok_r(text, ";", &rest); one && !r; one = strtok_r(NULL, ";", &rest)) {
        diagnose_what_if *w = &job->what_if[job->what_ifs];
        one = trim(one);
        if (!*one) continue;
        if (job->what_ifs == DIAGNOSE_WHAT_IFS)
            r = cli_error(err, STOKE_E_INVALID, "--what-if: more than %d setups", DIAGNOSE_WHAT_IFS);
        if (r) break;
        snprintf(w->change, sizeof w->change, "%s", one);
        w->setup = job->setup;
        r = stoke_setup_change(&w->setup, one, err);
        job->what_ifs++;
    }
    free(text);
    return r ? cli_blame(err, NULL) : STOKE_OK;
}

/* ---- where a setting stands, and what to type ---- */

/* The flags of this command that make a setup of another. */
static void flags_between(const stoke_setup *from, const stoke_setup *to, char *text, size_t size)
{

    size_t n = 0;
    text[0] = 0;
#define PUT(...)                                                                                             \
    if (n < size) n += (size_t)snprintf(text + n, size - n, __VA_ARGS__)
    if (to->workers != from->workers) PUT(" --workers %u", to->workers);
    if (to->prefetch != from->prefetch) PUT(" --prefetch %u", to->prefetch);
    if (to->depth != from->depth) PUT(" --depth %u", to->depth);
    if (to->placement != from->placement) PUT(" --placement %s", cli_placement_name(to->placement));
    if (to->transfer != from->transfer) PUT(" --transfer %s", cli_transfer_name(to->transfer));
    if (to->persistent != from->persistent) PUT(" --%spersistent", to->persistent ? "" : "no-");
    if (to->sync != from->sync) PUT(" --%ssync", to->sync ? "" : "no-");
#undef PUT
}

void diagnose_setting(const diagnose_job *job, const stoke_fix *fix, char *text, size_t size)
{
    const char *path;
    int exists;
    stoke_error err = { 0 };
    text[0] = 0;
    if (!fix->applies) return;
    if (job->yaml && fix->setting) {
        const int r = stoke_config_find(job->yaml, fix->setting, job->map.paths, &path, &exists, &err);
        if (!r)
            snprintf(text, size, "%s%s", path,
                     exists                                                 ? ""
                     : stoke_config_of_class(job->yaml, fix->setting, path) ? " (new, if your class takes it)"
                                                                            : " (new)");
        const int theirs = stoke_config_framework(job->yaml) != STOKE_FRAMEWORK_STOKE;
        if (r == STOKE_E_UNSUPPORTED && theirs)
            snprintf(text, size, "in your training code; %s", err.message);
        if (*text) return;
    }
    char flags[256];
    flags_between(&job->diagnosis->costs.measured, &fix->setup, flags, sizeof flags);
    snprintf(text, size, "%s", *flags ? flags + 1 : "");
}

/* Whether optimize can put any of the fixes into the file: all that are left may be for the user's code. */
static int is_for_the_file(const diagnose_job *job, const stoke_fixes *fixes)
{
    const char *path;
    int exists;
    for (int i = 0; i < STOKE_CAUSES; i++) {
        const stoke_fix *fix = &fixes->fix[i];
        if (fix->applies && fix->order && fix->setting &&
            !stoke_config_find(job->yaml, fix->setting, job->map.paths, &path, &exists, NULL) &&
            (exists || !stoke_config_of_class(job->yaml, fix->setting, path)))
            return 1;
    }
    return 0;
}

static void say_next(diagnose_job *job)
{
    const stoke_fixes *fixes = &job->diagnosis->fixes;
    const stoke_setup *now = &job->diagnosis->costs.measured;
    char flags[256], workers[32] = "";
    double had, usable;
    if (stoke_diagnosis_too_busy(job->diagnosis, &had, &usable)) {
        snprintf(job->next, sizeof job->next,
                 "the same when other programs have ended; --although-busy judges all the same");
        return;
    }
    flags_between(now, &fixes->all, flags, sizeof flags);
    if (!*flags) return;
    if (job->plan && !is_for_the_file(job, fixes)) {
        snprintf(job->next, sizeof job->next, "what is left is for your training code, as the list says");
    } else if (job->plan) {
        const char *config = STOKE_WORD(job->call->common.config);
        /* What was found here goes along: optimize by itself has tables and a rule about cores. A card that
         * nobody named is not one that the file is to be changed for. */
        const char *gpu = job->o->device ? stoke_device_simulated(job->device_name) : NULL;
        if (fixes->all.workers != now->workers)
            snprintf(workers, sizeof workers, " --workers %u", fixes->all.workers);
        snprintf(job->next, sizeof job->next, "stoke optimize --config %s%s%s%s", config, workers,
                 gpu && *gpu ? " --gpu " : "", gpu ? gpu : "");
    } else {
        snprintf(job->next, sizeof job->next, "the same with%s", flags);
    }
}

/* ---- pictures ---- */

static int write_timeline(const diagnose_job *job, const char *path, stoke_error *err)
{
    const stoke_step_record *records = job->diagnosis->records;
    const size_t n = job->diagnosis->n_records, from = job->diagnosis->from;
    const size_t first = n - from > DRAWN ? n - DRAWN : from;
    const uint64_t start = records[first - 1].end, end = records[n - 1].end;
    char title[256];
    snprintf(title, sizeof title, "%s: the last %s", job->device_title, STOKE_COUNT(n - first, "step"));
    return stoke_trace_write_svg(job->trace, path, title, start, end - start, err);
}

/* The page takes the timeline in; where no file is named it has one in a temporary folder. */
static int write_page(const diagnose_job *job, const char *title, stoke_error *err)
{
    char folder[CLI_PATH] = "", own[CLI_PATH + 16];
    const char *timeline = job->o->timeline;
    int r = STOKE_OK;
    if (!timeline) {
        r = cli_temp_folder(folder, err);
        if (r) return r;
        snprintf(own, sizeof own, "%s/timeline.svg", folder);
        r = write_timeline(job, own, err);
        timeline = own;
    }
    if (!r) r = stoke_diagnosis_write_html(job->diagnosis, job->o->html, title, timeline, err);
    cli_end_temp_folder(folder);
    return r;
}

static int write_pictures(const diagnose_job *job, stoke_error *err)
{
    const diagnose_options *o = job->o;
    char title[256];
    snprintf(title, sizeof title, "%s: where the time of a step goes", job->device_title);
    int r = STOKE_OK;
    if (o->bars) r = stoke_diagnosis_write_bars(job->diagnosis, o->bars, title, err);
    if (!r && o->timeline) r = write_timeline(job, o->timeline, err);
    if (!r && o->html) r = write_page(job, title, err);
    if (!r && o->perfetto) r = stoke_trace_write_json(job->trace, o->perfetto, err);
    if (!r && job->trace && stoke_trace_dropped(job->trace))
        cli_say(job->call, "%s did not fit into the trace: take fewer --steps",
                STOKE_COUNT(stoke_trace_dropped(job->trace), "span"));
    return r;
}

/* ---- the command ---- */

static int prepare(diagnose_job *job, stoke_error *err)
{
    const diagnose_options *o = job->o;
    const char *const files[] = { o->bars, o->timeline, o->html, o->perfetto };
    int r = STOKE_OK;
    for (size_t i = 0; !r && i < CLI_COUNT(files); i++) r = cli_may_write(job->call, files[i], o->force, err);
    if (!r) r = read_config(job, err);
    if (r) return r;
    settle_setup(job);
    for (size_t i = 0; job->plan && stoke_run_plan_remark(job->plan, i); i++)
        cli_say(job->call, "remark: %s", stoke_run_plan_remark(job->plan, i));
    r = read_what_ifs(job, err);
    if (!r) r = cli_require_data(job->call, &job->call->data, err);
    if (!r) r = cli_open_settled(job->call, &job->call->data, &job->dataset, err);
    if (!r) r = open_device(job, err);
    return r ? r : find_step(job, err);
}

static int run(cli_call *call, stoke_error *err)
{
    if (call->n_words && !call->common.config && diagnose_is_run(call->words[0]))
        return diagnose_run_ranks(call, call->words[0], err);
    diagnose_job *job = cli_alloc(1, sizeof *job);
    job->call = call;
    job->o = call->options;
    int r = prepare(job, err);
    if (!r) r = diagnose(job, err);
    for (size_t i = 0; !r && i < job->what_ifs; i++)
        r = stoke_forecast_make(&job->diagnosis->costs, &job->what_if[i].setup, (uint64_t)call->data.seed,
                                &job->what_if[i].forecast, err);
    if (!r) r = write_pictures(job, err);
    if (!r) {
        say_next(job);
        (call->common.json ? diagnose_json : diagnose_print)(job);
    }
    stoke_diagnosis_free(&job->diagnosis);
    stoke_trace_destroy(&job->trace);
    stoke_trace_steps_free(&job->step_ms);
    stoke_dataset_close(&job->dataset);
    stoke_device_close(&job->device);
    stoke_yaml_close(&job->yaml);
    stoke_run_plan_free(&job->plan);
    cli_map_free(&job->map);
    free(job->what_if);
    free(job);
    return r;
}

const cli_command cli_diagnose = {
    .summary = "why the device waits, cause by cause, and what to change; of a run, which rank",
    .arguments = "[DIR|RUN]",
    .max_words = 1,
    .reads_data = 1,
    .description = "Runs a training loop with your data and settings (a PyTorch trainer's YAML, a file of "
                   "`stoke config`, or flags): the loader, its workers and the copies are real, a step is "
                   "--step-ms of the device, and with --device native a real training step. All idle time of "
                   "the device gets one cause, and the causes sum to it. Then every change is predicted from "
                   "costs that were measured: alone, in the best order, and together; they do not add. "
                   "--verify measures them too. The exit status is 0 even when the device starves. Where DIR is a run "
                   "of `stoke train` in several processes, its log tells which rank held up the others, how much "
                   "that cost, and why: data, other programs, fewer cores, a slower processor. Nothing is run "
                   "then, and no clocks are compared.",
    .examples = {
        { "stoke diagnose --config configs/face_config.yaml demo/data --size 64 --step-ms 5 --steps 12",
          "a PyTorch trainer's file, on this machine, feeding a simulated GPU" },
        { "stoke diagnose demo/data --batch 4 --size 64 --workers 1 --transfer pageable --step-ms 5 --steps "
          "12 --html diagnosis.html",
          "settings by flags; all of it as a page" },
        { "stoke diagnose demo/data --batch 4 --size 64 --step-ms 5 --steps 12 --what-if \"workers=2; "
          "workers=0 transfer=pageable\" --json",
          "what other setups would take, for programs" },
        { "stoke diagnose runs/first", "which of its processes the others waited for" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_upload = 1,
    .any_config = 1,
    .defaults = { { "augment", "standard" }, { "normalize", "imagenet" } },
};
