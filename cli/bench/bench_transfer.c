/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench transfer: the same batches to the same device in three ways, each beside a step of the same
 * length: from ordinary memory, from pinned memory, and from there on a separate stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/bench.h"
#include "cli/lib/facts.h"

typedef struct transfer_options {
    const char *device;
    double step_ms;
    int64_t steps;
    int short_run;
} transfer_options;

#define OPTIONS transfer_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, device, "auto", "NAME", "Where batches go, as `stoke devices` lists them"),
    CLI_NUMBER(REAL, step_ms, "50", 0.01, 60000, "MS",
               "What the device computes on every batch, for copies to hide behind"),
    CLI_NUMBER(INT, steps, "20", 2, 1e6, "N", "Steps of each way, after two to warm up"),
    CLI_SHORT("Three short steps of each, to see that it runs; its figures mean little"),
};

enum { WARM_UP = 2 };
enum { PAGEABLE, PINNED, STREAM, WAYS };

static const struct {
    int transfer;
    const char *title;
} ways[WAYS] = {
    [PAGEABLE] = { STOKE_TRANSFER_PAGEABLE, "pageable" },
    [PINNED] = { STOKE_TRANSFER_PINNED, "pinned" },
    [STREAM] = { STOKE_TRANSFER_STREAM, "pinned, own stream" },
};

static int measure(const cli_call *call, const bench_set *set, const stoke_data_params *data,
                   stoke_device *device, bench_feed jobs[WAYS], stoke_error *err)
{
    const transfer_options *o = call->options;
    int r = STOKE_OK;
    for (int i = 0; i < WAYS && !r; i++) {
        jobs[i] = (bench_feed){ .call = call,
                                .label = ways[i].title,
                                .dataset = set->dataset,
                                .data = *data,
                                .device = device,
                                .params = call->upload,
                                .step_ms = o->short_run && o->step_ms > 5 ? 5 : o->step_ms,
                                .warm_up = o->short_run ? 0 : WARM_UP,
                                .steps = o->short_run ? 3 : (uint64_t)o->steps };
        jobs[i].params.placement = STOKE_PLACEMENT_HOST; /* whole batches cross */
        jobs[i].params.transfer = ways[i].transfer;
        r = bench_feed_run(&jobs[i], err);
    }
    return r;
}

static void json_copies(stoke_json *json, const bench_feed_figures *f)
{
    FACTS(json, FACT_OF(f, copy_ms), FACT("overlap_share", f->overlap), FACT("device_busy_share", f->busy));
}

static void print_json(const bench_feed jobs[WAYS], stoke_device *device)
{
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("device", stoke_device_describe(device)->name),
          FACT("title", stoke_device_describe(device)->title), FACT("source", bench_feed_source(device)),
          FACT_OF(&jobs[0], batch), FACT_OF(&jobs[0], height), FACT_OF(&jobs[0], width),
          FACT("dtype", stoke_dtype_name(jobs[0].dtype)), FACT("bytes_per_batch", jobs[0].figures.bytes),
          FACT_OF(&jobs[0], step_ms), FACT_OF(&jobs[0], steps),
          FACT("pageable_gb_s", jobs[PAGEABLE].figures.gb_s), FACT("pinned_gb_s", jobs[PINNED].figures.gb_s));
    json_copies(&json, &jobs[STREAM].figures);         /* the way of an upload unless told otherwise */
    stoke_json_real(&json, "augment_ms_per_batch", 0); /* whole batches cross */
    cli_json_memory(&json, jobs[0].call->planned);
    JSON_LIST(&json, "transfers", i, i < WAYS) {
        const bench_feed_figures *f = &jobs[i].figures;
        stoke_json_object(&json, NULL);
        FACTS(&json, FACT("transfer", cli_transfer_name(ways[i].transfer)), FACT_OF(f, gb_s));
        json_copies(&json, f);
        FACTS(&json, FACT_OF(f, period_ms));
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
}

static void print_people(const bench_feed jobs[WAYS], stoke_device *device)
{
    const stoke_device_info *info = stoke_device_describe(device);
    cli_print("%s: %s; batches of %u x %ux%u %s, %.1f MB; step %.1f ms; times %s\n\n", info->name,
              info->title, jobs[0].batch, jobs[0].height, jobs[0].width, stoke_dtype_name(jobs[0].dtype),
              jobs[0].figures.bytes / 1e6, jobs[0].step_ms, bench_feed_source(device));
    stoke_table *table = CLI_TABLE("transfer", "GB/s", "copy ms/batch", "hidden", "device busy", "ms/step");
    for (int i = 0; i < WAYS; i++) {
        const bench_feed_figures *f = &jobs[i].figures;
        cli_row(table, "%s\t%.2f\t%.2f\t%.0f %%\t%.1f %%\t%.2f", ways[i].title, f->gb_s, f->copy_ms,
                100 * f->overlap, 100 * f->busy, f->period_ms);
    }
    cli_table_end(table);
    puts("\nhidden: the share of copying during which the device computed. Only a separate stream hides "
         "copies; pinned memory alone makes them faster.");
    if (jobs[STREAM].figures.period_ms > 1.2 * jobs[STREAM].step_ms)
        cli_print("The loader gave a batch only every %.0f ms, so that copies often had no step to hide "
                  "behind: take a longer --step-ms.\n",
                  jobs[STREAM].figures.period_ms);
    if (info->shares_memory && !info->emulated)
        puts("This device works in the host's memory: a copy is a copy in memory, and page-locking gains "
             "nothing.");
}

static int run(cli_call *call, stoke_error *err)
{
    const transfer_options *o = call->options;
    stoke_device *device = NULL;
    bench_set set = { 0 };
    bench_feed *jobs = cli_alloc(WAYS, sizeof *jobs);
    stoke_data_params data = call->data;
    if (data.consumer_cores < 0) data.consumer_cores = 0; /* ours only waits */
    int r = cli_device_open(&device, o->device, 0, err);
    if (!r) r = bench_set_open(&set, call, &data, 2 * (uint64_t)data.batch, BENCH_SCENE, err);
    if (!r) r = measure(call, &set, &data, device, jobs, err);
    bench_set_close(&set); /* before anything is printed: a closed pipe ends the program there */
    if (!r) (call->common.json ? print_json : print_people)(jobs, device);
    stoke_device_close(&device);
    free(jobs);
    return r;
}

const cli_command cli_bench_transfer = {
    .summary = "copies to a device: pageable, pinned, on their own stream",
    CLI_TAKES_DIR,
    .description = "Sends the same batches to a device from ordinary memory, from pinned memory, and from "
                   "there on a separate stream, while the device computes for --step-ms on each. Times "
                   "come from events on the device; those of a simulated GPU are emulated. Without data a "
                   "small synthetic set is made; --batch, --size and --dtype say how large a batch is.",
    .examples = {
        { "stoke bench transfer --device sim:rtx3090",
          "a simulated GPU: what page-locking and a stream gain" },
        { "stoke bench transfer --device host --batch 4 --size 256 --json",
          "copies within this machine's memory" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    /* Decoded samples are kept, so that the loader is not what is measured. */
    .defaults = { { "batch", "32" }, { "size", "512" }, { "cache_ram", "1G" } },
};
