/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks in a table, found by looking at all of them: there are a few hundred.
 */
#include "src/tune/batch/sim_allocator.h"

#define KB UINT64_C(1024)
#define MB (1024 * KB)
static const uint64_t ROUND = 512, SMALL = MB, SMALL_SEGMENT = 2 * MB;
static const uint64_t LARGE = 10 * MB, LARGE_SEGMENT = 20 * MB, WHOLE = 2 * MB;

void stk_sim_allocator_begin(stk_sim_allocator *paper, uint64_t limit)
{
    *paper = (stk_sim_allocator){ .limit = limit };
}

static uint64_t up_to(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* An unused line of the table. */
static int32_t new_block(stk_sim_allocator *p)
{
    for (int32_t i = 0; i < p->n; i++)
        if (!p->block[i].there) return i;
    return p->n < STK_SIM_ALLOCATOR_BLOCKS ? p->n++ : -1;
}

/* The smallest free one that is large enough. */
static int32_t best_free(const stk_sim_allocator *p, uint64_t bytes, int small)
{
    int32_t best = -1;
    for (int32_t i = 0; i < p->n; i++) {
        const stk_sim_allocator_block *b = &p->block[i];
        if (!b->there || b->used || b->small != small || b->bytes < bytes) continue;
        if (best < 0 || b->bytes < p->block[best].bytes) best = i;
    }
    return best;
}

/* Whole segments that nobody uses, back to the card. */
static void give_back(stk_sim_allocator *p)
{
    for (int32_t i = 0; i < p->n; i++) {
        stk_sim_allocator_block *b = &p->block[i];
        if (!b->there || b->used || b->before >= 0 || b->after >= 0) continue;
        b->there = 0;
        p->reserved -= b->bytes;
    }
}

static int32_t new_segment(stk_sim_allocator *p, uint64_t bytes, int small)
{
    const uint64_t size = small ? SMALL_SEGMENT : bytes < LARGE ? LARGE_SEGMENT : up_to(bytes, WHOLE);
    if (size > p->limit || p->reserved > p->limit - size) give_back(p);
    if (size > p->limit || p->reserved > p->limit - size) return -1;
    const int32_t i = new_block(p);
    if (i < 0) return -1;
    p->block[i] = (stk_sim_allocator_block){
        .bytes = size, .before = -1, .after = -1, .small = (uint8_t)small, .there = 1
    };
    p->reserved += size;
    if (p->reserved > p->peak_reserved) p->peak_reserved = p->reserved;
    return i;
}

/* What is left of a block becomes one of its own, where it is worth it. */
static void split(stk_sim_allocator *p, int32_t i, uint64_t bytes)
{
    stk_sim_allocator_block *b = &p->block[i];
    const uint64_t left = b->bytes - bytes;
    if (b->small ? left < ROUND : left <= SMALL) return;
    const int32_t k = new_block(p);
    if (k < 0) return;
    p->block[k] = (stk_sim_allocator_block){
        .bytes = left, .before = i, .after = b->after, .small = b->small, .there = 1
    };
    if (b->after >= 0) p->block[b->after].before = k;
    b->after = k;
    b->bytes = bytes;
}

int32_t stk_sim_allocator_take(stk_sim_allocator *paper, uint64_t bytes)
{
    if (bytes > UINT64_MAX / 2) return -1;
    const uint64_t size = up_to(bytes ? bytes : 1, ROUND);
    const int small = size <= SMALL;
    int32_t i = best_free(paper, size, small);
    if (i < 0) i = new_segment(paper, size, small);
    if (i < 0) return -1;
    split(paper, i, size);
    paper->block[i].used = 1;
    paper->allocated += paper->block[i].bytes;
    if (paper->allocated > paper->peak_allocated) paper->peak_allocated = paper->allocated;
    return i;
}

/* Takes the block after `i` into it. */
static void join(stk_sim_allocator *p, int32_t i)
{
    stk_sim_allocator_block *b = &p->block[i], *next = &p->block[b->after];
    b->bytes += next->bytes;
    b->after = next->after;
    if (b->after >= 0) p->block[b->after].before = i;
    next->there = 0;
}

void stk_sim_allocator_give(stk_sim_allocator *paper, int32_t handle)
{
    if (handle < 0) return;
    stk_sim_allocator_block *b = &paper->block[handle];
    paper->allocated -= b->bytes;
    b->used = 0;
    if (b->after >= 0 && !paper->block[b->after].used) join(paper, handle);
    if (b->before >= 0 && !paper->block[b->before].used) join(paper, b->before);
}
