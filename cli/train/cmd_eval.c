/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke eval: how good a network is on a set, class by class, and where it is worst.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/page.h"
#include "cli/lib/help.h"
#include "cli/lib/output.h"
#include "cli/lib/settings.h"

typedef struct eval_options {
    const char *out;
    int original, mode, flip, force;
    double overlap;
    int precision;
    int64_t threads, worst;
} eval_options;

#define OPTIONS eval_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, out, NULL, "DIR",
             "Folder for confusion.png, worst.png (the worst pictures with truth and prediction), "
             "classes.csv and eval.json; made when it does not exist. Without it nothing is written"),
    CLI_NUMBER(INT, worst, "8", 0, STOKE_EVAL_WORST, "N", "How many of the worst pictures to list"),
    CLI_FLAG(original, "Compare at each mask's own size, as `stoke predict` would write it. Without it the "
                       "figures are those that validation had during training"),
    CLI_CHOICE(mode, "auto", "auto|resize|slide",
               "How pictures are looked at: resize brings pictures and masks to the network's size; slide "
               "moves windows over them and compares at the masks' own size; auto does what the run's "
               "validation did. With --original: see `stoke predict`"),
    CLI_NUMBER(REAL, overlap, "0.5", 0, 0.9, "X",
               "Of windows: share of a window that its neighbour sees too"),
    CLI_FLAG(flip,
             "At the masks' own size: average with the prediction for the mirror image; twice the work"),
    CLI_CHOICE(
        precision, "auto", "fp32|bf16|fp16|auto",
        "Type of the activations. Without it that of the run, so the figures are those of its validation; "
        "auto is bf16 where the processor multiplies it natively, else fp32"),
    CLI_NUMBER(INT, threads, "0", 0, 1024, "N", "Threads of the network; 0 = all usable cores"),
    CLI_FORCE,
};

/* ---- what to evaluate ---- */

/* The share that a run put aside for its validation says nothing about another set, where flags name one. A
 * set that is gone was moved, and the flags say where to. */
static void forget_share(const cli_call *call, const stoke_trained *trained, stoke_data_params *data)
{
    char *places[2] = { 0 };
    stoke_data_params own = stoke_data_defaults();
    stoke_train_params params = stoke_train_defaults();
    stoke_option_storage *storage = NULL;
    const char *config = stoke_trained_config(trained);
    if (!(data->val_split > 0) || cli_has_flag(call, "val_split") || cli_has_flag(call, "split")) return;
    if (!config || call->common.config) return;
    const stoke_option_group groups[] = { stoke_data_options(&own), stoke_train_options(&params) };
    if (!stoke_settings_load_yaml(groups, CLI_COUNT(groups), &own, config, &storage, NULL) &&
        cli_set_name(&own) && cli_set_name(&call->data)) {
        places[0] = realpath(cli_set_name(&own), NULL);
        places[1] = realpath(cli_set_name(&call->data), NULL);
    }
    if (places[0] && places[1] && strcmp(places[0], places[1]) != 0) {
        cli_say(call, "remark: not the set of the run, so its --val-split %g does not count here",
                data->val_split);
        data->val_split = 0;
    }
    free(places[0]);
    free(places[1]);
    stoke_options_free_storage(&storage);
}

/* A set without a validation part is evaluated as a whole, unless the flag insists on the part. */
static int settle_split(const cli_call *call, stoke_data_params *data, uint64_t *count, stoke_error *err)
{
    stoke_dataset *dataset = NULL;
    int r = cli_open_dataset(call, data, &dataset, err);
    if (r == STOKE_E_NOTFOUND && data->split == STOKE_SPLIT_VAL && !(data->val_split > 0) &&
        !cli_has_flag(call, "split")) {
        data->split = STOKE_SPLIT_ALL;
        r = cli_open_dataset(call, data, &dataset, err);
        if (!r)
            cli_say(call, "remark: the set has no validation part: the whole set is evaluated, %s",
                    STOKE_COUNT(stoke_dataset_count(dataset), "sample"));
    }
    if (!r) r = cli_settle_orientation(call, dataset, data, err);
    if (!r) *count = stoke_dataset_count(dataset);
    stoke_dataset_close(&dataset);
    return r;
}

static stoke_eval_params params_of(const cli_call *call, const stoke_trained *trained, const char *picture)
{
    const eval_options *o = call->options;
    stoke_eval_params params = stoke_eval_defaults();
    stoke_trained_settings(trained, &params.network);
    /* Of pictures that are restored the size is that of a tile, and a run's says nothing of it. */
    const int sized = call->data.task != STOKE_TASK_RESTORE || cli_has_flag(call, "size");
    if (call->data.size[0] && sized) memcpy(params.network.size, call->data.size, sizeof params.network.size);
    params.network.batch = cli_has_flag(call, "batch") ? (uint32_t)call->data.batch : 0;
    params.network.mode =
        o->original || cli_has_flag(call, "mode") ? o->mode : (int)stoke_trained_eval_mode(trained);
    params.network.overlap = o->overlap;
    params.network.flip = o->flip;
    if (cli_has_flag(call, "precision")) params.network.precision = o->precision;
    params.network.threads = (uint32_t)o->threads;
    params.original = o->original;
    params.picture = picture;
    return params;
}

/* ---- what came out ---- */

static const char *const modes[] = { "auto", "resize", "slide" };
static const char *const splits[] = { "all", "train", "val", "test" };

static int restores(const stoke_eval_report *report)
{
    return report->task == STOKE_TASK_RESTORE;
}

static const char *convention(const stoke_eval_report *report)
{
    return restores(report) ? stoke_restored_convention() : stoke_scores_convention();
}

/* The column of names is left out when no class has one. */
static void put_classes(cli_page *page, const stoke_eval_report *report)
{
    int names = 0;
    for (uint32_t id = 0; id < report->classes; id++) names |= report->class_names[id] != NULL;
    cli_page_table(page, "classes");
    for (uint32_t id = 0; id < report->classes; id++) {
        const stoke_class_score c = stoke_confusion_class(report->confusion, id);
        const char *name = report->class_names[id];
        CLI_PAGE_ROW(page, CELL(names ? "id" : "class", FACT("id", id)), CELL_FACT(FACT("name", name)),
                     CELL(names ? "class" : NULL, FACT(NULL, name ? name : "-")),
                     CELL_OF("IoU", &c, iou, "%.4f"), CELL_OF("F1", &c, f1, "%.4f"),
                     CELL_OF("precision", &c, precision, "%.4f"), CELL_OF("recall", &c, recall, "%.4f"),
                     CELL("pixels", FACT_OF(&c, truth)), CELL_FACT(FACT_OF(&c, predicted)),
                     CELL_FACT(FACT_OF(&c, hit)));
    }
}

static void put_worst(cli_page *page, const stoke_eval_report *report, size_t most)
{
    if (report->n_worst && most) cli_page_say(page, "\n");
    cli_page_table(page, "worst");
    for (size_t i = 0; i < report->n_worst && i < most; i++) {
        const stoke_eval_worst *worst = &report->worst[i];
        if (restores(report))
            CLI_PAGE_ROW(
                page, CELL("worst pictures", FACT_OF(worst, name)), CELL_OF("PSNR (dB)", worst, psnr, "%.2f"),
                CELL_OF("of the input", worst, input_psnr, "%.2f"), CELL_OF("SSIM", worst, ssim, "%.4f"));
        else
            CLI_PAGE_ROW(page, CELL("worst pictures", FACT_OF(worst, name)),
                         CELL_OF("mean IoU", worst, miou, "%.4f"),
                         CELL_OF("accuracy", worst, accuracy, "%.4f"));
    }
    cli_page_table_end(page);
}

/* What the network gained over doing nothing. */
static void print_restored(const stoke_eval_report *report)
{
    const stoke_scores *s = &report->scores, *input = &report->input;
    cli_print("PSNR %.2f dB, SSIM %.4f\n", s->psnr, s->ssim);
    if (isfinite(input->psnr))
        cli_print("as they came: PSNR %.2f dB, SSIM %.4f; gained %.2f dB\n", input->psnr, input->ssim,
                  s->psnr - input->psnr);
    else if (isnan(input->psnr))
        cli_print("as they came: not compared, the pictures are smaller than their targets\n");
    cli_print("loss %.4f (charbonnier)\nover %s, whole, in %s of %ux%u at most\n", report->loss,
              STOKE_COUNT(report->samples, "picture"), STOKE_COUNT(report->windows, "tile"), report->height,
              report->width);
}

static void print_means(const stoke_eval_report *report)
{
    const stoke_scores *s = &report->scores;
    if (restores(report)) {
        print_restored(report);
        return;
    }
    const char *comma = "";
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_metric_fits(i, report->task)) {
            cli_print("%s%s %.4f", comma, stoke_score_at(i)->title, stoke_score_value(s, i));
            comma = ", ";
        }
    cli_print("\n");
    if (!isnan(report->loss)) cli_print("loss %.4f (cross-entropy)\n", report->loss);
    cli_print("over %u of %s, %s of %s, ", (unsigned)s->classes_counted,
              STOKE_COUNT(report->classes, "class"), STOKE_COUNT(s->pixels, "pixel"),
              STOKE_COUNT(report->samples, "picture"));
    if (report->original && report->mode != STOKE_PREDICT_RESIZE)
        cli_print("at their own size: %.1f windows of %ux%u each\n",
                  (double)report->windows / (double)report->samples, report->height, report->width);
    else if (report->original)
        cli_print("at their own size, seen at %ux%u\n", report->height, report->width);
    else
        cli_print("resized to %ux%u\n", report->height, report->width);
}

/* A row for each class of the truth. */
static void put_confusion(stoke_json *json, const stoke_eval_report *report)
{
    JSON_LIST(json, "confusion", t, t < report->classes) {
        JSON_LIST(json, NULL, p, p < report->classes)
            stoke_json_uint(json, NULL, stoke_confusion_count(report->confusion, t, p));
    }
}

static void write_json(FILE *out, const cli_call *call, const stoke_trained *trained,
                       const stoke_eval_report *report)
{
    const eval_options *o = call->options;
    const stoke_scores *s = &report->scores;
    cli_page page = { .as_json = 1 };
    stoke_json *json = &page.json;
    stoke_json_begin(json, out, 1);
    stoke_json_object(json, NULL);
    if (out != stdout) stoke_json_string(json, "comment", STOKE_OUTPUT_MARK);
    FACTS(json, FACT("network", stoke_trained_weights(trained)), FACT_OF(&report->plan, model),
          FACT("run_config", stoke_trained_config(trained)), FACT("data", cli_set_name(&call->data)),
          FACT("split", splits[call->data.split]), FACT_SIZE("size", report->height, report->width),
          FACT_IS_OF(report, original), FACT("mode", modes[report->mode]),
          FACT_COUNT("windows", report->windows),
          FACT("precision_used", stoke_precision_name(report->plan.precision)));
    cli_json_memory(json, &report->memory);
    FACTS(json, FACT_OF(&call->data, ignore_index), FACT_OF(report, samples), FACT_OF(report, bad),
          FACT_TEXT("first_bad", report->first_bad), FACT_TEXT("unrecorded", report->unrecorded),
          FACT_OF(report, seconds), FACT_OF(report, waited_seconds), FACT_OF(report, images_per_s));
    for (int i = 0; i < STOKE_SCORES; i++)
        if (stoke_metric_fits(i, report->task))
            stoke_json_real(json, stoke_score_at(i)->name, stoke_score_value(s, i));
    FACTS(json, FACT_OF(report, loss), FACT_OF(s, classes_counted), FACT_OF(s, pixels),
          FACT("convention", convention(report)));
    if (restores(report))
        FACTS_OBJECT(json, "input", FACT("psnr", report->input.psnr), FACT("ssim", report->input.ssim));
    if (!restores(report)) {
        put_classes(&page, report);
        cli_page_table_end(&page);
        put_confusion(json, report);
    }
    put_worst(&page, report, (size_t)o->worst);
    stoke_json_close(json);
}

/* ---- files ---- */

/* The four are written together: where eval.json is ours, which says so, the table beside it is too. */
static int check_outputs(const cli_call *call, const eval_options *o, stoke_error *err)
{
    static const char *const names[] = { "eval.json", "confusion.png", "worst.png", "classes.csv" };
    char path[CLI_PATH];
    int r = STOKE_OK, again = 0;
    for (size_t i = 0; !r && i < CLI_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", o->out, names[i]);
        if (i == CLI_COUNT(names) - 1 && again) break;
        const int there = stoke_there(path);
        r = cli_may_write(call, path, o->force, err);
        if (i == 0) again = there && !r && !o->force;
    }
    return r;
}

static int write_matrix(const char *path, const stoke_eval_report *report, stoke_error *err)
{
    const uint32_t n = report->classes;
    uint64_t *counts = cli_alloc((size_t)n * n, sizeof *counts);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t p = 0; p < n; p++)
            counts[(size_t)t * n + p] = stoke_confusion_count(report->confusion, t, p);
    char title[96];
    snprintf(title, sizeof title, "Confusion of classes: %s, mean IoU %.4f",
             STOKE_COUNT(report->samples, "picture"), report->scores.miou);
    int r = stoke_matrix_write(path, counts, n, (const char *const *)report->class_names, title, err);
    free(counts);
    return r;
}

static int write_classes(const eval_options *o, const stoke_eval_report *report, stoke_error *err)
{
    char path[CLI_PATH];
    stoke_output file = { 0 };
    snprintf(path, sizeof path, "%s/confusion.png", o->out);
    int r = write_matrix(path, report, err);
    snprintf(path, sizeof path, "%s/classes.csv", o->out);
    if (!r) r = stoke_output_open(&file, path, err);
    if (r) return r;
    cli_page page = { .as_json = 0 };
    put_classes(&page, report);
    stoke_table_csv(page.table, file.stream);
    stoke_table_destroy(&page.table);
    return stoke_output_commit(&file, err);
}

static int write_files(const cli_call *call, const stoke_trained *trained, const stoke_eval_report *report,
                       stoke_error *err)
{
    const eval_options *o = call->options;
    char path[CLI_PATH];
    stoke_output file = { 0 };
    int r = restores(report) ? STOKE_OK : write_classes(o, report, err);
    snprintf(path, sizeof path, "%s/eval.json", o->out);
    if (!r) r = stoke_output_open(&file, path, err);
    if (!r) {
        write_json(file.stream, call, trained, report);
        fputc('\n', file.stream);
        r = stoke_output_commit(&file, err);
    }
    return r;
}

/* ---- the command ---- */

static void print_result(const cli_call *call, const stoke_trained *trained, const stoke_eval_report *report)
{
    const eval_options *o = call->options;
    if (call->common.json) {
        write_json(stdout, call, trained, report);
        putchar('\n');
    } else {
        cli_page page = { .as_json = 0 };
        if (!restores(report)) {
            put_classes(&page, report);
            cli_page_table_end(&page);
            putchar('\n');
        }
        print_means(report);
        cli_print_wrapped(convention(report), 100, stdout);
        put_worst(&page, report, (size_t)o->worst);
        if (o->out)
            cli_print("\n%s: %s%s%seval.json\n", o->out, restores(report) ? "" : "confusion.png, ",
                      report->n_worst ? "worst.png, " : "", restores(report) ? "" : "classes.csv, ");
    }
    cli_say(call, "%s in %s: %.1f img/s", STOKE_COUNT(report->samples, "picture"),
            STOKE_SECONDS(report->seconds), report->images_per_s);
    if (report->bad)
        cli_say(call, "bad files: %llu left out; the first: %s", (unsigned long long)report->bad,
                report->first_bad);
    if (o->out || call->common.json) return;
    char line[2048] = "stoke eval";
    for (int i = 1; i < call->argc; i++) cli_append_word(line, sizeof line, call->argv[i]);
    cli_say(call, "next: %s --out eval   writes %sthe worst pictures", line,
            restores(report) ? "" : "the confusion matrix and ");
}

static int evaluate(cli_call *call, const stoke_trained *trained, stoke_eval_report *report, stoke_error *err)
{
    const eval_options *o = call->options;
    char picture[CLI_PATH];
    uint64_t count = 0;
    snprintf(picture, sizeof picture, "%s/worst.png", o->out ? o->out : "");
    forget_share(call, trained, &call->data);
    int r = settle_split(call, &call->data, &count, err);
    if (!r && o->out) r = check_outputs(call, o, err);
    if (!r && o->out) r = stoke_make_folders(o->out, err);
    if (r) return r;
    cli_say(call, "%s on %s, split %s: %s", stoke_trained_weights(trained), cli_set_name(&call->data),
            splits[call->data.split], STOKE_COUNT(count, "picture"));
    stoke_eval_params params = params_of(call, trained, o->out ? picture : NULL);
    params.planned = cli_memory_planned;
    params.planned_context = (void *)call;
    stoke_progress *progress = cli_progress_begin(call, "evaluating", "pictures");
    r = stoke_evaluate_set(&call->data, &params, cli_progress_update, progress, report, err);
    stoke_progress_destroy(&progress);
    if (!r && o->out) r = write_files(call, trained, report, err);
    return r;
}

static int run(cli_call *call, stoke_error *err)
{
    stoke_trained *trained = NULL;
    stoke_eval_report report = { 0 };
    int r = call->n_words ? stoke_trained_open(&trained, call->words[0], err)
                          : cli_error(err, STOKE_E_INVALID,
                                      "no network given: name a run folder, or a folder with config.json and "
                                      "model.safetensors (stoke eval RUN --data DIR)");
    cli_keep_named_quarantine(call);
    if (!r) r = evaluate(call, trained, &report, err);
    if (*report.unrecorded) cli_say(call, "warning: %s", report.unrecorded);
    if (!r) print_result(call, trained, &report);
    stoke_eval_report_free(&report);
    stoke_trained_close(&trained);
    return r;
}

const cli_command cli_eval = {
    .summary = "evaluate a network on a set: scores per class, confusion matrix, worst pictures",
    .arguments = "RUN|FOLDER",
    .max_words = 1,
    .description = "RUN is a run folder of `stoke train` (its best/ is taken, or last/ where there is none "
                   "yet), FOLDER one with a network in Hugging Face's format. For a network of a run the "
                   "data settings are those of the run's config.yaml: set, label map, size, validation part; "
                   "flags override them, and --config replaces them. The validation part is evaluated, "
                   "or everything in a set that has none. All scores come from one matrix of counts over all "
                   "pixels that are not ignored; the convention for means is printed with them. A network that "
                   "restores pictures is measured by PSNR and SSIM on whole pictures, beside those of the "
                   "pictures as they came.",
    .examples = {
        { "stoke eval runs/first", "the best network of a run, on the validation part of its set" },
        { "stoke eval runs/first/last --data demo/data --split all --out eval",
          "its last one, on all of a set; confusion matrix and worst pictures as PNG" },
        { "stoke eval runs/first --original --json", "at the masks' own size, as JSON" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_data = 1,
    .takes_network = 1,
    .defaults = { { "split", "val" } },
};
