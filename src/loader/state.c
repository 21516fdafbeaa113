/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a run stands, in one line of JSON. Since order and draws are functions of (seed, epoch, position),
 * the position is all there is to remember; the rest is there to notice that it belongs to another run.
 */
#include "src/loader/loader_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"
#include "src/base/flat_json.h"

enum { VERSION = 1 };

static const char *order_name(const stoke_loader *loader)
{
    switch (loader->order.sampling) {
    case STOKE_SAMPLING_SHUFFLE: return "shuffle";
    case STOKE_SAMPLING_WEIGHTED: return "weighted";
    case STOKE_SAMPLING_SEQUENTIAL: break;
    }
    return "sequential";
}

uint64_t stk_loader_position(const stoke_loader *loader)
{
    const uint64_t position = loader->start + loader->delivered * loader->world * loader->batch;
    return position < loader->order.count && stoke_loader_remaining(loader) ? position : loader->order.count;
}

int stoke_loader_state(const stoke_loader *loader, char *text, size_t size)
{
    return stk_loader_state_at(loader, loader->epoch, stk_loader_position(loader), text, size);
}

int stk_loader_state_at(const stoke_loader *loader, uint64_t epoch, uint64_t position, char *text,
                        size_t size)
{
    return snprintf(text, size,
                    "{\"version\":%d,\"seed\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"position\":%" PRIu64
                    ",\"count\":%" PRIu64 ",\"order\":\"%s\",\"fingerprint\":\"%016" PRIx64 "\"}",
                    VERSION, loader->order.seed, epoch, position, loader->order.count, order_name(loader),
                    stoke_dataset_fingerprint(loader->config.dataset));
}

static int check(const stoke_loader *loader, const stk_flat_json *json, stoke_error *err)
{
    uint64_t version, seed, count;
    int r = stk_flat_json_uint(json, "version", &version, err);
    if (!r) r = stk_flat_json_uint(json, "seed", &seed, err);
    if (!r) r = stk_flat_json_uint(json, "count", &count, err);
    if (r) return r;
    if (version != VERSION)
        return stk_fail(err, STOKE_E_STATE, "version %" PRIu64 ", this library reads %d", version, VERSION);
    if (seed != loader->order.seed)
        return stk_fail(err, STOKE_E_STATE, "saved with seed %" PRIu64 ", this run has seed %" PRIu64, seed,
                        loader->order.seed);
    if (count != loader->order.count)
        return stk_fail(err, STOKE_E_STATE, "saved with %" PRIu64 " samples, the data set now has %" PRIu64,
                        count, loader->order.count);
    const stk_json_field *order = stk_flat_json_find(json, "order");
    if (!order || strcmp(order->value, order_name(loader)) != 0)
        return stk_fail(err, STOKE_E_STATE, "saved with order %s, this run has %s",
                        order ? order->value : "unknown", order_name(loader));
    const stk_json_field *field = stk_flat_json_find(json, "fingerprint");
    char own[32];
    snprintf(own, sizeof own, "%016" PRIx64, stoke_dataset_fingerprint(loader->config.dataset));
    if (!field || strcmp(field->value, own) != 0)
        return stk_fail(err, STOKE_E_STATE,
                        "saved with other samples: their names differ (fingerprint %s, now %s)",
                        field ? field->value : "none", own);
    return STOKE_OK;
}

static int read_state(const stoke_loader *loader, const char *text, uint64_t *epoch, uint64_t *position,
                      stoke_error *err)
{
    stk_flat_json json;
    int r = stk_flat_json_read(&json, text, err);
    if (!r) r = check(loader, &json, err);
    if (!r) r = stk_flat_json_uint(&json, "epoch", epoch, err);
    if (!r) r = stk_flat_json_uint(&json, "position", position, err);
    if (!r && *position > loader->order.count)
        r = stk_fail(err, STOKE_E_STATE, "position %" PRIu64 " is past the last sample", *position);
    return r;
}

int stoke_loader_restore(stoke_loader *loader, const char *text, stoke_error *err)
{
    uint64_t epoch, position;
    int r = read_state(loader, text, &epoch, &position, err);
    if (r) {
        stk_error_prefix(err, "saved loader state");
        return r;
    }
    pthread_mutex_lock(&loader->lock);
    stk_schedule_restart(loader, epoch, position);
    pthread_mutex_unlock(&loader->lock);
    return STOKE_OK;
}
