/* SPDX-License-Identifier: Apache-2.0
 *
 * The function table of pixel work. pix_table.c fills every entry with the C reference, then x86/ overwrites what it
 * does faster; STOKE_CPU=c|avx2|avx512 caps it. A check (tests/check) compares every entry of every table the
 * processor has with the reference, byte for byte.
 */
#ifndef STOKE_SRC_PIX_PIX_TABLE_H
#define STOKE_SRC_PIX_PIX_TABLE_H

#include <stddef.h>
#include <stdint.h>

#endif
