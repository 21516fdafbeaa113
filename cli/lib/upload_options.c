/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lib/upload_options.h"

#include <stdio.h>

const char *cli_transfer_name(int transfer)
{
    static const char *const names[] = { "stream", "pinned", "pageable" };
    return names[transfer];
}

const char *cli_placement_name(int placement)
{
    return placement == STOKE_PLACEMENT_DEVICE ? "device" : "host";
}

int cli_device_open(stoke_device **out, const char *name, int contents, stoke_error *err)
{
    stoke_device_params params = stoke_device_defaults();
    params.contents = contents;
    return stoke_device_open(out, name, &params, err);
}

/* On the host: the upload's, or what comes before or after it if that is more. */
static void say_memory(const cli_call *call, const stoke_upload_memory *memory, uint64_t other_bytes,
                       const stoke_device_info *device)
{
    stoke_memory_sum *sum = call->planned;
    char host[32], elsewhere[192] = "";
    *sum = (stoke_memory_sum){ .limit_bytes = memory->host.limit_bytes };
    stoke_memory_add_loader(sum, &memory->host);
    if (other_bytes > memory->host.total_bytes)
        stoke_memory_add(sum, "before and after the feed", 1, other_bytes - memory->host.total_bytes);
    stoke_memory_add(sum, "process", 1, memory->host.fixed_bytes);
    stoke_text_memory(stoke_memory_total(sum), host, sizeof host);
    if (!device->shares_memory)
        snprintf(elsewhere, sizeof elsewhere, ", and %s on %s", STOKE_MEMORY(memory->total_bytes),
                 device->name);
    cli_say(call, "memory: up to %s%s", host, elsewhere);
    if (memory->host.prefetch_reduced)
        cli_say(call, "remark: prefetch is lowered to %u to honour --memory-limit", memory->host.slots - 1);
}

int cli_feed_open(const cli_call *call, stoke_upload **out, const stoke_dataset *dataset,
                  const stoke_data_params *data, stoke_device *device, const stoke_upload_params *params,
                  uint64_t other_bytes, stoke_error *err)
{
    static int said; /* hash opens an upload for every rank, bench one for every transfer */
    int r = stoke_upload_create(out, dataset, data, device, params, err);
    if (r || said++) return r;
    const char *why;
    say_memory(call, stoke_upload_memory_plan(*out), other_bytes, stoke_device_describe(device));
    stoke_upload_placement(*out, &why);
    if (params->placement == STOKE_PLACEMENT_AUTO && !call->command->tells_placement)
        cli_say(call, "augmenting on the %s", why);
    return STOKE_OK;
}

int cli_feed_next(stoke_upload *upload, const stoke_device_batch **batch, stoke_error *err)
{
    *batch = NULL;
    int r;
    do {
        if (cli_interrupted()) return cli_error(err, STOKE_E_CANCELLED, "interrupted");
        r = stoke_upload_next_until(upload, batch, stoke_machine_now_ns() + CLI_TICK_NS);
    } while (r == STOKE_E_TIMEOUT);
    return r && r != STOKE_E_END ? cli_pass(err, r, stoke_upload_error(upload)) : r;
}
