/* SPDX-License-Identifier: Apache-2.0
 *
 * A trial: where it runs, and what it depends on.
 */
#include "src/tune/batch/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/net/segformer/segformer.h"
#include <stoke/tools/device.h>
#include <stoke/tools/machine.h>

enum { FEWEST_STEPS = 3 };

stoke_trial_params stoke_trial_defaults(void)
{
    return (stoke_trial_params){ .struct_size = sizeof(stoke_trial_params),
                                 .device = "native",
                                 .data = stoke_data_defaults(),
                                 .train = stoke_train_defaults(),
                                 .classes = 19, /* of Cityscapes, as `stoke bench net` */
                                 .steps = 5,
                                 .base_channels = 64,
                                 .num_blocks = 6 };
}

int stk_trial_has_data(const stoke_trial_params *params)
{
    const stoke_data_params *d = &params->data;
    return d->data || d->images || d->list;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void stk_trial_times(stoke_trial *trial, double *ms, size_t n)
{
    qsort(ms, n, sizeof *ms, by_value);
    trial->step_ms = n % 2 ? ms[n / 2] : (ms[n / 2 - 1] + ms[n / 2]) / 2;
    trial->step_low = ms[n / 4];
    trial->step_high = ms[n - 1 - n / 4];
}

/* ---- running ---- */

static int check_params(const stoke_trial_params *p, uint32_t batch, stoke_error *err)
{
    if (!p || p->struct_size != sizeof *p || !p->device)
        return stk_fail(err, STOKE_E_INVALID, "the parameters are not those of stoke_trial_defaults");
    if (!batch || batch > STK_NET_BATCH)
        return stk_fail(err, STOKE_E_INVALID, "a batch of %u: 1 to %d will do", (unsigned)batch,
                        STK_NET_BATCH);
    if (p->steps < FEWEST_STEPS || p->steps > STK_TRIAL_STEPS)
        return stk_fail(err, STOKE_E_INVALID, "a trial of %u steps: %d to %d will do", (unsigned)p->steps,
                        FEWEST_STEPS, STK_TRIAL_STEPS);
    if (!p->data.size[0] || !p->data.size[1])
        return stk_fail(err, STOKE_E_INVALID, "no size of pictures is given: --size says it");
    return STOKE_OK;
}

int stoke_trial_run(stoke_trial *trial, uint32_t batch, const stoke_trial_params *params, stoke_error *err)
{
    stoke_error own = { 0 };
    *trial = (stoke_trial){ .batch = batch,
                            .with_loader = params && params->with_loader,
                            .busy = NAN,
                            .cores_wanted = NAN,
                            .cores_had = NAN };
    int r = check_params(params, batch, err);
    if (r) return r;
    if (!strcmp(params->device, "native"))
        r = stk_trial_native(trial, params, &own);
    else if (stoke_device_simulated(params->device))
        r = stk_trial_sim(trial, params, &own);
    else
        return stk_fail(err, STOKE_E_NOTFOUND,
                        "no trial runs on \"%.40s\": there are native, and simulated GPUs such as "
                        "sim:rtx3090",
                        params->device);
    /* LIMIT: more pixels than the engine counts, which is more than any memory holds. */
    if (r == STOKE_E_NOMEM || r == STOKE_E_LIMIT) {
        trial->outcome = STOKE_OUTCOME_OOM;
        snprintf(trial->message, sizeof trial->message, "%.250s", own.message);
        return STOKE_OK;
    }
    return r ? stk_fail_again(err, r, own.message) : STOKE_OK;
}

int stoke_trial_key(const stoke_trial_params *p, char *text, size_t size)
{
    const stoke_train_params *t = &p->train;
    const stoke_data_params *d = &p->data;
    const int native = !strcmp(p->device, "native");
    const char *from = d->data ? d->data : d->images ? d->images : d->list ? d->list : "none";
    int n =
        snprintf(text, size,
                 "%s %s%s%.60s %ux%u %u classes %s optimizer %d memory %d frozen %d average %d loss %d "
                 "steps %u limit %llu data %.160s workers %lld augment %.60s",
                 p->device, t->model ? t->model : "", t->pretrained ? " from " : "",
                 t->pretrained ? t->pretrained : "", (unsigned)d->size[0], (unsigned)d->size[1],
                 (unsigned)p->classes, stoke_precision_name(t->precision), t->optimizer, t->memory,
                 t->freeze_encoder, t->average > 0, t->loss, (unsigned)p->steps,
                 (unsigned long long)p->memory, from, (long long)d->workers, d->augment ? d->augment : "");
    if (n < 0 || (size_t)n >= size) return n;
    if (native)
        return n + snprintf(text + n, size - (size_t)n, " on %.60s, %u cores, %lld threads",
                            stoke_machine_cpu_name(), stoke_machine_cores().usable, (long long)t->threads);
    return n + snprintf(text + n, size - (size_t)n, " channels %u blocks %u times %g %g",
                        (unsigned)p->base_channels, (unsigned)p->num_blocks, p->time0, p->time1);
}
