/* SPDX-License-Identifier: Apache-2.0
 *
 * A trial on the processor: the network of the settings is built and trained for a few steps. The memory it
 * may take is a limit of the process, so that too large a batch fails as it would on a smaller machine: by an
 * allocation that is refused.
 */
#include <math.h>
#include <sys/resource.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/train/evaluate.h"
#include "src/train/setup.h"
#include "src/tune/advice/advice.h"
#include "src/tune/batch/batch.h"
#include <stoke/loader.h>
#include <stoke/tools/machine.h>

/* Steps of a few ms are repeated until they add up to this: a median of three would be noise. */
static const double LEAST_MS = 100;
enum { ENOUGH = 64 };

typedef struct native_trial {
    const stoke_trial_params *params;
    stoke_train_params train; /* that of the settings, or as settled for the data */
    stk_setup setup;          /* with the loader on */
    stoke_loader *loader;
    uint64_t epoch;
    stoke_net *net;
    float *images; /* without it, and one of masks and targets */
    uint8_t *masks;
    float *targets;
    stoke_net_batch rows;
    double waited_ms; /* of the last step */
} native_trial;

/* ---- the limit ---- */

/* Private memory that may be written to, mapped or not, counts against RLIMIT_DATA (Linux 4.7). What the
 * process has mapped and never touched so far is granted besides: the limit is about memory, not addresses.
 */
static int set_limit(uint64_t memory, const struct rlimit *before, stoke_error *err)
{
    const uint64_t mapped = stk_machine_data("/proc"), held = stk_machine_rss("/proc");
    if (!memory || !mapped) return STOKE_OK;
    if (held >= memory)
        return stk_fail(err, STOKE_E_NOMEM, "out of memory: the process alone takes %.1f MiB of %.1f MiB",
                        STK_MIB(held), STK_MIB(memory));
    struct rlimit now = *before;
    now.rlim_cur = memory - held + mapped;
    if (now.rlim_cur > before->rlim_max) now.rlim_cur = before->rlim_max;
    if (now.rlim_cur < before->rlim_cur && setrlimit(RLIMIT_DATA, &now) != 0)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "the memory of this process cannot be limited");
    return STOKE_OK;
}

/* ---- batches ---- */

static float *noise(size_t count)
{
    float *values = stk_alloc(count * sizeof *values);
    uint32_t state = 1;
    for (size_t i = 0; values && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) * (4.0f / 16777216.0f) - 2.0f;
    }
    return values;
}

/* As `stoke bench step` has them: what is in pictures does not change the time. */
static int make_up_batch(native_trial *n, const stoke_net_params *net, stoke_error *err)
{
    const size_t pixels = (size_t)net->height * net->width, count = net->batch;
    const size_t finer = net->scale ? (size_t)net->scale * net->scale : 1;
    const int restores = net->task == STOKE_TASK_RESTORE;
    n->images = noise(3 * pixels * count);
    if (restores)
        n->targets = noise(3 * finer * pixels * count);
    else
        n->masks = stk_alloc(pixels * count);
    if (!n->images || !(restores ? (void *)n->targets : n->masks))
        return stk_fail(err, STOKE_E_NOMEM, "out of memory: a batch of %u pictures has %.1f MiB", net->batch,
                        STK_MIB(3 * pixels * count * sizeof *n->images));
    n->rows = (stoke_net_batch){ .count = net->batch,
                                 .images = n->images,
                                 .layout = STOKE_LAYOUT_CHW,
                                 .image_row_floats = 3 * pixels,
                                 .targets = n->targets,
                                 .target_row_floats = 3 * finer * pixels };
    if (restores) return STOKE_OK;
    const uint32_t classes = net->classes == 1 ? 2 : net->classes < 255 ? net->classes : 255;
    for (size_t i = 0; i < pixels * count; i++) n->masks[i] = (uint8_t)(i / 7 % classes);
    n->rows.masks = n->masks;
    n->rows.mask_dtype = STOKE_DTYPE_U8;
    n->rows.mask_row_bytes = pixels;
    return STOKE_OK;
}

/* Only whole batches are a trial of the batch: a short one at the end of an epoch is passed over. */
static int next_batch(native_trial *n, const stoke_batch **batch, stoke_error *err)
{
    for (int ends = 0; ends < 2;) {
        int r = stoke_loader_next(n->loader, batch);
        if (r == STOKE_E_END && ++ends < 2)
            r = stoke_loader_set_epoch(n->loader, ++n->epoch);
        else if (!r && (*batch)->count == (*batch)->capacity)
            return STOKE_OK;
        else if (!r)
            stoke_batch_release(n->loader, batch);
        if (r && r != STOKE_E_END) return stk_fail_again(err, r, stoke_loader_error(n->loader));
    }
    return stk_fail(err, STOKE_E_NOTFOUND, "the set has no whole batch of %u samples",
                    (unsigned)n->setup.train.batch);
}

/* What training would settle. A file may name sizes that its network has none of. */
static void settle(native_trial *n, stoke_data_params *data)
{
    const stoke_trial_params *p = n->params;
    stoke_train_params *train = &n->train;
    const stoke_estimate_params as = { .model = train->model, .classes = p->classes, .task = p->task };
    if (p->base_channels && stk_model_takes(train->model, 1, 0)) train->base_channels = p->base_channels;
    if (p->num_blocks && stk_model_takes(train->model, 0, 1)) train->num_blocks = p->num_blocks;
    data->task = stk_estimate_task(&as);
    if (p->scale) data->scale = p->scale;
    if (train->loss == STOKE_TRAIN_LOSS_AUTO)
        train->loss = data->task == STOKE_TASK_RESTORE ? STOKE_LOSS_CHARBONNIER : STOKE_LOSS_CE;
}

static int open_native(native_trial *n, uint32_t batch, stoke_error *err)
{
    const stoke_trial_params *p = n->params;
    stoke_net_params net;
    stoke_data_params data = p->data;
    int r = STOKE_OK;
    n->train = p->train;
    settle(n, &data);
    if (p->with_loader && stk_trial_has_data(p)) {
        data.batch = batch;
        n->train.resume = NULL;
        n->train.lr = n->train.lr > 0 ? n->train.lr : 1e-5; /* it is not the loss that is looked at */
        r = stk_setup_make(&n->setup, &data, &n->train, NULL, NULL, NULL, err);
        if (r) return r;
        n->setup.train.quarantine = ""; /* nothing is written */
        n->train = n->setup.params;
        net = n->setup.net;
    } else {
        net = stk_setup_net(&n->train, &data, p->classes);
        if (!net.model && !net.weights) net.model = "b0";
        net.batch = batch;
    }
    r = stoke_net_open(&n->net, &net, err);
    if (!r && n->setup.train_set)
        return stoke_loader_create(&n->loader, n->setup.train_set, &n->setup.train, NULL, err);
    return r ? r : make_up_batch(n, &net, err);
}

/* ---- steps ---- */

/* Forward, loss, backward, update, of one batch; ms NULL: it is evaluated. An evaluation is part of a
 * training, and may be what memory fails at; its own time does not count. */
static int one_step(native_trial *n, uint64_t step, double *ms, stoke_error *err)
{
    double loss;
    const stoke_batch *batch = NULL;
    const uint64_t began = stk_now_ns();
    int r = n->loader ? next_batch(n, &batch, err) : STOKE_OK;
    if (r) return r;
    const uint64_t ready = stk_now_ns();
    if (batch) n->rows = stoke_net_batch_of(batch);
    r = ms ? stoke_net_backward(n->net, &n->rows, 1, NULL, err)
           : stoke_net_evaluate(n->net, &n->rows, &loss, NULL, err);
    if (batch) stoke_batch_release(n->loader, &batch);
    if (!ms) return r;
    const stoke_update update = stk_setup_update(&n->train, 1e-5, step);
    if (!r) r = stoke_net_step(n->net, &update, NULL, err);
    n->waited_ms = n->loader ? (double)(ready - began) / 1e6 : 0;
    *ms = (double)(stk_now_ns() - ready) / 1e6;
    return r;
}

/* What the threads had and wanted of the cores since the clocks were read; in line counts as wanted. */
typedef struct cores {
    uint64_t at_ns, ran_ns, stood_ns;
    int known;
} cores;

static cores read_cores(void)
{
    cores now = { .at_ns = stk_now_ns() };
    now.known = stk_machine_run_queue("/proc", &now.ran_ns, &now.stood_ns);
    return now;
}

static int take_steps(native_trial *n, stoke_trial *trial, stoke_error *err)
{
    double ms[STK_TRIAL_STEPS], computed = 0, waited = 0;
    cores before = { 0 };
    size_t count = 0;
    const uint32_t least = n->params->steps;
    for (uint64_t i = 0; i < STK_TRIAL_STEPS; i++) {
        double own;
        if (i == STK_TRIAL_WARM_UP) before = read_cores();
        if (i >= least && count && (computed >= LEAST_MS || count >= ENOUGH)) break;
        const int r = one_step(n, i, &own, err);
        if (r) return r;
        if (i < STK_TRIAL_WARM_UP) continue;
        ms[count++] = own;
        computed += own;
        waited += n->waited_ms;
    }
    const cores now = read_cores();
    const double wall = (double)(now.at_ns - before.at_ns);
    if (before.known && now.known && wall > 0) {
        trial->cores_had = (double)(now.ran_ns - before.ran_ns) / wall;
        trial->cores_wanted = trial->cores_had + (double)(now.stood_ns - before.stood_ns) / wall;
    }
    const int r = one_step(n, 0, NULL, err);
    if (r) return r;
    stk_trial_times(trial, ms, count);
    trial->wait_ms = waited / (double)count;
    if (n->loader) trial->busy = computed / (computed + waited);
    return STOKE_OK;
}

int stk_trial_native(stoke_trial *trial, const stoke_trial_params *params, stoke_error *err)
{
    native_trial n = { .params = params };
    struct rlimit before;
    if (getrlimit(RLIMIT_DATA, &before) != 0)
        return stk_fail(err, STOKE_E_UNSUPPORTED, "the limits of this process cannot be read");
    int r = set_limit(params->memory, &before, err);
    if (!r) r = open_native(&n, trial->batch, err);
    if (!r) r = take_steps(&n, trial, err);
    if (!r) {
        const uint64_t planned = stoke_net_plan_used(n.net)->total;
        const uint64_t held = stoke_machine_peak_rss();
        trial->allocated = planned;
        trial->reserved = held > planned ? held : planned; /* pages that were not touched count as taken */
    }
    stoke_loader_destroy(&n.loader);
    stoke_net_close(&n.net);
    stk_setup_free(&n.setup);
    stk_free(n.images);
    stk_free(n.masks);
    stk_free(n.targets);
    setrlimit(RLIMIT_DATA, &before);
    return r;
}
