/* SPDX-License-Identifier: Apache-2.0
 *
 * Every entry of the function table of network mathematics against the C reference: in every column this
 * processor has, and in the AVX-512 and AMX columns by emulation, which every processor with AVX2 can run.
 * Random shapes, memory between forbidden pages; results agree to rounding (net_check.h says how far).
 *
 *   check_net [--seed N] [--only TEXT]     TAP, one test point per entry and column
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/clock.h"
#include "src/base/rng.h"
#include "tests/check/net_check.h"
#include "tests/check/net_emulated.h"

enum { ROUNDS = 40 };

typedef void fill_fn(stk_net_table *table);

typedef struct column {
    const char *name;
    stk_cpu_level needs;
    int emulated;
    fill_fn *fill;
    fill_fn *below; /* of the column that this one takes its other entries from; NULL: it has all */
} column;

static void fill_c(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_C);
}

static void fill_avx2(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_AVX2);
}

static void fill_avx512(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_AVX512);
}

static void fill_amx(stk_net_table *table)
{
    stk_net_table_fill(table, STK_CPU_AMX);
}

static const column columns[] = {
    { "c", STK_CPU_C, 0, fill_c, NULL },
    { "avx2", STK_CPU_AVX2, 0, fill_avx2, fill_c },
    { "avx512", STK_CPU_AVX512, 0, fill_avx512, fill_avx2 },
    { "amx", STK_CPU_AMX, 0, fill_amx, fill_avx512 },
    { "emulated avx512", STK_CPU_AVX2, 1, net_fill_emulated_avx512, fill_c },
    { "emulated amx", STK_CPU_AVX2, 1, net_fill_emulated_amx, net_fill_emulated_avx512 },
};
enum { COLUMNS = sizeof columns / sizeof *columns };

static const net_section *const sections[] = { &net_section_gemm,      &net_section_layernorm,
                                               &net_section_depthwise, &net_section_attention,
                                               &net_section_conv,      &net_section_conv3,
                                               &net_section_head,      &net_section_loss,
                                               &net_section_update,    &net_section_peak };
enum { SECTIONS = sizeof sections / sizeof *sections };

static uint64_t seed;
static const char *only;
static unsigned points, failures;

static void point(int good, const char *column_name, const char *text)
{
    printf("%s %u - %s%s%s\n", good ? "ok" : "not ok", ++points, column_name, *column_name ? " " : "", text);
    failures += !good;
}

/* ---- coverage ---- */

typedef void entry_fn(void);

static entry_fn *entry_of(const stk_net_table *table, size_t offset)
{
    entry_fn *entry;
    memcpy(&entry, (const unsigned char *)table + offset, sizeof entry);
    return entry;
}

/* How many trials, or declarations as a number, the word of the table at `offset` has. */
static int claims(size_t offset)
{
    int found = offset == offsetof(stk_net_table, level);
    for (size_t s = 0; s < SECTIONS; s++) {
        for (size_t i = 0; i < sections[s]->count; i++) found += sections[s]->trials[i].offset == offset;
        for (size_t i = 0; i < sections[s]->number_count; i++) found += sections[s]->numbers[i] == offset;
    }
    return found;
}

/* An entry without a trial is an entry nobody checks. */
static void check_coverage(void)
{
    _Static_assert(sizeof(stk_net_table) % sizeof(entry_fn *) == 0, "the table is made of words");
    int faults = 0;
    for (size_t at = 0; at < sizeof(stk_net_table); at += sizeof(entry_fn *)) {
        const int found = claims(at);
        if (found == 1) continue;
        printf("# word %zu of stk_net_table: %d trials, not 1\n", at / sizeof(entry_fn *), found);
        faults++;
    }
    point(!faults, "", "every entry of the table has one trial");
}

/* ---- one column ---- */

static void check_entry(const column *c, const stk_net_table *reference, const stk_net_table *table,
                        const net_trial *trial)
{
    char name[96], text[128];
    snprintf(name, sizeof name, "%s %s", c->name, trial->name);
    net_try t = { .table = { reference, table }, .name = name, .random = stk_mix64(seed + trial->offset) };
    int good = 1;
    for (int round = 0; round < ROUNDS && good; round++) {
        good = trial->once(trial, &t);
        net_release(&t);
    }
    snprintf(text, sizeof text, "%s: %.2f of the tolerance", trial->name, t.worst);
    point(good, c->name, text);
}

static void check_column(const column *c)
{
    stk_net_table reference, table, below = { .level = STK_CPU_C };
    unsigned others = 0;
    fill_c(&reference);
    c->fill(&table);
    if (c->below) c->below(&below);
    for (size_t s = 0; s < SECTIONS; s++)
        for (size_t i = 0; i < sections[s]->count; i++) {
            const net_trial *trial = &sections[s]->trials[i];
            if (only && !strstr(trial->name, only)) continue;
            if (entry_of(&table, trial->offset) == entry_of(&below, trial->offset))
                others++;
            else
                check_entry(c, &reference, &table, trial);
        }
    if (others) printf("# %s: %u other entries are those of the column below\n", c->name, others);
}

int main(int argc, char **argv)
{
    seed = stk_now_ns();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
        if (!strcmp(argv[i], "--only")) only = argv[i + 1];
    }
    printf("# seed %llu, %d random shapes per entry\n", (unsigned long long)seed, ROUNDS);
    check_coverage();
    for (int i = 0; i < COLUMNS; i++) {
        const column *c = &columns[i];
        if (c->emulated && !NET_EMULATED)
            printf("ok %u - %s # SKIP emulation is built for x86-64 and without a sanitizer\n", ++points,
                   c->name);
        else if (c->needs <= stk_cpu_detected())
            check_column(c);
        else
            printf("ok %u - %s # SKIP %s: not on this processor\n", ++points, c->name, c->name);
    }
    printf("# on this processor itself:");
    for (int i = 0; i < COLUMNS; i++)
        if (!columns[i].emulated && columns[i].needs <= stk_cpu_detected()) printf(" %s", columns[i].name);
    printf("; by emulation only:");
    for (int i = 0; i < COLUMNS; i++)
        if (!columns[i].emulated && columns[i].needs > stk_cpu_detected()) printf(" %s", columns[i].name);
    printf("\n1..%u\n", points);
    return failures ? 1 : 0;
}
