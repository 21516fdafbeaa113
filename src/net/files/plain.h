/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of networks that are our own, of 3x3 convolutions at full resolution: model.safetensors with the
 * names they declare, and a config.json that says what shapes do not, the task and the scale.
 */
#ifndef STOKE_SRC_NET_FILES_PLAIN_H
#define STOKE_SRC_NET_FILES_PLAIN_H

#include "src/net/files/pretrained.h"

enum { STK_PLAIN_MODULES = 4 };

typedef struct stk_plain_files {
    const char *architecture, *model_type; /* in config.json */
    const char *model;
    const char *modules[STK_PLAIN_MODULES]; /* what names of tensors begin with */
    const char *first, *last; /* weights whose outputs are base_channels, and classes times scale^2 */
    const char *block;        /* a weight of each block, with %3u for its number; NULL: it has none */
} stk_plain_files;

/* As the functions of stk_network. */
int stk_plain_name(const stk_plain_files *files, const char *given, char declared[static STK_NAME]);
int stk_plain_read(const stk_plain_files *files, const char *path, const stk_json *config_json,
                   stk_network_config *config, stoke_error *err);
void stk_plain_write_config(const stk_plain_files *files, FILE *out, const stk_network_config *config);

#endif
