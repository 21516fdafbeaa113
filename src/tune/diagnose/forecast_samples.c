/* SPDX-License-Identifier: Apache-2.0
 *
 * From costs that were measured to those of a setup, in ms.
 */
#include <math.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/tune/diagnose/forecast.h"

static int check_setup(const stoke_setup *setup, stoke_error *err)
{
    if (setup->struct_size != sizeof *setup) return stk_fail_struct(err, "stoke_setup_defaults");
    if (!setup->batch || (unsigned)setup->placement > STOKE_PLACEMENT_DEVICE ||
        (unsigned)setup->transfer > STOKE_TRANSFER_PAGEABLE)
        return stk_fail(
            err, STOKE_E_INVALID,
            "batch %u, placement %d, transfer %d: a setup has a batch of at least 1, augments on "
            "the host (0) or the device (1), and copies by a stream (0), pinned (1) or pageable (2)",
            setup->batch, setup->placement, setup->transfer);
    return STOKE_OK;
}

static int is_time(double ms)
{
    return isfinite(ms) && ms >= 0;
}

static int check_costs(const stoke_costs *costs, stoke_error *err)
{
    if (costs->struct_size != sizeof *costs) return stk_fail_struct(err, "stoke_costs_defaults");
    if (!(isfinite(costs->cores) && costs->cores > 0))
        return stk_fail(err, STOKE_E_INVALID, "cores is %g: workers need some part of a core", costs->cores);
    if (!is_time(costs->launch_ms) || !is_time(costs->host_ms) ||
        !(is_time(costs->restart_ms) || isnan(costs->restart_ms)))
        return stk_fail(
            err, STOKE_E_INVALID,
            "launch_ms %g, host_ms %g, restart_ms %g: each is a time, 0 when it is too short to see",
            costs->launch_ms, costs->host_ms, costs->restart_ms);
    double sum = 0;
    for (size_t i = 0; i < costs->n_steps; i++) {
        if (!is_time(costs->step_ms[i]))
            return stk_fail(err, STOKE_E_INVALID, "step_ms[%zu] is %g: not a time", i, costs->step_ms[i]);
        sum += costs->step_ms[i];
    }
    if (!(sum > 0) || !isfinite(sum))
        return stk_fail(err, STOKE_E_INVALID, "step_ms is empty: what does the device compute for a step?");
    return STOKE_OK;
}

/* ---- samples ---- */

static stk_forecast_batch_cost cost_of(const stoke_step_record *record, double part[STOKE_IDLES])
{
    static const int stage[STOKE_WORK_KINDS] = { STOKE_IDLE_READ, STOKE_IDLE_DECODE, STOKE_IDLE_FIT,
                                                 STOKE_IDLE_AUGMENT, STOKE_IDLE_COLLATE };
    stk_forecast_batch_cost cost = { .kernels = NAN };
    for (int i = 0; i < STOKE_WORK_KINDS; i++) {
        const double cpu = (double)record->making[i].cpu_ns / 1e6;
        const double io =
            ((double)record->making[i].wall_ns - (double)record->making[i].queued_ns) / 1e6 - cpu;
        cost.cpu += cpu;
        part[stage[i]] += cpu;
        if (io > 0) {
            cost.io += io;
            part[STOKE_IDLE_FILES] += io;
        }
    }
    if (record->augment_start && record->augment_end >= record->augment_start)
        cost.kernels = (double)(record->augment_end - record->augment_start) / 1e6;
    return cost;
}

/* Kernels that were not timed took as long as the others did on average. */
static int settle_kernels(stk_forecast_model *model, stoke_error *err)
{
    double sum = 0, known = 0;
    for (size_t i = 0; i < model->n_batches; i++)
        if (!isnan(model->batch[i].kernels)) {
            sum += model->batch[i].kernels;
            known++;
        }
    if (model->setup.placement == STOKE_PLACEMENT_DEVICE && known == 0)
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "the records of augmenting on the device lack its kernels: measure them first");
    for (size_t i = 0; i < model->n_batches; i++) {
        double *kernels = &model->batch[i].kernels;
        if (model->setup.placement == STOKE_PLACEMENT_HOST)
            *kernels = 0;
        else if (isnan(*kernels))
            *kernels = sum / known;
    }
    return STOKE_OK;
}

/* Steps are not scaled to another batch: what a device computes for it has to be measured. */
static int take_samples(stk_forecast_model *model, const stoke_side *side, double scale, stoke_error *err)
{
    model->batch = stk_calloc(side->n, sizeof *model->batch);
    if (!model->batch) return stk_fail(err, STOKE_E_NOMEM, "no memory for the costs of %zu batches", side->n);
    model->n_batches = side->n;
    for (size_t i = 0; i < side->n; i++) model->batch[i] = cost_of(&side->records[i], model->part);
    const int r = settle_kernels(model, err);
    if (r) return r;
    for (int i = 0; i < STOKE_IDLES; i++) model->part[i] *= scale / (double)side->n;
    for (size_t i = 0; i < side->n; i++) {
        stk_forecast_batch_cost *cost = &model->batch[i];
        *cost = (stk_forecast_batch_cost){ cost->cpu * scale, cost->io * scale, cost->kernels * scale };
        model->mean.cpu += cost->cpu / (double)side->n;
        model->mean.io += cost->io / (double)side->n;
        model->mean.kernels += cost->kernels / (double)side->n;
    }
    for (size_t i = 0; i < model->n_steps; i++) model->mean_step += model->step[i] / (double)model->n_steps;
    if (model->mean.cpu + model->mean.io > 0) return STOKE_OK;
    return stk_fail(err, STOKE_E_NOTFOUND,
                    "the records lack what making their batches took: measure it first");
}

static const stoke_start *start_of(const stoke_side *side, const stoke_setup *setup)
{
    return setup->transfer == STOKE_TRANSFER_PAGEABLE ? &side->pageable_start : &side->pinned_start;
}

/* The first batch of workers that were just started. */
static stk_forecast_batch_cost first_of(const stoke_side *side, const stoke_start *start)
{
    stk_forecast_batch_cost first = { 0 };
    double part[STOKE_IDLES] = { 0 };
    if (is_time(start->first_ms)) return (stk_forecast_batch_cost){ .cpu = start->first_ms };
    for (size_t i = 0; i < side->n; i++) {
        const stk_forecast_batch_cost cost = cost_of(&side->records[i], part);
        first.cpu += cost.cpu / (double)side->n;
        first.io += cost.io / (double)side->n;
    }
    return first;
}

/* Without that batch, which other workers make in another time; the loop had it when it had crossed, where it
 * waits for copies. What is not known of the setup is taken from the one that was measured. */
static double start_of_workers(const stoke_costs *costs, const stoke_setup *setup)
{
    stoke_setup like = *setup;
    if (!is_time(start_of(&costs->side[like.placement], &like)->restart_ms)) like = costs->measured;
    const stoke_side *side = &costs->side[like.placement];
    const stoke_start *start = start_of(side, &like);
    const double whole = is_time(start->restart_ms) ? start->restart_ms : costs->restart_ms;
    const stk_forecast_model measured = { .setup = costs->measured,
                                          .cores = costs->cores,
                                          .first = first_of(side, start) };
    const int waits = like.transfer == STOKE_TRANSFER_PAGEABLE && is_time(side->pageable_ms);
    return fmax(0, whole - stk_model_first(&measured) - (waits ? side->pageable_ms : 0));
}

int stk_model_make(stk_forecast_model *model, const stoke_costs *costs, const stoke_setup *setup,
                   stoke_error *err)
{
    *model = (stk_forecast_model){ .setup = *setup };
    int r = check_costs(costs, err);
    if (!r) r = check_setup(setup, err);
    if (!r) r = check_setup(&costs->measured, err);
    if (r) return r;
    static const char *const places[] = { "host", "device" };
    const stoke_side *side = &costs->side[setup->placement];
    const int pageable = setup->transfer == STOKE_TRANSFER_PAGEABLE;
    const double scale = (double)setup->batch / costs->measured.batch;
    if (!side->n)
        return stk_fail(err, STOKE_E_NOTFOUND, "augmenting on the %s was not measured",
                        places[setup->placement]);
    model->copy = (pageable ? side->pageable_ms : side->pinned_ms) * scale;
    if (!is_time(model->copy))
        return stk_fail(err, STOKE_E_NOTFOUND, "copies from %s memory were not measured",
                        pageable ? "pageable" : "pinned");
    model->cores = costs->cores;
    model->launch = costs->launch_ms;
    model->host = costs->host_ms;
    if (setup->workers && !setup->persistent && costs->steps_per_epoch) {
        if (isnan(costs->restart_ms))
            return stk_fail(err, STOKE_E_NOTFOUND, "starting workers was not measured");
        model->epoch = (double)costs->steps_per_epoch;
        model->start = start_of_workers(costs, setup);
        model->first = first_of(side, start_of(side, setup));
        model->first.cpu *= scale;
        model->first.io *= scale;
    }
    model->step = costs->step_ms;
    model->n_steps = costs->n_steps;
    r = take_samples(model, side, scale, err);
    if (r) stk_model_free(model);
    return r;
}

void stk_model_free(stk_forecast_model *model)
{
    stk_free(model->batch);
    model->batch = NULL;
}
