/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop that really trains: the native engine on this machine's processor, with batches of the loader. The
 * processor is the device, so nothing is copied, the loop waits for every step by being it, and workers have
 * the cores that a step leaves them.
 */
#include <stoke/net.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/observe/observer.h"
#include "src/loader/loader.h"
#include "src/train/train_memory.h"
#include "src/tune/diagnose/diagnose.h"
#include <stoke/tools/dataset.h>
#include <stoke/tools/loader.h>

static int network_of(stoke_net_params *net, const stoke_diagnose_params *p, const stoke_data_params *data,
                      stoke_error *err)
{
    uint32_t size[2];
    const int restores = stoke_dataset_has_targets(p->dataset);
    *net = stoke_net_defaults();
    if (!p->classes && !restores)
        return stk_fail(err, STOKE_E_INVALID,
                        "how many classes the network is to tell is not said: give `classes`");
    const int r = stoke_data_size(p->dataset, data, size, err);
    if (r) return r;
    net->model = p->model;
    net->classes = p->classes;
    net->task = restores ? STOKE_TASK_RESTORE : STOKE_TASK_SEGMENT;
    net->base_channels = p->base_channels;
    net->num_blocks = p->num_blocks;
    if (restores) net->loss.kind = STOKE_LOSS_CHARBONNIER;
    if (restores) net->scale = (uint32_t)data->scale;
    net->batch = (uint32_t)data->batch;
    net->height = size[0];
    net->width = size[1];
    net->seed = p->seed;
    net->loss.ignore_index = data->ignore_index;
    return STOKE_OK;
}

int stk_diagnose_network(stoke_memory_share *share, const stoke_diagnose_params *p,
                         const stoke_data_params *data, stoke_error *err)
{
    stoke_net_params net;
    stoke_net_plan plan;
    int r = network_of(&net, p, data, err);
    if (!r) r = stoke_net_plan_of(&net, &plan, err);
    if (r) return r;
    *share =
        (stoke_memory_share){ "network", 1,
                              plan.total - plan.process + STK_RUN_BYTES + plan.threads * STK_THREAD_BYTES };
    return STOKE_OK;
}

/* A network that is open already, when workers are started again, is part of the process. */
static int open_loader(stk_diagnose_loop *loop, stoke_error *err)
{
    const stoke_diagnose_params *p = loop->job->params;
    stoke_memory_share network = { "network", 1, 0 };
    int r = loop->net ? STOKE_OK : stk_diagnose_network(&network, p, &loop->data, err);
    loop->data.epoch = (int64_t)loop->epoch;
    if (!r) r = stoke_loader_create_beside(&loop->loader, p->dataset, &loop->data, NULL, &network, err);
    if (r) return r;
    stk_loader_record(loop->loader, 1);
    loop->out->steps_per_epoch = stoke_loader_batches(loop->loader);
    return STOKE_OK;
}

static void close_loader(stk_diagnose_loop *loop, int whole)
{
    loop->rows = NULL;
    stoke_loader_destroy(&loop->loader);
    if (whole) stoke_net_close(&loop->net);
}

static int next(stk_diagnose_loop *loop, stoke_error *err)
{
    stoke_net_params params;
    loop->asked = stk_now_ns();
    int r = stoke_loader_next(loop->loader, &loop->rows);
    loop->got = stk_now_ns();
    if (r && r != STOKE_E_END) return stk_fail_again(err, r, stoke_loader_error(loop->loader));
    if (r || loop->net) return r;
    r = network_of(&params, loop->job->params, &loop->data, err);
    return r ? r : stoke_net_open(&loop->net, &params, err);
}

static int set_epoch(stk_diagnose_loop *loop, stoke_error *err)
{
    const int r = stoke_loader_set_epoch(loop->loader, loop->epoch);
    return r ? stk_fail_again(err, r, stoke_loader_error(loop->loader)) : r;
}

static void keep(stk_diagnose_loop *loop, uint64_t start, uint64_t end)
{
    const stk_batch_times *making = stk_batch_times_of(loop->rows);
    stoke_step_record *record = &loop->out->records[loop->out->n++];
    stk_record_making(record, loop->rows, making);
    record->asked = loop->asked;
    record->got = loop->got;
    record->launched = record->start = start;
    record->end = end;
    record->busy_ns = end - start;
    if (!loop->job->trace || loop->out->n <= loop->job->warm_up) return;
    const int64_t number = (int64_t)loop->rows->index;
    if (loop->lane[0] >= 0)
        stoke_trace_span(loop->job->trace, loop->lane[0], "wait for a batch", loop->asked, loop->got, number);
    if (loop->lane[1] >= 0) stoke_trace_span(loop->job->trace, loop->lane[1], "step", start, end, number);
}

static int step(stk_diagnose_loop *loop, double ms, stoke_error *err)
{
    const stoke_update update = stoke_update_defaults();
    const stoke_net_batch rows = stoke_net_batch_of(loop->rows);
    const uint64_t start = stk_now_ns(), cpu = stk_thread_cpu_ns();
    stoke_step_report report;
    int r = rows.count ? stoke_net_backward(loop->net, &rows, 1, NULL, err) : STOKE_OK;
    if (!r) r = stoke_net_step(loop->net, &update, &report, err);
    if (!r) keep(loop, start, stk_now_ns());
    loop->step_cpu_ns += (double)(stk_thread_cpu_ns() - cpu);
    stoke_batch_release(loop->loader, &loop->rows);
    return r;
}

static int finish(stk_diagnose_loop *loop, stoke_error *err)
{
    /* Every step has ended when it returns. */
    return STOKE_OK;
}

static void trace(stk_diagnose_loop *loop)
{
    loop->lane[0] = stoke_trace_lane(loop->job->trace, "consumer", "loop", 0);
    loop->lane[1] = stoke_trace_lane(loop->job->trace, "native engine", "processor", 0);
}

const stk_diagnose_loop_way stk_way_of_native = {
    .open = open_loader,
    .close = close_loader,
    .next = next,
    .set_epoch = set_epoch,
    .step = step,
    .finish = finish,
    .trace = trace,
};
