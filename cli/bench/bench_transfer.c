/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench transfer: the same batches to the same device in three ways, each beside a step of the same
 * length: from ordinary memory, from pinned memory, and from there on a separate stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/bench.h"
#include "cli/lib/page.h"

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

static void print_ways(cli_page *page, const bench_feed jobs[WAYS])
{
    cli_page_table(page, "transfers");
    for (int i = 0; i < WAYS; i++) {
        const bench_feed_figures *f = &jobs[i].figures;
        CLI_PAGE_ROW(page, CELL("transfer", FACT(NULL, ways[i].title)),
                     CELL_FACT(FACT("transfer", cli_transfer_name(ways[i].transfer))),
                     CELL_OF("GB/s", f, gb_s, "%.2f"), CELL_OF("copy ms/batch", f, copy_ms, "%.2f"),
                     CELL_AS("hidden", FACT("overlap_share", f->overlap), "%.0f %%", 100 * f->overlap),
                     CELL_AS("device busy", FACT("device_busy_share", f->busy), "%.1f %%", 100 * f->busy),
                     CELL_OF("ms/step", f, period_ms, "%.2f"));
    }
    cli_page_table_end(page);
}

static void print(const cli_call *call, const bench_feed jobs[WAYS], stoke_device *device)
{
    cli_page about, *page = &about;
    const stoke_device_info *info = stoke_device_describe(device);
    const bench_feed *first = &jobs[0];
    const bench_feed_figures *stream = &jobs[STREAM].figures; /* the way of an upload unless told otherwise */
    cli_page_begin(page, call->common.json);
    cli_page_say(page, "%s: %s; batches of %u x %ux%u %s, %.1f MB; step %.1f ms; times %s\n\n", info->name,
                 info->title, first->batch, first->height, first->width, stoke_dtype_name(first->dtype),
                 first->figures.bytes / 1e6, first->step_ms, bench_feed_source(device));
    CLI_PAGE_FACTS(page, FACT("device", info->name), FACT_OF(info, title),
                   FACT("source", bench_feed_source(device)), FACT_OF(first, batch), FACT_OF(first, height),
                   FACT_OF(first, width), FACT("dtype", stoke_dtype_name(first->dtype)),
                   FACT("bytes_per_batch", first->figures.bytes), FACT_OF(first, step_ms),
                   FACT_OF(first, steps), FACT("pageable_gb_s", jobs[PAGEABLE].figures.gb_s),
                   FACT("pinned_gb_s", jobs[PINNED].figures.gb_s), FACT_OF(stream, copy_ms),
                   FACT("overlap_share", stream->overlap), FACT("device_busy_share", stream->busy),
                   FACT("augment_ms_per_batch", 0.0)); /* whole batches cross */
    if (page->as_json) cli_json_memory(&page->json, call->planned);
    print_ways(page, jobs);
    cli_page_say(
        page, "\nhidden: the share of copying during which the device computed. Only a separate stream hides "
              "copies; pinned memory alone makes them faster.\n");
    if (stream->period_ms > 1.2 * jobs[STREAM].step_ms)
        cli_page_say(page,
                     "The loader gave a batch only every %.0f ms, so that copies often had no step to hide "
                     "behind: take a longer --step-ms.\n",
                     stream->period_ms);
    if (info->shares_memory && !info->emulated)
        cli_page_say(
            page,
            "This device works in the host's memory: a copy is a copy in memory, and page-locking gains "
            "nothing.\n");
    cli_page_end(page);
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
    if (!r) print(call, jobs, device);
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
