/* SPDX-License-Identifier: Apache-2.0
 *
 * The options `bench step` and `bench net` share: what is fed to a network, and who computes it.
 */
#ifndef STOKE_CLI_LIB_NET_SHAPE_H
#define STOKE_CLI_LIB_NET_SHAPE_H

#include "cli/lib/command.h"
#include <stoke/tools/advise.h>

typedef struct cli_net_shape {
    int64_t classes; /* -1: auto */
    int64_t batch, threads;
    uint32_t size[2]; /* height, width */
} cli_net_shape;

enum { CLI_NET_CLASSES = 19 }; /* of Cityscapes: when nobody says how many */

/* The batch; of `auto` what fits here, which is said. `model` may be NULL. */
static inline uint32_t cli_net_batch(const cli_call *call, const cli_net_shape *shape, const char *model)
{
    stoke_estimate_params p = stoke_estimate_defaults();
    if (shape->batch > 0) return (uint32_t)shape->batch;
    p.model = model;
    p.height = shape->size[0];
    p.width = shape->size[1];
    const uint32_t batch = stoke_estimate_auto(&p);
    cli_say(call, "batch is auto: %u, as `stoke train` takes it here", (unsigned)batch);
    return batch;
}

/* For a table of options whose fields lie in a struct with a cli_net_shape at `base`. `auto_classes` ends the
 * sentence "auto is ...". */
/* clang-format off: it would put the members of a macro's braces one word a line */
#define CLI_NET_SHAPE_OPTIONS(base, auto_classes)                                                            \
    { .name = "classes",                                                                                     \
      .type = STOKE_OPT_AUTO_INT,                                                                            \
      .offset = (base) + offsetof(cli_net_shape, classes),                                                   \
      .default_text = "auto",                                                                                \
      .min = 1,                                                                                              \
      .max = 65535,                                                                                          \
      .argument = "N",                                                                                       \
      .help = "Number of classes; 1 is foreground against background, auto is " auto_classes },              \
        { .name = "batch",                                                                                   \
          .type = STOKE_OPT_AUTO_INT,                                                                        \
          .offset = (base) + offsetof(cli_net_shape, batch),                                                 \
          .default_text = "4",                                                                               \
          .min = 1,                                                                                          \
          .max = 65536,                                                                                      \
          .argument = "N|auto",                                                                              \
          .help = "Pictures per batch; auto is what `stoke train` takes: up to 8 that fit into this machine" }, \
        { .name = "size",                                                                                    \
          .type = STOKE_OPT_SIZE,                                                                            \
          .offset = (base) + offsetof(cli_net_shape, size),                                                  \
          .default_text = "256",                                                                             \
          .argument = "N|HxW",                                                                               \
          .help = "Size of a picture, 29x29 to 32768x32768" },                                               \
    {                                                                                                        \
        .name = "threads", .type = STOKE_OPT_INT, .offset = (base) + offsetof(cli_net_shape, threads),       \
        .default_text = "0", .min = 0, .max = 1024, .argument = "N",                                         \
        .help = "Threads; 0 takes all usable cores"                                                          \
    }
/* clang-format on */

#endif
