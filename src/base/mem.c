/* SPDX-License-Identifier: Apache-2.0 */
#include "src/base/mem.h"

#include <stoke/common.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <string.h>
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
