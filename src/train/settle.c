/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run settles once it knows its data: batch, number of steps, cadences, learning rate, name.
 */
#include "src/train/settle.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stoke/machine.h>
#include <stoke/order.h>
#include <stoke/report.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/loader/loader_private.h"

enum {
    BATCH_MOST = 8,     /* more gains little speed on a processor, and a small set then has few steps */
    STEPS_EVAL = 50,    /* between evaluations at the least: of small sets they would take most of the time */
    LOG_POINTS = 200,   /* of a curve */
    LOG_STEPS_MOST = 20 /* between two of them */
};
#define STEPS_MOST INT64_C(1000000000) /* of a run; 30 years at one a second */

/* ---- batch ---- */

/* Bytes of a loader with batches of `rows`, without what the process holds. */
static int loader_bytes(const stk_settling *s, const stoke_dataset *set, const stoke_data_params *params,
                        uint32_t rows, uint64_t *bytes)
{
    stoke_data_params own = *params;
    stk_recipe recipe;
    stoke_memory_plan plan;
    stk_row_need most = { 0 };
    own.batch = rows;
    own.memory_limit = 0;
    const int64_t cores = (int64_t)stoke_machine_cores().usable - 1;
    const uint32_t workers = (uint32_t)(own.workers > 0 ? own.workers : cores > 1 ? cores : 1);
    int r = stk_recipe_create(&recipe, set, &own, s->err);
    if (!r) r = stk_memory_plan_make(&plan, &most, &recipe, &own, workers, s->err);
    stk_recipe_destroy(&recipe);
    if (!r) *bytes = plan.total_bytes - plan.fixed_bytes + own.cache_ram;
    return r;
}

/* What network and loaders take with such batches. The loaders' share grows linearly with the rows, and
 * measuring it reads headers: it is done twice, for one row and for two. */
typedef struct demand {
    uint64_t loaders, per_row;
} demand;

static int measure_loaders(const stk_settling *s, demand *d)
{
    const stk_setup *setup = s->setup;
    uint64_t one[2] = { 0 }, two[2] = { 0 };
    int r = loader_bytes(s, setup->train_set, &setup->train, 1, &one[0]);
    if (!r) r = loader_bytes(s, setup->train_set, &setup->train, 2, &two[0]);
    if (!r && setup->val_set) r = loader_bytes(s, setup->val_set, &setup->val, 1, &one[1]);
    if (!r && setup->val_set) r = loader_bytes(s, setup->val_set, &setup->val, 2, &two[1]);
    d->per_row = two[0] - one[0] + two[1] - one[1];
    d->loaders = one[0] + one[1] - d->per_row;
    return r;
}

static int bytes_of(const stk_settling *s, const demand *d, uint32_t rows, uint64_t *bytes)
{
    stoke_net_params net = s->setup->net;
    stoke_net_plan plan;
    net.batch = rows;
    const int r = stoke_net_plan_of(&net, &plan, s->err);
    if (!r) *bytes = plan.total - plan.process + d->loaders + rows * d->per_row;
    return r;
}

static int choose_batch(stk_settling *s)
{
    stk_setup *setup = s->setup;
    const uint64_t samples = stoke_dataset_count(setup->train_set), available = stoke_machine_available();
    /* A quarter stays for everyone else, and for what the plan does not know. */
    const uint64_t room = available == UINT64_MAX ? available : available / 4 * 3;
    uint32_t rows = samples < BATCH_MOST ? (uint32_t)samples : BATCH_MOST;
    const uint32_t wanted = rows;
    demand d = { 0 };
    uint64_t bytes = 0;
    char need[32], have[32];
    int r = measure_loaders(s, &d);
    if (!r) r = bytes_of(s, &d, rows, &bytes);
    while (!r && bytes > room && rows > 1) r = bytes_of(s, &d, --rows, &bytes);
    if (r) return r;
    setup->train.batch = rows;
    stoke_text_bytes(bytes, need, sizeof need);
    stoke_text_bytes(available, have, sizeof have);
    if (bytes > room)
        stk_settle_say(
            s,
            "Even batches of 1 take %s of memory, and %s are free: `memory` min, a smaller `size` or "
            "a smaller `model` would be safer.",
            need, have);
    else if (rows < wanted)
        stk_settle_say(s,
                       "Batches of %u take %s of memory; %s are free, of which a quarter is left alone "
                       "(`batch` sets it).",
                       rows, need, have);
    else
        stk_settle_say(s, "Batches of %u take %s of memory (`batch` sets it).", rows, need);
    return STOKE_OK;
}

int stk_settle_batch(stk_settling *s)
{
    stk_setup *setup = s->setup;
    int r = setup->train.batch < 0 ? choose_batch(s) : STOKE_OK;
    setup->val.batch = setup->train.batch;
    setup->net.batch = (uint32_t)setup->train.batch;
    return r;
}

/* ---- length ---- */

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

int stk_settle_length(stk_settling *s)
{
    stk_setup *setup = s->setup;
    stoke_train_params *p = &setup->params;
    const stoke_shard shard = { .count = stoke_dataset_count(setup->train_set),
                                .batch = (uint32_t)setup->train.batch,
                                .world = 1,
                                .drop_last = setup->train.drop_last };
    setup->batches_per_epoch = stoke_shard_batches(&shard);
    if (!setup->batches_per_epoch)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "%llu samples do not fill a batch of %lld, and `drop_last` leaves out what does not",
                        (unsigned long long)shard.count, (long long)setup->train.batch);
    const uint64_t accumulate = (uint64_t)p->accumulate;
    const double batches = (double)p->epochs * (double)setup->batches_per_epoch;
    const double wanted = p->steps ? (double)p->steps : batches / (double)accumulate;
    if (wanted > (double)STEPS_MOST)
        return stk_fail(s->err, STOKE_E_LIMIT,
                        "a run of %.3g steps is more than anyone has time for: at most %lld will do; look at "
                        "`epochs` (%lld) and `steps` (%lld)",
                        wanted, (long long)STEPS_MOST, (long long)p->epochs, (long long)p->steps);
    if (p->steps) {
        setup->steps = (uint64_t)p->steps;
        setup->epochs = (setup->steps * accumulate + setup->batches_per_epoch - 1) / setup->batches_per_epoch;
    } else {
        setup->epochs = (uint64_t)p->epochs;
        setup->steps = setup->epochs * setup->batches_per_epoch / accumulate;
        if (!setup->steps) setup->steps = 1;
    }
    const int64_t steps = (int64_t)setup->steps;
    const int64_t per_epoch = (int64_t)((setup->batches_per_epoch + accumulate - 1) / accumulate);
    if (p->eval_every < 0) p->eval_every = at_most(per_epoch > STEPS_EVAL ? per_epoch : STEPS_EVAL, steps);
    if (p->log_every < 0) p->log_every = at_most(steps / LOG_POINTS + 1, LOG_STEPS_MOST);
    return STOKE_OK;
}

/* ---- learning rate ---- */

/* The paper's for weights that know pictures already; from nothing everything has the same way to go. */
void stk_settle_rates(stk_settling *s)
{
    stoke_train_params *p = &s->setup->params;
    const int sgd = p->optimizer == STOKE_OPTIMIZER_SGD;
    if (p->lr > 0 && p->head_lr > 0) return;
    const double lr = p->lr, head = p->head_lr;
    if (!(p->lr > 0)) p->lr = sgd ? 0.01 : p->pretrained ? 6e-5 : 1e-3;
    if (!(p->head_lr > 0)) p->head_lr = p->pretrained ? 10 : 1;
    const char *weights = p->pretrained ? "pretrained" : "untrained";
    if (lr > 0)
        stk_settle_say(s, "The head learns at %g times the learning rate: usual for %s weights.", p->head_lr,
                       weights);
    else
        stk_settle_say(s, "Learning rate %g, times %g for the head%s: usual for %s weights.", p->lr,
                       p->head_lr, head > 0 ? " as set" : "", weights);
}

/* ---- name ---- */

static int taken(const char *runs, const char *name)
{
    char path[4096];
    return snprintf(path, sizeof path, "%s/%s", runs, name) < (int)sizeof path && access(path, F_OK) == 0;
}

/* b0-20261116-094312; a second one in that second gets -2. */
int stk_settle_name(stk_settling *s)
{
    stoke_train_params *p = &s->setup->params;
    if (p->name && (!*p->name || strchr(p->name, '/') || !strcmp(p->name, ".") || !strcmp(p->name, "..")))
        return stk_fail(s->err, STOKE_E_INVALID,
                        "`name` '%.80s' is not the name of a folder; the folder that runs go to is `runs`",
                        p->name);
    if (p->name || p->resume) return STOKE_OK;
    char name[96];
    struct tm parts;
    const time_t now = time(NULL);
    if (!localtime_r(&now, &parts)) return stk_fail(s->err, STOKE_E_STATE, "the clock cannot be read");
    size_t used = (size_t)snprintf(name, sizeof name, "%.16s-", p->model);
    used += strftime(name + used, sizeof name - used, "%Y%m%d-%H%M%S", &parts);
    for (unsigned n = 2; taken(p->runs, name); n++) snprintf(name + used, sizeof name - used, "-%u", n);
    p->name = stk_settle_keep(s, name);
    return p->name ? STOKE_OK : STOKE_E_NOMEM;
}
