/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/trainer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "src/base/mem.h"
#include "src/base/retry.h"

/* Of a file, or all zeros where it cannot be asked for. */
static void ask(const char *path, int64_t what[2])
{
    struct stat st;
    if (stk_stat(path, &st) != 0) memset(&st, 0, sizeof st);
    what[0] = (int64_t)st.st_size;
    what[1] = (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec;
}

/* Shards hold many samples: they are asked for once in a row. */
typedef struct looker {
    uint64_t digest;
    const char *path;
} looker;

static void look(looker *l, const stoke_blob *blob)
{
    int64_t what[2];
    if (!blob->path || (l->path && !strcmp(l->path, blob->path))) return;
    l->path = blob->path;
    ask(blob->path, what);
    l->digest = XXH3_64bits_withSeed(what, sizeof what, l->digest);
}

uint64_t stk_files_digest(const stoke_dataset *set)
{
    looker l = { 0 };
    const uint64_t count = set ? stoke_dataset_count(set) : 0;
    for (int masks = 0; masks < 2; masks++) {
        l.path = NULL;
        for (uint64_t i = 0; i < count; i++) {
            const stoke_sample sample = stoke_dataset_sample(set, i);
            look(&l, masks ? &sample.mask : &sample.image);
        }
    }
    return l.digest;
}

/* ---- each file once ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t gather(const stoke_dataset *set, const char **paths, stk_files_newer *found)
{
    const uint64_t count = set ? stoke_dataset_count(set) : 0;
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        const stoke_sample sample = stoke_dataset_sample(set, i);
        const stoke_blob *const blobs[] = { &sample.image, &sample.mask };
        for (size_t side = 0; side < 2; side++) {
            if (!blobs[side]->path) continue;
            paths[n++] = blobs[side]->path;
            found->shards |= blobs[side]->size != UINT64_MAX;
        }
    }
    return n;
}

void stk_files_newer_than(const stoke_dataset *const *sets, size_t n, int64_t since_ns,
                          stk_files_newer *found)
{
    *found = (stk_files_newer){ 0 };
    uint64_t samples = 0;
    for (size_t i = 0; i < n; i++) samples += sets[i] ? stoke_dataset_count(sets[i]) : 0;
    const char **paths = samples ? stk_calloc((size_t)samples * 2, sizeof *paths) : NULL;
    if (!paths) return;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += gather(sets[i], paths + count, found);
    qsort(paths, count, sizeof *paths, by_text);
    for (size_t i = 0; i < count; i++) {
        int64_t what[2];
        if (i && !strcmp(paths[i], paths[i - 1])) continue;
        found->count++;
        ask(paths[i], what);
        if (what[1] > since_ns && !found->newer++) found->first = paths[i];
    }
    stk_free(paths);
}
