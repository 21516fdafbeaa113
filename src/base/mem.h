/* SPDX-License-Identifier: Apache-2.0
 *
 * All heap memory of the library goes through here: counted, so that "no allocation in steady state" and
 * "memory under the plan" are tests, and failing on request, so that error paths are tests too.
 */
#ifndef STOKE_SRC_BASE_MEM_H
#define STOKE_SRC_BASE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stoke/common.h>
#include <stoke/memory.h>

/* Want of memory that passes is waited for, by the rule of retry.h. */
void *stk_alloc(size_t bytes); /* uninitialised; NULL on failure; 0 bytes gives a valid pointer */
void *stk_calloc(size_t count, size_t bytes);   /* zeroed, product checked */
void *stk_realloc(void *pointer, size_t bytes); /* old block stays valid on failure */
char *stk_strdup(const char *text);
void stk_free(void *pointer);                            /* accepts NULL */
void *stk_alloc_aligned(size_t bytes, size_t alignment); /* free with stk_free */

/* Memory for batches, in whole pages. It goes back to the kernel when it is freed: what it
 * costs must not depend on what the process did before. From 2 MiB on it asks for huge pages: to write 28 MB
 * for the first time added about 20 ms by pages of 4 KiB and adds about 6 (one trial each, 2 cores of an
 * EPYC, virtual). `bytes` as they were asked for. */
void *stk_alloc_pages(size_t bytes);
void stk_free_pages(void *pages, size_t bytes); /* accepts NULL */

/* Gives what was freed back to the kernel, as far as the C library can: it keeps freed blocks for each
 * thread, and memory that is counted as one thread's must not stay with another. Takes a millisecond; not for
 * every sample. */
void stk_mem_give_back(void);

/* Grows *pointer to hold `need` elements: doubles, keeps old content. Returns 0 on failure, 1 on success. */
int stk_grow(void **pointer, size_t *capacity, size_t need, size_t element);

typedef struct stk_mem_counts {
    uint64_t calls; /* successful allocations and reallocations since start */
} stk_mem_counts;
stk_mem_counts stk_mem_count(void);

/* Test hook: let `after` more allocations succeed, then fail every one; negative = never fail. Nobody
 * waits for those that fail so. */
void stk_mem_fail_after(int64_t after);

/* A buffer that only grows: worker scratch. `data` is 64-byte aligned. Large ones are pages of their own:
 * what is freed while they grow does not stay behind in the heap. */
typedef struct stk_mem_buffer {
    void *data;
    size_t capacity;
} stk_mem_buffer;
/* Makes room for `bytes`; the content is lost when it moves. NULL on failure (the old buffer stays). */
void *stk_buffer_reserve(stk_mem_buffer *buffer, size_t bytes);
void stk_buffer_free(stk_mem_buffer *buffer);

/* `rows` pieces of row_bytes bytes, `from_stride` apart, to places `to_stride` apart. May overlap where they
 * only move towards the beginning. */
void stk_copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t row_bytes,
                   size_t rows);

/* Memory is told in binary units, as cards and processes have it. */
#define STK_MIB(bytes) ((double)(bytes) / (1 << 20))
#define STK_GIB(bytes) ((double)(bytes) / (1 << 30))

/* Checked products and sums for sizes that come from files: 0 = overflow. */
int stk_mul(size_t a, size_t b, size_t *result);
int stk_add(size_t a, size_t b, size_t *result);

/* What is said where memory_limit is too low. */

/* Code of codecs and C library that is mapped when the first sample touches it, in every plan: 0.4-0.9 MB. */
enum { STK_CODE_BYTES = 1 << 20 };

/* STOKE_E_LIMIT for a sum beyond its limit. `least` is the least that will do: its terms are shown, and a
 * memory_limit that is accepted. `who` needs it ("the loader"); `instead` is what else a person can do. */
int stk_memory_refuse(const stoke_memory_sum *least, const char *who, const char *instead, stoke_error *err);

/* Strings that live as long as the dataset: a million paths in a few hundred blocks instead of a million. */

typedef struct stk_string_arena_block stk_string_arena_block;
typedef struct stk_string_arena {
    stk_string_arena_block *last;
} stk_string_arena;

/* `length` bytes of text and a NUL. NULL when there is no memory. */
char *stk_string_arena_copy(stk_string_arena *arena, const char *text, size_t length);
/* snprintf into the arena. NULL when there is no memory. */
char *stk_string_arena_print(stk_string_arena *arena, const char *format, ...) STOKE_PRINTF(2, 3);
char *stk_string_arena_vprint(stk_string_arena *arena, const char *format, va_list args);
void stk_string_arena_free(stk_string_arena *arena);

/* The smaller and the larger of two. */
static inline uint64_t stk_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
static inline uint64_t stk_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
