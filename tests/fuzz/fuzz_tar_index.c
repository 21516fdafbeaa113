/* SPDX-License-Identifier: Apache-2.0
 *
 * Index files: any bytes are refused and leave nothing behind, or give members that lie within the archive.
 * The sum would stop every change at the door, so it is also put right before a second try.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "src/source/tar.h"

static void parse(const uint8_t *bytes, size_t size, const stk_tar_stamp *stamp)
{
    stk_tar_index index = { 0 };
    int r = stk_tar_index_parse(&index, stamp, bytes, size, NULL);
    if (r && (index.count || index.members)) abort();
    for (size_t i = 0; i < index.count; i++) {
        const stk_tar_member *m = &index.members[i];
        if (m->offset > stamp->size || m->size > stamp->size - m->offset || !*m->name || *m->name == '/')
            abort();
    }
    stk_tar_close(&index);
}

FUZZ_TARGET(tar_index)
{
    stk_tar_stamp stamp = { 1 << 20, 0 };
    parse(bytes, size, &stamp);
    if (size < 48) return 0;
    uint8_t *copy = memcpy(malloc(size), bytes, size);
    memcpy(&stamp.size, copy + 16, 8); /* of a little-endian machine, as fuzzing machines are */
    memcpy(&stamp.mtime_ns, copy + 24, 8);
    const uint64_t sum = XXH3_64bits(copy, size - 8);
    memcpy(copy + size - 8, &sum, 8);
    parse(copy, size, &stamp);
    free(copy);
    return 0;
}
