/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled OpenCL programs on disk, one file a program and device: opencl-KEY.bin. Only a shortcut: whatever
 * is not exactly as it was written is passed over and made again. No OpenCL in here.
 *
 * Little-endian:
 *   16 bytes  "stoke-opencl-1\n" and a zero
 *   16 bytes  key
 *   u64       bytes of the binary
 *   binary
 *   16 bytes  XXH3-128 of all that stands before
 */
#ifndef STOKE_SRC_DEVICE_OPENCL_CACHE_H
#define STOKE_SRC_DEVICE_OPENCL_CACHE_H

#include "src/base/mem.h"

enum { STK_OPENCL_KEY = 16, STK_OPENCL_CACHE_EXTRA = 56 /* bytes of a file besides the binary */ };

typedef struct stk_opencl_key {
    uint8_t bytes[STK_OPENCL_KEY];
} stk_opencl_key;

/* XXH3-128 of the parts, each with its length, so that no two lists of parts run together alike. 0: no
 * memory. */
int stk_opencl_key_of(stk_opencl_key *key, const char *const *parts, size_t n_parts);

/* The binary within the bytes of a file; NULL: damaged, of another version or another key. */
const void *stk_opencl_cache_parse(const void *file, size_t file_bytes, const stk_opencl_key *key,
                                   size_t *bytes);

/* Where compiled programs are kept: `wanted`, by default $XDG_CACHE_HOME/stokehold or ~/.cache/stokehold.
 * From the heap; NULL: nowhere ("" was wanted, nobody has a home, no memory). */
char *stk_opencl_cache_folder(const char *wanted);
/* "FOLDER/opencl-KEY.SUFFIX" from the heap; NULL: no memory. */
char *stk_opencl_cache_path(const char *folder, const stk_opencl_key *key, const char *suffix);

/* Reads a program into the buffer. A binary is code that the driver will run: only a regular file of this
 * user's that not everybody may write is taken. NULL: there is none that could be used. */
const void *stk_opencl_cache_read(const char *folder, const stk_opencl_key *key, stk_mem_buffer *buffer,
                                  size_t *bytes);
/* Makes the folder and its marker. 0: it cannot be written, or is somebody else's; nothing is kept then. */
int stk_opencl_cache_make(const char *folder);
/* Makes the folder and writes the file, whole or not at all. 0: it could not, which costs a compilation next
 * time and nothing else. */
int stk_opencl_cache_write(const char *folder, const stk_opencl_key *key, const void *binary, size_t bytes);

#endif
