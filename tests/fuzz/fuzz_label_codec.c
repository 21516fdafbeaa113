/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed class ids come from cache files: unpacking any bytes into a map of a size they choose.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/cache/entry.h"

/* The first four bytes are depth, width, height and the gap between rows; the rest is the code. What unpacks
 * must unpack to the same again after packing. */
FUZZ_TARGET(label_codec)
{
    if (size < 4) return 0;
    stoke_image map = { .width = bytes[1] + 1u, .height = bytes[2] + 1u, .channels = 1 };
    map.depth = (uint8_t)(1 + (bytes[0] & 1));
    const size_t row_bytes = (size_t)map.width * map.depth;
    map.stride = row_bytes + bytes[3] % 32;
    stoke_image again = map;
    again.stride = row_bytes;
    map.data = calloc(map.height, map.stride);
    again.data = malloc(row_bytes * map.height);
    uint8_t *packed = malloc(stk_labels_pack_bound(map.width, map.height, map.depth));
    if (map.data && again.data && packed && stk_labels_unpack(bytes + 4, size - 4, &map, NULL) == 0) {
        const size_t n = stk_labels_pack(&map, packed);
        if (stk_labels_unpack(packed, n, &again, NULL)) abort();
        for (uint32_t y = 0; y < map.height; y++)
            if (memcmp((char *)map.data + y * map.stride, (char *)again.data + y * row_bytes, row_bytes))
                abort();
    }
    free(packed);
    free(again.data);
    free(map.data);
    return 0;
}
