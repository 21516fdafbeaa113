/* SPDX-License-Identifier: Apache-2.0 */
#include "src/source/pack_proof.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/retry.h"
#include "src/source/tar_index.h"
#include "src/source/tar_write.h"

int stk_pack_listed(const char *line, uint64_t *bytes, size_t *samples)
{
    unsigned long long number;
    const char *name = line + strlen(STK_PACK_SHARD);
    if (strncmp(line, STK_PACK_SHARD, strlen(STK_PACK_SHARD)) != 0) return 0;
    if (sscanf(name + strcspn(name, "\"\n"), "\", \"samples\": %zu, \"bytes\": %llu", samples, &number) != 2)
        return 0;
    *bytes = number;
    return 1;
}

/* Member behind member, without a gap, up to the end of the archive. */
static int headers_are_ours(int fd, const stk_tar_index *index, uint64_t bytes)
{
    uint8_t wanted[STK_TAR_HEAD_BYTES], found[STK_TAR_HEAD_BYTES];
    uint64_t at = 0;
    for (size_t i = 0; i < index->count; i++) {
        const stk_tar_member *member = &index->members[i];
        const size_t n = stk_tar_write_head(member->name, member->size, wanted);
        if (!n || at + n != member->offset || stk_pread(fd, found, n, at) || memcmp(found, wanted, n) != 0)
            return 0;
        at = member->offset + member->size + stk_tar_padding(member->size);
    }
    return at + STK_TAR_END_BYTES == bytes;
}

int stk_pack_proved(const char *path, uint64_t bytes, size_t samples)
{
    struct stat st;
    stk_tar_index index = { 0 };
    const int fd = stk_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0); /* no waiting for a pipe */
    if (fd < 0) return 0;
    int proved = stk_fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
    if (proved) {
        const stk_tar_input input = stk_tar_file(path, fd, bytes);
        proved = stk_tar_scan(&index, &input, NULL) == 0 && index.count >= samples &&
                 index.count <= 2 * samples && headers_are_ours(fd, &index, bytes);
    }
    stk_tar_close(&index);
    close(fd);
    return proved;
}
