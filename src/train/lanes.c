/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/lanes.h"

#include <math.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/net/ops/ops.h"

/* ---- which batches ---- */

static uint32_t batches_of(const stk_lanes_shape *shape)
{
    return shape->replicas * shape->accumulate;
}

/* Where the k-th batch of a process stands among those of a step: lane after lane, so that one is added up
 * before the next begins; with one batch norm all `own` lanes side by side. */
static uint32_t place_of(const stk_lanes_shape *shape, uint32_t first, uint32_t own, uint32_t k)
{
    if (shape->joint) return k / own * shape->replicas + first + k % own;
    return k % shape->accumulate * shape->replicas + first + k / shape->accumulate;
}

uint32_t stk_lanes_joint(const stk_lanes *lanes)
{
    return lanes->shape.joint ? lanes->end - lanes->first : 0;
}

static uint32_t own_batches(const stk_lanes *lanes)
{
    return (lanes->end - lanes->first) * lanes->shape.accumulate;
}

void stk_lanes_begin(stk_lanes *lanes, uint64_t step)
{
    stk_audit_begin(&lanes->audit, step);
}

/* Batches of the audit of this step. */
static uint32_t audited(const stk_lanes *lanes)
{
    return lanes->audit.on ? lanes->shape.accumulate : 0;
}

uint32_t stk_lanes_own(const stk_lanes *lanes)
{
    return audited(lanes) + own_batches(lanes);
}

int stk_lanes_audits(const stk_lanes *lanes, uint32_t k)
{
    return k < audited(lanes);
}

/* The number of the k-th batch of a step, with those of an audit. */
static uint64_t number_of(const stk_lanes *lanes, uint64_t step, uint32_t k)
{
    const stk_lanes_shape *s = &lanes->shape;
    uint32_t lane = lanes->first;
    if (stk_audit_due(s->audit_every, step)) {
        if (k < s->accumulate)
            lane = stk_audit_lane(s->audit_every, step, s->replicas, s->rank, s->world);
        else
            k -= s->accumulate;
    }
    return step * batches_of(s) + place_of(s, lane, lanes->end - lanes->first, k);
}

/* Steps are counted in rounds from one audit to the next, whose step is the last of its round. */
static uint64_t route_at(const void *context, uint64_t k)
{
    const stk_lanes *lanes = context;
    const uint64_t own = own_batches(lanes), every = lanes->shape.audit_every;
    if (!every) return number_of(lanes, lanes->from + k / own, (uint32_t)(k % own));
    const uint64_t round = every * own + lanes->shape.accumulate;
    k += lanes->from % every * own;
    const uint64_t in_round = k % round, plain = stk_least(in_round / own, every - 1);
    return number_of(lanes, (lanes->from / every + k / round) * every + plain,
                     (uint32_t)(in_round - plain * own));
}

stk_loader_route stk_lanes_route(stk_lanes *lanes, uint64_t step)
{
    lanes->from = step;
    return (stk_loader_route){ .at = route_at, .context = lanes };
}

/* ---- memory ---- */

/* Where the next node's other half is on top of the pile, the two become one. */
static int halves_on_top(const stk_lanes *lanes, stk_tree_node next)
{
    return lanes->waiting &&
           stk_tree_are_halves(lanes->shape.replicas, lanes->nodes[lanes->waiting - 1], next);
}

/* The most nodes that wait at once, without their sums. */
static uint32_t arrays_needed(const stk_lanes_shape *shape)
{
    stk_lanes pile = { .shape = *shape };
    const uint32_t first = stk_tree_first(shape->replicas, shape->rank, shape->world),
                   end = stk_tree_first(shape->replicas, shape->rank + 1, shape->world);
    uint32_t most = 0;
    for (uint32_t lane = first; lane + 1 < end; lane++) {
        stk_tree_node node = { lane, lane + 1 };
        while (halves_on_top(&pile, node)) node.lo = pile.nodes[--pile.waiting].lo;
        pile.nodes[pile.waiting++] = node;
        most = pile.waiting > most ? pile.waiting : most;
    }
    return most;
}

static size_t sum_bytes(const stk_lanes_shape *shape)
{
    return shape->trained * sizeof(float);
}

static size_t tracked(const stk_lanes_shape *shape)
{
    const uint32_t batches = batches_of(shape);
    return shape->replicas == 1 ? 1 : batches < STK_LANES_TRACKED ? batches : STK_LANES_TRACKED;
}

/* What a rank knows of its batches: losses, weights, and the statistics of those that leave a trace. */
static size_t words_of(const stk_lanes_shape *shape)
{
    const size_t own = (shape->replicas + shape->world - 1) / shape->world * shape->accumulate;
    return own * (2 + shape->statistics);
}

static stk_exchange_lanes exchanged(const stk_lanes_shape *shape)
{
    return (stk_exchange_lanes){ shape->replicas, shape->rounded };
}

stk_lanes_shape stk_lanes_shape_of(const stk_setup *setup, const stoke_net_plan *plan)
{
    const stoke_train_params *params = &setup->params;
    const int joint = setup->net.joint > 0;
    return (stk_lanes_shape){ .replicas = params->replicas > 1 ? (uint32_t)params->replicas : 1,
                              .accumulate = (uint32_t)params->accumulate,
                              .rank = setup->rank,
                              .world = setup->world ? setup->world : 1,
                              .trained = plan->trained_floats,
                              .statistics = joint ? 0 : plan->statistics,
                              .joint = joint ? plan->statistics : 0,
                              .audit_every = setup->world > 1 ? (uint64_t)params->audit_every : 0,
                              .divisor = stk_setup_divisor(setup),
                              .rounded = params->compress == STOKE_COMPRESS_BF16 };
}

uint64_t stk_lanes_bytes(const stk_lanes_shape *shape)
{
    const uint64_t numbers = 2 * (uint64_t)batches_of(shape) + tracked(shape) * shape->statistics +
                             stk_update_chunks(shape->trained) +
                             (shape->world > 1 ? (shape->world + 1) * (uint64_t)words_of(shape) : 0);
    const uint64_t hashes = shape->world > 1 ? shape->world * sizeof(stk_audit_word) : 0;
    return arrays_needed(shape) * (uint64_t)sum_bytes(shape) + numbers * sizeof(double) + hashes +
           stk_lanes_sync_bytes(shape, arrays_needed(shape)) +
           (shape->world > 1 ? stk_exchange_bytes(shape->rank, shape->world, exchanged(shape), shape->trained)
                             : 0);
}

int stk_lanes_open(stk_lanes *lanes, stoke_net *net, stk_comm *comm, const stk_lanes_shape *shape,
                   stoke_error *err)
{
    *lanes = (stk_lanes){ .shape = *shape, .net = net, .comm = comm };
    lanes->first = stk_tree_first(shape->replicas, shape->rank, shape->world);
    lanes->end = stk_tree_first(shape->replicas, shape->rank + 1, shape->world);
    const size_t wanted = arrays_needed(shape);
    lanes->losses = stk_calloc(batches_of(shape), sizeof(double));
    lanes->weights = stk_calloc(batches_of(shape), sizeof(double));
    lanes->statistics = stk_calloc(tracked(shape) * shape->statistics + 1, sizeof(double));
    lanes->squares = stk_calloc(stk_update_chunks(shape->trained) + 1, sizeof(double));
    const size_t words = comm ? words_of(shape) : 0;
    lanes->mine = stk_calloc(words + 1, sizeof(double));
    lanes->all = stk_calloc(words * shape->world + 1, sizeof(double));
    int failed = !lanes->losses || !lanes->weights || !lanes->statistics || !lanes->squares || !lanes->mine ||
                 !lanes->all;
    stoke_net_divide(net, shape->divisor);
    while (!failed && lanes->arrays < wanted) {
        lanes->sums[lanes->arrays] = stk_alloc_pages(sum_bytes(shape));
        failed = !lanes->sums[lanes->arrays];
        lanes->arrays += !failed;
    }
    int r = failed ? stk_fail(err, STOKE_E_NOMEM, "no memory for the sums of %u lanes",
                              (unsigned)(lanes->end - lanes->first))
                   : STOKE_OK;
    if (!r) r = stk_audit_open(&lanes->audit, comm, shape->audit_every, shape->replicas, err);
    if (!r) r = stk_lanes_sync_open(lanes, err);
    if (!r && comm) r = stk_exchange_open(&lanes->exchange, comm, net, exchanged(shape), err);
    if (r) stk_lanes_close(lanes);
    return r;
}

void stk_lanes_close(stk_lanes *lanes)
{
    stk_exchange_close(&lanes->exchange);
    stk_audit_close(&lanes->audit);
    stk_lanes_sync_close(lanes);
    while (lanes->arrays) stk_free_pages(lanes->sums[--lanes->arrays], sum_bytes(&lanes->shape));
    stk_free(lanes->losses);
    stk_free(lanes->weights);
    stk_free(lanes->statistics);
    stk_free(lanes->squares);
    stk_free(lanes->mine);
    stk_free(lanes->all);
    *lanes = (stk_lanes){ 0 };
}

/* ---- sums ---- */

/* This rank's nodes go to the others: those that wait, and the network's gradients, with which the halves
 * from there up to `waiting` are still to be added up. What happens until the end completes them, bucket by
 * bucket. */
void stk_lanes_send_begin(stk_lanes *lanes)
{
    stk_tree_node node = { lanes->end - 1, lanes->end };
    const uint32_t waiting = lanes->waiting;
    while (halves_on_top(lanes, node)) node.lo = lanes->nodes[--lanes->waiting].lo;
    stk_exchange_begin(&lanes->exchange, lanes->sums, lanes->waiting, waiting, lanes->shape.rounded);
}

void stk_lanes_send_end(stk_lanes *lanes)
{
    stk_exchange_end(&lanes->exchange);
    lanes->computed = 0;
}

/* A lane's gradients are complete: they are added to the half that waits for them, or wait themselves. Those
 * of the last own lane stay in the network, and so does what they are added up to: a + b is b + a. */
void stk_lanes_close_lane(stk_lanes *lanes, uint32_t lane)
{
    const stoke_net_arrays arrays = stoke_net_arrays_of(lanes->net);
    stk_tree_node node = { lane, lane + 1 };
    float *sum = arrays.gradients;
    const int last = lane + 1 == lanes->end;
    if (!lanes->computed) stoke_net_leaf_none(lanes->net);
    lanes->computed = 0;
    if (lanes->shape.rounded) stk_exchange_round(lanes->net, sum, lanes->shape.trained);
    while (halves_on_top(lanes, node)) {
        float *left = lanes->sums[--lanes->waiting];
        node.lo = lanes->nodes[lanes->waiting].lo;
        if (last) {
            stk_exchange_add(lanes->net, sum, left, lanes->shape.trained);
        } else {
            stk_exchange_add(lanes->net, left, sum, lanes->shape.trained);
            sum = left;
        }
    }
    if (last) {
        if (!lanes->comm) return;
        stk_exchange_begin(&lanes->exchange, lanes->sums, lanes->waiting, lanes->waiting, 0);
        stk_exchange_end(&lanes->exchange);
        return;
    }
    lanes->nodes[lanes->waiting] = node;
    if (sum == arrays.gradients) memcpy(lanes->sums[lanes->waiting], sum, sum_bytes(&lanes->shape));
    lanes->waiting++;
}

/* ---- batches ---- */

/* Where the statistics of the batch at `place` go; NULL: they would leave no trace. */
static double *statistics_at(stk_lanes *lanes, uint32_t place)
{
    const uint32_t all = batches_of(&lanes->shape), kept = (uint32_t)tracked(&lanes->shape);
    if (lanes->shape.replicas == 1) return lanes->statistics;
    return place + kept < all ? NULL : lanes->statistics + (place + kept - all) * lanes->shape.statistics;
}

void stk_lanes_note(stk_lanes *lanes, uint32_t place, const stoke_net_batch *rows, double loss)
{
    lanes->losses[place] = loss;
    lanes->weights[place] = rows->count ? stoke_net_leaf_weight(lanes->net) : 0;
}

static int leaf_loss(stk_lanes *lanes, uint32_t place, const stoke_net_batch *rows, double *loss,
                     double *statistics, stoke_error *err)
{
    stoke_net_state now; /* one lane counts its batches as they come, several all together, afterwards */
    stoke_net_state_get(lanes->net, &now);
    const uint64_t draw = now.draws + (lanes->shape.replicas == 1 ? 0 : place);
    *loss = 0;
    if (!rows->count) return STOKE_OK;
    const int r =
        stoke_net_leaf_loss(lanes->net, rows, batches_of(&lanes->shape), draw, loss, statistics, err);
    const int lost = stk_exchange_failed(&lanes->exchange, err); /* then the weights were not there */
    return lost ? lost : r;
}

int stk_lanes_look(stk_lanes *lanes, uint32_t k, const stoke_net_batch *rows, double *loss, stoke_error *err)
{
    if (stk_lanes_audits(lanes, k))
        return leaf_loss(lanes, place_of(&lanes->shape, lanes->audit.lane, 1, k), rows, loss, NULL, err);
    k -= audited(lanes);
    const uint32_t place = place_of(&lanes->shape, lanes->first, lanes->end - lanes->first, k);
    double *statistics = statistics_at(lanes, place);
    if (!k) lanes->waiting = 0;
    const int r = leaf_loss(lanes, place, rows, loss, statistics, err);
    if (r) return r;
    if (!rows->count && statistics && lanes->shape.statistics)
        statistics[0] = NAN; /* of nothing: not followed */
    stk_lanes_note(lanes, place, rows, *loss);
    if (lanes->shape.replicas == 1) stoke_net_track(lanes->net, statistics);
    return STOKE_OK;
}

/* Of the lane whose last batch has just been learned; 0: nothing was left of it. */
static uint64_t hash_of_lane(const stk_lanes *lanes)
{
    return lanes->computed ? stk_audit_hash(stoke_net_arrays_of(lanes->net).gradients, lanes->shape.trained)
                           : 0;
}

void stk_lanes_learn(stk_lanes *lanes, uint32_t k, const stoke_net_batch *rows)
{
    const int audits = stk_lanes_audits(lanes, k), closes = (k + 1) % lanes->shape.accumulate == 0;
    const uint32_t lane = lanes->first + (k - audited(lanes)) / lanes->shape.accumulate;
    const int watched = !audits && lanes->audit.on && lane == lanes->audit.watched;
    if (lanes->comm && rows->count && k + 1 == stk_lanes_own(lanes) && !watched) {
        stk_lanes_send_begin(lanes);
        stoke_net_leaf_back(lanes->net, rows, lanes->computed);
        stk_lanes_send_end(lanes);
        return;
    }
    if (rows->count) {
        stoke_net_leaf_back(lanes->net, rows, lanes->computed);
        lanes->computed = 1;
    }
    if (!closes) return;
    if (audits) {
        lanes->audit.mine.found = hash_of_lane(lanes);
        lanes->computed = 0;
        return;
    }
    if (watched) lanes->audit.mine.own = hash_of_lane(lanes);
    stk_lanes_close_lane(lanes, lane);
}

int stk_lanes_compare(stk_lanes *lanes, stoke_error *err)
{
    return stk_audit_compare(&lanes->audit, err);
}

int stk_lanes_compare_weights(stk_lanes *lanes, uint64_t step, stoke_error *err)
{
    const stoke_net_arrays arrays = stoke_net_arrays_of(lanes->net);
    const int r = stk_lanes_settle(lanes, err);
    if (r) return r;
    return stk_audit_weights(&lanes->audit, step, arrays.values, arrays.floats, err);
}

/* ---- the step ---- */

static double mean_loss(const stk_lanes *lanes)
{
    const uint32_t all = batches_of(&lanes->shape);
    double sum = 0;
    for (uint32_t i = 0; i < all; i++) sum += lanes->losses[i] / (double)all;
    return sum;
}

/* What turns means of batches into one over all pixels: the sum of all weights, in the order of the batches'
 * numbers. */
static double factor_of(const stk_lanes *lanes)
{
    const uint32_t all = batches_of(&lanes->shape);
    double weight = 0;
    for (uint32_t i = 0; i < all; i++) weight += lanes->weights[i];
    return stk_setup_factor(lanes->shape.divisor, all, weight);
}

/* To or from the record of rank `rank`. */
static void carry(stk_lanes *lanes, uint32_t rank, double *words, int give)
{
    const stk_lanes_shape *shape = &lanes->shape;
    const uint32_t first = stk_tree_first(shape->replicas, rank, shape->world),
                   end = stk_tree_first(shape->replicas, rank + 1, shape->world);
    const size_t bytes = shape->statistics * sizeof(double);
    for (uint32_t k = 0; k < (end - first) * shape->accumulate; k++) {
        const uint32_t place = place_of(shape, first, end - first, k);
        double *loss = &lanes->losses[place], *weight = &lanes->weights[place],
               *statistics = statistics_at(lanes, place);
        *(give ? words : loss) = *(give ? loss : words);
        words++;
        *(give ? words : weight) = *(give ? weight : words);
        words++;
        if (!statistics) continue;
        memcpy(give ? words : statistics, give ? statistics : words, bytes);
        words += shape->statistics;
    }
}

static int share_losses(stk_lanes *lanes, stoke_error *err)
{
    const size_t words = words_of(&lanes->shape);
    carry(lanes, lanes->shape.rank, lanes->mine, 1);
    const int r = stk_comm_all(lanes->comm, lanes->mine, words * sizeof(double), lanes->all, err);
    for (uint32_t q = 0; !r && q < lanes->shape.world; q++) carry(lanes, q, lanes->all + q * words, 0);
    return r;
}

int stk_lanes_step(stk_lanes *lanes, const stoke_update *update, stoke_step_report *report, double *loss,
                   stoke_error *err)
{
    stoke_net *net = lanes->net;
    const uint32_t all = batches_of(&lanes->shape), chunks = stoke_net_chunks(net);
    int r = lanes->comm ? share_losses(lanes, err) : STOKE_OK;
    if (r) return r;
    if (lanes->shape.replicas > 1 && !lanes->shape.joint)
        for (uint32_t place = 0; place < all; place++) stoke_net_track(net, statistics_at(lanes, place));
    const double factor = factor_of(lanes);
    *loss = mean_loss(lanes) * factor;
    stoke_net_multiply(net, factor);
    if (lanes->comm) return stk_exchange_step(&lanes->exchange, update, lanes->squares, report, err);
    r = stoke_net_squares(net, update, 0, chunks, lanes->squares, err);
    if (r) return r;
    stoke_net_step_begin(net, update, lanes->squares, report);
    stoke_net_step_chunks(net, update, 0, chunks);
    return STOKE_OK;
}

int stk_lanes_settle(stk_lanes *lanes, stoke_error *err)
{
    return lanes->comm ? stk_exchange_settle(&lanes->exchange, err) : STOKE_OK;
}

/* Moments and average are right in the pieces of their owners only. */
int stk_lanes_gather(stk_lanes *lanes, stoke_error *err)
{
    if (!lanes->comm) return STOKE_OK;
    const stoke_net_arrays arrays = stoke_net_arrays_of(lanes->net);
    float *const kept[] = { arrays.first, arrays.second, arrays.average };
    int r = stk_lanes_settle(lanes, err);
    for (size_t i = 0; !r && i < sizeof kept / sizeof *kept; i++)
        if (kept[i]) r = stk_reduce_gather(&lanes->exchange.reduce, kept[i], err);
    return r;
}
