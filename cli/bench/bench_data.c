/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench data: our loader against bare decoding of the same files with the same threads in the same run.
 *
 * Rates are medians over rounds in which the two take turns; ratio_to_decode is the quotient of the two
 * medians. peak_rss_bytes is the loader's own: it runs in a process of its own (see bench.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/bench/bench_live.h"
#include "cli/lib/output.h"
#include <stoke/tools/probe.h>

typedef struct bench_options {
    double seconds;
    int64_t rounds, samples;
    int sweep, short_run;
    const char *live;
} bench_options;

static const stoke_option options[] = {
    { .name = "seconds",
      .type = STOKE_OPT_REAL,
      .offset = offsetof(bench_options, seconds),
      .default_text = "10",
      .min = 0.1,
      .max = 3600,
      .argument = "S",
      .help = "Time to measure for, all rounds together" },
    { .name = "rounds",
      .type = STOKE_OPT_INT,
      .offset = offsetof(bench_options, rounds),
      .default_text = "5",
      .min = 1,
      .max = BENCH_MAX_ROUNDS,
      .argument = "N",
      .help = "Turns each side takes; results are medians" },
    { .name = "samples",
      .type = STOKE_OPT_INT,
      .offset = offsetof(bench_options, samples),
      .default_text = "128",
      .min = 1,
      .max = 1e9,
      .argument = "N",
      .help = "Of a larger set take N samples, evenly spread; also the size of the synthetic set made when "
              "no data is "
              "given" },
    { .name = "sweep",
      .type = STOKE_OPT_FLAG,
      .offset = offsetof(bench_options, sweep),
      .default_text = "false",
      .help = "Also measure the settings the project promises figures for: bytes and floats out, 1 and 2 "
              "workers, region "
              "decode, memory of a large batch" },
    BENCH_LIVE_OPTION(bench_options),
    { .name = "short",
      .type = STOKE_OPT_FLAG,
      .offset = offsetof(bench_options, short_run),
      .default_text = "false",
      .help = "A few seconds in all, to see that it runs; its figures mean little" },
};

/* Everything of one run. cases[0] is the loader with the user's settings, cases[1] bare decoding. */
typedef struct bench {
    const cli_call *call;
    stoke_data_params data;
    stoke_dataset *dataset;
    char folder[CLI_PATH]; /* temporary; "" = none */
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

static int make_set(bench *b, stoke_error *err)
{
    stoke_synth_params params = stoke_synth_defaults();
    params.count = (uint64_t)b->samples;
    stoke_progress *progress = cli_progress_begin(b->call, "drawing a set", "scenes");
    int r = stoke_synth_write(&params, b->folder, 0, cli_progress_update, progress, err);
    cli_progress_end(&progress);
    b->data.data = b->folder;
    return r;
}

static int open_set(bench *b, stoke_error *err)
{
    int given = b->data.data || b->data.images || b->data.list;
    int r = cli_temp_folder(b->folder, err);
    if (!r && !given) r = make_set(b, err);
    if (!r) r = cli_open_settled(b->call, &b->data, &b->dataset, err);
    if (!r && stoke_dataset_count(b->dataset) > (uint64_t)b->samples) {
        cli_say(b->call, "taking %lld of %s (--samples)", (long long)b->samples,
                STOKE_COUNT(stoke_dataset_count(b->dataset), "sample"));
        stoke_dataset_thin(b->dataset, (uint64_t)b->samples);
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

/* ---- the run ---- */

static int measure(bench *b, stoke_error *err)
{
    const bench_options *o = b->call->options;
    b->cases[0] = (bench_case){
        .name = "loader", .subject = &bench_loader, .dataset = b->dataset, .data = b->data, .live = o->live
    };
    b->cases[1] = (bench_case){
        .name = "bare decoding", .subject = &bench_peer, .dataset = b->dataset, .data = b->data
    };
    b->n_cases = 1;
    int r = bench_start(&b->cases[0], err);
    if (r) return r;
    const stoke_memory_plan *plan = &b->cases[0].opened.plan;
    const stoke_memory_sum memory = cli_loader_memory(plan);
    if (!b->data.size[0] && b->cases[0].opened.height)
        cli_say_size(b->call, b->cases[0].opened.height, b->cases[0].opened.width);
    cli_say_memory(b->call, &memory);
    cli_say_remarks(b->call, b->dataset, &b->data);
    b->workers = plan->workers ? plan->workers : 1;
    b->cases[1].threads = b->workers;
    b->n_cases = 2;
    if (o->sweep) {
        size_t more = 0;
        r = bench_sweep_cases(b->cases + 2, b->dataset, &b->data, b->workers, &more, err);
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
        r = bench_measure_difference(b->dataset, &b->data, &b->difference, err);
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

/* Milliseconds per sample of a stage. */
static void stage_times(const bench *b, int stage, double *cpu_ms, double *wall_ms)
{
    *cpu_ms = bench_median(b->cases[0].stage_cpu_ms[stage], b->rounds);
    *wall_ms = bench_median(b->cases[0].stage_wall_ms[stage], b->rounds);
}

static void json_machine(stoke_json *json)
{
    stoke_cores cores = stoke_machine_cores();
    stoke_json_string(json, "cpu", stoke_machine_cpu_name());
    stoke_json_string(json, "pixel_functions", stoke_machine_cpu_table());
    stoke_json_uint(json, "cores_usable", cores.usable);
}

static void print_json(const bench *b, const figures *f)
{
    const bench_case *ours = &b->cases[0], *bare = &b->cases[1];
    stoke_json json;
    stoke_json_begin(&json, stdout, 2);
    stoke_json_object(&json, NULL);
    stoke_json_real(&json, "samples_per_s", f->rate);
    stoke_json_real(&json, "cpu_ms_per_sample", f->cpu_ms);
    stoke_json_real(&json, "decode_only_samples_per_s", f->decode_rate);
    stoke_json_real(&json, "decode_only_cpu_ms_per_sample", f->decode_cpu_ms);
    stoke_json_real(&json, "ratio_to_decode", f->ratio);
    stoke_json_real(&json, "ratio_low", f->ratio_low);
    stoke_json_real(&json, "ratio_high", f->ratio_high);
    stoke_json_uint(&json, "peak_rss_bytes", ours->last.peak_rss);
    stoke_json_uint(&json, "planned_bytes", ours->opened.plan.total_bytes);
    const stoke_memory_sum memory = cli_loader_memory(&ours->opened.plan);
    cli_json_memory(&json, &memory);
    stoke_json_uint(&json, "workers", b->data.workers ? b->workers : 0);
    json_machine(&json);
    stoke_json_uint(&json, "samples", stoke_dataset_count(b->dataset));
    stoke_json_int(&json, "rounds", b->rounds);
    stoke_json_bool(&json, "too_busy", b->too_busy);
    stoke_json_real(&json, "cores_had", b->cores_had);
    stoke_json_real(&json, "seconds", b->seconds);
    stoke_json_uint(&json, "files_not_comparable", bare->last.not_comparable);
    stoke_json_uint(&json, "files_failed_bare", bare->last.failed);
    stoke_json_uint(&json, "bad_samples", ours->last.bad_samples);
    stoke_json_uint(&json, "retries", ours->last.retries);
    cli_json_cache(&json, &ours->last.cache);
    if (b->difference.samples) {
        stoke_json_real(&json, "fast_mean_difference", b->difference.mean);
        stoke_json_uint(&json, "fast_max_difference", b->difference.most);
    }
    stoke_json_array(&json, "stages");
    for (int i = 0; i < STOKE_STAGES; i++) {
        double cpu, wall;
        stage_times(b, i, &cpu, &wall);
        stoke_json_object(&json, NULL);
        stoke_json_string(&json, "name", stoke_stage_name((stoke_stage)i));
        stoke_json_real(&json, "cpu_ms", cpu);
        stoke_json_real(&json, "wall_ms", wall);
        stoke_json_close(&json);
    }
    stoke_json_close(&json);
    if (b->n_cases > 2)
        bench_sweep_json(&json, b->cases + 2, b->n_cases - 2, b->rounds, f->decode_rate, b->workers);
    stoke_json_close(&json);
}

static void print_speed(const bench *b, const figures *f)
{
    static const char *const headings[] = { "", "samples/s", "CPU ms/sample", "threads" };
    stoke_table *table = stoke_table_create(headings, CLI_COUNT(headings));
    const double rates[] = { f->rate, f->decode_rate }, cpu[] = { f->cpu_ms, f->decode_cpu_ms };
    for (int i = 0; i < 2; i++) {
        char rate[32], ms[32], threads[32];
        snprintf(rate, sizeof rate, "%.1f", rates[i]);
        snprintf(ms, sizeof ms, "%.2f", cpu[i]);
        snprintf(threads, sizeof threads, "%u", b->workers);
        stoke_table_row(table, (const char *[]){ b->cases[i].name, rate, ms, threads });
    }
    stoke_table_print(table, stdout);
    stoke_table_destroy(&table);
    cli_print("\nratio to decode  %.2f (rounds %.2f to %.2f)\n", f->ratio, f->ratio_low, f->ratio_high);
}

/* For people: what the ops do is part of writing the row. */
static const char *stage_label(const bench *b, int stage)
{
    return stage == STOKE_STAGE_WRITE && b->augments ? "augment+write" : stoke_stage_name((stoke_stage)stage);
}

/* Returns the stage that takes most CPU time. */
static int print_stages(const bench *b)
{
    static const char *const headings[] = { "stage", "CPU ms/sample", "wall ms/sample" };
    stoke_table *table = stoke_table_create(headings, CLI_COUNT(headings));
    double most = -1;
    int longest = 0;
    for (int i = 0; i < STOKE_STAGES; i++) {
        double cpu, wall;
        char cpu_text[32], wall_text[32];
        stage_times(b, i, &cpu, &wall);
        if (i <= STOKE_STAGE_WRITE && cpu > most) most = cpu, longest = i; /* the rest are waits */
        snprintf(cpu_text, sizeof cpu_text, "%.3f", cpu);
        snprintf(wall_text, sizeof wall_text, "%.3f", wall);
        stoke_table_row(table, (const char *[]){ stage_label(b, i), cpu_text, wall_text });
    }
    putchar('\n');
    stoke_table_print(table, stdout);
    stoke_table_destroy(&table);
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
            snprintf(why, sizeof why, "%.1f of %.0f cores were had", b->cores_had, b->cores);
        else
            snprintf(why, sizeof why, "rounds differ by %.1f times", f->ratio_high / f->ratio_low);
        const char *cached = from_cache ? "; most samples came decoded out of the cache" : "";
        cli_print("this machine is too busy to tell (%s). Certain: a sample takes %.2f ms of CPU time, bare "
                  "decoding %.2f%s",
                  why, f->cpu_ms, f->decode_cpu_ms, cached);
    } else if (from_cache)
        cli_print(
            "batches are ready %.1f times as fast as bare decoding: most samples came decoded out of the "
            "cache",
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

static int any_jpeg(const stoke_dataset *dataset)
{
    for (uint64_t i = 0; i < stoke_dataset_count(dataset); i++) {
        const char *path = stoke_dataset_sample(dataset, i).image_path;
        if (cli_ends_with(path, ".jpg") || cli_ends_with(path, ".jpeg")) return 1;
    }
    return 0;
}

/* One more thing to try, each on a line of its own. */
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
        print_hint(&n,
                   decodes
                       ? "--cache DIR (on disk) or --cache-ram 4G keeps decoded samples: later epochs do not "
                         "decode, which takes most time here"
                       : "--cache DIR (on disk) or --cache-ram 4G keeps decoded samples: later epochs do not "
                         "decode");
        if (data->decode != STOKE_DECODE_FAST && data->size[0] && any_jpeg(b->dataset))
            print_hint(&n, "--decode fast shrinks JPEGs while decoding when --size is smaller");
    }
    if (stoke_data_image_dtype(data) != STOKE_DTYPE_U8)
        print_hint(&n, "--dtype u8 leaves normalising to the device");
    print_hint(&n, b->n_cases > 2
                       ? "--workers N and --prefetch N change threads and memory."
                       : "--workers N and --prefetch N change threads and memory; --sweep measures the usual "
                         "settings.");
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

static void print_people(const bench *b, const figures *f)
{
    char peak[32], planned[32];
    stoke_cores cores = stoke_machine_cores();
    cli_print("%s, batch %lld, %s; %s, %s, pixel functions %s\n\n",
              STOKE_COUNT(stoke_dataset_count(b->dataset), "sample"), (long long)b->data.batch,
              stoke_dtype_name(stoke_data_image_dtype(&b->data)), stoke_machine_cpu_name(),
              STOKE_COUNT(cores.usable, "usable core"), stoke_machine_cpu_table());
    print_speed(b, f);
    cli_print("peak memory      %s measured, %s planned\n",
              stoke_text_bytes(b->cases[0].last.peak_rss, peak, sizeof peak),
              stoke_text_bytes(b->cases[0].opened.plan.total_bytes, planned, sizeof planned));
    if (b->difference.samples)
        cli_print("fast decoding    differs from exact by %.2f of 255 levels on average, %u at most (%llu "
                  "samples)\n",
                  b->difference.mean, b->difference.most, (unsigned long long)b->difference.samples);
    cli_say_cache(b->call, &b->cases[0].last.cache);
    int longest = print_stages(b);
    if (b->n_cases > 2)
        bench_sweep_print(b->cases + 2, b->n_cases - 2, b->rounds, f->decode_rate, b->workers);
    print_meaning(b, f, longest);
}

static int run(cli_call *call)
{
    const bench_options *o = call->options;
    stoke_error err = { 0 };
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
    int r = open_set(b, &err);
    if (!r) r = measure(b, &err);
    cli_end_temp_folder(b->folder); /* before anything is printed: a closed pipe ends the program there */
    int code = r ? cli_fail(call, &err) : CLI_OK;
    if (!r) {
        figures f = summarize(b);
        if (call->common.json)
            print_json(b, &f);
        else
            print_people(b, &f);
    }
    stoke_dataset_close(&b->dataset);
    free(b);
    return code;
}

static const cli_example examples[] = {
    { "stoke bench data", "a synthetic set in a temporary folder, removed afterwards" },
    { "stoke bench data demo/data --dtype u8 --batch 32 --workers 2", "your own set, bytes out" },
    { "stoke bench data --sweep --json", "all promised figures, for a program" },
    { "stoke bench data --short", "only to see that it runs" },
    { 0 },
};

const cli_command cli_bench_data = {
    .name = "data",
    .parent = "bench",
    .summary = "speed of the loader against bare decoding",
    .arguments = "[DIR]",
    .max_words = 1,
    .description = "Measures whole epochs of the loader, in turns with bare libjpeg-turbo and libspng "
                   "decoding of the same files with "
                   "the same number of threads, each in a process of its own. Files are in the page cache. "
                   "Rates are medians over "
                   "the rounds; CPU time is of the whole process; peak memory is that of the loader's "
                   "process. Without data a "
                   "synthetic set of 512x512 scenes is made.",
    .examples = examples,
    .options = options,
    .n_options = CLI_COUNT(options),
    .options_bytes = sizeof(bench_options),
    .reads_data = 1,
    .run = run,
};
