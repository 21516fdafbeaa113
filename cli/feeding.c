/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/feeding.h"

#include <stdio.h>

int cli_device_open(stoke_device **out, const char *name, int contents, stoke_error *err)
{
    stoke_device_params params = stoke_device_defaults();
    params.contents = contents;
    return stoke_device_open(out, name, &params, err);
}

static void say_memory(const cli_call *call, const stoke_feed_memory *memory, const char *device)
{
    char host[256], own[160];
    stoke_memory_plan_text(&memory->host, host, sizeof host);
    stoke_feed_memory_text(memory, own, sizeof own);
    cli_say(call, "memory: %s%s", host,
            memory->host.prefetch_reduced ? " (prefetch lowered to honour --memory-limit)" : "");
    char tables[64] = "";
    if (memory->table_bytes)
        snprintf(tables, sizeof tables, ", and %.2f MB of tables on the host", memory->table_bytes / 1e6);
    cli_say(call, "memory of %s: %s%s", device, own, tables);
}

int cli_feed_open(const cli_call *call, stoke_feed **out, const stoke_dataset *dataset,
                  const stoke_data_params *data, stoke_device *device, const stoke_feed_params *params,
                  stoke_error *err)
{
    static int said; /* hash opens a feed for every rank, bench one for every transfer */
    int r = stoke_feed_create(out, dataset, data, device, params, err);
    if (r || said++) return r;
    const char *why;
    say_memory(call, stoke_feed_memory_plan(*out), stoke_device_describe(device)->name);
    stoke_feed_placement(*out, &why);
    if (params->placement == STOKE_PLACEMENT_AUTO) cli_say(call, "augmenting on the %s", why);
    return STOKE_OK;
}

int cli_feed_next(stoke_feed *feed, const stoke_device_batch **batch, stoke_error *err)
{
    *batch = NULL;
    if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
    const int r = stoke_feed_next(feed, batch);
    return r && r != STOKE_E_END ? cli_error(err, r, "%s", stoke_feed_error(feed)) : r;
}
