/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a file under a shard's name is the one that `pack` wrote: its length and samples are those of the
 * manifest, and every header is, to the byte, the one that pack writes for such a member.
 */
#ifndef STOKE_SRC_SOURCE_PACK_PROOF_H
#define STOKE_SRC_SOURCE_PACK_PROOF_H

#include <stddef.h>
#include <stdint.h>

/* How the line of a shard begins in a manifest; its name follows, and a quotation mark. */
#define STK_PACK_SHARD "{\"shard\": \""

/* The line of a manifest about a shard: 0 when it is not as pack writes it. */
int stk_pack_listed(const char *line, uint64_t *bytes, size_t *samples);

/* A file that cannot be read is not proved. */
int stk_pack_proved(const char *path, uint64_t bytes, size_t samples);

#endif
