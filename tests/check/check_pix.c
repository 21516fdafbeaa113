/* SPDX-License-Identifier: Apache-2.0
 *
 * Every entry of every function table this processor has against the C reference: random shapes, sources that
 * end at a forbidden page, outputs compared byte for byte together with the bytes around them.
 *
 *   check_pix [--seed N]     TAP, one test point per entry and table
 *   check_pix --bench        time per pixel, cycles (of the time stamp counter) and bytes per second
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/clock.h"
#include "src/base/cpu.h"
#include "src/base/rng.h"
#include "src/pix/axis.h"
#include "src/pix/pix_table.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#define TICKS() __rdtsc()
#else
#define TICKS() stk_now_ns()
#endif

enum { ROUNDS = 300, GUARD = 64, ROWS_MAX = 2048 };

/* ---- the entries ---- */

typedef enum kind { RESIZE_H, RESIZE_V, WRITE, WIDEN, REVERSE } kind;

typedef struct entry {
    const char *name;
    kind kind;
    unsigned channels, depth; /* of the source; reverse: depth = bytes of a pixel */
    unsigned dtype, layout;   /* write, widen */
    size_t offset;            /* of the pointer in the table */
} entry;

#define AT(member) offsetof(stk_pix_table, member)
#define WRITER(depth, bits, name, dtype)                                                                       \
    {                                                                                                          \
        "write_u" #bits "_" name "_chw", WRITE, 3, depth, dtype, STOKE_LAYOUT_CHW, AT(write_u##bits[dtype][0]) \
    },                                                                                                         \
    {                                                                                                          \
        "write_u" #bits "_" name "_hwc", WRITE, 3, depth, dtype, STOKE_LAYOUT_HWC,                             \
            AT(write_u##bits[dtype][1])                                                                        \
    }
#define WIDENER(depth, bits, name, dtype)                                                                    \
    {                                                                                                        \
        "widen_u" #bits "_" name, WIDEN, 1, depth, dtype, 0, AT(widen_u##bits[dtype])                        \
    }

static const entry entries[] = {
    { "resize_h_u8c1", RESIZE_H, 1, 1, 0, 0, AT(resize_h_u8c1) },
    { "resize_h_u8c3", RESIZE_H, 3, 1, 0, 0, AT(resize_h_u8c3) },
    { "resize_v_u8", RESIZE_V, 1, 1, 0, 0, AT(resize_v_u8) },
    { "resize_h_u16c1", RESIZE_H, 1, 2, 0, 0, AT(resize_h_u16c1) },
    { "resize_h_u16c3", RESIZE_H, 3, 2, 0, 0, AT(resize_h_u16c3) },
    { "resize_v_u16", RESIZE_V, 1, 2, 0, 0, AT(resize_v_u16) },
    WRITER(1, 8, "u8", STOKE_DTYPE_U8),
    WRITER(1, 8, "f32", STOKE_DTYPE_F32),
    WRITER(1, 8, "f16", STOKE_DTYPE_F16),
    WRITER(1, 8, "bf16", STOKE_DTYPE_BF16),
    WRITER(2, 16, "u8", STOKE_DTYPE_U8),
    WRITER(2, 16, "f32", STOKE_DTYPE_F32),
    WRITER(2, 16, "f16", STOKE_DTYPE_F16),
    WRITER(2, 16, "bf16", STOKE_DTYPE_BF16),
    WIDENER(1, 8, "u8", STOKE_DTYPE_U8),
    WIDENER(1, 8, "u16", STOKE_DTYPE_U16),
    WIDENER(1, 8, "i32", STOKE_DTYPE_I32),
    WIDENER(1, 8, "i64", STOKE_DTYPE_I64),
    WIDENER(2, 16, "u8", STOKE_DTYPE_U8),
    WIDENER(2, 16, "u16", STOKE_DTYPE_U16),
    WIDENER(2, 16, "i32", STOKE_DTYPE_I32),
    WIDENER(2, 16, "i64", STOKE_DTYPE_I64),
    { "reverse_1", REVERSE, 1, 1, 0, 0, AT(reverse_1) },
    { "reverse_2", REVERSE, 1, 2, 0, 0, AT(reverse_2) },
    { "reverse_3", REVERSE, 1, 3, 0, 0, AT(reverse_3) },
    { "reverse_6", REVERSE, 1, 6, 0, 0, AT(reverse_6) },
};
enum { ENTRIES = sizeof entries / sizeof *entries };

typedef void any_fn(void);
static any_fn *function_of(const stk_pix_table *table, const entry *e)
{
    any_fn *function;
    memcpy(&function, (const char *)table + e->offset, sizeof function);
    return function;
}

static size_t dtype_bytes(unsigned dtype)
{
    static const size_t bytes[STK_DTYPES] = { 1, 4, 2, 2, 2, 4, 8 };
    return bytes[dtype];
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
        printf("Bail out! no memory\n");
        exit(1);
    }
    f.data = f.base + page + (at_end ? room - bytes : 0);
    return f;
}

static void fence_free(fence *f)
{
    munmap(f->base, f->room);
}

/* ---- one call ---- */

/* All that an entry needs besides the output, and the size of the output. */
typedef struct call {
    const entry *entry;
    fence source;
    size_t src_stride, dst_stride, plane, n, rows, out_bytes;
    stk_axis_store axis;
    uint32_t y;
    const void *row[ROWS_MAX];
    stk_writer writer;
} call;

static void invoke(const stk_pix_table *table, const call *c, uint8_t *dst)
{
    const entry *e = c->entry;
    any_fn *f = function_of(table, e);
    const void *src = c->source.data;
    switch (e->kind) {
    case RESIZE_H:
        ((stk_resize_h_fn *)f)(dst, c->dst_stride, src, c->src_stride, (uint32_t)c->rows, &c->axis.axis);
        break;
    case RESIZE_V: ((stk_resize_v_fn *)f)(dst, c->row, c->n, &c->axis.axis, c->y); break;
    case WRITE: ((stk_write_fn *)f)(&c->writer, dst, c->plane, src, c->n); break;
    case WIDEN: ((stk_widen_fn *)f)(dst, src, c->n); break;
    case REVERSE: ((stk_reverse_fn *)f)(dst, src, c->n); break;
    }
}

/* ---- random shapes ---- */

typedef struct random_state {
    uint64_t x;
} random_state;

static uint64_t draw(random_state *r)
{
    return stk_mix64(r->x += UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t below(random_state *r, uint32_t n)
{
    return (uint32_t)stk_below(draw(r), n);
}

/* 1 .. most, small ones as likely as large ones. */
static uint32_t draw_size(random_state *r, uint32_t most)
{
    return 1 + below(r, below(r, 2) ? most : 1 + below(r, most < 40 ? most : 40));
}

/* Shapes the caller wants: width -> out pixels, `rows` rows, pad bytes between rows. skip_first and skip_last
 * leave out outputs at the ends of a horizontal axis, as strips of a large picture do. */
typedef struct shape {
    uint32_t in, out, rows, pad, skip_first, skip_last;
    int at_end;
    stoke_normalize normalize;
} shape;

static void fill_source(call *c, random_state *r)
{
    for (size_t i = 0; i < c->source.bytes; i++) c->source.data[i] = (uint8_t)(draw(r) >> 20);
    /* Now and then only extremes, where sums are largest. */
    if (below(r, 4) == 0)
        for (size_t i = 0; i < c->source.bytes; i++) c->source.data[i] = c->source.data[i] & 1 ? 255 : 0;
}

static void prepare_resize(call *c, const shape *s)
{
    const entry *e = c->entry;
    if (!stk_axis_build(&c->axis, s->in, s->out, (uint8_t)e->depth)) exit(1);
    if (e->kind == RESIZE_H) {
        stk_axis *axis = &c->axis.axis;
        axis->out -= s->skip_first + s->skip_last;
        axis->start += s->skip_first;
        axis->count += s->skip_first;
        if (axis->weight) axis->weight += (size_t)s->skip_first * axis->taps;
        if (axis->weight_f) axis->weight_f += (size_t)s->skip_first * axis->taps;
        const size_t row = (size_t)s->in * e->channels * e->depth;
        c->rows = s->rows;
        c->src_stride = row + (size_t)s->pad * e->depth;
        c->source = fence_make((c->rows - 1) * c->src_stride + row, s->at_end);
        /* u16 rows become floats, whose alignment the stride has to keep */
        c->dst_stride = ((size_t)axis->out * e->channels + s->pad) * (e->depth == 1 ? 1 : sizeof(float));
        c->out_bytes = c->rows * c->dst_stride;
    } else {
        const size_t sample = e->depth == 1 ? 1 : 4;
        c->n = s->rows * 7u + s->pad;
        c->source = fence_make(c->axis.axis.most * c->n * sample, s->at_end);
        c->out_bytes = c->n * e->depth;
    }
}

static void prepare(call *c, const entry *e, const shape *s, random_state *r)
{
    memset(c, 0, sizeof *c);
    c->entry = e;
    if (e->kind == RESIZE_H || e->kind == RESIZE_V) {
        prepare_resize(c, s);
    } else {
        c->n = s->in;
        c->plane = s->in + s->pad;
        c->source = fence_make(c->n * e->channels * e->depth, s->at_end);
        c->out_bytes = e->kind == WRITE   ? 3 * c->plane * dtype_bytes(e->dtype)
                       : e->kind == WIDEN ? c->n * dtype_bytes(e->dtype)
                                          : c->n * e->depth;
        stk_writer_init(&c->writer, (stoke_dtype)e->dtype, (stoke_layout)e->layout, s->normalize);
    }
    fill_source(c, r);
    if (e->kind != RESIZE_V) return;
    c->y = below(r, s->out);
    for (uint32_t k = 0; k < c->axis.axis.count[c->y]; k++)
        c->row[k] = c->source.data + k * c->n * (e->depth == 1 ? 1 : 4);
    if (e->depth == 2) /* rows of the u16 path are floats in 0..65535 */
        for (size_t i = 0; i < c->source.bytes / 4; i++)
            ((float *)c->source.data)[i] = (float)(draw(r) >> 40) * (65535.0f / 16777216.0f);
}

static void release(call *c)
{
    stk_buffer_free(&c->axis.buffer);
    fence_free(&c->source);
}

/* ---- check ---- */

/* One random shape; returns 0 and says what differs when the bytes do. */
static int check_once(const stk_pix_table *table, const entry *e, random_state *r)
{
    static call c;
    shape s = { .in = draw_size(r, 400),
                .out = draw_size(r, 400),
                .rows = draw_size(r, 9),
                .pad = below(r, 20),
                .at_end = (int)below(r, 2),
                .normalize = (stoke_normalize)below(r, 3) };
    if (below(r, 2)) s.skip_first = below(r, s.out);
    if (below(r, 2)) s.skip_last = below(r, s.out - s.skip_first);
    prepare(&c, e, &s, r);
    const size_t bytes = c.out_bytes + 2 * GUARD;
    uint8_t *expected = aligned_alloc(GUARD, (bytes + GUARD - 1) / GUARD * GUARD);
    uint8_t *got = aligned_alloc(GUARD, (bytes + GUARD - 1) / GUARD * GUARD);
    for (size_t i = 0; i < bytes; i++) expected[i] = got[i] = (uint8_t)(draw(r) >> 24);
    invoke(&stk_pix_c, &c, expected + GUARD);
    invoke(table, &c, got + GUARD);
    int equal = 1;
    for (size_t i = 0; i < bytes && equal; i++) {
        if (expected[i] == got[i]) continue;
        equal = 0;
        printf("# %s: %u to %u pixels without %u + %u, %u rows, pad %u: byte %td of %zu is %u, not %u\n",
               e->name, s.in, s.out, s.skip_first, s.skip_last, s.rows, s.pad, (ptrdiff_t)i - GUARD,
               c.out_bytes, got[i], expected[i]);
    }
    free(expected);
    free(got);
    release(&c);
    return equal;
}

/* Returns the number of entries that failed; *count numbers the test points. */
static int check_table(stk_cpu_level level, uint64_t seed, unsigned *count)
{
    const char *name = stk_cpu_level_name(level);
    stk_pix_table table;
    if (level > stk_cpu_detected()) {
        printf("ok %u - %s # SKIP %s: not on this processor\n", ++*count, name, name);
        return 0;
    }
    stk_pix_table_fill(&table, level);
    int failed = 0;
    for (size_t i = 0; i < ENTRIES; i++) {
        const entry *e = &entries[i];
        if (function_of(&table, e) == function_of(&stk_pix_c, e)) continue;
        random_state r = { stk_mix64(seed + i) };
        int good = 1;
        for (int round = 0; round < ROUNDS && good; round++) good = check_once(&table, e, &r);
        failed += !good;
        printf("%s %u - %s %s\n", good ? "ok" : "not ok", ++*count, name, e->name);
    }
    printf("# %s: the C reference serves", name);
    for (size_t i = 0; i < ENTRIES; i++)
        if (function_of(&table, &entries[i]) == function_of(&stk_pix_c, &entries[i]))
            printf(" %s", entries[i].name);
    printf("\n");
    return failed;
}

/* ---- bench ---- */

static void bench_entry(const stk_pix_table *table, const char *name, const entry *e)
{
    static call c;
    random_state r = { 1 };
    /* A batch row's worth: 512 x 512 pixels, resize from the 2 x larger; a vertical pass of 512 RGB pixels.
     */
    const shape s =
        e->kind == RESIZE_H ? (shape){ .in = 1024, .out = 512, .rows = 64 }
        : e->kind == RESIZE_V
            ? (shape){ .in = 1024, .out = 512, .rows = 219, .pad = 3 }
            : (shape){ .in = 512 * 512, .out = 1, .rows = 1, .normalize = STOKE_NORMALIZE_IMAGENET };
    prepare(&c, e, &s, &r);
    uint8_t *out = aligned_alloc(64, (c.out_bytes + 63) / 64 * 64);
    memset(out, 0, c.out_bytes);
    const double pixels = e->kind == RESIZE_H ? 512.0 * 64 : e->kind == RESIZE_V ? 512.0 : (double)c.n;
    const int inner = e->kind == RESIZE_V ? 64 : 1;
    uint64_t best_ns = UINT64_MAX, best_ticks = UINT64_MAX;
    for (int i = 0; i < 60; i++) {
        uint64_t ns = stk_now_ns(), ticks = TICKS();
        for (int k = 0; k < inner; k++) invoke(table, &c, out);
        ticks = TICKS() - ticks;
        ns = stk_now_ns() - ns;
        if (ns < best_ns) best_ns = ns;
        if (ticks < best_ticks) best_ticks = ticks;
    }
    const double ns = (double)best_ns / inner;
    printf("%-20s %-7s %9.3f %9.2f %9.1f\n", e->name, name, ns / pixels, (double)best_ticks / inner / pixels,
           (double)(c.source.bytes + c.out_bytes) / ns);
    free(out);
    release(&c);
}

static void bench(void)
{
    printf("%-20s %-7s %9s %9s %9s\n", "function", "table", "ns/pixel", "cycles", "GB/s");
    for (size_t i = 0; i < ENTRIES; i++) {
        any_fn *last = NULL;
        for (stk_cpu_level level = STK_CPU_C; level <= stk_cpu_detected(); level++) {
            stk_pix_table table;
            stk_pix_table_fill(&table, level);
            if (function_of(&table, &entries[i]) == last) continue;
            last = function_of(&table, &entries[i]);
            bench_entry(&table, stk_cpu_level_name(level), &entries[i]);
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = stk_now_ns();
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--bench")) {
            bench();
            return 0;
        }
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
    }
    unsigned count = 0;
    int failed = 0;
    printf("# seed %llu, %d random shapes per entry\n", (unsigned long long)seed, ROUNDS);
    for (stk_cpu_level level = STK_CPU_AVX2; level <= STK_CPU_AVX512; level++)
        failed += check_table(level, seed, &count);
    printf("1..%u\n", count);
    return failed ? 1 : 0;
}
