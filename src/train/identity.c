/* SPDX-License-Identifier: Apache-2.0
 *
 * A settled run as text: as YAML for people and `--config`, and as lines that tell whether another one would
 * give the same weights.
 */
#include "src/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "src/base/error.h"
#include "src/base/file.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/base/retry.h"
#include "src/base/words.h"
#include "src/source/labels.h"
#include "src/source/reader.h"
#include "src/train/setup.h"
#include <stoke/augment.h>
#include <stoke/labels.h>
#include <stoke/tools/data.h>
#include <stoke/tools/terminal.h>
#include <stoke/tools/train.h>

/* ---- what files held ---- */

/* Of a file, or all zeros where it cannot be asked for. */
static void ask(const char *path, int64_t what[2])
{
    struct stat st;
    if (stoke_stat(path, &st) != 0) memset(&st, 0, sizeof st);
    what[0] = (int64_t)st.st_size;
    what[1] = (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec;
}

/* Of the size of every file, and where wanted its time, in the order of the set. What cannot be asked for
 * counts as a file of no size. 0 for NULL. */
static uint64_t files_digest(const stoke_dataset *set, int times)
{
    uint64_t digest = 0;
    const uint64_t count = set ? stoke_dataset_count(set) : 0;
    for (int masks = 0; masks < 2; masks++) {
        const char *last = NULL; /* shards hold many samples: they are asked for once in a row */
        for (uint64_t i = 0; i < count; i++) {
            const stoke_sample sample = stoke_dataset_sample(set, i);
            const stoke_blob *truth = sample.target_path ? &sample.target : &sample.mask;
            const char *path = masks ? truth->path : sample.image.path;
            int64_t what[2];
            if (!path || (last && !strcmp(last, path))) continue;
            last = path;
            ask(path, what);
            digest = XXH3_64bits_withSeed(what, times ? sizeof what : sizeof *what, digest);
        }
    }
    return digest;
}

uint64_t stk_setup_file_sizes(const stk_setup *setup)
{
    const uint64_t both[] = { files_digest(setup->train_set, 0), files_digest(setup->val_set, 0) };
    return XXH3_64bits(both, sizeof both);
}

/* ---- each file once ---- */

int stk_files_newer_text(const stk_setup *setup, int64_t since_ns, char *text, size_t size)
{
    const stoke_dataset *const sets[] = { setup->train_set, setup->val_set };
    const uint64_t samples = stoke_dataset_count(sets[0]) + (sets[1] ? stoke_dataset_count(sets[1]) : 0);
    const char **paths = stk_calloc((size_t)samples * 2, sizeof *paths), *first = NULL;
    size_t n = 0, count = 0, newer = 0;
    int shards = 0;
    for (size_t i = 0; i < 2; i++)
        for (uint64_t k = 0; paths && sets[i] && k < stoke_dataset_count(sets[i]); k++) {
            const stoke_sample sample = stoke_dataset_sample(sets[i], k);
            const stoke_blob *const blobs[] = { &sample.image,
                                                sample.target_path ? &sample.target : &sample.mask };
            for (size_t side = 0; side < 2; side++) {
                if (!blobs[side]->path) continue;
                paths[n++] = blobs[side]->path;
                shards |= blobs[side]->size != UINT64_MAX;
            }
        }
    if (n) qsort(paths, n, sizeof *paths, stk_by_text);
    for (size_t i = 0; i < n; i++) {
        int64_t what[2];
        if (i && !strcmp(paths[i], paths[i - 1])) continue;
        count++;
        ask(paths[i], what);
        if (what[1] > since_ns && !newer++) first = paths[i];
    }
    if (newer)
        snprintf(text, size,
                 "%zu of %zu %s changed since the last checkpoint (first: %s): what is trained on from here "
                 "is not what the run began with",
                 newer, count, shards ? "shards" : "files", first);
    stk_free(paths);
    return newer > 0;
}

/* ---- YAML ---- */

/* What is asked for again is not the folder of this session, but the run: name and so on stay out. */
int stk_setup_write_yaml(const stk_setup *setup, FILE *out)
{
    stoke_data_params data = setup->train;
    stoke_train_params params = setup->params;
    const stoke_train_params standard = stoke_train_defaults();
    data.cache_ram += setup->val.cache_ram; /* see make_val */
    data.classes = setup->classes;
    params.name = standard.name;
    params.resume = standard.resume;
    params.force = standard.force;
    params.stop_after = standard.stop_after;
    params.go_on = standard.go_on;
    stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&params) };
    stk_string_arena paths = { 0 };
    stk_run_whole_paths(&paths, &data, &params);
    groups[0].title = "Data";
    groups[1].title = "Training";
    fputs("# A run as it was done, with everything settled: `stoke train --config FILE` does it again, in a "
          "new\n"
          "# folder; `stoke train --resume FOLDER` goes on with it.\n\n",
          out);
    stoke_options_write_yaml(groups, 2, out);
    stk_string_arena_free(&paths);
    return ferror(out) ? STOKE_E_IO : STOKE_OK;
}

/* ---- identity ---- */

/* Settings on which no weight depends: where things lie, how work is spread, how often something is written.
 * What names the files of the set is told by its fingerprint; `steps` and the three that name files are
 * written by what they come to. */
static const char *const left_out[] = {
    "data",         "images",       "masks",      "list",           "image_suffix", "mask_suffix",
    "split",        "classes",      "label_map",  "augment",        "weights",      "epoch",
    "rank",         "world",        "workers",    "consumer_cores", "prefetch",     "nice",
    "memory_limit", "max_bad",      "quarantine", "cache",          "cache_disk",   "cache_ram",
    "max_pixels",   "model",        "pretrained", "partial",        "threads",      "epochs",
    "steps",        "eval_every",   "patience",   "runs",           "name",         "resume",
    "continue",     "force",        "log_every",  "save_every",     "stop_after",   "pictures",
    "tensorboard",  "eval_mode",    "names",      "targets",        "patch_size",   "perceptual",
    "comm",         "comm_timeout", "rank_logs",  "audit_every",
};

/* Settings that came later than runs there are, and that say nothing of segmentation by a model with sizes of
 * its own: such a run's lines are what they were. */
static int is_silent(const char *name, const stk_setup *setup)
{
    static const char *const of_restoration[] = { "task", "scale", "photometric" };
    for (size_t i = 0; i < sizeof of_restoration / sizeof *of_restoration; i++)
        if (!strcmp(name, of_restoration[i])) return !stk_setup_restores(setup);
    if (!strcmp(name, "batch_norm")) /* of one lane both are the same */
        return setup->params.batch_norm == STOKE_BATCH_NORM_LOCAL || setup->params.replicas == 1;
    if (!strcmp(name, "replicas")) return setup->params.replicas == 1;
    if (!strcmp(name, "loss_mean")) return setup->params.loss_mean == STOKE_LOSS_MEAN_BATCHES;
    if (!strcmp(name, "compress")) return setup->params.compress == STOKE_COMPRESS_NONE;
    if (!strcmp(name, "perceptual_weight")) return !setup->features;
    if (!strcmp(name, "base_channels")) return !setup->params.base_channels;
    return !strcmp(name, "num_blocks") && !setup->params.num_blocks;
}

static int counts(const char *name, const stk_setup *setup)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (!strcmp(name, left_out[i])) return 0;
    return !is_silent(name, setup);
}

static void write_group(const stoke_option_group *group, const stk_setup *setup, FILE *out)
{
    char text[STK_OPTION_TEXT];
    for (size_t i = 0; i < group->count; i++) {
        const stoke_option *option = &group->options[i];
        const char *value = counts(option->name, setup) ? stk_option_text(option, group->target, text) : NULL;
        if (value) fprintf(out, "%s=%s\n", option->name, value);
    }
}

static void write_set(const char *name, const stoke_dataset *set, FILE *out)
{
    if (!set) return;
    fprintf(out, "%s=%llu samples (%016llx)\n", name, (unsigned long long)stoke_dataset_count(set),
            (unsigned long long)stoke_dataset_fingerprint(set));
}

/* A part of a text: a name, or a value. */
typedef struct span {
    const char *text; /* NULL: there is none */
    int length;
} span;

static const span files = { "files", 5 }; /* its line is compared by stk_setup_same_files alone */
static const char slides[] = "eval_mode=slide\n";

/* open_memstream's memory is not ours to count: it is copied. */
char *stk_setup_identity(const stk_setup *setup)
{
    stoke_data_params data = setup->train;
    stoke_train_params params = setup->params;
    const stoke_option_group groups[] = { stoke_data_options(&data), stoke_train_options(&params) };
    char *text = NULL, *identity = NULL;
    size_t size = 0;
    uint64_t map[2] = { 0 };
    stoke_labels *labels = NULL;
    stoke_pipeline *pipeline = NULL;
    stk_mem_buffer file = { 0 };
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    write_group(&groups[0], setup, out);
    /* The map by what it does, a file of ops by what is in it, as a list is. */
    if (!stk_labels_of(&labels, &data, NULL)) stk_labels_digest(labels, map);
    fprintf(out, "classes=%u\nlabel_map=%016llx%016llx\n", setup->classes, (unsigned long long)map[0],
            (unsigned long long)map[1]);
    const int bad = stoke_pipeline_create(&pipeline, data.augment, NULL);
    fprintf(out, "augment=%s\n", bad ? data.augment : stoke_pipeline_text(pipeline));
    size_t bytes = 0;
    if (data.order == STOKE_ORDER_WEIGHTED &&
        !stk_file_read(data.weights, UINT64_C(1) << 32, &file, &bytes, NULL))
        fprintf(out, "weights=%016llx\n", (unsigned long long)XXH3_64bits(file.data, bytes));
    stoke_labels_destroy(&labels);
    stoke_pipeline_destroy(&pipeline);
    stk_buffer_free(&file);
    fprintf(out, "model=%s\n", params.model);
    if (setup->features) fprintf(out, "perceptual=%s\n", setup->features);
    write_group(&groups[1], setup, out);
    fprintf(out, "steps=%llu\n", (unsigned long long)setup->steps);
    if (setup->params.eval_mode == STOKE_PREDICT_SLIDE) fputs(slides, out); /* see stk_setup_eval_mode */
    write_set("train_set", setup->train_set, out);
    write_set("val_set", setup->val_set, out);
    /* Whatever files there are, of both sets: another digest is worth a remark, not a refusal. */
    fprintf(out, "%.*s=%016llx%016llx\n", files.length, files.text,
            (unsigned long long)files_digest(setup->train_set, 1),
            (unsigned long long)files_digest(setup->val_set, 1));
    const int failed = ferror(out);
    if (fclose(out) == 0 && !failed && text) identity = stk_strdup(text);
    free(text);
    return identity;
}

/* ---- comparing ---- */

/* Moves *at behind a line; 0 at the end. A line without '=' has an empty value. */
static int next_line(const char **at, span *name, span *value)
{
    if (!**at) return 0;
    const size_t length = strcspn(*at, "\n"), own = strcspn(*at, "=\n");
    *name = (span){ *at, (int)own };
    *value = (span){ *at + own + (own < length), (int)(length - own - (own < length)) };
    *at += length + ((*at)[length] == '\n');
    return 1;
}

static int same(span a, span b)
{
    return a.length == b.length && !memcmp(a.text, b.text, (size_t)a.length);
}

static span value_of(const char *text, span wanted)
{
    span name, value;
    while (next_line(&text, &name, &value))
        if (same(name, wanted)) return value;
    return (span){ 0 };
}

int stk_setup_same_files(const char *saved, const char *now)
{
    const span was = value_of(saved, files), is = value_of(now, files);
    return !was.text || !is.text || same(was, is);
}

static int at_most(int length, int most)
{
    return length < most ? length : most;
}

/* "lr was 0.001 and is 0.002": what differs of the saved lines, then what is new. */
/* `words`: behind the name, between the two values. */
static int compare(const char *saved, const char *now, const char *const words[2], stoke_error *err)
{
    enum { SHOWN = 5 };
    char text[800], more[48] = "";
    size_t used = 0;
    unsigned n = 0;
    span name, value;
    for (int new = 0; new < 2; new ++)
        for (const char *at = new ? now : saved; next_line(&at, &name, &value);) {
            const span nothing = { "not set", 7 }, other = value_of(new ? saved : now, name);
            if (same(name, files) || (other.text && (new || same(value, other)))) continue;
            if (n++ >= SHOWN || used >= sizeof text) continue;
            const span was = new ? nothing : value, is = new ? value : other.text ? other : nothing;
            /* The shorter part of a long list says little, but the name does. */
            used += (size_t)stoke_text_format(text + used, sizeof text - used, "%s%.*s %s %.*s %s %.*s",
                                              n > 1 ? "; " : "", at_most(name.length, 32), name.text,
                                              words[0], at_most(was.length, 60), was.text, words[1],
                                              at_most(is.length, 60), is.text);
        }
    if (!n) return STOKE_OK;
    if (n > SHOWN) snprintf(more, sizeof more, "; and %u more", n - SHOWN);
    return stk_fail(err, STOKE_E_STATE, "%s%s", text, more);
}

int stk_setup_same(const char *saved, const char *now, stoke_error *err)
{
    static const char *const words[] = { "was", "and is" };
    return compare(saved, now, words, err);
}

int stk_setup_same_as_first(const char *first, const char *here, stoke_error *err)
{
    static const char *const words[] = { "is", "at rank 0 and here" };
    return compare(first, here, words, err);
}

int stk_setup_eval_mode(const char *identity)
{
    return strstr(identity, slides) ? STOKE_PREDICT_SLIDE : STOKE_PREDICT_RESIZE;
}

int stk_setup_same_scores(const char *saved, const char *now)
{
    static const char *const names[] = { "metric",    "val_set",      "classes",
                                         "label_map", "ignore_index", "eval_mode" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const span name = { names[i], (int)strlen(names[i]) };
        const span was = value_of(saved, name), is = value_of(now, name);
        if (!was.text != !is.text || (was.text && !same(was, is))) return 0;
    }
    return 1;
}
