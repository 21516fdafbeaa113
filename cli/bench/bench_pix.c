/* SPDX-License-Identifier: Apache-2.0
 *
 * stoke bench pix: every pixel function for every CPU table of this processor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/lib/page.h"

typedef struct pix_options {
    const char *only;
    int short_run;
} pix_options;

#define OPTIONS pix_options
static const stoke_option options[] = {
    CLI_TEXT(STRING, only, NULL, "NAME", "Only functions that begin with NAME, e.g. write_u8"),
    CLI_SHORT("A fraction of a second in all, to see that it runs; its figures mean little"),
};

typedef struct figures {
    stoke_pix_figure *figure;
    size_t count, capacity;
    double memory_gb_per_s;
    stoke_progress *progress;
} figures;

static int take(void *context, const stoke_pix_figure *figure)
{
    figures *f = context;
    f->figure = cli_grow(f->figure, &f->capacity, f->count + 1, sizeof *f->figure);
    f->figure[f->count++] = *figure;
    return cli_progress_update(f->progress, f->count, 0);
}

/* A table that this processor lacks; told by the first function. */
static int is_absent(const figures *f, size_t i)
{
    return f->figure[i].state == STOKE_PIX_ABSENT && !strcmp(f->figure[i].function, f->figure[0].function);
}

/* The function this processor uses: the last of its name that was measured. */
static int is_used(const figures *f, size_t i)
{
    if (f->figure[i].state != STOKE_PIX_MEASURED) return 0;
    for (size_t k = i + 1; k < f->count && !strcmp(f->figure[k].function, f->figure[i].function); k++)
        if (f->figure[k].state == STOKE_PIX_MEASURED) return 0;
    return 1;
}

/* Slow per pixel and not held up by memory: where work on a function would pay. */
static void print_meaning(const figures *f)
{
    enum { NAMED = 3 };
    const stoke_pix_figure *slow[NAMED] = { 0 };
    double *times = cli_alloc(f->count, sizeof *times);
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (!is_used(f, i)) continue;
        const stoke_pix_figure *p = &f->figure[i];
        times[n++] = p->speedup;
        for (int k = 0; k < NAMED && p; k++) {
            if (slow[k] && p->ns_per_pixel <= slow[k]->ns_per_pixel) continue;
            const stoke_pix_figure *pushed = slow[k];
            slow[k] = p;
            p = pushed;
        }
    }
    bench_sort(times, n);
    cli_print("\nWhat it means: of %s, those this processor uses are %.1f times as fast as C (the one in the "
              "middle).\nMost time per pixel:",
              STOKE_COUNT(n, "function"), n ? times[n / 2] : 0);
    for (int k = 0; k < NAMED && slow[k]; k++)
        cli_print("%s %s %.2f ns (%.1f times C, %.0f %% of memory)", k ? "," : "", slow[k]->function,
                  slow[k]->ns_per_pixel, slow[k]->speedup, 100 * slow[k]->memory_share);
    puts(".");
    free(times);
}

static void print_functions(cli_page *page, const figures *f)
{
    cli_page_table(page, "functions");
    for (size_t i = 0; i < f->count; i++) {
        const stoke_pix_figure *p = &f->figure[i];
        if (p->state != STOKE_PIX_MEASURED) continue;
        CLI_PAGE_ROW(page, CELL("function", FACT("name", p->function)), CELL("table", FACT_OF(p, table)),
                     CELL_OF("ns/pixel", p, ns_per_pixel, "%.3f"),
                     CELL_FACT(FACT_IF(p->ticks_per_pixel > 0, FACT_OF(p, ticks_per_pixel))),
                     CELL_OF("times C", p, speedup, "%.1f"), CELL_OF("GB/s", p, gb_per_s, "%.1f"),
                     CELL_AS("of memory", FACT_OF(p, memory_share), "%.0f %%", 100 * p->memory_share),
                     CELL_AS("bytes", FACT_OF(p, bytes), "%s", STOKE_BYTES(p->bytes)),
                     CELL("in", FACT_OF(p, place)));
    }
    cli_page_table_end(page);
}

static void print(const cli_call *call, const figures *f)
{
    cli_page about, *page = &about;
    cli_page_begin(page, call->common.json);
    CLI_PAGE_FACTS(page, FACT("cpu", stoke_machine_cpu_name()),
                   FACT("pixel_functions", stoke_machine_cpu_table()), FACT_OF(f, memory_gb_per_s));
    cli_page_say(page, "%s; one core copies memory at %.1f GB/s (read + written)\n\n",
                 stoke_machine_cpu_name(), f->memory_gb_per_s);
    print_functions(page, f);
    cli_page_say(page, "\n");
    cli_page_list(page, "tables_not_measured", NULL);
    for (size_t i = 0; i < f->count; i++) {
        if (!is_absent(f, i)) continue;
        if (page->as_json) stoke_json_string(&page->json, NULL, f->figure[i].table);
        cli_page_say(page, "Not measured: %s (not on this processor).\n", f->figure[i].table);
    }
    cli_page_close(page);
    cli_page_say(page,
                 "A table without a line uses the line above. `of memory`: bytes moved, as a share of what "
                 "one core copies; above 100 %%\nthey came from the cache named in the last column. A low "
                 "share of a slow function is room to gain.\n");
    if (!page->as_json) print_meaning(f);
    cli_page_end(page);
}

static int run(cli_call *call, stoke_error *err)
{
    const pix_options *o = call->options;
    stoke_pix_bench_params params = stoke_pix_bench_defaults();
    params.only = o->only;
    params.quick = o->short_run;
    figures f = { .progress = cli_progress_begin(call, "measuring", "figures") };
    int r = stoke_pix_bench(&params, take, &f, &f.memory_gb_per_s, err);
    stoke_progress_destroy(&f.progress);
    if (r == STOKE_E_NOTFOUND) err->code = STOKE_E_INVALID; /* what the user wrote, not a file */
    if (!r) print(call, &f);
    free(f.figure);
    return r;
}

const cli_command cli_bench_pix = {
    .summary = "speed of every pixel function, against C and against memory",
    .description =
        "Times every function of the pixel function table, for every CPU table this processor has (whatever "
        "STOKE_CPU says): time per pixel, speed over the C reference, bytes moved per second, and these as a "
        "share of what one core copies from memory to memory in the same run. A call works on a batch row of "
        "512x512 pixels or a strip of it; the best run counts.",
    .examples = {
        { "stoke bench pix", "all functions" },
        { "stoke bench pix --only resize", "only those of the resize" },
        { "stoke bench pix --json", "for a program" },
    },
    CLI_OWN_OPTIONS_AND_RUN,
};
