/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke predict: from pictures to masks of the same size, or to restored pictures.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/lib/common.h"
#include "cli/lib/settings.h"
#include "cli/lib/facts.h"
#include "cli/lib/output.h"
#include "cli/train/predict_list.h"

enum {
    LISTED = 10,
    WORDS = 100000,
    JPEG_SIDE = 65500, /* the most that libjpeg writes */
    LEAST_TILE = 64    /* that a memory limit leads to */
};

typedef struct predict_options {
    const char *out, *data, *window;
    int split, mode, flip, overlay, mask_values, force, orientation, precision;
    double overlap, opacity;
    uint32_t size[2];
    int64_t threads, batch;
    uint64_t memory_limit;
} predict_options;

#define OPTIONS predict_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, out, NULL, "DIR",
             "Folder for the masks or restored pictures; made when it does not exist"),
    CLI_TEXT(STRING, data, NULL, "DIR", "A data set: its images, found as in training"),
    CLI_CHOICE(split, "all", "all|train|val|test",
               "The part of --data; the run's own settings say which samples that is; test is the set's own "
               "test folder"),
    CLI_CHOICE(mode, "auto", "auto|resize|slide",
               "resize shows the network the whole picture, as validation does; slide moves a window over it "
               "at its own scale. auto slides where the training cut windows at the pictures' own scale and "
               "a picture is more than 1.5 times as high or wide as the network's"),
    CLI_NUMBER(REAL, overlap, "0.5", 0, 0.9, "X",
               "Share of a window that the next one sees too; their logits are averaged"),
    CLI_FLAG(flip, "Predict the mirror image too and average the probabilities, or the restored pictures; "
                   "takes twice as long"),
    CLI_TEXT(SIZE, size, NULL, "N|HxW",
             "What the network sees; left out, the size it was trained with. Of a network that restores "
             "pictures the largest tile; left out, 512x512 or more"),
    CLI_FLAG(overlay, "Write NAME_overlay.jpg too: the picture with the mask laid over"),
    CLI_NUMBER(REAL, opacity, "0.45", 0, 1, "X", "Of the mask in an overlay"),
    CLI_FLAG(mask_values, "Write the values that the training masks have (0 and 255, say) instead of class "
                          "ids; the run's label map knows them"),
    CLI_CHOICE(orientation, "auto", "auto|ignore|apply",
               "Whether the orientation stored in a picture (EXIF) turns it, and its mask with it; auto "
               "turns it upright, as people see it, unless the run was trained with another setting"),
    CLI_TEXT(STRING, window, NULL, "LO:HI",
             "16-bit pictures: values from LO to HI become the full range, pLO:pHI are percentiles; left "
             "out, as in training"),
    CLI_FLAG(force, "Replace masks, overlays and restored pictures that are there already"),
    CLI_CHOICE(precision, "auto", "fp32|bf16|fp16|auto",
               "Of activations and products. Without it that of the run; auto takes bf16 where the processor "
               "multiplies it (AMX), else fp32"),
    CLI_NUMBER(INT, batch, "0", 0, 256, "N",
               "Pictures or windows the network sees at once; 0 chooses by the size"),
    CLI_NUMBER(INT, threads, "0", 0, 1024, "N", "Threads of the network; 0 takes all usable cores"),
    CLI_TEXT(BYTES, memory_limit, "0", "BYTES",
             "Ceiling of all that the command holds (512M, 2G): fewer pictures on their way, then one at a "
             "time, then smaller passes of the network, or smaller tiles; 0 = none"),
};

/* What became of a file. */
typedef struct outcome {
    int status;
    char *message; /* of a failure */
    uint32_t width, height;
    stoke_prediction about;
} outcome;

typedef struct prediction {
    const cli_call *call;
    const predict_options *o;
    stoke_trained *trained;
    stoke_data_params data; /* the run's, with what the flags say */
    stoke_predictor *predictor;
    stoke_predictor_info info;
    predict_list list;
    outcome *outcomes;      /* one per file: each is written by one thread */
    int renamed;            /* values are not class ids */
    uint16_t values[65536]; /* of classes in mask files */
    uint8_t palette[256][3];
    uint32_t colors; /* of the palette; 0: masks are grey, of 16 bits */
    stoke_progress *progress;
    /* How fast windows go over the picture of now: its first report, and when it came. */
    uint64_t first_window;
    double first_seconds;
    stoke_predict_report report;
} prediction;

/* ---- before the work ---- */

static int check_words(const cli_call *call, stoke_error *err)
{
    const predict_options *o = call->options;
    if (!call->n_words || (call->n_words < 2 && !o->data))
        return cli_error(
            err, STOKE_E_INVALID,
            "name a run or network, then pictures or folders of them, or a data set with --data");
    if (call->n_words > 1 && o->data)
        return cli_error(err, STOKE_E_INVALID, "'%s' and --data %s: give pictures, or a data set",
                         call->words[1], o->data);
    if (o->split && !o->data)
        return cli_error(err, STOKE_E_INVALID, "--split has no effect without --data: give both or neither");
    return o->out ? STOKE_OK : cli_error(err, STOKE_E_INVALID, "--out DIR says where the masks go");
}

static int restores(const prediction *p)
{
    return p->info.plan->task == STOKE_TASK_RESTORE;
}

/* "mask", "restored picture" */
static const char *result_of(const prediction *p)
{
    return restores(p) ? "restored picture" : "mask";
}

/* What belongs to masks. */
static int check_restoring(const prediction *p, stoke_error *err)
{
    static const char *const flags[] = { "overlay", "opacity", "mask_values", "overlap", "mode", "batch" };
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (cli_has_flag(p->call, flags[i]))
            return cli_error(err, STOKE_E_INVALID,
                             "--%s is for masks, and %s restores pictures: leave it out",
                             i == 2 ? "mask-values" : flags[i], p->call->words[0]);
    return STOKE_OK;
}

/* batch 0 and tile 0: chosen. */
static int open_predictor(prediction *p, uint32_t batch, uint32_t tile, stoke_error *err)
{
    const predict_options *o = p->o;
    stoke_predict_params params = stoke_predict_defaults();
    stoke_trained_settings(p->trained, &params);
    if (tile) params.size[0] = params.size[1] = tile;
    if (o->size[0]) params.size[0] = o->size[0], params.size[1] = o->size[1];
    params.mode = o->mode;
    params.overlap = o->overlap;
    params.flip = o->flip;
    params.confidence = p->call->common.json;
    params.batch = batch;
    if (cli_has_flag(p->call, "precision")) params.precision = o->precision;
    params.threads = (uint32_t)o->threads;
    stoke_predictor_close(&p->predictor);
    const int r = stoke_predictor_open(&p->predictor, &params, err);
    if (!r) p->info = stoke_predictor_about(p->predictor);
    return r;
}

static int open_network(prediction *p, stoke_error *err)
{
    const predict_options *o = p->o;
    int r = stoke_trained_open(&p->trained, p->call->words[0], err);
    if (r) return r;
    p->data = *stoke_trained_data(p->trained);
    if (o->orientation) p->data.orientation = o->orientation - 1;
    if (o->window) p->data.window = o->window;
    r = open_predictor(p, (uint32_t)o->batch, 0, err);
    return r || !restores(p) ? r : check_restoring(p, err);
}

static int list_files(prediction *p, stoke_error *err)
{
    const cli_call *call = p->call;
    int r = STOKE_OK;
    for (int i = 1; !r && i < call->n_words; i++) r = predict_list_add(&p->list, call->words[i], err);
    if (!r && p->o->data) {
        stoke_data_params set = p->data;
        set.data = p->o->data;
        set.images = set.masks = set.targets = set.list = NULL;
        set.split = p->o->split;
        r = predict_list_add_set(&p->list, call, &set, err);
    }
    if (r) return r;
    predict_list_settle(&p->list);
    if (!r && call->n_words > 1)
        predict_say_skipped(call, (const char *const *)call->words + 1, call->n_words - 1);
    if (p->list.twice)
        cli_say(call, "%s %s named more than once", STOKE_COUNT(p->list.twice, "file"),
                p->list.twice == 1 ? "is" : "are");
    p->outcomes = cli_alloc(p->list.count, sizeof *p->outcomes);
    return p->list.count ? STOKE_OK : cli_error(err, STOKE_E_NOTFOUND, "there is no picture to predict");
}

static int mask_path(const prediction *p, const stoke_sample *file, const char *ending, char path[CLI_PATH],
                     stoke_error *err)
{
    if (snprintf(path, CLI_PATH, "%s/%s%s", p->o->out, file->name, ending) < CLI_PATH) return STOKE_OK;
    return cli_error(err, STOKE_E_LIMIT, "%s/%.200s...: the path is too long", p->o->out, file->name);
}

/* --force replaces masks, never the picture a mask is made of. */
static int check_target(const prediction *p, const stoke_sample *file, const char *ending, size_t *replaced,
                        stoke_error *err)
{
    char path[CLI_PATH];
    int replaces = 0;
    struct stat there, source;
    int r = mask_path(p, file, ending, path, err);
    if (r) return r;
    if (stoke_stat(path, &there) != 0)
        return stoke_is_absent(errno)
                   ? STOKE_OK
                   : cli_error(err, STOKE_E_IO, "%s: cannot be looked at: %s", path, strerror(errno));
    if (stoke_stat(file->image.path, &source) == 0 && source.st_dev == there.st_dev &&
        source.st_ino == there.st_ino)
        return cli_error(err, STOKE_E_STATE, "%s is the picture itself: name another folder with --out",
                         path);
    r = stoke_output_check(path, p->o->force, &replaces, err);
    *replaced += (size_t)replaces;
    return r;
}

static int check_targets(const prediction *p, stoke_error *err)
{
    int r = STOKE_OK;
    size_t replaced = 0;
    for (size_t i = 0; !r && i < p->list.count; i++) {
        r = check_target(p, &p->list.files[i], ".png", &replaced, err);
        if (!r && p->o->overlay) r = check_target(p, &p->list.files[i], "_overlay.jpg", &replaced, err);
    }
    if (!r && replaced)
        cli_say(p->call, "--force: %s in %s %s replaced", STOKE_COUNT(replaced, "file"), p->o->out,
                replaced == 1 ? "is" : "are");
    return r ? r : stoke_make_folders(p->o->out, err);
}

/* Values and colours of classes in mask files. The colours of a colour table are the set's own. */
static int settle_values(prediction *p, stoke_error *err)
{
    const uint32_t classes = p->info.classes < 2 ? 2 : p->info.classes;
    stoke_labels *labels = NULL;
    uint32_t largest = 0;
    if (restores(p)) return STOKE_OK;
    int r = stoke_labels_create(&labels, p->data.label_map, 0, -1, err);
    /* The map's file may have gone since the run: then classes are shown in the usual colours. */
    if (r && !p->o->mask_values) r = stoke_labels_create(&labels, NULL, 0, -1, err);
    for (uint32_t id = 0; !r && id < classes; id++) {
        p->values[id] = (uint16_t)id;
        if (p->o->mask_values && !stoke_labels_are_colors(labels) &&
            !stoke_labels_value(labels, id, &p->values[id]))
            r = cli_error(err, STOKE_E_STATE, "no value of the training masks means class %u (label map %s)",
                          id, p->data.label_map);
        if (p->values[id] > largest) largest = p->values[id];
        p->renamed |= p->values[id] != id;
    }
    if (!r && largest < 256) {
        p->colors = largest + 1;
        for (uint32_t id = 0; id < classes; id++) {
            uint8_t *color = p->palette[p->values[id]];
            if (!stoke_labels_color(labels, id, color)) stoke_class_color(id, color);
        }
    }
    stoke_labels_destroy(&labels);
    return r;
}

/* ---- the work ---- */

/* Values in place of class ids, in the mask itself: nobody else looks at it any more. */
static void put_values(const prediction *p, const stoke_image *mask)
{
    for (uint32_t y = 0; y < mask->height; y++) {
        uint8_t *row = (uint8_t *)mask->data + y * mask->stride;
        for (uint32_t x = 0; x < mask->width; x++)
            if (mask->depth == 1)
                row[x] = (uint8_t)p->values[row[x]];
            else
                ((uint16_t *)(void *)row)[x] = p->values[((uint16_t *)(void *)row)[x]];
    }
}

static int write_mask(const prediction *p, const char *path, const stoke_image *mask, stoke_error *err)
{
    /* Class ids of one byte whose values have two: a picture in between. */
    if (!p->colors && mask->depth == 1) {
        stoke_image wide = { NULL, (size_t)mask->width * 2, mask->width, mask->height, 1, 2 };
        uint16_t *to = wide.data = cli_alloc((size_t)mask->width * mask->height, 2);
        for (uint32_t y = 0; y < mask->height; y++)
            for (uint32_t x = 0; x < mask->width; x++)
                *to++ = p->values[((const uint8_t *)mask->data)[y * mask->stride + x]];
        const int r = stoke_image_write_png(path, &wide, err);
        free(wide.data);
        return r;
    }
    if (p->renamed) put_values(p, mask);
    return p->colors ? stoke_image_write_png_indexed(path, mask, p->palette, p->colors, err)
                     : stoke_image_write_png(path, mask, err);
}

/* A mask is as large as its picture, whatever that is; an overlay may not be possible. */
static int has_overlay(const prediction *p, const outcome *o)
{
    return p->o->overlay && !o->status && o->width <= JPEG_SIDE && o->height <= JPEG_SIDE;
}

/* From a helper's thread. */
static int finish(void *context, const stoke_predicted *predicted, stoke_error *err)
{
    prediction *p = context;
    outcome *o = &p->outcomes[predicted->index];
    char path[CLI_PATH], overlay[CLI_PATH];
    o->status = predicted->status;
    o->about = predicted->about;
    if (predicted->status) {
        o->message = strdup(predicted->message);
        return STOKE_OK;
    }
    const stoke_image *result = predicted->restored ? predicted->restored : predicted->mask;
    o->width = result->width;
    o->height = result->height;
    int r = mask_path(p, predicted->file, ".png", path, err);
    if (!r) r = mask_path(p, predicted->file, "_overlay.jpg", overlay, err);
    if (!r && strchr(predicted->file->name, '/')) {
        char folder[CLI_PATH];
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
        r = stoke_make_folders(folder, err);
    }
    /* The overlay first: a mask is there when all of its picture is. */
    if (!r && has_overlay(p, o))
        r = stoke_overlay_write(overlay, predicted->image, predicted->mask, p->o->opacity, -1, err);
    if (r) return r;
    return predicted->restored ? stoke_image_write_png(path, result, err)
                               : write_mask(p, path, predicted->mask, err);
}

static int on_progress(void *context, uint64_t done, uint64_t total)
{
    prediction *p = context;
    return cli_progress_update(p->progress, done, total);
}

/* A picture of many windows may take longer than all before it: its own pace tells when it is done. By the
 * pace of pictures the time left grew from 1 s to 12 s over two minutes of one large photograph. */
static void on_windows(void *context, const stoke_sample *file, uint64_t done, uint64_t total)
{
    prediction *p = context;
    const double now = (double)stoke_machine_now_ns() / 1e9;
    if (!p->first_window || done <= p->first_window) {
        p->first_window = done;
        p->first_seconds = now;
    }
    const uint64_t windows = done - p->first_window;
    char note[192];
    size_t n = (size_t)snprintf(note, sizeof note, "%.60s: %s %llu of %llu", file->name,
                                restores(p) ? "tile" : "window", (unsigned long long)done,
                                (unsigned long long)total);
    if (windows)
        snprintf(note + n, sizeof note - n, ", %s left",
                 STOKE_SECONDS((now - p->first_seconds) / (double)windows * (double)(total - done)));
    stoke_progress_note(p->progress, done < total ? note : NULL);
    stoke_progress_left(p->progress, done < total ? NAN : -1); /* that of the picture stands in the note */
    if (done >= total) p->first_window = 0;
}

static void say_network(const prediction *p)
{
    const cli_call *call = p->call;
    const char *remark, *from = p->info.size_from, *weights = stoke_trained_weights(p->trained);
    for (size_t i = 0; (remark = stoke_predictor_remark(p->predictor, i)); i++) cli_say(call, "%s", remark);
    if (restores(p)) {
        char larger[32] = "";
        if (p->info.plan->scale > 1)
            snprintf(larger, sizeof larger, " %u times as large", (unsigned)p->info.plan->scale);
        cli_say(call, "network: %s, %s, restores pictures%s in tiles of up to %ux%u (%s)", weights,
                p->info.plan->model, larger, p->info.height, p->info.width, from);
        return;
    }
    if (!p->o->size[0] && stoke_trained_config(p->trained)) from = "as in training";
    cli_say(call, "network: %s, %s, %s, sees %ux%u (%s)", weights, p->info.plan->model,
            STOKE_COUNT(p->info.classes, "class"), p->info.height, p->info.width, from);
}

/* The plan of the job; under --memory-limit passes of the network get smaller where --batch leaves that to
 * us, and tiles where --size does. */
static int plan_memory(prediction *p, stoke_predict_job *job, stoke_memory_sum *memory, stoke_error *err)
{
    const predict_options *o = p->o;
    const uint32_t least = o->flip ? 2 : 1;
    for (;;) {
        int r = stoke_predict_memory(p->predictor, job, o->memory_limit, memory, err);
        if (r != STOKE_E_LIMIT) return r;
        if (restores(p)) {
            const uint32_t tile = p->info.height / 2;
            if (o->size[0] || tile < LEAST_TILE || tile < 4 * p->info.plan->reach) return r;
            r = open_predictor(p, 0, tile, err);
        } else {
            if (o->batch || p->info.batch <= least) return r;
            r = open_predictor(p, p->info.batch / 2, 0, err);
        }
        if (r) return r;
    }
}

static int predict_all(prediction *p, stoke_error *err)
{
    stoke_predict_job job = stoke_predict_job_defaults();
    job.files = p->list.files;
    job.count = p->list.count;
    job.data = &p->data;
    job.images = p->o->overlay;
    job.predicted = finish;
    job.progress = on_progress;
    job.windows = on_windows;
    job.context = p;
    /* Of a pixel: a mask of two bytes where values need them, and an overlay. */
    job.own_bytes = (p->colors || restores(p) ? 0 : 2) + (p->o->overlay ? 3 : 0);
    stoke_memory_sum memory;
    int r = plan_memory(p, &job, &memory, err);
    if (r) return r;
    say_network(p);
    cli_say_memory(p->call, &memory);
    p->progress = cli_progress_begin(p->call, restores(p) ? "restoring" : "predicting", "pictures");
    r = stoke_predict_files(p->predictor, &job, &p->report, err);
    stoke_progress_destroy(&p->progress);
    return r;
}

/* ---- afterwards ---- */

static double rate(const prediction *p)
{
    return p->report.seconds > 0 ? (double)p->report.done / p->report.seconds : 0;
}

/* What became of pictures that lie on their side, or are nearly black: nobody sees that in a mask. */
enum { REMARKS = 2, REMARK = 384 };
static size_t make_remarks(const prediction *p, char text[REMARKS][REMARK])
{
    const stoke_predict_report *r = &p->report;
    size_t n = 0;
    if (r->turned)
        snprintf(text[n++], REMARK,
                 "%llu picture%s turned upright by the orientation stored in %s (EXIF), and the %s%s lie%s "
                 "as people see %s; --orientation ignore takes pictures as they are stored",
                 (unsigned long long)r->turned, r->turned == 1 ? " was" : "s were",
                 r->turned == 1 ? "it" : "them", result_of(p), r->turned == 1 ? "" : "s",
                 r->turned == 1 ? "s" : "", r->turned == 1 ? "it" : "them");
    else if (r->lying && p->data.orientation == STOKE_ORIENTATION_IGNORE && !p->o->orientation)
        snprintf(text[n++], REMARK,
                 "%llu picture%s an orientation (EXIF) that was ignored, as in training: the %s%s as the "
                 "pixels are stored; --orientation apply turns both upright",
                 (unsigned long long)r->lying, r->lying == 1 ? " has" : "s have", result_of(p),
                 r->lying == 1 ? " lies" : "s lie");
    n += (size_t)stoke_remark_on_values(&p->data, r->low16, r->high16, text[n], REMARK);
    return n;
}

static void print_restored(const prediction *p, stoke_json *json, size_t index)
{
    char path[CLI_PATH];
    const outcome *o = &p->outcomes[index];
    if (mask_path(p, &p->list.files[index], ".png", path, &(stoke_error){ 0 })) return;
    stoke_json_string(json, "restored", path);
    FACTS(json, FACT_OF(o, width), FACT_OF(o, height), FACT("tiles", o->about.windows));
}

static void print_mask(const prediction *p, stoke_json *json, size_t index)
{
    char path[CLI_PATH];
    const outcome *o = &p->outcomes[index];
    const stoke_sample *file = &p->list.files[index];
    if (mask_path(p, file, ".png", path, &(stoke_error){ 0 })) return;
    stoke_json_string(json, "mask", path);
    const int drawn = has_overlay(p, o) && !mask_path(p, file, "_overlay.jpg", path, &(stoke_error){ 0 });
    if (p->o->overlay) stoke_json_string(json, "overlay", drawn ? path : NULL);
    FACTS(json, FACT_OF(o, width), FACT_OF(o, height),
          FACT("mode", o->about.mode == STOKE_PREDICT_SLIDE ? "slide" : "resize"),
          FACT_OF(&o->about, windows), FACT_OF(&o->about, confidence));
}

static void print_json(const prediction *p)
{
    char remarks[REMARKS][REMARK];
    const size_t n_remarks = make_remarks(p, remarks);
    stoke_json json = cli_json_open();
    FACTS(&json, FACT_OF(p->o, out), FACT("network", stoke_trained_weights(p->trained)),
          FACT_OF(p->info.plan, model));
    cli_json_memory(&json, p->call->planned);
    FACTS(&json, FACT("task", restores(p) ? "restore" : "segment"));
    if (restores(p))
        FACTS(&json, FACT_OF(p->info.plan, scale), FACT_SIZE("tile", p->info.height, p->info.width));
    else
        FACTS(&json, FACT_OF(&p->info, classes), FACT_SIZE("size", p->info.height, p->info.width));
    FACTS(&json, FACT("pictures", p->list.count), FACT("written", p->report.done), FACT_OF(&p->report, bad));
    if (!restores(p)) FACTS(&json, FACT_OF(&p->report, resized), FACT_OF(&p->report, slid));
    FACTS(&json, FACT_OF(&p->report, turned));
    JSON_LIST(&json, "remarks", i, i < n_remarks) stoke_json_string(&json, NULL, remarks[i]);
    FACTS(&json, FACT_OF(&p->report, seconds), FACT_OF(&p->report, network_seconds),
          FACT("img_per_s", rate(p)));
    JSON_LIST(&json, "files", i, i < p->list.count) {
        const outcome *o = &p->outcomes[i];
        stoke_json_object(&json, NULL);
        stoke_json_string(&json, "image", p->list.files[i].image_path);
        if (o->status)
            stoke_json_string(&json, "error", o->message);
        else if (restores(p))
            print_restored(p, &json, i);
        else
            print_mask(p, &json, i);
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
}

static void list_bad(const prediction *p)
{
    uint64_t listed = 0;
    for (size_t i = 0; i < p->list.count && listed < LISTED; i++) {
        if (!p->outcomes[i].status) continue;
        stoke_text_print(stderr, "bad: %s\n", p->outcomes[i].message ? p->outcomes[i].message : "no memory");
        listed++;
    }
    if (p->report.bad > listed)
        stoke_text_print(stderr, "... and %llu more; --json lists all\n",
                         (unsigned long long)(p->report.bad - listed));
    stoke_text_print(stderr, "%llu of %s gave no %s\n", (unsigned long long)p->report.bad,
                     STOKE_COUNT(p->list.count, "file"), result_of(p));
}

static void print_result(const prediction *p)
{
    if (p->call->common.json) {
        print_json(p);
    } else {
        cli_print("%s written to %s%s in %s, %.1f img/s", STOKE_COUNT(p->report.done, result_of(p)),
                  p->o->out, cli_ends_with(p->o->out, "/") ? "" : "/", STOKE_SECONDS(p->report.seconds),
                  rate(p));
        if (p->report.slid && !restores(p))
            cli_print("; %llu resized, %llu window by window", (unsigned long long)p->report.resized,
                      (unsigned long long)p->report.slid);
        putchar('\n');
        char remarks[REMARKS][REMARK];
        const size_t n = make_remarks(p, remarks);
        for (size_t i = 0; i < n; i++) cli_say(p->call, "%s", remarks[i]);
    }
    size_t missing = 0;
    for (size_t i = 0; p->o->overlay && i < p->list.count; i++)
        missing += !p->outcomes[i].status && !has_overlay(p, &p->outcomes[i]);
    if (missing)
        cli_say(p->call, "%s %s no overlay: a JPEG holds %d pixels a side", STOKE_COUNT(missing, "picture"),
                missing == 1 ? "has" : "have", JPEG_SIDE);
    if (p->report.bad) list_bad(p);
}

static int run(cli_call *call, stoke_error *err)
{
    prediction *p = cli_alloc(1, sizeof *p);
    p->call = call;
    p->o = call->options;
    int r = check_words(call, err);
    if (!r) r = open_network(p, err);
    if (!r) r = list_files(p, err);
    if (!r) r = settle_values(p, err);
    if (!r) r = check_targets(p, err);
    if (!r) r = predict_all(p, err);
    const int code = r ? cli_fail(call, err) : p->report.bad ? CLI_FAILED : CLI_OK;
    if (!r) print_result(p);
    if (r == STOKE_E_CANCELLED)
        cli_say(call,
                "%llu of %zu %ss are in %s, each of them whole; the same command with --force makes all",
                (unsigned long long)p->report.done, p->list.count, result_of(p), p->o->out);
    for (size_t i = 0; p->outcomes && i < p->list.count; i++) free(p->outcomes[i].message);
    free(p->outcomes);
    predict_list_free(&p->list);
    stoke_predictor_close(&p->predictor);
    stoke_trained_close(&p->trained);
    free(p);
    return code;
}

const cli_command cli_predict = {
    .summary = "masks for pictures, in their original size, or restored pictures",
    .arguments = "RUN FILE|DIR...",
    .max_words = WORDS,
    .description =
        "Writes OUT/NAME.png for every picture: as large as the picture, the class of each pixel as its "
        "value, and colours in a palette so that viewers show them (more than 256 classes: 16 bits, grey). "
        "RUN is a run folder (its best/ is taken, its config.yaml says size and decoding), a folder in "
        "Hugging Face's format, or a .safetensors file. Folders are searched recursively and their "
        "subfolders kept; pictures of the same name from different folders are told apart by the folder's "
        "name. A network that restores pictures writes them instead: RGB, 8 bits, as large as the network "
        "makes them, whole however large they are. A file that is no picture is reported and the others go on; the "
        "exit status is 1 then. Every file appears whole or not at all.",
    .examples = {
        { "stoke predict runs/first photos --out masks --overlay",
          "masks/NAME.png and masks/NAME_overlay.jpg for every picture below photos/" },
        { "stoke predict runs/first photos/000000.jpg --out one --mode slide --flip",
          "one picture window by window, each window and its mirror image" },
        { "stoke predict runs/first --data demo/data --split val --out val --json",
          "the validation part of a set, and what became of each file as JSON" },
        { "stoke predict runs/sharp photos --out sharper",
          "of a run that restores pictures: each of them restored, sharper/NAME.png" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
