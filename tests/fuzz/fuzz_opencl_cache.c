/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of compiled OpenCL programs: any bytes are refused, or give a binary that lies within them and is all
 * of them but head and digest. The digest would stop every change at the door, and the key nearly every file,
 * so both are also put right before a second try.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "src/device/opencl.h"

enum { KEY_AT = 16, BINARY_AT = 40, DIGEST = 16 };

static int parse(const uint8_t *bytes, size_t size, const stk_opencl_key *key)
{
    size_t n = SIZE_MAX;
    const uint8_t *binary = stk_opencl_cache_parse(bytes, size, key, &n);
    if (!binary) return 0;
    if (binary != bytes + BINARY_AT || !n || n + STK_OPENCL_CACHE_EXTRA != size) abort();
    return 1;
}

FUZZ_TARGET(opencl_cache)
{
    stk_opencl_key key = { { 0 } };
    parse(bytes, size, &key);
    if (size <= STK_OPENCL_CACHE_EXTRA) return 0;
    uint8_t *copy = memcpy(malloc(size), bytes, size);
    memcpy(key.bytes, copy + KEY_AT, sizeof key.bytes);
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(copy, size - DIGEST));
    memcpy(copy + size - DIGEST, digest.digest, DIGEST);
    const int whole = parse(copy, size, &key);
    copy[size / 2] ^= 1; /* whatever it was, it is damaged now */
    if (whole && parse(copy, size, &key)) abort();
    free(copy);
    return 0;
}
