/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC-32C (Castagnoli), which TensorBoard's records carry. zlib and libdeflate have only the other one.
 */
#ifndef STOKE_SRC_REPORT_CRC32C_H
#define STOKE_SRC_REPORT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is 0 to begin with, or what the bytes before gave. */
uint32_t stk_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
