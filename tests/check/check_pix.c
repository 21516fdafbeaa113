/* SPDX-License-Identifier: Apache-2.0
 *
 * Every entry of every function table this processor has against the C reference: random shapes, sources that
 * end at a forbidden page, outputs compared byte for byte together with the bytes around them. What an entry
 * needs and how it is called is in src/pix/trial_*.c.
 *
 *   check_pix [--seed N]     TAP, one test point per entry and table
 *   check_pix --bench        time per pixel, cycles (of the time stamp counter) and bytes per second
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <stoke/tools/pixbench.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/cpu.h"
#include "src/pix/check/check.h"

enum { ROUNDS = 300, GUARD = 64 };

_Static_assert(sizeof(stk_pix_table) % sizeof(stk_kernel_check_fn *) == 0,
               "the table holds function pointers only");

static void bail_out(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(1);
}

/* ---- memory with a fence ---- */

/* Pages with an unreadable one before and after: whoever loads past either end dies here, not in the field.
 */
typedef struct fence {
    uint8_t *base, *data;
    size_t bytes, room;
} fence;

/* `bytes` that end (at_end) or start at the fence. */
static fence fence_make(size_t bytes, int at_end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    fence f = { .bytes = bytes, .room = room + 2 * page };
    f.base = mmap(NULL, f.room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.base == MAP_FAILED || mprotect(f.base, page, PROT_NONE) ||
        mprotect(f.base + page + room, page, PROT_NONE)) {
        bail_out("no memory");
    }
    f.data = f.base + page + (at_end ? room - bytes : 0);
    return f;
}

static void fence_free(fence *f)
{
    munmap(f->base, f->room);
}

/* ---- one call in memory of ours ---- */

typedef struct fenced_call {
    stk_kernel_check_call call;
    fence source[STK_KERNEL_CHECK_SOURCES];
} fenced_call;

static void begin(fenced_call *f, const stk_kernel_check *trial, stk_kernel_check_random *r)
{
    *f = (fenced_call){ 0 };
    if (!stk_kernel_check_begin(&f->call, trial, r)) bail_out("no memory");
    for (int i = 0; i < STK_KERNEL_CHECK_SOURCES; i++) {
        if (!f->call.source[i].bytes) continue;
        f->source[i] = fence_make(f->call.source[i].bytes, (int)stk_kernel_check_below(r, 2));
        f->call.source[i].data = f->source[i].data;
    }
    trial->family->fill(&f->call, r);
}

static void run(const fenced_call *f, const stk_pix_table *table, uint8_t *out)
{
    if (f->call.in_place) memcpy(out, f->call.source[0].data, f->call.source[0].bytes);
    f->call.check->family->invoke(table, &f->call, out);
}

static void end(fenced_call *f)
{
    for (int i = 0; i < STK_KERNEL_CHECK_SOURCES; i++)
        if (f->source[i].base) fence_free(&f->source[i]);
    stk_kernel_check_end(&f->call);
}

/* ---- check ---- */

/* One random shape; returns 0 and says what differs when the bytes do. */
static int check_once(const stk_pix_table *table, const stk_kernel_check *trial, stk_kernel_check_random *r)
{
    fenced_call f;
    begin(&f, trial, r);
    /* The output starts at any element, between bytes that nobody may touch. */
    const size_t align = f.call.out_align,
                 skew = stk_kernel_check_below(r, (uint32_t)(GUARD / align)) * align;
    const size_t before = GUARD + skew, bytes = before + f.call.out_bytes + GUARD;
    const size_t room = (bytes + GUARD - 1) / GUARD * GUARD;
    uint8_t *untouched = aligned_alloc(GUARD, 3 * room), *expected = untouched + room, *got = expected + room;
    if (!untouched) bail_out("no memory");
    for (size_t i = 0; i < bytes; i++)
        untouched[i] = expected[i] = got[i] = (uint8_t)(stk_kernel_check_draw(r) >> 24);
    run(&f, &stk_pix_c, expected + before);
    run(&f, table, got + before);
    int equal = 1;
    for (size_t i = 0; i < bytes && equal; i++) {
        const int inside = i >= before && i < before + f.call.out_bytes;
        const uint8_t wanted = inside ? expected[i] : untouched[i];
        if (got[i] == wanted) continue;
        equal = 0;
        printf("# %s: %s: byte %td of %zu is %u, not %u\n", trial->name, f.call.text,
               (ptrdiff_t)i - (ptrdiff_t)before, f.call.out_bytes, got[i], wanted);
    }
    free(untouched);
    end(&f);
    return equal;
}

static int same_as_reference(const stk_pix_table *table, const stk_kernel_check *trial)
{
    return stk_kernel_check_entry(table, trial) == stk_kernel_check_entry(&stk_pix_c, trial);
}

/* The reference itself is checked, too: that it keeps to its memory. Returns the number of entries that
 * failed; *count numbers the test points. */
static int check_table(stk_cpu_level level, uint64_t seed, unsigned *count)
{
    const char *name = stk_cpu_level_name(level);
    const stk_kernel_check *trial;
    stk_pix_table table;
    if (level > stk_cpu_detected()) {
        printf("ok %u - %s # SKIP %s: not on this processor\n", ++*count, name, name);
        return 0;
    }
    stk_pix_table_fill(&table, level);
    int failed = 0;
    for (size_t i = 0; (trial = stk_kernel_check_at(i)); i++) {
        if (level > STK_CPU_C && same_as_reference(&table, trial)) continue;
        stk_kernel_check_random r = { stk_mix64(seed + i) };
        int good = 1;
        for (int round = 0; round < ROUNDS && good; round++) good = check_once(&table, trial, &r);
        failed += !good;
        printf("%s %u - %s %s\n", good ? "ok" : "not ok", ++*count, name, trial->name);
    }
    if (level == STK_CPU_C) return failed;
    printf("# %s: the C reference serves", name);
    for (size_t i = 0; (trial = stk_kernel_check_at(i)); i++)
        if (same_as_reference(&table, trial)) printf(" %s", trial->name);
    printf("\n");
    return failed;
}

/* An entry without a trial is an entry nobody checks. Returns the number of faults. */
static int check_coverage(unsigned *count)
{
    int faults = 0;
    for (size_t at = 0; at < sizeof(stk_pix_table); at += sizeof(stk_kernel_check_fn *)) {
        const stk_kernel_check *trial;
        int checks = 0;
        for (size_t i = 0; (trial = stk_kernel_check_at(i)); i++) checks += trial->offset == at;
        const int wanted = stk_kernel_check_entry(&stk_pix_c, &(stk_kernel_check){ .offset = at }) != NULL;
        if (checks == wanted) continue;
        faults++;
        printf("# pointer %zu of stk_pix_table: %d checks, not %d\n", at / sizeof(stk_kernel_check_fn *),
               checks, wanted);
    }
    printf("%s %u - every entry of the table has one trial\n", faults ? "not ok" : "ok", ++*count);
    return faults;
}

/* ---- bench ---- */

static int print_figure(void *context, const stoke_pix_figure *f)
{
    (void)context;
    if (f->state == STOKE_PIX_MEASURED)
        printf("%-20s %-7s %9.3f %9.2f %9.1f %9.1f\n", f->function, f->table, f->ns_per_pixel,
               f->ticks_per_pixel, f->speedup, f->gb_per_s);
    return 0;
}

static int bench(void)
{
    double memory;
    stoke_error err;
    printf("%-20s %-7s %9s %9s %9s %9s\n", "function", "table", "ns/pixel", "cycles", "times C", "GB/s");
    if (stoke_pix_bench(NULL, print_figure, NULL, &memory, &err)) bail_out(err.message);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = stk_now_ns();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) return bench();
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
    }
    unsigned count = 0;
    printf("# seed %llu, %d random shapes per entry\n", (unsigned long long)seed, ROUNDS);
    int failed = check_coverage(&count);
    for (stk_cpu_level level = STK_CPU_C; level <= STK_CPU_AVX512; level++)
        failed += check_table(level, seed, &count);
    printf("1..%u\n", count);
    return failed ? 1 : 0;
}
