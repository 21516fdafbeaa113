/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and ending a loader, handing out batches, changing epochs.
 */
#include <stoke/tools/data.h>
#include <stoke/tools/loader.h>
#include "src/loader/loader_internal.h"

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/base/option_table.h"
#include "src/loader/sample.h"
#include "src/source/dataset.h"

/* ---- create and destroy ---- */

int stk_loader_check_params(const stoke_data_params *params, stoke_error *err)
{
    if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_data_defaults");
    stoke_data_params copy = *params;
    const stoke_option_group group = stoke_data_options(&copy);
    int r = stk_options_check(&group, err);
    if (r) return r;
    if (params->order == STOKE_ORDER_WEIGHTED && !(params->weights && *params->weights))
        return stk_fail(err, STOKE_E_INVALID,
                        "order weighted needs weights: a CSV file of names and weights");
    if (params->rank >= params->world)
        return stk_fail(err, STOKE_E_INVALID, "rank %lld does not exist in a world of %lld",
                        (long long)params->rank, (long long)params->world);
    return STOKE_OK;
}

static int make_order(stoke_loader *loader, const stoke_dataset *dataset, const stoke_data_params *params,
                      stoke_error *err)
{
    int r = STOKE_OK;
    if (params->order == STOKE_ORDER_WEIGHTED)
        r = stk_weights_load(dataset, params->weights, &loader->cumulative, err);
    if (params->order == STOKE_ORDER_BALANCED)
        r = stk_weights_balanced(dataset, params, loader->threads, NULL, NULL, &loader->cumulative, err);
    loader->order = (stoke_order){
        .count = stoke_dataset_count(dataset),
        .seed = (uint64_t)params->seed,
        .kind = (stoke_order_kind)params->order,
        .cumulative = loader->cumulative,
    };
    return r;
}

static int make_benches(stoke_loader *loader, stoke_error *err)
{
    const uint32_t n = loader->threads ? loader->threads : 1;
    loader->workers = stk_calloc(n, sizeof *loader->workers);
    if (!loader->workers) return stk_fail(err, STOKE_E_NOMEM, "no memory for %u workers", n);
    for (; loader->benches < n; loader->benches++) {
        stk_loader_worker *worker = &loader->workers[loader->benches];
        worker->loader = loader;
        int r = stk_scratch_create(&worker->scratch, err);
        if (r) return r;
        worker->scratch.number = loader->benches;
        worker->scratch.granted = loader->granted;
    }
    return STOKE_OK;
}

/* Who makes a loader has a plan, or holds something beside it, or neither. */
typedef struct create_options {
    const stoke_allocator *allocator;
    int raw;
    const stk_loader_plan *planned;
    const stoke_memory_share *beside;
} create_options;

static int plan_memory(stoke_loader *loader, const stoke_data_params *params, const create_options *how,
                       stoke_error *err)
{
    stk_loader_plan own;
    const stk_loader_plan *planned = how->planned;
    if (!planned) {
        int r = stk_loader_plan_make(&own, &loader->config, params, err);
        if (how->beside) {
            own.shown.beside = how->beside->name;
            own.shown.beside_bytes = how->beside->count * how->beside->bytes;
        }
        if (!r) r = stk_loader_plan_settle(&own, err);
        if (r) return r;
        planned = &own;
    }
    loader->plan = planned->shown;
    loader->granted = planned->granted;
    loader->resting = planned->rests;
    stk_memory_gate_make(&loader->gate, stk_loader_plan_reserve(planned), loader->plan.limit_bytes);
    return STOKE_OK;
}

static int build(stoke_loader *loader, const stoke_dataset *dataset, const stoke_data_params *given,
                 const create_options *how, stoke_error *err)
{
    int r = stk_loader_check_params(given, err);
    if (r) return r;
    stoke_data_params own = *given;
    const stoke_data_params *params = &own;
    if (own.batch < 0) own.batch = stoke_data_defaults().batch; /* auto means more to training only */
    loader->policy = params->policy;
    loader->nice = params->nice;
    loader->batch = (uint32_t)params->batch;
    loader->rank = (uint32_t)params->rank;
    loader->world = (uint32_t)params->world;
    loader->drop_last = params->drop_last;
    loader->threads = stoke_data_workers(params);
    r = stk_loader_config_create(&loader->config, dataset, params, err);
    loader->config.raw = how->raw;
    if (!r) r = stk_cache_lookup_open(&loader->config, params, err);
    if (!r) r = make_order(loader, dataset, params, err);
    if (!r) r = stk_max_bad_limit(params->max_bad, loader->order.count, &loader->max_bad, err);
    if (!r) r = stk_quarantine_open(&loader->quarantine, params->quarantine, err);
    if (!r) r = plan_memory(loader, params, how, err);
    if (r) return r;
    unsigned extras;
    const stoke_batch shape = stk_slot_shape(&loader->config, loader->batch, &extras);
    r = stk_slots_create(&loader->slots, loader->plan.slots, &shape, extras, how->allocator, err);
    if (!r) r = make_benches(loader, err);
    if (r) return r;
    loader->epoch = loader->schedule.epoch = (uint64_t)params->epoch;
    loader->fresh = 1;
    loader->heap_calls_at_start = stk_mem_count().calls;
    return stk_workers_start(loader, err);
}

static int create(stoke_loader **out, const stoke_dataset *dataset, const stoke_data_params *params,
                  const create_options *how, stoke_error *err)
{
    *out = NULL;
    stoke_loader *loader = stk_calloc(1, sizeof *loader);
    if (!loader) return stk_fail(err, STOKE_E_NOMEM, "no memory for a loader");
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->work, NULL);
    stk_cond_init(&loader->ready); /* deadlines of next_until */
    int r = build(loader, dataset, params, how, err);
    if (r)
        stoke_loader_destroy(&loader);
    else
        *out = loader;
    return r;
}

int stoke_loader_create(stoke_loader **out, const stoke_dataset *dataset, const stoke_data_params *params,
                        const stoke_allocator *allocator, stoke_error *err)
{
    return create(out, dataset, params, &(create_options){ .allocator = allocator }, err);
}

int stoke_loader_create_beside(stoke_loader **out, const stoke_dataset *dataset,
                               const stoke_data_params *params, const stoke_allocator *allocator,
                               const stoke_memory_share *beside, stoke_error *err)
{
    return create(out, dataset, params, &(create_options){ .allocator = allocator, .beside = beside }, err);
}

int stk_loader_create_raw(stoke_loader **out, const stoke_dataset *dataset, const stoke_data_params *params,
                          const stoke_allocator *allocator, const stoke_memory_share *beside,
                          stoke_error *err)
{
    return create(out, dataset, params,
                  &(create_options){ .allocator = allocator, .raw = 1, .beside = beside }, err);
}

int stk_loader_create_planned(stoke_loader **out, const stoke_dataset *dataset,
                              const stoke_data_params *params, const stk_loader_plan *plan, stoke_error *err)
{
    return create(out, dataset, params, &(create_options){ .planned = plan }, err);
}

int stoke_data_size(const stoke_dataset *dataset, const stoke_data_params *params, uint32_t size[2],
                    stoke_error *err)
{
    stk_loader_config config;
    int r = stk_loader_check_params(params, err);
    if (r) return r;
    r = stk_loader_config_create(&config, dataset, params, err);
    size[0] = config.height;
    size[1] = config.width;
    stk_loader_config_destroy(&config);
    return r;
}

const stk_loader_config *stk_loader_config_of(const stoke_loader *loader)
{
    return &loader->config;
}

void stoke_loader_destroy(stoke_loader **pointer)
{
    stoke_loader *loader = *pointer;
    if (!loader) return;
    *pointer = NULL;
    if (loader->workers) stk_workers_stop(loader);
    for (uint32_t i = 0; i < loader->benches; i++) {
        stk_scratch_destroy(&loader->workers[i].scratch);
        stk_run_queue_close(&loader->workers[i].line);
    }
    stk_free(loader->workers);
    stk_slots_destroy(&loader->slots);
    stk_quarantine_close(&loader->quarantine);
    stk_loader_config_destroy(&loader->config);
    stk_memory_gate_destroy(&loader->gate);
    stk_free(loader->cumulative);
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->ready);
    stk_free(loader);
}

/* ---- batches ---- */

static uint64_t batches_of_epoch(const stoke_loader *loader)
{
    const stoke_rank shard = stk_loader_rank(loader, loader->epoch);
    return stoke_rank_batches(&shard);
}

uint64_t stoke_loader_batches(const stoke_loader *loader)
{
    return stk_loader_batches_from(loader, 0);
}

uint64_t stoke_loader_remaining(const stoke_loader *loader)
{
    return batches_of_epoch(loader) - loader->delivered;
}

/* The epoch, or the route. */
static int is_over(const stoke_loader *loader)
{
    const stk_loader_route *route = &loader->route;
    if (!route->at) return loader->delivered >= batches_of_epoch(loader);
    return route->at(route->context, loader->delivered) == UINT64_MAX || !stk_loader_batches_from(loader, 0);
}

/* Waits until the oldest batch is ready. Lock held. */
static int wait_for_head(stoke_loader *loader, uint64_t deadline_ns, stk_slot **out)
{
    int worked =
        0; /* without workers each call gets something done, or a caller who only asks waits for ever */
    for (;;) {
        if (loader->failure.code) return loader->failure.code;
        if (is_over(loader)) return STOKE_E_END;
        stk_slot *head = stk_slots_head(&loader->slots);
        if (head && head->state == STK_SLOT_READY) {
            *out = head;
            return STOKE_OK;
        }
        if (!head && loader->held == loader->slots.count) {
            stk_fail(&loader->failure, STOKE_OK, "all %u slots are held by the caller: release a batch first",
                     loader->slots.count);
            return STOKE_E_STARVED;
        }
        if (loader->cancelled) return STOKE_E_CANCELLED;
        if ((loader->threads || worked) && deadline_ns != STK_FOR_EVER && stk_now_ns() >= deadline_ns)
            return STOKE_E_TIMEOUT;
        if (loader->threads)
            stk_cond_wait(&loader->ready, &loader->lock, deadline_ns);
        else
            worked = stk_worker_step(&loader->workers[0]);
    }
}

/* Takes the head out of the queue: to the consumer, or, when it failed, out of the run. Lock held. */
static int deliver(stoke_loader *loader, stk_slot *slot)
{
    stk_slots_pop(&loader->slots);
    const int substitutes = slot->replaced || slot->skipped;
    loader->met = slot->ticket + slot->rows;
    if (slot->error.code == STOKE_E_TOO_BAD || (!slot->error.code && substitutes))
        stk_loader_too_bad(loader, slot->ticket + slot->rows - 1, &slot->error);
    if (slot->error.code) {
        loader->failure = slot->error;
        slot->state = STK_SLOT_FREE;
        loader->paused = 1; /* nothing more is read until set_epoch or restore */
        return loader->failure.code;
    }
    slot->state = STK_SLOT_HELD;
    loader->held++;
    loader->delivered++;
    loader->stats.batches++;
    loader->stats.samples += slot->rows - slot->skipped;
    loader->stats.replaced += slot->replaced;
    loader->stats.skipped += slot->skipped;
    loader->stats.cache_hits_ram += slot->origins.ram;
    loader->stats.cache_hits_disk += slot->origins.disk;
    loader->stats.cache_misses += slot->origins.decoded;
    loader->stats.cache_stored += slot->origins.stored;
    return STOKE_OK;
}

/* A wait in several calls is one wait. */
static void book_wait(stoke_loader *loader, uint64_t wall, uint64_t cpu, int came)
{
    stoke_stage_time *wait = &loader->stats.stage[STOKE_STAGE_BATCH_WAIT];
    wait->wall_ns += wall;
    wait->cpu_ns += cpu;
    loader->waited_ns += wall;
    if (!came) return;
    wait->count++;
    if (loader->delivered == 1) loader->stats.first_batch_ns = loader->waited_ns;
    loader->waited_ns = 0;
}

int stoke_loader_next(stoke_loader *loader, const stoke_batch **batch)
{
    return stoke_loader_next_until(loader, batch, STK_FOR_EVER);
}

int stoke_loader_next_until(stoke_loader *loader, const stoke_batch **batch, uint64_t deadline_ns)
{
    *batch = NULL;
    const uint64_t wall = stk_now_ns(), cpu = stk_thread_cpu_ns();
    for (;;) {
        stk_slot *slot;
        pthread_mutex_lock(&loader->lock);
        int r = wait_for_head(loader, deadline_ns, &slot);
        if (!r) r = deliver(loader, slot);
        if (!r || r == STOKE_E_TIMEOUT) book_wait(loader, stk_now_ns() - wall, stk_thread_cpu_ns() - cpu, !r);
        pthread_mutex_unlock(&loader->lock);
        if (r) return r;
        *batch = &slot->batch;
        if (slot->batch.count || loader->world > 1 || loader->route.at) return STOKE_OK;
        stoke_batch_release(loader, batch); /* policy skip left nothing of it */
    }
}

void stoke_batch_release(stoke_loader *loader, const stoke_batch **batch)
{
    if (!*batch) return;
    stk_slot *slot = stk_slot_of(*batch);
    *batch = NULL;
    pthread_mutex_lock(&loader->lock);
    slot->state = STK_SLOT_FREE;
    loader->held--;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

const char *stoke_loader_error(const stoke_loader *loader)
{
    return loader->failure.message;
}

/* ---- rest ---- */

void stk_loader_rest(stoke_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->resting = 1;
    while (loader->in_flight) pthread_cond_wait(&loader->ready, &loader->lock);
    for (uint32_t i = 0; i < loader->benches; i++) {
        stk_scratch_empty(&loader->workers[i].scratch);
        loader->workers[i].memory = 0;
    }
    pthread_mutex_unlock(&loader->lock);
    stk_mem_give_back();
}

void stk_loader_wake(stoke_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->resting = 0;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

/* ---- epochs ---- */

int stoke_loader_set_epoch(stoke_loader *loader, uint64_t epoch)
{
    pthread_mutex_lock(&loader->lock);
    const int finished = loader->delivered >= batches_of_epoch(loader);
    if (epoch == loader->epoch + 1 && finished && !loader->failure.code) {
        /* The workers are already on it, and past it when an epoch has fewer batches than the ring has slots:
         * keep what they have done. */
        loader->epoch = epoch;
        loader->start = 0;
        loader->delivered = 0;
        if (loader->schedule.epoch < epoch) loader->schedule = (stk_loader_cursor){ .epoch = epoch };
        pthread_cond_broadcast(&loader->work);
    } else {
        stk_schedule_restart(loader, epoch, 0);
    }
    pthread_mutex_unlock(&loader->lock);
    return STOKE_OK;
}

void stk_loader_follow(stoke_loader *loader, const stk_loader_route *route)
{
    pthread_mutex_lock(&loader->lock);
    loader->route = *route;
    stk_schedule_restart(loader, 0, 0);
    pthread_mutex_unlock(&loader->lock);
}

/* ---- for those who take batches ahead of their consumer (src/loader/loader.h) ---- */

void stk_loader_where(const stoke_loader *loader, uint64_t *epoch, uint64_t *position)
{
    *epoch = loader->epoch;
    *position = stk_loader_position(loader);
}

uint64_t stk_loader_samples(const stoke_loader *loader)
{
    return loader->order.count;
}

uint64_t stk_loader_batches_from(const stoke_loader *loader, uint64_t position)
{
    const stoke_rank shard = stk_loader_rank_from(loader, position);
    return stoke_rank_batches(&shard);
}

stk_loader_bad stk_loader_bad_rows(const stoke_loader *loader)
{
    return (stk_loader_bad){ loader->stats.replaced, loader->stats.skipped };
}

int stk_loader_next_bad(stoke_loader *loader, int take, stk_quarantine_entry *entry)
{
    const stk_quarantine_entry *after = loader->tells ? &loader->told : NULL;
    if (!loader->met || !stk_quarantine_next(loader->quarantine, after, loader->met - 1, entry)) return 0;
    if (take) {
        loader->told = *entry;
        loader->tells = 1;
    }
    return 1;
}

int stk_loader_ready(stoke_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    const stk_slot *head = stk_slots_head(&loader->slots);
    const int ready = loader->failure.code || (head && head->state == STK_SLOT_READY);
    pthread_mutex_unlock(&loader->lock);
    return ready;
}

void stk_loader_cancel(stoke_loader *loader, int on)
{
    pthread_mutex_lock(&loader->lock);
    loader->cancelled = on;
    pthread_cond_broadcast(&loader->ready);
    pthread_mutex_unlock(&loader->lock);
}

void stk_loader_trace(stoke_loader *loader, stk_batch_spans spans)
{
    pthread_mutex_lock(&loader->lock);
    loader->spans = spans;
    pthread_mutex_unlock(&loader->lock);
}

const stk_batch_times *stk_batch_times_of(const stoke_batch *batch)
{
    return &stk_slot_of(batch)->times;
}

void stk_loader_record(stoke_loader *loader, int on)
{
    pthread_mutex_lock(&loader->lock);
    loader->recording = on;
    pthread_mutex_unlock(&loader->lock);
}
