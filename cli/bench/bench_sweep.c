/* SPDX-License-Identifier: Apache-2.0
 *
 * bench data --sweep: the settings the project promises figures for, all in the same turns as the rest.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/lib/facts.h"

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

/* Region decode is measured on JPEGs; a set without any has no such figure. */
static int has_jpeg(const stoke_dataset *dataset)
{
    uint64_t n = stoke_dataset_count(dataset);
    for (uint64_t i = 0; i < n; i++) {
        const char *dot = strrchr(stoke_dataset_sample(dataset, i).image_path, '.');
        if (dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg"))) return 1;
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
    if (!has_jpeg(dataset)) return STOKE_OK;
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

/* Two workers on one core tell nothing about scaling. */
static int scaling_known(void)
{
    return stoke_machine_cores().usable >= 2;
}

/* Only loaders with as many threads as bare decoding had are compared with it. */
static int comparable(const bench_case *c, unsigned workers)
{
    return c->subject == &bench_loader && c->opened.plan.workers == workers;
}

void bench_sweep_print(const bench_case *cases, size_t count, int rounds, double decode, unsigned workers)
{
    stoke_table *table =
        CLI_TABLE("setting", "samples/s", "to decode", "CPU ms/sample", "peak memory", "planned");
    for (size_t i = 0; i < count; i++) {
        const bench_case *c = &cases[i];
        int loader = c->subject == &bench_loader;
        const double speed = rate(cases, (int)i, rounds);
        char ratio[32] = "n/a", peak[32] = "n/a", planned[32] = "n/a";
        if (comparable(c, workers)) snprintf(ratio, sizeof ratio, "%.2f", speed / decode);
        if (loader) {
            stoke_text_bytes(c->last.peak_rss, peak, sizeof peak);
            stoke_text_bytes(c->opened.plan.total_bytes, planned, sizeof planned);
        }
        cli_row(table, "%s\t%.1f\t%s\t%.2f\t%s\t%s", c->name, speed, ratio, bench_median(c->cpu_ms, rounds),
                peak, planned);
    }
    putchar('\n');
    cli_table_end(table);
    putchar('\n');
    if (scaling_known())
        cli_print("2 workers against 1      %.2f times\n",
                  rate(cases, ROW_TWO, rounds) / rate(cases, ROW_ONE, rounds));
    else
        puts("2 workers against 1      n/a (one usable core)");
    if (count == BENCH_SWEEP_CASES)
        cli_print("box of a JPEG            %.2f times the speed of decoding it whole\n",
                  rate(cases, REGION_QUARTER, rounds) / rate(cases, REGION_FULL, rounds));
    else
        puts("box of a JPEG            n/a (no JPEG in the set)");
}

void bench_sweep_json(stoke_json *json, const bench_case *cases, size_t count, int rounds, double decode,
                      unsigned workers)
{
    stoke_json_array(json, "sweep");
    for (size_t i = 0; i < count; i++) {
        const bench_case *c = &cases[i];
        const int loader = c->subject == &bench_loader;
        FACTS_OBJECT(
            json, NULL, FACT_OF(c, name), FACT("samples_per_s", rate(cases, (int)i, rounds)),
            FACT("cpu_ms_per_sample", bench_median(c->cpu_ms, rounds)),
            FACT_IF(comparable(c, workers), FACT("ratio_to_decode", rate(cases, (int)i, rounds) / decode)),
            FACT_IF(loader, FACT_OF(&c->opened.plan, workers)),
            FACT_IF(loader, FACT("peak_rss_bytes", c->last.peak_rss)),
            FACT_IF(loader, FACT("planned_bytes", c->opened.plan.total_bytes)));
    }
    stoke_json_close(json);
    FACTS(json,
          FACT("scaling_2_workers",
               scaling_known() ? rate(cases, ROW_TWO, rounds) / rate(cases, ROW_ONE, rounds) : NAN),
          FACT("region_speedup", count == BENCH_SWEEP_CASES
                                     ? rate(cases, REGION_QUARTER, rounds) / rate(cases, REGION_FULL, rounds)
                                     : NAN));
}
