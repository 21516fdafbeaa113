/* SPDX-License-Identifier: Apache-2.0
 *
 * Times the checks (check.h): see <stoke/tools/pixbench.h> for what is counted.
 */
#include <stdio.h>
#include <stoke/tools/pixbench.h>
#include <string.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/base/mem.h"
#include "src/pix/check/check.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define TICKS() __rdtsc()
#else
#define TICKS() UINT64_C(0)
#endif

enum {
    TABLES = STK_CPU_AVX512 + 1,
    ALIGN = 64,
    /* A run repeats short calls until it takes 20 us: 1000 times what reading the clock does. */
    RUN_NS = 20000,
    BUDGET_NS = 60 * 1000 * 1000, /* of one function and table; about 50 calls of the slowest */
    COPY_BYTES = 64 << 20,        /* read, and as many written: together four times a cache of 32 MB */
    COPIES = 16
};

stoke_pix_bench_params stoke_pix_bench_defaults(void)
{
    return (stoke_pix_bench_params){ .struct_size = sizeof(stoke_pix_bench_params) };
}

/* One core's bandwidth in bytes per ns; 0 when memory is short. */
static double memory_bandwidth(int quick)
{
    const size_t half = quick ? COPY_BYTES / 4 : COPY_BYTES;
    uint8_t *from = stk_alloc_aligned(half, ALIGN), *to = stk_alloc_aligned(half, ALIGN);
    uint64_t best = UINT64_MAX;
    if (from && to) {
        memset(from, 1, half); /* pages that were never written are one page of zeros, in the cache */
        memset(to, 2, half);
        for (int i = 0; i < COPIES; i++) {
            uint64_t ns = stk_now_ns();
            memcpy(to, from, half);
            ns = stk_now_ns() - ns;
            from[i] = to[half - 1 - (size_t)i]; /* the copy is looked at: it cannot be left out */
            if (ns < best) best = ns;
        }
    }
    stk_free(from), stk_free(to);
    return best == UINT64_MAX ? 0 : 2.0 * (double)half / (double)(best ? best : 1);
}

/* The smallest cache that holds so many bytes. */
static const char *place_of(uint64_t bytes)
{
    static const struct {
        int key;
        const char *name;
    } caches[] = { { _SC_LEVEL1_DCACHE_SIZE, "L1" },
                   { _SC_LEVEL2_CACHE_SIZE, "L2" },
                   { _SC_LEVEL3_CACHE_SIZE, "L3" } };
    int known = 0;
    for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
        const long size = sysconf(caches[i].key);
        if (size <= 0) continue;
        known = 1;
        if (bytes <= (uint64_t)size) return caches[i].name;
    }
    return known ? "memory" : "n/a";
}

/* ---- one function ---- */

typedef struct bench_call {
    stk_kernel_check_call call;
    uint8_t *out;
    uint64_t bytes; /* moved */
    uint64_t set;   /* of different bytes: a row that is read and written over counts once */
} bench_call;

static void end(bench_call *b)
{
    for (int i = 0; i < STK_KERNEL_CHECK_SOURCES; i++) stk_free(b->call.source[i].data);
    stk_free(b->out);
    stk_kernel_check_end(&b->call);
}

/* Returns 0 when memory is short. `end` in either case. */
static int begin(bench_call *b, const stk_kernel_check *check)
{
    *b = (bench_call){ 0 };
    if (!stk_kernel_check_begin(&b->call, check, NULL)) return 0;
    b->bytes = b->call.out_bytes;
    for (int i = 0; i < STK_KERNEL_CHECK_SOURCES; i++) {
        if (!b->call.source[i].bytes) continue;
        b->bytes += b->call.source[i].bytes;
        if (!(b->call.source[i].data = stk_alloc_aligned(b->call.source[i].bytes, ALIGN))) return 0;
    }
    b->set = b->bytes - (b->call.in_place ? b->call.source[0].bytes : 0);
    if (!(b->out = stk_alloc_aligned(b->call.out_bytes, ALIGN))) return 0;
    memset(b->out, 0, b->call.out_bytes);
    check->family->fill(&b->call, &(stk_kernel_check_random){ 1 });
    return 1;
}

/* Best times of one call; how often a run repeats it. */
typedef struct best_time {
    uint64_t ns, ticks, spent, calls;
} best_time;

static void run(const bench_call *b, const stk_pix_table *table, best_time *best)
{
    if (b->call.in_place) memcpy(b->out, b->call.source[0].data, b->call.source[0].bytes);
    uint64_t ns = stk_now_ns(), ticks = TICKS();
    for (uint64_t i = 0; i < best->calls; i++) b->call.check->family->invoke(table, &b->call, b->out);
    ticks = TICKS() - ticks;
    ns = stk_now_ns() - ns;
    best->spent += ns;
    if (ns < best->ns) best->ns = ns, best->ticks = ticks;
}

/* The first calls are the warm-up, and tell how many make a run. */
static best_time warm_up(const bench_call *b, const stk_pix_table *table)
{
    best_time best = { .ns = UINT64_MAX, .calls = 1 };
    for (int i = 0; i < 3; i++) run(b, table, &best);
    const uint64_t calls = best.ns ? 1 + RUN_NS / best.ns : RUN_NS;
    return (best_time){ .ns = UINT64_MAX, .calls = calls };
}

static stoke_pix_figure figure_of(const bench_call *b, const best_time *best, const best_time *reference,
                                  double memory)
{
    const double calls = (double)best->calls, pixels = (double)b->call.pixels;
    const double ns = (double)(best->ns ? best->ns : 1) / calls;
    const double c = (double)(reference->ns ? reference->ns : 1) / (double)reference->calls;
    return (stoke_pix_figure){ .state = STOKE_PIX_MEASURED,
                               .ns_per_pixel = ns / pixels,
                               .ticks_per_pixel = (double)best->ticks / calls / pixels,
                               .speedup = c / ns,
                               .bytes = b->bytes,
                               .place = place_of(b->set),
                               .gb_per_s = (double)b->bytes / ns,
                               .memory_share = (double)b->bytes / ns / memory };
}

/* All tables, which take turns. Fills figures[TABLES]; returns 0 when memory is short. */
static int measure(const stk_kernel_check *check, int quick, double memory, stoke_pix_figure *figures)
{
    stk_pix_table table[TABLES];
    stk_kernel_check_fn *last = NULL;
    best_time best[TABLES];
    bench_call b;
    const int ready = begin(&b, check);
    for (int t = 0; t < TABLES && ready; t++) {
        figures[t].state = STOKE_PIX_ABSENT;
        if (t > (int)stk_cpu_detected()) continue;
        stk_pix_table_fill(&table[t], (stk_cpu_level)t);
        figures[t].state =
            stk_kernel_check_entry(&table[t], check) == last ? STOKE_PIX_SAME : STOKE_PIX_MEASURED;
        last = stk_kernel_check_entry(&table[t], check);
        if (figures[t].state == STOKE_PIX_MEASURED) best[t] = warm_up(&b, &table[t]);
    }
    const uint64_t budget = quick ? BUDGET_NS / 100 : BUDGET_NS;
    for (int busy = ready; busy;) {
        busy = 0;
        for (int t = 0; t < TABLES; t++) {
            if (figures[t].state != STOKE_PIX_MEASURED || best[t].spent >= budget) continue;
            run(&b, &table[t], &best[t]);
            busy = 1;
        }
    }
    for (int t = 0; t < TABLES && ready; t++) {
        if (figures[t].state == STOKE_PIX_MEASURED) figures[t] = figure_of(&b, &best[t], &best[0], memory);
        figures[t].function = check->name;
        figures[t].table = stk_cpu_level_name((stk_cpu_level)t);
    }
    end(&b);
    return ready;
}

static int check_params(stoke_pix_bench_params *p, const stoke_pix_bench_params *params, stoke_error *err)
{
    *p = stoke_pix_bench_defaults();
    if (!params) return STOKE_OK;
    if (params->struct_size != sizeof *params) return stk_fail_struct(err, "stoke_pix_bench_defaults");
    *p = *params;
    return STOKE_OK;
}

static int is_wanted(const stk_kernel_check *check, const char *only)
{
    return !only || !strncmp(check->name, only, strlen(only));
}

/* The names up to their first '_', each once: what --only takes, in a line. */
static int no_such_function(const char *only, stoke_error *err)
{
    char names[512] = "";
    size_t n = 0;
    const stk_kernel_check *check;
    for (size_t i = 0; (check = stk_kernel_check_at(i)); i++) {
        const size_t length = strcspn(check->name, "_");
        char word[64];
        snprintf(word, sizeof word, " %.*s,", (int)length, check->name);
        if (strstr(names, word) || n + strlen(word) >= sizeof names) continue;
        n += (size_t)snprintf(names + n, sizeof names - n, "%s", word);
    }
    if (n) names[n - 1] = 0;
    return stk_fail(err, STOKE_E_NOTFOUND, "no pixel function is called '%s...'; names begin with%s", only,
                    names);
}

int stoke_pix_bench(const stoke_pix_bench_params *params, stoke_pix_bench_fn each, void *context,
                    double *memory_gb_per_s, stoke_error *err)
{
    stoke_pix_bench_params p;
    int r = check_params(&p, params, err);
    if (r) return r;
    const stk_kernel_check *check;
    size_t first = 0;
    while ((check = stk_kernel_check_at(first)) && !is_wanted(check, p.only)) first++;
    if (!check) return no_such_function(p.only, err);
    const double memory = *memory_gb_per_s = memory_bandwidth(p.quick);
    if (!(memory > 0)) return stk_fail(err, STOKE_E_NOMEM, "no memory to measure its bandwidth");
    for (size_t i = first; (check = stk_kernel_check_at(i)); i++) {
        if (!is_wanted(check, p.only)) continue;
        stoke_pix_figure figures[TABLES] = { 0 };
        if (!measure(check, p.quick, memory, figures))
            return stk_fail(err, STOKE_E_NOMEM, "no memory to measure %s", check->name);
        for (int t = 0; t < TABLES; t++)
            if (each(context, &figures[t])) return stk_fail(err, STOKE_E_CANCELLED, "stopped");
    }
    return STOKE_OK;
}
