/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/train_memory.h"

#include <stoke/tools/machine.h>

#include "src/base/error.h"
#include "src/base/machine.h"
#include "src/base/mem.h"
#include "src/loader/slots.h"
#include "src/report/grid.h"
#include "src/source/reader.h"

/* Workers of the loader stand in the way of the step, which takes every core. The lightest model takes some
 * 80 ms of core time for a picture of 256x256, decoding and augmenting one about 3: a quarter of the cores is
 * ample for training, and half of them for evaluation, which is three times as fast. Who set either number
 * is obeyed. */
static stoke_data_params with_workers(const stoke_data_params *params, unsigned share)
{
    stoke_data_params own = *params;
    const unsigned cores = stoke_machine_cores().usable, workers = cores / share ? cores / share : 1;
    if (own.workers < 0 && own.consumer_cores < 0) own.workers = workers;
    own.memory_limit = 0; /* of the run as a whole */
    return own;
}

stoke_data_params stk_train_data(const stk_setup *setup)
{
    return with_workers(&setup->train, 4);
}

stoke_data_params stk_val_data(const stk_setup *setup)
{
    return with_workers(&setup->val, 2);
}

uint64_t stk_gallery_bytes(uint32_t rows, uint32_t height, uint32_t width, uint32_t classes)
{
    /* Drawn, then read again and turned into a JPEG for the report: the file, the pixels, what inflates them.
     */
    return (uint64_t)rows * height * width * 7 + 3 * stk_comparison_bytes(rows, classes);
}

/* Where windows slide over the pictures there is no loader. */
static int loads_val(const stk_setup *setup)
{
    return setup->val_set && setup->eval.mode == STOKE_PREDICT_RESIZE;
}

void stk_net_add_memory(stoke_memory_sum *sum, const stoke_net_plan *net)
{
    stoke_memory_add(sum, "parameters", 1, net->parameters);
    stoke_memory_add(sum, "packed", 1, net->packed);
    stoke_memory_add(sum, "activations", 1, net->activations);
    stoke_memory_add(sum, "workspace", 1, net->workspace);
}

uint64_t stk_process_beside(const stoke_net_plan *net)
{
    /* Loading has touched these two regions; the others may be touched or not. */
    const uint64_t loaded = net->parameters + net->packed, now = stk_machine_rss("/proc");
    const uint64_t beside = now > loaded ? now - loaded : 0;
    return (beside > net->process ? beside : net->process) + STK_CODE_BYTES + STK_RUN_BYTES +
           net->threads * STK_THREAD_BYTES;
}

static uint64_t most_workers(const stk_train_memory *m)
{
    const uint64_t train = stk_loader_plan_workers(&m->train), val = stk_loader_plan_workers(&m->val);
    return train > val ? train : val;
}

/* Windows over the pictures as they are, by the network of the run. */
static int plan_slide(stk_train_memory *m, const stk_setup *setup, const stoke_data_params *val,
                      stoke_error *err)
{
    stk_loader_plan plan;
    stoke_labels *labels = NULL;
    int r = stk_loader_plan_of(&plan, setup->val_set, val, err);
    if (!r) r = stk_labels_of(&labels, val, err);
    if (r) return r;
    m->slides = 1;
    m->seen = plan.probe;
    m->slide = (stk_predict_work){ .height = setup->net.height,
                                   .width = setup->net.width,
                                   .classes = setup->classes,
                                   .batch = setup->net.batch,
                                   .views = 1,
                                   .mode = STOKE_PREDICT_SLIDE,
                                   .overlap = stoke_predict_defaults().overlap,
                                   .files = stoke_dataset_count(setup->val_set),
                                   .helpers = stk_predict_helpers(0),
                                   .memory = STK_EVAL_MEMORY,
                                   .images = 1 };
    stk_predict_work_read(&m->slide, labels);
    stk_predict_settle(&m->slide, &m->seen);
    stoke_labels_destroy(&labels);
    return STOKE_OK;
}

static void add_up(stk_train_memory *m, const stk_setup *setup, uint64_t pictures, uint64_t process)
{
    const stoke_memory_plan *train = &m->train.shown, *val = &m->val.shown;
    const stoke_memory_plan *busy =
        stk_loader_plan_workers(&m->train) >= stk_loader_plan_workers(&m->val) ? train : val;
    stoke_memory_sum *sum = &m->sum;
    *sum = (stoke_memory_sum){ .limit_bytes = setup->train.memory_limit };
    stk_net_add_memory(sum, &m->net);
    stoke_memory_add(sum, "training ring", train->slots, train->slot_bytes);
    stoke_memory_add(sum, "validation ring", val->slots, val->slot_bytes);
    stoke_memory_add(sum, "workers", busy->workers, busy->worker_bytes);
    stoke_memory_add(sum, "one large picture", 1, busy->large_bytes);
    if (m->slides) stk_predict_add_memory(sum, &m->slide, &m->seen);
    stoke_memory_add(sum, "cache", 1, train->cache_bytes + val->cache_bytes);
    stoke_memory_add(sum, "pictures", 1, pictures);
    stoke_memory_add(sum, "process", 1, process);
}

/* A slot less of whoever has more of them. */
static int lower_prefetch(stk_train_memory *m)
{
    stoke_memory_plan *train = &m->train.shown, *val = &m->val.shown;
    stoke_memory_plan *more = train->slots >= val->slots ? train : val;
    if (more->slots <= 2) return 0;
    more->slots--;
    return m->prefetch_reduced = 1;
}

/* Validation by windows with fewer pictures on their way; 0 when they are as few as can be. */
static int squeeze_slide(stk_train_memory *m)
{
    const stk_predict_work before = m->slide;
    stoke_memory_sum own = { 0 };
    if (!m->slides) return 0;
    stk_predict_add_memory(&own, &m->slide, &m->seen);
    const uint64_t others = stoke_memory_total(&m->sum) - stoke_memory_total(&own),
                   limit = m->sum.limit_bytes;
    stk_predict_squeeze(&m->slide, &m->seen, limit > others ? limit - others : 0);
    return m->slide.memory != before.memory || m->slide.helpers != before.helpers;
}

/* With the least that would do. */
static int refuse(stk_train_memory *m, const stk_setup *setup, uint64_t pictures, uint64_t process,
                  stoke_error *err)
{
    stk_loader_plan_squeeze(&m->train, stk_loader_plan_least(&m->train));
    stk_loader_plan_squeeze(&m->val, stk_loader_plan_least(&m->val));
    add_up(m, setup, pictures, process);
    return stk_memory_refuse(&m->sum, "with prefetch 1 the run needs",
                             "lower batch, size, workers or model, or set memory to lean or min", err);
}

static int fit(stk_train_memory *m, const stk_setup *setup, uint64_t pictures, uint64_t process,
               stoke_error *err)
{
    const uint64_t limit = m->sum.limit_bytes;
    while (stoke_memory_total(&m->sum) > limit) {
        if (lower_prefetch(m)) {
            add_up(m, setup, pictures, process);
            continue;
        }
        if (squeeze_slide(m)) {
            add_up(m, setup, pictures, process);
            continue;
        }
        const uint64_t others = stoke_memory_total(&m->sum) - most_workers(m);
        if (others >= limit || !stk_loader_plan_squeeze(&m->train, limit - others) ||
            !stk_loader_plan_squeeze(&m->val, limit - others))
            return refuse(m, setup, pictures, process, err);
        add_up(m, setup, pictures, process);
    }
    /* A picture larger than those that were looked at may take what is left. */
    m->train.shown.limit_bytes = m->val.shown.limit_bytes = limit;
    m->train.shown.total_bytes = m->val.shown.total_bytes = stoke_memory_total(&m->sum);
    return STOKE_OK;
}

int stk_train_memory_make(stk_train_memory *m, const stk_setup *setup, uint32_t pictures, stoke_error *err)
{
    const stoke_data_params train = stk_train_data(setup), val = stk_val_data(setup);
    *m = (stk_train_memory){ 0 };
    int r = stoke_net_plan_of(&setup->net, &m->net, err);
    if (!r) r = stk_loader_plan_of(&m->train, setup->train_set, &train, err);
    if (!r && loads_val(setup)) r = stk_loader_plan_of(&m->val, setup->val_set, &val, err);
    if (r) return r;
    m->val.rests = 1;
    if (setup->val_set && !loads_val(setup)) r = plan_slide(m, setup, &val, err);
    if (r) return r;
    const uint32_t height = m->slides ? STK_EVAL_SIDE : setup->net.height,
                   width = m->slides ? STK_EVAL_SIDE : setup->net.width;
    const uint64_t drawn = pictures ? stk_gallery_bytes(pictures, height, width, setup->classes) : 0;
    /* The classes of a batch, as they are predicted. */
    const uint64_t predicted =
        setup->val_set ? (uint64_t)setup->val.batch * setup->net.height * setup->net.width * 2 : 0;
    const uint64_t process =
        stk_machine_rss("/proc") + STK_CODE_BYTES + STK_RUN_BYTES + m->net.threads * STK_THREAD_BYTES;
    add_up(m, setup, drawn + predicted, process);
    return m->sum.limit_bytes ? fit(m, setup, drawn + predicted, process, err) : STOKE_OK;
}

static int loader_rows(const stoke_dataset *set, const stoke_data_params *params, uint64_t *fixed,
                       uint64_t *per_row, stoke_error *err)
{
    stoke_data_params own = *params;
    stk_loader_config config;
    stk_loader_plan plan;
    own.batch = 1;
    int r = stk_loader_config_create(&config, set, &own, err);
    if (!r) r = stk_loader_plan_make(&plan, &config, &own, err);
    if (!r) {
        unsigned extras;
        const stoke_batch two = stk_slot_shape(&config, 2, &extras);
        const uint64_t row = stk_slot_bytes(&two, extras) - plan.shown.slot_bytes;
        *per_row += plan.shown.slots * row;
        *fixed += plan.shown.slots * (plan.shown.slot_bytes - row) + stk_loader_plan_workers(&plan) +
                  plan.shown.cache_bytes;
    }
    stk_loader_config_destroy(&config);
    return r;
}

int stk_train_memory_rows(const stk_setup *setup, uint64_t *fixed, uint64_t *per_row, stoke_error *err)
{
    const stoke_data_params train = stk_train_data(setup), val = stk_val_data(setup);
    *fixed = *per_row = 0;
    int r = loader_rows(setup->train_set, &train, fixed, per_row, err);
    if (!r && loads_val(setup)) r = loader_rows(setup->val_set, &val, fixed, per_row, err);
    return r;
}
