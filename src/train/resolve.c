/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run settles once it knows its data: batch, number of steps, cadences, learning rate, name.
 */
#include "src/train/resolve.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stoke/tools/machine.h>
#include <stoke/tools/order.h>
#include <stoke/tools/report.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/retry.h"
#include "src/train/train_memory.h"
#include <stoke/tools/terminal.h>

enum {
    BATCH_MOST = 8,     /* more gains little speed on a processor, and a small set then has few steps */
    STEPS_EVAL = 50,    /* between evaluations at the least: of small sets they would take most of the time */
    LOG_POINTS = 200,   /* of a curve */
    LOG_STEPS_MOST = 20 /* between two of them */
};
#define STEPS_MOST INT64_C(1000000000) /* of a run; 30 years at one a second */

/* ---- batch ---- */

/* What network and loaders take with such batches. The loaders' share grows linearly with the rows. */
typedef struct demand {
    uint64_t loaders, per_row;
} demand;

static int bytes_of(const stk_resolve_ctx *s, const demand *d, uint32_t rows, uint64_t *bytes)
{
    stoke_net_params net = s->setup->net;
    stoke_net_plan plan;
    net.batch = rows;
    const int r = stoke_net_plan_of(&net, &plan, s->err);
    if (!r)
        *bytes = plan.total - plan.process + d->loaders + rows * d->per_row +
                 stk_eval_plan_bytes(&s->setup->eval, &net, s->setup->params.pictures ? STK_PICTURES : 0);
    return r;
}

static int choose_batch(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    const uint64_t samples = stoke_dataset_count(setup->train_set), available = stoke_machine_available();
    /* A quarter stays for everyone else, and for what the plan does not know. */
    uint64_t room = available == UINT64_MAX ? available : available / 4 * 3;
    if (setup->train.memory_limit && setup->train.memory_limit < room) room = setup->train.memory_limit;
    uint32_t rows = samples < BATCH_MOST ? (uint32_t)samples : BATCH_MOST;
    const uint32_t wanted = rows;
    demand d = { 0 };
    uint64_t bytes = 0;
    char need[32], have[32];
    int r = stk_train_memory_rows(setup, &d.loaders, &d.per_row, s->err);
    if (!r) r = bytes_of(s, &d, rows, &bytes);
    while (!r && bytes > room && rows > 1) r = bytes_of(s, &d, --rows, &bytes);
    if (r) return r;
    setup->train.batch = rows;
    stoke_text_bytes(bytes, need, sizeof need);
    stoke_text_bytes(available, have, sizeof have);
    if (bytes > room)
        stk_resolve_say(
            s,
            "Even batches of 1 take %s of memory, and %s are free: `memory` min, a smaller `size` or "
            "a smaller `model` would be safer.",
            need, have);
    else if (rows < wanted)
        stk_resolve_say(s,
                        "Batches of %u take %s of memory; %s are free, of which a quarter is left alone "
                        "(`batch` sets it).",
                        rows, need, have);
    else
        stk_resolve_say(
            s,
            "Batches of %u, a usual number, take %s of memory (`batch` sets it; `stoke find-batch` "
            "finds the one that is fastest here).",
            rows, need);
    return STOKE_OK;
}

int stk_resolve_batch(stk_resolve_ctx *s)
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

/* Once per epoch, and not more often than evaluations would take as long as the steps between them. A step
 * takes a row three times through the network: forward, and twice as much back. */
static int64_t usual_cadence(const stk_setup *setup, int64_t per_epoch)
{
    int64_t every = per_epoch > STEPS_EVAL ? per_epoch : STEPS_EVAL;
    if (setup->eval.mode != STOKE_PREDICT_SLIDE) return every;
    const double rows = 3.0 * (double)setup->train.batch * (double)setup->params.accumulate;
    const double least = (double)stoke_dataset_count(setup->val_set) * setup->eval.windows / rows;
    return least > (double)every ? (int64_t)(least < (double)STEPS_MOST ? least : (double)STEPS_MOST) : every;
}

int stk_resolve_length(stk_resolve_ctx *s)
{
    stk_setup *setup = s->setup;
    stoke_train_params *p = &setup->params;
    const stoke_rank shard = { .count = stoke_dataset_count(setup->train_set),
                               .batch = (uint32_t)setup->train.batch,
                               .world = 1,
                               .drop_last = setup->train.drop_last };
    setup->batches_per_epoch = stoke_rank_batches(&shard);
    if (!setup->batches_per_epoch)
        return stk_fail(s->err, STOKE_E_INVALID,
                        "%s cannot fill a batch of %lld, and `drop_last` leaves out what does not",
                        STOKE_COUNT(shard.count, "sample"), (long long)setup->train.batch);
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
    if (p->eval_every < 0) p->eval_every = at_most(usual_cadence(setup, per_epoch), steps);
    if (p->log_every < 0) p->log_every = at_most(steps / LOG_POINTS + 1, LOG_STEPS_MOST);
    return STOKE_OK;
}

/* ---- learning rate ---- */

double stk_usual_rate(const stoke_train_params *p)
{
    return p->optimizer == STOKE_OPTIMIZER_SGD ? 0.01 : p->pretrained ? 6e-5 : 1e-3;
}

/* The paper's for weights that know pictures already; from nothing everything has the same way to go. */
void stk_resolve_rates(stk_resolve_ctx *s)
{
    stoke_train_params *p = &s->setup->params;
    if (p->lr > 0 && p->head_lr > 0) return;
    const double lr = p->lr, head = p->head_lr;
    if (!(p->lr > 0)) p->lr = stk_usual_rate(p);
    if (!(p->head_lr > 0)) p->head_lr = p->pretrained ? 10 : 1;
    const char *weights = p->pretrained ? "pretrained" : "untrained";
    if (lr > 0)
        stk_resolve_say(s, "The head learns at %g times the learning rate: usual for %s weights.", p->head_lr,
                        weights);
    else
        stk_resolve_say(s, "Learning rate %g, times %g for the head%s: usual for %s weights.", p->lr,
                        p->head_lr, head > 0 ? " as set" : "", weights);
}

/* ---- name ---- */

static int taken(const char *runs, const char *name)
{
    char path[4096];
    struct stat st; /* what cannot be looked at is told when the folder is made */
    return snprintf(path, sizeof path, "%s/%s", runs, name) < (int)sizeof path && stk_stat(path, &st) == 0;
}

/* b0-20261116-094312; a second one in that second gets -2. */
int stk_resolve_name(stk_resolve_ctx *s)
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
    p->name = stk_resolve_keep(s, name);
    return p->name ? STOKE_OK : STOKE_E_NOMEM;
}
