/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/mem.h"

#include <stoke/common.h>
#include <stoke/tools/machine.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/base/error.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include "src/base/retry.h"

/* Below it a block of the heap does. Where a sanitizer watches all are: it does not see past the end of a
 * mapping. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define WATCHED
#endif
#endif
#if defined(WATCHED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PAGES_FROM SIZE_MAX
#else
#define PAGES_FROM HUGE_PAGE
#endif
enum { PAGE = 4096, LARGEST_PAGE = 64 << 10, HUGE_PAGE = 2 << 20 };

static _Atomic uint64_t calls;
static _Atomic int64_t fail_after = -1;

static int may_allocate(void)
{
    int64_t left = atomic_load_explicit(&fail_after, memory_order_relaxed);
    if (left >= 0 && atomic_fetch_sub(&fail_after, 1) <= 0) {
        atomic_store(&fail_after, 0);
        stk_wait_in_vain();
        return 0;
    }
    return 1;
}

static void *counted(void *pointer)
{
    if (pointer) atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return pointer;
}

/* More than the machine has does not come by waiting. */
static int may_come(size_t bytes)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages <= 0 || page <= 0 || bytes / (size_t)page < (size_t)pages;
}

/* What others hold for a moment is waited for. */
#define PATIENTLY(pointer, bytes, call)                                                                      \
    for (stoke_patience patience = { 0 };                                                                    \
         !(pointer = (call)) && may_come(bytes) && stoke_again(&patience, ENOMEM);)

void *stk_alloc(size_t bytes)
{
    void *pointer;
    if (!may_allocate()) return NULL;
    PATIENTLY(pointer, bytes, malloc(bytes ? bytes : 1));
    return counted(pointer);
}

void *stk_calloc(size_t count, size_t bytes)
{
    void *pointer;
    size_t all;
    if (!stk_mul(count, bytes, &all) || !may_allocate()) return NULL;
    PATIENTLY(pointer, all, calloc(count ? count : 1, bytes ? bytes : 1));
    return counted(pointer);
}

void *stk_realloc(void *pointer, size_t bytes)
{
    void *moved;
    if (!may_allocate()) return NULL;
    PATIENTLY(moved, bytes, realloc(pointer, bytes ? bytes : 1));
    return counted(moved);
}

char *stk_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = stk_alloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

void stk_free(void *pointer)
{
    free(pointer);
}

void *stk_alloc_aligned(size_t bytes, size_t alignment)
{
    size_t rounded;
    if (!stk_add(bytes, alignment - 1, &rounded) || !may_allocate()) return NULL;
    rounded -= rounded % alignment;
    void *pointer;
    PATIENTLY(pointer, rounded, aligned_alloc(alignment, rounded ? rounded : alignment));
    return counted(pointer);
}

/* Whole huge pages at their own addresses, or the kernel has no use for the advice. What is mapped too much
 * for that is given back at once. */
static void *map_huge(size_t bytes)
{
    size_t room;
    if (!stk_add(bytes, HUGE_PAGE, &room)) return NULL;
    char *map = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    const size_t before = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
    char *pages = map + before;
    if (before) munmap(map, before);
    if (before < HUGE_PAGE) munmap(pages + bytes, HUGE_PAGE - before);
    madvise(pages, bytes, MADV_HUGEPAGE); /* a wish: without it all is the same but slower */
    return pages;
}

/* Of any kernel: the largest pages that one has as a rule are of 64 KiB. */
static size_t whole_pages(size_t bytes)
{
    return (bytes + LARGEST_PAGE - 1) / LARGEST_PAGE * LARGEST_PAGE;
}

void *stk_alloc_pages(size_t bytes)
{
    if (bytes < PAGES_FROM) return stk_alloc_aligned(bytes, PAGE);
    if (bytes > SIZE_MAX - LARGEST_PAGE || !may_allocate()) return NULL;
    void *pages;
    PATIENTLY(pages, bytes, map_huge(whole_pages(bytes)));
    return counted(pages);
}

void stk_free_pages(void *pages, size_t bytes)
{
    if (!pages) return;
    if (bytes < PAGES_FROM)
        stk_free(pages);
    else
        munmap(pages, whole_pages(bytes));
}

static void *pages_alloc(void *context, size_t bytes, size_t alignment)
{
    return alignment <= PAGE ? stk_alloc_pages(bytes) : NULL;
}

static void pages_release(void *context, void *pointer, size_t bytes)
{
    stk_free_pages(pointer, bytes);
}

stoke_allocator stoke_allocator_pages(void)
{
    return (stoke_allocator){ pages_alloc, pages_release, NULL };
}

void stk_mem_give_back(void)
{
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

int stk_grow(void **pointer, size_t *capacity, size_t need, size_t element)
{
    if (need <= *capacity) return 1;
    size_t wanted = *capacity > SIZE_MAX / 2 ? need : *capacity * 2, bytes;
    if (wanted < need) wanted = need;
    if (wanted < 16) wanted = 16;
    if (!stk_mul(wanted, element, &bytes)) return 0;
    void *moved = stk_realloc(*pointer, bytes);
    if (!moved) return 0;
    *pointer = moved;
    *capacity = wanted;
    return 1;
}

stk_mem_counts stk_mem_count(void)
{
    return (stk_mem_counts){ .calls = atomic_load(&calls) };
}

void stk_mem_fail_after(int64_t after)
{
    atomic_store(&fail_after, after);
}

void *stk_buffer_reserve(stk_mem_buffer *buffer, size_t bytes)
{
    if (bytes <= buffer->capacity && buffer->data) return buffer->data;
    void *fresh = bytes < PAGES_FROM ? stk_alloc_aligned(bytes, 64) : stk_alloc_pages(bytes);
    if (!fresh) return NULL;
    stk_free_pages(buffer->data, buffer->capacity);
    buffer->data = fresh;
    buffer->capacity = bytes;
    return fresh;
}

void stk_buffer_free(stk_mem_buffer *buffer)
{
    stk_free_pages(buffer->data, buffer->capacity);
    *buffer = (stk_mem_buffer){ 0 };
}

int stk_mul(size_t a, size_t b, size_t *result)
{
    return !__builtin_mul_overflow(a, b, result);
}

int stk_add(size_t a, size_t b, size_t *result)
{
    return !__builtin_add_overflow(a, b, result);
}

void stoke_memory_add(stoke_memory_sum *sum, const char *name, uint64_t count, uint64_t bytes)
{
    if (!count || !bytes) return;
    if (sum->count < STOKE_MEMORY_SHARES) {
        sum->share[sum->count++] = (stoke_memory_share){ name, count, bytes };
        return;
    }
    stoke_memory_share *last = &sum->share[STOKE_MEMORY_SHARES - 1];
    *last = (stoke_memory_share){ "other", 1, last->count * last->bytes + count * bytes };
}

uint64_t stoke_memory_total(const stoke_memory_sum *sum)
{
    uint64_t total = 0;
    for (size_t i = 0; i < sum->count; i++) total += sum->share[i].count * sum->share[i].bytes;
    return total;
}

/* "586.0 MiB": each number in a unit that shows it, or 3 x 35 KiB beside 12 GiB would be nothing. */
static const char *bytes_text(double bytes, char text[static 24])
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    bytes /= 1024;
    for (double most = 50; bytes >= most && unit < 3; most = 10240) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 24, "%.1f %s", bytes, units[unit]);
    return text;
}

int stoke_memory_text(const stoke_memory_sum *sum, char *text, size_t size)
{
    const double total = (double)stoke_memory_total(sum);
    char bytes[24];
    int n = 0;
    for (size_t i = 0; i <= sum->count; i++) {
        const stoke_memory_share *share = &sum->share[i];
        const size_t at = (size_t)n < size ? (size_t)n : size;
        char *to = size ? text + at : text;
        if (i == sum->count)
            n += snprintf(to, size - at, " = %s", bytes_text(total, bytes));
        else if (share->count == 1)
            n += snprintf(to, size - at, "%s%s %s", i ? " + " : "", share->name,
                          bytes_text((double)share->bytes, bytes));
        else
            n += snprintf(to, size - at, "%s%s %llu x %s", i ? " + " : "", share->name,
                          (unsigned long long)share->count, bytes_text((double)share->bytes, bytes));
    }
    return n;
}

int stk_memory_refuse(const stoke_memory_sum *least, const char *who, const char *instead, stoke_error *err)
{
    /* What the process itself holds differs from one start to the next: by 0.3 MiB among 60. */
    enum { UNSTEADY = 3 << 17 };
    char text[768];
    const double total = (double)stoke_memory_total(least);
    const double will_do = ceil((total * 1.005 + UNSTEADY) / (1 << 20) * 10) / 10;
    stoke_memory_text(least, text, sizeof text);
    return stk_fail(err, STOKE_E_LIMIT,
                    "memory_limit is %.1f MiB, but %s at least %s. Set memory_limit to %.1fM or more, or %s",
                    STK_MIB(least->limit_bytes), who, text, will_do, instead);
}

int stoke_memory_check(const stoke_memory_sum *least, const char *who, const char *instead, stoke_error *err)
{
    if (!least->limit_bytes || stoke_memory_total(least) <= least->limit_bytes) return STOKE_OK;
    return stk_memory_refuse(least, who, instead, err);
}

void stk_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t row_bytes,
                   size_t rows)
{
    if (to_stride == row_bytes && from_stride == row_bytes) row_bytes *= rows, rows = rows > 0;
    for (size_t y = 0; y < rows; y++)
        memmove((char *)to + y * to_stride, (const char *)from + y * from_stride, row_bytes);
}

struct stk_string_arena_block {
    stk_string_arena_block *before;
    size_t used, size;
    char bytes[];
};

/* Small sets stay small, large ones waste at most one block. */
enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

static char *take(stk_string_arena *arena, size_t bytes)
{
    stk_string_arena_block *block = arena->last;
    if (!block || block->size - block->used < bytes) {
        size_t size = block ? block->size * 2 : FIRST_BLOCK;
        if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
        if (size < bytes) size = bytes;
        block = stk_alloc(sizeof *block + size);
        if (!block) return NULL;
        *block = (stk_string_arena_block){ .before = arena->last, .size = size };
        arena->last = block;
    }
    char *place = block->bytes + block->used;
    block->used += bytes;
    return place;
}

char *stk_string_arena_copy(stk_string_arena *arena, const char *text, size_t length)
{
    char *place = take(arena, length + 1);
    if (!place) return NULL;
    if (length) memcpy(place, text, length);
    place[length] = 0;
    return place;
}

char *stk_string_arena_vprint(stk_string_arena *arena, const char *format, va_list args)
{
    char text[4096];
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(text, sizeof text, format, args);
    char *kept = n < 0 ? NULL : take(arena, (size_t)n + 1);
    if (kept && (size_t)n < sizeof text)
        memcpy(kept, text, (size_t)n + 1);
    else if (kept)
        vsnprintf(kept, (size_t)n + 1, format, again);
    va_end(again);
    return kept;
}

char *stk_string_arena_print(stk_string_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *kept = stk_string_arena_vprint(arena, format, args);
    va_end(args);
    return kept;
}

void stk_string_arena_free(stk_string_arena *arena)
{
    for (stk_string_arena_block *block = arena->last, *before; block; block = before) {
        before = block->before;
        stk_free(block);
    }
    arena->last = NULL;
}
