/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory before it is taken. On the device: slots x slot + tables and planes of the kernels. On the host:
 * what the loader holds, tables on their way, copies that are read back.
 */
#include <stoke/tools/upload.h>
#include "src/base/error.h"

#include <stddef.h>
#include <stoke/upload.h>

#include "src/base/mem.h"
#include "src/loader/loader.h"
#include "src/loader/memory_plan.h"
#include "src/loader/slots.h"
#include "src/upload/upload_internal.h"

uint64_t stk_upload_raw_bytes(const stoke_upload *upload)
{
    if (upload->placement != STOKE_PLACEMENT_DEVICE) return 0;
    return upload->raw.mask_at + (uint64_t)upload->raw.mask_pitch * upload->shape.capacity;
}

int stoke_upload_memory_text(const stoke_upload_memory *memory, char *text, size_t size)
{
    char kernels[48] = "";
    if (memory->work_bytes)
        snprintf(kernels, sizeof kernels, " + kernels %.1f MiB", STK_MIB(memory->work_bytes));
    return snprintf(text, size, "slots %u x %.1f MiB%s = %.1f MiB", memory->slots,
                    STK_MIB(memory->slot_bytes), kernels, STK_MIB(memory->total_bytes));
}

static int plan_device(stoke_upload *upload, const stk_loader_config *config, uint32_t slots,
                       stoke_error *err)
{
    stoke_upload_memory *m = &upload->memory;
    *m = (stoke_upload_memory){ .slots = slots };
    m->slot_bytes = stk_ring_slot_bytes(&upload->shape, config->two_masks, stk_upload_raw_bytes(upload));
    if (upload->placement == STOKE_PLACEMENT_DEVICE) {
        m->work_bytes = stk_augmenter_bytes(config, upload->shape.capacity, STK_TRANSFERS);
        m->table_bytes = stk_augmenter_host_bytes(config, upload->shape.capacity, STK_TRANSFERS);
    }
    if (upload->reads) m->read_bytes = slots * stk_ring_slot_bytes(&upload->shape, config->two_masks, 0);
    m->total_bytes = m->slots * m->slot_bytes + m->work_bytes;
    uint64_t free_bytes, total_bytes;
    int r = stoke_device_memory(upload->device, &free_bytes, &total_bytes, err);
    if (r || !free_bytes || m->total_bytes <= free_bytes) return r; /* OpenCL does not say what is left */
    char sum[160];
    stoke_upload_memory_text(m, sum, sizeof sum);
    return stk_fail(err, STOKE_E_NOMEM,
                    "the upload needs %s of device memory, but %s has %.1f of %.1f MiB free. Lower batch, "
                    "size or depth%s",
                    sum, upload->info.name, STK_MIB(free_bytes), STK_MIB(total_bytes),
                    m->work_bytes ? ", or augment on the host (placement)" : "");
}

static int plan_loader(const stoke_upload *upload, const stk_loader_config *config,
                       const stoke_data_params *data, stoke_memory_plan *host, stoke_error *err)
{
    stk_loader_plan plan;
    const stoke_memory_share beside = stk_upload_beside(upload);
    int r = stk_loader_plan_make(&plan, config, data, err);
    if (r) return r;
    plan.shown.beside = beside.name;
    plan.shown.beside_bytes = beside.count * beside.bytes;
    r = stk_loader_plan_settle(&plan, err);
    *host = plan.shown;
    return r;
}

int stk_upload_plan(stoke_upload *upload, const stoke_dataset *dataset, const stoke_data_params *data,
                    uint32_t slots, stoke_memory_plan *host, stoke_error *err)
{
    stk_loader_config config;
    stoke_data_params own = *data;
    int r = stk_loader_check_params(data, err);
    if (r) return r;
    if (own.batch < 0) own.batch = stoke_data_defaults().batch;
    r = stk_loader_config_create(&config, dataset, &own, err);
    config.raw = upload->placement == STOKE_PLACEMENT_DEVICE;
    if (!r) {
        /* As such a loader makes them, and as they come out. */
        unsigned extras;
        const stoke_batch raw = stk_slot_shape(&config, (uint32_t)own.batch, &extras);
        upload->shape = stk_batch_shape(&config, (uint32_t)own.batch);
        upload->raw = (stk_tables_raw_layout){ .image_pitch = raw.image_row_bytes,
                                               .mask_at = (raw.image_row_bytes * raw.capacity + 63) / 64 * 64,
                                               .mask_pitch = raw.mask_row_bytes };
        r = plan_device(upload, &config, slots, err);
    }
    if (!r && host) r = plan_loader(upload, &config, &own, host, err);
    stk_loader_config_destroy(&config);
    return r;
}

stoke_memory_share stk_upload_beside(const stoke_upload *upload)
{
    static const char *const names[2][2] = {
        { "tables of the kernels", "batches read back" },
        { "batches on the device, in the same memory",
          "batches on the device, in the same memory, and read back" },
    };
    const stoke_upload_memory *m = &upload->memory;
    const int shared = upload->info.shares_memory != 0;
    return (stoke_memory_share){ names[shared][m->read_bytes != 0], 1,
                                 (shared ? m->total_bytes : 0) + m->table_bytes + m->read_bytes };
}

int stoke_upload_estimate(stoke_upload_memory *out, const stoke_dataset *dataset,
                          const stoke_data_params *data, stoke_device *device,
                          const stoke_upload_params *params, stoke_error *err)
{
    const int wanted = params->placement;
    int r = stk_upload_check_params(params, err), planned = 0;
    *out = (stoke_upload_memory){ 0 };
    if (r) return r;
    stoke_upload *upload = stk_calloc(1, sizeof *upload);
    if (!upload) return stk_fail(err, STOKE_E_NOMEM, "no memory for the plan of an upload");
    upload->info = *stoke_device_describe(device);
    upload->device = device;
    upload->reads = params->reads;
    for (int way = STOKE_PLACEMENT_HOST; way <= STOKE_PLACEMENT_DEVICE; way++) {
        if (wanted != way && wanted != STOKE_PLACEMENT_AUTO) continue;
        stoke_memory_plan host = { 0 };
        upload->placement = way;
        r = stk_upload_plan(upload, dataset, data, (uint32_t)params->depth + 1, &host, err);
        upload->memory.host = host;
        if (r) {
            if (!planned) *out = upload->memory;
            continue;
        }
        if (!planned++ || host.total_bytes > out->host.total_bytes) *out = upload->memory;
    }
    stk_free(upload);
    return planned ? STOKE_OK : r;
}

/* The option table of the upload. The order of every `choices` text is that of the enum it fills. */

#define FIELD(name) .offset = offsetof(stoke_upload_params, name)

/* clang-format off: one entry, one paragraph */
static const stoke_option table[] = {
    { "placement", STOKE_OPT_CHOICE, FIELD(placement), .default_text = "auto", .choices = "host|device|auto",
      .help = "Who augments; the bytes of a batch do not depend on it. auto measures both on the first "
              "batches and takes what keeps the device busiest with the least CPU" },
    { "transfer", STOKE_OPT_CHOICE, FIELD(transfer), .default_text = "stream",
      .choices = "stream|pinned|pageable",
      .help = "How batches cross: stream from pinned memory on a stream of their own, while the device "
              "computes; pinned on the consumer's stream; pageable from ordinary memory, the host waiting "
              "for every copy" },
    { "depth", STOKE_OPT_INT, FIELD(depth), .default_text = "2", .min = 1, .max = 64, .argument = "N",
      .help = "Batches on the device ahead of the one in use; each takes the device memory of a batch" },
};
/* clang-format on */

stoke_option_group stoke_upload_options(stoke_upload_params *params)
{
    return (stoke_option_group){ "Feeding a device", table, sizeof table / sizeof *table, params };
}

stoke_upload_params stoke_upload_defaults(void)
{
    stoke_upload_params params = { .struct_size = sizeof params };
    const stoke_option_group group = stoke_upload_options(&params);
    stoke_options_defaults(&group);
    return params;
}
