/* SPDX-License-Identifier: Apache-2.0
 *
 * Names inside shards, as WebDataset has them: the key of a sample is a member's path up to the first dot of
 * its last component, the rest is the field: a/b.mask.png has the key a/b and the field mask.png.
 *
 * Sample names may have dots, and from lists also "..", so `pack` escapes what would be read otherwise:
 * "%2E" for a dot, "%25" for a percent sign. Reading takes back exactly what packing does; a key that packing
 * would not have written stands for itself.
 */
#ifndef STOKE_SRC_SOURCE_SHARD_NAME_H
#define STOKE_SRC_SOURCE_SHARD_NAME_H

#include <stddef.h>

typedef enum stk_shard_field_role {
    STK_FIELD_OTHER,   /* json, cls, txt, depth.png: not ours */
    STK_FIELD_PICTURE, /* jpg, png, ...: the image, or the mask of one with another extension */
    STK_FIELD_IMAGE,   /* image.jpg, img.jpg */
    STK_FIELD_MASK     /* mask.png, seg.png, label.png, gt.png, ann.png */
} stk_shard_field_role;

typedef struct stk_shard_name {
    size_t key; /* length of the key, which the name begins with */
    stk_shard_field_role role;
    enum { STK_PICTURE_OTHER, STK_PICTURE_JPEG, STK_PICTURE_PNG } picture;
} stk_shard_name;

/* Takes a member's name apart. Hidden ones (a component that begins with a dot) have no role. */
stk_shard_name stk_shard_name_parse(const char *name);

/* Whether a picture looks like a mask by a folder (masks/b.png) or by all of its key (b/mask.png): as people
 * pack sets with tar, but no shard pairs them. A photograph (jpg) never does. */
int stk_shard_name_like_mask(const char *name, const stk_shard_name *parsed);

/* The key of a sample: 1, or 0 when it does not fit `size` bytes with its NUL. */
int stk_shard_key(const char *sample, char *key, size_t size);
/* And back; `sample` has room for length + 1 bytes. Returns its length. */
size_t stk_shard_sample(const char *key, size_t length, char *sample);

#endif
