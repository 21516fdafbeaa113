/* SPDX-License-Identifier: Apache-2.0
 *
 * The headers of an archive that is the same whoever writes it, and whenever: ustar, mode 0644, no owner, no
 * time. A pax header stands before names and sizes that ustar has no room for.
 */
#ifndef STOKE_SRC_SOURCE_TAR_WRITE_H
#define STOKE_SRC_SOURCE_TAR_WRITE_H

#include "src/source/tar.h"

enum {
    /* a pax header, its records (a name of PATH_MAX at most) and the member's own header */
    STK_TAR_HEAD_BYTES = 2 * STK_TAR_BLOCK + STK_TAR_NAME + 2 * STK_TAR_BLOCK,
    STK_TAR_END_BYTES = 2 * STK_TAR_BLOCK
};

/* Writes what stands before a member's bytes. Returns its length, a number of blocks; 0 when the name is
 * longer than STK_TAR_NAME - 1. */
size_t stk_tar_write_head(const char *name, uint64_t size, uint8_t head[STK_TAR_HEAD_BYTES]);

/* Zeros between the end of a member of `size` bytes and the next header. */
static inline size_t stk_tar_padding(uint64_t size)
{
    return (size_t)(-size % STK_TAR_BLOCK);
}

#endif
