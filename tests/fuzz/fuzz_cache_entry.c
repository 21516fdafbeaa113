/* SPDX-License-Identifier: Apache-2.0
 *
 * Cache files are anyone's: an entry of any bytes, read from a real folder. The checksums are set right
 * first, so that what lies behind them is reached; they are no defence against someone who can compute them.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "src/cache/entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const stk_cache_key key = { { 0x0102030405060708, 0x1112131415161718 } };

/* Checksums of whatever part of the body the header claims, as far as it is there. */
static void put_right(uint8_t *bytes, size_t size)
{
    stk_entry_header h;
    if (size < sizeof h) return;
    memcpy(&h, bytes, sizeof h);
    memcpy(h.key, key.word, sizeof h.key);
    const size_t body = size - sizeof h, mask = h.mask_bytes < body ? (size_t)h.mask_bytes : body;
    h.image_hash = XXH3_64bits(bytes + sizeof h, body - mask);
    h.mask_hash = XXH3_64bits(bytes + size - mask, mask);
    stk_entry_seal(&h);
    memcpy(bytes, &h, sizeof h);
}

static void remove_folder(const char *folder, const char *entry)
{
    static const char *const names[] = { "01", "tmp", "memo", "usage" };
    char path[256];
    unlink(entry);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    rmdir(folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char folder[] = "/tmp/stoke-fuzz-XXXXXX", path[256];
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy || !mkdtemp(folder)) abort();
    if (size) memcpy(copy, bytes, size);
    put_right(copy, size);
    snprintf(path, sizeof path, "%s/01", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/01/01020304050607081112131415161718.stk", folder);
    const int fd = open(path, O_WRONLY | O_CREAT, 0666);
    if (fd < 0 || write(fd, copy, size) != (ssize_t)size) abort();
    close(fd);

    stk_cache *cache;
    const stk_cache_settings settings = { .folder = folder };
    stk_cache_bench bench = { .limit = 1 << 24 };
    stk_cached got;
    if (stk_cache_open(&cache, &settings, NULL)) abort();
    const int hit = stk_cache_get(cache, key, &bench, NULL, NULL, &got);
    stk_cache_stats stats;
    stk_cache_stats_get(cache, &stats);
    if (hit && stk_cache_bench_memory(&bench) > size * 2 + 256) abort(); /* more than the file pays for */
    if (hit == (access(path, F_OK) != 0)) abort();                       /* used or removed, not both */
    if (hit + stats.damaged != 1) abort();
    stk_cache_bench_free(&bench);
    stk_cache_close(&cache);
    remove_folder(folder, path);
    free(copy);
    return 0;
}
