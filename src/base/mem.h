/* SPDX-License-Identifier: Apache-2.0
 *
 * All heap memory of the library goes through here: counted, so that "no allocation in steady state" and
 * "memory under the plan" are tests, and failing on request, so that error paths are tests too.
 */
#ifndef STOKE_SRC_BASE_MEM_H
#define STOKE_SRC_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Want of memory that passes is waited for, by the rule of retry.h. */
void *stk_alloc(size_t bytes); /* uninitialised; NULL on failure; 0 bytes gives a valid pointer */
void *stk_calloc(size_t count, size_t bytes);   /* zeroed, product checked */
void *stk_realloc(void *pointer, size_t bytes); /* old block stays valid on failure */
char *stk_strdup(const char *text);
void stk_free(void *pointer);                            /* accepts NULL */
void *stk_alloc_aligned(size_t bytes, size_t alignment); /* free with stk_free */

/* Memory for batches, in pages of its own, page-aligned. It goes back to the kernel when it is freed: what it
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

/* Checked products and sums for sizes that come from files: 0 = overflow. */
int stk_mul(size_t a, size_t b, size_t *result);
int stk_add(size_t a, size_t b, size_t *result);

#endif
