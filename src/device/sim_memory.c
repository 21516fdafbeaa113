/* SPDX-License-Identifier: Apache-2.0 */
#include "src/device/sim.h"

#include <inttypes.h>

#include "src/base/error.h"
#include "src/base/mem.h"

/* The allocator's own constants. */
static const uint64_t least_bytes = 512;
static const uint64_t small_bytes = UINT64_C(1) << 20; /* the largest small one */
static const uint64_t small_segment = UINT64_C(2) << 20;
static const uint64_t large_bytes = UINT64_C(10) << 20; /* from here on a separate segment */
static const uint64_t large_segment = UINT64_C(20) << 20;
static const uint64_t large_unit = UINT64_C(2) << 20;
static const uint64_t first_address = UINT64_C(0x700000000000);

/* A part of a segment, in use or free; the pieces of a segment lie in a row. */
struct stk_sim_piece {
    uint64_t address, bytes;
    int used, is_small;
    stk_sim_piece *before, *behind; /* in the segment */
    stk_sim_piece *next_segment;    /* of the first piece */
};

void stk_sim_memory_init(stk_sim_memory *m, uint64_t capacity)
{
    *m = (stk_sim_memory){ .capacity = capacity,
                           .context = STK_SIM_CONTEXT_BYTES,
                           .next_address = first_address };
}

void stk_sim_memory_free(stk_sim_memory *m)
{
    for (stk_sim_piece *next, *first = m->segments; first; first = next) {
        next = first->next_segment;
        for (stk_sim_piece *behind, *piece = first; piece; piece = behind) {
            behind = piece->behind;
            stk_free(piece);
        }
    }
    *m = (stk_sim_memory){ 0 };
}

uint64_t stk_piece_address(const stk_sim_piece *piece)
{
    return piece->address;
}

uint64_t stk_sim_memory_left(const stk_sim_memory *m)
{
    const uint64_t taken = m->context + m->reserved;
    return taken < m->capacity ? m->capacity - taken : 0;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* An upload has some ten blocks: walking all of them is as quick as any tree. */
static stk_sim_piece *best_free(const stk_sim_memory *m, uint64_t rounded, int is_small)
{
    stk_sim_piece *best = NULL;
    for (stk_sim_piece *first = m->segments; first; first = first->next_segment) {
        if (first->is_small != is_small) continue;
        for (stk_sim_piece *p = first; p; p = p->behind)
            if (!p->used && p->bytes >= rounded && (!best || p->bytes < best->bytes)) best = p;
    }
    return best;
}

/* Gives segments in which nothing is in use back to the card. */
static void flush(stk_sim_memory *m)
{
    stk_sim_piece **link = &m->segments;
    m->flushes++;
    while (*link) {
        stk_sim_piece *first = *link;
        if (first->used || first->behind) {
            link = &first->next_segment;
            continue;
        }
        *link = first->next_segment;
        m->reserved -= first->bytes;
        stk_free(first);
    }
}

/* A new segment as one free piece; NULL: the host has no memory for the note of it. */
static stk_sim_piece *take_segment(stk_sim_memory *m, uint64_t bytes, int is_small)
{
    stk_sim_piece *piece = stk_calloc(1, sizeof *piece);
    if (!piece) return NULL;
    *piece = (stk_sim_piece){
        .address = m->next_address, .bytes = bytes, .is_small = is_small, .next_segment = m->segments
    };
    m->segments = piece;
    m->next_address += bytes;
    m->reserved += bytes;
    if (m->reserved > m->peak_reserved) m->peak_reserved = m->reserved;
    return piece;
}

/* The rest becomes a free piece, if it is worth keeping. 0: no memory for the note of it. */
static int cut(stk_sim_piece *piece, uint64_t rounded)
{
    const uint64_t rest = piece->bytes - rounded;
    if (piece->is_small ? rest < least_bytes : rest <= small_bytes) return 1;
    stk_sim_piece *behind = stk_calloc(1, sizeof *behind);
    if (!behind) return 0;
    *behind = (stk_sim_piece){ .address = piece->address + rounded,
                               .bytes = rest,
                               .is_small = piece->is_small,
                               .before = piece,
                               .behind = piece->behind };
    if (piece->behind) piece->behind->before = behind;
    piece->behind = behind;
    piece->bytes = rounded;
    return 1;
}

static uint64_t mib(uint64_t bytes)
{
    return (bytes + (1 << 20) - 1) >> 20;
}

static int fail_full(const stk_sim_memory *m, uint64_t bytes, uint64_t wanted, const char *card,
                     stoke_error *err)
{
    uint64_t largest = 0;
    for (const stk_sim_piece *first = m->segments; first; first = first->next_segment)
        for (const stk_sim_piece *p = first; p; p = p->behind)
            if (!p->used && p->bytes > largest) largest = p->bytes;
    return stk_fail(
        err, STOKE_E_NOMEM,
        "%s (emulated) is out of memory: %" PRIu64 " MiB were asked for, which takes a segment of %" PRIu64
        " MiB, and %" PRIu64 " MiB are left of %" PRIu64 " MiB: %" PRIu64
        " MiB the driver's context, %" PRIu64 " MiB in use, %" PRIu64
        " MiB kept in pieces between them (largest %" PRIu64
        " MiB); take a smaller batch or picture, fewer batches ahead (depth), or a card with more memory",
        card, mib(bytes), mib(wanted), mib(stk_sim_memory_left(m)), mib(m->capacity), mib(m->context),
        mib(m->allocated), mib(m->reserved - m->allocated), mib(largest));
}

int stk_sim_memory_take(stk_sim_memory *m, uint64_t bytes, const char *card, stk_sim_piece **out,
                        stoke_error *err)
{
    *out = NULL;
    if (bytes > m->capacity) return fail_full(m, bytes, bytes, card, err); /* so that rounding cannot wrap */
    const uint64_t rounded = bytes ? round_up(bytes, least_bytes) : least_bytes;
    const int is_small = rounded <= small_bytes;
    stk_sim_piece *piece = best_free(m, rounded, is_small);
    if (!piece) {
        const uint64_t wanted = is_small                ? small_segment
                                : rounded < large_bytes ? large_segment
                                                        : round_up(rounded, large_unit);
        if (wanted > stk_sim_memory_left(m)) flush(m);
        if (wanted > stk_sim_memory_left(m)) return fail_full(m, bytes, wanted, card, err);
        piece = take_segment(m, wanted, is_small);
    }
    if (!piece || !cut(piece, rounded))
        return stk_fail(err, STOKE_E_NOMEM, "out of memory for a block of %s (emulated)", card);
    piece->used = 1;
    m->allocated += piece->bytes;
    if (m->allocated > m->peak_allocated) m->peak_allocated = m->allocated;
    *out = piece;
    return STOKE_OK;
}

/* `piece` swallows the one behind it. */
static void join(stk_sim_piece *piece)
{
    stk_sim_piece *gone = piece->behind;
    piece->bytes += gone->bytes;
    piece->behind = gone->behind;
    if (gone->behind) gone->behind->before = piece;
    stk_free(gone);
}

void stk_sim_memory_give(stk_sim_memory *m, stk_sim_piece *piece)
{
    piece->used = 0;
    m->allocated -= piece->bytes;
    if (piece->behind && !piece->behind->used) join(piece);
    if (piece->before && !piece->before->used) join(piece->before);
}
