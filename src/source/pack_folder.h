/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder `pack` writes into: whose it is, what an earlier run left there, and the manifest that tells.
 */
#ifndef STOKE_SRC_SOURCE_PACK_FOLDER_H
#define STOKE_SRC_SOURCE_PACK_FOLDER_H

#include <limits.h>

#include "src/source/pack_plan.h"

typedef struct stk_pack_folder {
    const char *path;
    int fd;            /* holds the lock; -1 = not open */
    uint64_t replaced; /* shards that were removed for new ones */
} stk_pack_folder;

/* Makes the folder, locks it, and makes it fit for the plan: the manifest says what will be written, and no
 * shard is there that it does not describe. STOKE_E_STATE when another set, other settings or other sources
 * were packed here, or the folder is somebody else's; with force, what was packed here before is removed. A
 * file that stands under the name of such a shard and is not the one is never removed: STOKE_E_STATE. */
int stk_pack_folder_open(stk_pack_folder *folder, const stk_pack_plan *plan, const stoke_pack_params *params,
                         stoke_error *err);
void stk_pack_folder_close(stk_pack_folder *folder);

/* Path of a file in the folder; 0 when it is too long. */
int stk_pack_path(const stk_pack_folder *folder, const char *name, char path[PATH_MAX]);

#endif
