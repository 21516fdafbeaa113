/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/files_seen.h"

#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "src/base/retry.h"

/* Shards hold many samples: they are asked for once in a row. */
typedef struct looker {
    stk_files_seen seen;
    int64_t since_ns;
    const char *path;
} looker;

static void look(looker *l, const stoke_blob *blob)
{
    struct stat st;
    if (!blob->path || (l->path && !strcmp(l->path, blob->path))) return;
    l->path = blob->path;
    if (stk_stat(blob->path, &st) != 0) memset(&st, 0, sizeof st);
    const int64_t what[2] = { (int64_t)st.st_size,
                              (int64_t)st.st_mtim.tv_sec * 1000000000 + (int64_t)st.st_mtim.tv_nsec };
    l->seen.digest = XXH3_64bits_withSeed(what, sizeof what, l->seen.digest);
    l->seen.count++;
    if (what[1] <= l->since_ns) return;
    if (!l->seen.newer++) l->seen.first_newer = blob->path;
}

stk_files_seen stk_files_look(const stoke_dataset *set, int64_t since_ns)
{
    looker l = { .since_ns = since_ns };
    const uint64_t count = set ? stoke_dataset_count(set) : 0;
    for (int masks = 0; masks < 2; masks++) {
        l.path = NULL;
        for (uint64_t i = 0; i < count; i++) {
            const stoke_sample sample = stoke_dataset_sample(set, i);
            look(&l, masks ? &sample.mask : &sample.image);
        }
    }
    return l.seen;
}
