/* SPDX-License-Identifier: Apache-2.0
 *
 * bench data --sweep: the settings the project promises figures for, all in the same turns as the rest.
 */
#include <stdlib.h>
#include <math.h>
#include <stdio.h>

#include "cli/bench/bench.h"

/* ---- bench subject: decoding JPEGs whole, or only a box of half their width and height (256x256 of
 * 512x512), as a random crop needs. The bytes are in memory and one thread works: the decoder alone is
 * measured. ---- */

enum { MAX_FILES = 64, FILE_LIMIT = 64 << 20 };

typedef struct region_file {
    uint8_t *bytes;
    size_t size;
    stoke_image_info info;
} region_file;

typedef struct region_state {
    stoke_decoder *decoder;
    region_file files[MAX_FILES];
    size_t count;
    int region;
    uint32_t draw; /* where the next box is: the same sequence in every run */
} region_state;

/* Keeps the file when it is a good JPEG; what is wrong with others is verify's business. */
static void load(region_state *state, const stoke_blob *blob)
{
    region_file *file = &state->files[state->count];
    size_t capacity = 0;
    file->bytes = NULL;
    if (!cli_read_blob(blob, FILE_LIMIT, &file->bytes, &capacity, &file->size)) return;
    stoke_image out;
    stoke_decode_params params = stoke_decode_defaults();
    int r = stoke_decoder_probe(state->decoder, file->bytes, file->size, &file->info, NULL);
    if (!r && file->info.format == STOKE_FORMAT_JPEG && file->info.width > 1 && file->info.height > 1 &&
        !stoke_decoder_decode(state->decoder, file->bytes, file->size, &params, &out, NULL))
        state->count++;
    else
        free(file->bytes);
}

static int open_region(void **out, const bench_case *job, bench_answer *answer, stoke_error *err)
{
    region_state *state = *out = cli_alloc(1, sizeof *state);
    state->region = job->region;
    int r = stoke_decoder_create(&state->decoder, err);
    uint64_t n = stoke_dataset_count(job->dataset);
    for (uint64_t i = 0; i < n && state->count < MAX_FILES && !r; i++) {
        const stoke_sample sample = stoke_dataset_sample(job->dataset, i);
        load(state, &sample.image);
    }
    if (!r && !state->count) r = cli_error(err, STOKE_E_NOTFOUND, "no JPEG of the set can be decoded");
    return r;
}

static uint32_t draw(region_state *state, uint32_t below)
{
    state->draw = state->draw * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)state->draw * below >> 32);
}

static int measure_region(void *opaque, uint64_t passes, bench_answer *answer, stoke_error *err)
{
    region_state *state = opaque;
    stoke_image out;
    stoke_decode_params params = stoke_decode_defaults();
    uint64_t wall = stoke_machine_now_ns(), cpu = stoke_machine_cpu_ns();
    int r = STOKE_OK;
    for (uint64_t i = 0; i < passes * state->count && !r && !cli_interrupted(); i++) {
        const region_file *file = &state->files[i % state->count];
        uint32_t width = file->info.width / 2, height = file->info.height / 2;
        if (state->region)
            params.region = (stoke_box){ draw(state, file->info.width - width + 1),
                                         draw(state, file->info.height - height + 1), width, height };
        r = stoke_decoder_decode(state->decoder, file->bytes, file->size, &params, &out, err);
        answer->samples++;
    }
    answer->wall_ns = stoke_machine_now_ns() - wall;
    answer->cpu_ns = stoke_machine_cpu_ns() - cpu;
    return r;
}

static void close_region(void **opaque)
{
    region_state *state = *opaque;
    for (size_t i = 0; i < state->count; i++) free(state->files[i].bytes);
    stoke_decoder_destroy(&state->decoder);
    free(state);
    *opaque = NULL;
}

static const bench_subject bench_region = { open_region, measure_region, close_region };

/* ---- the settings ---- */

enum { SWEEP_SETTINGS = 8 };

typedef struct sweep_row {
    const char *name;
    const char *settings[SWEEP_SETTINGS][2]; /* option and value on top of the user's; ends with NULL */
    int64_t workers;                         /* 0 = the user's */
} sweep_row;

#define PLAIN_U8                                                                                             \
    { "dtype", "u8" }, { "augment", "none" },                                                                \
    {                                                                                                        \
        "normalize", "none"                                                                                  \
    }

static const sweep_row rows[] = {
    { "u8, no augmentation", { PLAIN_U8 }, 0 },
    { "float32, ImageNet normalised",
      { { "dtype", "f32" }, { "augment", "none" }, { "normalize", "imagenet" } },
      0 },
    { "u8, 1 worker", { PLAIN_U8 }, 1 },
    { "u8, 2 workers", { PLAIN_U8 }, 2 },
    { "float32, batch 32 of 512x512, prefetch 2, 2 workers",
      { { "dtype", "f32" },
        { "augment", "none" },
        { "normalize", "imagenet" },
        { "batch", "32" },
        { "size", "512" },
        { "prefetch", "2" } },
      2 },
};
enum { ROW_U8, ROW_F32, ROW_ONE, ROW_TWO, ROW_MEMORY, ROWS, REGION_FULL = ROWS, REGION_QUARTER };
_Static_assert(CLI_COUNT(rows) == ROWS && REGION_QUARTER + 1 == BENCH_SWEEP_CASES, "a name for every case");

int bench_has_jpeg(const stoke_dataset *dataset)
{
    for (uint64_t i = 0; i < stoke_dataset_count(dataset); i++) {
        const char *path = stoke_dataset_sample(dataset, i).image_path;
        if (cli_ends_with(path, ".jpg") || cli_ends_with(path, ".jpeg")) return 1;
    }
    return 0;
}

int bench_sweep_cases(bench_case *cases, const stoke_dataset *dataset, const stoke_data_params *base,
                      unsigned workers, size_t *count, stoke_error *err)
{
    for (int i = 0; i < ROWS; i++) {
        cases[i] =
            (bench_case){ .name = rows[i].name, .subject = &bench_loader, .dataset = dataset, .data = *base };
        cases[i].data.workers = rows[i].workers ? rows[i].workers : (int64_t)workers;
        for (int k = 0; k < SWEEP_SETTINGS && rows[i].settings[k][0]; k++) {
            int r = cli_set_data(&cases[i].data, rows[i].settings[k][0], rows[i].settings[k][1], err);
            if (r) return r;
        }
    }
    *count = ROWS;
    if (!bench_has_jpeg(dataset)) return STOKE_OK;
    cases[REGION_FULL] =
        (bench_case){ .name = "JPEG decoded whole", .subject = &bench_region, .dataset = dataset };
    cases[REGION_QUARTER] = (bench_case){ .name = "JPEG, box of half width and height",
                                          .subject = &bench_region,
                                          .dataset = dataset,
                                          .region = 1 };
    *count = BENCH_SWEEP_CASES;
    return STOKE_OK;
}

static double rate(const bench_case *cases, int i, int rounds)
{
    return bench_median(cases[i].rate, rounds);
}

/* NaN: two workers on one core tell nothing about scaling. */
static double scaling(const bench_case *cases, int rounds)
{
    return stoke_machine_cores().usable >= 2 ? rate(cases, ROW_TWO, rounds) / rate(cases, ROW_ONE, rounds)
                                             : NAN;
}

/* NaN: no JPEG is in the set. */
static double region_speedup(const bench_case *cases, size_t count, int rounds)
{
    return count == BENCH_SWEEP_CASES ? rate(cases, REGION_QUARTER, rounds) / rate(cases, REGION_FULL, rounds)
                                      : NAN;
}

void bench_sweep_print(cli_page *page, const bench_case *cases, size_t count, int rounds, double decode,
                       unsigned workers)
{
    cli_page_say(page, "\n");
    cli_page_table(page, "sweep");
    for (size_t i = 0; i < count; i++) {
        const bench_case *c = &cases[i];
        const stoke_memory_plan *plan = &c->opened.plan;
        const int loader = c->subject == &bench_loader, compared = loader && plan->workers == workers;
        const double speed = rate(cases, (int)i, rounds), cpu_ms = bench_median(c->cpu_ms, rounds);
        /* Only loaders with as many threads as bare decoding had are compared with it. */
        CLI_PAGE_ROW(page, CELL("setting", FACT_OF(c, name)),
                     CELL_REAL("samples/s", "samples_per_s", "%.1f", speed),
                     CELL_AS("to decode", FACT_IF(compared, FACT("ratio_to_decode", speed / decode)), "%.2f",
                             speed / decode),
                     CELL_REAL("CPU ms/sample", "cpu_ms_per_sample", "%.2f", cpu_ms),
                     CELL_FACT(FACT_IF(loader, FACT_OF(plan, workers))),
                     CELL_AS("peak memory", FACT_IF(loader, FACT("peak_rss_bytes", c->last.peak_rss)), "%s",
                             STOKE_MEMORY(c->last.peak_rss)),
                     CELL_AS("planned", FACT_IF(loader, FACT("planned_bytes", plan->total_bytes)), "%s",
                             STOKE_MEMORY(plan->total_bytes)));
    }
    cli_page_table_end(page);
    const double workers_2 = scaling(cases, rounds), region = region_speedup(cases, count, rounds);
    CLI_PAGE_FACTS(page, FACT("scaling_2_workers", workers_2), FACT("region_speedup", region));
    if (isnan(workers_2))
        cli_page_say(page, "\n2 workers against 1      n/a (one usable core)\n");
    else
        cli_page_say(page, "\n2 workers against 1      %.2f times\n", workers_2);
    if (isnan(region))
        cli_page_say(page, "box of a JPEG            n/a (no JPEG in the set)\n");
    else
        cli_page_say(page, "box of a JPEG            %.2f times the speed of decoding it whole\n", region);
}
