/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench data: our loader against bare decoding of the same files with the same threads in the same run.
 *
 * Rates are medians over rounds in which the two take turns; ratio_to_decode is the quotient of the two
 * medians. peak_rss_bytes is the loader's own: it runs in a separate process (see bench.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include <stoke/tools/probe.h>

typedef struct bench_options {
    double seconds;
    int64_t rounds, samples;
    int sweep, short_run;
    const char *live;
} bench_options;

#define OPTIONS bench_options
static const stoke_option options[] = {
    CLI_NUMBER(REAL, seconds, "10", 0.1, 3600, "S", "Time to measure for, all rounds together"),
    CLI_NUMBER(INT, rounds, "5", 1, BENCH_MAX_ROUNDS, "N", "Turns each side takes; results are medians"),
    CLI_NUMBER(INT, samples, "128", 1, 1e9, "N",
               "Of a larger set take N samples, evenly spread; also the size of the synthetic set made when "
               "no data is given"),
    CLI_FLAG(sweep, "Also measure the settings the project promises figures for: bytes and floats out, 1 and "
                    "2 workers, region decode, memory of a large batch"),
    BENCH_LIVE_OPTION,
    CLI_SHORT("A few seconds in all, to see that it runs; its figures mean little"),
};

/* Fast decoding beside exact, in levels of 255, over the first samples of the set. */
typedef struct bench_difference {
    uint64_t samples; /* 0: not measured */
    double mean;
    unsigned most;
} bench_difference;

/* Everything of one run. cases[0] is the loader with the user's settings, cases[1] bare decoding. */
typedef struct bench {
    const cli_call *call;
    stoke_data_params data;
    bench_set set;
    double seconds;
    int rounds;
    int64_t samples;
    bench_case cases[2 + BENCH_SWEEP_CASES];
    size_t n_cases;
    bench_difference difference; /* with --decode fast */
    int augments;                /* the pipeline has ops */
    int too_busy;                /* other programs had the cores meanwhile */
    double cores_had, cores;
    unsigned workers; /* threads that decode, on either side; 1 when workers: 0 lets the caller do it */
} bench;

/* ---- the set ---- */

static int open_set(bench *b, stoke_error *err)
{
    const uint32_t side = stoke_synth_defaults().width;
    int r = bench_set_open(&b->set, b->call, &b->data, (uint64_t)b->samples, side, err);
    if (!r && stoke_dataset_count(b->set.dataset) > (uint64_t)b->samples) {
        cli_say(b->call, "taking %lld of %s (--samples)", (long long)b->samples,
                STOKE_COUNT(stoke_dataset_count(b->set.dataset), "sample"));
        stoke_dataset_thin(b->set.dataset, (uint64_t)b->samples);
    }
    stoke_pipeline *pipeline = NULL;
    if (!r) r = stoke_pipeline_create(&pipeline, b->data.augment, err);
    if (!r)
        b->augments = *stoke_pipeline_text(pipeline) && strcmp(stoke_pipeline_text(pipeline), "none") != 0;
    stoke_pipeline_destroy(&pipeline);
    /* One process takes the whole epoch here, whatever the config says about ranks, and both sides have the
     * same priority. */
    b->data.rank = 0;
    b->data.world = 1;
    b->data.nice = 0;
    if (b->data.consumer_cores < 0) b->data.consumer_cores = 0; /* ours only counts batches */
    return r;
}

/* ---- what --decode fast costs in pixels: the same samples through two loaders, exact and fast, bytes
 * compared ---- */

enum { BATCHES = 8, ROWS = 8 };

static int measure_difference(const stoke_dataset *dataset, const stoke_data_params *base,
                              bench_difference *d, stoke_error *err)
{
    stoke_data_params params = *base;
    params.order = STOKE_ORDER_SEQUENTIAL;
    params.batch = ROWS;
    params.prefetch = 1;
    params.quarantine = ""; /* the run itself has recorded bad files */
    stoke_loader *loader[2] = { NULL, NULL };
    int r = cli_set_data(&params, "dtype", "u8", err); /* differences in levels of 255 */
    for (int fast = 0; fast < 2 && !r; fast++) {
        params.decode = fast ? STOKE_DECODE_FAST : STOKE_DECODE_EXACT;
        r = stoke_loader_create(&loader[fast], dataset, &params, NULL, err);
    }
    *d = (bench_difference){ 0 };
    uint64_t sum = 0, bytes = 0;
    for (int k = 0; k < BATCHES && !r; k++) {
        const stoke_batch *exact = NULL, *fast = NULL;
        r = stoke_loader_next(loader[0], &exact);
        if (!r) r = stoke_loader_next(loader[1], &fast);
        const size_t n = r ? 0 : exact->count * exact->image_row_bytes;
        const uint8_t *a = r ? NULL : exact->images, *b = r ? NULL : fast->images;
        for (size_t i = 0; i < n; i++) {
            const unsigned difference = (unsigned)abs(a[i] - b[i]);
            sum += difference;
            if (difference > d->most) d->most = difference;
        }
        bytes += n;
        if (!r) d->samples += exact->count;
        stoke_batch_release(loader[0], &exact);
        stoke_batch_release(loader[1], &fast);
    }
    if (r == STOKE_E_END) r = STOKE_OK;
    if (r && loader[1])
        cli_error(err, r, "%s%s", stoke_loader_error(loader[0]), stoke_loader_error(loader[1]));
    d->mean = bytes ? (double)sum / (double)bytes : 0;
    stoke_loader_destroy(&loader[0]);
    stoke_loader_destroy(&loader[1]);
    return r;
}

/* ---- the run ---- */

static int measure(bench *b, stoke_error *err)
{
    const bench_options *o = b->call->options;
    b->cases[0] = (bench_case){ .name = "loader",
                                .subject = &bench_loader,
                                .dataset = b->set.dataset,
                                .data = b->data,
                                .live = o->live };
    b->cases[1] = (bench_case){
        .name = "bare decoding", .subject = &bench_peer, .dataset = b->set.dataset, .data = b->data
    };
    b->n_cases = 1;
    int r = bench_start(&b->cases[0], err);
    if (r) return r;
    const stoke_memory_plan *plan = &b->cases[0].opened.plan;
    const stoke_memory_sum memory = cli_loader_memory(plan);
    if (!b->data.size[0] && b->cases[0].opened.height)
        cli_say_size(b->call, b->cases[0].opened.height, b->cases[0].opened.width);
    cli_say_memory(b->call, &memory);
    cli_say_remarks(b->call, b->set.dataset, &b->data);
    b->workers = plan->workers ? plan->workers : 1;
    b->cases[1].threads = b->workers;
    b->n_cases = 2;
    if (o->sweep) {
        size_t more = 0;
        r = bench_sweep_cases(b->cases + 2, b->set.dataset, &b->data, b->workers, &more, err);
        b->n_cases += more;
    }
    for (size_t i = 1; i < b->n_cases && !r; i++) r = bench_start(&b->cases[i], err);
    const stoke_quiet since = stoke_quiet_begin();
    if (!r) r = bench_run(b->call, b->cases, b->n_cases, b->rounds, b->seconds, err);
    bench_stop(b->cases, b->n_cases);
    b->too_busy =
        stoke_quiet_end(&since, &b->cores_had, &b->cores); /* what children took counts once they ended */
    /* Threads in this process only now: the others were forked before. */
    if (!r && b->data.decode == STOKE_DECODE_FAST)
        r = measure_difference(b->set.dataset, &b->data, &b->difference, err);
    return r;
}

/* ---- the report ---- */

typedef struct figures {
    double rate, cpu_ms, decode_rate, decode_cpu_ms, ratio, ratio_low, ratio_high;
} figures;

static figures summarize(const bench *b)
{
    const bench_case *ours = &b->cases[0], *bare = &b->cases[1];
    figures f = { .rate = bench_median(ours->rate, b->rounds),
                  .cpu_ms = bench_median(ours->cpu_ms, b->rounds),
                  .decode_rate = bench_median(bare->rate, b->rounds),
                  .decode_cpu_ms = bench_median(bare->cpu_ms, b->rounds),
                  .ratio_low = 1e30 };
    f.ratio = f.rate / f.decode_rate;
    for (int i = 0; i < b->rounds; i++) {
        double ratio = ours->rate[i] / bare->rate[i];
        if (ratio < f.ratio_low) f.ratio_low = ratio;
        if (ratio > f.ratio_high) f.ratio_high = ratio;
    }
    return f;
}

/* For people: what the ops do is part of writing the row. */
static const char *stage_label(const bench *b, int stage)
{
    return stage == STOKE_STAGE_WRITE && b->augments ? "augment+write" : stoke_stage_name((stoke_stage)stage);
}

/* Returns the stage that takes most CPU time. */
static int print_stages(cli_page *page, const bench *b)
{
    double most = -1;
    int longest = 0;
    cli_page_say(page, "\n");
    cli_page_table(page, "stages");
    for (int i = 0; i < STOKE_STAGES; i++) {
        const double cpu = bench_median(b->cases[0].stage_cpu_ms[i], b->rounds);
        const double wall = bench_median(b->cases[0].stage_wall_ms[i], b->rounds);
        if (i <= STOKE_STAGE_WRITE && cpu > most) most = cpu, longest = i; /* the rest are waits */
        CLI_PAGE_ROW(
            page, CELL_AS("stage", FACT("name", stoke_stage_name((stoke_stage)i)), "%s", stage_label(b, i)),
            CELL_REAL("CPU ms/sample", "cpu_ms", "%.3f", cpu),
            CELL_REAL("wall ms/sample", "wall_ms", "%.3f", wall));
    }
    cli_page_table_end(page);
    return longest;
}

/* Rounds of a quiet machine differ by a tenth. */
static const double scatter_most = 2;

static void print_ratio(const bench *b, const figures *f, int longest)
{
    const bench_case *ours = &b->cases[0];
    const int from_cache = ours->last.cache.hits > ours->last.cache.misses;
    const int scattered = f->ratio_high > scatter_most * f->ratio_low;
    if (b->too_busy || scattered) {
        char why[96];
        if (b->too_busy)
            snprintf(why, sizeof why, "%.1f of %.0f cores were available", b->cores_had, b->cores);
        else
            snprintf(why, sizeof why, "rounds differ by %.1f times", f->ratio_high / f->ratio_low);
        const char *cached = from_cache ? "; most samples came decoded out of the cache" : "";
        cli_print("this machine is too busy to tell (%s). Certain: a sample takes %.2f ms of CPU time, bare "
                  "decoding %.2f%s",
                  why, f->cpu_ms, f->decode_cpu_ms, cached);
    } else if (from_cache)
        cli_print("batches are ready %.1f times as fast as bare decoding: most samples came decoded out of "
                  "the cache",
                  f->ratio);
    else if (f->ratio > 1)
        cli_print(
            "batches are ready %.2f times as fast as libjpeg-turbo and libspng decode the same files with "
            "nothing around it: our decoders take less time than theirs, or decode only what is needed",
            f->ratio);
    else
        cli_print(
            "batches are ready at %.0f %% of the speed of decoding the same files with nothing around it",
            100 * f->ratio);
    cli_print("; most CPU time goes to `%s`.\n", stage_label(b, longest));
}

/* One more thing to try, each on its own line. */
static void print_hint(int *n, const char *text)
{
    if ((*n)++) fputs(";\n      ", stdout);
    cli_print("%s%s", *n == 1 ? "Next: " : "", text);
}

/* Only what would change something here. */
static void print_hints(const bench *b, int longest)
{
    const stoke_data_params *data = &b->data;
    const int decodes = longest == STOKE_STAGE_DECODE_IMAGE || longest == STOKE_STAGE_DECODE_MASK;
    int n = 0;
    if (!b->cases[0].last.cache.used) {
        print_hint(&n, decodes ? "--cache DIR (on disk) or --cache-ram 4G keeps decoded samples: later "
                                 "epochs do not decode, which takes most time here"
                               : "--cache DIR (on disk) or --cache-ram 4G keeps decoded samples: later "
                                 "epochs do not decode");
        if (data->decode != STOKE_DECODE_FAST && data->size[0] && bench_has_jpeg(b->set.dataset))
            print_hint(&n, "--decode fast shrinks JPEGs while decoding when --size is smaller");
    }
    if (stoke_data_image_dtype(data) != STOKE_DTYPE_U8)
        print_hint(&n, "--dtype u8 leaves normalising to the device");
    print_hint(
        &n,
        b->n_cases > 2
            ? "--workers N and --prefetch N change threads and memory."
            : "--workers N and --prefetch N change threads and memory; --sweep measures the usual settings.");
    putchar('\n');
}

static void print_meaning(const bench *b, const figures *f, int longest)
{
    const bench_case *bare = &b->cases[1];
    fputs("\nWhat it means: ", stdout);
    print_ratio(b, f, longest);
    if (bare->last.not_comparable)
        cli_print(
            "Not comparable: our own decoder did %s on both sides, neither JPEG in RGB or grey nor PNG.\n",
            STOKE_COUNT(bare->last.not_comparable, "file"));
    if (bare->last.failed)
        cli_print("Bad samples: %llu; `stoke verify` gives the reasons.\n",
                  (unsigned long long)bare->last.failed);
    print_hints(b, longest);
}

static void put_facts(stoke_json *json, const bench *b, const figures *f)
{
    const bench_case *ours = &b->cases[0], *bare = &b->cases[1];
    FACTS(json, FACT("samples_per_s", f->rate), FACT("cpu_ms_per_sample", f->cpu_ms),
          FACT("decode_only_samples_per_s", f->decode_rate),
          FACT("decode_only_cpu_ms_per_sample", f->decode_cpu_ms), FACT("ratio_to_decode", f->ratio),
          FACT_OF(f, ratio_low), FACT_OF(f, ratio_high), FACT("peak_rss_bytes", ours->last.peak_rss),
          FACT("planned_bytes", ours->opened.plan.total_bytes));
    cli_json_memory(json, b->call->planned);
    FACTS(json, FACT("workers", b->data.workers ? b->workers : 0), FACT("cpu", stoke_machine_cpu_name()),
          FACT("pixel_functions", stoke_machine_cpu_table()),
          FACT("cores_usable", stoke_machine_cores().usable),
          FACT("samples", stoke_dataset_count(b->set.dataset)), FACT_OF(b, rounds), FACT_IS_OF(b, too_busy),
          FACT_OF(b, cores_had), FACT_OF(b, seconds), FACT("files_not_comparable", bare->last.not_comparable),
          FACT("files_failed_bare", bare->last.failed), FACT_OF(&ours->last, bad_samples),
          FACT_OF(&ours->last, retries));
    cli_json_cache(json, &ours->last.cache);
    if (b->difference.samples)
        FACTS(json, FACT("fast_mean_difference", b->difference.mean),
              FACT("fast_max_difference", b->difference.most));
}

static void print_figures(const bench *b, const figures *f)
{
    stoke_cores cores = stoke_machine_cores();
    cli_print("%s, batch %lld, %s; %s, %s, pixel functions %s\n\n",
              STOKE_COUNT(stoke_dataset_count(b->set.dataset), "sample"), (long long)b->data.batch,
              stoke_dtype_name(stoke_data_image_dtype(&b->data)), stoke_machine_cpu_name(),
              STOKE_COUNT(cores.usable, "usable core"), stoke_machine_cpu_table());
    stoke_table *table = CLI_TABLE("", "samples/s", "CPU ms/sample", "threads");
    cli_row(table, "%s\t%.1f\t%.2f\t%u", b->cases[0].name, f->rate, f->cpu_ms, b->workers);
    cli_row(table, "%s\t%.1f\t%.2f\t%u", b->cases[1].name, f->decode_rate, f->decode_cpu_ms, b->workers);
    cli_table_end(table);
    cli_print("\nratio to decode  %.2f (rounds %.2f to %.2f)\n", f->ratio, f->ratio_low, f->ratio_high);
    cli_print("peak memory      %s measured, %s planned\n", STOKE_MEMORY(b->cases[0].last.peak_rss),
              STOKE_MEMORY(b->cases[0].opened.plan.total_bytes));
    if (b->difference.samples)
        cli_print("fast decoding    differs from exact by %.2f of 255 levels on average, %u at most (%llu "
                  "samples)\n",
                  b->difference.mean, b->difference.most, (unsigned long long)b->difference.samples);
    cli_say_cache(b->call, &b->cases[0].last.cache);
}

static void print(const bench *b, const figures *f)
{
    cli_page page;
    cli_page_begin(&page, b->call->common.json);
    if (page.as_json)
        put_facts(&page.json, b, f);
    else
        print_figures(b, f);
    const int longest = print_stages(&page, b);
    if (b->n_cases > 2)
        bench_sweep_print(&page, b->cases + 2, b->n_cases - 2, b->rounds, f->decode_rate, b->workers);
    if (!page.as_json) print_meaning(b, f, longest);
    cli_page_end(&page);
}

static int run(cli_call *call, stoke_error *err)
{
    const bench_options *o = call->options;
    bench *b = cli_alloc(1, sizeof *b);
    *b = (bench){ .call = call,
                  .data = call->data,
                  .seconds = o->seconds,
                  .rounds = (int)o->rounds,
                  .samples = o->samples };
    if (o->short_run) {
        if (b->seconds > 1) b->seconds = 1;
        if (b->rounds > 3) b->rounds = 3;
        if (b->samples > 32) b->samples = 32;
    }
    int r = open_set(b, err);
    if (!r) r = measure(b, err);
    bench_set_remove(&b->set); /* before anything is printed: a closed pipe ends the program there */
    if (!r) {
        const figures f = summarize(b);
        print(b, &f);
    }
    bench_set_close(&b->set);
    free(b);
    return r;
}

const cli_command cli_bench_data = {
    .summary = "speed of the loader against bare decoding",
    CLI_TAKES_DIR,
    .description =
        "Measures whole epochs of the loader, in turns with bare libjpeg-turbo and libspng decoding of the "
        "same files with the same number of threads, each in its own process. Files are in the page "
        "cache. Rates are medians over the rounds; CPU time is of the whole process; peak memory is that of "
        "the loader's process. Without data a synthetic set of 512x512 scenes is made.",
    .examples = {
        { "stoke bench data", "a synthetic set in a temporary folder, removed afterwards" },
        { "stoke bench data demo/data --dtype u8 --batch 32 --workers 2", "your own set, bytes out" },
        { "stoke bench data --sweep --json", "all promised figures, for a program" },
        { "stoke bench data --short", "only to see that it runs" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
