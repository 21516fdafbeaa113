/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke recipe progressive: a small network on small pictures, then a larger one on larger ones. Each stage
 * is an ordinary run in its own folder, and starts from the best weights of the one before as far as
 * their shapes agree.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lib/common.h"
#include "cli/lib/page.h"
#include "cli/lib/output.h"
#include "cli/lib/settings.h"
#include "cli/train/train_bar.h"

typedef struct progressive_options {
    const char *stages;
    int dry_run;
} progressive_options;

#define OPTIONS progressive_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, stages, "b0@224:10,b2@256:10,b4@288:10", "LIST",
             "MODEL@SIZE:EPOCHS of each stage, separated by commas; SIZE is N or HxW, --steps counts instead "
             "of EPOCHS. b1 to b5 have layers of the same width and share most of their weights; b0 has "
             "narrower ones and shares next to nothing with them"),
    CLI_FLAG(dry_run, "Print the stages and the memory each would take, and write nothing"),
};

enum { MAX_STAGES = 16, MAX_SAID = 64 };

typedef struct stage {
    char model[8];
    uint32_t size[2];
    int64_t epochs;
    char name[64]; /* of its folder: 2-b2-256 */
    char folder[CLI_PATH];
    /* how it went */
    int64_t batch;
    uint64_t step, steps;
    stoke_net_plan plan;
    stoke_memory_sum memory; /* of the whole stage: network, loaders, pictures, process */
    double lr, head_lr;
    int reached; /* its settings are known */
    int done;
    stoke_train_summary summary;
} stage;

typedef struct recipe {
    const cli_call *call;
    const progressive_options *o;
    stage stages[MAX_STAGES];
    size_t count;
    char folder[CLI_PATH]; /* runs/NAME */
    train_bar bar;
    stage *now;
    char *said[MAX_SAID]; /* remarks: what holds for every stage is said once */
    size_t n_said;
} recipe;

/* ---- the list ---- */

static int bad_stage(const char *text, size_t length, stoke_error *err)
{
    return cli_error(err, STOKE_E_INVALID,
                     "`stages`: '%.*s' is no stage: MODEL@SIZE:EPOCHS, such as b0@224:10 or b2@256x320:20",
                     (int)length, text);
}

/* A number of at most 9 digits; 0 when there is none. */
static uint32_t take_number(const char **text)
{
    const size_t n = strspn(*text, "0123456789");
    const uint32_t value = n && n <= 9 ? (uint32_t)strtoul(*text, NULL, 10) : 0;
    *text += n;
    return value;
}

static int parse_stage(stage *s, size_t index, const char *text, size_t length, stoke_error *err)
{
    const char *at = text, *end = text + length;
    if (length < 4 || at[0] != 'b' || at[1] < '0' || at[1] > '5' || at[2] != '@')
        return bad_stage(text, length, err);
    snprintf(s->model, sizeof s->model, "%.2s", at);
    at += 3;
    s->size[0] = s->size[1] = take_number(&at);
    if (*at == 'x') {
        at++;
        s->size[1] = take_number(&at);
    }
    if (*at != ':' || !s->size[0] || !s->size[1]) return bad_stage(text, length, err);
    at++;
    s->epochs = take_number(&at);
    if (at != end || !s->epochs) return bad_stage(text, length, err);
    if (s->size[0] == s->size[1])
        snprintf(s->name, sizeof s->name, "%zu-%.2s-%u", index + 1, text, s->size[0]);
    else
        snprintf(s->name, sizeof s->name, "%zu-%.2s-%ux%u", index + 1, text, s->size[0], s->size[1]);
    return STOKE_OK;
}

static int parse_stages(recipe *r, stoke_error *err)
{
    const char *at = r->o->stages;
    for (int more = 1; more; r->count++) {
        const size_t length = strcspn(at, ",");
        if (r->count == MAX_STAGES)
            return cli_error(err, STOKE_E_INVALID, "`stages`: more than %d of them", MAX_STAGES);
        stage *s = &r->stages[r->count];
        const int status = parse_stage(s, r->count, at, length, err);
        if (status) return status;
        if (snprintf(s->folder, sizeof s->folder, "%s/%s", r->folder, s->name) >= (int)sizeof s->folder)
            return cli_error(err, STOKE_E_INVALID, "`runs` and `name` are too long for a path");
        more = at[length] == ',';
        at += length + 1;
    }
    return STOKE_OK;
}

/* ---- one stage ---- */

static int exists(const char *folder, const char *name)
{
    char path[CLI_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stoke_there(path);
}

/* Whether a remark was made before; notes it otherwise. */
static int said_before(recipe *r, const char *text)
{
    for (size_t i = 0; i < r->n_said; i++)
        if (!strcmp(r->said[i], text)) return 1;
    char *copy = r->n_said < MAX_SAID ? strdup(text) : NULL;
    if (copy) r->said[r->n_said++] = copy;
    return 0;
}

static int on_event(void *context, const stoke_train_event *e)
{
    recipe *r = context;
    if (e->kind == STOKE_TRAIN_REMARK && said_before(r, e->text)) return cli_interrupted();
    train_bar_show(&r->bar, e);
    if (e->kind == STOKE_TRAIN_READY) {
        stage *s = r->now;
        s->batch = e->outlook->data->batch;
        s->lr = e->outlook->params->lr;
        s->head_lr = e->outlook->params->head_lr;
        s->plan = *e->outlook->plan;
        s->memory = *e->outlook->memory;
        s->step = e->step;
        s->steps = e->steps;
        s->reached = 1;
        r->bar.metric = e->outlook->params->metric;
        if (r->o->dry_run) return 1;
        cli_say_memory(r->call, e->outlook->memory);
        if (e->outlook->resumes)
            cli_say(r->call, e->step >= e->steps ? "all its %llu steps are done" : "goes on after step %llu",
                    (unsigned long long)e->step);
    }
    return cli_interrupted();
}

/* The settings of a stage: those of the call, with its own model, size and length. */
static void settings_of(const recipe *r, const stage *s, const char *weights, stoke_data_params *data,
                        stoke_train_params *train)
{
    *data = r->call->data;
    *train = r->call->train;
    memcpy(data->size, s->size, sizeof s->size);
    train->model = s->model;
    train->epochs = s->epochs;
    train->runs = r->folder;
    train->name = s->name;
    train->resume = !r->o->dry_run && exists(s->folder, "config.yaml") ? s->folder : NULL;
    if (s == r->stages) return;
    train->pretrained = weights;
    train->partial = weights != NULL;
    /* Most of a larger network is new. A rate for fine-tuning, which is what pretrained weights get by
     * default, would hardly move it: it learns as the first stage did. */
    if (train->lr <= 0) train->lr = r->stages[0].lr;
    if (train->head_lr <= 0) train->head_lr = r->stages[0].head_lr;
}

/* How much of the stage before fits; from the files, so that it is known of stages that ran long ago. */
static int count_carried(const char *weights, stage *s, stoke_error *err)
{
    stoke_net_params p = stoke_net_defaults();
    stoke_net_plan plan;
    p.model = s->model;
    p.weights = weights;
    p.partial = 1;
    p.classes = s->plan.classes;
    p.height = p.width = 64;
    const int status = stoke_net_plan_of(&p, &plan, err);
    if (!status) s->plan.carried = plan.carried;
    return status;
}

static int run_stage(recipe *r, size_t index, stoke_error *err)
{
    stage *s = r->now = &r->stages[index];
    char weights[CLI_PATH + 8] = "";
    stoke_data_params data;
    stoke_train_params train;
    stoke_trainer *trainer = NULL;
    if (index) { /* what a stage hands on: its best weights, or its last when nothing was evaluated */
        const char *before = r->stages[index - 1].folder;
        snprintf(weights, sizeof weights, "%s/%s", before,
                 exists(before, "best/model.safetensors") ? "best" : "last");
    }
    settings_of(r, s, r->o->dry_run ? NULL : weights, &data, &train);
    cli_say(r->call, "stage %zu of %zu: %s at %ux%u, %s", index + 1, r->count, s->model, s->size[0],
            s->size[1], s->folder);
    int status = stoke_trainer_open(&trainer, &data, &train, on_event, r, err);
    if (status == STOKE_E_CANCELLED && r->o->dry_run && !cli_interrupted()) status = STOKE_OK;
    if (!status && trainer) {
        status = stoke_trainer_run(trainer, err);
        s->summary = stoke_trainer_summary(trainer);
        s->done = !status && (s->summary.step >= s->steps || s->summary.stopped_early);
    }
    stoke_trainer_close(&trainer);
    train_bar_end(&r->bar);
    if (!status && index && !r->o->dry_run) status = count_carried(weights, s, err);
    return status;
}

/* ---- the table ---- */

static void print_stage(cli_page *page, const recipe *r, const stage *s)
{
    const int reached = s->reached, ran = reached && !r->o->dry_run;
    const uint64_t held = stoke_memory_total(&s->memory);
    const stoke_train_summary *done = &s->summary;
#define LATER(title) (r->o->dry_run ? NULL : (title)) /* a dry run has no such column */
    CLI_PAGE_ROW_OPEN(
        page, CELL("stage", FACT(NULL, s->name)), CELL_FACT(FACT_OF(s, folder)),
        CELL("model", FACT_OF(s, model)),
        CELL_AS("size", FACT_SIZE("size", s->size[0], s->size[1]), "%ux%u", s->size[0], s->size[1]),
        CELL("batch", FACT_IF(reached, FACT_OF(s, batch))),
        CELL_AS("steps", FACT_IF(reached, FACT_OF(s, steps)), "%llu",
                (unsigned long long)(ran ? done->step : s->steps)),
        CELL_AS("lr", FACT_IF(reached, FACT_OF(s, lr)), "%.3g", s->lr),
        CELL_AS("memory", FACT_IF(reached, FACT("memory_bytes", held)), "%s", STOKE_MEMORY(held)),
        CELL_FACT(FACT_IF(reached, FACT_OF(&s->plan, tensors))),
        CELL_AS(LATER("mIoU"), FACT_IF(ran, FACT("miou", isfinite(done->best) ? done->scores.miou : NAN)),
                "%.4f", done->scores.miou),
        CELL_AS(LATER("time"), FACT_IF(ran, FACT_OF(done, seconds)), "%s", STOKE_SECONDS(done->seconds)),
        CELL_AS(LATER("carried over"), FACT_IF(ran, FACT_OF(&s->plan, carried)), "%u of %u tensors",
                s->plan.carried, s->plan.tensors),
        CELL_FACT(FACT_IF(ran, FACT_IS("complete", s->done))), CELL_FACT(FACT_IF(ran, FACT_OF(done, step))));
#undef LATER
    if (page->as_json && reached) cli_json_memory(&page->json, &s->memory);
    cli_page_close(page);
}

static void print(const recipe *r)
{
    cli_page page;
    cli_page_begin(&page, r->call->common.json);
    CLI_PAGE_FACTS(&page, FACT_OF(r, folder), FACT_IS_OF(r->o, dry_run),
                   FACT_IS("complete", r->stages[r->count - 1].done));
    cli_page_table(&page, "stages");
    for (size_t i = 0; i < r->count; i++) print_stage(&page, r, &r->stages[i]);
    cli_page_table_end(&page);
    cli_page_end(&page);
}

static int finish(const recipe *r, int status)
{
    const stage *last = &r->stages[r->count - 1];
    const int stopped = status == STOKE_E_CANCELLED && cli_interrupted();
    if (status && !stopped) return status;
    print(r);
    if (r->o->dry_run)
        cli_say(r->call, "a dry run: nothing was written. What is carried over shows when a stage begins");
    else if (last->done)
        cli_say(r->call, "next: stoke predict %s PICTURES --out masks   masks of your own pictures",
                STOKE_WORD(last->folder));
    else
        cli_say(r->call, "everything is saved in %s; the same command goes on from here", r->folder);
    return stopped ? cli_interrupt_code() : CLI_OK;
}

/* What the file says and the stages say too: theirs counts, with one remark. */
static void replace_file(cli_call *call)
{
    static const char *const settings[] = { "model", "image_size", "epochs" };
    char list[256] = "";
    size_t used = 0;
    for (size_t i = 0; call->settings && i < CLI_COUNT(settings); i++) {
        const char *path;
        int exists;
        if (stoke_config_find(call->settings, settings[i], NULL, &path, &exists, NULL) || !exists) continue;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%.60s", used ? ", " : "", path);
    }
    if (!used) return;
    cli_say(call, "remark: %s: the stages say these instead: %s", call->common.config, list);
    if (!cli_has_flag(call, "model")) call->train.model = NULL;
    if (!cli_has_flag(call, "size")) call->data.size[0] = call->data.size[1] = 0;
}

static int run(cli_call *call, stoke_error *err)
{
    recipe *r = cli_alloc(1, sizeof *r);
    int status = STOKE_OK;
    *r = (recipe){ .call = call, .o = call->options, .bar = { .call = call } };
    snprintf(r->folder, sizeof r->folder, "%s/%s", call->train.runs,
             call->train.name ? call->train.name : "progressive");
    replace_file(call);
    if (call->train.resume)
        status = cli_error(err, STOKE_E_INVALID,
                           "`resume` is for single runs: a recipe goes on when it is called again with the "
                           "same `runs` and `name`");
    if (!status && (call->train.model || call->data.size[0]))
        status = cli_error(err, STOKE_E_INVALID, "`%s` is said by `stages`: MODEL@SIZE:EPOCHS of each",
                           call->train.model ? "model" : "size");
    if (!status) status = cli_require_data(call, &call->data, err);
    if (!status) status = parse_stages(r, err);
    for (size_t i = 0; !status && i < r->count; i++) {
        status = run_stage(r, i, err);
        if (!status && !r->o->dry_run && !r->stages[i].done) break; /* --stop-after */
    }
    if (r->count) status = finish(r, status);
    for (size_t i = 0; i < r->n_said; i++) free(r->said[i]);
    free(r);
    return status;
}

const cli_command cli_recipe_progressive = {
    .summary = "small network and pictures first, then larger ones",
    CLI_TAKES_DIR,
    .description =
        "Trains one network after another, by default SegFormer b0 at 224x224, b2 at 256x256 and b4 at "
        "288x288, 10 epochs each. Every stage is a run with its own folder (runs/NAME/1-b0-224 and so on) "
        "and starts from the best weights of the stage before, where names and shapes agree; the table at "
        "the end says how many did. Called again with the same options it goes on: stages that are complete "
        "are passed over, one that was interrupted is resumed. The options of `stoke train` hold for every "
        "stage, but --pretrained for the first. Unless given, the batch is chosen for each stage, and the "
        "learning rate for the first: later ones keep it, since most of a larger network is new.",
    .examples = {
        { "stoke recipe progressive demo/data --dry-run", "b0 at 224, b2 at 256, b4 at 288: the plan" },
        { "stoke recipe progressive demo/data --stages b0@32:1,b1@32:1 --batch 4 --steps 2 --name tiny",
          "two tiny stages, as runs/tiny/1-b0-32 and 2-b1-32" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_training = 1,
};
