/* SPDX-License-Identifier: Apache-2.0
 *
 * The statistics page as it lies in the file.
 *
 * The page is written with one pwrite and read with one pread, and mapped by neither. Memory that is mapped
 * from a file ends the process with SIGBUS when somebody cuts the file short, or when a file system that
 * copies on write has no room left for the copy: a page for onlookers must not be able to end a run of days,
 * nor the other way round. Both calls work on the same page of the kernel's cache, so it is shared memory
 * all the same; a call costs about 1 us more than a store would, against steps of milliseconds.
 *
 * The kernel does not promise that a read sees all of a write or nothing of it. So the page has a checksum:
 * a copy that is half of one write and half of another does not fit it, and is taken again. That needs no
 * order of memory between two processes, and it finds damage of any other kind too.
 *
 * The ranks of a run have a table of the same kind beside it.
 */
#ifndef STOKE_SRC_LOADER_LIVE_PAGE_H
#define STOKE_SRC_LOADER_LIVE_PAGE_H

#include <stoke/tools/live.h>

enum { STK_LIVE_PAGE = 4096 };
/* "stklive\n" in the byte order of the machine: pages do not travel. */
#define STK_LIVE_MAGIC UINT64_C(0x0a6576696c6b7473)

typedef struct stk_live_content {
    uint64_t magic;
    uint64_t checksum; /* XXH3, 64 bits, of what follows, as far as `bytes` says */
    uint64_t version;
    uint64_t bytes;       /* of `data`: less in an older page */
    uint64_t born, place; /* of the process: see live_born, live_place */
    stoke_live_data data; /* last: it grows */
} stk_live_content;

typedef union stk_live_page {
    stk_live_content content;
    char room[STK_LIVE_PAGE];
} stk_live_page;

/* `bytes` must fit. */
uint64_t stk_live_checksum(const stk_live_page *page);

/* What the first `bytes` bytes of a page say. STOKE_E_STATE: it does not fit its checksum, as in the middle
 * of a write. `path` is for messages. */
int stk_live_take(const stk_live_page *page, size_t bytes, const char *path, stoke_live_data *data,
                  stoke_error *err);

/* ---- the table beside it, of the ranks of a run ---- */

/* "stkrank\n" */
#define STK_LIVE_RANKS_MAGIC UINT64_C(0x0a6b6e61726b7473)

/* A head and `world` records of `bytes` bytes each, as long as that is in all: 184 bytes a rank. */
typedef struct stk_live_ranks_content {
    uint64_t magic;
    uint64_t checksum; /* XXH3, 64 bits, of what follows, records too */
    uint64_t version;
    uint64_t bytes; /* of a record: less in an older table */
    stoke_live_ranks_head head;
    stoke_live_rank rank[];
} stk_live_ranks_content;

/* Of `size` bytes, which is more than those before `version`. */
uint64_t stk_live_ranks_checksum(const void *table, size_t size);
/* What `size` bytes say, into ranks[world], to be freed by stk_free; as stk_live_take. `table` is aligned. */
int stk_live_ranks_take(const void *table, size_t size, const char *path, stoke_live_ranks_head *head,
                        stoke_live_rank **ranks, stoke_error *err);

/* ---- what the two share ---- */

/* A file of `size` bytes at `path`, in place of one that begins with `magic` or of none; *fd stays open for
 * writing, -1 after a failure. */
int stk_live_put(const char *path, uint64_t magic, const void *bytes, size_t size, int *fd, stoke_error *err);

#endif
