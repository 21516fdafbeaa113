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
#include "src/base/json_read.h"

enum { VERSION = 1, FIELDS = 64 };

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

/* A whole number of the state. */
static int number(const stk_json *json, const char *key, uint64_t *value, stoke_error *err)
{
    const stk_json_value *found = stk_json_find(json, json->values, key);
    if (!found) return stk_fail(err, STOKE_E_FORMAT, "\"%s\" is missing", key);
    if (!stk_json_uint(json, found, value))
        return stk_fail(err, STOKE_E_FORMAT, "\"%s\" is not a whole number", key);
    return STOKE_OK;
}

/* Its text, or NULL. */
static const char *word(const stk_json *json, const char *key)
{
    return stk_json_text(json, stk_json_find(json, json->values, key));
}

static int check(const stoke_loader *loader, const stk_json *json, stoke_error *err)
{
    uint64_t version, seed, count;
    int r = number(json, "version", &version, err);
    if (!r) r = number(json, "seed", &seed, err);
    if (!r) r = number(json, "count", &count, err);
    if (r) return r;
    if (version != VERSION)
        return stk_fail(err, STOKE_E_STATE, "version %" PRIu64 ", this library reads %d", version, VERSION);
    if (seed != loader->order.seed)
        return stk_fail(err, STOKE_E_STATE, "saved with seed %" PRIu64 ", this run has seed %" PRIu64, seed,
                        loader->order.seed);
    if (count != loader->order.count)
        return stk_fail(err, STOKE_E_STATE, "saved with %" PRIu64 " samples, the data set now has %" PRIu64,
                        count, loader->order.count);
    const char *order = word(json, "order"), *fingerprint = word(json, "fingerprint");
    if (!order || strcmp(order, order_name(loader)) != 0)
        return stk_fail(err, STOKE_E_STATE, "saved with order %s, this run has %s", order ? order : "unknown",
                        order_name(loader));
    char own[32];
    snprintf(own, sizeof own, "%016" PRIx64, stoke_dataset_fingerprint(loader->config.dataset));
    if (!fingerprint || strcmp(fingerprint, own) != 0)
        return stk_fail(err, STOKE_E_STATE,
                        "saved with other samples: their names differ (fingerprint %s, now %s)",
                        fingerprint ? fingerprint : "none", own);
    return STOKE_OK;
}

static int read_state(const stoke_loader *loader, const char *text, uint64_t *epoch, uint64_t *position,
                      stoke_error *err)
{
    stk_json json = { 0 };
    int r = stk_json_read(&json, text, strlen(text), FIELDS, err);
    if (!r) r = check(loader, &json, err);
    if (!r) r = number(&json, "epoch", epoch, err);
    if (!r) r = number(&json, "position", position, err);
    if (!r && *position > loader->order.count)
        r = stk_fail(err, STOKE_E_STATE, "position %" PRIu64 " is past the last sample", *position);
    stk_json_free(&json);
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
