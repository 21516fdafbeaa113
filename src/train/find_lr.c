/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweep: steps as the run would take them, at a rate that grows by one factor from step to step.
 */
#include <math.h>
#include <stdio.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/exact_math.h"
#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/train/checkpoint.h"
#include "src/train/evaluate.h"
#include "src/train/setup.h"
#include "src/train/train_memory.h"
#include <stoke/tools/findlr.h>

enum { MIN_STEPS = 100, MAX_STEPS = 10000 }; /* the judge looks at pairs of points: 50 ms for the most */

typedef struct sweep {
    stoke_net *net;
    stoke_loader *loader;
    const stoke_train_params *train;
    const stoke_find_lr_params *params;
    stoke_train_fn event;
    void *context;
    stoke_lr_report *report;
    uint64_t epoch, images;
    uint64_t began_ns;
} sweep;

stoke_find_lr_params stoke_find_lr_defaults(void)
{
    return (stoke_find_lr_params){
        .struct_size = sizeof(stoke_find_lr_params), .low = 1e-6, .high = 1, .steps = 200
    };
}

void stoke_lr_report_free(stoke_lr_report *report)
{
    stk_free(report->points);
    *report = (stoke_lr_report){ 0 };
}

static int check_params(const stoke_find_lr_params *p, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p) return stk_fail_struct(err, "stoke_find_lr_defaults");
    if (!(p->low >= 1e-12 && p->high <= 1e3 && p->high >= 10 * p->low))
        return stk_fail(err, STOKE_E_INVALID,
                        "a sweep from %g to %g: 1e-12 to 1000 will do, the end ten times the start or more",
                        p->low, p->high);
    if (p->steps < MIN_STEPS || p->steps > MAX_STEPS)
        return stk_fail(err, STOKE_E_INVALID, "a sweep of %u steps: %d to %d will do", (unsigned)p->steps,
                        MIN_STEPS, MAX_STEPS);
    return STOKE_OK;
}

/* The next batch that holds something; epochs follow one another. */
static int next_batch(sweep *s, const stoke_batch **batch, stoke_error *err)
{
    for (int fresh = 0;;) {
        int status = stoke_loader_next(s->loader, batch);
        if (status == STOKE_E_END && fresh)
            return stk_fail(err, STOKE_E_NOTFOUND, "an epoch has no batch: fewer samples than one batch?");
        if (status == STOKE_E_END) {
            status = stoke_loader_set_epoch(s->loader, ++s->epoch);
            fresh = 1;
            if (!status) continue;
        }
        if (status) return stk_fail_again(err, status, stoke_loader_error(s->loader));
        if ((*batch)->count) return STOKE_OK;
        stoke_batch_release(s->loader, batch);
    }
}

/* One step; *loss is NaN when loss or gradients were no numbers. In fp16 an overflow alone is no such sign:
 * the scale is looked for. */
static int take_step(sweep *s, double lr, double *loss, stoke_error *err)
{
    const uint32_t batches = s->train->accumulate > 1 ? (uint32_t)s->train->accumulate : 1;
    *loss = 0;
    for (uint32_t i = 0; i < batches; i++) {
        const stoke_batch *batch;
        double one = NAN;
        int status = next_batch(s, &batch, err);
        if (status) return status;
        const stoke_net_batch rows = stoke_net_batch_of(batch);
        s->images += batch->count;
        status = stoke_net_backward(s->net, &rows, batches, &one, err);
        stoke_batch_release(s->loader, &batch);
        if (status) return status;
        *loss += one / batches;
    }
    stoke_step_report report = { 0 };
    const stoke_update update = stk_setup_update(s->train, lr, s->report->count);
    const int status = stoke_net_step(s->net, &update, &report, err);
    if (report.skipped && stoke_net_plan_used(s->net)->precision != STOKE_PRECISION_FP16) *loss = NAN;
    return status;
}

static int tell(const sweep *s, uint32_t done)
{
    const double seconds = (double)(stk_now_ns() - s->began_ns) / 1e9;
    const stoke_lr_point *last = &s->report->points[s->report->count - 1];
    const stoke_train_event event = {
        .kind = STOKE_TRAIN_STEP,
        .step = done,
        .steps = s->params->steps,
        .loss = last->smooth,
        .last_loss = last->loss,
        .lr = last->lr,
        .images_per_s = (double)s->images / seconds,
        .seconds_left = seconds / done * (s->params->steps - done),
    };
    return s->event && s->event(s->context, &event);
}

static int run(sweep *s, stoke_error *err)
{
    stoke_lr_report *r = s->report;
    const uint32_t steps = s->params->steps;
    stoke_lr_watch watch = { 0 };
    int status = stoke_loader_set_epoch(s->loader, 0);
    if (status) return stk_fail_again(err, status, stoke_loader_error(s->loader));
    for (uint32_t i = 0; i < steps; i++) {
        double loss;
        r->end_lr = s->params->low * stk_pow(s->params->high / s->params->low, (double)i / (steps - 1));
        status = take_step(s, r->end_lr, &loss, err);
        if (status) return status;
        r->end = stoke_lr_watch_next(&watch, loss);
        if (r->end == STOKE_LR_END_NOT_FINITE) return STOKE_OK;
        r->points[r->count++] = (stoke_lr_point){ r->end_lr, loss, watch.smooth };
        if (tell(s, i + 1)) return stk_fail(err, STOKE_E_CANCELLED, "interrupted");
        if (r->end == STOKE_LR_END_ROSE) return STOKE_OK;
    }
    return STOKE_OK;
}

/* What is usual, and well below where the loss exploded. */
static double without_a_curve(const sweep *s)
{
    const double usual = stk_usual_rate(s->train);
    return s->report->end == STOKE_LR_END_WHOLE ? usual : fmin(usual, s->report->end_lr / 100);
}

/* Room for the curve, the sweep, the verdict. */
static int run_and_judge(sweep *s, stoke_error *err)
{
    *s->report = (stoke_lr_report){ .memory = s->report->memory };
    int status = check_params(s->params, err);
    if (status) return status;
    s->report->points = stk_calloc(s->params->steps, sizeof *s->report->points);
    if (!s->report->points)
        return stk_fail(err, STOKE_E_NOMEM, "no memory for a curve of %u points", s->params->steps);
    s->began_ns = stk_now_ns();
    status = run(s, err);
    s->report->seconds = (double)(stk_now_ns() - s->began_ns) / 1e9;
    if (!status) status = stoke_lr_judge(s->report, err);
    if (!status && isnan(s->report->suggested)) s->report->suggested = without_a_curve(s);
    if (status) stoke_lr_report_free(s->report);
    return status;
}

int stoke_find_lr_on(stoke_net *net, stoke_loader *loader, const stoke_train_params *train,
                     const stoke_find_lr_params *params, stoke_train_fn event, void *context,
                     stoke_lr_report *report, stoke_error *err)
{
    sweep s = { .net = net,
                .loader = loader,
                .train = train,
                .params = params,
                .event = event,
                .context = context,
                .report = report };
    char place[STK_LOADER_STATE];
    stk_checkpoint_snapshot *before = NULL;
    *report = (stoke_lr_report){ 0 };
    if (stoke_loader_state(loader, place, sizeof place) >= (int)sizeof place)
        return stk_fail(err, STOKE_E_STATE, "the loader's state is longer than %zu bytes", sizeof place);
    int status = stk_snapshot_take(&before, net, err);
    if (status) return status;
    status = run_and_judge(&s, err);
    stk_snapshot_restore(before, net);
    stk_snapshot_free(&before);
    const int back = stoke_loader_restore(loader, place, status ? NULL : err);
    if (back && !status) stoke_lr_report_free(report);
    return status ? status : back;
}

/* ---- from settings ---- */

static int notify(const sweep *s, stoke_train_event_kind kind, const char *text, uint64_t done,
                  uint64_t total)
{
    const stoke_train_event event = { .kind = kind, .text = text, .done = done, .total = total };
    return s->event && s->event(s->context, &event);
}

static void say(void *context, const char *sentence)
{
    notify(context, STOKE_TRAIN_REMARK, sentence, 0, 0);
}

static int settling(void *context, uint64_t done, uint64_t total)
{
    return notify(context, STOKE_TRAIN_SETTLING, NULL, done, total);
}

/* Says what it will take before it takes it. */
static int announce(sweep *s, const stk_setup *setup, stk_train_memory *memory, stoke_error *err)
{
    char text[1024];
    const int status = stk_train_memory_make(memory, setup, 0, err);
    if (status) return status;
    s->report->memory = memory->sum;
    stoke_memory_text(&memory->sum, text, sizeof text);
    if (notify(s, STOKE_TRAIN_READY, text, 0, 0)) return stk_fail(err, STOKE_E_CANCELLED, "interrupted");
    return STOKE_OK;
}

int stoke_find_lr(const stoke_data_params *data, const stoke_train_params *train,
                  const stoke_find_lr_params *params, stoke_train_fn event, void *context,
                  stoke_lr_report *report, stoke_error *err)
{
    sweep s = { .params = params, .event = event, .context = context, .report = report };
    stk_setup setup = { 0 };
    stk_train_memory memory;
    stoke_train_params own = *train;
    *report = (stoke_lr_report){ 0 };
    int status = check_params(params, err);
    if (status) return status;
    own.lr = params->high; /* a rate is what is looked for: none need be chosen, and none be remarked on */
    own.resume = NULL;
    status = stk_setup_make(&setup, data, &own, say, settling, &s, err);
    s.train = &setup.params;
    if (!status && stk_setup_names_no_quarantine(&setup))
        setup.train.quarantine = "";                  /* nothing is written */
    if (!status) stoke_dataset_close(&setup.val_set); /* nothing is validated */
    if (!status) status = announce(&s, &setup, &memory, err);
    if (!status) status = stoke_net_open(&s.net, &setup.net, err);
    for (size_t i = 0; !status && stoke_net_remark(s.net, i); i++) say(&s, stoke_net_remark(s.net, i));
    if (!status) {
        const stoke_data_params own_data = stk_train_data(&setup);
        status = stk_loader_create_planned(&s.loader, setup.train_set, &own_data, &memory.train, err);
    }
    if (!status) status = run_and_judge(&s, err); /* what it leaves behind is closed: nothing to put back */
    stoke_loader_destroy(&s.loader);
    stoke_net_close(&s.net);
    stk_setup_free(&setup);
    return status;
}
