/* SPDX-License-Identifier: Apache-2.0
 *
 * The options `bench step` and `bench net` share: what is fed to a network, and who computes it.
 */
#ifndef STOKE_CLI_LIB_NET_SHAPE_H
#define STOKE_CLI_LIB_NET_SHAPE_H

#include "cli/lib/command.h"

typedef struct cli_net_shape {
    int64_t classes; /* -1: auto */
    int64_t batch, threads;
    uint32_t size[2]; /* height, width */
} cli_net_shape;

enum { CLI_NET_CLASSES = 19 }; /* of Cityscapes: when nobody says how many */

/* Of OPTIONS that have a cli_net_shape called `shape`. `auto_classes` ends the sentence "auto is ...". */
#define CLI_NET_SHAPE_OPTIONS(auto_classes)                                                                  \
    CLI_WITHIN(shape, AUTO_INT, classes, .default_text = "auto", .min = 1, .max = 65535, .argument = "N",    \
               .help = "Number of classes; 1 is foreground against background, auto is " auto_classes),      \
        CLI_WITHIN(shape, INT, batch, .default_text = "4", .min = 1, .max = 65536, .argument = "N",          \
                   .help = "Pictures per batch"),                                                            \
        CLI_WITHIN(shape, SIZE, size, .default_text = "256", .argument = "N|HxW",                            \
                   .help = "Size of a picture, 29x29 to 32768x32768"),                                       \
        CLI_WITHIN(shape, INT, threads, .default_text = "0", .min = 0, .max = 1024, .argument = "N",         \
                   .help = "Threads; 0 takes all usable cores")

#endif
