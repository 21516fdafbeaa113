/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of pretrained.h share: names, which files a path stands for, what they hold.
 */
#ifndef STOKE_SRC_NET_FILES_PRETRAINED_INTERNAL_H
#define STOKE_SRC_NET_FILES_PRETRAINED_INTERNAL_H

#include <stdio.h>

#include "src/net/files/pretrained.h"
#include "src/net/files/safetensors.h"

/* Any spelling of a tensor's name as Hugging Face's old one with its prefix: "stages.0.blocks.1.mlp.fc1.bias"
 * gives "segformer.encoder.block.0.1.mlp.dense1.bias". 0: no name of encoder or decode head. 1 does not mean
 * that there is such a tensor. */
int stk_pretrained_name(const char *name, char old[static STK_NAME]);
/* "encoder.block.2.17.rest": 2, 17, and a pointer to the rest; NULL when the name is not like that. */
const char *stk_pretrained_block(const char *name, unsigned *stage, unsigned *block);

/* Called for every tensor of every file that `path` stands for; what it returns ends the visit unless it is
 * STOKE_OK. One file is open at a time. */
typedef int stk_pretrained_fn(void *context, const stk_safetensors *file,
                              const stk_safetensors_tensor *tensor, stoke_error *err);
int stk_pretrained_visit(const char *path, stk_pretrained_fn *fn, void *context, stoke_error *err);

/* The members "id2label" and "label2id" of config.json; labels NULL: LABEL_0, LABEL_1, ... STOKE_E_NOMEM. */
int stk_pretrained_write_labels(FILE *out, char *const *labels, uint32_t classes);

/* stk_pretrained_config with remarks. `remark` may be NULL. */
int stk_pretrained_check(const char *path, stk_segformer_config *config, stk_remark_fn *remark, void *context,
                         stoke_error *err);

#endif
