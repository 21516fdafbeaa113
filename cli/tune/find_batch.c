/* SPDX-License-Identifier: Apache-2.0
 *
 * The search: every trial is this program again, as `stoke trial`, which prints one line of JSON.
 */
#include "cli/tune/find_batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/lib/child.h"
#include "cli/lib/settings.h"

enum { NUMBERS = 13 };

int find_batch_plan(stoke_trial_plan **plan, const find_batch_wish *wish, int look, stoke_error *err)
{
    stoke_preflight_params params = stoke_preflight_defaults();
    cli_map map;
    int r = cli_map_cut(&map, wish->map, err);
    params.config = wish->config;
    params.map = map.paths;
    params.data = wish->data;
    params.model = wish->model;
    params.size[0] = wish->size[0];
    params.size[1] = wish->size[1];
    params.classes = (uint32_t)wish->classes;
    params.ignore_index = wish->ignore_index;
    if (!r) r = stoke_trial_plan_read(plan, &params, look, err);
    cli_map_free(&map);
    return r;
}

stoke_trial_params find_batch_params(const stoke_trial_plan *plan, const find_batch_wish *wish)
{
    stoke_trial_params params = plan->params;
    params.device = wish->device;
    params.steps = (uint32_t)wish->steps;
    params.time0 = wish->time0;
    params.time1 = wish->time1;
    if (wish->memory_limit) params.data.memory_limit = wish->memory_limit;
    if (wish->precision) params.train.precision = wish->precision - 1;
    if (!wish->config) params.data.augment = "standard"; /* as `stoke train` has it */
    return params;
}

int find_batch_source(const find_batch *search)
{
    return strcmp(search->wish.device, "native") ? STOKE_SOURCE_EMULATED : STOKE_SOURCE_MEASURED;
}

/* ---- a trial ---- */

static int tick(void *context)
{
    const find_batch *search = context;
    return cli_progress_update(search->progress, search->result.n_trials, 0);
}

/* Words of the child: everything that is settled is said, so that it settles nothing else. */
typedef struct words {
    cli_child *child;
    char number[NUMBERS][48];
    size_t n, n_numbers;
} words;

static void add(words *w, const char *flag, const char *value)
{
    if (!value) return;
    w->child->words[w->n++] = flag;
    w->child->words[w->n++] = value;
}

static char *room(words *w)
{
    return w->number[w->n_numbers++];
}

static void add_number(words *w, const char *flag, double value)
{
    char *text = room(w);
    snprintf(text, sizeof w->number[0], "%.17g", value);
    add(w, flag, text);
}

static void say_words(words *w, const find_batch *s, uint32_t batch, int with_loader)
{
    const find_batch_wish *wish = &s->wish;
    const stoke_trial_params *p = &s->params;
    static const char *const tasks[] = { "auto", "segment", "restore" };
    static const char *const precisions[] = { "config", "fp32", "bf16", "fp16", "auto" };
    w->child->words[w->n++] = "stoke";
    w->child->words[w->n++] = "trial";
    add(w, "--config", wish->config);
    add(w, "--map", wish->map);
    add(w, "--data", wish->data);
    add(w, "--model", p->train.model);
    add(w, "--device", wish->device);
    add(w, "--precision", precisions[wish->precision]);
    char *size = room(w), *memory = room(w);
    snprintf(size, sizeof w->number[0], "%ux%u", (unsigned)p->data.size[0], (unsigned)p->data.size[1]);
    add(w, "--size", size);
    snprintf(memory, sizeof w->number[0], "%llu", (unsigned long long)s->limits.memory);
    add(w, "--memory", memory);
    add_number(w, "--classes", (double)wish->classes);
    add_number(w, "--ignore-index", (double)wish->ignore_index);
    add_number(w, "--net-classes", p->classes);
    add(w, "--task", tasks[p->task]);
    if (p->scale > 1) add_number(w, "--scale", p->scale);
    add_number(w, "--steps", p->steps);
    add_number(w, "--time0", p->time0);
    add_number(w, "--time1", p->time1);
    add_number(w, "--batch", batch);
    if (p->data.memory_limit) add_number(w, "--memory-limit", (double)p->data.memory_limit);
    /* Data that the plan has left out are not looked for again. */
    if (with_loader && cli_set_name(&p->data)) w->child->words[w->n++] = "--with-loader";
    w->child->words[w->n] = NULL;
}

const char *find_batch_ms(double ms, char text[32])
{
    snprintf(text, 32, ms < 999.5 ? "%.3g ms" : "%.0f ms", ms); /* %g would say 1.1e+03 */
    return text;
}

static void say_trial(const find_batch *s, const stoke_trial *t)
{
    char step[32], loader[96] = "";
    if (s->progress) stoke_progress_pause(s->progress);
    if (t->with_loader && !isnan(t->busy))
        snprintf(loader, sizeof loader, "; loader on: waits %.3g ms, busy %.0f %%", t->wait_ms,
                 100 * t->busy);
    if (t->outcome == STOKE_OUTCOME_OK)
        cli_say(s->call, "batch %u: %s, %s a step%s", (unsigned)t->batch, STOKE_MEMORY(t->reserved),
                find_batch_ms(t->step_ms, step), loader);
    else
        cli_say(s->call, "batch %u: %s%s%s", (unsigned)t->batch, stoke_outcome_name(t->outcome),
                *t->message ? ": " : "", t->message);
}

/* The line that the child printed; else what it said last, or how it ended where it said nothing. */
static void judge(stoke_trial *trial, const cli_child *child)
{
    static const char prefix[] = "stoke trial: "; /* of our own errors: the reader did not type that */
    const size_t skip = strncmp(child->last, prefix, sizeof prefix - 1) ? 0 : sizeof prefix - 1;
    const size_t size = sizeof trial->message;
    const size_t bytes = strcspn(child->out, "\n");
    const int outcome = stoke_outcome_of(child->status, child->kills_before, child->kills_after,
                                         child->timed_out, child->last);
    if (outcome == STOKE_OUTCOME_OK && !stoke_trial_parse(trial, child->out, bytes, NULL)) return;
    *trial = (stoke_trial){ .busy = NAN, .cores_wanted = NAN, .cores_had = NAN };
    trial->outcome = outcome == STOKE_OUTCOME_OK ? STOKE_OUTCOME_ERROR : outcome;
    if (child->timed_out)
        snprintf(trial->message, size, "it had not ended after %g s (--timeout)", child->seconds);
    else if (*child->last || !WIFSIGNALED(child->status))
        snprintf(trial->message, size, "%s", child->last + skip);
    else
        snprintf(trial->message, size, "signal %d (%s)", WTERMSIG(child->status),
                 strsignal(WTERMSIG(child->status)));
}

static int run_trial(void *context, uint32_t batch, stoke_trial *trial, stoke_error *err)
{
    find_batch *s = context;
    cli_child *child = cli_alloc(1, sizeof *child);
    words w = { .child = child };
    const int with_loader = trial->with_loader;
    char note[48];
    snprintf(note, sizeof note, "batch %u", (unsigned)batch);
    if (s->progress) stoke_progress_note(s->progress, note);
    child->seconds = s->timeout;
    child->tick = tick;
    child->context = s;
    say_words(&w, s, batch, with_loader);
    const int r = cli_child_run(child, err);
    if (!r) {
        judge(trial, child);
        trial->batch = batch;
        trial->with_loader = with_loader;
        say_trial(s, trial);
    }
    free(child);
    return r;
}

/* ---- the search ---- */

/* A trial of ours is held to its memory by the kernel, the loader of one on a simulated GPU to its share of
 * this machine by its own plan; a trial without data is a process like this one. */
static int plan_memory(find_batch *s, stoke_error *err)
{
    enum { CODE_BYTES = 1 << 20 }; /* what a trial maps and this process does not */
    const uint64_t own = s->own + CODE_BYTES, limit = s->params.data.memory_limit;
    stoke_memory_sum sum = { .limit_bytes = limit };
    stoke_memory_add(&sum, "a trial", 1, own);
    stoke_memory_add(&sum, "process", 1, own);
    const int r = stoke_memory_check(&sum, "a search needs", "name no limit", err);
    if (r) return r;
    const int native = find_batch_source(s) == STOKE_SOURCE_MEASURED;
    uint64_t trial = limit ? limit - own : stoke_machine_available();
    if (native && s->limits.memory < trial) trial = s->limits.memory;
    if (trial == UINT64_MAX) return STOKE_OK; /* nothing tells what is free */
    if (native)
        s->limits.memory = trial;
    else if (s->plan->samples)
        s->params.data.memory_limit = trial;
    else
        trial = own;
    sum.share[0].bytes = trial;
    cli_say_memory(s->call, &sum);
    return STOKE_OK;
}

static int set_limits(find_batch *s, stoke_error *err)
{
    stoke_batch_params *p = &s->limits;
    const uint64_t samples = s->plan->samples;
    stoke_device *card = NULL;
    int r = STOKE_OK;
    *p = stoke_batch_defaults();
    p->memory = s->memory;
    if (!p->memory && find_batch_source(s) == STOKE_SOURCE_MEASURED)
        p->memory = stoke_machine_available();
    else if (!p->memory)
        r = stoke_device_open(&card, s->wish.device, NULL, err);
    if (card) p->memory = stoke_device_describe(card)->memory_bytes;
    stoke_device_close(&card);
    if (!r) r = plan_memory(s, err);
    if (find_batch_source(s) == STOKE_SOURCE_EMULATED) {
        p->margin = 0; /* 1 GiB stays free, as in `stoke estimate`: both say the same of what fits */
        p->margin_bytes = UINT64_C(1) << 30;
    } else if (p->margin_bytes > p->memory / 8) {
        p->margin_bytes = p->memory / 8; /* 512 MiB of 2 GiB would be a quarter */
    }
    p->largest = samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX;
    p->accumulate = s->params.train.accumulate > 0 ? (uint32_t)s->params.train.accumulate : 1;
    p->world = s->ranks ? s->ranks : 1;
    p->although_busy = s->although_busy;
    return r;
}

int find_batch_run(find_batch *s, stoke_error *err)
{
    char key[512];
    const char *text;
    s->own = stoke_machine_peak_rss(); /* what is taken to look at the data is given back */
    int r = find_batch_plan(&s->plan, &s->wish, 1, err);
    if (r) return r;
    if (!s->plan->known && *s->plan->said)
        return cli_error(err, STOKE_E_INVALID,
                         "'%s' is no network that runs here: stokehold.BatchSizeOptimizer finds its batch in "
                         "Python; --model b0..b5, resnet or unet tries one of ours in its place",
                         s->plan->said);
    s->params = find_batch_params(s->plan, &s->wish);
    if (!s->before) s->before = s->plan->batch;
    for (size_t i = 0; (text = stoke_trial_plan_remark(s->plan, i)); i++) cli_say(s->call, "%s", text);
    const char *device = s->wish.device;
    const int native = find_batch_source(s) == STOKE_SOURCE_MEASURED;
    if (!native && !stoke_device_simulated(device))
        return cli_error(err, STOKE_E_INVALID,
                         "no trial runs on '%s': there are native, and simulated GPUs such as sim:rtx3090 "
                         "(`stoke devices` lists them)",
                         device);
    r = set_limits(s, err);
    if (r) return r;
    if (!native)
        cli_say(s->call, "%s is a simulated GPU: memory as estimated for PyTorch, times emulated", device);
    s->params.memory = s->memory; /* what is free just now is no other search */
    stoke_trial_key(&s->params, key, sizeof key);
    s->progress = cli_progress_begin(s->call, "trials", "done");
    r = stoke_batch_search(&s->result, &s->limits, run_trial, s, s->journal, key, err);
    stoke_progress_destroy(&s->progress);
    if (r == STOKE_E_CANCELLED && s->journal)
        cli_say(s->call, "the trials so far are in %s: the same command goes on with them", s->journal);
    else if (r == STOKE_E_CANCELLED)
        cli_say(s->call, "nothing is kept of the trials; --journal FILE would have");
    return r;
}
