/* SPDX-License-Identifier: Apache-2.0
 *
 * Archives: any bytes give members that lie within them, in rising order and with clean names, or an error
 * that names the archive.
 */
#include "tests/fuzz/fuzz.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "src/source/shard_name.h"
#include "src/source/tar.h"

static void check_member(const stk_tar_member *m, size_t size)
{
    char copy[STK_TAR_NAME], sample[STK_TAR_NAME];
    if (m->offset > size || m->size > size - m->offset || m->offset % STK_TAR_BLOCK) abort();
    if (strlen(m->name) >= STK_TAR_NAME) abort();
    strcpy(copy, m->name);
    if (stk_tar_clean_name(copy) || strcmp(copy, m->name) != 0) abort();
    const stk_shard_name name = stk_shard_name_parse(m->name);
    if (name.key > strlen(m->name)) abort();
    if (stk_shard_sample(m->name, name.key, sample) > name.key) abort();
}

FUZZ_TARGET(tar)
{
    stk_tar_index index = { 0 };
    stoke_error err = { 0 };
    const stk_tar_input input = stk_tar_memory("fuzz.tar", bytes, size);
    int r = stk_tar_scan(&index, &input, &err);
    if (r && strncmp(err.message, "fuzz.tar: ", 10) != 0) abort();
    if (index.count > size / STK_TAR_BLOCK) abort();
    for (size_t i = 0; i < index.count; i++) {
        check_member(&index.members[i], size);
        if (i && index.members[i].offset < index.members[i - 1].offset + index.members[i - 1].size) abort();
    }
    stk_tar_close(&index);
    return 0;
}
