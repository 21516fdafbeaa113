/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench device: how busy a device is kept. The loader, its threads and the copies are those of a real
 * run; the training step is a time, simulated where the device is.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/bench/bench.h"
#include "cli/lib/facts.h"
#include <stoke/tools/probe.h>

typedef struct device_options {
    const char *device, *trace, *timeline, *live;
    double step_ms, image_ms;
    int64_t steps, warm_up;
    int sync, short_run, force;
} device_options;

#define OPTIONS device_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, device, "sim:rtx3090", "NAME", "The device to feed, as `stoke devices` lists them"),
    CLI_NUMBER(REAL, step_ms, "100", 0.01, 60000, "MS",
               "A training step of the consumer: what the device computes on every batch"),
    CLI_NUMBER(REAL, image_ms, "0", 0, 60000, "MS",
               "And on every picture of it: a step takes --step-ms + N x --image-ms"),
    CLI_NUMBER(INT, steps, "50", 2, 1e6, "N", "Steps to measure"),
    CLI_NUMBER(INT, warm_up, "5", 0, 1e6, "N", "Steps before them that do not count"),
    CLI_FLAG(sync, "The host waits for every step, as a loop does that prints the loss each time"),
    CLI_TEXT(STRING, trace, NULL, "FILE",
             "Write what happened when as JSON for Perfetto (ui.perfetto.dev) or chrome://tracing"),
    CLI_TEXT(STRING, timeline, NULL, "FILE", "Draw the last steps as a picture (SVG)"),
    BENCH_LIVE_OPTION,
    CLI_SHORT("Three short steps, to see that it runs; its figures mean little"),
    CLI_FORCE,
};

enum {
    SPANS = 1 << 19,  /* of a trace: 50 steps of 32 samples take 10,000 */
    DRAWN = 6,        /* steps in the picture */
    LINK_BATCHES = 3, /* that the rates of the link are taken from */
    LINK_ROWS = 8     /* of such a batch: several megabytes are enough */
};

/* A device that is busy for more of the time does not wait for data. */
static const double never_idle = 0.98;

typedef struct bench {
    const cli_call *call;
    const device_options *o;
    stoke_data_params data;
    stoke_device *device;
    bench_set set;
    stoke_trace *trace;
    bench_feed job;
    double pageable_gb_s, pinned_gb_s;
    int64_t link_rows;
    int too_busy; /* other programs had the cores meanwhile */
    double cores_had, cores;
} bench;

/* ---- the run ---- */

/* The link alone: a few batches without augmentation, one at a time. */
static bench_feed link_job(const bench *b, int transfer)
{
    bench_feed job = { .call = b->call,
                       .dataset = b->set.dataset,
                       .data = b->data,
                       .device = b->device,
                       .params = stoke_upload_defaults(),
                       .warm_up = 1,
                       .steps = LINK_BATCHES };
    job.data.augment = "none";
    job.data.batch = b->link_rows;
    job.data.prefetch = 1;
    job.data.cache_ram = 0;
    job.params.depth = 1;
    job.params.placement = STOKE_PLACEMENT_HOST;
    job.params.transfer = transfer;
    return job;
}

/* The batches of it are whole ones: where the device augments they take more than those of the run. */
static int plan_link(bench *b, stoke_error *err)
{
    int r;
    b->link_rows = b->data.batch < LINK_ROWS ? b->data.batch : LINK_ROWS;
    do {
        stoke_upload_memory memory;
        const bench_feed job = link_job(b, STOKE_TRANSFER_PINNED);
        r = stoke_upload_estimate(&memory, job.dataset, &job.data, job.device, &job.params, err);
        b->job.other_bytes = memory.host.total_bytes;
    } while (r == STOKE_E_LIMIT && (b->link_rows /= 2));
    return r;
}

static int measure_link(bench *b, int transfer, double *gb_s, stoke_error *err)
{
    bench_feed job = link_job(b, transfer);
    const int r = bench_feed_run(&job, err);
    *gb_s = job.figures.gb_s;
    return r;
}

static int measure(bench *b, stoke_error *err)
{
    const device_options *o = b->o;
    const int quick = o->short_run;
    b->job = (bench_feed){ .call = b->call,
                           .label = "feeding",
                           .dataset = b->set.dataset,
                           .data = b->data,
                           .device = b->device,
                           .params = b->call->upload,
                           .live_path = o->live,
                           .step_ms = quick && o->step_ms > 5 ? 5 : o->step_ms,
                           .image_ms = quick ? 0 : o->image_ms,
                           .sync = o->sync,
                           .warm_up = quick ? 1 : (uint64_t)o->warm_up,
                           .steps = quick ? 3 : (uint64_t)o->steps };
    int r = plan_link(b, err);
    if (!r && (o->trace || o->timeline)) r = stoke_trace_create(&b->trace, SPANS, err);
    b->job.trace = b->trace;
    const stoke_quiet since = stoke_quiet_begin();
    if (!r) r = bench_feed_run(&b->job, err);
    b->too_busy = stoke_quiet_end(&since, &b->cores_had, &b->cores);
    if (!r) r = measure_link(b, STOKE_TRANSFER_PAGEABLE, &b->pageable_gb_s, err);
    if (!r) r = measure_link(b, STOKE_TRANSFER_PINNED, &b->pinned_gb_s, err);
    return r;
}

/* ---- pictures ---- */

static int write_pictures(bench *b, stoke_error *err)
{
    const bench_feed *job = &b->job;
    const stoke_device_info *info = stoke_device_describe(b->device);
    int r = STOKE_OK;
    if (b->o->trace) r = stoke_trace_write_json(b->trace, b->o->trace, err);
    if (!r && b->o->timeline) {
        char title[256];
        snprintf(title, sizeof title, "%s: busy %.1f %% (step %.0f ms, augmenting on the %s, transfer %s)",
                 info->title, 100 * job->figures.busy, bench_feed_step_ms(job),
                 cli_placement_name(job->placement), cli_transfer_name(job->params.transfer));
        const uint64_t length = (uint64_t)(DRAWN * job->figures.period_ms * 1e6),
                       whole = job->end_ns - job->begin_ns;
        const uint64_t drawn = length && length < whole ? length : whole;
        r = stoke_trace_write_svg(b->trace, b->o->timeline, title, job->end_ns - drawn, drawn, err);
    }
    if (!r && b->trace && stoke_trace_dropped(b->trace))
        cli_say(b->call, "%s did not fit into the trace: take fewer --steps",
                STOKE_COUNT(stoke_trace_dropped(b->trace), "span"));
    return r;
}

/* ---- the report ---- */

/* Threads that decode; 0: whoever takes the batches does. */
static unsigned workers(const bench *b)
{
    return b->data.workers ? b->job.memory.host.workers : 0;
}

static void print_json(const bench *b)
{
    const bench_feed *job = &b->job;
    const bench_feed_figures *f = &job->figures;
    const stoke_device_info *info = stoke_device_describe(b->device);
    stoke_json json = cli_json_open();
    FACTS(&json, FACT("device", info->name), FACT_OF(info, title),
          FACT("source", bench_feed_source(b->device)), FACT("device_busy_share", f->busy),
          FACT_OF(f, period_ms), FACT("images_per_s", f->images_s), FACT_OF(f, copy_ms),
          FACT("overlap_share", f->overlap), FACT("augment_ms_per_batch", f->augment_ms),
          FACT("bytes_per_batch", f->bytes), FACT_OF(b, pageable_gb_s), FACT_OF(b, pinned_gb_s),
          FACT("host_wait_ms_per_step", f->wait_ms), FACT("loader_cpu_ms_per_sample", f->cpu_ms),
          FACT("host_source", "measured"), FACT_IS_OF(b, too_busy), FACT_OF(b, cores_had),
          FACT("placement", cli_placement_name(job->placement)), FACT("placement_reason", job->why),
          FACT("transfer", cli_transfer_name(job->params.transfer)), FACT_OF(&job->params, depth),
          FACT_IS_OF(job, sync), FACT("step_ms", bench_feed_step_ms(job)), FACT_OF(job, steps),
          FACT_OF(job, batch), FACT_OF(job, height), FACT_OF(job, width), FACT("workers", workers(b)),
          FACT("device_bytes", job->memory.total_bytes), FACT("host_bytes", job->memory.host.total_bytes));
    cli_json_memory(&json, b->call->planned);
    stoke_json_close(&json);
}

static void print_figures(const bench *b)
{
    const bench_feed_figures *f = &b->job.figures;
    const char *source = bench_feed_source(b->device);
    stoke_table *table = CLI_TABLE("", "", "source");
    cli_row(table, "device busy\t%.1f %%\t%s", 100 * f->busy, source);
    cli_row(table, "a step\tevery %.1f ms, %.0f images/s\t%s", f->period_ms, f->images_s, source);
    cli_row(table, "copy\t%.2f ms a batch, %.0f %% of it while the device computed\t%s", f->copy_ms,
            100 * f->overlap, source);
    if (b->job.placement == STOKE_PLACEMENT_DEVICE)
        cli_row(table, "augmenting there\t%.2f ms a batch\t%s", f->augment_ms, source);
    cli_row(table, "a batch crosses as\t%.1f MB\tcounted", f->bytes / 1e6);
    cli_row(table, "link\t%.1f GB/s pinned, %.1f pageable\t%s", b->pinned_gb_s, b->pageable_gb_s, source);
    cli_row(table, "loader\t%.2f ms CPU a sample\tmeasured", f->cpu_ms);
    cli_row(table, "consumer waits\t%.2f ms a step%s\tmeasured", f->wait_ms,
            f->busy > never_idle && !b->job.sync ? ": it has run ahead of the device" : " for its batch");
    cli_table_end(table);
}

static void print_slow_input(const bench *b)
{
    const bench_feed_figures *f = &b->job.figures;
    const int could_augment =
        b->job.placement == STOKE_PLACEMENT_HOST && !stoke_device_describe(b->device)->shares_cores;
    char makers[64] = "the training loop itself makes them";
    if (workers(b))
        snprintf(makers, sizeof makers, "%s %s them", STOKE_COUNT(workers(b), "worker"),
                 workers(b) == 1 ? "makes" : "make");
    cli_print(", because batches come too slowly: a sample takes %.1f ms CPU, and %s. Next: %s%s--cache DIR "
              "or --decode fast.\n",
              f->cpu_ms, makers, could_augment ? "--placement device, " : "",
              workers(b) < stoke_machine_cores().usable ? "more --workers, " : "");
}

/* What keeps it from being busy, from the model in placement_probe.c: input, copies, or nothing. */
static void print_meaning(const bench *b)
{
    const bench_feed *job = &b->job;
    const bench_feed_figures *f = &job->figures;
    const double idle = 1 - f->busy, copies = (1 - f->overlap) * f->copy_ms / f->period_ms;
    const char *simulated = stoke_device_describe(b->device)->emulated ? "simulated " : "";
    if (f->busy > never_idle) {
        cli_print("\nThe %sdevice never waits for data.\n", simulated);
        return;
    }
    if (b->too_busy) {
        cli_print(
            "\nThis machine is too busy to tell (%.1f of %.0f cores were available) why the %sdevice is idle "
            "for %.0f %% of the time. Certain: a sample takes %.1f ms CPU, so a free core makes a "
            "batch in %.0f ms; a step takes %.0f.\n",
            b->cores_had, b->cores, simulated, 100 * idle, f->cpu_ms, f->cpu_ms * job->batch,
            bench_feed_step_ms(job));
        return;
    }
    cli_print("\nThe %sdevice is idle for %.0f %% of the time", simulated, 100 * idle);
    if (copies > idle / 2)
        cli_print(", mostly while batches are copied: --transfer stream copies them while it computes.\n");
    else if (job->sync && idle < 0.1)
        puts(
            ", mostly between the end of a step and the launch of the next: without --sync there is no gap.");
    else
        print_slow_input(b);
}

static void print_people(const bench *b)
{
    const bench_feed *job = &b->job;
    const stoke_device_info *info = stoke_device_describe(b->device);
    cli_print("%s%s: %s; batches of %u x %ux%u %s, step %.1f ms, %s, transfer %s%s\n",
              info->emulated ? "simulated " : "", info->name, info->title, job->batch, job->height,
              job->width, stoke_dtype_name(job->dtype), bench_feed_step_ms(job),
              STOKE_COUNT(workers(b), "worker"), cli_transfer_name(job->params.transfer),
              job->sync ? ", host waits for every step" : "");
    cli_print("augmenting on the %s\n\n", job->why);
    print_figures(b);
    print_meaning(b);
    if (b->o->trace) cli_print("trace     %s (open it at ui.perfetto.dev)\n", b->o->trace);
    if (b->o->timeline) cli_print("timeline  %s\n", b->o->timeline);
}

static int run(cli_call *call, stoke_error *err)
{
    bench *b = cli_alloc(1, sizeof *b);
    *b = (bench){ .call = call, .o = call->options, .data = call->data };
    int r = cli_may_write(call, b->o->trace, b->o->force, err);
    if (!r) r = cli_may_write(call, b->o->timeline, b->o->force, err);
    if (!r) r = cli_device_open(&b->device, b->o->device, 0, err);
    if (!r) r = bench_set_open(&b->set, call, &b->data, 4 * (uint64_t)b->data.batch, BENCH_SCENE, err);
    if (!r) r = measure(b, err);
    bench_set_close(&b->set); /* before anything is printed: a closed pipe ends the program there */
    if (!r) r = write_pictures(b, err);
    if (!r) (call->common.json ? print_json : print_people)(b);
    stoke_trace_destroy(&b->trace);
    stoke_device_close(&b->device);
    free(b);
    return r;
}

const cli_command cli_bench_device = {
    .summary = "how busy a device is kept, and why not more",
    CLI_TAKES_DIR,
    .tells_placement = 1,
    .description =
        "Feeds a device with augmented batches as a training run would, and computes for --step-ms on each: "
        "for real on a real device; a simulated GPU only keeps time, and its figures say emulated. All times "
        "come from events of the device on one clock. --placement says who augments, --transfer how batches "
        "cross, --depth how many are on the device ahead. Without data a small synthetic set is made.",
    .examples = {
        { "stoke bench device demo/data --batch 4 --size 128 --timeline fed.svg",
          "a simulated RTX 3090, fed by this machine" },
        { "stoke bench device demo/data --batch 4 --size 128 --placement host --transfer pageable --workers "
          "1 --sync",
          "the same, starved" },
        { "stoke bench device demo/data --batch 4 --size 128 --device host --json",
          "this machine as the device" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
    .reads_upload = 1,
    .defaults = { { "batch", "32" }, { "size", "512" }, { "augment", "standard" },
                  { "normalize", "imagenet" } },
};
